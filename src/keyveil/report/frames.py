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
        if len(prefix) < _LENGTH.size:
            raise ReportRejected(Refusal.TRUNCATED_FRAME, f"the stream ends in the length of frame {n_read}")
        if n_read == most:
            raise ReportRejected(Refusal.TOO_MANY_REPORTS, f"expected at most {most} reports; send fewer")
        (length,) = _LENGTH.unpack(prefix)
        if length > largest:
            raise ReportRejected(
                Refusal.FRAME_TOO_LARGE, f"expected at most {largest} bytes, frame {n_read} has {length}"
            )
        report = _read(source, length)
        if len(report) < length:
            raise ReportRejected(
                Refusal.TRUNCATED_FRAME, f"frame {n_read} has {length} bytes, {len(report)} came"
            )
        yield report
        n_read += 1


def _read(source: BinaryIO, size: int) -> bytes:
    """So many bytes, or as many as there are; a socket may hand them over in parts."""
    parts = []
    while size > 0 and (part := source.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
