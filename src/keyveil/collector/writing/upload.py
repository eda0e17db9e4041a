"""From the bytes of a request to reports, sorted by the round they claim to answer.

Only the header is looked at here, of all reports at once: what a report says is settled by the writer,
for a whole group at a time.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.collector.problems import Problem
from keyveil.collector.strict import parse_json
from keyveil.errors import Refusal, ReportRejected
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES, VERSION, Envelope, locate_frames

FRAMED, JSON = "application/octet-stream", "application/json"

_FRAME = struct.Struct("<I")
_ROUND = struct.Struct("<H")
# Version and campaign; the round follows.
_BEFORE_ROUND = 17
_FIRST_ROUND = _FRAME.size + _BEFORE_ROUND
_BEFORE_ID = HEADER_BYTES - REPORT_ID_BYTES
# Rounds, and lengths, that one upload may name: each costs the writer a look. A device knows of one.
_MOST_PARTS = 64


class Batch(NamedTuple):
    """What a relay says of part of a batch: the batch's id, the round that it answers, how many reports it
    has in all; and how many sealed reports came with this part.
    """

    id: str
    round: int
    size: int
    part: int
    received: int = 0


@dataclass(slots=True)
class UploadPart:
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
    parts: list[UploadPart]
    size: int
    statuses: list[str] | None = None
    """A status a report; None while, or because, all are accepted."""
    read: list[str] | None = None
    """The statuses as they were before the writer had the upload."""
    batch: Batch | None = None
    """The relay's batch that it is a part of."""
    problem: Problem | None = None
    done: Any = field(default=None, repr=False)
    """The future that somebody waits for."""
    whole: Upload | None = None
    """What this is a piece of."""
    at: Sequence[int] = ()
    """Where in the whole the piece's reports stood."""
    is_last: bool = True
    """Whether nothing of the upload comes behind this."""
    n_left: int = 1
    """Pieces that are not written yet."""
    queued_at: float = 0.0
    """When it came into the queue, by a clock that only measures."""

    @property
    def work(self) -> int:
        """What it costs to write, in bytes: a report costs about as much as two kilobytes of it."""
        return self.size + (self.n_reports << 11)

    def pieces(self, work: int) -> list[Upload]:
        """The upload itself, or pieces of about so much work: only a report is all or nothing."""
        if self.work <= 2 * work:
            return [self]
        most = max(1, work * self.n_reports // self.work)
        pieces = [
            self._piece(part, slice(start, start + most))
            for part in self.parts
            for start in range(0, len(part.places), most)
        ]
        if not pieces:
            return [self]
        self.n_left = len(pieces)
        for piece in pieces[:-1]:
            piece.is_last = False
        return pieces

    def _piece(self, part: UploadPart, some: slice) -> Upload:
        at = part.places[some]
        reports = part.reports[some.start * part.length : some.stop * part.length]
        inside = UploadPart(part.round, part.length, reports, range(len(at)))
        return Upload(
            self.campaign, self.token, len(at), [inside], len(reports), batch=self.batch, whole=self, at=at
        )

    @property
    def n_accepted(self) -> int:
        """How many of its reports are counted, as far as is known."""
        return self.n_reports if self.statuses is None else self.statuses.count("accepted")

    def put_statuses(self, places: Sequence[int], statuses: list[str]) -> None:
        """What became of some reports, each."""
        if self.statuses is None:
            self.statuses = ["accepted"] * self.n_reports
        if isinstance(places, range):
            self.statuses[places.start : places.stop] = statuses
            return
        for place, status in zip(places, statuses, strict=True):
            self.statuses[place] = status

    def written(self) -> Upload | None:
        """The whole upload, if this was the last of it that the writer had to write."""
        whole = self.whole
        if whole is None:
            return self
        whole.n_left -= 1
        whole.problem = whole.problem or self.problem
        if self.statuses is not None:
            whole.put_statuses(self.at, self.statuses)
        return None if whole.n_left else whole

    def reset(self) -> None:
        """Forget what a transaction that failed had marked."""
        self.statuses = None if self.read is None else list(self.read)
        self.problem = None

    def mark(self, places: Sequence[int], status: str) -> None:
        """Say of some reports what became of them."""
        if not places:
            return
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
        uniform = read_uniform(body, tag=tag, campaign=campaign, token=token, most=most)
        if uniform is not None:
            return uniform
        try:
            places = list(locate_frames(body, most=most))
        except ReportRejected as error:
            raise Problem("bad-batch", str(error)) from None
        return _sorted_out(Upload(campaign, token, len(places), [], len(body)), body, places, tag)
    return _from_json(body, tag=tag, campaign=campaign, token=token, most=most)


def read_uniform(body: bytes, *, tag: bytes, campaign: str, token: str | None, most: int) -> Upload | None:
    """The upload in a body of equal frames, which is soon read; None where it must be taken apart."""
    part = _uniform(body, tag, most)
    return None if part is None else Upload(campaign, token, len(part.places), [part], len(body))


def _uniform(body: bytes, tag: bytes, most: int) -> UploadPart | None:
    """The part of a body whose frames all have one length, the campaign's tag and one round."""
    if body[_FRAME.size : _FRAME.size + 1] != b"\x01" or body[_FRAME.size + 1 : _FIRST_ROUND] != tag:
        return None
    equal = equal_frames(body, _BEFORE_ROUND + _ROUND.size, most)
    if equal is None or equal.length < HEADER_BYTES:
        return None
    (round_,) = _ROUND.unpack_from(body, _FIRST_ROUND)
    return UploadPart(
        round_, equal.length, equal.joined, range(equal.n_frames) if equal.n_frames > 1 else (0,)
    )


class EqualFrames(NamedTuple):
    """What stands in frames of one length, joined."""

    length: int
    n_frames: int
    joined: bytes


def equal_frames(body: bytes, head: int, most: int) -> EqualFrames | None:
    """The frames of a body if all have one length and begin with the same so many bytes.

    >>> from keyveil.report import to_frames
    >>> equal_frames(to_frames([b"abc", b"abd"]), 2, 9)
    EqualFrames(length=3, n_frames=2, joined=b'abcabd')
    """
    if len(body) < _FRAME.size + head:
        return None
    (length,) = _FRAME.unpack_from(body)
    step = _FRAME.size + length
    count, rest = divmod(len(body), step)
    if rest or length < head or count > most:
        return None
    if count == 1:
        return EqualFrames(length, 1, body[_FRAME.size :])
    rows = np.frombuffer(body, dtype=np.uint8).reshape(count, step)
    heads = rows[:, : _FRAME.size + head]
    if (heads != heads[0]).any():
        return None
    return EqualFrames(length, count, rows[:, _FRAME.size :].tobytes())


def _sorted_out(upload: Upload, data: bytes, places: Sequence[tuple[int, int]], tag: bytes) -> Upload:
    """Sort the reports that lie in `data` by round and length; the rest is marked."""
    starts, lengths = np.array(places, dtype=np.int64).reshape(-1, 2).T
    is_whole = lengths >= HEADER_BYTES
    heads = np.zeros((len(places), _BEFORE_ID), dtype=np.uint8)
    heads[is_whole] = np.frombuffer(data, dtype=np.uint8)[starts[is_whole, None] + np.arange(_BEFORE_ID)]
    is_read = is_whole & (heads[:, 0] == VERSION)
    is_ours = is_read & (heads[:, 1:_BEFORE_ROUND] == np.frombuffer(tag, dtype=np.uint8)).all(axis=1)
    upload.mark(_where(~is_whole), Refusal.WRONG_LENGTH.value)
    upload.mark(_where(is_whole & ~is_read), Refusal.UNKNOWN_VERSION.value)
    upload.mark(_where(is_read & ~is_ours), Refusal.WRONG_CAMPAIGN.value)
    rounds = heads[:, _BEFORE_ROUND:].copy().view("<u2")[:, 0]
    kinds = rounds.astype(np.int64) << 32 | lengths
    found = np.unique(kinds[is_ours])
    if len(found) > _MOST_PARTS:
        raise Problem(
            "bad-batch",
            f"expected reports to at most {_MOST_PARTS} rounds, all of a round of one length, "
            f"got {len(found)} kinds",
        )
    for kind in found.tolist():
        round_, length = divmod(kind, 1 << 32)
        here = _where(is_ours & (kinds == kind))
        joined = b"".join([data[start : start + length] for start in starts[here].tolist()])
        upload.parts.append(UploadPart(round_, length, joined, here))
    upload.read = None if upload.statuses is None else list(upload.statuses)
    return upload


def _where(marks: NDArray[np.bool_]) -> list[int]:
    places: list[int] = np.flatnonzero(marks).tolist()
    return places


def _from_json(body: bytes, *, tag: bytes, campaign: str, token: str | None, most: int) -> Upload:
    """{"reports": [...]}, each the base64 of a report's bytes or a report for people (`Envelope.to_json`)."""
    said = parse_json(body, "bad-batch")
    if not isinstance(said, dict) or list(said) != ["reports"] or not isinstance(said["reports"], list):
        raise Problem("bad-batch", 'expected a JSON object {"reports": [...]}')
    if len(said["reports"]) > most:
        raise Problem("bad-batch", f"expected at most {most} reports, got {len(said['reports'])}; send fewer")
    upload = Upload(campaign, token, len(said["reports"]), [], len(body))
    reports: list[bytes] = []
    refused: dict[int, str] = {}
    for place, item in enumerate(said["reports"]):
        try:
            reports.append(_report(item))
        except ReportRejected as error:
            reports.append(b"")
            refused[place] = error.code.value
    ends = list(accumulate(map(len, reports)))
    places = [(end - len(report), len(report)) for end, report in zip(ends, reports, strict=True)]
    _sorted_out(upload, b"".join(reports), places, tag)
    for place, status in refused.items():
        upload.mark((place,), status)
    upload.read = None if upload.statuses is None else list(upload.statuses)
    return upload


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


def expanded_size(body: bytes, *, largest: int) -> int:
    """What a gzip stream says of itself that it expands to, or the bound that it exceeds."""
    return min(int.from_bytes(body[-4:], "little"), largest)


def expand(body: bytes, *, largest: int) -> bytes:
    """A gzip stream, expanded no further than a bound, nor than it says of itself."""
    inflate = zlib.decompressobj(wbits=31)
    size = expanded_size(body, largest=largest)
    try:
        out = inflate.decompress(body, size + 1)
    except zlib.error:
        raise Problem("bad-batch", "the body is not gzip") from None
    if len(out) > size == largest:
        raise Problem("too-large", f"expected at most {largest} bytes once expanded")
    if len(out) > size or not inflate.eof or inflate.unused_data:
        raise Problem("bad-batch", "the gzip stream is cut off, or longer than it says")
    return out
