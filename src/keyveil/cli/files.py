"""Files of reports: Parquet with one binary column `report`, written whole or not at all; or frames."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from keyveil.batch.files import blocks_of, cut
from keyveil.campaign import Campaign
from keyveil.errors import PairsError
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES, parquet
from keyveil.report.parquet import COLUMN


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


def write_new(path: Path, text: str) -> None:
    """A text, where there was no file before: what people have edited is never overwritten."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise PairsError(f"{path} is there already and stays as it is; name another with -o") from None
    except OSError as error:
        raise PairsError(f"cannot write {path}: {error.strerror or error}") from None


def write_reports(
    path: Path, campaign: Campaign, blocks: Iterable[bytes], length: int, round: int = 1
) -> int:
    """Blocks of reports of one length, as they come; how many there were."""
    with written(path) as draft:
        return parquet.write_reports(draft, blocks, campaign=campaign.id, round=round, length=length)


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
        self._parts = [part for path in paths for part in cut(path, campaign.id)]
        self._seen: set[bytes] = set()
        self.n_repeated = 0

    def __iter__(self) -> Iterator[bytes]:
        for block in blocks_of(self._parts):
            for place in range(len(block)):
                report = block.report(place)
                report_id = report[HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES]
                if report_id in self._seen:
                    self.n_repeated += 1
                    continue
                self._seen.add(report_id)
                yield report
