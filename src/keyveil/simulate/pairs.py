"""Populations from files: one row a pair, with columns that say who, what and how much.

The columns are called `user`, `key`, `value`, or are named by the caller, or are found by words that people
use for such things. Users and keys are text or integers, values are numbers. A row with a user but neither
key nor value says that this user holds nothing. Rows that repeat a (user, key) are combined, by default to
their mean, and counted. Unlike a device, a file is checked strictly: a value that is no number, or lies
outside the range, is refused unless skipping or clamping was asked for; then it is counted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from keyveil.batch.labels import labels_of
from keyveil.batch.records import units_of
from keyveil.domain import Domain
from keyveil.errors import PairsError
from keyveil.segments import MOST_VALUES, OTHER, Segments
from keyveil.simulate.population import Floats, Ints, Population
from keyveil.simulate.tables import read_table

COLUMNS = ("user", "key", "value")
COMBINES = ("mean", "sum", "last", "max")
# What people call such columns: letters and digits only, the likelier first.
_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "user": "user userid uid username person personid customer customerid client clientid device "
        "deviceid account accountid member memberid visitor visitorid player playerid reviewer reviewerid",
        "key": "key app appname appid application item itemid product productid page url path feature event "
        "movie movieid title song track category sku asin article site domain word name",
        "value": "value minutes seconds hours duration rating score stars count amount quantity qty visits "
        "clicks views plays usage spent price total time",
    }
)
_NUMBER = r"^[+-]?(\d+([.]\d*)?|[.]\d+)([eE][+-]?\d+)?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Which columns hold who, what and how much; None where that is to be found out."""

    user: str | None = None
    key: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """The population in a file, and what had to be settled to read it."""

    population: Population
    values: Floats
    """The values of the population's pairs as they were, on their own scale."""
    form: str
    """How the file is written."""
    columns: Columns
    n_rows: int
    combine: str
    skipped: Mapping[str, int] = field(default_factory=dict)
    """Rows that were left out, by the reason."""
    clamped: int = 0
    """Pairs whose value went to the nearer end of the range."""
    unlabelled: tuple[str, ...] = ()
    """Attributes of the users that no column names."""

    def within(self, low: float, high: float) -> Reading:
        """The same with another range of values; those outside go to its ends."""
        units, outside = _to_unit(self.values, low, high)
        people = replace(self.population, values=units, value_range=(low, high))
        return replace(self, population=people, clamped=int(outside.sum()))

    def as_asked(self, domain: Domain) -> Reading:
        """The same on the scale of a campaign's range; values outside of it go to its ends."""
        low, high = domain.value_range
        outside = (self.values < low) | (self.values > high)
        people = replace(self.population, values=units_of(domain, self.values), value_range=domain.reach)
        return replace(self, population=people, clamped=int(outside.sum()))

    def words(self) -> list[str]:
        """What a person should know who sees the file read for the first time, a sentence each."""
        people = self.population
        return [
            f"rows read: {self.n_rows:,}; {self.form}; {self._which()}",
            f"people: {people.n_users:,}, keys: {people.n_keys:,}, pairs: {people.codes.size:,}",
            *self._settled(),
        ]

    def settled(self) -> list[str]:
        """What is not plain: columns that were found, rows that were combined or left out, values clamped."""
        is_plain = (self.columns.user, self.columns.key, self.columns.value) == COLUMNS
        return [*(() if is_plain else (self._which(),)), *self._settled()]

    def _which(self) -> str:
        columns = self.columns
        return f"columns {columns.user} (who), {columns.key} (what), {columns.value} (how much)"

    def _settled(self) -> list[str]:
        repeated, (low, high) = self.population.repeated_rows, self.population.value_range
        said = (
            [f"{repeated:,} rows repeat a (user, key): combined by their {self.combine}"] if repeated else []
        )
        said += [f"rows skipped {why}: {count:,}" for why, count in self.skipped.items() if count]
        if self.clamped:
            said.append(f"values outside [{low:g}, {high:g}], clamped to its ends: {self.clamped:,}")
        said += [f'no column {name}: everybody is "{OTHER}"' for name in self.unlabelled]
        return said


def read_pairs(
    path: str | Path, *, value_range: tuple[float, float] | None = None, clamp: bool = False
) -> Population:
    """The population in a file; without `value_range` the values' own extremes are the range."""
    return read_file(path, value_range=value_range, clamp=clamp).population


