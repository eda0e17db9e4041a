"""What a device could not take as it was, when it read a record; for the application on this device alone.

A record is settled by rule and never refused (`keyveil.domain`), so a misspelt key or a range that is too
narrow would stay unseen for ever. What was settled is told to whoever passed the record, and to nobody else:
it is made from the record, so it is as private as that. It travels in no report, stands in no log and on no
disk, decides neither the length of a report nor the number of its random words, and prints as
`<private reading>`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from keyveil.domain import Domain
from keyveil.errors import RecordError


class Reading:
    """The names of keys whose pairs were not taken as they were.

    `unknown` are keys that the campaign does not name: they were left out, or averaged into "other" where the
    campaign has that. `not_numbers` had NaN for a value and were left out. `clamped` had a value outside the
    campaign's range, which went to the nearer end.

    >>> domain = Domain(keys=("maps", "mail"), value_range=(0, 60))
    >>> reading = Reading(domain, {"maps": 90.0, "mail": float("nan"), "chess": 3.0})
    >>> reading
    <private reading>
    >>> print(reading.words())
    not asked about: chess; no number: mail; moved into [0, 60]: maps
    >>> Reading(domain, {"maps": 12.0}).words()
    ''
    """

    __slots__ = ("_range", "clamped", "not_numbers", "unknown")

    def __init__(self, domain: Domain, held: Mapping[str, float]) -> None:
        low, high = self._range = domain.value_range
        pairs = list(held.items())
        asked = [(name, value) for name, value in pairs if domain.code_of(name) is not None]
        self.unknown = tuple(name for name, _ in pairs if not domain.names_key(name))
        self.not_numbers = tuple(name for name, value in asked if value != value)
        self.clamped = tuple(name for name, value in asked if value < low or value > high)

    def words(self) -> str:
        """The same in words, for this device's screen; nothing where all was taken as it was."""
        low, high = self._range
        told = {
            "not asked about": self.unknown,
            "no number": self.not_numbers,
            f"moved into [{low:g}, {high:g}]": self.clamped,
        }
        return "; ".join(f"{what}: {', '.join(names)}" for what, names in told.items() if names)

    def __repr__(self) -> str:
        return "<private reading>"

    def __copy__(self) -> Reading:
        return self

    def __deepcopy__(self, _memo: object) -> Reading:
        return self

    def __reduce__(self) -> NoReturn:
        raise RecordError("what was read of a record is private and is never pickled")
