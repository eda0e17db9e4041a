"""Reports one after the other: a batch, a file, an upload.

A frame is a length (4 bytes, little endian) and as many bytes. A reader bounds both the length of a
frame and their number before it stores anything, and refuses a stream that ends inside a frame.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from io import BytesIO
from typing import BinaryIO

from keyveil.errors import Refusal, ReportRejected

# A unary report about a million keys has 250 kB.
LARGEST_FRAME = 1 << 20
MOST_FRAMES = 1 << 16

_LENGTH = struct.Struct("<I")


def frame(report: bytes) -> bytes:
    """One report, framed.

    >>> frame(b"abc").hex()
    '03000000616263'
    """
    return _LENGTH.pack(len(report)) + report


def to_frames(reports: Iterable[bytes]) -> bytes:
    """A batch of reports in one piece."""
    return b"".join(map(frame, reports))


def locate_frames(
    batch: bytes, *, largest: int = LARGEST_FRAME, most: int | None = MOST_FRAMES
) -> Iterator[tuple[int, int]]:
    """Where each report of a batch begins, and how long it is; or a refusal.

    >>> list(locate_frames(to_frames([b"abc", b""])))
    [(4, 3), (11, 0)]
    """
    at, n_read, end = 0, 0, len(batch)
    while at < end:
        length = _length(batch[at : at + _LENGTH.size], n_read, largest, most)
        at += _LENGTH.size
        _check_whole(length, min(length, end - at), n_read)
        yield at, length
        at += length
        n_read += 1


def read_frames(
    stream: BinaryIO | bytes, *, largest: int = LARGEST_FRAME, most: int | None = MOST_FRAMES
) -> Iterator[bytes]:
    """The reports of a stream in order, or a refusal; `most` = None reads a file to its end.

    >>> list(read_frames(to_frames([b"abc", b""])))
    [b'abc', b'']
    """
    source = BytesIO(stream) if isinstance(stream, bytes) else stream
    n_read = 0
    while prefix := _read(source, _LENGTH.size):
        length = _length(prefix, n_read, largest, most)
        report = _read(source, length)
        _check_whole(length, len(report), n_read)
        yield report
        n_read += 1


def _length(prefix: bytes, n_read: int, largest: int, most: int | None) -> int:
    """The length that a frame begins with, within bounds."""
    if len(prefix) < _LENGTH.size:
        raise ReportRejected(Refusal.TRUNCATED_FRAME, f"the stream ends in the length of frame {n_read}")
    if n_read == most:
        raise ReportRejected(Refusal.TOO_MANY_REPORTS, f"expected at most {most} reports; send fewer")
    length: int = _LENGTH.unpack(prefix)[0]
    if length > largest:
        raise ReportRejected(
            Refusal.FRAME_TOO_LARGE, f"expected at most {largest} bytes, frame {n_read} has {length}"
        )
    return length


def _check_whole(length: int, n_bytes: int, n_read: int) -> None:
    if n_bytes < length:
        raise ReportRejected(Refusal.TRUNCATED_FRAME, f"frame {n_read} has {length} bytes, {n_bytes} came")


def _read(source: BinaryIO, size: int) -> bytes:
    """So many bytes, or as many as there are; a socket may hand them over in parts."""
    parts = []
    while size > 0 and (part := source.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
