"""The envelope of a report.

offset  bytes  what
0       1      version, now 1
1       16     campaign: the first half of the SHA-256 of its canonical form
17      2      round, little endian
19      16     report id, random: an upload that is repeated is counted once
35      ...    payload, see `layout`; its length is fixed by the campaign
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from keyveil.errors import Refusal, ReportRejected

VERSION = 1
CAMPAIGN_BYTES = 16
REPORT_ID_BYTES = 16

_HEADER = struct.Struct(f"<B{CAMPAIGN_BYTES}sH{REPORT_ID_BYTES}s")
HEADER_BYTES = _HEADER.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A report as it crosses the wire.

    >>> sent = Envelope(campaign=bytes(16), round=1, report_id=bytes(16), payload=b"x")
    >>> Envelope.from_bytes(sent.to_bytes()) == sent
    True
    """

    campaign: bytes
    round: int
    report_id: bytes
    payload: bytes

    def to_bytes(self) -> bytes:
        """Header and payload."""
        return _HEADER.pack(VERSION, self.campaign, self.round, self.report_id) + self.payload

    @classmethod
    def from_bytes(cls, data: bytes) -> Envelope:
        """The envelope in `data`, or a refusal; the payload is not looked at."""
        if len(data) < HEADER_BYTES:
            raise ReportRejected(
                Refusal.WRONG_LENGTH, f"expected at least {HEADER_BYTES} bytes, got {len(data)}"
            )
        version, campaign, round_, report_id = _HEADER.unpack_from(data)
        if version != VERSION:
            raise ReportRejected(
                Refusal.UNKNOWN_VERSION, f"this collector reads version {VERSION}, got {version}"
            )
        return cls(campaign=campaign, round=round_, report_id=report_id, payload=bytes(data[HEADER_BYTES:]))
