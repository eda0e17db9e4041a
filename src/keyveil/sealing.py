"""Sealed reports: what a relay carries and cannot read.

A device seals its report to a public key of the collector's by HPKE (RFC 9180, base mode): X25519,
HKDF-SHA256, AES-128-GCM. A relay sees which key, campaign and round it is for, and bytes of one length a
round.

offset  bytes  what
0       1      version, now 1
1       8      the key's id: the first bytes of its SHA-256
9       2      round, little endian
11      32     the encapsulated key
43      ...    the report, encrypted, and 16 bytes that prove it whole

The campaign and the round are HPKE's `info`, so what was sealed for one round opens for no other:

    "keyveil sealed report 1", the campaign's id (32 bytes), the round (2 bytes, little endian)

A report is sealed once and kept so: sealed again it would be other bytes, and a relay, which knows repeats by
their digest, would carry both.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from keyveil.errors import MissingPackage, Refusal, ReportRejected

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

SEALED_VERSION = 1
KEY_BYTES, KEY_ID_BYTES = 32, 8
# What the answer of a collector says of its keys.
SUITE = "x25519-hkdf-sha256-aes128gcm"

_HEADER = struct.Struct(f"<B{KEY_ID_BYTES}sH")
_ROUND = struct.Struct("<H")
_PURPOSE = b"keyveil sealed report 1"
SEALED_HEADER_BYTES = _HEADER.size
# The encapsulated key and the proof that the rest is whole.
HPKE_BYTES = KEY_BYTES + 16
SEALED_OVERHEAD = SEALED_HEADER_BYTES + HPKE_BYTES


def key_id(public: bytes) -> bytes:
    """What a public key is called: it follows from the key, so nobody gives one name to two."""
    return hashlib.sha256(public).digest()[:KEY_ID_BYTES]


@dataclass(frozen=True, slots=True)
class SealedHeader:
    """What everybody may read of a sealed report."""

    key: bytes
    round: int

    @classmethod
    def read(cls, sealed: bytes) -> SealedHeader:
        """The header of a sealed report, or a refusal."""
        if len(sealed) <= SEALED_OVERHEAD:
            raise ReportRejected(
                Refusal.WRONG_LENGTH, f"expected more than {SEALED_OVERHEAD} bytes, got {len(sealed)}"
            )
        version, key, round_ = _HEADER.unpack_from(sealed)
        if version != SEALED_VERSION:
            raise ReportRejected(
                Refusal.UNKNOWN_VERSION,
                f"expected a sealed report of version {SEALED_VERSION}, got {version}",
            )
        return cls(key, round_)

    def to_bytes(self) -> bytes:
        """As it stands before what is sealed."""
        return _HEADER.pack(SEALED_VERSION, self.key, self.round)


@dataclass(frozen=True)
class SealingKey:
    """A collector's public key, to which reports are sealed."""

    public: bytes
    id: bytes = field(init=False, compare=False)
    _key: X25519PublicKey = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", key_id(self.public))
        object.__setattr__(self, "_key", _hpke().public_key(self.public))

    def seal(self, report: bytes, *, campaign: str, round: int) -> bytes:
        """The report as only the collector reads it.

        >>> key = OpeningKey.fresh()
        >>> sealed = SealingKey(key.public).seal(b"noised", campaign="ab" * 32, round=1)
        >>> len(sealed) - len(b"noised") == SEALED_OVERHEAD, key.open(sealed, campaign="ab" * 32, round=1)
        (True, b'noised')
        """
        header = SealedHeader(self.id, round).to_bytes()
        sealed: bytes = _hpke().suite.encrypt(report, self._key, _info(campaign, round))
        return header + sealed


@dataclass(frozen=True)
class OpeningKey:
    """A collector's private key."""

    private: bytes = field(repr=False)
    public: bytes = field(init=False)
    id: bytes = field(init=False)
    _key: X25519PrivateKey = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        key = _hpke().private_key(self.private)
        object.__setattr__(self, "_key", key)
        object.__setattr__(self, "public", key.public_key().public_bytes_raw())
        object.__setattr__(self, "id", key_id(self.public))

    @classmethod
    def fresh(cls) -> OpeningKey:
        """A new one, by the operating system's randomness."""
        return cls(_hpke().generate().private_bytes_raw())

    def open(self, sealed: bytes, *, campaign: str, round: int) -> bytes:
        """The report inside, or a refusal: of what was sealed for another key, campaign or round too."""
        if SealedHeader.read(sealed) != SealedHeader(self.id, round):
            raise ReportRejected(Refusal.NOT_SEALED, "it was sealed to another key, or for another round")
        opened = self.open_each([sealed[SEALED_HEADER_BYTES:]], campaign=campaign, round=round)[0]
        if opened is None:
            raise ReportRejected(Refusal.NOT_SEALED, "it cannot be opened")
        return opened

    def open_each(self, bodies: list[bytes], *, campaign: str, round: int) -> list[bytes | None]:
        """The reports inside what was sealed, without their headers; None for one that does not open."""
        hpke, key, info = _hpke(), self._key, _info(campaign, round)
        decrypt, invalid = hpke.suite.decrypt, hpke.invalid
        opened: list[bytes | None] = []
        for body in bodies:
            try:
                opened.append(decrypt(body, key, info))
            except invalid:
                opened.append(None)
        return opened


def require_sealing() -> None:
    """Refuse where nothing is installed that seals."""
    _hpke()


def _info(campaign: str, round: int) -> bytes:
    return _PURPOSE + bytes.fromhex(campaign) + _ROUND.pack(round)


class _Hpke:
    """The suite, and what makes keys for it."""

    def __init__(self) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives import hpke
            from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
        except ImportError as error:
            said = "sealing a report needs cryptography 50 or newer; pip install 'keyveil[sealed]'"
            raise MissingPackage(said, name=error.name, code="no-sealing") from None
        self.suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)
        # A body that is too short, or whose key is no point that can be used, is a ValueError.
        self.invalid: tuple[type[Exception], ...] = (InvalidTag, ValueError)
        self.generate: Any = X25519PrivateKey.generate
        self.private_key: Any = X25519PrivateKey.from_private_bytes
        self.public_key: Any = X25519PublicKey.from_public_bytes


@cache
def _hpke() -> _Hpke:
    return _Hpke()
