"""Cells: one method at one point of one figure, simulated, and kept on disk.

A cell's key is a hash of everything that decides its numbers: population, method, parameters, seed
and the package's own source. What is on disk under that key is the result; a file that cannot be
read is made again. Files appear whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import keyveil
from keyveil.errors import PairsError
from keyveil.mechanisms import SampledIndex, SignedResponse, SignedUnary
from keyveil.protocols import OneRound, build_protocol
from keyveil.reproduce.experiments import MOST_DRAWN, Figure, Source, method_of
from keyveil.simulate import Population, insecure_generator, play, run
from keyveil.simulate.datasets import SYNTHETIC
from keyveil.simulate.pairs import read_pairs

SEED = 2026


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What one cell asks for."""

    source: Source
    method: str
    epsilon: float
    pairs_per_user: int
    top: int
    subset: float
    repeats: int
    post: str
    theory: bool
    codes: tuple[int, ...] = ()
    """Keys whose own estimates are wanted, instead of errors over all."""

    def key(self) -> str:
        """A hash of the point, the seed and the code."""
        said = json.dumps([asdict(self), SEED, code_version()], sort_keys=True, default=dict)
        return hashlib.sha256(said.encode()).hexdigest()[:24]


def solve_figure(
    figure: Figure, source: Source, cache_folder: Path, data: Path | None
) -> Iterator[tuple[tuple[str, float], dict[str, Any]]]:
    """Every cell of a figure with its place: method and swept value."""
    if figure.sweep == "key":
        yield from _key_by_key(figure, source, cache_folder, data)
        return
    for method in figure.methods:
        for value in figure.values:
            yield (method, value), solve(point_of(figure, source, method, value), cache_folder, data)


def _key_by_key(
    figure: Figure, source: Source, cache_folder: Path, data: Path | None
) -> Iterator[tuple[tuple[str, float], dict[str, Any]]]:
    """One cell a method holds all keys; here it is dealt out. Keys are counted from 1, as in the papers."""
    codes = [int(value) - 1 for value in figure.values]
    for method in figure.methods:
        point = replace(point_of(figure, source, method, 0), codes=tuple(codes))
        solved = solve(point, cache_folder, data)
        for place, value in enumerate(figure.values):
            shown = {name: of_keys[place] for name, of_keys in solved.items()}
            yield (method, value), {"mechanism": method, "epsilon": figure.epsilon, **shown}


def point_of(figure: Figure, source: Source, method: str, value: float) -> Point:
    """What the cell of one method at one swept value asks for."""
    swept: dict[str, Any] = {
        name: getattr(figure, name) for name in ("epsilon", "pairs_per_user", "top", "subset")
    }
    size = dict(source.size)
    if figure.sweep in ("keys", "users"):
        size[figure.sweep] = int(value)
    elif figure.sweep != "key":
        swept[figure.sweep] = value if figure.sweep in ("epsilon", "subset") else int(value)
    placed = Source(**{**asdict(source), "size": size})
    return Point(
        source=placed,
        method=method,
        repeats=figure.repeats,
        post=figure.post,
        theory=figure.theory,
        **swept,
    )


def solve(point: Point, cache_folder: Path, data: Path | None) -> dict[str, Any]:
    """The cell's numbers, from disk or by simulation."""
    path = cache_folder / f"{point.key()}.parquet"
    kept = _read(path)
    if kept is not None:
        return kept
    people, twins = population(point.source, data)
    name, options = method_of(point.method)
    if point.codes:
        estimates: dict[str, Any] = _estimates(point, people)
        _write(path, estimates)
        return estimates
    cell = run(
        people,
        [name],
        [point.epsilon],
        pairs_per_user=point.pairs_per_user,
        repeats=point.repeats,
        seed=SEED,
        top=point.top,
        post=point.post,
        options=options,
        subset=point.subset,
        twins=twins,
    )[0]
    fields = {**cell.to_fields(), "mechanism": point.method, **_theory(point, people)}
    _write(path, fields)
    return fields


