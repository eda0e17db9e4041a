"""auto: the planner's choice, with small groups that learn what the choice and the estimates need.

Every user is in one group and answers once, with the whole budget:

    sizes      3 %, where records may hold several pairs: how many pairs a user holds, in classes
    values     at most 5 %: the sign of one value; anchors the means where keys say little themselves
    collect    the rest, by the mechanism and padding length that promise least error for these sizes
    check      2 %, where records are cut: how long the records are that hold popular keys

With long records (a padding length of 5 and more) two rounds take the place of `collect`:

    discover   half of those left: frequencies alone (both signs of a key share their bucket)
    overlap    2 %: how many of the candidates a user holds
    measure    the rest, about the candidates only, so with shorter records

Candidates are the keys that may well belong to the top. Nothing of `discover` is thrown away: what it
says about a candidate is multiplied into what `measure` says.

The outcome's raw numbers are the unbiased ones of `collect` (or of `measure`, and of `discover` for
keys that are no candidates); where records are cut, taken through `untruncate` (the size model), so
that intervals are about whole records. What is published went through `shrink` as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import ProtocolError
from keyveil.estimate import Estimates, Lever, Levers, estimate
from keyveil.estimate.shrink import NO_ANCHOR, TYPICAL_SPREAD, Anchor, Earlier, Evidence, Prior, Total, shrink
from keyveil.estimate.sizes import SizeLaw, Truncation, class_ends, size_classes
from keyveil.estimate.whole import Truncations, untruncate
from keyveil.mechanisms import (
    Bucket,
    EncodedOracle,
    Mechanism,
    OwnSign,
    PopularSize,
    Response,
    SizeClass,
    Wave,
)
from keyveil.mechanisms.base import check_size
from keyveil.mechanisms.channel import share
from keyveil.numerics import parse_epsilon
from keyveil.plan import Choice, Crowd, best
from keyveil.plan.choice import WANTS, cohorts
from keyveil.protocols.base import Group, Outcome, Round, check_answer, require_reports
from keyveil.protocols.ks_grr import widen
from keyveil.tally import Tally

Floats = NDArray[np.float64]

SIZES, OVERLAP, CHECK = Fraction(3, 100), Fraction(2, 100), Fraction(2, 100)
MOST_VALUES = Fraction(5, 100)
# From this padding length on two rounds beat one; fewer keys than this many tops are all candidates.
LONG, FEW_TOPS = 5, 10
LIKELY, MOST_CANDIDATES = 0.002, 3000
# Of those who check, nobody is heard for more popular pairs than this many times the mean.
MOST_POPULAR = 2.5
# Above this many classes a wave tells sizes better than randomized response does.
FEW_CLASSES = 9
# Users of the value group, if each told the plain truth; and the error that is good enough without one.
ANCHORS, ANCHORED = 200, 0.04
# Sizes and skew are contradicted by factors this large, beyond this many standard errors.
OTHER_SIZES, OTHER_SKEW, SURELY = 2, 3, 3
TRUNCATED = "records are cut; frequencies are brought back to whole ones, and their errors allow for it"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Found:
    """What the rounds so far found."""

    law: SizeLaw
    anchor: Anchor = NO_ANCHOR
    choice: Choice | None = None
    discovered: Evidence | None = None
    raw: Estimates | None = None
    prior: Prior | None = None
    evidence: Evidence | None = None
    keys: tuple[int, ...] | None = None
    notes: tuple[str, ...] = ()

    def noting(self, *notes: str) -> _Found:
        return replace(self, notes=(*self.notes, *notes))

    @property
    def cut(self) -> Truncation | Truncations:
        """How records were cut in the rounds that `raw` comes from."""
        assert self.choice is not None
        if self.keys is None:
            return self.choice.truncation
        assert self.discovered is not None
        assert self.raw is not None
        rest = np.ones(self.raw.frequency.size, dtype=np.bool_)
        rest[list(self.keys)] = False
        return Truncations(here=rest, first=self.discovered.truncation, second=self.choice.truncation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Sizes, values, then what suits them.

    >>> protocol = Auto(epsilon=Fraction(1), n_keys=50, users=10_000, pairs_per_user=3)
    >>> [stage.purpose for stage in protocol.stages()]
    ['sizes', 'values', 'collect', 'check']
    """

    epsilon: Fraction
    n_keys: int
    users: int
    pairs_per_user: int = 1
    """How many pairs nine users in ten hold at most; 1 if nobody may hold more than one."""
    top: int = 50
    want: str = "both"
    skew: float = 1.0
    rounds: int = 0
    """1 or 2 to fix it, 0 to let the sizes decide."""
    id: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_size(self.n_keys, self.pairs_per_user)
        if self.users < 1 or self.top < 1:
            raise ProtocolError(f"users and top must be at least 1, got {self.users} and {self.top}")
        if self.want not in WANTS:
            raise ProtocolError(f'want must be one of {", ".join(WANTS)}, got "{self.want}"')
        if self.rounds not in (0, 1, 2):
            raise ProtocolError(f"rounds must be 0 (as suits the sizes), 1 or 2, got {self.rounds}")

    # --- who is asked what ---

    @property
    def holds_several(self) -> bool:
        """Whether a record may hold more than one pair."""
        return self.pairs_per_user > 1 and self.n_keys > 1

    def _size_group(self) -> Group:
        return Fraction(0), SIZES if self.holds_several else Fraction(0)

    def _value_group(self) -> Group:
        low = self._size_group()[1]
        told = math.tanh(float(self.epsilon) / 2) ** 2
        return low, low + min(MOST_VALUES, Fraction(round(ANCHORS / told), self.users))

    def _round(self, purpose: str, mechanism: Mechanism, group: Group, **known: Any) -> Round:
        return Round(protocol=self.id, purpose=purpose, mechanism=mechanism, group=group, **known)

    def _after(self, round: Round, purpose: str, mechanism: Mechanism, group: Group, found: _Found) -> Round:
        """The round that follows another, about the candidates if there are any."""
        return self._round(
            purpose,
            mechanism,
            group,
            campaign=round.campaign,
            number=round.number + 1,
            keys=found.keys,
            found=found,
        )

    def start(self, campaign: str) -> Round:
        """Sizes, or values where there is nothing to learn about sizes."""
        if not self.holds_several:
            return self._values(campaign, 1, _Found(law=SizeLaw.exactly(1)))
        mechanism = self._size_mechanism(self.n_keys, self.pairs_per_user)
        return self._round("sizes", mechanism, self._size_group(), campaign=campaign, number=1)

    def stages(self) -> tuple[Round, ...]:
        """All rounds of one course, with stand-ins: everybody is in one group, so epsilon is any round's."""
        first = self.start("stage")
        law = SizeLaw.exactly(self.pairs_per_user)
        stages = [first] if first.purpose == "values" else [first, self._values("stage", 2, _Found(law=law))]
        found = _Found(law=law)
        main = self._main("stage", len(stages) + 1, found, self._value_group()[1])
        stages.append(main)
        if main.purpose == "discover":
            keys = tuple(range(min(self.n_keys, 2 * self.top)))
            found = replace(main.found, keys=keys)
            overlap = self._overlap(main, found)
            stages += [overlap, self._measure(overlap, found, law)]
        if self.holds_several:
            # Whoever may be asked to check belongs to no other group.
            last = replace(stages[-1], group=(stages[-1].group[0], 1 - CHECK))
            check = self._check(last, replace(found, choice=last.found.choice), (0,), 1.0)
            stages[-1:] = [last, check]
        return tuple(stages)

    def next(self, round: Round, tally: Tally) -> Round | Outcome:
        """What follows once a round's tally is in."""
        check_answer(self, round, tally)
        step = {
            "sizes": self._after_sizes,
            "values": self._after_values,
            "discover": self._after_discover,
            "overlap": self._after_overlap,
            "collect": self._after_main,
            "measure": self._after_main,
            "check": self._after_check,
        }[round.purpose]
        return step(round, tally)

    # --- the small groups ---

    def _size_mechanism(self, n_keys: int, typical: int) -> EncodedOracle:
        starts = size_classes(min(2 * typical, n_keys))
        few = len(starts) <= FEW_CLASSES
        oracle = (Response if few else Wave).for_epsilon(self.epsilon, len(starts))
        return EncodedOracle(encoder=SizeClass(n_keys=n_keys, starts=starts), oracle=oracle)

    def _after_sizes(self, round: Round, tally: Tally) -> Round:
        assert isinstance(round.mechanism, EncodedOracle)
        if tally.n_reports == 0:
            law = SizeLaw.exactly(self.pairs_per_user)
            found = _Found(
                law=law, notes=(f"nobody told a size; {self.pairs_per_user} pairs are taken for it",)
            )
        else:
            law = SizeLaw.told(round.mechanism, tally)
            found = _Found(law=law).noting(*self._other_sizes(round.mechanism, law, tally.n_reports))
        if self._means_anchor_themselves(law):
            return self._main(round.campaign, 2, found, round.group[1])
        return self._values(round.campaign, 2, found)

    def _other_sizes(self, mechanism: EncodedOracle, law: SizeLaw, reports: int) -> list[str]:
        """What contradicts the declared number of pairs, that of nine users in ten."""
        assert isinstance(mechanism.encoder, SizeClass)
        largest, odds, declared = (
            class_ends(mechanism.encoder.starts),
            float(mechanism.loss),
            self.pairs_per_user,
        )
        error = SURELY * (odds + 1) / (odds - 1) / math.sqrt(reports)
        said = f"pairs_per_user is {declared}, but "
        if law.shares[largest > declared / OTHER_SIZES].sum() < 0.1 and error < 0.1:
            return [f"{said}nine users in ten hold at most half of that"]
        if law.shares[largest >= OTHER_SIZES * declared].sum() > max(0.1, error):
            return [f"{said}more than one user in ten holds about twice as many or more"]
        return []

    def _other_skew(self, raw: Estimates, cut: Truncation) -> list[str]:
        """What contradicts the assumed skew: how frequent the key of a typical pair is.

        That is sum f**2 / sum f. Squared estimates exceed squares by their variance; a twentieth of it
        may be wrong.
        """
        crowd = Crowd(users=self.users, n_keys=self.n_keys, law=cut.law, skew=self.skew)
        share = cut.share(crowd.frequency)
        whole = max(float(crowd.counts @ share), 1e-12)
        variance = np.where(np.isfinite(raw.frequency_se), raw.frequency_se, 0.0) ** 2
        squares = float(np.sum(raw.frequency**2 - variance))
        noise = 2 * np.sum(variance**2) + 4 * max(squares, 0.0) * variance.mean() + (variance.sum() / 20) ** 2
        seen, error = max(squares, 0.0) / whole, SURELY * math.sqrt(float(noise)) / whole
        assumed = float(crowd.counts @ share**2) / whole
        if assumed / OTHER_SKEW <= seen + error and seen - error <= assumed * OTHER_SKEW:
            return []
        return [
            f"with a skew of {self.skew:g} the key of a typical pair would have frequency {assumed:.2g}, "
            f"found was {seen:.2g}"
        ]

    def _means_anchor_themselves(self, law: SizeLaw) -> bool:
        """Whether the keys together will tell where means lie, so that no group need be spent on it."""
        crowd = Crowd(users=self.users, n_keys=self.n_keys, law=law, skew=self.skew)
        choice = self._choose(law, self.n_keys, Fraction(1))
        asked = choice.mechanism.expected_asked(self.users)
        share = choice.truncation.share(crowd.frequency)
        noise = choice.mechanism.moments.covariance(share, 0.0, asked).signed
        told = crowd.counts * share**2 / (noise + (TYPICAL_SPREAD * share) ** 2)
        return bool(np.sum(told) > 1 / ANCHORED**2)

    def _values(self, campaign: str, number: int, found: _Found) -> Round:
        mechanism = EncodedOracle(
            encoder=OwnSign(n_keys=self.n_keys), oracle=Response.for_epsilon(self.epsilon, 3)
        )
        return self._round(
            "values", mechanism, self._value_group(), campaign=campaign, number=number, found=found
        )

    def _after_values(self, round: Round, tally: Tally) -> Round:
        found: _Found = round.found
        if tally.n_reports:
            oracle, n = round.mechanism, tally.n_reports
            a, b = float(oracle.a), float(oracle.b)
            _, plus, minus = share(a, b, tally.cells["support"], n)
            held = min(1.0, max(plus + minus, 0.05))
            error = math.sqrt((2 * b + (a - b) * held) / n) / (a - b)
            mean = min(1.0, max(-1.0, (plus - minus) / held))
            found = replace(found, anchor=Anchor(mean, error / held))
            if not self.holds_several:
                shares = np.array([1 - held, held])
                law = SizeLaw(sizes=np.array([0.0, 1.0]), shares=shares, mean_error=error)
                found = replace(found, law=law)
        return self._main(round.campaign, round.number + 1, found, round.group[1])

    # --- the large ones ---

    def _choose(self, law: SizeLaw, n_keys: int, share: Fraction) -> Choice:
        """What suits these sizes, if this share of the users answers."""
        crowd = Crowd(users=self.users, n_keys=n_keys, law=law, skew=self.skew)
        reports = float(share) * self.users
        return best(self.epsilon, crowd, at=self._interest(crowd), want=self.want, reports=reports)

    def _main(self, campaign: str, number: int, found: _Found, low: Fraction) -> Round:
        choice = self._choose(found.law, self.n_keys, 1 - low)
        found = replace(found, choice=choice)
        l = choice.mechanism.pairs_per_user
        long = l >= LONG and self.n_keys >= FEW_TOPS * self.top
        if self.rounds == 1 or (self.rounds == 0 and not long):
            group = low, _end(choice)
            return self._round(
                "collect", choice.mechanism, group, campaign=campaign, number=number, found=found
            )
        mechanism = Bucket.for_epsilon(
            self.epsilon, n_keys=self.n_keys, pairs_per_user=l, rho=1, cohorts=cohorts(self.n_keys, l)
        )
        group = low, (low + 1) / 2
        return self._round("discover", mechanism, group, campaign=campaign, number=number, found=found)

    def _interest(self, crowd: Crowd) -> Floats:
        """The frequencies whose errors count: the top without its head, whose popularity is a guess."""
        top = min(self.top, crowd.n_keys)
        return crowd.at_ranks(np.linspace(max(1.0, top / 4), top, 7))

    def _after_discover(self, round: Round, tally: Tally) -> Round:
        require_reports(round, tally)
        found: _Found = round.found
        assert isinstance(round.mechanism, Bucket)
        raw = estimate(round.mechanism, tally).told_within(round.size)
        cut = Truncation(law=found.law, l=round.mechanism.pairs_per_user)
        seen = Evidence.of(raw, cut)
        shrunk = shrink(seen, total=_total(found.law), top=self.top)
        count = int((shrunk.in_top > LIKELY).sum())
        count = min(max(count, 2 * self.top), MOST_CANDIDATES, self.n_keys)
        keys = tuple(sorted(np.argsort(-shrunk.in_top, kind="stable")[:count].tolist()))
        found = replace(found, discovered=seen, raw=raw, prior=shrunk.prior, keys=keys)
        found = found.noting(*self._other_skew(raw, cut))
        return self._overlap(round, found)

    def _overlap(self, round: Round, found: _Found) -> Round:
        assert found.keys is not None
        middle = round.group[1]
        mechanism = self._size_mechanism(len(found.keys), self.pairs_per_user)
        group = (middle, min(Fraction(1), middle + OVERLAP))
        return self._after(round, "overlap", mechanism, group, found)

    def _after_overlap(self, round: Round, tally: Tally) -> Round:
        assert isinstance(round.mechanism, EncodedOracle)
        law = round.found.law if tally.n_reports == 0 else SizeLaw.told(round.mechanism, tally)
        return self._measure(round, round.found, law)

    def _measure(self, round: Round, found: _Found, law: SizeLaw) -> Round:
        assert found.keys is not None
        low = round.group[1]
        choice = self._choose(law, len(found.keys), 1 - low)
        found = replace(found, choice=choice)
        return self._after(round, "measure", choice.mechanism, (low, _end(choice)), found)

    # --- what comes of it ---

    def _after_main(self, round: Round, tally: Tally) -> Round | Outcome:
        require_reports(round, tally)
        found: _Found = round.found
        assert found.choice is not None
        raw = estimate(found.choice.mechanism, tally).told_within(round.size)
        cut = found.choice.truncation
        seen = Evidence.of(raw, cut)
        if found.keys is None:
            found = found.noting(*self._other_skew(raw, cut))
        found = replace(found, evidence=seen, raw=_merge(raw, found, self.n_keys))
        if cut.is_idle or not self.holds_several:
            return self._finish(round, found)
        guess = shrink(seen, anchor=found.anchor, top=self.top)
        popular = np.argsort(-guess.frequency, kind="stable")[: self.top]
        held = float(np.maximum(guess.frequency[popular], 0).sum())
        return self._check(round, found, tuple(sorted(popular.tolist())), held)

    def _check(self, round: Round, found: _Found, popular: tuple[int, ...], held: float) -> Round:
        assert found.choice is not None
        l = found.choice.mechanism.pairs_per_user
        starts = (1, *sorted({l + 1, math.ceil(1.5 * l) + 1, math.ceil(2.5 * l) + 1, 5 * l + 1}))
        n_keys = self.n_keys if round.keys is None else len(round.keys)
        encoder = PopularSize(
            n_keys=n_keys, popular=popular, most=max(1, math.ceil(MOST_POPULAR * held)), starts=starts
        )
        mechanism = EncodedOracle(
            encoder=encoder, oracle=Response.for_epsilon(self.epsilon, encoder.n_symbols)
        )
        return self._after(round, "check", mechanism, (1 - CHECK, Fraction(1)), found)

    def _after_check(self, round: Round, tally: Tally) -> Outcome:
        found: _Found = round.found
        assert found.choice is not None
        assert found.evidence is not None
        if tally.n_reports:
            cut = found.choice.truncation
            assert isinstance(round.mechanism, EncodedOracle)
            cut = cut.checked(round.mechanism, tally, found.evidence.frequency)
            found = replace(
                found,
                choice=replace(found.choice, truncation=cut),
                evidence=replace(found.evidence, truncation=cut),
            )
        return self._finish(round, found)

    def _finish(self, round: Round, found: _Found) -> Outcome:
        raw, seen, choice = found.raw, found.evidence, found.choice
        assert raw is not None
        assert seen is not None
        assert choice is not None
        if found.keys is None:
            shrunk = shrink(seen, total=_total(choice.truncation.law), anchor=found.anchor, top=self.top)
        else:
            assert found.discovered is not None
            assert found.prior is not None
            earlier = Earlier(found.discovered, found.prior, np.array(found.keys))
            shrunk = shrink(seen, total=_total(found.law), anchor=found.anchor, top=self.top, earlier=earlier)
        notes = found.notes
        if not choice.truncation.is_idle:
            raw, notes = untruncate(raw, found.cut), (*notes, TRUNCATED)
        published = replace(
            raw,
            frequency=shrunk.frequency,
            frequency_top=shrunk.frequency_top,
            mean=shrunk.mean,
            steps=(*raw.steps, "shrink"),
        )
        anchor = None if found.anchor is NO_ANCHOR else found.anchor.mean
        return Outcome(raw=raw, published=published, notes=notes, rounds=round.number, anchor=anchor)


def _end(choice: Choice) -> Fraction:
    """Where the main group ends: those who check truncation come after it, if there is any."""
    return Fraction(1) if choice.truncation.is_idle else 1 - CHECK


def _total(law: SizeLaw) -> Total:
    return Total(law.mean, max(law.mean_error, 1e-9))


def _merge(raw: Estimates, found: _Found, n_keys: int) -> Estimates:
    """The measured candidates among the discovered frequencies of all other keys."""
    if found.keys is None or found.raw is None:
        return raw
    wide, first = widen(raw, found.keys, n_keys), found.raw
    rest = wide.asked == 0
    assert isinstance(first.lever, Lever)
    assert isinstance(wide.lever, Lever)
    return replace(
        wide,
        n_reports=wide.n_reports + first.n_reports,
        asked=np.where(rest, first.asked, wide.asked),
        frequency=np.where(rest, first.frequency, wide.frequency),
        frequency_se=np.where(rest, first.frequency_se, wide.frequency_se),
        lever=Levers(here=rest, first=first.lever, second=wide.lever),
    )
