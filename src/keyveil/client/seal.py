"""What makes a ledger believable: a keyed hash over what must not be edited."""

from __future__ import annotations

import hashlib
import hmac


def seal_of(secret: bytes, clock: float, consent: str, rows: list[str]) -> bytes:
    """The seal over the latest time, the consent and what was spent, a line each."""
    return hmac.digest(secret, "\n".join([clock.hex(), consent, *rows]).encode(), hashlib.sha256)
