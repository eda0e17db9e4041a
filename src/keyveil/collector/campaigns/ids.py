"""Report ids that the collector hands out, and knows again without keeping a list.

A report's id decides which index or hash it has. A device that draws its own id may try ids until one suits
its lie; one that was handed an id cannot. Half of an issued id is a keyed hash of who asks: the token, and a
nonce that the device drew once. The same token and nonce get the same id however often they ask. The other
half is a checksum; both are made under a secret of the store.
"""

from __future__ import annotations

import hmac

from keyveil.report import REPORT_ID_BYTES

NONCE_BYTES = 16
_HALF = REPORT_ID_BYTES // 2


def campaign_secret(secret: bytes, campaign: str) -> bytes:
    """What a campaign's ids are made with."""
    return hmac.digest(secret, campaign.encode(), "sha256")


def issue(secret: bytes, *, token: str, nonce: bytes, count: int = 1) -> list[bytes]:
    """The ids of a token and a nonce: one, or the first `count` of a crowd that asks at once.

    >>> [one] = issue(b"secret", token="ab", nonce=bytes(16))
    >>> one == issue(b"secret", token="ab", nonce=bytes(16), count=3)[0]
    True
    >>> is_issued(b"secret", one), is_issued(b"another", one)
    (True, False)
    """
    asked = f"{token} {nonce.hex()}"
    halves = (hmac.digest(secret, f"{asked} {place}".encode(), "sha256")[:_HALF] for place in range(count))
    return [half + _checksum(secret, half) for half in halves]


def is_issued(secret: bytes, name: bytes) -> bool:
    """Whether an id was made with this secret."""
    return hmac.compare_digest(name[_HALF:], _checksum(secret, name[:_HALF]))


def _checksum(secret: bytes, half: bytes) -> bytes:
    return hmac.digest(secret, half, "sha256")[: REPORT_ID_BYTES - _HALF]
