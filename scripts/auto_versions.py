"""What each version of `auto` asks and finds, as a vector: what is opened goes on digit for digit.

    python scripts/auto_versions.py     writes tests/protocols/auto_versions.json: what stands there stays

Two crowds of the zoo, small enough for seconds, answer every version: of each round its purpose and its pin,
of each outcome a few digits. A version is added by running it again; `git diff` must show added lines alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keyveil.protocols import Outcome, Promise, Round, build_protocol
from keyveil.protocols.auto import TUNINGS
from keyveil.simulate import Population, insecure_generator, play
from keyveil.simulate.zoo import make

PATH = Path(__file__).parents[1] / "tests" / "protocols" / "auto_versions.json"
# The versions of campaigns that promise something central.
PROMISING = (4, 6)
SEED = 4


class Noted:
    """A protocol, and the rounds of its course."""

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self.rounds: list[Round] = []

    def start(self, campaign: str) -> Round:
        """The first round, noted."""
        return self._noted(self._protocol.start(campaign))

    def next(self, history: Any) -> Round | Outcome:
        """What follows, noted."""
        step = self._protocol.next(history)
        return self._noted(step) if isinstance(step, Round) else step

    def _noted(self, step: Round) -> Round:
        self.rounds.append(step)
        return step


def crowds() -> Iterator[tuple[str, Population, float]]:
    """A name, people, and the budget that they are asked at."""
    yield "long", make("long", users=4000, keys=600, length=8.0, tail=0.8, seed=SEED), 4.0
    yield "dense", make("dense", users=4000, keys=15, seed=SEED), 4.0


def course(people: Population, epsilon: float, version: int) -> dict[str, Any]:
    """One run: its rounds, and the first digits of what came of it."""
    promise = Promise(2.0, 1e-6, people.n_users, 1.0) if version in PROMISING else None
    noted = Noted(
        build_protocol(
            "auto",
            epsilon,
            n_keys=people.n_keys,
            pairs_per_user=people.typical_size(),
            users=people.n_users,
            version=f"auto/{version}",
            promise=promise,
        )
    )
    outcome = play(noted, people, insecure_generator(SEED), campaign="ab" * 32)
    low, high = outcome.raw.frequency_interval()
    return {
        "rounds": [[asked.purpose, asked.pin] for asked in noted.rounds],
        "frequency": _digits(outcome.published.frequency),
        "mean": _digits(outcome.published.mean),
        "unbiased": _digits(outcome.raw.frequency),
        "length": _digits(high - low),
    }


def _digits(numbers: Any) -> list[float]:
    """Of the first keys, and of all together."""
    return [float(f"{number:.9g}") for number in (*numbers[:4], numbers.sum())]


def versions() -> dict[str, dict[str, Any]]:
    """All of them, by crowd and version."""
    return {
        name: {f"auto/{version}": course(people, epsilon, version) for version in sorted(TUNINGS)}
        for name, people, epsilon in crowds()
    }


if __name__ == "__main__":
    PATH.write_text(json.dumps(versions(), indent=1) + "\n", encoding="utf-8")
