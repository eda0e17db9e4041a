"""open: keys that nobody listed are searched for prefix by prefix, and what was found is measured.

Disjoint groups of users, each asked once with the whole budget:

    level 1, 2, ...   the distinct prefixes of so many bits of a user's keys, by `prefix-bucket`; all
                      continuations of the prefixes that are left are decoded, and the best are kept
    measure           the keys that were found, by name, with their values, by `bucket`; and whether a user
                      holds any other

What ended within the bits of a level is a key and is left alone from then on; where no other prefix stands
out the levels to come are skipped, and their users measure. How many bits a level asks about, of which share
of users, and how many prefixes are kept follows from the kernel's variance (`plan.searching`).

Found keys are a selection, so every number about them is the last group's alone. It tests each anew: those
are published that Benjamini and Hochberg's procedure takes at 5 %, so that of the keys in a release at most
that share is false on average, and where there is nothing to find, nothing is found in 19 of 20 campaigns. A
key that the operator blocks is not measured; one below the least frequency that the campaign says is not
published.

[PEM] Wang, Li, Jha: Locally Differentially Private Heavy Hitter Identification, arXiv 1708.06674: the
prefix tree and its levels; one key a user, no values. [BH] Benjamini, Hochberg: Controlling the False
Discovery Rate, Journal of the Royal Statistical Society B 57, 1995.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from statistics import NormalDist
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.domain import TextCode
from keyveil.domain.texts import THE_REST
from keyveil.errors import ProtocolError
from keyveil.estimate import Estimates, clip, estimate, uncollide
from keyveil.mechanisms import Bucket, PrefixBucket
from keyveil.mechanisms.base import check_size
from keyveil.numerics import parse_epsilon
from keyveil.plan.searching import (
    FALSE_SHARE,
    FOUND,
    Level,
    Search,
    cut_of,
    least_frequency,
    surely,
    unskewed,
)
from keyveil.protocols.base import (
    Found,
    History,
    Outcome,
    check_history,
    protocol_name,
    require_reports,
)
from keyveil.rounds import Round
from keyveil.tally import Tally
from keyveil.tally.prefixes import Decoder

# So many times as many prefixes are looked at as are kept: some are no text's, such as half a letter.
_LOOKED_AT = 64
# What a release shows of what did not complete.
_MOST_UNFINISHED = 20


class Kept(NamedTuple):
    """What a level leaves: the prefixes to go on with, the keys that ended, and how it was."""

    heads: tuple[int, ...]
    """The best first."""
    names: tuple[str, ...]
    standing: tuple[int, ...]
    """Heads that noise alone would not have put where they are."""
    cut: float
    """The least frequency, as it was estimated, that was kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenKeys:
    """Levels of prefixes, then the keys that were found.

    >>> code = TextCode(longest=48)
    >>> protocol = OpenKeys(epsilon=Fraction(4), code=code, pairs_per_user=5, users=100_000)
    >>> [(stage.purpose, round(stage.size, 2)) for stage in protocol.stages()]
    [('level 22', 0.25), ('level 38', 0.25), ('level 48', 0.25), ('measure', 0.25)]
    """

    epsilon: Fraction
    code: TextCode
    n_keys: int = 0
    """2^longest; what a campaign says of it."""
    pairs_per_user: int = 1
    users: int = 100_000
    block: tuple[str, ...] = ()
    """Keys that are never measured."""
    minimum: float = 0.0
    """Keys below this frequency are not published."""
    id: ClassVar[str] = "open"
    version: ClassVar[int] = 1
    _known: dict[int, tuple[Tally, Kept]] = field(
        default_factory=dict, init=False, compare=False, repr=False, hash=False
    )
    """What the levels left: decoding takes seconds, and whoever goes on asks for all levels again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", parse_epsilon(self.epsilon))
        object.__setattr__(self, "n_keys", 1 << self.code.longest)
        object.__setattr__(self, "block", tuple(self.block))
        check_size(self.n_keys, self.pairs_per_user)
        if self.users < 1 or not 0 <= self.minimum < 1:
            raise ProtocolError(
                "expected at least one user and a least frequency from 0 to 1, "
                f"got {self.users} and {self.minimum}"
            )

    @property
    def search(self) -> Search:
        """The schedule's arithmetic."""
        return Search.of(
            epsilon=self.epsilon,
            longest=self.code.longest,
            pairs_per_user=self.pairs_per_user,
            users=self.users,
        )

    # --- the rounds ---

    def start(self, campaign: str) -> Round:
        """The first level."""
        return self._level(campaign, 1, self.search.next_level(0, 1, Fraction(1)), Fraction(0))

    def stages(self) -> tuple[Round, ...]:
        """All levels, and a measuring round of as many keys as a level keeps."""
        search, used, made = self.search, Fraction(0), []
        for number, level in enumerate(search.levels(), start=1):
            made.append(self._level("stage", number, level, used))
            used += level.share
        names = (*(f"key {place}" for place in range(search.kept)), THE_REST)
        return (*made, self._measure("stage", len(made) + 1, names, used))

    def next(self, history: History) -> Round | Outcome:
        """Another level, the measuring round, or what it says."""
        check_history(self, history)
        before, tally = history[-1]
        if before.purpose == "measure":
            require_reports(before, tally)
            return self._outcome(history)
        kept, search = self._kept(history)[-1], self.search
        mechanism = _prefixes(before)
        number, used = before.number + 1, before.group[1]
        if kept.standing and mechanism.bits < self.code.longest:
            level = search.next_level(mechanism.bits, len(kept.heads), 1 - used)
            return self._level(before.campaign, number, level, used)
        return self._measure(before.campaign, number, self._named(history), used)

    def _level(self, campaign: str, number: int, level: Level, used: Fraction) -> Round:
        return Round(
            campaign=campaign,
            number=number,
            purpose=f"level {level.bits}",
            mechanism=self.search.mechanism(level),
            protocol=protocol_name(self),
            group=(used, used + level.share),
        )

    def _measure(self, campaign: str, number: int, names: tuple[str, ...], used: Fraction) -> Round:
        return Round(
            campaign=campaign,
            number=number,
            purpose="measure",
            mechanism=self.search.measuring(len(names)),
            protocol=protocol_name(self),
            group=(used, Fraction(1)),
            names=names,
        )

    # --- what the levels say ---

    def _named(self, history: History) -> tuple[str, ...]:
        """The keys that ended, in the order of their letters, and the rest."""
        found = {name for kept in self._kept(history) for name in kept.names}
        return (*sorted(found - {*self.block, THE_REST}), THE_REST)

    def _kept(self, history: History) -> list[Kept]:
        """What each level left."""
        left: list[Kept] = []
        for asked, tally in history:
            if asked.purpose == "measure":
                break
            known = self._known.get(asked.number)
            if known is None or known[0] is not tally:
                require_reports(asked, tally)
                heads = left[-1].heads if left else (0,)
                self._known[asked.number] = known = (tally, self._decode(_prefixes(asked), tally, heads))
            left.append(known[1])
        return left

    def _decode(self, mechanism: PrefixBucket, tally: Tally, heads: Sequence[int]) -> Kept:
        """The best continuations of some prefixes; of equal ones those whose bits come first."""
        kept, n, is_last = self.search.kept, tally.n_reports, mechanism.bits == self.code.longest
        prefixes = len(heads) << mechanism.step
        best = _best(Decoder(mechanism, tally), heads, mechanism.step, _LOOKED_AT * kept)
        a, b = float(mechanism.a), float(mechanism.b)
        going, names, standing = [], [], []
        cut, sure = (self.search.above_noise(z, n) for z in (cut_of(prefixes, kept), surely(prefixes)))
        for support, prefix in best:
            frequency = (support / n - b) / (a - b)
            read = self.code.read(prefix, mechanism.bits)
            if read is None or frequency <= 0:
                continue
            name, ended = read
            if ended or is_last:
                names.append(name)
            else:
                going.append(prefix)
                if frequency > sure:
                    standing.append(prefix)
            if len(going) + len(names) == kept:
                cut = max(cut, frequency)
                break
        return Kept(tuple(going), tuple(dict.fromkeys(names)), tuple(standing), cut)

    # --- what the last group says ---

    def _outcome(self, history: History) -> Outcome:
        asked, tally = history[-1]
        assert isinstance(asked.mechanism, Bucket)
        assert asked.names is not None
        measured = uncollide(asked.mechanism, estimate(asked.mechanism, tally)).told_within(asked.size)
        false = false_shares(asked.mechanism, measured)
        is_real = (false <= FALSE_SHARE) & (measured.frequency[:-1] >= self.minimum)
        places = np.append(np.flatnonzero(is_real), len(asked.names) - 1)
        names = tuple(asked.names[place] for place in places)
        raw = measured.of(places)
        found = Found(
            keys=names,
            places=places,
            false_share=np.append(false[places[:-1]], np.nan),
            unfinished=self._unfinished(history),
            detectable=self._detectable(history),
        )
        return Outcome(
            raw=raw, published=clip(raw), notes=self._notes(history, found), rounds=asked.number, found=found
        )

    def _unfinished(self, history: History) -> tuple[str, ...]:
        """Prefixes that stood out and did not become a key; of several in a row the longest."""
        length = self.code.longest
        numbers = [self.code.number(name) for name in history[-1][0].names or ()]
        levels = [_prefixes(asked).bits for asked, _ in history[:-1]]
        # What has a longer one behind it has gone on, and what has a key behind it is complete.
        ends = [(number, length) for number in numbers]
        left: list[tuple[int, int]] = []
        for bits, kept in sorted(zip(levels, self._kept(history), strict=True), reverse=True):
            for prefix in kept.standing:
                if not any(end >> (long - bits) == prefix for end, long in (*ends, *left)):
                    left.append((prefix, bits))
        names = [self.code.name(prefix, bits) for prefix, bits in left]
        return tuple(dict.fromkeys(name for name in names if name is not None and name not in self.block))

    def _detectable(self, history: History) -> float:
        search, (asked, tally) = self.search, history[-1]
        levels = [
            (before.n_reports, kept.cut)
            for (_, before), kept in zip(history[:-1], self._kept(history), strict=True)
        ]

        def chance(frequency: float) -> float:
            passed = search.passes(frequency, tally.n_reports, len(asked.names or ()))
            return passed * math.prod(search.kept_chance(frequency, n, cut) for n, cut in levels)

        return least_frequency(chance, FOUND)

    def _notes(self, history: History, found: Found) -> tuple[str, ...]:
        measured, published = len(history[-1][0].names or ()) - 1, len(found.keys) - 1
        notes = [
            f"of {measured} keys that were measured {published} are published; at most 5 % of them are false"
        ]
        if found.detectable <= 1:
            notes.append(
                f"a key that {100 * found.detectable:.2g} % hold would have been found with nine chances in "
                "ten"
            )
        else:
            notes.append("too few answered to find even a key that everybody holds")
        if found.unfinished:
            shown = ", ".join(found.unfinished[:_MOST_UNFINISHED])
            notes.append(f"{len(found.unfinished)} beginnings did not complete: {shown}")
        return tuple(notes)