def read_file(
    path: str | Path,
    columns: Columns | None = None,
    *,
    combine: str = "mean",
    value_range: tuple[float, float] | None = None,
    clamp: bool = False,
    skip: bool = False,
    segments: Segments | None = None,
) -> Reading:
    """The population in a file, and what was settled to read it.

    `skip` leaves out rows that lack a part, and counts them; without it they are refused. Columns that are
    called like the attributes of `segments` say what everybody is.
    """
    path = Path(path)
    if combine not in COMBINES:
        raise PairsError(f"expected to combine by one of {', '.join(COMBINES)}, got {combine!r}")
    table = read_table(path)
    if table.cells.num_rows == 0:
        raise PairsError(f"{path.name} has no rows; expected one row a pair")
    named = (
        () if segments is None else tuple(name for name in segments.names if name in table.cells.column_names)
    )
    found = _find(table.cells.drop_columns(list(named)), columns or Columns(), path)
    cells = table.cells.select([found.user, found.key, found.value]).rename_columns(list(COLUMNS))
    rows = _Rows.of(cells, found, path, skip=skip)
    owners, codes, values, first = rows.combined(combine)
    low, high = value_range or _own_range(values)
    units, outside = _to_unit(values, low, high)
    if outside.any() and not clamp:
        raise PairsError(
            f"{int(outside.sum())} values of {path.name} lie outside [{low:g}, {high:g}], "
            f"first at pair {int(first[outside].min()) + 1}; widen --value-range or pass --clamp"
        )
    people = Population.from_pairs(
        owners,
        codes,
        units,
        n_users=rows.user_names.size,
        names=rows.names,
        value_range=(low, high),
    )
    return Reading(
        population=replace(
            people,
            repeated_rows=rows.n_repeated,
            user_names=rows.user_names,
            labels=None
            if segments is None
            else rows.labels(segments, {name: table.cells[name] for name in named}),
        ),
        values=values,
        form=table.form,
        columns=found,
        n_rows=table.cells.num_rows,
        combine=combine,
        skipped=rows.skipped,
        clamped=int(outside.sum()),
        unlabelled=() if segments is None else tuple(name for name in segments.names if name not in named),
    )


def segments_in(path: str | Path, column: str) -> Segments:
    """The segments that a column of a file names: the values that most rows have; all others are "other"."""
    path = Path(path)
    cells = read_table(path).cells
    named = _named(list(cells.column_names), column, "segment", path)
    counts = pc.value_counts(cells[named].cast(pa.string()).drop_null())
    rows = sorted(
        ((each["counts"], each["values"]) for each in counts.to_pylist()), key=lambda row: (-row[0], row[1])
    )
    values = tuple(value for _, value in rows if value not in ("", OTHER))
    return Segments.in_clear(named, values[:MOST_VALUES])


def sizes_in(path: str | Path) -> dict[str, float]:
    """How large segments are, from a file of two columns: segment, and size (a count or a share)."""
    path = Path(path)
    cells = read_table(path).cells
    here = list(cells.column_names)
    names, numbers = (cells[_named(here, part, part, path)].to_pylist() for part in ("segment", "size"))
    sizes: dict[str, float] = {}
    for row, (name, number) in enumerate(zip(names, numbers, strict=True), start=1):
        if name is None or isinstance(number, bool) or not isinstance(number, (int, float)):
            raise PairsError(f"row {row} of {path.name} needs a segment and a number, its size")
        if str(name) in sizes:
            raise PairsError(f'row {row} of {path.name} says "{str(name)[:40]}" a second time; say each once')
        sizes[str(name)] = float(number)
    return sizes


# --- columns ---


def _find(cells: Any, wanted: Columns, path: Path) -> Columns:
    """The columns that were named, and for the others those with a telling name."""
    here = list(cells.column_names)
    found: dict[str, str] = {}
    for part in COLUMNS:
        named = getattr(wanted, part)
        if named is not None:
            found[part] = _named(here, named, part, path)
    for part in COLUMNS:
        if part not in found:
            free = [name for name in here if name not in found.values()]
            found[part] = _telling(cells, free, part) or _refuse(part, here, path)
    return Columns(**found)


def _named(here: list[str], name: str, part: str, path: Path) -> str:
    alike = [each for each in here if each == name] or [each for each in here if each.lower() == name.lower()]
    if not alike:
        raise PairsError(
            f'{path.name} lacks the column "{name}" that --{part} names; it has {", ".join(here) or "none"}'
        )
    return alike[0]


def _telling(cells: Any, free: list[str], part: str) -> str | None:
    """The free column with the likeliest name; for values also the only one that holds numbers."""
    plain = {re.sub(r"[^a-z0-9]", "", name.lower()): name for name in reversed(free)}
    for word in _WORDS[part].split():
        if word in plain:
            return plain[word]
    if part != "value":
        return None
    numbers = [name for name in free if _is_number(cells[name].type)]
    return numbers[0] if len(numbers) == 1 else None


def _refuse(part: str, here: list[str], path: Path) -> str:
    raise PairsError(
        f'{path.name} lacks the column "{part}"; expected user, key, value, got {", ".join(here) or "none"}; '
        f"say which it is with --{part} COLUMN"
    )


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


