"""Files of reports: Parquet with one binary column `report`, written whole or not at all; or frames."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from keyveil.campaign import Campaign
from keyveil.errors import PairsError, ReportRejected, TallyError
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES, parquet, read_frames
from keyveil.report.parquet import COLUMN

_BATCH = 4096
_PARQUET = b"PAR1"


@contextmanager
def written(path: Path) -> Iterator[Path]:
    """A place to write that becomes `path` if the block ends well, and vanishes if it does not."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield draft
        os.replace(draft, path)
    except OSError as error:
        raise PairsError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """A text, whole or not at all."""
    with written(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_reports(path: Path, campaign: Campaign, blocks: Iterable[bytes], length: int) -> int:
    """Blocks of reports of one length, as they come; how many there were."""
    with written(path) as draft:
        return parquet.write_reports(draft, blocks, campaign=campaign.id, round=1, length=length)


def holds_reports(path: Path) -> bool:
    """Whether a file is one of reports rather than of pairs."""
    try:
        return COLUMN in pyarrow.parquet.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False


class Reports:
    """The reports of several files, one after the other; one whose id was seen is left out and counted.

    A file is Parquet, or a stream of frames (`keyveil.report.frames`).
    """

    def __init__(self, campaign: Campaign, paths: Iterable[Path]) -> None:
        self._sources = [_opened(path, campaign) for path in paths]
        self._seen: set[bytes] = set()
        self.n_repeated = 0

    def __iter__(self) -> Iterator[bytes]:
        for source in self._sources:
            for report in source():
                report_id = report[HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES]
                if report_id in self._seen:
                    self.n_repeated += 1
                    continue
                self._seen.add(report_id)
                yield report


def _opened(path: Path, campaign: Campaign) -> Callable[[], Iterator[bytes]]:
    """A way to read a file, once its first bytes and its metadata are in order."""
    if not path.is_file():
        raise TallyError(f"expected a file of reports, found no file at {path}")
    with path.open("rb") as file:
        if file.read(len(_PARQUET)) != _PARQUET:
            return lambda: _frames(path)
    try:
        table = pyarrow.parquet.ParquetFile(path)
        said = json.loads((table.schema_arrow.metadata or {}).get(b"keyveil", b"{}"))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if COLUMN not in table.schema_arrow.names:
        raise TallyError(f'{path.name} lacks the column "{COLUMN}"; expected a file of reports')
    answers = said.get("campaign", campaign.id) if isinstance(said, dict) else None
    if answers != campaign.id:
        raise TallyError(
            f"{path.name} answers campaign {str(answers)[:12]}, this is campaign {campaign.id[:12]}"
        )
    return lambda: _column(path, table)


def _frames(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        try:
            yield from read_frames(file, most=None)
        except ReportRejected as error:
            raise TallyError(f"{path.name} is neither Parquet nor a stream of frames: {error}") from None


def _column(path: Path, table: Any) -> Iterator[bytes]:
    try:
        for batch in table.iter_batches(_BATCH, columns=[COLUMN]):
            for report in batch.column(0).to_pylist():
                yield report or b""
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> TallyError:
    return TallyError(f"{path.name} is not a readable Parquet file: {str(error).splitlines()[0]}")
