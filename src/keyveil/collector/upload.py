"""From the bytes of a request to reports, sorted by the round they claim to answer.

Only the header is looked at here, and of a batch of equal frames only once for all: what a report says
is settled by the writer, for a whole group at a time.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from keyveil.collector.problems import Problem
from keyveil.collector.strict import parse_json
from keyveil.errors import Refusal, ReportRejected
from keyveil.report import HEADER_BYTES, Envelope, read_frames

FRAMED, JSON = "application/octet-stream", "application/json"

_FRAME = struct.Struct("<I")
_ROUND = struct.Struct("<H")
# Version and campaign; the round follows.
_BEFORE_ROUND = 17
_FIRST_ROUND = _FRAME.size + _BEFORE_ROUND


@dataclass(slots=True)
class Part:
    """Reports of one upload that name the same round and have the same length, joined."""

    round: int
    length: int
    reports: bytes
    places: Sequence[int]
    """Where in the upload they stood."""


@dataclass(slots=True)
class Upload:
    """A batch on its way: what it holds, and what becomes of each report."""

    campaign: str
    token: str | None
    n_reports: int
    parts: list[Part]
    size: int
    statuses: list[str] | None = None
    """A status a report; None while, or because, all are accepted."""
    read: list[str] | None = None
    """The statuses as they were before the writer had the upload."""
    problem: Problem | None = None
    done: Any = field(default=None, repr=False)
    """The future that somebody waits for."""

    def reset(self) -> None:
        """Forget what a transaction that failed had marked."""
        self.statuses = None if self.read is None else list(self.read)
        self.problem = None

    def mark(self, places: Iterable[int], status: str) -> None:
        """Say of some reports what became of them."""
        if self.statuses is None:
            self.statuses = ["accepted"] * self.n_reports
        for place in places:
            self.statuses[place] = status


def read_upload(body: bytes, kind: str, *, tag: bytes, campaign: str, token: str | None, most: int) -> Upload:
    """The upload in a body; a body that cannot be taken apart is refused as a whole.

    >>> from keyveil.report import to_frames
    >>> report = Envelope(campaign=bytes(16), round=1, report_id=bytes(16), payload=b"x").to_bytes()
    >>> body = to_frames([report, b"short"])
    >>> upload = read_upload(body, FRAMED, tag=bytes(16), campaign="", token=None, most=9)
    >>> upload.n_reports, upload.statuses
    (2, ['accepted', 'wrong-length'])
    """
    if kind == FRAMED:
        uniform = _uniform(body, tag, most)
        if uniform is not None:
            part = uniform
            return Upload(campaign, token, len(part.places), [part], len(body))
        try:
            reports = list(read_frames(body, most=most))
        except ReportRejected as error:
            raise Problem("bad-batch", str(error)) from None
        return _sorted_out(reports, {}, tag=tag, campaign=campaign, token=token, size=len(body))
    return _from_json(body, tag=tag, campaign=campaign, token=token, most=most)


def _uniform(body: bytes, tag: bytes, most: int) -> Part | None:
    """The part of a body whose frames all have one length, the campaign's tag and one round."""
    if len(body) < _FRAME.size + HEADER_BYTES:
        return None
    (length,) = _FRAME.unpack_from(body)
    step = _FRAME.size + length
    count, rest = divmod(len(body), step)
    if rest or length < HEADER_BYTES or count > most:
        return None
    if body[_FRAME.size] != 1 or body[_FRAME.size + 1 : _FIRST_ROUND] != tag:
        return None
    (round_,) = _ROUND.unpack_from(body, _FIRST_ROUND)
    if count == 1:
        return Part(round_, length, body[_FRAME.size :], (0,))
    rows = np.frombuffer(body, dtype=np.uint8).reshape(count, step)
    heads = rows[:, : _FIRST_ROUND + _ROUND.size]
    if (heads != heads[0]).any():
        return None
    return Part(round_, length, rows[:, _FRAME.size :].tobytes(), range(count))


def _sorted_out(
    reports: Sequence[bytes],
    refused: dict[int, str],
    *,
    tag: bytes,
    campaign: str,
    token: str | None,
    size: int,
) -> Upload:
    """An upload of reports of any kind, those that are no reports of the campaign marked."""
    upload = Upload(campaign, token, len(reports), [], size)
    found: dict[tuple[int, int], list[int]] = {}
    for place, report in enumerate(reports):
        if place in refused:
            upload.mark((place,), refused[place])
            continue
        try:
            envelope = Envelope.from_bytes(report)
        except ReportRejected as error:
            upload.mark((place,), error.code.value)
            continue
        if envelope.campaign != tag:
            upload.mark((place,), Refusal.WRONG_CAMPAIGN.value)
        else:
            found.setdefault((envelope.round, len(report)), []).append(place)
    for (round_, length), places in found.items():
        upload.parts.append(Part(round_, length, b"".join(reports[place] for place in places), places))
    upload.read = None if upload.statuses is None else list(upload.statuses)
    return upload


def _from_json(body: bytes, *, tag: bytes, campaign: str, token: str | None, most: int) -> Upload:
    """{"reports": [...]}, each the base64 of a report's bytes or a report for people (`Envelope.to_json`)."""
    said = parse_json(body, "bad-batch")
    if not isinstance(said, dict) or list(said) != ["reports"] or not isinstance(said["reports"], list):
        raise Problem("bad-batch", 'expected a JSON object {"reports": [...]}')
    if len(said["reports"]) > most:
        raise Problem("bad-batch", f"expected at most {most} reports, got {len(said['reports'])}; send fewer")
    reports, refused = [], {}
    for place, item in enumerate(said["reports"]):
        try:
            reports.append(_report(item))
        except ReportRejected as error:
            refused[place] = error.code.value
            reports.append(b"")
    return _sorted_out(reports, refused, tag=tag, campaign=campaign, token=token, size=len(body))


def _report(item: object) -> bytes:
    if isinstance(item, dict):
        return Envelope.from_json(json.dumps(item)).to_bytes()
    try:
        if not isinstance(item, str):
            raise ValueError
        report = base64.b64decode(item, validate=True)
        if base64.b64encode(report).decode() != item:
            raise ValueError
    except (ValueError, binascii.Error):
        raise ReportRejected(Refusal.NOT_JSON, "expected the base64 of a report, padded") from None
    return report


class Expander:
    """gzip, expanded no further than a bound."""

    def __init__(self, largest: int) -> None:
        self._inflate = zlib.decompressobj(wbits=31)
        self._left = largest
        self._largest = largest

    def feed(self, data: bytes) -> bytes:
        """What the next bytes expand to, or a refusal."""
        try:
            out = self._inflate.decompress(data, self._left + 1)
        except zlib.error:
            raise Problem("bad-batch", "the body is not gzip") from None
        self._left -= len(out)
        if self._left < 0:
            raise Problem("too-large", f"expected at most {self._largest} bytes once expanded")
        return out

    def finish(self) -> None:
        """Refuse a stream that was cut off, or that something follows."""
        if not self._inflate.eof or self._inflate.unused_data:
            raise Problem("bad-batch", "the gzip stream is cut off, or bytes follow it")
