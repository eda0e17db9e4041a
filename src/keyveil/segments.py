"""Segments: the few groups by which a campaign tells its users apart, such as platforms or countries.

An attribute has a name and a few values that a campaign declares; whoever has another value, or says none,
is "other". A label is the number of a user's value: 0 is other, 1 the first that is declared. How it is told
is the campaign's choice:

    clear     a byte an attribute beside the answer: anybody who reads a report knows it; no answer is noisier
    private   hidden in the answer itself, as what is held is

Attributes lie in the order of their names, values in the order in which they are declared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self

from keyveil.errors import CampaignError

CLEAR, PRIVATE = "clear", "private"
OTHER = "other"
"""What every value is called that is not declared."""
MOST_ATTRIBUTES, MOST_VALUES, LONGEST_VALUE = 4, 64, 80
_TOLD = "told"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """By which attributes users are told apart, and whether their labels are in the clear.

    >>> both = Segments(told="clear", attributes=(("platform", ("android", "ios")), ("country", ("de",))))
    >>> both.names, both.sizes, both.labels({"platform": "ios", "country": "fr"})
    (('country', 'platform'), (1, 2), (0, 2))
    """

    told: Literal["clear", "private"]
    attributes: tuple[tuple[str, tuple[str, ...]], ...]
    """Every attribute with its values; kept in the order of the names."""

    def __post_init__(self) -> None:
        if self.told not in (CLEAR, PRIVATE):
            raise CampaignError(
                f'told must be "{CLEAR}" or "{PRIVATE}", got {str(self.told)[:40]!r}, at $.segments.told; a '
                "clear label is not private"
            )
        if not 1 <= len(self.attributes) <= MOST_ATTRIBUTES:
            raise CampaignError(
                f"segments need from 1 to {MOST_ATTRIBUTES} attributes, got {len(self.attributes)}, "
                'at $.segments; name one with its values: platform = ["android", "ios"]'
            )
        settled = sorted((name, _checked_values(name, values)) for name, values in self.attributes)
        object.__setattr__(self, "attributes", tuple(settled))
        if len({name for name, _ in settled}) < len(settled):
            raise CampaignError("an attribute is named twice, at $.segments; name each once")

    @classmethod
    def from_fields(cls, said: object) -> Self:
        """The segments that a campaign's table describes: `told`, and a list of values an attribute."""
        if not isinstance(said, Mapping):
            raise CampaignError(
                f"segments must be a table of fields, got {type(said).__name__}, at $.segments"
            )
        if _TOLD not in said:
            raise CampaignError(
                f'field "{_TOLD}" is missing, at $.segments.{_TOLD}; say "{CLEAR}" or "{PRIVATE}"'
            )
        attributes = tuple((name, values) for name, values in said.items() if name != _TOLD)
        return cls(told=said[_TOLD], attributes=attributes)

    @classmethod
    def in_clear(cls, attribute: str, values: tuple[str, ...]) -> Self:
        """One attribute, its labels told in the clear."""
        return cls(told="clear", attributes=((attribute, values),))

    def to_fields(self) -> dict[str, Any]:
        """What a campaign's text says of them."""
        return {**{name: list(values) for name, values in self.attributes}, _TOLD: self.told}

    @property
    def is_clear(self) -> bool:
        """Whether labels are told in the clear."""
        return self.told == CLEAR

    @property
    def names(self) -> tuple[str, ...]:
        """What the attributes are called."""
        return tuple(name for name, _ in self.attributes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each declares."""
        return tuple(len(values) for _, values in self.attributes)

    def values(self, attribute: str) -> tuple[str, ...]:
        """What an attribute's labels mean, from label 0 on.

        >>> Segments(told="clear", attributes=(("platform", ("android", "ios")),)).values("platform")
        ('other', 'android', 'ios')
        """
        for name, values in self.attributes:
            if name == attribute:
                return (OTHER, *values)
        raise CampaignError(
            f"expected an attribute among {', '.join(self.names)}, got {str(attribute)[:40]!r}, at $.segments"
        )

    @property
    def clear_sizes(self) -> tuple[int, ...]:
        """How many values each attribute declares that is told in the clear: those of all, or none."""
        return self.sizes if self.is_clear else ()

    def labels(self, said: Mapping[str, str | None]) -> tuple[int, ...]:
        """A user's label of each attribute: of what is not said, or not declared, 0."""
        own = (said.get(name) for name in self.names)
        return tuple(
            1 + values.index(value) if value in values else 0
            for value, (_, values) in zip(own, self.attributes, strict=True)
        )


def _checked_values(name: object, values: object) -> tuple[str, ...]:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None or name == _TOLD:
        raise CampaignError(
            f"an attribute's name is up to 40 small letters, digits, - and _, a letter first, and not "
            f'"{_TOLD}", got {str(name)[:40]!r}, at $.segments'
        )
    where = f"$.segments.{name}"
    if not isinstance(values, (list, tuple)):
        raise CampaignError(f"{name} must be a list of values, got {type(values).__name__}, at {where}")
    if not 1 <= len(values) <= MOST_VALUES:
        raise CampaignError(f"{name} needs from 1 to {MOST_VALUES} values, got {len(values)}, at {where}")
    for place, value in enumerate(values):
        if not isinstance(value, str) or not _is_a_value(value):
            raise CampaignError(
                f"a value is a text of 1 to {LONGEST_VALUE} letters, got {str(value)[:40]!a}, "
                f"at {where}[{place}]"
            )
        if value == OTHER:
            raise CampaignError(
                f'"{OTHER}" is what every value is that is not declared, at {where}[{place}]; leave it out'
            )
        if value in values[:place]:
            raise CampaignError(f"{value[:40]!r} is there twice, at {where}[{place}]; say each value once")
    return tuple(values)


def _is_a_value(text: str) -> bool:
    """Whether a text is neither empty nor long, and can be written as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return 0 < len(text) <= LONGEST_VALUE
