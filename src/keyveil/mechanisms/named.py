"""A mechanism from its name: the description that a device gets, read strictly, calibrated on the spot.

A description names an id, a budget and sizes (`Parameters`). There is no integer of a kernel in it to lie
about: whoever reads it makes the integers, by the arithmetic of `calibrate`, and the loss follows from
them. Every field must be there and no other; every size has a bound, so that whatever is sent is refused or
read at once. Where an index or a hash may follow from the report's id, `ids` says that ids are handed out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from math import gcd
from types import MappingProxyType
from typing import Any

from keyveil.domain.texts import MOST_BITS
from keyveil.errors import DescriptionError, KeyveilError
from keyveil.mechanisms.base import ISSUED, Ask, Calibrated, Level, Mechanism
from keyveil.mechanisms.registry import named_class
from keyveil.mechanisms.selection import MOST_SYMBOLS
from keyveil.numerics import WORD_BITS
from keyveil.numerics.probability import LARGEST_EPSILON

# Beyond these a question is a mistake, or meant to keep a device busy.
MOST_PAIRS = 1 << 13
LARGEST_SIZE = 1 << 20
MOST_BINS = MOST_CLASSES = 1 << 12
MOST_LEVELS = 1 << 13
LARGEST_ANSWER, MOST_WORDS = 1 << 20, 1 << 17

_FRACTION = re.compile(r"(0|[1-9][0-9]{0,39})(?:/([1-9][0-9]{0,39}))?", re.ASCII)


def calibrated(said: object, n_keys: int) -> Mechanism:
    """The mechanism that is named, for so many keys; what names none is refused.

    >>> calibrated({"id": "kvue", "epsilon": "1"}, 10).parameters.to_json()
    {'id': 'kvue', 'epsilon': '1'}
    >>> calibrated({"id": "kvue", "epsilon": "1", "keep": "9"}, 10)
    Traceback (most recent call last):
        ...
    keyveil.errors.DescriptionError: expected id, epsilon of a mechanism, and nothing else, at $.mechanism
    """
    if not isinstance(said, dict) or not isinstance(said.get("id"), str):
        raise DescriptionError("expected the name of a mechanism, at $.mechanism.id")
    cls = named_class(said["id"])
    if cls is None:
        raise DescriptionError(
            "this device does not know the mechanism; update it, at $.mechanism.id", code="unknown-mechanism"
        )
    return remade(cls, said, n_keys)


def remade(cls: type[Calibrated], said: Mapping[str, object], n_keys: int) -> Mechanism:
    """The instance of a class that its parameters name; every field must be there, and no other."""
    issued = cls.follows_ids and "ids" in said
    if set(said) - ({"ids"} if issued else set()) != {"id", *cls.fields}:
        raise DescriptionError(
            f"expected id, {', '.join(cls.fields)} of a mechanism, and nothing else, at $.mechanism"
        )
    if issued and said["ids"] != ISSUED:
        raise DescriptionError(f'expected "{ISSUED}", at $.mechanism.ids')
    fields = {name: _FIELDS[name](f"$.mechanism.{name}", said[name], n_keys) for name in cls.fields}
    try:
        made = cls.named(_ask(cls, fields, n_keys))
        made = made.with_issued_ids() if issued else made
    except KeyveilError as error:
        raise DescriptionError(f"{error}, at $.mechanism") from None
    if made.layout.n_bytes > LARGEST_ANSWER or made.n_words > MOST_WORDS:
        raise DescriptionError(
            f"expected answers of at most {LARGEST_ANSWER} bytes from {MOST_WORDS} random words, "
            f"got {made.layout.n_bytes} from {made.n_words}, at $.mechanism"
        )
    return made


def read_fraction(said: object, where: str) -> Fraction:
    """A fraction in text, in lowest terms and of bounded length.

    >>> read_fraction("3/100", "$.group[0]")
    Fraction(3, 100)
    """
    found = _FRACTION.fullmatch(said) if isinstance(said, str) else None
    if found is not None:
        above, below = int(found[1]), int(found[2] or 1)
        if gcd(above, below) == 1 and found[2] != "1":
            return Fraction(above, below)
    raise DescriptionError(f'expected a fraction such as "3/100", in lowest terms, at {where}')


def read_size(said: object, where: str, least: int, most: int) -> int:
    """A whole number within bounds; truth values are none."""
    if isinstance(said, int) and not isinstance(said, bool) and least <= said <= most:
        return said
    raise DescriptionError(f"expected a whole number from {least} to {most}, at {where}")


def read_list(said: object, where: str, most: int) -> list[Any]:
    """A list of one entry or more, and of no more than there may be."""
    if isinstance(said, list) and 1 <= len(said) <= most:
        return said
    raise DescriptionError(f"expected a list of 1 to {most}, at {where}")


def read_codes(said: object, where: str, n_keys: int, most: int) -> tuple[int, ...]:
    """Different codes of keys."""
    codes = tuple(read_list(said, where, most))
    # Whole sets at a time: there may be 32,768 of them, and a device reads them at once.
    if set(map(type, codes)) != {int} or min(codes) < 0 or max(codes) >= n_keys:
        raise DescriptionError(f"expected whole numbers from 0 to {n_keys - 1}, at {where}")
    if len(set(codes)) < len(codes):
        raise DescriptionError(f"expected different codes of keys, at {where}")
    return codes


def _ask(cls: type[Calibrated], fields: dict[str, Any], n_keys: int) -> Ask:
    named = fields.pop("allocation", cls.allocations[0].value)
    allocation = next((each for each in cls.allocations if each.value == named), None)
    if allocation is None:
        raise DescriptionError("expected an allocation that the mechanism has, at $.mechanism.allocation")
    budget = fields.pop("epsilon", None)
    return Ask(
        epsilon=fields["key_epsilon"] + fields["sign_epsilon"] if budget is None else budget,
        n_keys=n_keys,
        pairs_per_user=fields.pop("pairs_per_user", 1),
        allocation=allocation,
        word_bits=WORD_BITS,
        options=fields,
    )


def _budget(where: str, said: object, _: int) -> Fraction:
    budget = read_fraction(said, where)
    if 0 < budget <= LARGEST_EPSILON:
        return budget
    raise DescriptionError(f"expected a budget above 0 and at most {LARGEST_EPSILON}, at {where}")


def _key_budget(where: str, said: object, n_keys: int) -> Fraction:
    # A later round of PrivKVM spends nothing on keys.
    return Fraction(0) if said == "0" else _budget(where, said, n_keys)


def _size(least: int, most: int) -> Reader:
    return lambda where, said, _: read_size(said, where, least, most)


def _starts(where: str, said: object, _: int) -> tuple[int, ...]:
    return tuple(read_size(each, where, 0, LARGEST_SIZE) for each in read_list(said, where, MOST_CLASSES))


def _popular(where: str, said: object, n_keys: int) -> tuple[int, ...]:
    return read_codes(said, where, n_keys, MOST_CLASSES)


def _levels(where: str, said: object, n_keys: int) -> tuple[Level, ...]:
    texts = read_list(said, where, min(n_keys, MOST_LEVELS))
    if len(texts) < n_keys or not all(map(_is_level, texts)):
        raise DescriptionError(f"expected a level in text for each of {n_keys} keys, at {where}")
    return tuple(map(Level, texts))


def _is_level(text: object) -> bool:
    """Whether a text is a number of at most twenty digits, written in one way."""
    return (
        isinstance(text, str)
        and text.isascii()
        and text.isdigit()
        and len(text) <= 20
        and (text[0] != "0" or text == "0")
    )


def _text(where: str, said: object, _: int) -> str:
    if isinstance(said, str):
        return said
    raise DescriptionError(f"expected text, at {where}")


# From where a field stands, what is said there, and the number of keys, to its value.
Reader = Callable[[str, object, int], Any]
_FIELDS: Mapping[str, Reader] = MappingProxyType(
    {
        "epsilon": _budget,
        "key_epsilon": _key_budget,
        "sign_epsilon": _budget,
        "allocation": _text,
        "pairs_per_user": _size(1, MOST_PAIRS),
        "bins": _size(2, MOST_BINS),
        "width": _size(1, LARGEST_SIZE),
        "buckets": _size(2, LARGEST_SIZE),
        "occupied": _size(1, LARGEST_SIZE),
        "tie": _size(-(1 << 32), 1 << 32),
        "cohorts": _size(1, LARGEST_SIZE),
        "chosen": _size(1, MOST_SYMBOLS),
        "largest": _size(1, LARGEST_SIZE),
        "most": _size(1, LARGEST_SIZE),
        "starts": _starts,
        "popular": _popular,
        "levels": _levels,
        "longest": _size(1, MOST_BITS),
        "bits": _size(1, MOST_BITS),
        "step": _size(1, MOST_BITS),
    }
)
