"""What a relay says of itself, to those who run it."""

from __future__ import annotations

from keyveil.collector.campaigns.messages import Message, Seconds


class CarriedRoundView(Message, frozen=True):
    """A round that devices answer through this relay."""

    campaign: str
    round: int
    batch: int
    """How many reports go together, at least."""
    waiting: int
    batches: list[int]
    """How many reports each batch has that was made."""
    discarded: int
    """Reports that were thrown away: too few to hide, or too late."""
    ends_at: Seconds | None
    """When nothing more is taken; null where somebody ends the round by hand."""
    ended_at: Seconds | None
    why: str


class RelayStatus(Message, frozen=True):
    """What a relay carries."""

    collector: str
    failing: str
    """What does not work now; empty if all does."""
    rounds: list[CarriedRoundView]
