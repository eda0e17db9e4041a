"""The question's vocabulary: named keys and one range of values.

Keys have codes 0..d-1 in the order of their names' list. Values are mapped linearly from
[low, high] to [-1, 1]. What a device meets outside that vocabulary is settled by rule, never by an
exception, because an error that depends on private data would itself be a report:

    a value below low or above high, infinities included   goes to the nearer end, or one bin beyond it
    a value that is not a number (NaN)                      its pair is left out
    an unknown key                                          left out, or averaged into `other`
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from keyveil.domain.crossing import Crossing
from keyveil.domain.record import Record, level_of
from keyveil.errors import DomainError, RecordError

OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Named keys and the range of their values.

    >>> apps = Domain(keys=("maps", "mail"), value_range=(0.0, 60.0), other=True)
    >>> apps.n_keys, apps.code_of("mail"), apps.name_of(2)
    (3, 1, 'other')
    >>> apps.to_unit(45.0), apps.from_unit(0.5)
    (0.5, 45.0)
    >>> apps.encode({"maps": 12.0, "chess": 3.0})
    <private record>
    """

    keys: tuple[str, ...]
    value_range: Sequence[float] = (-1.0, 1.0)
    other: bool = False
    beyond: int = 0
    """Where values beyond the range are counted apart, in how many bins values are kept; else 0.

    The first and the last of those bins are theirs: [-1, 1] then stands for a range that is a bin wider at
    either end, and every value beyond goes to the very end.
    """
    crossing: Crossing | None = None
    """What is asked about instead of keys, where that is pairs of them, or keys by segment."""
    key_names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The name of every key, `other` included."""
    n_keys: int = field(init=False, repr=False, compare=False)
    """How many codes there are: keys, `other` included, or what they are crossed to."""
    _codes: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        names = (*self.keys, OTHER) if self.other else tuple(self.keys)
        object.__setattr__(self, "keys", tuple(self.keys))
        object.__setattr__(self, "value_range", _checked_range(self.value_range))
        object.__setattr__(self, "key_names", names)
        object.__setattr__(self, "n_keys", len(names) if self.crossing is None else self.crossing.n_codes)
        object.__setattr__(self, "_codes", _checked_codes(names))

    def code_of(self, name: str) -> int | None:
        """The number of a key; an unknown one has that of `other`, or none."""
        return self._codes.get(name, len(self.key_names) - 1 if self.other else None)

    @property
    def names(self) -> tuple[str, ...]:
        """The name of every code."""
        return self.key_names if self.crossing is None else self.crossing.names(self.key_names)

    def names_key(self, name: str) -> bool:
        """Whether a key is asked about by its name."""
        return name in self._codes

    def name_of(self, code: int) -> str:
        """The name behind a code."""
        return self.names[code]

    def to_unit(self, value: float) -> float:
        """The value on the scale [-1, 1], clamped to its ends.

        >>> apart = Domain(keys=("maps",), value_range=(0.0, 60.0), beyond=8)
        >>> [apart.to_unit(value) for value in (-1.0, 0.0, 30.0, 60.0, 61.0)]
        [-1.0, -0.75, 0.0, 0.75, 1.0]
        """
        low, high = self.value_range
        unit = 2.0 * ((min(max(value, low), high) - low) / (high - low)) - 1.0
        if not self.beyond:
            return unit
        if value < low or value > high:
            return -1.0 if value < low else 1.0
        return unit * self.inner

    def from_unit(self, unit: float) -> float:
        """The value that a number on the scale [-1, 1] stands for; not clamped."""
        low, high = self.value_range
        return low + (unit / self.inner + 1.0) / 2.0 * (high - low)

    @property
    def inner(self) -> float:
        """Where on the scale the ends of the range are: at 1, unless values beyond are counted apart."""
        return 1.0 - 2.0 / self.beyond if self.beyond else 1.0

    @property
    def reach(self) -> tuple[float, float]:
        """What the ends of the scale stand for: the range, or a bin more at either end.

        >>> Domain(keys=("maps",), value_range=(0.0, 60.0), beyond=8).reach
        (-10.0, 70.0)
        """
        low, high = self.value_range
        margin = (high - low) / (self.beyond - 2) if self.beyond else 0.0
        return low - margin, high + margin

    def encode(self, held: Mapping[str, float], label: int = 0) -> Record:
        """The private record of what a user holds, by the rules at the top of this file.

        `label` is the user's segment, where keys are asked about by segment.
        """
        units: dict[int, list[float]] = {}
        for name, value in held.items():
            if not isinstance(name, str):
                raise RecordError("every key of a record must be text, one is not; pass str(key)")
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise RecordError("every value of a record must be a number, one is not; pass float(value)")
            code = self.code_of(name)
            if code is not None and value == value:  # NaN is the one number that differs from itself
                units.setdefault(code, []).append(self.to_unit(value))
        record = Record.from_levels((code, level_of(_mean(vs))) for code, vs in units.items())
        return record if self.crossing is None else self.crossing.of(record, label)


def _mean(units: list[float]) -> float:
    """Added in one order and one by one, so that every device and language rounds alike."""
    total = 0.0
    for unit in sorted(units):
        total += unit
    return total / len(units)


def _checked_range(value_range: Sequence[float]) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in value_range)
    except (TypeError, ValueError):
        raise DomainError(f"value_range must be two numbers [low, high], got {value_range!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise DomainError(f"value_range must be finite with low < high, got [{low}, {high}]")
    if not math.isfinite(high - low):
        raise DomainError(f"value_range is too wide for 64-bit floats, got [{low}, {high}]")
    return low, high


def _checked_codes(names: tuple[str, ...]) -> dict[str, int]:
    if not names:
        raise DomainError("keys must name at least one key, got none, at $.keys")
    if set(map(type, names)) == {str}:
        codes = dict(zip(names, range(len(names)), strict=True))
        if len(codes) == len(names) and "" not in codes:
            return codes
    # Something is wrong, or odd; name by name for what it is.
    codes = {}
    for code, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise DomainError(f"every key must be a non-empty text, got {name!r}, at $.keys[{code}]")
        if name in codes:
            raise DomainError(f'key "{name}" is listed twice, at $.keys[{codes[name]}] and $.keys[{code}]')
        codes[name] = code
    return codes
