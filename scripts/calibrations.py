"""Vectors of exact arithmetic: exponentials, logarithms, calibrated kernels, and tiny kernels whole."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from keyveil.domain import Domain
from keyveil.errors import DescriptionError
from keyveil.mechanisms import Mechanism, describe
from keyveil.mechanisms.named import calibrated
from keyveil.mechanisms.registry import NAMED
from keyveil.numerics import Words, exp_below, price

BUDGETS = ("1/1000000000", "3602879701896397/36028797018963968", "1/2", "1", "3/2", "4", "32")
# Sizes of each field, small and large; what a mechanism does not name it does not get.
SIZES: dict[str, tuple[Any, ...]] = {
    "allocation": (None,),
    "pairs_per_user": (1, 3, 40),
    "bins": (2, 7),
    "width": (1, 6),
    "buckets": (3, 402),
    "occupied": (1, 2),
    "tie": (0, -1, 1 << 32),
    "cohorts": (1, 65536),
    "chosen": (2, 14),
    "largest": (1, 9),
    "most": (1, 4),
    "starts": ([0, 1, 4], [0, 1, 2, 3, 5, 8, 13, 20, 30, 50]),
    "popular": ([0], [1, 0]),
    "longest": (8, 96),
    "bits": (3, 70),
    "step": (2, 14),
}
KEYS = (2, 50)


def files() -> dict[str, dict[str, Any]]:
    """The three files."""
    return {
        "exact.json": exact(),
        "calibration.json": {"cases": list(calibration())},
        "kernels.json": {"kernels": [kernel(named, n_keys) for named, n_keys in TINY]},
    }


def exact() -> dict[str, Any]:
    """Exponentials as numerators over 2**256, logarithms in units of 2**-192."""
    arguments = [*BUDGETS, "0", "1/3", "17/3", "31/7", f"1/{10**30}"]
    ratios = ["1", "2", "4", "3/2", "18446744073709551616/3", f"{10**20 + 1}/{10**20}"]
    ratios += [str(exp_below(Fraction(each))) for each in arguments]
    return {
        "exp": [[each, str(int(exp_below(Fraction(each)) * 2**256))] for each in arguments],
        "log": [[each, str(price(Fraction(each)))] for each in ratios],
    }


def calibration() -> Iterator[dict[str, Any]]:
    """Every mechanism by name, in several sizes and budgets, and its integers."""
    for named, n_keys in _named():
        try:
            mechanism = calibrated(named, n_keys)
        except DescriptionError:  # a budget that leaves this size no word
            continue
        yield {
            "n_keys": n_keys,
            "mechanism": named,
            "integers": describe(mechanism),
            "loss": str(mechanism.loss),
            "units": str(price(mechanism.loss)),
            "n_words": mechanism.n_words,
            "n_bytes": mechanism.layout.n_bytes,
        }


def _named() -> Iterator[tuple[dict[str, Any], int]]:
    for name, cls in NAMED.items():
        for budget in BUDGETS:
            for allocation in cls.allocations if "allocation" in cls.fields else cls.allocations[:1]:
                for place, n_keys in enumerate(KEYS):
                    fields = {"id": name}
                    for field in cls.fields:
                        fields[field] = _field(field, place, budget, allocation.value, n_keys)
                    if name == "popular-size":
                        fields["starts"] = [1, 4, 9]
                    if name == "bucket":
                        fields["pairs_per_user"] = (2, 40)[place]
                    if name == "prefix-bucket":
                        fields |= {"pairs_per_user": (2, 40)[place], "buckets": (4, 512)[place]}
                    yield fields, n_keys
                    if cls.follows_ids and budget == "1":
                        yield {**fields, "ids": "issued"}, n_keys


def _field(field: str, place: int, budget: str, allocation: str, n_keys: int) -> Any:
    if field in ("epsilon", "sign_epsilon"):
        return budget
    if field == "key_epsilon":
        return "1/3"
    if field == "allocation":
        return allocation
    if field == "levels":
        return [str((code + 1) * 2**64 // (n_keys + 1)) for code in range(n_keys)]
    return SIZES[field][place]


# Kernels small enough to try every answer, and keys that they ask about.
TINY: tuple[tuple[dict[str, Any], int], ...] = (
    ({"id": "kvue", "epsilon": "1"}, 2),
    ({"id": "privkv", "epsilon": "1", "allocation": "tight"}, 2),
    ({"id": "privkv-split", "key_epsilon": "1/2", "sign_epsilon": "1/4"}, 2),
    (
        {
            "id": "privkv-broadcast",
            "key_epsilon": "0",
            "sign_epsilon": "1/4",
            "levels": ["9223372036854775808", "4611686018427387904"],
        },
        2,
    ),
    ({"id": "pckv-ue", "epsilon": "1", "allocation": "optimal", "pairs_per_user": 1}, 2),
    ({"id": "pckv-grr", "epsilon": "1", "allocation": "optimal", "pairs_per_user": 2}, 2),
    ({"id": "ks-ue", "epsilon": "1/2", "pairs_per_user": 1}, 2),
    ({"id": "grr", "epsilon": "1"}, 2),
    ({"id": "subset", "epsilon": "1", "chosen": 2}, 2),
    ({"id": "own-sign", "epsilon": "1"}, 2),
    ({"id": "size-class", "epsilon": "1", "starts": [0, 1, 2]}, 2),
    ({"id": "record-size", "epsilon": "1/2", "largest": 2}, 2),
    ({"id": "popular-size", "epsilon": "1", "popular": [0], "most": 1, "starts": [1, 2]}, 2),
    (
        {
            "id": "bucket",
            "epsilon": "1",
            "pairs_per_user": 1,
            "buckets": 3,
            "occupied": 1,
            "tie": 0,
            "cohorts": 1,
        },
        2,
    ),
    (
        {
            "id": "prefix-bucket",
            "epsilon": "1",
            "pairs_per_user": 1,
            "longest": 1,
            "bits": 1,
            "step": 1,
            "buckets": 4,
            "occupied": 1,
            "cohorts": 1,
        },
        2,
    ),
)
HELD: tuple[dict[str, float], ...] = ({}, {"k0": 1.0}, {"k0": -1.0}, {"k1": 1.0}, {"k0": 1.0, "k1": -1.0})
_MOST_TRIES = 20_000


def names(n_keys: int) -> tuple[str, ...]:
    """The keys of a tiny campaign."""
    return tuple(f"k{code}" for code in range(n_keys))


def kernel(named: dict[str, Any], n_keys: int) -> dict[str, Any]:
    """The whole table of a tiny kernel."""
    mechanism = calibrated(named, n_keys)
    domain = Domain(keys=names(n_keys))
    return {
        "n_keys": n_keys,
        "mechanism": named,
        "records": [{"held": held, "answers": answers(mechanism, domain, held)} for held in HELD],
    }


def answers(mechanism: Mechanism, domain: Domain, held: dict[str, float]) -> list[dict[str, Any]]:
    """Every answer that a record may get: words that give it, and its chance."""
    record = domain.encode(held)
    wanted = {
        _told(answer): answer for answer in mechanism.answers() if mechanism.probability(answer, record)
    }
    found: dict[str, Words] = {}
    for attempt in range(_MOST_TRIES):
        words = scripted_words(f"kernel {mechanism.parameters} {attempt}", mechanism.n_words)
        found.setdefault(_told(mechanism.perturb(record, words)), words)
        if len(found) == len(wanted):
            break
    assert set(found) == set(wanted), "an answer is too rare for so few tries"
    return [
        {
            "answer": wanted[told] if isinstance(wanted[told], int) else list(wanted[told]),
            "payload": mechanism.layout.encode(wanted[told]).hex(),
            "words": found[told].data.hex(),
            "chance": str(mechanism.probability(wanted[told], record)),
        }
        for told in sorted(wanted)
    ]


def _told(answer: Any) -> str:
    return f"{answer:06}" if isinstance(answer, int) else bytes(answer).hex()


def scripted_words(label: str, n_words: int) -> Words:
    """Words that the label alone decides: SHA-256 in counter mode."""
    blocks = (hashlib.sha256(f"{label} {block}".encode()).digest() for block in range(n_words // 4 + 1))
    return Words(b"".join(blocks)[: 8 * n_words])
