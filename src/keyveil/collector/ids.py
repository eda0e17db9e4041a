"""Report ids that the collector hands out, and knows again without keeping a list.

A report's id decides which hash it uses, where the mechanism has hashes. A device that draws its own id
may try ids until the hash suits its lie; one that was handed an id cannot. Half of an issued id is
random, the other half a keyed checksum under a secret of the store.
"""

from __future__ import annotations

import hmac
import secrets

from keyveil.report import REPORT_ID_BYTES

_RANDOM = REPORT_ID_BYTES // 2


def campaign_secret(secret: bytes, campaign: str) -> bytes:
    """What a campaign's ids are made with."""
    return hmac.digest(secret, campaign.encode(), "sha256")


def issue(secret: bytes, count: int) -> list[bytes]:
    """Fresh ids.

    >>> [fresh] = issue(b"secret", 1)
    >>> is_issued(b"secret", fresh), is_issued(b"another", fresh)
    (True, False)
    """
    halves = (secrets.token_bytes(_RANDOM) for _ in range(count))
    return [half + _checksum(secret, half) for half in halves]


def is_issued(secret: bytes, name: bytes) -> bool:
    """Whether an id was made with this secret."""
    return hmac.compare_digest(name[_RANDOM:], _checksum(secret, name[:_RANDOM]))


def _checksum(secret: bytes, drawn: bytes) -> bytes:
    return hmac.digest(secret, drawn, "sha256")[: REPORT_ID_BYTES - _RANDOM]
