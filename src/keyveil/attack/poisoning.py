"""Hostile devices among honest ones: how far they move a key, against the printed bound.

What is measured is exact: the estimate of all reports less that of the honest ones among them. The bound is
that of `estimate.influence` at the honest estimate, so a maximal-gain attack meets it and nothing passes it.
Every attack is shown to the tests of `audit.reports` as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.attack.attempt import Attempt
from keyveil.attack.hostile import Orders, random_message, random_pair, say
from keyveil.audit.reports import Verdict, examine
from keyveil.errors import MechanismError, TallyError
from keyveil.estimate import Lever, estimate, lever
from keyveil.estimate.influence import check_share
from keyveil.mechanisms import (
    Bits,
    EncodedOracle,
    IndexedBoundary,
    Mechanism,
    Selection,
    SignedUnary,
    UeSw,
    is_key_value,
)
from keyveil.mechanisms.channel import share as debiased_share
from keyveil.simulate.answers import Answers
from keyveil.tally import Counter, Tally, trace_answers
from keyveil.tally.count import refuse_first
from keyveil.tally.trace import pack_many

Floats = NDArray[np.float64]
QUESTION = "attack"

UNSEEN = "drawn as an honest device would: no test can see it"
IMITATED = "imitates the noise in all but its targets: bounded, not detectable in general"
ASSIGNED = "if the collector gives out report ids"


class Counted(NamedTuple):
    """Reports, counted once."""

    tally: Tally
    trace: Tally

    @classmethod
    def of(cls, mechanism: Mechanism, answers: Answers) -> Counted:
        """What decoded answers say, and what they show beside it."""
        counter, packed = Counter(mechanism, question=QUESTION), pack_many(mechanism.layout, answers)
        refuse_first(mechanism.layout.decode, packed, counter.add(packed))
        return cls(counter.tally(), trace_answers(mechanism, answers, question=QUESTION))


class Poisoned(NamedTuple):
    """Estimates of the honest reports and of all, and what the tests say of all."""

    honest: tuple[Floats, Floats]
    all: tuple[Floats, Floats]
    verdict: Verdict


def poisoning(
    mechanism: Mechanism,
    honest: Counted,
    share: float,
    targets: tuple[int, ...],
    rng: np.random.Generator,
) -> Iterator[Attempt]:
    """Every poisoning attack that the mechanism allows, with a hostile share among all devices.

    >>> from keyveil.mechanisms import build
    >>> from keyveil.simulate import insecure_generator, synthetic
    >>> from keyveil.simulate.answers import draw_answers
    >>> m, rng = build("pckv-ue", 1, n_keys=20), insecure_generator(1)
    >>> people = Counted.of(m, draw_answers(m, synthetic(users=5000, keys=20), rng))
    >>> gain = next(a for a in poisoning(m, people, 0.05, (3,), rng) if a.name == "maximal gain")
    >>> round(gain.success / gain.bound, 3), gain.alarm
    (1.0, True)
    """
    check_targets(mechanism, targets)
    pull, lies = lever(mechanism), hostile_reports(honest.tally.n_reports, share)
    real = lies / (honest.tally.n_reports + lies)
    for name, drawn, note in (
        ("random message", random_message, ""),
        ("random pair", random_pair, UNSEEN),
    ):
        moved = poisoned(mechanism, honest, drawn(mechanism, lies, rng))
        bound = pull.shift(*moved.honest, real).frequency
        shift = np.abs(moved.all[0] - moved.honest[0])
        worst = int(np.argmax(shift))
        yield _attempt(name, moved, float(shift[worst]), float(bound[worst]), "frequency", worst, note)
    for name, hidden, asked, note in _gains(mechanism):
        listened = lever(asked)
        orders = Orders(
            targets=targets,
            said=max(listened.says, key=listened.of_report),
            reports=lies,
            hidden=hidden,
        )
        moved = poisoned(mechanism, honest, say(asked, orders, rng))
        bound = listened.shift(*moved.honest, real).frequency_up
        for target in targets:
            gain = float((moved.all[0] - moved.honest[0])[target])
            yield _attempt(name, moved, gain, float(bound[target]), "frequency", target, note)
    if pull.signed is not None:
        for target in targets:
            yield from _mean_attacks(mechanism, honest, pull, lies, target, rng)


class Gain(NamedTuple):
    """What a release would print, and what the maximal attack makes of it on average."""

    bound: float
    reached: float
    error: float
    """The standard error of `reached`."""


def average_gain(
    mechanism: Mechanism, honest: Tally, lies: int, target: int, rng: np.random.Generator, *, runs: int
) -> Gain:
    """How far so many liars lift one key, drawn `runs` times beside the same honest reports.

    What an id gives them is luck, so one draw says little: of 10,000 liars and 100 keys 100 have the key.
    """
    pull, (frequency, mean) = lever(mechanism), read(mechanism, honest)
    orders = Orders(targets=(target,), said=max(pull.says, key=pull.of_report), reports=lies)
    moved = np.empty(runs)
    for run in range(runs):
        both = honest + Counted.of(mechanism, say(mechanism, orders, rng)).tally
        moved[run] = read(mechanism, both)[0][target] - frequency[target]
    bound = pull.shift(frequency, mean, lies / (honest.n_reports + lies)).frequency_up[target]
    return Gain(float(bound), float(moved.mean()), float(moved.std(ddof=1) / np.sqrt(runs)))


def hostile_reports(honest: int, share: float) -> int:
    """How many hostile reports make this share of all, beside so many honest ones; at least one."""
    check_share(share)
    if honest < 1:
        raise TallyError("a campaign without reports cannot be poisoned; collect or simulate some first")
    return max(1, round(honest * share / (1 - share)))


def poisoned(mechanism: Mechanism, honest: Counted, hostile: Answers) -> Poisoned:
    """What hostile answers make of honest ones."""
    lies = Counted.of(mechanism, hostile)
    after = honest.tally + lies.tally
    verdict = examine(mechanism, honest.trace + lies.trace, after)
    return Poisoned(read(mechanism, honest.tally), read(mechanism, after), verdict)


@singledispatch
def read(mechanism: Any, tally: Tally) -> tuple[Floats, Floats]:
    """Frequencies and means as the protocols read them off a tally; NaN where a mean is not linear."""
    if is_key_value(mechanism):
        found = estimate(mechanism, tally)
        return found.frequency, found.mean
    d, cells, n = mechanism.n_keys, tally.cells, tally.n_reports
    asked = cells.get("asked", np.full(d, n))
    if isinstance(mechanism, UeSw | IndexedBoundary):
        heard = cells["bins"].sum(axis=1)[:d]
    elif isinstance(mechanism, EncodedOracle):
        heard = cells["support"][:d]
    else:
        heard = tally.plus + tally.minus
    return debiased_frequency(mechanism, heard, asked), np.full(d, np.nan)


def debiased_frequency(mechanism: Mechanism, heard: Any, asked: Any) -> Floats:
    """The unbiased frequency of keys that were heard so often."""
    frequency: Floats = debiased_share(
        float(mechanism.a), float(mechanism.b), heard, np.maximum(asked, 1), mechanism.pairs_per_user
    )
    return frequency


def check_targets(mechanism: Mechanism, targets: tuple[int, ...]) -> None:
    """Refuse to aim at nothing, and at keys that are not asked about."""
    if not targets:
        raise MechanismError("expected a target or more, got none")
    for target in targets:
        if not 0 <= target < mechanism.n_keys:
            raise MechanismError(f"expected targets from 0 to {mechanism.n_keys - 1}, got {target}")


def has_rest(mechanism: Mechanism) -> bool:
    """Whether a report speaks of many keys at once, so that hostile ones can hide in the noise."""
    oracle = getattr(mechanism, "oracle", None)
    return isinstance(mechanism, SignedUnary | UeSw) or isinstance(oracle, Bits | Selection)


def _gains(mechanism: Mechanism) -> Iterator[tuple[str, bool, Mechanism, str]]:
    """Names of maximal-gain attacks, whether they hide, what they are asked by, and a remark."""
    yield "maximal gain", False, mechanism, ""
    if has_rest(mechanism):
        yield "maximal gain, hidden", True, mechanism, IMITATED
    if (given := mechanism.with_issued_ids()) is not mechanism:
        yield "maximal gain, ids given", False, given, ASSIGNED


def _mean_attacks(
    mechanism: Mechanism, honest: Counted, pull: Lever, lies: int, target: int, rng: np.random.Generator
) -> Iterator[Attempt]:
    """Up and down, by whatever report moves the mean of this key furthest."""
    real = lies / (honest.tally.n_reports + lies)
    frequency, mean = read(mechanism, honest.tally)
    shift = pull.shift(frequency, mean, real)
    for name, up, bounds in (("mean up", True, shift.mean_up), ("mean down", False, shift.mean_down)):
        said, part = pull.plan(frequency[target], float(np.nan_to_num(mean[target])), real, up=up)
        # As many as make this part of the reports that are asked about the key.
        reports = max(1, round(part / (1 - part) * pull.asked * honest.tally.n_reports))
        orders = Orders(targets=(target,), said=said, reports=min(reports, lies))
        moved = poisoned(mechanism, honest, say(mechanism, orders, rng))
        gain = (_published(moved.all[1][target]) - _published(mean[target])) * (1 if up else -1)
        yield _attempt(name, moved, float(gain), float(bounds[target]), "mean", target, "")


def _published(mean: float) -> float:
    """A mean cut to its range, 0 where there is none."""
    return min(1.0, max(-1.0, float(np.nan_to_num(mean))))


def _attempt(
    name: str, moved: Poisoned, success: float, bound: float, unit: str, target: int, note: str
) -> Attempt:
    verdict = moved.verdict
    found = verdict.findings[0].what if verdict.alarm else ""
    return Attempt(
        kind="poisoning",
        name=name,
        success=success,
        bound=bound,
        unit=unit,
        about=str(target),
        alarm=verdict.alarm,
        p=verdict.p,
        note="; ".join(part for part in (note, found) if part),
    )
