"""How a campaign is run here: when rounds end, what is kept, who may send. Not part of its identity."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec


class Terms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the operator chose when the campaign was created; a table of its own beside the campaign.

    >>> Terms.from_json('{"close_at_count": 1000}').close_at_count
    1000
    """

    uploads: Literal["token", "open"] = "token"
    """Whether devices need a token."""
    ids: Literal["own", "issued"] = "own"
    """What an older keyveil said here, and the campaign says now. What was stored as issued stays so."""
    close_at_count: Annotated[int, msgspec.Meta(ge=1, le=1 << 53)] | None = None
    """Close a round once this many reports are in; it never has more."""
    close_after: Annotated[float, msgspec.Meta(gt=0, le=3.2e9)] | None = None
    """Close a round so many seconds after it was opened."""
    drop_reports: bool = False
    """Forget the bytes of reports once their round is closed; the tally stays."""
    replay_days: Annotated[float, msgspec.Meta(ge=0, le=36500)] = 30.0
    """How long after the round a repeated report is still known by its id."""
    late: Annotated[float, msgspec.Meta(ge=0, le=3.2e6)] | None = None
    """Seconds after the end of a series' wave in which reports that were made in time are taken."""

    @classmethod
    def from_json(cls, text: str) -> Terms:
        """As the store keeps them."""
        return msgspec.json.decode(text, type=cls)

    def to_json(self) -> str:
        """As the store keeps them."""
        return msgspec.json.encode(self).decode()
