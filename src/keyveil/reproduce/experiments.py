"""Experiments as data: what a paper's evaluation did, in the TOML files of `papers/`.

A file names populations, figures and claims. A figure sweeps one thing (epsilon, keys, users, the
padding length, the top, the subset's share) for several methods and scores some metrics, or shows
what the methods estimate for single keys. A claim says
which methods the paper puts below which, on which figure; its verdict is computed, not written.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any

from keyveil.errors import CampaignError
from keyveil.methods import find_method
from keyveil.protocols import parse_options

PAPERS = ("pckv", "privkv", "kskv", "ue-sw", "em")
SWEEPS = ("epsilon", "keys", "users", "pairs_per_user", "top", "subset", "key")

# A quick run keeps the shape of every figure: fewer points, fewer repeats, fewer people and keys.
QUICK_POINTS, QUICK_REPEATS = 3, 2
QUICK_SIZE = {"users": 20_000, "keys": 2_000}

# A larger round number of people is this many drawn, and twins of them who report for themselves.
MOST_DRAWN = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a population comes from: a synthetic one with its size, or a file of pairs."""

    name: str
    synthetic: str = ""
    file: str = ""
    size: Mapping[str, int] = field(default_factory=dict)
    pairs_kept: int = 0
    """How many pairs of each user are kept, drawn at random; 0 keeps all."""
    stands_in_for: str = ""

    @property
    def label(self) -> str:
        """How it is called beside a figure."""
        what = self.file or self.synthetic
        return f"{what}, a stand-in for {self.stands_in_for}" if self.stands_in_for else what


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure or table of a paper."""

    id: str
    title: str
    says: str
    population: str
    sweep: str
    values: tuple[float, ...]
    methods: tuple[str, ...]
    metrics: tuple[str, ...]
    epsilon: float = 1.0
    pairs_per_user: int = 1
    top: int = 20
    subset: float = 0.3
    repeats: int = 5
    post: str = "published"
    theory: bool = False
    printed: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The paper's own numbers of the first metric, in 1e-4: by the method that they are of, one a value."""

    def __post_init__(self) -> None:
        if self.sweep not in SWEEPS:
            raise CampaignError(
                f'figure {self.id} sweeps "{self.sweep}"; expected one of {", ".join(SWEEPS)}'
            )
        for method in self.methods:
            find_method(method.split()[0])
        for method, row in self.printed.items():
            if method not in self.methods or len(row) != len(self.values):
                raise CampaignError(
                    f'figure {self.id} has printed numbers of "{method}"; expected a method of its own, with '
                    f"{len(self.values)} numbers, got {len(row)}"
                )

    def quick(self) -> Figure:
        """The same figure with fewer points and repeats."""
        few = [i for i, value in enumerate(self.values) if self.sweep != "users" or value <= MOST_DRAWN / 10]
        kept = few if self.sweep == "key" else few[:: max(1, -(-len(few) // QUICK_POINTS))]
        return replace(
            self,
            values=tuple(self.values[i] for i in kept),
            printed={label: tuple(row[i] for i in kept) for label, row in self.printed.items()},
            repeats=self.repeats if self.theory and self.post == "none" else min(self.repeats, QUICK_REPEATS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a paper says about a figure: on `metric`, every one of `lower` lies below every one of `upper`."""

    text: str
    figure: str
    metric: str
    lower: tuple[str, ...] = ()
    upper: tuple[str, ...] = ()
    only: tuple[float, ...] = ()
    correction: str = ""
    kind: str = "below"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A paper's evaluation."""

    id: str
    title: str
    citation: str
    sources: Mapping[str, Source]
    figures: tuple[Figure, ...]
    claims: tuple[Claim, ...]
    not_rerun: tuple[str, ...] = ()

    def quick(self) -> Paper:
        """The same evaluation, small enough for two minutes."""
        sources = {
            name: replace(
                source,
                size={name: min(count, QUICK_SIZE[name]) for name, count in source.size.items()},
            )
            for name, source in self.sources.items()
        }
        return replace(self, sources=sources, figures=tuple(figure.quick() for figure in self.figures))


def load(paper: str) -> Paper:
    """The experiments of one paper.

    >>> load("em").figures[0].id
    'Table 4, Gaussian'
    """
    text = (resources.files("keyveil.reproduce") / "papers" / f"{paper}.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    sources = {name: _source(name, fields) for name, fields in data["populations"].items()}
    return Paper(
        id=paper,
        title=data["title"],
        citation=data["citation"],
        sources=sources,
        figures=tuple(Figure(**_tuples(figure)) for figure in data["figure"]),
        claims=tuple(Claim(**_tuples(claim)) for claim in data.get("claim", ())),
        not_rerun=tuple(data.get("not_rerun", ())),
    )


def method_of(text: str) -> tuple[str, dict[str, Any]]:
    """The id and the options of a method written `name option=value ...`.

    >>> method_of("privkvm rounds=1")
    ('privkvm', {'rounds': 1})
    """
    name, *settings = text.split()
    return name, parse_options(settings)


def _source(name: str, fields: Mapping[str, Any]) -> Source:
    size = {key: fields[key] for key in ("users", "keys") if key in fields}
    return Source(name=name, size=size, **{key: fields[key] for key in fields if key not in size})


def _tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """TOML's lists as tuples, one level deep."""
    made = {key: tuple(value) if isinstance(value, list) else value for key, value in fields.items()}
    if "printed" in fields:
        made["printed"] = {label: tuple(row) for label, row in fields["printed"].items()}
    return made
