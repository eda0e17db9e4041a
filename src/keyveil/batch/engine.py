"""Files of reports, counted on this machine: in one process or several, and again from where it stopped.

Each part becomes a file of its own in a folder: its tally, why reports were refused, the ids of those
that were counted, and a hash of all that. A run that is cut off leaves the folder; the next one takes
over every part whose hash is right and whose reports have not changed, and counts the others. Workers
hand over nothing else, so a worker that dies takes nothing with it.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from keyveil.batch.files import FilePart, blocks_of, cut
from keyveil.batch.partition import Partition, tally_partition
from keyveil.batch.repeats import extra_copies, repeated_ids, without
from keyveil.batch.stream import Bytes
from keyveil.compiled import THREADS, usable_cores
from keyveil.errors import TallyError
from keyveil.report import REPORT_ID_BYTES
from keyveil.rounds import Round
from keyveil.tally import Tally
from keyveil.tally.count import Counter as TallyCounter

UNREADABLE = "unreadable-file"
# Below this many bytes of reports a second process has not started before the first is done.
_WORTH_A_PROCESS = 1 << 32

Advance = Callable[[int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The tally of all files, and what is not in it."""

    tally: Tally
    refused: Counter[str] = field(default_factory=Counter)
    """Reports by the code of their refusal."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Files, or parts of them, that could not be read, and why."""
    n_repeated: int = 0
    """Copies of reports that were counted once."""

    @property
    def is_whole(self) -> bool:
        """Whether everything was read and counted."""
        return not self.refused and not self.unreadable


def tally_files(
    round: Round,
    paths: Sequence[Path],
    *,
    folder: Path,
    campaign_id: str | None = None,
    processes: int | None = None,
    strict: bool = False,
    advance: Advance = lambda _: None,
) -> Summary:
    """The tally of all reports in the files, each id once.

    `folder` holds what is done; remove it when the result is safe. A file that cannot be read, and a
    report that is refused, is counted as such and the rest goes on, unless `strict`.
    """
    parts, lost = _cut_all(paths, campaign_id, strict)
    folder.mkdir(parents=True, exist_ok=True)
    # A file that is named twice is counted once and added twice; its ids give it away below.
    left = [part for part in dict.fromkeys(parts) if not _is_done(folder, part, round)]
    advance(sum(part.n_reports for part in set(parts) - set(left)))
    for part, trouble in _run(round, left, folder, _how_many(processes, left), strict):
        if trouble:
            lost[f"{part.path} {list(part.groups)}" if part.groups else part.path] = trouble
        advance(part.n_reports)
    kept = [part for part in parts if _is_done(folder, part, round)]
    if lost and not kept:
        raise TallyError(next(iter(lost.values())))
    total, refused = TallyCounter.of(round).tally(), Counter[str]()
    for part in kept:
        found = _read(folder, part, round)
        total, refused = total + found.tally, refused + found.refused
    return _once(round, kept, folder, Summary(tally=total, refused=refused, unreadable=lost))


def _once(round: Round, parts: Sequence[FilePart], folder: Path, counted: Summary) -> Summary:
    """The same, with every id counted once."""
    total = counted.tally.n_reports
    repeated = repeated_ids(lambda: (_ids(folder, part) for part in parts), total)
    if not repeated:
        return counted
    extra = extra_copies(round, repeated, lambda: blocks_of(parts))
    return Summary(
        tally=without(counted.tally, extra),
        refused=counted.refused,
        unreadable=counted.unreadable,
        n_repeated=extra.n_reports,
    )


def _cut_all(
    paths: Sequence[Path], campaign_id: str | None, strict: bool
) -> tuple[list[FilePart], dict[str, str]]:
    parts: list[FilePart] = []
    lost: dict[str, str] = {}
    for path in paths:
        try:
            # One file of another campaign is a mistake; among others its reports are refused one by one.
            parts += cut(path, campaign_id if strict or len(paths) == 1 else None)
        except TallyError as error:
            if strict or len(paths) == 1:
                raise
            lost[str(path)] = str(error)
    return parts, lost


def _how_many(processes: int | None, parts: Sequence[FilePart]) -> int:
    if processes is None:
        size = sum({part.path: os.path.getsize(part.path) for part in parts}.values())
        processes = usable_cores() if size >= _WORTH_A_PROCESS else 1
    return max(1, min(processes, len(parts)))


def _run(
    round: Round, parts: Sequence[FilePart], folder: Path, processes: int, strict: bool
) -> Iterator[tuple[FilePart, str]]:
    """Count parts, and yield each with what went wrong, if anything did."""
    tasks = [(round, part, folder, strict) for part in parts]
    if processes == 1:
        yield from map(_count, tasks)
        return
    # A fresh interpreter shares no lock with this one's threads, and has a core to itself.
    with multiprocessing.get_context("spawn").Pool(processes, _one_thread) as pool:
        yield from pool.imap_unordered(_count, tasks)


def _one_thread() -> None:
    os.environ[THREADS] = "1"


def _count(task: tuple[Round, FilePart, Path, bool]) -> tuple[FilePart, str]:
    round, part, folder, strict = task
    try:
        found = tally_partition(round, part.blocks(), strict=strict)
    except TallyError as error:
        if strict:
            raise
        return part, str(error)
    _write(folder, part, round, found)
    return part, ""


# --- what a part leaves behind ---


def _places(folder: Path, part: FilePart) -> tuple[Path, Path]:
    return folder / f"{part.key}.json", folder / f"{part.key}.ids"


def _write(folder: Path, part: FilePart, round: Round, found: Partition) -> None:
    said, ids = _places(folder, part)
    tally = json.loads(found.tally.to_json())
    text = json.dumps({"question": round.question, "tally": tally, "refused": dict(found.refused)})
    data = np.ascontiguousarray(found.ids)
    sealed = json.dumps({"sha256": _seal(text, data), "said": text})
    _replace(ids, data.tobytes())
    _replace(said, sealed.encode())


def _replace(path: Path, data: bytes) -> None:
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.write_bytes(data)
    os.replace(draft, path)


def _seal(text: str, ids: Bytes) -> str:
    return hashlib.sha256(text.encode() + hashlib.sha256(ids.tobytes()).digest()).hexdigest()


def _is_done(folder: Path, part: FilePart, round: Round) -> bool:
    try:
        _read(folder, part, round)
    except (OSError, ValueError, KeyError, TypeError, TallyError):
        return False
    return True


def _read(folder: Path, part: FilePart, round: Round) -> Partition:
    said, _ = _places(folder, part)
    sealed = json.loads(said.read_text(encoding="utf-8"))
    ids = _ids(folder, part)
    if sealed["sha256"] != _seal(sealed["said"], ids):
        raise TallyError(f"{said.name} is not what was written; it is counted anew")
    fields = json.loads(sealed["said"])
    if fields["question"] != round.question:
        raise TallyError(f"{said.name} answers another question; it is counted anew")
    return Partition(Tally.from_json(json.dumps(fields["tally"])), Counter(fields["refused"]), ids)


def _ids(folder: Path, part: FilePart) -> Bytes:
    return np.fromfile(_places(folder, part)[1], dtype=np.uint8).reshape(-1, REPORT_ID_BYTES)