# --- rows ---


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """The pairs of a file in its order: who, what, how much, as codes and numbers."""

    users: Ints
    keys: Ints
    values: Floats
    user_names: Any
    names: list[str]
    skipped: Mapping[str, int]
    owners: Ints
    """The user of every row that was not left out, those of people who hold nothing as well."""
    kept: NDArray[np.bool_]
    """Which rows of the file those are."""

    @classmethod
    def of(cls, cells: Any, columns: Columns, path: Path, *, skip: bool) -> _Rows:
        empty = pc.and_(pc.is_null(cells["key"]), pc.is_null(cells["value"])).to_numpy(zero_copy_only=False)
        numbers, are_numbers = _numbers(cells["value"])
        lacking: dict[str, NDArray[np.bool_]] = {
            "without a user": _is_null(cells["user"]),
            "without a key": _is_null(cells["key"]) & ~empty,
            "without a value": _is_null(cells["value"]) & ~empty,
            "whose value is no number": ~are_numbers & ~_is_null(cells["value"]),
        }
        if not skip:
            _check(lacking, empty, cells, columns, path)
        left_out = np.logical_or.reduce(list(lacking.values()))
        user_codes, user_names = _codes(cells["user"].filter(pa.array(~left_out)))
        held = ~left_out & ~empty
        key_codes, key_names = _codes(cells["key"].filter(pa.array(held)))
        if not key_names.size:
            why = next((why for why, rows in lacking.items() if rows.any()), None)
            less = f"; rows were skipped {why}" if why else ""
            raise PairsError(f"{path.name} names no key; at least one row must hold a key and a value{less}")
        taken = np.zeros(left_out.size, dtype=np.bool_)
        counts = {}
        for why, rows in lacking.items():
            counts[why] = int((rows & ~taken).sum())
            taken |= rows
        return cls(
            users=user_codes[held[~left_out]],
            keys=key_codes,
            values=numbers[held],
            user_names=user_names,
            names=[str(name) for name in key_names.tolist()],
            skipped=counts,
            owners=user_codes,
            kept=~left_out,
        )

    def labels(self, segments: Segments, columns: Mapping[str, Any]) -> NDArray[np.uint8]:
        """Everybody's labels, from columns of the file by attribute."""
        said = {name: column.filter(pa.array(self.kept)) for name, column in columns.items()}
        return labels_of(segments, self.owners, said, self.user_names.size)

    @property
    def n_repeated(self) -> int:
        """Rows whose (user, key) another has, too."""
        _, counts = np.unique(self._cells, return_counts=True)
        return int(counts[counts > 1].sum())

    @property
    def _cells(self) -> Ints:
        return self.users * len(self.names) + self.keys

    def combined(self, combine: str) -> tuple[Ints, Ints, Floats, Ints]:
        """One pair a (user, key): who, what, how much, and where in the file it stood first."""
        cells, first, inverse, counts = np.unique(
            self._cells, return_index=True, return_inverse=True, return_counts=True
        )
        values: Floats
        if combine == "last":
            values = np.empty(cells.size)
            # Of several that are written to one place the last stays.
            values[inverse] = self.values
        elif combine == "max":
            values = np.full(cells.size, -np.inf)
            np.maximum.at(values, inverse, self.values)
        else:
            values = np.bincount(inverse, weights=self.values, minlength=cells.size).astype(np.float64)
            values /= counts if combine == "mean" else 1
        return cells // len(self.names), cells % len(self.names), values, first


def _check(
    lacking: Mapping[str, NDArray[np.bool_]],
    empty: NDArray[np.bool_],
    cells: Any,
    columns: Columns,
    path: Path,
) -> None:
    """Refuse a file in which rows lack a part."""
    for part, why in zip(COLUMNS, ("without a user", "without a key", "without a value"), strict=True):
        rows = lacking[why]
        if rows.any():
            raise PairsError(
                f'column "{getattr(columns, part)}" of {path.name} is empty in {int(rows.sum())} rows, '
                f"first at {int(rows.argmax()) + 1}; pass --skip to leave such rows out"
            )
    bad = lacking["whose value is no number"]
    if not bad.any():
        return
    if not _is_number(cells["value"].type) and bad[~empty].all():
        raise PairsError(
            f'column "{columns.value}" of {path.name} must hold numbers, got {cells["value"].type}'
        )
    raise PairsError(
        f"{int(bad.sum())} values of {path.name} are not finite numbers, first at pair "
        f"{int(bad[~empty].argmax()) + 1}; pass --skip to leave such rows out"
    )


def _is_null(column: Any) -> NDArray[np.bool_]:
    rows: NDArray[np.bool_] = pc.is_null(column).to_numpy(zero_copy_only=False)
    return rows


def _numbers(column: Any) -> tuple[Floats, NDArray[np.bool_]]:
    """The numbers of a column, and which of its cells are finite ones; a comma may stand for the point."""
    column = column.combine_chunks()
    if not _is_number(column.type):
        if pa.types.is_null(column.type):
            return np.full(len(column), np.nan), np.zeros(len(column), dtype=np.bool_)
        texts = pc.utf8_trim_whitespace(column.cast(pa.string()))
        if not pc.any(pc.match_substring(texts, ".")).as_py():
            texts = pc.replace_substring(texts, ",", ".", max_replacements=1)
        column = pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, None)
    numbers: Floats = column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return numbers, np.isfinite(numbers)


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


def _own_range(values: Floats) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high else (low - 1.0, high + 1.0)


def _to_unit(values: Floats, low: float, high: float) -> tuple[Floats, NDArray[np.bool_]]:
    """The values on the scale [-1, 1], and which lay outside."""
    outside = (values < low) | (values > high)
    return np.clip(2.0 * ((values - low) / (high - low)) - 1.0, -1.0, 1.0), outside
