"""Sliders: users, keys, epsilon, pairs per user and wanted error; four are given, the fifth is solved for.

Users, epsilon and the error are `keyveil.plan`'s own to solve; where a relay hides reports epsilon is the
central one, which is promised. How many keys, or how many pairs a user,
can be asked about is found by halving: the largest number met on the way whose error is small enough.

What `auto` would publish is not predicted here: its rounds take longer than a slider may. `keyveil plan`
plays them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

from keyveil.errors import PlanError
from keyveil.numerics import epsilon_above
from keyveil.plan import Candidate, Central, Crowd, Prediction, candidates, even_sizes, make_plan
from keyveil.plan.choice import Allowed
from keyveil.plan.series import SeriesPlan
from keyveil.series import MOST_WAVES
from keyveil.shuffle.best import STEPS

MOST_KEYS, MOST_PAIRS = 100_000, 64
_CURVE_POINTS = 17
_CURVES = 6
# An epsilon is shown among others up to so many times as large and as small.
_AROUND, _EPSILONS = 8.0, 9
_EPSILON = (0.05, 12.0)
# Keys that many, some and few hold.
_POPULAR = (0.2, 0.05, 0.01)


class PlanQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the sliders stand; the value of what is solved for does not count."""

    solve: Literal["users", "keys", "epsilon", "pairs_per_user", "error"] = "error"
    users: Annotated[int, msgspec.Meta(ge=1, le=10**10)] = 100_000
    keys: Annotated[int, msgspec.Meta(ge=1, le=MOST_KEYS)] = 100
    epsilon: Annotated[float, msgspec.Meta(ge=0.05, le=12)] = 1.0
    pairs_per_user: Annotated[int, msgspec.Meta(ge=1, le=MOST_PAIRS)] = 1
    error: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 0.01
    skew: Annotated[float, msgspec.Meta(ge=0, le=5)] = 1.0
    want: Literal["frequency", "mean", "distribution"] = "frequency"
    relay: bool = False
    """Whether a relay hides reports: epsilon is then the central one, and the local ones follow from it."""
    delta: Annotated[float, msgspec.Meta(gt=0, lt=1)] = 1e-8
    batch: Annotated[int, msgspec.Meta(ge=2, le=2**31)] | None = None
    honest: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.5
    waves: Annotated[int, msgspec.Meta(ge=1, le=MOST_WAVES)] = 1
    """Of a series, of whose waves one is planned; `users` and `epsilon` are those of a wave."""
    answers: Annotated[int, msgspec.Meta(ge=1, le=MOST_WAVES)] = 1


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A mechanism's error against the number of users."""

    label: str
    errors: list[float]


class AtEpsilon(msgspec.Struct, frozen=True, kw_only=True):
    """The best mechanism at another epsilon, and its error."""

    epsilon: float
    label: str
    error: float


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """What a campaign file must say to be asked in one of the ways that the plan ranks."""

    label: str
    tells_means: bool
    fields: dict[str, Any]


class PlanAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The plan, where the sliders stand now, the curve around it, and the campaigns that it leads to."""

    solved: dict[str, float]
    """All five, the one that was solved for among them."""
    plan: dict[str, Any]
    users: list[int]
    curves: list[Curve]
    epsilons: list[AtEpsilon]
    """Around the epsilon of the plan, which is among them; none where a relay hides reports."""
    drafts: list[Draft]
    """One for every candidate, best first; then `auto`, which chooses by itself."""
    smallest_changes: list[tuple[float, float]]
    """Of a series: frequencies of keys, and the step in the middle of it that is seen nine times in ten."""


@lru_cache(maxsize=256)
def answer(asked: PlanQuestion) -> PlanAnswer:
    """The plan for where the sliders stand; PlanError where nothing reaches what is wanted.

    >>> answer(PlanQuestion(solve="users", error=0.01)).solved["users"] > 1000
    True
    """
    if asked.solve == "keys":
        most = _most(lambda keys: _changed(asked, keys=keys), MOST_KEYS, "key")
        asked = _changed(asked, keys=most)
    elif asked.solve == "pairs_per_user":
        most = _most(lambda pairs: _changed(asked, pairs_per_user=pairs), MOST_PAIRS, "pair a user")
        asked = _changed(asked, pairs_per_user=most)
    if asked.relay and asked.solve == "epsilon":
        raise PlanError("a central epsilon is promised, not solved for; solve for users or the error instead")
    crowd, central = _crowd(asked), _central(asked)
    made = make_plan(
        crowd,
        epsilon=None if central is not None or asked.solve == "epsilon" else asked.epsilon,
        users=None if asked.solve == "users" else asked.users,
        error=None if asked.solve == "error" else asked.error,
        want=asked.want,
        central=central,
    )
    first = made.choice
    crowd = replace(crowd, users=first.users)
    users = np.unique(np.geomspace(max(10, crowd.users / 30), crowd.users * 30, _CURVE_POINTS).round())
    ranked = candidates(_budget(asked, first.users, first.epsilon), crowd, want=asked.want, at=None)
    relayed = {} if central is None else central.to_campaign(first.users)
    return PlanAnswer(
        solved={
            "users": first.users,
            "keys": asked.keys,
            "epsilon": first.epsilon if central is None else central.epsilon,
            "pairs_per_user": asked.pairs_per_user,
            "error": made.error if asked.solve == "error" else asked.error,
        },
        plan=made.to_fields(),
        users=users.astype(int).tolist(),
        curves=[_curve(candidate, crowd, users, asked.want) for candidate in ranked[:_CURVES]],
        epsilons=[] if asked.relay else _epsilons(first.epsilon, crowd, asked.want),
        drafts=[*(_draft(each, relayed) for each in ranked), _planned(asked, first, ranked, relayed)],
        smallest_changes=_smallest_changes(asked, crowd, first.epsilon),
    )


def _smallest_changes(asked: PlanQuestion, crowd: Crowd, epsilon: float) -> list[tuple[float, float]]:
    """By the best mechanism for frequencies; nothing where it is asked once, or through a relay."""
    if asked.waves < 2 or asked.relay:
        return []
    series = SeriesPlan(
        devices=crowd.users * asked.waves // asked.answers,
        n_keys=crowd.n_keys,
        epsilon=epsilon * asked.answers,
        waves=asked.waves,
        answers=asked.answers,
        law=crowd.law,
    )
    return [(frequency, series.smallest_change(frequency)) for frequency in _POPULAR]


def _central(asked: PlanQuestion) -> Central | None:
    """What is promised where a relay hides reports."""
    if not asked.relay:
        return None
    return Central(epsilon=asked.epsilon, delta=asked.delta, batch=asked.batch, honest=asked.honest)


def _budget(asked: PlanQuestion, users: int, epsilon: float) -> float | Allowed:
    """The epsilon of every candidate, or what is allowed each."""
    central = _central(asked)
    return epsilon if central is None else central.allowance(users)


def _draft(candidate: Candidate, relayed: dict[str, Any]) -> Draft:
    return Draft(
        label=_label(candidate),
        tells_means=candidate.tells_means,
        fields={
            "mechanism": candidate.name,
            "epsilon": candidate.epsilon,
            "pairs_per_user": candidate.mechanism.pairs_per_user,
            **candidate.options,
            **relayed,
        },
    )


def _planned(
    asked: PlanQuestion, first: Prediction, ranked: list[Candidate], relayed: dict[str, Any]
) -> Draft:
    """`auto`, which knows what is wanted, and what each of its groups may be asked."""
    most = max(epsilon_above(each.mechanism.loss) for each in ranked)
    fields = {
        "mechanism": "auto",
        "epsilon": math.ceil(STEPS * most) / STEPS if relayed else first.epsilon,
        "pairs_per_user": asked.pairs_per_user,
        "users": first.users,
        "want": asked.want,
        **relayed,
    }
    return Draft(
        label="auto, chosen by what the first round tells",
        tells_means=asked.want != "frequency",
        fields=fields,
    )


def _curve(candidate: Candidate, crowd: Crowd, users: Any, want: str) -> Curve:
    errors = [candidate.error(replace(crowd, users=int(n)), want, None, 50) for n in users]
    return Curve(label=_label(candidate), errors=errors)


def _epsilons(epsilon: float, crowd: Crowd, want: str) -> list[AtEpsilon]:
    """What the same people would make known at other prices."""
    around = epsilon * np.geomspace(1 / _AROUND, _AROUND, _EPSILONS)
    found = []
    for each in np.unique(np.clip(around, *_EPSILON)).tolist():
        best = candidates(each, crowd, want=want, at=None)[0]
        found.append(AtEpsilon(epsilon=each, label=_label(best), error=best.error(crowd, want, None, 50)))
    return found


def _label(candidate: Candidate) -> str:
    return f"{candidate.label}, l = {candidate.mechanism.pairs_per_user}"


def _changed(asked: PlanQuestion, **changes: Any) -> PlanQuestion:
    """The question with other values."""
    return msgspec.structs.replace(asked, **changes)


def _most(at: Callable[[int], PlanQuestion], largest: int, what: str) -> int:
    """The largest number, to three digits, whose error is small enough."""

    def is_met(number: int) -> bool:
        return _error(at(number)) <= at(number).error

    if not is_met(1):
        raise PlanError(
            f"even one {what} has an error of {_error(at(1)):.2g}, more than the {at(1).error:g} that is "
            "wanted; it takes more users, a larger epsilon, or a larger error"
        )
    if is_met(largest):
        return largest
    low, high = 1, largest
    while high - low > max(1, low // 500):
        middle = round((low * high) ** 0.5)
        middle = min(max(middle, low + 1), high - 1)
        low, high = (middle, high) if is_met(middle) else (low, middle)
    return low


def _error(asked: PlanQuestion) -> float:
    crowd, budget = _crowd(asked), _budget(asked, asked.users, asked.epsilon)
    return candidates(budget, crowd, want=asked.want, at=None)[0].error(crowd, asked.want, None, 50)


def _crowd(asked: PlanQuestion) -> Crowd:
    most = min(asked.pairs_per_user, asked.keys)
    return Crowd(users=asked.users, n_keys=asked.keys, law=even_sizes(most), skew=asked.skew)
