"""Tables as people have them: CSV of any separator and encoding, JSON lines, Parquet; gzipped or not.

How a file is written is found out, never asked:

    encoding    a byte order mark, else UTF-8, else Windows-1252 (Latin-1 for what that lacks)
    separator   the one of , ; tab | that cuts the first lines into equally many cells, and into most
    JSON        an object a line, or one list of objects

Only an empty cell is no answer: "nan" in a column of values is a mistake that must be seen.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from keyveil.errors import PairsError

# Enough to see how a file is written.
_HEAD_BYTES, _HEAD_LINES = 1 << 16, 20
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_ENCODINGS = {"utf-8": "UTF-8", "utf-16": "UTF-16", "cp1252": "Latin-1 (Windows-1252)", "latin-1": "Latin-1"}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """The cells of a file, and in words how it is written."""

    cells: Any
    """A pyarrow table."""
    form: str


def read_table(path: Path) -> Table:
    """The table in a file, whatever it is; one that cannot be read is refused with the reason."""
    if not path.is_file():
        raise PairsError(f"expected a CSV, JSON or Parquet file of pairs, found no file at {path}")
    if path.stat().st_size == 0:
        raise PairsError(f"{path.name} is empty; expected the columns user, key, value")
    kind = _kind(path)
    try:
        return {"Parquet": _read_parquet, "JSON": _read_json, "CSV": _read_csv}[kind](path)
    except (pa.ArrowException, OSError, EOFError, ValueError) as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise PairsError(f"{path.name} is not a readable {kind} file: {why}") from None


def _kind(path: Path) -> str:
    """By the first bytes of a Parquet file, else by the ending, else by the first letter."""
    with path.open("rb") as file:
        if file.read(4) == b"PAR1":
            return "Parquet"
    endings = [ending.lower() for ending in path.suffixes if ending.lower() != ".gz"]
    ending = endings[-1] if endings else ""
    if ending in (".parquet", ".pq"):
        return "Parquet"
    if ending in (".json", ".jsonl", ".ndjson"):
        return "JSON"
    if ending in (".csv", ".tsv", ".txt", ".tab"):
        return "CSV"
    return "JSON" if _head(path).lstrip()[:1] in (b"{", b"[") else "CSV"


def _read_parquet(path: Path) -> Table:
    return Table(cells=pyarrow.parquet.read_table(path), form="Parquet")


def _read_json(path: Path) -> Table:
    if _head(path).lstrip()[:1] == b"[":
        rows = json.loads(_bytes(path))
        if not all(isinstance(row, dict) for row in rows):
            raise ValueError("expected a list of objects")
        return Table(cells=pa.Table.from_pylist(rows), form="a JSON list")
    return Table(cells=pyarrow.json.read_json(io.BytesIO(_bytes(path))), form="JSON lines")


def _read_csv(path: Path) -> Table:
    data = _bytes(path)
    encoding = _encoding(data)
    separator = _separator(data[:_HEAD_BYTES].decode(encoding, errors="replace"))
    table = pyarrow.csv.read_csv(
        io.BytesIO(data),
        read_options=pyarrow.csv.ReadOptions(encoding=encoding),
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
    )
    names = [name.strip().strip("\ufeff") for name in table.column_names]
    form = f"CSV in {_ENCODINGS[encoding]}, separated by {_SEPARATORS[separator]}"
    return Table(cells=table.rename_columns(names), form=form)


def _encoding(data: bytes) -> str:
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    for name in ("utf-8", "cp1252"):
        try:
            codecs.decode(data, name)
        except UnicodeDecodeError:
            continue
        return name
    return "latin-1"


def _separator(head: str) -> str:
    r"""The separator that most likely made these lines.

    >>> _separator("user;app;minutes\nu1;maps;1,5\n")
    ';'
    """
    lines = head.splitlines()[:_HEAD_LINES]
    # The last line may have been cut off in the middle.
    lines = lines[:-1] if len(lines) > 1 and not head.endswith("\n") else lines

    def cells(separator: str) -> tuple[bool, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=separator) if row]
        return len(set(counts)) == 1, counts[0] if counts else 0

    alike = {separator: cells(separator) for separator in _SEPARATORS}
    return max(_SEPARATORS, key=lambda separator: (alike[separator][1] > 1, *alike[separator]))


def _head(path: Path) -> bytes:
    with (gzip.open if _is_packed(path) else open)(path, "rb") as file:
        return bytes(file.read(_HEAD_BYTES))


def _bytes(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if _is_packed(path) else data


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"
