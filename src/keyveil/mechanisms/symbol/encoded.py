"""What small groups of users are asked: how many pairs they hold, or the sign of one of their values.

An encoder of `keys_only` and an oracle, by name; each is a round of `auto` or `ks-grr`, none a method.

    record-size        how many pairs, cut at `largest`, by randomized response
    record-size-bits   the same by one optimised bit a size: better for many sizes
    size-class         which class of sizes, by randomized response
    size-class-wave    the same by a square wave over the classes: better for many
    own-sign           the sign of one value, by randomized response
    popular-size       the class of sizes, reported by those who hold popular keys
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from keyveil.mechanisms.base import Ask
from keyveil.mechanisms.oracles import Bits, Oracle, Response, Wave
from keyveil.mechanisms.symbol.keys_only import (
    EncodedOracle,
    Encoder,
    OwnSign,
    PopularSize,
    RecordSize,
    SizeClass,
)
from keyveil.mechanisms.values import Window, WindowResponse
from keyveil.numerics import exp_below


class SmallQuestion(EncodedOracle):
    """An encoder's symbol by randomized response, unless a subclass tells it otherwise."""

    __slots__ = ()

    @classmethod
    def calibrate(cls, ask: Ask) -> Self:
        """The most truthful instance whose privacy loss is at most `epsilon`; l plays no part."""
        encoder = cls._encoder(ask)
        return cls(encoder=encoder, oracle=cls._oracle(ask, encoder.n_symbols))

    @classmethod
    def _encoder(cls, ask: Ask) -> Encoder:
        raise TypeError(f"{cls.__name__} asks nothing")

    @classmethod
    def _oracle(cls, ask: Ask, n_symbols: int) -> Oracle:
        return Response.for_epsilon(ask.epsilon, n_symbols, ask.word_bits)


class RecordSizeResponse(SmallQuestion):
    """How many pairs a record holds.

    >>> RecordSizeResponse.for_epsilon(1, n_keys=9, largest=3).parameters.to_json()
    {'id': 'record-size', 'epsilon': '1', 'largest': 3}
    """

    __slots__ = ()
    id: ClassVar[str] = "record-size"
    options: ClassVar[Mapping[str, Any]] = {"largest": 1}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "largest")

    @classmethod
    def _encoder(cls, ask: Ask) -> Encoder:
        return RecordSize(n_keys=ask.n_keys, largest=ask.options["largest"])


class RecordSizeBits(RecordSizeResponse):
    """The same by optimised bits."""

    __slots__ = ()
    id: ClassVar[str] = "record-size-bits"

    @classmethod
    def _oracle(cls, ask: Ask, n_symbols: int) -> Oracle:
        return Bits.oue(ask.epsilon, n_symbols, ask.word_bits)


class SizeClassResponse(SmallQuestion):
    """Which class a record's size falls into.

    >>> SizeClassResponse.for_epsilon(1, n_keys=9, starts=(0, 1, 3)).oracle.n_symbols
    3
    """

    __slots__ = ()
    id: ClassVar[str] = "size-class"
    options: ClassVar[Mapping[str, Any]] = {"starts": (0, 1)}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "starts")

    @classmethod
    def _encoder(cls, ask: Ask) -> Encoder:
        return SizeClass(n_keys=ask.n_keys, starts=ask.options["starts"])


class SizeClassWave(SizeClassResponse):
    """The same by a square wave over the classes."""

    __slots__ = ()
    id: ClassVar[str] = "size-class-wave"
    options: ClassVar[Mapping[str, Any]] = {"starts": (0, 1), "width": None}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "starts", "width")

    @classmethod
    def resolve(cls, ask: Ask) -> Ask:
        """The width that serves distributions best."""
        window = Window.square_wave(ask.epsilon, len(ask.options["starts"]))
        return ask.resolved(width=window.width)

    @classmethod
    def _oracle(cls, ask: Ask, n_symbols: int) -> Oracle:
        window = Window(n_in=n_symbols, width=ask.options["width"])
        return Wave(response=WindowResponse.filled(window, exp_below(ask.epsilon), ask.word_bits))


class OwnSignResponse(SmallQuestion):
    """The sign of one of the user's values."""

    __slots__ = ()
    id: ClassVar[str] = "own-sign"

    @classmethod
    def _encoder(cls, ask: Ask) -> Encoder:
        return OwnSign(n_keys=ask.n_keys)


class PopularSizeResponse(SmallQuestion):
    """How long the records are that hold popular keys."""

    __slots__ = ()
    id: ClassVar[str] = "popular-size"
    options: ClassVar[Mapping[str, Any]] = {"popular": (0,), "most": 1, "starts": (1,)}
    fields: ClassVar[tuple[str, ...]] = ("epsilon", "popular", "most", "starts")

    @classmethod
    def _encoder(cls, ask: Ask) -> Encoder:
        options = ask.options
        return PopularSize(
            n_keys=ask.n_keys, popular=options["popular"], most=options["most"], starts=options["starts"]
        )
