"""What a collector learns of one person where a relay takes addresses, times and order away.

It is computed from the smallest batch that really came to each round, and from nothing else: a report hides
among the honest ones of its own batch. Where a report came directly, or a batch was smaller than the campaign
says, nothing central is said, and why. A person who may answer several rounds loses the sum, at a part of
delta each. The local epsilon holds whatever relay and collector do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from keyveil.campaign import HONEST, Campaign
from keyveil.rounds import Round
from keyveil.shuffle import DELTA, hiding, shuffled

# Fewer than two reports hide nothing.
_FEWEST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRound:
    """What came to a round: its smallest batch, if any came, and how many reports that were in none."""

    round: Round
    smallest: int | None
    direct: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralLoss:
    """The central epsilon at delta, if `honest` of every batch is; `epsilon` is None where `why` says why."""

    epsilon: float | None
    delta: float
    honest: float
    smallest: dict[int, int]
    """By round, the smallest batch."""
    why: str = ""

    @property
    def words(self) -> str:
        """In a sentence, with what it rests on."""
        if self.epsilon is None:
            return f"Towards the collector the local epsilon counts, too: {self.why}."
        batches = " and ".join(f"{size:,}" for size in sorted(set(self.smallest.values())))
        return (
            f"Towards the collector a person loses at most epsilon {self.epsilon:.4g}, but for a chance of "
            f"{self.delta:g}, if relay and collector do not pool their data and {100 * self.honest:g} % of a "
            f"batch (the smallest: {batches} reports) is honest."
        )


def central_loss(campaign: Campaign, seen: Iterable[SeenRound]) -> CentralLoss:
    """Of the rounds that were answered; one that nobody answered costs nobody anything."""
    delta = DELTA if campaign.delta is None else campaign.delta
    honest = HONEST if campaign.honest is None else campaign.honest
    answered = [each for each in seen if each.direct or each.smallest is not None]
    smallest = {each.round.number: each.smallest for each in answered if each.smallest is not None}
    why = _why_none(campaign, answered, honest)
    epsilon = None if why else _largest_sum(answered, delta, honest)
    return CentralLoss(epsilon=epsilon, delta=delta, honest=honest, smallest=smallest, why=why)


def promised_loss(campaign: Campaign, stages: Iterable[Round]) -> CentralLoss:
    """What a campaign's rounds cost if every batch is just as large as it must be."""
    return central_loss(
        campaign, [SeenRound(round=stage, smallest=campaign.batch_of(stage)) for stage in stages]
    )


def _why_none(campaign: Campaign, answered: Sequence[SeenRound], honest: float) -> str:
    if not answered:
        return "no batch has come yet"
    for each in answered:
        number = each.round.number
        if each.direct:
            return f"{each.direct:,} reports to round {number} came in no batch"
        assert each.smallest is not None
        if each.smallest < campaign.batch_of(each.round):
            return (
                f"a batch of round {number} had {each.smallest:,} reports that count, fewer than "
                f"{campaign.batch_of(each.round):,}"
            )
        if hiding(each.smallest, honest) < _FEWEST:
            return f"batches of {each.smallest:,} reports hide nobody"
    return ""


def _largest_sum(answered: Sequence[SeenRound], delta: float, honest: float) -> float:
    """Over all places in [0, 1), of the rounds that ask there."""
    places = [
        [each for each in answered if each.round.group[0] <= start < each.round.group[1]]
        for start in {each.round.group[0] for each in answered}
    ]
    most = max(map(len, places))
    return max(sum(_of_round(each, delta / most, honest) for each in place) for place in places)


def _of_round(seen: SeenRound, delta: float, honest: float) -> float:
    assert seen.smallest is not None
    return shuffled(seen.round.mechanism, hiding(seen.smallest, honest), delta).best
