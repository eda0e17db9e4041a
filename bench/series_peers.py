"""What others do for a series, beside ours: their error on the same levels, and what a transcript gives away.

    python bench/series_peers.py [--series 3]

LOLOHA (arXiv 2210.00262) is written here from its paper; `dBitFlipPM`, `L_OSUE` and `L_LH` have the
calibration of multi-freq-ldpy 0.2.5 (`long_freq_est`). That package draws a person's permanent answer anew
at every call, so a series of calls memoises nothing; here the permanent answer is kept, as the papers mean
it. Every device answers every wave; estimates are the unbiased ones. LOLOHA keeps a permanent answer a hash
value, the unary ones a permanent answer a value held.

Error: 10^5 devices, 26 waves, 51 values (50 keys and none), levels as in bench/series.py; a tenth of all
devices draw a new key between two waves where nothing moves. `devices` of them are simulated, a fiftieth,
and squares are divided by fifty: all estimators are means over devices.

Loss: the largest log-ratio of two records' chances of a transcript, over all transcripts and all pairs of
histories (values in each wave), summed exactly as fractions, with e**epsilon = 4 for what is kept and 2 for
a single report, for 2 values and every hash of them to 2. `never` is a person who never changes against
everybody else. In units of epsilon, by the number of waves. Ours: what a person answers in one wave,
whatever the wave.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from keyveil.estimate.series import smooth
from keyveil.simulate import insecure_generator
from series import DEVICES, EPSILON, KEYS, SEED, WAVES, WORLDS, drawn_levels, hear, planned

RESULT = Path(__file__).parent / "results" / "series_peers.csv"
FEWER = 50
CHURN = 0.1
# A report's own epsilon, where a memo is noised again: half of the memo's, as in the papers' experiments.
FIRST = 0.5


# --- error ---


@dataclass(frozen=True)
class Chain:
    """Two channels, one after the other: chance of 1 (or of the truth) from 1 and from 0."""

    p1: float
    q1: float
    p2: float
    q2: float

    def estimate(self, rate: np.ndarray, other: float | None = None) -> np.ndarray:
        """Unbiased shares from rates of support; `other` is how often a stranger's memo supports a value."""
        stranger = self.q1 if other is None else other
        told, lie = (q * self.p2 + (1 - q) * self.q2 for q in (self.p1, stranger))
        return (rate - lie) / (told - lie)


def osue(epsilon: float) -> Chain:
    """L_OSUE: OUE kept, SUE anew."""
    first = FIRST * epsilon
    E, e = math.exp(epsilon), math.exp(first)
    p2 = (1 - e * E) / (e - E - e * E + 1)
    return Chain(0.5, 1 / (E + 1), p2, 1 - p2)


def bit_flip(epsilon: float) -> Chain:
    """Of dBitFlipPM with all bits: SUE kept, and sent as it is."""
    half = math.exp(epsilon / 2)
    return Chain(half / (half + 1), 1 / (half + 1), 1.0, 0.0)


def local_hash(epsilon: float, g: int) -> Chain:
    """L_LH and LOLOHA: randomised response over g hash values kept, and again anew."""
    E, e = math.exp(epsilon), math.exp(FIRST * epsilon)
    p1 = E / (E + g - 1)
    q1 = (1 - p1) / (g - 1)
    p2 = (q1 - e * p1) / (-p1 * e + g * q1 * e - q1 * e - p1 * (g - 1) + q1)
    return Chain(p1, q1, p2, (1 - p2) / (g - 1))


def best_g(epsilon: float) -> int:
    """The number of hash values that OLOLOHA and L_LH(optimal=True) take."""
    a, E = FIRST, math.exp(epsilon)
    root = E**4 - 14 * E**2 - 12 * E ** (2 * (a + 1)) + 12 * E ** (a + 1) + 12 * E ** (a + 3) + 1
    return max(2, round((math.sqrt(root) - E**2 + 6 * E - 6 * E**a + 1) / (6 * (E - E**a))))


