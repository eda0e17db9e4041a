"""Files of reports (Parquet, one binary column `report`), written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from keyveil.campaign import Campaign
from keyveil.errors import PairsError, TallyError
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES

COLUMN = "report"
_BATCH = 4096


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
    said = {"keyveil": json.dumps({"campaign": campaign.id, "round": 1})}
    schema = pa.schema([pa.field(COLUMN, pa.binary(), nullable=False)], metadata=said)
    total = 0
    # Noise neither compresses nor repeats.
    with (
        written(path) as draft,
        pyarrow.parquet.ParquetWriter(draft, schema, compression="none", use_dictionary=False) as out,
    ):
        for block in blocks:
            count = len(block) // length
            fixed = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(length), count, [None, pa.py_buffer(block)]
            )
            out.write_table(pa.table([fixed.cast(pa.binary())], schema=schema))
            total += count
    return total


def holds_reports(path: Path) -> bool:
    """Whether a file is one of reports rather than of pairs."""
    if path.suffix == ".csv" or not path.is_file():
        return False
    try:
        return COLUMN in pyarrow.parquet.read_schema(path).names
    except (pa.ArrowException, OSError):
        return False


class Reports:
    """The reports of several files, one after the other; one whose id was seen is left out and counted."""

    def __init__(self, campaign: Campaign, paths: Iterable[Path]) -> None:
        self._files = [(path, _opened(path, campaign)) for path in paths]
        self._seen: set[bytes] = set()
        self.n_rows = sum(file.metadata.num_rows for _, file in self._files)
        self.n_repeated = 0

    def __iter__(self) -> Iterator[bytes]:
        for path, file in self._files:
            try:
                for batch in file.iter_batches(_BATCH, columns=[COLUMN]):
                    yield from self._new(batch.column(0).to_pylist())
            except (pa.ArrowException, OSError) as error:
                raise _unreadable(path, error) from None

    def _new(self, reports: list[bytes | None]) -> Iterator[bytes]:
        for report in reports:
            report = report or b""
            report_id = report[HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES]
            if report_id in self._seen:
                self.n_repeated += 1
                continue
            self._seen.add(report_id)
            yield report


def _opened(path: Path, campaign: Campaign) -> Any:
    if not path.is_file():
        raise TallyError(f"expected a file of reports, found no file at {path}")
    try:
        file = pyarrow.parquet.ParquetFile(path)
        said = json.loads((file.schema_arrow.metadata or {}).get(b"keyveil", b"{}"))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(path, error) from None
    if COLUMN not in file.schema_arrow.names:
        raise TallyError(f'{path.name} lacks the column "{COLUMN}"; expected a file of reports')
    answers = said.get("campaign", campaign.id) if isinstance(said, dict) else None
    if answers != campaign.id:
        raise TallyError(
            f"{path.name} answers campaign {str(answers)[:12]}, this is campaign {campaign.id[:12]}"
        )
    return file


def _unreadable(path: Path, error: Exception) -> TallyError:
    return TallyError(f"{path.name} is not a readable Parquet file: {str(error).splitlines()[0]}")
