"""The numbers of `auto`, by version.

A round says which version opened it, and that version goes on with the campaign: whoever changes a number
adds a version to `TUNINGS` and leaves the old one as it is. Every number has its reason here, and a row in
`bench/results/tuning.csv` that shows what halving and doubling it does to errors and intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType

from keyveil.errors import ProtocolError
from keyveil.estimate.shrink import SHRINKING, Shrinking
from keyveil.estimate.sizes import SIZE_MODEL, UNMODELLED, SizeModel
from keyveil.mechanisms.value.ue_sw import BINS
from keyveil.plan.choice import CHOOSING, Choosing


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """The numbers of one version of `auto`."""

    # --- who is asked what ---

    sizes: Fraction = Fraction(3, 100)
    """The share of users who tell how many pairs they hold: errors are flat between 1 and 10 %."""
    most_values: Fraction = Fraction(5, 100)
    """At most this share tells the sign of one value: in small crowds frequencies need the rest."""
    fewest_values: Fraction = Fraction(0)
    """At least this share: where a relay carries reports devices answer no round for fewer."""
    anchors: int = 200
    """As many of them as 200 who say the plain truth: the anchor is then known to 1/sqrt(200) = 0.07."""
    anchored: float = 0.04
    """Nobody is asked where the keys together tell the centre of means to this error: half the anchor's."""
    discover: Fraction = Fraction(1, 2)
    """The share, of those left, who find the candidates; as many measure them."""
    overlap: Fraction = Fraction(2, 100)
    """The share of users who tell how many candidates they hold: fewer than `sizes`, the law is shorter."""
    check: Fraction = Fraction(2, 100)
    """The share of users who tell how long the records with popular keys are."""

    # --- what they are asked ---

    size_reach: int = 2
    """Sizes are distinguished up to this many times what nine users in ten hold at most."""
    size_tail: int = 8
    """And in a few wide classes up to this many times: of lognormal sizes (sigma 1) all but 1 in 2,000."""
    few_classes: int = 9
    """Up to so many classes randomized response tells sizes better than a square wave does."""
    fewest_holders: float = 0.05
    """Not fewer than this share are believed to hold anything: noise may say 0, and means divide by it."""
    top_head: float = 0.25
    """A choice is made for the top without its first quarter, whose popularity is a guess."""
    top_points: int = 7
    """At so many ranks of it: errors are smooth in rank, three points or thirteen hardly choose otherwise."""
    long: int = 5
    """From this padding length on two rounds beat one: noise grows with l, and candidates need less."""
    few_tops: int = 10
    """With fewer keys than this many tops one round: the candidates would be most of them."""
    likely: float = 0.002
    """Keys likelier than this to be in the top are candidates: of 500 that are just not, one is missed."""
    fewest_tops: int = 2
    """There are at least this many tops of candidates, however sure the first round is."""
    most_candidates: int = 3000
    """And at most so many: what is asked about in private costs noise, what is estimated costs memory."""
    bins: int = BINS
    """Where distributions are wanted values are sent on so fine a grid, that of `ue-sw`: with 16 bins errors
    are 1.3 to 1.9 times as large from epsilon 1 to 4, with 32 about the same. 0: nobody is asked for them."""
    most_popular: float = 2.5
    """Who checks is not heard for more popular pairs than this many times the mean: more is more noise."""
    check_classes: tuple[float, ...] = (1.5, 2.5, 5)
    """Where the classes of those who check begin, in padding lengths, beside l itself."""

    # --- what contradicts what was declared ---

    other_sizes: int = 2
    """Sizes contradict the declared ones by this factor,"""
    other_skew: int = 3
    """frequencies the assumed skew by this one,"""
    surely: int = 3
    """both beyond this many standard errors: of a thousand campaigns three are warned for nothing."""
    skew_doubt: int = 20
    """One part in so many of the variance of frequencies may be wrong when their squares are read."""

    # --- the parts that others use too ---

    choosing: Choosing = CHOOSING
    size_model: SizeModel = SIZE_MODEL
    shrinking: Shrinking = SHRINKING


_FIRST = Tuning(
    size_tail=2,
    bins=0,
    choosing=replace(CHOOSING, sharing=math.inf, own_keys=0, worst=0.0, longest=0.01, unmodelled=UNMODELLED),
    size_model=replace(SIZE_MODEL, expected_users=0.0),
    shrinking=replace(SHRINKING, centre=math.inf, likelier=0.0),
)

# Where a relay hides answers among others noise is small, and what is cut away is most of an error.
_PROMISED = Tuning(discover=Fraction(11, 20), overlap=Fraction(4, 100), long=2, likely=0.05, fewest_tops=1)


def _compared(before: Tuning) -> Tuning:
    """The same numbers, and sizes as fine as large budgets tell them."""
    return replace(
        before,
        fewest_values=Fraction(1, 100),
        choosing=replace(before.choosing, rounding=1 / 3),
        size_model=replace(before.size_model, resolved=0.5, steepest=3.0, most_heard=1.0),
    )


TUNINGS: Mapping[int, Tuning] = MappingProxyType(
    {
        1: _FIRST,
        2: Tuning(),
        3: Tuning(),
        4: _PROMISED,
        5: _compared(Tuning()),
        6: _compared(_PROMISED),
    }
)
# What a campaign begins with that promises nothing central, and one that does.
NEWEST, PROMISED = 5, 6
# From this version on promises are kept.
PROMISED_SINCE = 4
# From this version on one round and two are compared by what they promise.
COMPARED_SINCE = 5
# From this version on signs tell distributions, where a public dither rounds values, as they tell means: the
# better in nearly all cells of `bench/distributions.py`, down to a tenth of the distance, and at worst 1.3
# times as far off (single smooth humps, one pair a user, epsilon 4).
DITHERED_SINCE = 3


def tuning_of(version: int) -> Tuning:
    """The numbers of a version; refuses one that is not here."""
    if version not in TUNINGS:
        raise ProtocolError(f"expected a version of auto among {', '.join(map(str, TUNINGS))}")
    return TUNINGS[version]
