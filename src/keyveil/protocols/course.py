"""What the rounds of `auto` say, each read once, from the rounds as they were opened.

Nothing here decides what is asked next; `auto` does, from what it finds here.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from keyveil.estimate import Estimates, estimate
from keyveil.estimate.shrink import NO_ANCHOR, Anchor, Evidence, Shrunk, Total, shrink
from keyveil.estimate.sizes import SizeLaw, Truncation, class_ends
from keyveil.mechanisms import Bucket, EncodedOracle, SizeClass
from keyveil.mechanisms.base import AsksOneKey
from keyveil.mechanisms.channel import share
from keyveil.plan import Crowd
from keyveil.protocols.base import History, require_reports
from keyveil.rounds import Round
from keyveil.tally import Tally

if TYPE_CHECKING:
    from keyveil.protocols.auto import Auto


class Discovered(NamedTuple):
    """What `discover` found: unbiased frequencies, what they say, and what they say together."""

    raw: Estimates
    seen: Evidence
    shrunk: Shrunk


class Measured(NamedTuple):
    """What `collect` or `measure` found, about whole or cut records."""

    round: Round
    raw: Estimates
    seen: Evidence
    cut: Truncation


class Course:
    """What the rounds so far say, each read once, from the rounds as they were opened."""

    def __init__(self, protocol: Auto, history: History) -> None:
        self._protocol, self._heard = protocol, {round.purpose: (round, tally) for round, tally in history}
        self.n_rounds = len(history)

    def _told(self, purpose: str) -> tuple[Round, Tally] | None:
        """A round that somebody answered, and its tally."""
        found = self._heard.get(purpose)
        return None if found is None or found[1].n_reports == 0 else found

    @cached_property
    def law(self) -> SizeLaw:
        """How many pairs users hold."""
        if not self._protocol.holds_several:
            return self._values[1]
        if (found := self._told("sizes")) is None:
            return SizeLaw.exactly(self._protocol.pairs_per_user)
        return SizeLaw.told(_encoded(found[0]), found[1])

    @cached_property
    def law_of_candidates(self) -> SizeLaw:
        """How many of the candidates users hold."""
        found = self._told("overlap")
        return self.law if found is None else SizeLaw.told(_encoded(found[0]), found[1])

    @property
    def anchor(self) -> Anchor:
        """Where means lie on the whole."""
        return self._values[0]

    @cached_property
    def _values(self) -> tuple[Anchor, SizeLaw]:
        """The mean of one value a user, and how many hold any."""
        if (found := self._told("values")) is None:
            return NO_ANCHOR, SizeLaw.exactly(1)
        oracle, n = found[0].mechanism, found[1].n_reports
        a, b = float(oracle.a), float(oracle.b)
        _, plus, minus = share(a, b, found[1].cells["support"], n)
        held = min(1.0, max(plus + minus, 0.05))
        error = math.sqrt((2 * b + (a - b) * held) / n) / (a - b)
        mean = min(1.0, max(-1.0, (plus - minus) / held))
        sizes, shares = np.array([0.0, 1.0]), np.array([1 - held, held])
        return Anchor(mean, error / held), SizeLaw(sizes=sizes, shares=shares, mean_error=error)

    @cached_property
    def discovered(self) -> Discovered:
        """The frequencies of all keys, before the candidates are measured."""
        round, tally = self._heard["discover"]
        require_reports(round, tally)
        assert isinstance(round.mechanism, Bucket)
        raw = estimate(round.mechanism, tally).told_within(round.size)
        seen = Evidence.of(raw, Truncation(law=self.law, l=round.mechanism.pairs_per_user))
        return Discovered(raw, seen, shrink(seen, total=total(self.law), top=self._protocol.top))

    def candidates(self) -> tuple[int, ...]:
        """The keys that may well belong to the top."""
        in_top, top, tuning = self.discovered.shrunk.in_top, self._protocol.top, self._protocol.tuning
        count = min(
            max(int((in_top > tuning.likely).sum()), 2 * top), tuning.most_candidates, self._protocol.n_keys
        )
        return tuple(sorted(np.argsort(-in_top, kind="stable")[:count].tolist()))

    @cached_property
    def measured(self) -> Measured:
        """What the main round says, before truncation was checked."""
        round, tally = self._heard.get("collect") or self._heard["measure"]
        mechanism, law = round.mechanism, self.law if round.keys is None else self.law_of_candidates
        raw = estimate(mechanism, tally).told_within(round.size)  # type: ignore[arg-type]
        # A mechanism that asks about one key cuts no record.
        l = mechanism.n_keys if isinstance(mechanism, AsksOneKey) else mechanism.pairs_per_user
        cut = Truncation(law=law, l=l)
        return Measured(round, raw, Evidence.of(raw, cut), cut)

    @cached_property
    def checked(self) -> Measured:
        """The same, with what those who checked say about truncation."""
        main, found = self.measured, self._told("check")
        if found is None:
            return main
        cut = main.cut.checked(_encoded(found[0]), found[1], main.seen.frequency)
        return main._replace(cut=cut, seen=replace(main.seen, truncation=cut))

    @property
    def notes(self) -> tuple[str, ...]:
        """What did not go as planned."""
        notes: list[str] = []
        protocol = self._protocol
        if "sizes" in self._heard:
            found = self._told("sizes")
            if found is None:
                notes.append(f"nobody told a size; {protocol.pairs_per_user} pairs are taken for it")
            else:
                notes += other_sizes(protocol, _encoded(found[0]), self.law, found[1].n_reports)
        first = self.discovered if "discover" in self._heard else self.measured
        return (*notes, *other_skew(protocol, first.raw, first.seen.truncation))


def _encoded(round: Round) -> EncodedOracle:
    assert isinstance(round.mechanism, EncodedOracle)
    return round.mechanism


def total(law: SizeLaw) -> Total:
    """How many pairs there are in all, a user, and how sure that is."""
    return Total(law.mean, max(law.mean_error, 1e-9))


# --- what contradicts what was declared ---


def other_sizes(protocol: Auto, mechanism: EncodedOracle, law: SizeLaw, reports: int) -> list[str]:
    """What contradicts the declared number of pairs, that of nine users in ten."""
    assert isinstance(mechanism.encoder, SizeClass)
    largest, odds, declared = (
        class_ends(mechanism.encoder.starts),
        float(mechanism.loss),
        protocol.pairs_per_user,
    )
    tuning = protocol.tuning
    error = tuning.surely * (odds + 1) / (odds - 1) / math.sqrt(reports)
    said = f"pairs_per_user is {declared}, but "
    if law.shares[largest > declared / tuning.other_sizes].sum() < 0.1 and error < 0.1:
        return [f"{said}nine users in ten hold at most half of that"]
    if law.shares[largest >= tuning.other_sizes * declared].sum() > max(0.1, error):
        return [f"{said}more than one user in ten holds about twice as many or more"]
    return []


def other_skew(protocol: Auto, raw: Estimates, cut: Truncation) -> list[str]:
    """What contradicts the assumed skew: how frequent the key of a typical pair is.

    That is sum f**2 / sum f. Squared estimates exceed squares by their variance; a twentieth of it
    may be wrong.
    """
    crowd = Crowd(users=protocol.users, n_keys=protocol.n_keys, law=cut.law, skew=protocol.skew)
    share = cut.share(crowd.frequency)
    whole = max(float(crowd.counts @ share), 1e-12)
    variance = np.where(np.isfinite(raw.frequency_se), raw.frequency_se, 0.0) ** 2
    squares = float(np.sum(raw.frequency**2 - variance))
    noise = 2 * np.sum(variance**2) + 4 * max(squares, 0.0) * variance.mean() + (variance.sum() / 20) ** 2
    surely, factor = protocol.tuning.surely, protocol.tuning.other_skew
    seen, error = max(squares, 0.0) / whole, surely * math.sqrt(float(noise)) / whole
    assumed = float(crowd.counts @ share**2) / whole
    if assumed / factor <= seen + error and seen - error <= assumed * factor:
        return []
    return [
        f"with a skew of {protocol.skew:g} the key of a typical pair would have frequency {assumed:.2g}, "
        f"found was {seen:.2g}"
    ]
