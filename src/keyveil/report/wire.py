"""The envelope of a report.

offset  bytes  what
0       1      version, now 1
1       16     campaign: the first half of the SHA-256 of its canonical form
17      2      round, little endian
19      16     report id, random: an upload that is repeated is counted once
35      ...    payload: an answer, and clear labels if any, see `layout`; its length is fixed by the round

The public word of a report is a number below 2**64 that everybody can compute and nobody draws:

    the first 8 bytes, little endian, of SHA-256("keyveil public word 1" + header)

It decides what must not be the device's choice, such as the cohort of a hash. A device may still try
many ids; it learns a cohort each, so a collector that minds hands out the ids itself: then the index of a
report that asks about one key follows from its id as well.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import struct
from dataclasses import dataclass
from typing import Any

from keyveil.errors import Refusal, ReportRejected

VERSION = 1
CAMPAIGN_BYTES = 16
REPORT_ID_BYTES = 16

_HEADER = struct.Struct(f"<B{CAMPAIGN_BYTES}sH{REPORT_ID_BYTES}s")
HEADER_BYTES = _HEADER.size
_PUBLIC_WORD = b"keyveil public word 1"


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

    def to_json(self) -> str:
        """The report for people: ids in hexadecimal, the payload in base64.

        >>> Envelope(campaign=bytes(16), round=1, report_id=bytes(16), payload=b"x").to_json()[-18:]
        '"payload": "eA=="}'
        """
        said = {
            "version": VERSION,
            "campaign": self.campaign.hex(),
            "round": self.round,
            "report_id": self.report_id.hex(),
            "payload": base64.b64encode(self.payload).decode(),
        }
        return json.dumps(said)

    @classmethod
    def from_json(cls, text: str | bytes) -> Envelope:
        """The envelope that `to_json` wrote, in whatever order and spacing, or a refusal."""
        try:
            said = dict(_checked_fields(json.loads(text, object_pairs_hook=_Pairs)))
        except (ValueError, RecursionError) as error:
            raise ReportRejected(Refusal.NOT_JSON, f"the text is no report: {error}"[:200]) from None
        if said["version"] != VERSION:
            raise ReportRejected(
                Refusal.UNKNOWN_VERSION, f"this collector reads version {VERSION}, got {said['version']}"
            )
        return cls(
            campaign=_from_hex(said["campaign"], CAMPAIGN_BYTES, "campaign"),
            round=_checked_round(said["round"]),
            report_id=_from_hex(said["report_id"], REPORT_ID_BYTES, "report_id"),
            payload=_from_base64(said["payload"]),
        )


def fresh_id() -> bytes:
    """A random id for a report, where nobody hands them out."""
    return os.urandom(REPORT_ID_BYTES)


def public_word(tag: bytes, round: int, report_id: bytes) -> int:
    """The word that a report's header gives, see the top of this file.

    >>> hex(public_word(bytes(16), 1, bytes(16)))
    '0xf969c14ecdb61f53'
    """
    header = _HEADER.pack(VERSION, tag, round, report_id)
    return int.from_bytes(hashlib.sha256(_PUBLIC_WORD + header).digest()[:8], "little")


def public_words(tag: bytes, round: int, report_ids: bytes) -> list[int]:
    """`public_word` of report ids that lie one after the other.

    >>> public_words(bytes(16), 1, bytes(32)) == 2 * [public_word(bytes(16), 1, bytes(16))]
    True
    """
    start = hashlib.sha256(_PUBLIC_WORD + _HEADER.pack(VERSION, tag, round, b"")[:-REPORT_ID_BYTES])
    words = []
    for at in range(0, len(report_ids), REPORT_ID_BYTES):
        hashed = start.copy()
        hashed.update(report_ids[at : at + REPORT_ID_BYTES])
        words.append(int.from_bytes(hashed.digest()[:8], "little"))
    return words


_FIELDS = {"version": int, "campaign": str, "round": int, "report_id": str, "payload": str}


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object as they came, repeated ones included."""


def _checked_fields(parsed: object) -> _Pairs:
    if not isinstance(parsed, _Pairs) or sorted(name for name, _ in parsed) != sorted(_FIELDS):
        raise ValueError(f"expected an object with {', '.join(_FIELDS)}, each once")
    for name, value in parsed:
        if type(value) is not _FIELDS[name]:
            raise ValueError(f"{name} must be of type {_FIELDS[name].__name__}")
    return parsed


def _checked_round(number: int) -> int:
    if not 0 <= number < 1 << 16:
        raise ReportRejected(Refusal.NOT_CANONICAL, "a round is a number from 0 to 65535")
    return number


def _from_hex(text: str, n_bytes: int, name: str) -> bytes:
    if len(text) != 2 * n_bytes or not set(text) <= set("0123456789abcdef"):
        raise ReportRejected(Refusal.NOT_CANONICAL, f"{name} must be {2 * n_bytes} small hexadecimal digits")
    return bytes.fromhex(text)


def _from_base64(text: str) -> bytes:
    try:
        payload = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        payload = b""
    if base64.b64encode(payload).decode() != text:
        raise ReportRejected(Refusal.NOT_CANONICAL, "payload must be base64, padded, without spaces")
    return payload
