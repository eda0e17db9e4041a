"""What a collector learns of one person where a relay takes addresses, times and order away.

It is computed from the worst batch that really came to each round, and from nothing else: a report hides
among the honest ones of its own batch. Those are a share of all that a batch received, and never more than
counted: what did not count is a liar's as long as there are liars. Where a report came directly, or a batch
was smaller than the campaign says, or where reports carry clear labels, nothing central is said, and why. A
person who may answer several rounds loses the sum, at a part of delta each. The local epsilon holds whatever
relay and collector do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from keyveil.campaign import HONEST, Campaign
from keyveil.numerics import epsilon_above
from keyveil.rounds import Round
from keyveil.shuffle import DELTA, hiding, shuffled
from keyveil.shuffle.best import STEPS

# Fewer than two reports hide nothing.
_FEWEST = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenRound:
    """What came to a round: its batches, and how many reports that were in none.

    Of a batch: how many sealed reports were received, and how many of them counted.
    """

    round: Round
    batches: tuple[tuple[int, int], ...] = ()
    direct: int = 0

    @property
    def telling(self) -> tuple[tuple[int, int], ...]:
        """The batches of which anything counted; the others say nothing of anybody."""
        return tuple(batch for batch in self.batches if batch[1])

    @property
    def smallest(self) -> int:
        """How many reports the smallest of them received."""
        return min(received for received, _ in self.telling)

    def hidden(self, honest: float) -> int:
        """Among how many honest reports one hides, the one included, in the batch where they are fewest."""
        return min(min(hiding(received, honest), counted) for received, counted in self.telling)


@dataclass(frozen=True, slots=True, kw_only=True)
class CentralLoss:
    """The central epsilon at delta, if `honest` of every batch is; `epsilon` is None where `why` says why."""

    epsilon: float | None
    delta: float
    honest: float
    smallest: dict[int, int]
    """By round, how many reports the smallest batch received."""
    hidden: dict[int, int]
    """By round, among how many honest reports one hides where they are fewest."""
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
    answered = [each for each in seen if each.direct or each.telling]
    batched = [each for each in answered if each.telling]
    why = _why_none(campaign, answered, honest)
    return CentralLoss(
        epsilon=None if why else _largest_sum(answered, delta, honest),
        delta=delta,
        honest=honest,
        smallest={each.round.number: each.smallest for each in batched},
        hidden={each.round.number: each.hidden(honest) for each in batched},
        why=why,
    )


def promised_loss(campaign: Campaign, stages: Iterable[Round]) -> CentralLoss:
    """What a campaign's rounds cost if every batch is just as large as it must be."""
    return central_loss(
        campaign, [SeenRound(round=stage, batches=((campaign.batch_of(stage),) * 2,)) for stage in stages]
    )


def largest_promised(campaign: Campaign) -> float | None:
    """The largest epsilon up to the campaign's, itself or in steps of 1/64, that keeps its central promise.

    None where none does that is not below the central epsilon.
    """
    assert campaign.central_epsilon is not None, "nothing central is promised"
    if _is_kept(campaign):
        return campaign.epsilon
    low, high = math.ceil(campaign.central_epsilon * STEPS) - 1, math.ceil(campaign.epsilon * STEPS)
    least = low
    while high - low > 1:
        middle = (low + high) // 2
        kept = _is_kept(replace(campaign, epsilon=middle / STEPS))
        low, high = (middle, high) if kept else (low, middle)
    return low / STEPS if low > least else None


def _is_kept(campaign: Campaign) -> bool:
    loss = promised_loss(campaign, campaign.protocol().stages()).epsilon
    return loss is not None and campaign.central_epsilon is not None and loss <= campaign.central_epsilon


def _why_none(campaign: Campaign, answered: Sequence[SeenRound], honest: float) -> str:
    if not answered:
        return "no batch has come yet"
    if campaign.clear_labels:
        return (
            "clear labels split every batch, and among how many of its own labels a report hides is unknown"
        )
    for each in answered:
        number = each.round.number
        if each.direct:
            return f"{each.direct:,} reports to round {number} came in no batch"
        if each.smallest < campaign.batch_of(each.round):
            return (
                f"a batch of round {number} had {each.smallest:,} reports, fewer than "
                f"{campaign.batch_of(each.round):,}"
            )
        hidden, local = each.hidden(honest), epsilon_above(each.round.mechanism.loss)
        if hidden < _FEWEST and local > (campaign.central_epsilon or 0):
            return (
                f"in a batch of round {number} a report hides among {hidden:,} honest ones, itself included"
            )
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
    mechanism, hidden = seen.round.mechanism, seen.hidden(honest)
    # Where one hides among nobody a report tells what it tells by itself.
    return epsilon_above(mechanism.loss) if hidden < _FEWEST else shuffled(mechanism, hidden, delta).best
