"""Random campaigns with clear segments, and reports to them, whose labels are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keyveil import Campaign
from keyveil.batch import InsecureSeededStream, Records, perturb_many
from keyveil.domain import Record
from keyveil.mechanisms import REGISTRY
from keyveil.methods import METHODS
from keyveil.report import REPORT_ID_BYTES
from keyveil.rounds import Round
from keyveil.segments import Segments

IDS = sorted(name for name in METHODS if not METHODS[name].has_several_rounds and name in REGISTRY)


def random_segments(rng: np.random.Generator) -> Segments:
    """One to four attributes of a few values; once in a while of 64."""
    attributes = tuple(
        (f"attribute_{place}", tuple(f"value {n}" for n in range(int(rng.choice([1, 2, 3, 5, 64])))))
        for place in range(int(rng.integers(1, 5)))
    )
    return Segments(told="clear", attributes=attributes)


def random_campaign(seed: int, **changes: object) -> Campaign:
    """Any method of one round, with any number of keys, with or without a dither, with issued ids or own."""
    rng = np.random.default_rng(seed)
    mechanism = IDS[seed % len(IDS)]
    said = {
        "name": f"random {seed}",
        "epsilon": float(rng.choice([0.5, 1, 4])),
        "keys": [f"key {n}" for n in range(int(rng.integers(2, 40)))],
        "value_range": (0, 1),
        "pairs_per_user": int(rng.integers(1, 3)),
        "mechanism": mechanism,
        "segments": random_segments(rng),
    }
    if mechanism == "bucket" and rng.random() < 0.5:
        said["cohorts"] = 16
    if REGISTRY[mechanism].follows_ids and rng.random() < 0.5:
        said["ids"] = "issued"
    if rng.random() < 0.3:
        said["dither"] = 1
    return Campaign(**{**said, **changes})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Crowd:
    """Reports, and the label bytes of each."""

    reports: list[bytes]
    labels: NDArray[np.uint8]

    def of(self, attribute: int, label: int) -> list[bytes]:
        """The reports of a segment."""
        return [self.reports[place] for place in np.flatnonzero(self.labels[:, attribute] == label)]


def crowd_of(campaign: Campaign, n: int, seed: int, asked: Round | None = None) -> Crowd:
    """Reports of made-up users to a round, the only one if none is named."""
    rng = np.random.default_rng(seed)
    asked = campaign.only_round() if asked is None else asked
    n_keys = asked.mechanism.n_keys
    held = [
        Record.of(
            {int(k): float(rng.uniform(-1, 1)) for k in rng.choice(n_keys, min(2, n_keys), replace=False)}
        )
        for _ in range(n)
    ]
    labels = np.stack([rng.integers(0, size + 1, n) for size in asked.labels], axis=1).astype(np.uint8)
    rows = perturb_many(
        asked.mechanism,
        Records.of(held),
        tag=campaign.tag,
        round=asked.number,
        stream=InsecureSeededStream(seed),
        ids=rng.integers(0, 256, (n, REPORT_ID_BYTES), dtype=np.uint8),
        is_dithered=asked.is_dithered,
        labels=labels,
    )
    return Crowd([row.tobytes() for row in rows], labels)
