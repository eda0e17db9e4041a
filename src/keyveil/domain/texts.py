r"""Keys that nobody listed: a text as bits, by a public code, and a record of such texts.

A text is UTF-8, and every byte of it a word of bits, a terminator behind the last. Words come from a table
of lengths, one for each byte to come (0 is the terminator, which no text holds), or from several, by the
byte before: lengths make the words (Huffman's, in canonical order), so a code is public in a few hundred
letters and is the same in every language. Plain bytes are the table whose words all have 8 bits.

A key is said by its first `longest` bits. What ends within them is known by its name; of what does not, the
whole letters that fit are known, followed by an ellipsis: all such keys with the same letters are one key.

Text is hostile. Letters that nobody sees or that turn others around are written out before anything else
happens, U+202E as `\u{202e}`: the device does so, and bits that say such a letter are no device's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from keyveil.domain.keys import Domain, mean_unit, unit_of
from keyveil.domain.record import Pair, Record, level_of
from keyveil.errors import DomainError

ELLIPSIS = "\u2026"
# What stands for every key that is not named: no letter of it is known.
THE_REST = ELLIPSIS
# How many bits of a key may be said; the lengths of words are the letters a to z.
LEAST_BITS, MOST_BITS, LONGEST_WORD = 2, 512, 26
END, BYTES = 0, 256
# At most so many tables: the byte before may be any that begins or goes on in a text.
MOST_TABLES = 257

# First and last of the letters that are written out: controls, soft hyphens, marks and embeddings of
# direction, fillers, invisible operators, halves of characters, byte order marks, selectors and tags.
HIDDEN = (
    (0x00, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xD800, 0xDFFF),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
_FIRST = tuple(first for first, _ in HIDDEN)


def visible(text: str) -> str:
    r"""The text with every letter that nobody would see written out.

    >>> visible("pay\u202elap")
    'pay\\u{202e}lap'
    """
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def _shown(letter: str) -> str:
    place = bisect_right(_FIRST, ord(letter)) - 1
    return f"\\u{{{ord(letter):x}}}" if place >= 0 and ord(letter) <= HIDDEN[place][1] else letter


# --- one table of words ---


@dataclass(frozen=True, slots=True)
class Table:
    """A complete prefix code over bytes, in canonical order: shorter words first, then by byte.

    >>> Table.of("h" * 256).words[65], Table.of("h" * 256).read(0b0100000111, 10)
    ((65, 8), (65, 8))
    """

    words: tuple[tuple[int, int], ...]
    """The word of every byte, as a number and its length."""
    _known: Mapping[tuple[int, int], int]

    @classmethod
    @lru_cache(maxsize=2 * MOST_TABLES)
    def of(cls, lengths: str) -> Table:
        """The code whose words have these lengths, a letter each; refused where they make no complete one."""
        bits = [ord(letter) - ord("a") + 1 for letter in lengths]
        if len(bits) != BYTES or not all(1 <= each <= LONGEST_WORD for each in bits):
            raise DomainError(f"expected {BYTES} lengths of words, each a letter from a to z, at $.code")
        if sum(1 << (LONGEST_WORD - each) for each in bits) != 1 << LONGEST_WORD:
            raise DomainError("the lengths of words make no complete code, at $.code")
        words, word, before = [(0, 0)] * BYTES, 0, 0
        for byte in sorted(range(BYTES), key=lambda byte: (bits[byte], byte)):
            word <<= bits[byte] - before
            words[byte], before = (word, bits[byte]), bits[byte]
            word += 1
        return cls(tuple(words), MappingProxyType({each: byte for byte, each in enumerate(words)}))

    def read(self, bits: int, length: int) -> tuple[int, int] | None:
        """The byte whose word begins these bits, and the word's length; None where they end within one."""
        for used in range(1, min(length, LONGEST_WORD) + 1):
            byte = self._known.get((bits >> (length - used), used))
            if byte is not None:
                return byte, used
        return None


