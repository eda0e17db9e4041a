"""Tables: what is published as rows that any program reads, with the metadata that makes them believable."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from keyveil.errors import MissingPackage

# A spreadsheet runs a cell that begins with one of these as a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
# Columns whose words are somebody else's.
_WORDS = ("key", "name", "segment", "first", "second", "first_name", "second_name")


class Table:
    """Rows and metadata as JSON, CSV, Arrow and data frames.

    >>> class Held(Table):
    ...     columns, metadata = {"key": ["maps", "=1"], "mean": [1.5, math.nan]}, {"users": 9}
    >>> print(Held().to_csv(), end="")
    key,mean
    maps,1.5
    '=1,
    >>> Held().to_json()
    '{"metadata": {"users": 9}, "rows": [{"key": "maps", "mean": 1.5}, {"key": "=1", "mean": null}]}'
    """

    __slots__ = ()
    columns: Any
    """The columns by name; names alone where `rows` has the cells."""
    metadata: dict[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """The table as one dictionary a row; what is not finite becomes None."""
        return rows_of(self.columns)

    def to_json(self) -> str:
        """Metadata and rows."""
        return json.dumps({"metadata": self.metadata, "rows": self.rows()}, ensure_ascii=False)

    def to_csv(self) -> str:
        """The table as CSV; names that a spreadsheet would run are quoted with an apostrophe."""
        return csv_of(list(self.columns), self.rows())

    def to_arrow(self) -> Any:
        """A pyarrow table; the metadata travels in its schema (needs the `analysis` extra)."""
        pa = needed("pyarrow", "pip install 'keyveil[analysis]'")
        rows = self.rows()
        table = pa.table({name: [row[name] for row in rows] for name in rows[0]})
        return table.replace_schema_metadata({"keyveil": json.dumps(self.metadata)})

    def to_pandas(self) -> Any:
        """A pandas data frame (needs pandas)."""
        needed("pandas", "pip install pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """A polars data frame (needs polars)."""
        return needed("polars", "pip install polars").from_arrow(self.to_arrow())


def rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Columns as one dictionary a row; what is not finite becomes None.

    >>> rows_of({"key": ["a", "b"], "mean": [1.5, math.nan]})
    [{'key': 'a', 'mean': 1.5}, {'key': 'b', 'mean': None}]
    """
    return [
        dict(zip(columns, (finite(cell) for cell in row), strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def csv_of(names: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """Rows as CSV; words of users that a spreadsheet would run are quoted with an apostrophe."""
    lines = _CsvLines()
    # A carriage return in a name is quoted only where the line's end has one too.
    writer = csv.writer(lines, lineterminator="\r\n")
    writer.writerow(names)
    for row in rows:
        for word in _WORDS:
            if word in row and row[word].startswith(_FORMULA):
                row = {**row, word: f"'{row[word]}"}
        writer.writerow("" if row[name] is None else row[name] for name in names)
    return "".join(lines)


def needed(package: str, remedy: str) -> Any:
    """A package that only some need, or a refusal that says how to get it."""
    try:
        return import_module(package)
    except ModuleNotFoundError:
        raise MissingPackage(f"this needs {package}; {remedy}", name=package) from None


class _CsvLines(list[str]):
    """Lines of a CSV file, each with a plain end."""

    def write(self, line: str) -> None:
        self.append(line.removesuffix("\r\n") + "\n")


def finite(cell: Any) -> Any:
    """A cell as JSON has it: None for what is not finite."""
    if isinstance(cell, (str, int)):
        return cell
    return float(cell) if math.isfinite(cell) else None
