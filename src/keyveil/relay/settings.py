"""What whoever runs a relay may set, beside what a collector has (`collector.settings`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaySettings:
    """How a relay treats its collector and its batches."""

    uploads: Literal["open", "token"] = "open"
    """Whether devices need a token of this relay's."""
    lead: float = 60.0
    """Seconds before a round's end from which nothing is taken, so that the last batch arrives in time."""
    refresh: float = 5.0
    """Seconds between questions to the collector about keys and rounds."""
    timeout: float = 30.0
    """Seconds that the collector has for an answer."""
    part_reports: int = 4096
    part_bytes: int = 4 << 20
    """What is forwarded in one request, and drawn in one transaction: devices wait for it."""
    longest_wait: float = 60.0
    """Seconds between attempts to reach a collector that is away, at most."""
    known_for: float = 86_400.0
    """Seconds after a round's end for which a repeat is known."""