def holders(levels: np.ndarray, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Who holds what, wave by wave: as few change as the levels and the churn ask for."""
    n, share = DEVICES // FEWER, np.concatenate([levels, 1 - levels.sum(axis=1, keepdims=True)], axis=1)
    value = rng.choice(KEYS + 1, n, p=np.maximum(share[0], 0) / np.maximum(share[0], 0).sum())
    yield value
    for before, now in itertools.pairwise(np.maximum(share, 0)):
        value = value.copy()
        leaves = rng.random(n) < np.maximum(0, 1 - now / np.maximum(before, 1e-12))[value]
        gain = np.maximum(now - before, 0)
        if gain.sum() > 0:
            value[leaves] = rng.choice(KEYS + 1, int(leaves.sum()), p=gain / gain.sum())
        anew = rng.random(n) < CHURN
        value[anew] = rng.choice(KEYS + 1, int(anew.sum()), p=now / now.sum())
        yield value


def unary(chain: Chain, levels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Estimates of every wave: a kept vector a person and value held, noised again."""
    n, found = DEVICES // FEWER, []
    kept: dict[int, np.ndarray] = {}
    for value in holders(levels, rng):
        support = np.zeros(KEYS)
        for held in np.unique(value):
            who = np.flatnonzero(value == held)
            if int(held) not in kept:
                memo = rng.random((n, KEYS)) < chain.q1
                if held < KEYS:
                    memo[:, held] = rng.random(n) < chain.p1
                kept[int(held)] = memo
            said = rng.random((who.size, KEYS)) < np.where(kept[int(held)][who], chain.p2, chain.q2)
            support += said.sum(axis=0)
        found.append(chain.estimate(support / n))
    return np.array(found)


def hashed(
    chain: Chain, g: int, levels: np.ndarray, rng: np.random.Generator, *, per_value: bool
) -> np.ndarray:
    """The same over hash values: one memo a person and hash value, or (L_LH) a value held."""
    n, found = DEVICES // FEWER, []
    table = rng.integers(0, g, (n, KEYS + 1))
    rows, memos = np.arange(n), KEYS + 1 if per_value else g
    own = table if per_value else np.tile(np.arange(g), (n, 1))
    kept = _response(own[:, :memos], chain.p1, g, rng)
    for value in holders(levels, rng):
        memo = kept[rows, value if per_value else table[rows, value]]
        said = _response(memo, chain.p2, g, rng)
        found.append(chain.estimate((table[:, :KEYS] == said[:, None]).mean(axis=0), 1 / g))
    return np.array(found)


def _response(truth: np.ndarray, p: float, g: int, rng: np.random.Generator) -> np.ndarray:
    lie = (truth + rng.integers(1, g, truth.shape)) % g
    return np.where(rng.random(truth.shape) < p, truth, lie)


# --- loss ---

Law = dict[tuple[object, ...], Fraction]
E_FULL, E_HALF = Fraction(4), Fraction(2)
"""e**epsilon of what is kept, and of its half."""
RESPONSE = Fraction(7, 9)
"""How often the second noise of L_OSUE, L_LH and LOLOHA (two hash values) keeps a bit, for these two."""


def transcripts(history: tuple[int, ...], kept: Callable[[int], Law], again: Callable[[object], Law]) -> Law:
    """The law of all reports: one kept answer a value, noised again at every wave."""
    values = sorted(set(history))
    law: Law = {}
    for memos in itertools.product(*(kept(value).items() for value in values)):
        chance = math.prod((each[1] for each in memos), start=Fraction(1))
        memo = dict(zip(values, (each[0][0] for each in memos), strict=True))
        for said in itertools.product(*(again(memo[value]).items() for value in history)):
            heard = tuple(each[0][0] for each in said)
            own = chance * math.prod((each[1] for each in said), start=Fraction(1))
            law[heard] = law.get(heard, Fraction(0)) + own
    return law


def response(g: int, e: Fraction) -> Callable[[object], Law]:
    """Randomised response over g symbols."""
    return lambda truth: {(y,): (e if y == truth else 1) / (e + g - 1) for y in range(g)}


def bits(d: int, p: Fraction, q: Fraction) -> Callable[[object], Law]:
    """A bit a symbol: 1 with chance p for 1 and with chance q for 0."""

    def law(truth: object) -> Law:
        held = truth if isinstance(truth, tuple) else tuple(int(k == truth) for k in range(d))
        found: Law = {}
        for said in itertools.product((0, 1), repeat=d):
            chances = ((p if x else q) if y else 1 - (p if x else q) for x, y in zip(held, said, strict=True))
            found[(said,)] = math.prod(chances, start=Fraction(1))
        return found

    return law


def same(memo: object) -> Law:
    """What is kept is sent."""
    return {(memo,): Fraction(1)}


def worst(laws: list[Law], first: list[Law] | None = None) -> float:
    """The largest log-ratio of chances, between two of `laws`, or between one of `first` and one of them."""
    most = Fraction(1)
    for left, right in itertools.product(first or laws, laws):
        for heard in left.keys() | right.keys():
            a, b = left.get(heard, Fraction(0)), right.get(heard, Fraction(0))
            if bool(a) != bool(b):
                return math.inf
            if a and b:
                most = max(most, a / b, b / a)
    return math.log(most)


def losses(scheme: str, waves: int, d: int = 2) -> tuple[float, float]:
    """Over all pairs of histories, and of one who never changes against everybody; in units of epsilon."""
    histories = list(itertools.product(range(d), repeat=waves))
    never = [place for place, history in enumerate(histories) if len(set(history)) == 1]
    most, of_never = 0.0, 0.0
    for laws in _laws(scheme, histories, waves, d):
        most = max(most, worst(laws))
        of_never = max(of_never, worst(laws, [laws[place] for place in never]))
    epsilon = math.log(E_FULL)
    return most / epsilon, of_never / epsilon


def _laws(scheme: str, histories: list[tuple[int, ...]], waves: int, d: int) -> Iterator[list[Law]]:
    """The laws of all histories; one list for each public hash."""
    if scheme == "keyveil, answers = 1":
        # The wave is drawn before anything is read, and is public here: the worst case.
        for wave in range(waves):
            yield [response(d, E_FULL)(history[wave]) for history in histories]
    elif scheme == "dBitFlipPM":
        # exp(epsilon / 2) to 1 in each bit, both of which a change of value turns.
        p = E_HALF / (E_HALF + 1)
        yield [transcripts(history, bits(d, p, 1 - p), same) for history in histories]
    elif scheme == "L_OSUE":
        p2 = RESPONSE
        kept, again = bits(d, Fraction(1, 2), 1 / (E_FULL + 1)), bits(d, p2, 1 - p2)
        yield [transcripts(history, kept, again) for history in histories]
    else:
        g = 2
        for table in itertools.product(range(g), repeat=d):
            keep, again = response(g, E_FULL), response(g, RESPONSE / (1 - RESPONSE))
            if scheme == "LOLOHA":
                hashed_histories = [tuple(table[value] for value in history) for history in histories]
                yield [transcripts(history, keep, again) for history in hashed_histories]
            else:
                own = lambda value, table=table, keep=keep: keep(table[value])  # noqa: E731
                yield [transcripts(history, own, again) for history in histories]


def errors(series: int) -> dict[str, dict[str, float]]:
    """Mean squared error by scheme and world."""
    g = best_g(EPSILON)
    schemes: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
        "dBitFlipPM": lambda levels, rng: unary(bit_flip(EPSILON), levels, rng),
        "L_OSUE": lambda levels, rng: unary(osue(EPSILON), levels, rng),
        "L_LH": lambda levels, rng: hashed(local_hash(EPSILON, g), g, levels, rng, per_value=True),
        "LOLOHA": lambda levels, rng: hashed(local_hash(EPSILON, g), g, levels, rng, per_value=False),
    }
    mechanism = planned(EPSILON, DEVICES // WAVES)
    found: dict[str, dict[str, float]] = {}
    for place, name in enumerate(("still", "drifting", "jumping", "seasonal")):
        squares: dict[str, list[float]] = {}
        for number in range(series):
            rng = insecure_generator(SEED, 400 + place, number)
            levels = drawn_levels(WORLDS[name], rng)
            seen = hear(WORLDS[name], levels, mechanism, rng)
            ours = smooth(seen, period=WORLDS[name].period).estimate
            raw = "keyveil, answers = 1"
            squares.setdefault(raw, []).append(float(np.nanmean((seen.estimate - levels) ** 2)))
            squares.setdefault(f"{raw}, smoothed", []).append(float(np.mean((ours - levels) ** 2)))
            for scheme, play in schemes.items():
                error = float(np.mean((play(levels, rng) - levels) ** 2)) / FEWER
                squares.setdefault(scheme, []).append(error)
        for scheme, values in squares.items():
            found.setdefault(scheme, {})[name] = float(np.mean(values))
    return found


def main() -> None:
    """Print, and write what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--series", type=int, default=3)
    asked, rows = parser.parse_args(), []
    for scheme, by_world in errors(asked.series).items():
        kernel = scheme.removesuffix(", smoothed")
        row = {"scheme": scheme} | {f"mse_{world}": f"{error:.3g}" for world, error in by_world.items()}
        for waves in (1, 2, 3, 4):
            most, of_never = losses(kernel, waves)
            row |= {f"loss_{waves}": f"{most:.3f}", f"loss_never_{waves}": f"{of_never:.3f}"}
        rows.append(row)
        print(*row.values(), sep="\t", flush=True)
    with RESULT.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