def false_shares(mechanism: Bucket, measured: Estimates) -> NDArray[np.float64]:
    """Of every key but the last: which share of those at least as sure as it is false, at most, on average.

    Benjamini and Hochberg's adjusted chances: each key is held against noise about a key that nobody holds,
    which reports support twice, once or not at all; skewed, as rare events are (Cornish, Fisher).
    """
    g, rho, n = mechanism.buckets, float(mechanism.rho), measured.n_reports
    tied = rho + (1 - rho) / g
    twice, once, mean = tied / g, 2 * (1 - tied) / g, 2 / g
    variance = 4 * twice + once - mean**2
    third = 8 * twice + once - 3 * mean * (4 * twice + once) + 2 * mean**3
    skewness = third / variance**1.5 / math.sqrt(n)
    error = math.sqrt(mechanism.moments.frequency_noise / n)
    normal, errors = NormalDist(), (measured.frequency[:-1] / error).tolist()
    chance = np.array([1 - normal.cdf(unskewed(each, skewness)) for each in errors])
    order = np.argsort(-chance, kind="stable")
    ranks = np.arange(chance.size, 0, -1)
    adjusted = np.minimum.accumulate(chance[order] * chance.size / ranks)
    shares = np.empty_like(chance)
    shares[order] = np.minimum(1.0, adjusted)
    return shares


