"""Sealed reports as vectors, by an HPKE of this file's own: RFC 9180 written out, key by key.

`keyveil.sealing` leaves HPKE to a package, which draws the ephemeral key and takes no aad. Here both are
given, so the numbers that the RFC prints (appendix A.1.1) can be checked, and what is sealed is always the
same. X25519 and AES-128-GCM are the package's; everything between them is here.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from keyveil.sealing import SEALED_HEADER_BYTES, SEALED_VERSION, key_id

_KEM = b"KEM" + (0x0020).to_bytes(2, "big")
_HPKE = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (0x0020, 0x0001, 0x0001))
_BASE_MODE = b"\0"


class Context(NamedTuple):
    """What both sides work out: the secret of one message and what follows from it."""

    enc: bytes
    shared_secret: bytes
    key: bytes
    base_nonce: bytes
    exporter_secret: bytes

    def seal(self, pt: bytes, aad: bytes = b"") -> bytes:
        """The first message of the context."""
        return AESGCM(self.key).encrypt(self.base_nonce, pt, aad)

    def open(self, ct: bytes, aad: bytes = b"") -> bytes:
        """The first message of the context, read."""
        return AESGCM(self.key).decrypt(self.base_nonce, ct, aad)


def sender(public: bytes, info: bytes, ephemeral: bytes) -> Context:
    """SetupBaseS, with the ephemeral key that is otherwise drawn."""
    own = X25519PrivateKey.from_private_bytes(ephemeral)
    enc = own.public_key().public_bytes_raw()
    dh = own.exchange(X25519PublicKey.from_public_bytes(public))
    return _context(dh, enc, public, info)


def recipient(private: bytes, info: bytes, enc: bytes) -> Context:
    """SetupBaseR."""
    own = X25519PrivateKey.from_private_bytes(private)
    dh = own.exchange(X25519PublicKey.from_public_bytes(enc))
    return _context(dh, enc, own.public_key().public_bytes_raw(), info)


def _context(dh: bytes, enc: bytes, public: bytes, info: bytes) -> Context:
    eae_prk = _extract(_KEM, b"", b"eae_prk", dh)
    shared_secret = _expand(_KEM, eae_prk, b"shared_secret", enc + public, 32)
    psk_id_hash, info_hash = (
        _extract(_HPKE, b"", label, said) for label, said in ((b"psk_id_hash", b""), (b"info_hash", info))
    )
    secret, schedule = _extract(_HPKE, shared_secret, b"secret", b""), _BASE_MODE + psk_id_hash + info_hash
    key, nonce, exporter = (
        _expand(_HPKE, secret, label, schedule, length)
        for label, length in ((b"key", 16), (b"base_nonce", 12), (b"exp", 32))
    )
    return Context(enc, shared_secret, key, nonce, exporter)


def _extract(suite: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + ikm, "sha256")


def _expand(suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """Never longer than a hash, so it is the first block of HKDF."""
    labelled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(prk, labelled + b"\1", "sha256")[:length]


# --- reports ---


def info_of(campaign: str, round: int) -> bytes:
    """What a report is sealed for, as the wire page says."""
    return b"keyveil sealed report 1" + bytes.fromhex(campaign) + round.to_bytes(2, "little")


def seal(public: bytes, report: bytes, *, campaign: str, round: int, ephemeral: bytes) -> bytes:
    """A sealed report with a given ephemeral key."""
    context = sender(public, info_of(campaign, round), ephemeral)
    header = bytes([SEALED_VERSION]) + key_id(public) + round.to_bytes(2, "little")
    return header + context.enc + context.seal(report)


def open_sealed(private: bytes, sealed: bytes, *, campaign: str, round: int) -> bytes:
    """The report inside, whatever the header says."""
    body = sealed[SEALED_HEADER_BYTES:]
    return recipient(private, info_of(campaign, round), body[:32]).open(body[32:])


# --- the file ---

# RFC 9180, A.1.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM, base mode, sequence number 0.
RFC9180 = {
    "info": "4f6465206f6e2061204772656369616e2055726e",
    "skEm": "52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736",
    "pkEm": "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
    "skRm": "4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8",
    "pkRm": "3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d",
    "enc": "37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431",
    "shared_secret": "fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc",
    "key": "4531685d41d65f03dc48f6b8302c05b0",
    "base_nonce": "56d890e5accaaf011cff4b7d",
    "exporter_secret": "45ff1c2e220db587171952c0592d5f5ebe103f1561a2614e38f2ffd47e99e3f8",
    "pt": "4265617574792069732074727574682c20747275746820626561757479",
    "aad": "436f756e742d30",
    "ct": "f938558b5d72f1a23810b4be2ab4f84331acc02fc97babc53a52ae8218a355a96d8770ac83d07bea87e13c512a",
}


def files() -> dict[str, dict[str, Any]]:
    """The one file."""
    return {"sealed.json": {"rfc9180": RFC9180, "sealed": sealed_cases(), "refused": refused_cases()}}


def sealed_cases() -> list[dict[str, Any]]:
    """Reports of several lengths, campaigns, rounds and keys, each sealed with a given ephemeral key."""
    return [
        _case(key, f"campaign {place % 3}", round, _bytes(f"report {place}", length))
        for place, (key, round, length) in enumerate(
            (key, round, length)
            for key, round in (("first", 1), ("first", 2), ("second", 1), ("second", 65535))
            for length in (1, 36, 43, 300)
        )
    ]


def refused_cases() -> list[dict[str, Any]]:
    """What does not open, and the code of its refusal."""
    good = _case("first", "campaign 0", 1, _bytes("refused", 36))
    sealed, private = bytes.fromhex(good["sealed"]), good["private"]
    moved = sealed[:9] + b"\2\0" + sealed[11:]
    other = _case("second", "campaign 0", 1, _bytes("refused", 36))
    spoilt: list[tuple[str, bytes, dict[str, Any], str]] = [
        ("it was sealed for another round", sealed, {"round": 2}, "not-sealed"),
        ("its header was moved to another round", moved, {"round": 2}, "not-sealed"),
        ("it was sealed for another campaign", sealed, {"campaign": _digest("campaign 1")}, "not-sealed"),
        ("it was sealed to another key", bytes.fromhex(other["sealed"]), {}, "not-sealed"),
        ("its header names another key", sealed[:1] + bytes(8) + sealed[9:], {}, "not-sealed"),
        (
            "another key's header stands before it",
            bytes.fromhex(other["sealed"])[:11] + sealed[11:],
            {"private": other["private"]},
            "not-sealed",
        ),
        ("the last byte was cut", sealed[:-1], {}, "not-sealed"),
        ("a byte stands behind it", sealed + b"\0", {}, "not-sealed"),
        ("a byte of the encapsulated key was changed", _flipped(sealed, 20), {}, "not-sealed"),
        ("a byte of the report was changed", _flipped(sealed, 50), {}, "not-sealed"),
        ("a byte of the proof was changed", _flipped(sealed, len(sealed) - 1), {}, "not-sealed"),
        ("an encapsulated key of no order", sealed[:11] + bytes(32) + sealed[43:], {}, "not-sealed"),
        ("version 0", b"\0" + sealed[1:], {}, "unknown-version"),
        ("version 2", b"\2" + sealed[1:], {}, "unknown-version"),
        ("nothing", b"", {}, "wrong-length"),
        ("a header alone", sealed[:11], {}, "wrong-length"),
        ("nothing was sealed", sealed[:59], {}, "wrong-length"),
    ]
    return [
        {
            "why": why,
            "sealed": bad.hex(),
            "private": private,
            "campaign": good["campaign"],
            "round": good["round"],
            **more,
            "code": code,
        }
        for why, bad, more, code in spoilt
    ]


def _case(key: str, campaign: str, round: int, report: bytes) -> dict[str, Any]:
    private = _bytes(f"key {key}", 32)
    public = X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()
    ephemeral = _bytes(f"ephemeral {report.hex()}", 32)
    sealed = seal(public, report, campaign=_digest(campaign), round=round, ephemeral=ephemeral)
    return {
        "private": private.hex(),
        "public": public.hex(),
        "key_id": key_id(public).hex(),
        "campaign": _digest(campaign),
        "round": round,
        "ephemeral": ephemeral.hex(),
        "report": report.hex(),
        "sealed": sealed.hex(),
    }


def _digest(label: str) -> str:
    return hashlib.sha256(label.encode()).hexdigest()


def _bytes(label: str, length: int) -> bytes:
    return hashlib.shake_256(label.encode()).digest(length)


def _flipped(sealed: bytes, place: int) -> bytes:
    return sealed[:place] + bytes([sealed[place] ^ 1]) + sealed[place + 1 :]