def _estimates(point: Point, people: Population) -> dict[str, list[float]]:
    """What is published about single keys, averaged over the repeats, with its standard error."""
    name, options = method_of(point.method)
    l = point.pairs_per_user
    protocol = build_protocol(name, point.epsilon, n_keys=people.n_keys, pairs_per_user=l, **options)
    codes = list(point.codes)
    runs = np.array(
        [
            np.nan_to_num(play(protocol, people, insecure_generator(SEED, repeat)).published.mean[codes])
            for repeat in range(point.repeats)
        ]
    )
    spread = runs.std(axis=0, ddof=1) if point.repeats > 1 else np.zeros(len(codes))
    return {
        "mean": runs.mean(axis=0).tolist(),
        "mean_se": (spread / math.sqrt(point.repeats)).tolist(),
        "mean_truth": people.mean()[codes].tolist(),
    }


@lru_cache(maxsize=2)
def _synthetic(name: str, size: tuple[tuple[str, int], ...]) -> Population:
    return SYNTHETIC[name](**dict(size))


@lru_cache(maxsize=4)
def _file(path: Path, pairs_kept: int) -> Population:
    people = read_pairs(path)
    return people.keep_pairs(pairs_kept, insecure_generator(SEED)) if pairs_kept else people


def population(source: Source, data: Path | None) -> tuple[Population, int]:
    """The people of a source and how many twins report for each; a missing file says what to supply."""
    if source.synthetic:
        users = source.size["users"]
        twins = 1 if users % MOST_DRAWN else users // MOST_DRAWN
        size = {**source.size, "users": users // twins}
        return _synthetic(source.synthetic, tuple(sorted(size.items()))), twins
    if data is None or not (data / source.file).is_file():
        raise PairsError(f"needs {source.file}; pass --data FOLDER with that file of pairs")
    return _file(data / source.file, source.pairs_kept), 1


def _theory(point: Point, people: Population) -> dict[str, float]:
    """Expected squared errors without clipping, from the mechanism's own variance; first order for means."""
    name, options = method_of(point.method)
    if not point.theory:
        return {}
    protocol = build_protocol(
        name, point.epsilon, n_keys=people.n_keys, pairs_per_user=point.pairs_per_user, **options
    )
    mechanism = protocol.start("theory").mechanism
    # Other protocols over the same reports estimate something else, or with a bias.
    if type(protocol) is not OneRound or not isinstance(
        mechanism, (SignedUnary, SignedResponse, SampledIndex)
    ):
        return {}
    truth, mean = people.frequency(), people.mean()
    asked = mechanism.expected_asked(people.n_users)
    held = truth > 0
    variance = mechanism.variance(truth, asked, people.n_users)
    spread = mechanism.moments.covariance(truth[held], mean[held], asked)
    of_means = spread.of_mean(truth[held], mean[held])
    channel = mechanism.channel
    a, b, slope = float(channel.a), float(channel.b), float(channel.a * (2 * channel.p - 1))
    return {
        "frequency_mse_theory": float(np.mean(variance)),
        "mean_mse_theory": float(np.mean(of_means)),
        "mean_g": b / slope**2,
        "mean_h": b * (1 - b) / (a - b) ** 2,
    }


@cache
def code_version() -> str:
    """A hash of the package's source: results of other code are not taken for this one's."""
    root = Path(keyveil.__file__).parent
    digest = hashlib.sha256()
    for folder in ("numerics", "domain", "mechanisms", "tally", "estimate", "protocols", "simulate"):
        for path in sorted((root / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _read(path: Path) -> dict[str, Any] | None:
    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except (FileNotFoundError, pa.ArrowInvalid, OSError):
        return None
    return rows[0] if len(rows) == 1 else None


def _write(path: Path, fields: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_suffix(f".{os.getpid()}.half")
    pyarrow.parquet.write_table(pa.Table.from_pylist([fields]), half)
    half.replace(path)
