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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import ProtocolError
from keyveil.estimate import Estimates, Lever, Levers
from keyveil.estimate.shrink import (
    NO_ANCHOR,
    TYPICAL_SPREAD,
    Earlier,
    shrink,
)
from keyveil.estimate.sizes import SizeLaw, Truncation, size_classes
from keyveil.estimate.whole import Truncations, untruncate
from keyveil.mechanisms import Bucket, EncodedOracle, Mechanism
from keyveil.mechanisms.base import check_size
from keyveil.mechanisms.symbol.encoded import (
    OwnSignResponse,
    PopularSizeResponse,
    SizeClassResponse,
    SizeClassWave,
)
from keyveil.numerics import parse_epsilon
from keyveil.plan import Choice, Crowd, best
from keyveil.plan.choice import WANTS, cohorts
from keyveil.protocols.base import History, Outcome, check_history, protocol_name, require_reports
from keyveil.protocols.course import Course, total
from keyveil.protocols.ks_grr import widen
from keyveil.rounds import Group, Round

Floats = NDArray[np.float64]

TRUNCATED = "records are cut; frequencies are brought back to whole ones, and their errors allow for it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """The numbers of one version of `auto`.

    A round says which version opened it, and that version goes on with the campaign: whoever changes a
    number adds a version to `TUNINGS` and leaves the old one as it is.
    """

    sizes: Fraction = Fraction(3, 100)
    overlap: Fraction = Fraction(2, 100)
    check: Fraction = Fraction(2, 100)
    most_values: Fraction = Fraction(5, 100)
    # From this padding length on two rounds beat one; fewer keys than this many tops are all candidates.
    long: int = 5
    few_tops: int = 10
    likely: float = 0.002
    most_candidates: int = 3000
    # Of those who check, nobody is heard for more popular pairs than this many times the mean.
    most_popular: float = 2.5
    # Above this many classes a wave tells sizes better than randomized response does.
    few_classes: int = 9
    # Users of the value group, if each told the plain truth; and the error that is good enough without one.
    anchors: int = 200
    anchored: float = 0.04
    # Sizes and skew are contradicted by factors this large, beyond this many standard errors.
    other_sizes: int = 2
    other_skew: int = 3
    surely: int = 3


TUNINGS: Mapping[int, Tuning] = MappingProxyType({1: Tuning()})
NEWEST = max(TUNINGS)


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
    version: int = NEWEST
    id: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        check_size(self.n_keys, self.pairs_per_user)
        if self.users < 1 or self.top < 1:
            raise ProtocolError(f"users and top must be at least 1, got {self.users} and {self.top}")
        if self.want not in WANTS:
            raise ProtocolError(f'want must be one of {", ".join(WANTS)}, got "{self.want}"')
        if self.version not in TUNINGS:
            raise ProtocolError(f"expected a version of auto among {', '.join(map(str, TUNINGS))}")
        if self.rounds not in (0, 1, 2):
            raise ProtocolError(f"rounds must be 0 (as suits the sizes), 1 or 2, got {self.rounds}")

    @property
    def tuning(self) -> Tuning:
        """The numbers of this version."""
        return TUNINGS[self.version]

    # --- who is asked what ---

    @property
    def holds_several(self) -> bool:
        """Whether a record may hold more than one pair."""
        return self.pairs_per_user > 1 and self.n_keys > 1

    def _size_group(self) -> Group:
        return Fraction(0), self.tuning.sizes if self.holds_several else Fraction(0)

    def _value_group(self) -> Group:
        low = self._size_group()[1]
        told = math.tanh(float(self.epsilon) / 2) ** 2
        tuning = self.tuning
        return low, low + min(tuning.most_values, Fraction(round(tuning.anchors / told), self.users))

    def _round(self, campaign: str, number: int, purpose: str, mechanism: Mechanism, group: Group) -> Round:
        return Round(
            campaign=campaign,
            number=number,
            purpose=purpose,
            mechanism=mechanism,
            protocol=protocol_name(self),
            group=group,
        )

    def start(self, campaign: str) -> Round:
        """Sizes, or values where there is nothing to learn about sizes."""
        if not self.holds_several:
            return self._values(campaign, 1)
        mechanism = self._size_mechanism(self.n_keys, self.pairs_per_user)
        return self._round(campaign, 1, "sizes", mechanism, self._size_group())

    def stages(self) -> tuple[Round, ...]:
        """All rounds of one course, with stand-ins: everybody is in one group, so epsilon is any round's."""
        first, law = self.start("stage"), SizeLaw.exactly(self.pairs_per_user)
        stages = [first] if first.purpose == "values" else [first, self._values("stage", 2)]
        main = self._main(stages[-1], law, self._value_group()[1])
        stages.append(main)
        if main.purpose == "discover":
            overlap = self._overlap(main, tuple(range(min(self.n_keys, 2 * self.top))))
            stages += [overlap, self._measure(overlap, law)]
        if self.holds_several:
            # Whoever may be asked to check belongs to no other group.
            last = replace(stages[-1], group=(stages[-1].group[0], 1 - self.tuning.check))
            stages[-1:] = [last, self._check(last, (0,), 1.0)]
        return tuple(stages)

    def next(self, history: History) -> Round | Outcome:
        """What follows from the rounds so far: read as they were opened, whatever would be opened today."""
        check_history(self, history)
        course, (round, tally) = Course(self, history), history[-1]
        match round.purpose:
            case "sizes" if not self._means_anchor_themselves(course.law):
                return self._values(round.campaign, 2)
            case "sizes" | "values":
                return self._main(round, course.law, round.group[1])
            case "discover":
                return self._overlap(round, course.candidates())
            case "overlap":
                return self._measure(round, course.law_of_candidates)
            case "collect" | "measure":
                require_reports(round, tally)
                return self._after_main(course)
        return self._finish(course)

    # --- the small groups ---

    def _size_mechanism(self, n_keys: int, typical: int) -> EncodedOracle:
        starts = size_classes(min(2 * typical, n_keys))
        asks = SizeClassResponse if len(starts) <= self.tuning.few_classes else SizeClassWave
        return asks.for_epsilon(self.epsilon, n_keys=n_keys, starts=starts)

    def _means_anchor_themselves(self, law: SizeLaw) -> bool:
        """Whether the keys together will tell where means lie, so that no group need be spent on it."""
        crowd = Crowd(users=self.users, n_keys=self.n_keys, law=law, skew=self.skew)
        choice = self._choose(law, self.n_keys, Fraction(1))
        asked = choice.mechanism.expected_asked(self.users)
        share = choice.truncation.share(crowd.frequency)
        noise = choice.mechanism.moments.covariance(share, 0.0, asked).signed
        told = crowd.counts * share**2 / (noise + (TYPICAL_SPREAD * share) ** 2)
        return bool(np.sum(told) > 1 / self.tuning.anchored**2)

    def _values(self, campaign: str, number: int) -> Round:
        mechanism = OwnSignResponse.for_epsilon(self.epsilon, n_keys=self.n_keys)
        return self._round(campaign, number, "values", mechanism, self._value_group())

    # --- the large ones ---

    def _choose(self, law: SizeLaw, n_keys: int, share: Fraction) -> Choice:
        """What suits these sizes, if this share of the users answers."""
        crowd = Crowd(users=self.users, n_keys=n_keys, law=law, skew=self.skew)
        reports = float(share) * self.users
        return best(self.epsilon, crowd, at=self._interest(crowd), want=self.want, reports=reports)

    def _main(self, before: Round, law: SizeLaw, low: Fraction) -> Round:
        campaign, number = before.campaign, before.number + 1
        choice = self._choose(law, self.n_keys, 1 - low)
        l, tuning = choice.mechanism.pairs_per_user, self.tuning
        long = l >= tuning.long and self.n_keys >= tuning.few_tops * self.top
        if self.rounds == 1 or (self.rounds == 0 and not long):
            return self._round(campaign, number, "collect", choice.mechanism, (low, self._end(choice)))
        mechanism = Bucket.for_epsilon(
            self.epsilon, n_keys=self.n_keys, pairs_per_user=l, rho=1, cohorts=cohorts(self.n_keys, l)
        )
        return self._round(campaign, number, "discover", mechanism, (low, (low + 1) / 2))

    def _end(self, choice: Choice) -> Fraction:
        """Where the main group ends: those who check truncation come after it, if there is any."""
        return Fraction(1) if choice.truncation.is_idle else 1 - self.tuning.check

    def _interest(self, crowd: Crowd) -> Floats:
        """The frequencies whose errors count: the top without its head, whose popularity is a guess."""
        top = min(self.top, crowd.n_keys)
        return crowd.at_ranks(np.linspace(max(1.0, top / 4), top, 7))

    def _overlap(self, before: Round, keys: tuple[int, ...]) -> Round:
        middle = before.group[1]
        mechanism = self._size_mechanism(len(keys), self.pairs_per_user)
        group = (middle, min(Fraction(1), middle + self.tuning.overlap))
        asked = self._round(before.campaign, before.number + 1, "overlap", mechanism, group)
        return replace(asked, keys=keys)

    def _measure(self, before: Round, law: SizeLaw) -> Round:
        assert before.keys is not None
        low = before.group[1]
        choice = self._choose(law, len(before.keys), 1 - low)
        group = (low, self._end(choice))
        asked = self._round(before.campaign, before.number + 1, "measure", choice.mechanism, group)
        return replace(asked, keys=before.keys)

    # --- what comes of it ---

    def _after_main(self, course: Course) -> Round | Outcome:
        main = course.measured
        # Whoever checks comes behind the main group, if anybody does.
        if main.round.group[1] == 1 or not self.holds_several:
            return self._finish(course)
        guess = shrink(main.seen, anchor=course.anchor, top=self.top)
        popular = np.argsort(-guess.frequency, kind="stable")[: self.top]
        held = float(np.maximum(guess.frequency[popular], 0).sum())
        return self._check(main.round, tuple(sorted(popular.tolist())), held)

    def _check(self, main: Round, popular: tuple[int, ...], held: float) -> Round:
        l = main.mechanism.pairs_per_user
        mechanism = PopularSizeResponse.for_epsilon(
            self.epsilon,
            n_keys=self.n_keys if main.keys is None else len(main.keys),
            popular=popular,
            most=max(1, math.ceil(self.tuning.most_popular * held)),
            starts=(1, *sorted({l + 1, math.ceil(1.5 * l) + 1, math.ceil(2.5 * l) + 1, 5 * l + 1})),
        )
        group = (1 - self.tuning.check, Fraction(1))
        return replace(self._round(main.campaign, main.number + 1, "check", mechanism, group), keys=main.keys)

    def _finish(self, course: Course) -> Outcome:
        main, keys = course.checked, course.measured.round.keys
        raw, notes = course.measured.raw, course.notes
        if keys is None:
            shrunk = shrink(main.seen, total=total(main.cut.law), anchor=course.anchor, top=self.top)
            cut: Truncation | Truncations = main.cut
        else:
            found = course.discovered
            raw = _merge(raw, found.raw, keys)
            earlier = Earlier(found.seen, found.shrunk.prior, np.array(keys))
            shrunk = shrink(
                main.seen, total=total(course.law), anchor=course.anchor, top=self.top, earlier=earlier
            )
            rest = np.ones(self.n_keys, dtype=np.bool_)
            rest[list(keys)] = False
            cut = Truncations(here=rest, first=found.seen.truncation, second=main.cut)
        if not main.cut.is_idle:
            raw, notes = untruncate(raw, cut), (*notes, TRUNCATED)
        published = replace(
            raw,
            frequency=shrunk.frequency,
            frequency_top=shrunk.frequency_top,
            mean=shrunk.mean,
            steps=(*raw.steps, "shrink"),
        )
        anchor = None if course.anchor is NO_ANCHOR else course.anchor.mean
        return Outcome(raw=raw, published=published, notes=notes, rounds=course.n_rounds, anchor=anchor)


def _merge(raw: Estimates, first: Estimates, keys: tuple[int, ...]) -> Estimates:
    """The measured candidates among the discovered frequencies of all other keys."""
    wide = widen(raw, keys, first.frequency.size)
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
