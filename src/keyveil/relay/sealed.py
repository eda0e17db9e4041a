"""From the bytes of a request to sealed reports by key, round and length: all that a relay can see."""

from __future__ import annotations

from collections import defaultdict

from keyveil.collector.problems import Problem
from keyveil.collector.writing.upload import FRAMED, Upload, UploadPart, equal_frames
from keyveil.errors import Refusal, ReportRejected
from keyveil.report import locate_frames
from keyveil.sealing import SEALED_HEADER_BYTES, SEALED_OVERHEAD, SealedHeader

# Rounds, keys and lengths that one upload may name: each costs the writer a look. A device knows of one.
_MOST_KINDS = 64


def read_sealed(body: bytes, kind: str, *, campaign: str, token: str | None, most: int) -> Upload:
    """The upload in a body; one that cannot be taken apart is refused as a whole.

    >>> from keyveil.report import to_frames
    >>> upload = read_sealed(to_frames([b"short"]), FRAMED, campaign="", token=None, most=9)
    >>> upload.n_reports, upload.statuses
    (1, ['wrong-length'])
    """
    if kind != FRAMED:
        raise Problem("unsupported-type", f"expected {FRAMED}")
    uniform = read_uniform_sealed(body, campaign=campaign, token=token, most=most)
    if uniform is not None:
        return uniform
    try:
        places = list(locate_frames(body, most=most))
    except ReportRejected as error:
        raise Problem("bad-batch", str(error)) from None
    upload = Upload(campaign, token, len(places), [], len(body))
    kinds: dict[tuple[SealedHeader, int], list[int]] = defaultdict(list)
    for place, (start, length) in enumerate(places):
        try:
            kinds[SealedHeader.read(body[start : start + length]), length].append(place)
        except ReportRejected as error:
            upload.mark((place,), error.code.value)
    if len(kinds) > _MOST_KINDS:
        raise Problem("bad-batch", f"expected reports to one round and key, got {len(kinds)} kinds")
    for (header, length), here in kinds.items():
        joined = b"".join(body[places[at][0] : places[at][0] + length] for at in here)
        upload.parts.append(UploadPart(header.round, length, joined, here))
    upload.read = None if upload.statuses is None else list(upload.statuses)
    return upload


def read_uniform_sealed(body: bytes, *, campaign: str, token: str | None, most: int) -> Upload | None:
    """The upload in a body of frames to one round and key; None where it must be taken apart."""
    equal = equal_frames(body, SEALED_HEADER_BYTES, most)
    if equal is None or equal.length <= SEALED_OVERHEAD:
        return None
    try:
        header = SealedHeader.read(equal.joined[: equal.length])
    except ReportRejected as error:
        if error.code is not Refusal.UNKNOWN_VERSION:
            raise
        return None
    part = UploadPart(header.round, equal.length, equal.joined, range(equal.n_frames))
    return Upload(campaign, token, equal.n_frames, [part], len(body))
