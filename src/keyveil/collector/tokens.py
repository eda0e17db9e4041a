"""Who may do what: roles, and the tokens that stand for them.

A token is `kv-ID-SECRET`: a public id of 8 bytes in hexadecimal, and 32 random bytes. Only the secret's
SHA-256 is stored. A slow hash protects secrets that people choose; nobody guesses 256 random bits, and
a fast one keeps the report route fast. The id finds the row, the hashes are compared in constant time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

_TOKEN = re.compile(r"kv-([0-9a-f]{16})-([A-Za-z0-9_-]{43})")
_NOBODY = bytes(32)


class Role(Enum):
    """What a token is for.

    A device sends reports. An analyst reads releases, tallies and stored reports. An operator opens and
    closes, and makes tokens for devices and analysts. An admin does all but send. A monitor reads the
    collector's own counters, and nothing of any campaign. A relay forwards batches of sealed reports. An
    annotator notes beside a series what happened when, and reads nothing.
    """

    DEVICE = "device"
    ANALYST = "analyst"
    OPERATOR = "operator"
    ADMIN = "admin"
    MONITOR = "monitor"
    RELAY = "relay"
    ANNOTATOR = "annotator"


ANALYSTS = frozenset({Role.ANALYST, Role.OPERATOR, Role.ADMIN})
OPERATORS = frozenset({Role.OPERATOR, Role.ADMIN})
ADMINS = frozenset({Role.ADMIN})
DEVICES = frozenset({Role.DEVICE})
RELAYS = frozenset({Role.RELAY})
ANNOTATORS = frozenset({Role.ANNOTATOR, Role.OPERATOR, Role.ADMIN})
MONITORS = frozenset({Role.MONITOR, Role.OPERATOR, Role.ADMIN})
# Whom an operator may let in.
BELOW_OPERATOR = frozenset({Role.DEVICE, Role.ANALYST, Role.RELAY, Role.ANNOTATOR})


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A token as the store knows it; `campaign`, or the series, that it opens, or None for all of them."""

    id: str
    hash: bytes
    role: Role
    campaign: str | None
    label: str = ""
    rate: float | None = None
    """Requests a second (of a device: reports a second), or no limit."""
    created_at: float = 0.0
    revoked_at: float | None = None

    def covers(self, campaign: str, series: str | None = None) -> bool:
        """Whether the token is for this campaign, or for the series that it is a wave of."""
        return self.campaign is None or self.campaign in (campaign, series)


def mint(
    role: Role,
    campaign: str | None,
    *,
    now: float,
    label: str = "",
    rate: float | None = None,
    random: Callable[[int], bytes] = secrets.token_bytes,
) -> tuple[str, Credential]:
    """A new token, to be shown once, and what is stored of it.

    >>> token, credential = mint(Role.DEVICE, None, now=0.0)
    >>> recognise(token, {credential.id: credential}.get) == credential
    True
    >>> recognise(token[:-2] + "AA", {credential.id: credential}.get) is None
    True
    """
    token_id, secret = random(8).hex(), random(32)
    text = _text(secret)
    credential = Credential(
        id=token_id, hash=digest(text), role=role, campaign=campaign, label=label, rate=rate, created_at=now
    )
    return f"kv-{token_id}-{text}", credential


def recognise(token: str, find: Callable[[str], Credential | None]) -> Credential | None:
    """The credential behind a token, if it is one and was not revoked."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        return None
    found = find(parts[1])
    same = hmac.compare_digest(digest(parts[2]), _NOBODY if found is None else found.hash)
    return found if same and found is not None and found.revoked_at is None else None


def _text(secret: bytes) -> str:
    return base64.urlsafe_b64encode(secret).rstrip(b"=").decode()


def digest(secret: str) -> bytes:
    """What may be kept and compared in place of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def is_repeated(headers: Sequence[tuple[bytes, bytes]], name: bytes = b"authorization") -> bool:
    """Whether a header that says who asks comes more than once: then nobody knows who does."""
    return sum(header == name for header, _ in headers) > 1


def bearer(header: bytes) -> str:
    """The token in an Authorization header, or a text that is none."""
    scheme, _, token = header.partition(b" ")
    return token.strip().decode("latin-1") if scheme.lower() == b"bearer" else ""
