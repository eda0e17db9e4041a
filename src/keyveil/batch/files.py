"""Files of reports, cut into parts that are counted apart and remembered.

A file is Parquet with one binary column `report`, or a stream of frames (`keyveil.report.frames`). A part
is some row groups of a Parquet file, or a whole stream. Reports are read in batches of a few megabytes,
so memory does not grow with the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from keyveil.batch.partition import Block
from keyveil.errors import ReportRejected, TallyError
from keyveil.report import read_frames
from keyveil.report.parquet import COLUMN

# Reports a part: a few seconds of work at a thousand bytes each.
PART_REPORTS = 1 << 18
_BATCH_BYTES = 1 << 24
_MOST_BATCH = 1 << 17
_FRAMES = 4096
_PARQUET = b"PAR1"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePart:
    """Some reports of a file, and what they were when the part was cut."""

    path: str
    groups: tuple[int, ...]
    """The row groups of a Parquet file; none for a stream of frames, which is one part."""
    n_reports: int
    """0 where only reading tells."""
    print_: str
    """The file's size, time of change and, for Parquet, the SHA-256 of its footer."""

    @property
    def key(self) -> str:
        """A name that no other part, and no other state of the file, has."""
        said = json.dumps([self.path, self.groups, self.print_])
        return hashlib.sha256(said.encode()).hexdigest()[:32]

    def blocks(self) -> Iterator[Block]:
        """The reports, some megabytes at a time."""
        return _column(self) if self.groups else _frames(Path(self.path))


def cut(path: Path, campaign_id: str | None = None) -> list[FilePart]:
    """The parts of a file; refuses one that holds no reports, or says that it answers another campaign."""
    if not path.is_file():
        raise TallyError(f"expected a file of reports, found no file at {path}")
    state = path.stat()
    seen = f"{state.st_size} {state.st_mtime_ns}"
    with path.open("rb") as file:
        if file.read(len(_PARQUET)) != _PARQUET:
            return [FilePart(path=str(path.resolve()), groups=(), n_reports=0, print_=seen)]
    table = _opened(path)
    _check_says(path, table, campaign_id)
    seen += " " + _footer_hash(path)
    parts: list[FilePart] = []
    groups: list[int] = []
    rows = 0
    for group in range(table.num_row_groups):
        groups.append(group)
        rows += table.metadata.row_group(group).num_rows
        if rows >= PART_REPORTS or group == table.num_row_groups - 1:
            parts.append(
                FilePart(path=str(path.resolve()), groups=tuple(groups), n_reports=rows, print_=seen)
            )
            groups, rows = [], 0
    return parts


def _opened(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet

    try:
        # Read, not mapped: pages of a mapped file count as this process's memory, and grow with the file.
        table = pyarrow.parquet.ParquetFile(path, memory_map=False, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None
    if COLUMN not in table.schema_arrow.names:
        raise TallyError(f'{path.name} lacks the column "{COLUMN}"; expected a file of reports')
    return table


def _check_says(path: Path, table: Any, campaign_id: str | None) -> None:
    try:
        said = json.loads((table.schema_arrow.metadata or {}).get(b"keyveil", b"{}"))
    except ValueError as error:
        raise unreadable(path, error) from None
    answers = said.get("campaign", campaign_id) if isinstance(said, dict) else None
    if campaign_id is not None and answers != campaign_id:
        raise TallyError(
            f"{path.name} answers campaign {str(answers)[:12]}, this is campaign {campaign_id[:12]}"
        )


def _footer_hash(path: Path) -> str:
    """Parquet ends with its footer, the footer's length and a mark; the footer names all that is in it."""
    with path.open("rb") as file:
        file.seek(-8, 2)
        length = int.from_bytes(file.read(4), "little")
        file.seek(-8 - length, 2)
        return hashlib.sha256(file.read(length)).hexdigest()


def _column(part: FilePart) -> Iterator[Block]:
    import pyarrow as pa

    path = Path(part.path)
    table = _opened(path)
    group = table.metadata.row_group(part.groups[0])
    size = max(1, group.total_byte_size // max(1, group.num_rows))
    rows = min(_MOST_BATCH, max(1024, _BATCH_BYTES // size))
    try:
        for batch in table.iter_batches(
            rows, row_groups=list(part.groups), columns=[COLUMN], use_threads=False
        ):
            yield Block.of_arrow(batch.column(0))
    except (pa.ArrowException, OSError) as error:
        raise unreadable(path, error) from None


def _frames(path: Path) -> Iterator[Block]:
    with path.open("rb") as file:
        try:
            reports = read_frames(file, most=None)
            while some := list(islice(reports, _FRAMES)):
                yield Block.of(some)
        except ReportRejected as error:
            raise TallyError(f"{path.name} is neither Parquet nor a stream of frames: {error}") from None


def unreadable(path: Path, error: Exception) -> TallyError:
    """What is said of a file that begins like Parquet and is none."""
    return TallyError(f"{path.name} is not a readable Parquet file: {str(error).splitlines()[0]}")


def blocks_of(parts: Sequence[FilePart]) -> Iterator[Block]:
    """The reports of several parts, one after the other."""
    for part in parts:
        yield from part.blocks()
