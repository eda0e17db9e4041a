"""Populations from files: Parquet or CSV with the columns `user`, `key`, `value`, one row a pair.

Users and keys are text or integers, values are numbers. A row with a user but neither key nor value
says that this user holds nothing. Repeated (user, key) rows are averaged and counted. Unlike a
device, a file is checked strictly: a value that is no number, or lies outside the range, is refused
unless clamping was asked for.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from keyveil.errors import PairsError
from keyveil.simulate.population import Floats, Ints, Population

COLUMNS = ("user", "key", "value")


def read_pairs(
    path: str | Path, *, value_range: tuple[float, float] | None = None, clamp: bool = False
) -> Population:
    """The population in a file; without `value_range` the values' own extremes are the range."""
    path = Path(path)
    table = _read_table(path)
    empty = pc.and_(pc.is_null(table["key"]), pc.is_null(table["value"]))
    held = table.filter(pc.invert(empty))
    for name in COLUMNS:
        column = held[name] if name != "user" else table[name]
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py()
            raise PairsError(
                f'column "{name}" of {path.name} is empty in {column.null_count} rows, first at {row + 1}'
            )
    users, user_names = _codes(table["user"])
    codes, key_names = _codes(held["key"])
    if not key_names.size:
        raise PairsError(f"{path.name} names no key; at least one row must hold a key and a value")
    values = _numbers(held["value"], path)
    low, high = value_range or _own_range(values)
    units = _to_unit(values, low, high, path, clamp=clamp)
    found = Population.from_pairs(
        users[~empty.to_numpy()],
        codes,
        units,
        n_users=user_names.size,
        names=[str(name) for name in key_names.tolist()],
        value_range=(low, high),
    )
    return replace(found, user_names=user_names)


def _read_table(path: Path) -> Any:
    if not path.is_file():
        raise PairsError(f"expected a Parquet or CSV file of pairs, found no file at {path}")
    if path.stat().st_size == 0:
        raise PairsError(f"{path.name} is empty; expected the columns user, key, value")
    try:
        table = _read_csv(path) if path.suffix == ".csv" else pyarrow.parquet.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OSError) as error:
        kind = "CSV" if path.suffix == ".csv" else "Parquet"
        raise PairsError(f"{path.name} is not a readable {kind} file: {str(error).splitlines()[0]}") from None
    missing = [name for name in COLUMNS if name not in table.column_names]
    if missing:
        raise PairsError(
            f'{path.name} lacks the column "{missing[0]}"; expected user, key, value, '
            f"got {', '.join(table.column_names) or 'none'}"
        )
    if table.num_rows == 0:
        raise PairsError(f"{path.name} has no rows; expected one row a pair")
    return table.select(COLUMNS)


def _read_csv(path: Path) -> Any:
    # Only an empty cell is no answer; "nan" in a column of values is a mistake that must be seen.
    options = pyarrow.csv.ConvertOptions(null_values=[""], strings_can_be_null=True)
    return pyarrow.csv.read_csv(path, convert_options=options)


def _codes(column: Any) -> tuple[Ints, Any]:
    """Codes in the order of the sorted names, and the names."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        column = column.cast(pa.string())
    encoded = column.combine_chunks().dictionary_encode()
    names = encoded.dictionary.to_numpy(zero_copy_only=False)
    order = np.argsort(names, kind="stable")
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)
    return rank[encoded.indices.to_numpy()], names[order]


def _numbers(column: Any, path: Path) -> Floats:
    try:
        values: Floats = column.cast(pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        raise PairsError(f'column "value" of {path.name} must hold numbers, got {column.type}') from None
    bad = ~np.isfinite(values)
    if bad.any():
        raise PairsError(
            f"{int(bad.sum())} values of {path.name} are not finite numbers, "
            f"first at pair {int(bad.argmax()) + 1}"
        )
    return values


def _own_range(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high else (low - 1.0, high + 1.0)


def _to_unit(values: Floats, low: float, high: float, path: Path, *, clamp: bool) -> Floats:
    outside = (values < low) | (values > high)
    if outside.any() and not clamp:
        raise PairsError(
            f"{int(outside.sum())} values of {path.name} lie outside [{low:g}, {high:g}], "
            f"first at pair {int(outside.argmax()) + 1}; widen --value-range or pass --clamp"
        )
    return np.clip(2.0 * ((values - low) / (high - low)) - 1.0, -1.0, 1.0)
