"""How a noised answer becomes bytes whose length depends on the campaign alone.

Four shapes cover every mechanism:

    Trits(n)      n symbols 0, 1, 2 at two bits each, least significant bits first
    Row(n, size)  n numbers below `size`, each in the fewest bits that hold every one of them
    Subset(n, w)  n bits of which w are set, the first in the lowest
    Symbol(size)  one number below `size`, little endian, in the fewest whole bytes

Clear labels, where there are any, follow the answer:

    Labels(sizes)  a number for each size, from 0 up to it, a byte each

Encoding is canonical: one answer, one byte string. Decoding refuses everything else (the fourth
two-bit code, set bits behind the last number, too many or too few of them, a number out of range).
"""

from __future__ import annotations

from dataclasses import dataclass

from keyveil.errors import Refusal, ReportRejected

ABSENT, PLUS, MINUS = 0, 1, 2

_DIGITS = bytes.maketrans(bytes(range(4)), b"0123")
_BITS = bytes.maketrans(b"01", bytes((0, 1)))
# _PLACES[i] maps a byte to the trit in its i-th pair of bits.
_PLACES = [bytes((byte >> (2 * place)) & 3 for byte in range(256)) for place in range(4)]
# The letters "0" and "1" are 48 and 49; one of each plane and one twice make 144 + code.
_CODES = bytes((letters - 144) % 256 for letters in range(256))


@dataclass(frozen=True, slots=True)
class Trits:
    """`length` symbols from {ABSENT, PLUS, MINUS}, as a `bytes` of codes 0, 1, 2.

    >>> Trits(5).encode(bytes([PLUS, MINUS, ABSENT, ABSENT, PLUS])).hex()
    '0901'
    >>> list(Trits(5).decode(bytes.fromhex("0901")))
    [1, 2, 0, 0, 1]
    """

    length: int

    @property
    def n_bytes(self) -> int:
        """Length of the encoded answer."""
        return (2 * self.length + 7) // 8

    def encode(self, answer: bytes) -> bytes:
        """Four trits a byte; the first in the lowest bits."""
        # A base-4 numeral is parsed in linear time, far faster than a loop over trits.
        return int(answer[::-1].translate(_DIGITS), 4).to_bytes(self.n_bytes, "little")

    def decode(self, payload: bytes) -> bytes:
        """The trits, or a refusal."""
        _check_length(payload, self.n_bytes)
        number = int.from_bytes(payload, "little")
        if number >> (2 * self.length):
            raise ReportRejected(Refusal.NOT_CANONICAL, "bits are set behind the last trit")
        if number & (number >> 1) & int.from_bytes(b"\x55" * self.n_bytes, "little"):
            raise ReportRejected(Refusal.NOT_CANONICAL, "a trit has the unused code 3")
        digits = bytearray(self.length)
        for place in range(4):
            digits[place::4] = payload.translate(_PLACES[place])[: len(range(place, self.length, 4))]
        return bytes(digits)


@dataclass(frozen=True, slots=True)
class Row:
    """`length` numbers below `size`, each in the same few bits, the first in the lowest; as a tuple.

    >>> Row(3, 9).encode((8, 0, 1)).hex(), Row(3, 9).decode(bytes.fromhex("0801"))
    ('0801', (8, 0, 1))
    """

    length: int
    size: int

    @property
    def bits(self) -> int:
        """Bits a number."""
        return max(1, (self.size - 1).bit_length())

    @property
    def n_bytes(self) -> int:
        """Length of the encoded answer."""
        return (self.bits * self.length + 7) // 8

    def encode(self, answer: tuple[int, ...]) -> bytes:
        """All numbers as one binary numeral, the last first."""
        if self.size == 2:
            return int(bytes(answer[::-1]).translate(_DIGITS), 2).to_bytes(self.n_bytes, "little")
        numeral = "".join(f"{number:0{self.bits}b}" for number in reversed(answer))
        return int(numeral, 2).to_bytes(self.n_bytes, "little")

    def decode(self, payload: bytes) -> tuple[int, ...]:
        """The numbers, or a refusal."""
        _check_length(payload, self.n_bytes)
        packed, bits = int.from_bytes(payload, "little"), self.bits
        if packed >> (bits * self.length):
            raise ReportRejected(Refusal.NOT_CANONICAL, "bits are set behind the last number")
        numeral = f"{packed:0{bits * self.length}b}"
        numbers = tuple(int(numeral[at : at + bits], 2) for at in range(0, len(numeral), bits))[::-1]
        if max(numbers) >= self.size:
            raise ReportRejected(Refusal.NOT_CANONICAL, f"expected numbers below {self.size}")
        return numbers