def _best(decoder: Decoder, heads: Sequence[int], step: int, count: int) -> Iterator[tuple[int, int]]:
    """The prefixes with the largest supports, the largest first; of equal ones in the order of their bits."""
    best, floor = np.zeros((3, 0), dtype=np.int64), -1
    ranks = np.argsort(np.argsort(np.array(heads, dtype=object), kind="stable"), kind="stable")
    for rank, supports in zip(ranks.tolist(), decoder.supports(heads), strict=True):
        tails = np.flatnonzero(supports > floor)
        found = np.stack([-supports[tails], np.full(tails.size, rank), tails])
        best = np.concatenate([best, found], axis=1)
        if best.shape[1] > count:
            # What is not among the best so far, ties included, will not be later.
            floor = -int(np.partition(best[0], count - 1)[count - 1]) - 1
            best = best[:, -best[0] > floor]
    ordered = sorted(heads)
    for support, rank, tail in best[:, np.lexsort(best[::-1])].T[:count].tolist():
        yield -support, ordered[rank] << step | tail


def _prefixes(asked: Round) -> PrefixBucket:
    if isinstance(asked.mechanism, PrefixBucket):
        return asked.mechanism
    raise ProtocolError(f"expected a level of prefixes in round {asked.number}, got {asked.purpose!r}")
