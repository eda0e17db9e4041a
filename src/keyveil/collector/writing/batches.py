"""Part of a relay's batch: sealed reports are opened, and are then reports like any others.

What does not open, or says inside that it answers another round than outside, counts nothing and is said to
nobody: whoever hears what became of one report could tell which it was.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from keyveil.collector.problems import Problem
from keyveil.collector.writing.upload import FRAMED, Batch, Upload, read_upload
from keyveil.errors import Refusal, ReportRejected
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES, read_frames, to_frames
from keyveil.sealing import SEALED_HEADER_BYTES, OpeningKey, SealedHeader

_ID = re.compile("[0-9a-f]{32}", re.ASCII)
_ROUND = struct.Struct("<H")
_BEFORE_ROUND = HEADER_BYTES - REPORT_ID_BYTES - _ROUND.size
# The keys with these ids, those of them that there are.
FindKeys = Callable[[set[bytes]], Mapping[bytes, OpeningKey]]


class OpenedBatch(NamedTuple):
    """The upload inside, and how many sealed reports count nothing, by why."""

    upload: Upload
    refused: Counter[str]


def open_batch(
    body: bytes, batch: Batch, *, keys: FindKeys, tag: bytes, campaign: str, token: str, most: int
) -> OpenedBatch:
    """The reports that were sealed for this campaign and the batch's round."""
    refused: Counter[str] = Counter()
    by_key: dict[bytes, list[bytes]] = {}
    frames = _frames(body, most)
    for sealed in frames:
        try:
            header = SealedHeader.read(sealed)
        except ReportRejected as error:
            refused[error.code.value] += 1
            continue
        if header.round == batch.round:
            by_key.setdefault(header.key, []).append(sealed[SEALED_HEADER_BYTES:])
        else:
            refused[Refusal.WRONG_ROUND.value] += 1
    found = keys(set(by_key))
    opened: list[bytes] = []
    for key, bodies in by_key.items():
        if key not in found:
            refused[Refusal.UNKNOWN_KEY.value] += len(bodies)
            continue
        each = found[key].open_each(bodies, campaign=campaign, round=batch.round)
        sound = [report for report in each if report is not None and _answers(report, batch.round)]
        refused[Refusal.NOT_SEALED.value] += len(bodies) - len(sound)
        opened += sound
    upload = read_upload(to_frames(opened), FRAMED, tag=tag, campaign=campaign, token=token, most=most)
    upload.batch = batch._replace(received=len(frames))
    return OpenedBatch(upload, +refused)


def read_batch_query(query: Mapping[str, str]) -> Batch:
    """What the address says of a batch; what fits no batch is refused."""
    if not {"batch", "round", "size"} <= query.keys() or _ID.fullmatch(query["batch"]) is None:
        raise Problem("bad-request", "expected batch (32 small hexadecimal digits), round and size")
    if int(query["part"]) >= int(query["parts"]):
        raise Problem("bad-request", f"expected a part below {query['parts']}, got {query['part']}")
    return Batch(query["batch"], int(query["round"]), int(query["size"]), int(query["part"]))


def _frames(body: bytes, most: int) -> list[bytes]:
    try:
        return list(read_frames(body, most=most))
    except ReportRejected as error:
        raise Problem("bad-batch", str(error)) from None


def _answers(report: bytes, round: int) -> bool:
    return len(report) >= HEADER_BYTES and _ROUND.unpack_from(report, _BEFORE_ROUND) == (round,)
