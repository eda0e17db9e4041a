"""Random bytes in bulk.

`SecureStream` is AES-256 in counter mode under a key of the operating system's generator: a standard
deterministic generator (NIST SP 800-90A's CTR_DRBG without its derivation function), many times faster
than asking the system for every byte. A new key replaces the old one after a gibibyte, and in a process
that was forked, so no two streams ever share a key. Without the package `cryptography` every byte comes
from the operating system, more slowly.

`InsecureSeededStream` repeats itself on purpose, for simulation and benchmarks; never for people's data.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]

# Bytes under one key: far below the 2**68 at which counter mode begins to differ from chance.
_PER_KEY = 1 << 30
_CHUNK = 1 << 20
_ZEROS = memoryview(bytes(_CHUNK))


class Stream(Protocol):
    """A source of random bytes."""

    def fill(self, target: Bytes) -> None:
        """Overwrite a contiguous array with random bytes."""


class SecureStream:
    """Bytes fit for people's data; safe after a fork, not shared between threads.

    >>> draw_words(SecureStream(), 3).shape
    (3,)
    """

    def __init__(self) -> None:
        self._process = -1
        self._left = 0
        self._cipher: Any = None

    def fill(self, target: Bytes) -> None:
        """Overwrite a contiguous array with random bytes."""
        view = target.reshape(-1).data
        if not _has_cipher():
            view[:] = os.urandom(len(view))
            return
        for start in range(0, len(view), _CHUNK):
            part = view[start : start + _CHUNK]
            if self._left < len(part) or self._process != os.getpid():
                self._rekey()
            self._left -= len(part)
            self._cipher.update_into(_ZEROS[: len(part)], part)

    def _rekey(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        self._cipher = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
        self._process, self._left = os.getpid(), _PER_KEY

    def __reduce__(self) -> Any:
        # A copy in another process has a key of its own.
        return SecureStream, ()


class InsecureSeededStream:
    """Repeatable bytes for simulation; reports made with them protect nobody.

    >>> one, other = (draw_words(InsecureSeededStream(7), 2) for _ in range(2))
    >>> bool((one == other).all())
    True
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.SFC64(seed))

    def fill(self, target: Bytes) -> None:
        """Overwrite a contiguous array with bytes that the seed alone decides."""
        target.reshape(-1)[:] = np.frombuffer(self._generator.bytes(target.size), dtype=np.uint8)


def draw_octets(stream: Stream, *shape: int) -> Bytes:
    """Random bytes."""
    drawn = np.empty(shape, dtype=np.uint8)
    stream.fill(drawn)
    return drawn


def draw_words(stream: Stream, *shape: int) -> Words:
    """Random 64-bit words, little endian on every machine."""
    drawn = np.empty(shape, dtype="<u8")
    stream.fill(drawn.view(np.uint8))
    return drawn.astype(np.uint64, copy=False)


@cache
def _has_cipher() -> bool:
    return importlib.util.find_spec("cryptography") is not None