PLAIN = "h" * BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class TextCode:
    """Texts as numbers of so many bits, and back.

    >>> code = TextCode(longest=32)
    >>> [hex(code.number(text)) for text in ("abc", "abcdef")]
    ['0x61626300', '0x61626364']
    >>> code.name(0x61626300), code.name(0x61626364), code.name(0x6162, 16)
    ('abc', 'abcd…', 'ab…')
    """

    longest: int
    """How many bits of a key are said."""
    tables: Mapping[str, str] = field(default_factory=lambda: {"": PLAIN})
    """Lengths of words by the byte before, two hexadecimal digits; "" for any other, and at the beginning."""

    def __post_init__(self) -> None:
        if type(self.longest) is not int or not LEAST_BITS <= self.longest <= MOST_BITS:
            raise DomainError(
                f"longest must be a number of bits from {LEAST_BITS} to {MOST_BITS}, "
                f"got {str(self.longest)[:40]}, at $.longest"
            )
        tables = self.tables
        is_table = isinstance(tables, Mapping) and "" in tables and len(tables) <= MOST_TABLES
        if not is_table or not all(type(each) is str for pair in tables.items() for each in pair):
            raise DomainError('code must give lengths of words by the byte before, and "" for any, at $.code')
        known = {f"{byte:02x}" for byte in range(1, BYTES)} | {""}
        if not known.issuperset(tables):
            raise DomainError("expected two hexadecimal digits of a byte, at $.code")
        for lengths in tables.values():
            Table.of(lengths)
        object.__setattr__(self, "tables", MappingProxyType(dict(sorted(tables.items()))))

    def __hash__(self) -> int:
        return hash((self.longest, tuple(self.tables.items())))

    def __reduce__(self) -> tuple[object, ...]:
        return _made_again, (self.longest, dict(self.tables))

    def _after(self, byte: int) -> Table:
        table: Table = Table.of(self.tables.get(f"{byte:02x}", self.tables[""]))
        return table

    def number(self, text: str) -> int:
        """The first bits of a text; zeros behind its end."""
        bits, length, before = 0, 0, 0
        # A word has one bit at least, so no more bytes than bits can matter.
        for byte in (*visible(text[: self.longest]).encode()[: self.longest], END):
            word, used = self._after(before).words[byte]
            bits, length, before = bits << used | word, length + used, byte
            if length >= self.longest:
                break
        behind: int = self.longest - length
        return bits << behind if behind > 0 else bits >> -behind

    def name(self, bits: int, length: int | None = None) -> str | None:
        """What the first bits say: a whole text, or its first letters and an ellipsis; or None."""
        found = self.read(bits, self.longest if length is None else length)
        return None if found is None else found[0]

    def read(self, bits: int, length: int) -> tuple[str, bool] | None:
        """The name that bits give, and whether it ended; None where no text begins so."""
        said, before = bytearray(), 0
        while True:
            found = self._after(before).read(bits & (1 << length) - 1, length)
            if found is None:
                return _begun(bytes(said))
            before, used = found
            length -= used
            if before == END:
                return _ended(bytes(said)) if not bits & (1 << length) - 1 else None
            said.append(before)


def _made_again(longest: int, tables: dict[str, str]) -> TextCode:
    return TextCode(longest=longest, tables=tables)


def _ended(said: bytes) -> tuple[str, bool] | None:
    try:
        text = said.decode()
    except UnicodeDecodeError:
        return None
    return (text, True) if text and visible(text) == text else None


def _begun(said: bytes) -> tuple[str, bool] | None:
    """The whole letters of what goes on."""
    try:
        text = said.decode()
    except UnicodeDecodeError as error:
        # Up to three bytes of a letter that is not over.
        if error.reason != "unexpected end of data":
            return None
        text = said[: error.start].decode()
    return (text + ELLIPSIS, False) if visible(text) == text else None


# --- records and the domain ---


@dataclass(frozen=True, slots=True, repr=False)
class NamedRecord(Record):
    """Pairs whose keys are texts: the code of each is its bits, and its name goes with it.

    >>> apps = OpenDomain(value_range=(0, 60), code=TextCode(longest=64))
    >>> record = apps.encode({"maps": 60.0, "mail": 30.0, "chess": 0.0})
    >>> [pair.code for pair in record.among(("mail", "…")).pairs]
    [0, 1]
    """

    names: tuple[str, ...] = ()

    def among(self, codes: Sequence[int] | Sequence[str]) -> Record:
        """The pairs of named keys, numbered in that order; an ellipsis is all others, as one."""
        place = {key: code for code, key in enumerate(codes)}
        rest = place.get(THE_REST)
        levels: dict[int, list[int]] = {}
        for pair, name in zip(self.pairs, self.names, strict=True):
            code = place.get(name, rest)
            if code is not None:
                levels.setdefault(code, []).append(pair.level)
        return Record.from_levels((code, sum(each) // len(each)) for code, each in levels.items())

    def without(self, code: int) -> NamedRecord:
        """The same for somebody who does not hold one key."""
        left = [held for held in zip(self.pairs, self.names, strict=True) if held[0].code != code]
        return NamedRecord(tuple(pair for pair, _ in left), names=tuple(name for _, name in left))


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDomain(Domain):
    """Any text may be a key; values have a range.

    Keys that are known by one name, because they differ beyond the bits, are one, whose value is their mean.
    """

    keys: tuple[str, ...] = (THE_REST,)
    code: TextCode

    def __post_init__(self) -> None:
        Domain.__post_init__(self)
        object.__setattr__(self, "n_keys", 1 << self.code.longest)

    def code_of(self, name: str) -> int | None:
        """Its bits."""
        return self.code.number(name)

    def name_of(self, code: int) -> str:
        """What its bits say, or the bits where no text has them."""
        return self.code.name(code) or f"{code:#x}"

    def names_key(self, name: str) -> bool:
        """Whatever it is."""
        return True

    def found(self, names: Sequence[str]) -> Domain:
        """The keys that were found, and all the rest as one."""
        return Domain(keys=(*names, THE_REST), value_range=self.value_range, beyond=self.beyond)

    def encode(self, held: Mapping[str, float], label: int = 0) -> NamedRecord:
        """The private record of what a user holds; an empty text is no key, and no segment asks about it."""
        units: dict[str, tuple[int, list[float]]] = {}
        for name, value in held.items():
            unit = unit_of(self, name, value)
            if unit is None or not name:
                continue
            bits = self.code.number(name)
            shown = self.code.name(bits)
            assert shown is not None, "what was made of a text can be read"
            least, known = units.get(shown, (bits, []))
            units[shown] = min(least, bits), [*known, unit]
        pairs = sorted((bits, level_of(mean_unit(each)), name) for name, (bits, each) in units.items())
        return NamedRecord(
            tuple(Pair(bits, level) for bits, level, _ in pairs), names=tuple(name for _, _, name in pairs)
        )