@dataclass(frozen=True, slots=True)
class Subset:
    """`chosen` of `length` places: a bit each, the first in the lowest; as a tuple of zeros and ones.

    A report that names more places than it was asked for, or fewer, is none.

    >>> Subset(5, 2).encode((1, 0, 0, 0, 1)).hex(), Subset(5, 2).decode(bytes.fromhex("11"))
    ('11', (1, 0, 0, 0, 1))
    """

    length: int
    chosen: int

    @property
    def n_bytes(self) -> int:
        """Length of the encoded answer."""
        return self.bits.n_bytes

    @property
    def bits(self) -> Row:
        """The same places, however many are set."""
        return Row(self.length, 2)

    def encode(self, answer: tuple[int, ...]) -> bytes:
        """All bits as one binary numeral, the last first."""
        return self.bits.encode(answer)

    def decode(self, payload: bytes) -> tuple[int, ...]:
        """The bits, or a refusal."""
        answer = self.bits.decode(payload)
        if sum(answer) != self.chosen:
            raise ReportRejected(Refusal.NOT_CANONICAL, f"expected {self.chosen} places to be named")
        return answer


@dataclass(frozen=True, slots=True)
class Symbol:
    """One number below `size`.

    >>> Symbol(300).encode(258).hex(), Symbol(300).decode(bytes.fromhex("0201"))
    ('0201', 258)
    """

    size: int

    @property
    def n_bytes(self) -> int:
        """Length of the encoded answer."""
        return max(1, ((self.size - 1).bit_length() + 7) // 8)

    def encode(self, answer: int) -> bytes:
        """The number in the fewest whole bytes that hold every number below `size`."""
        return answer.to_bytes(self.n_bytes, "little")

    def decode(self, payload: bytes) -> int:
        """The number, or a refusal."""
        _check_length(payload, self.n_bytes)
        number = int.from_bytes(payload, "little")
        if number >= self.size:
            raise ReportRejected(Refusal.NOT_CANONICAL, f"expected a symbol below {self.size}")
        return number


Layout = Trits | Row | Subset | Symbol


@dataclass(frozen=True, slots=True)
class Labels:
    """A number for each size, from 0 up to and with it.

    >>> Labels((3, 64)).encode((2, 64)).hex(), Labels((3, 64)).decode(bytes.fromhex("0240"))
    ('0240', (2, 64))
    """

    sizes: tuple[int, ...]

    @property
    def n_bytes(self) -> int:
        """Length of the encoded labels."""
        return len(self.sizes)

    def encode(self, labels: tuple[int, ...]) -> bytes:
        """A byte a label."""
        if len(labels) != len(self.sizes):
            raise ValueError(f"expected {len(self.sizes)} labels, got {len(labels)}")
        return bytes(labels)

    def decode(self, payload: bytes) -> tuple[int, ...]:
        """The labels, or a refusal."""
        _check_length(payload, self.n_bytes)
        if any(label > size for label, size in zip(payload, self.sizes, strict=True)):
            raise ReportRejected(Refusal.NOT_CANONICAL, "a label names a segment that nobody declared")
        return tuple(payload)


def join_trits(plus: int, minus: int, length: int) -> bytes:
    """Codes from two planes of bits, the first code in the lowest; no bit may be set in both.

    >>> list(join_trits(0b10001, 0b00010, 5))
    [1, 2, 0, 0, 1]
    """
    ones = int.from_bytes(f"{plus:0{length}b}".encode(), "big")
    twos = int.from_bytes(f"{minus:0{length}b}".encode(), "big")
    return (ones + 2 * twos).to_bytes(length, "little").translate(_CODES)


def spread_bits(plane: int, length: int) -> tuple[int, ...]:
    """The lowest `length` bits of a number, the lowest first.

    >>> spread_bits(0b10001, 5)
    (1, 0, 0, 0, 1)
    """
    return tuple(f"{plane:0{length}b}".encode()[::-1].translate(_BITS))


def _check_length(payload: bytes, expected: int) -> None:
    if len(payload) != expected:
        raise ReportRejected(
            Refusal.WRONG_LENGTH, f"expected a payload of {expected} bytes, got {len(payload)}"
        )
