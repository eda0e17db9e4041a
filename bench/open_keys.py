"""Searching for keys that nobody listed: what is found, against the prefix tree that others ship.

    python bench/open_keys.py [--runs 3] [--only letters,peers,sets,names,nothing,decode] [--users 1000000]

`letters`   words of six letters, Zipf 1.1, one a user: F1 of the 16 most popular, against PEM [Wang, Li, Jha]
            as published: each group tells one prefix by OLH, all users search, 16 candidates are kept
`peers`     the same by pure-ldp's PEM, SFP and TreeHist, in the environment that peers.sh makes
`sets`      the same words, five different ones a user; PEM asks each user for one of them, drawn evenly
`names`     five different names a user, of 2,000 made-up package names, Zipf 1 (no list of real ones is at
            hand): recall of the 50 most popular, F1 of the first 16, coverage, time and memory
`nothing`   people who hold nothing: in which share of 200 campaigns anything was found
`decode`    a search for names from the bytes of answers, which are read, counted and decoded round by round:
            seconds, and memory of the process, people and answers included; to be run alone

A code is learnt on other made-up words than are held. PEM is drawn with ideal hashing, which favours
it. Rows that are measured replace those of the same name, the others stay.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import resource
import subprocess
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from keyveil.domain import TextCode
from keyveil.domain.learning import learn_code
from keyveil.mechanisms import Bucket, PrefixBucket
from keyveil.protocols import Outcome
from keyveil.protocols.unknown import OpenKeys
from keyveil.rounds import Round
from keyveil.simulate import Population, insecure_generator
from keyveil.simulate.laws import draw_prefixes, owned_buckets, reported_buckets
from keyveil.simulate.unknown import named, search
from keyveil.tally import Tally
from keyveil.tally.count import count
from keyveil.tally.hashing import signed_buckets

RESULTS = Path(__file__).parent / "results" / "open_keys.csv"
COLUMNS = (
    *("what", "method", "users", "epsilon", "pairs", "runs", "f1_top16", "recall_top50", "found", "false"),
    *("runs_with_false", "coverage", "detectable", "seconds", "megabytes"),
)
TOP, SEED = 16, 26
Row = dict[str, str]

ORGS = (
    *("acme", "blue", "north", "river", "tiny", "mega", "pixel", "stone", "cloud", "delta", "nova"),
    *("orbit", "lumen", "quark", "terra", "vertex", "willow", "zebra"),
)
PARTS = (
    *("mail", "map", "chat", "photo", "news", "game", "bank", "shop", "music", "video", "note", "cam"),
    *("fit", "food", "ride", "learn", "kids", "work", "play", "tool", "clock", "file", "net", "web"),
    *("smart", "pro", "lite", "plus", "hub", "box", "kit", "lab", "now", "one", "pay", "zen", "sky"),
)


def package_names(count: int, seed: int) -> list[str]:
    """So many different names such as com.acmeapps.mailpro7, in random order."""
    draw, made = random.Random(seed), dict[str, None]()
    while len(made) < count:
        owner = draw.choice(ORGS) + draw.choice(("", "", "soft", "apps", "inc", "dev"))
        tail = (
            draw.choice(PARTS)
            + draw.choice(("", "", *PARTS))
            + draw.choice(("", "", str(draw.randint(1, 99))))
        )
        made[f"{draw.choice(('com', 'com', 'org', 'net', 'io', 'de'))}.{owner}.{tail}"] = None
    return list(made)


def words(count: int, seed: int) -> list[str]:
    """So many different words of six letters."""
    draw, made = random.Random(seed), dict[str, None]()
    while len(made) < count:
        made["".join(draw.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(6))] = None
    return list(made)


def people(names: Sequence[str], users: int, each: int, skew: float, rng: np.random.Generator) -> Population:
    """Everybody holds so many different names, drawn by popularity one after the other."""
    chances = np.cumsum(1 / np.arange(1, len(names) + 1) ** skew)
    codes = np.empty((users, each), dtype=np.int64)
    for place in range(each):
        drawn = np.arange(users)
        # Who holds a name already draws again.
        while drawn.size:
            codes[drawn, place] = np.searchsorted(chances, rng.random(drawn.size) * chances[-1], side="right")
            held = (codes[drawn, :place] == codes[drawn, place, None]).any(axis=1)
            drawn = drawn[held]
    return Population.from_pairs(
        np.repeat(np.arange(users), each),
        codes.ravel(),
        rng.uniform(-1, 1, codes.size),
        n_users=users,
        names=list(names),
    )


def f1(found: Sequence[str], true: Sequence[str]) -> float:
    """Of two lists of which one is the truth."""
    return 2 * len(set(found) & set(true)) / (len(found) + len(true))


# --- PEM ---


def pem(population: Population, epsilon: float, rng: np.random.Generator, *, step: int = 16) -> list[str]:
    """[PEM] algorithm 1: five bits a letter, equal groups, 2^step continuations of 16 prefixes a group."""
    letters = [
        sum((ord(letter) - 97) << 5 * (5 - at) for at, letter in enumerate(n)) for n in population.names
    ]
    total, start = 30, math.ceil(math.log2(TOP))
    ends = [*range(start + step, total, step), total]
    E = math.exp(epsilon)
    g = round(E + 1)
    keep = E / (E + g - 1)
    group = rng.integers(0, len(ends), population.n_users)
    # One key a user, evenly drawn from what is held.
    places = population.offsets[:-1] + (rng.random(population.n_users) * population.sizes).astype(np.int64)
    said = np.array(letters)[population.codes[places]]
    prefixes, before = np.arange(1 << start), start
    for level, end in enumerate(ends):
        asked = (prefixes[:, None] << (end - before)) + np.arange(1 << (end - before))
        asked = asked.ravel()
        heard = said[group == level] >> (total - end)
        held, counts = np.unique(heard, return_counts=True)
        own = np.zeros(asked.size, dtype=np.int64)
        there = np.isin(held, asked)
        own[np.searchsorted(asked, held[there])] = counts[there]
        support = rng.binomial(own, keep) + rng.binomial(heard.size - own, 1 / g)
        prefixes, before = np.sort(asked[np.argsort(-support, kind="stable")[:TOP]]), end
    name_of = dict(zip(letters, population.names, strict=True))
    return [name_of.get(int(prefix), f"no word {prefix}") for prefix in prefixes]


# --- rows ---


def row_of(
    what: str, method: str, population: Population, epsilon: float, runs: int, **numbers: float
) -> Row:
    """A row of the table."""
    pairs = round(population.codes.size / population.n_users)
    said = {name: f"{number:.4g}" for name, number in numbers.items()}
    return {
        **dict.fromkeys(COLUMNS, ""),
        "what": what,
        "method": method,
        "users": str(population.n_users),
        "epsilon": f"{epsilon:g}",
        "pairs": str(pairs),
        "runs": str(runs),
        **said,
    }


def open_rows(
    what: str, population: Population, epsilon: float, code: TextCode, pairs: int, runs: int
) -> Row:
    """Our own search, several times on one population."""
    protocol = OpenKeys(
        epsilon=Fraction(str(epsilon)), code=code, pairs_per_user=pairs, users=population.n_users
    )
    frequency = population.frequency()
    order = np.argsort(-frequency, kind="stable")
    # A name that is longer than its bits is found as its first letters.
    shown = [code.name(code.number(name)) for name in population.names]
    top = [shown[place] for place in order[:50]]
    truth, known = dict(zip(shown, frequency, strict=True)), set(shown)
    scores, hits, started = [], [], time.perf_counter()
    for run in range(runs):
        outcome = search(protocol, protocol, population, insecure_generator(SEED, run))
        assert outcome.found is not None
        names, raw = outcome.found.keys[:-1], outcome.raw
        ranked = [names[place] for place in np.argsort(-raw.frequency[:-1], kind="stable")]
        low, high = raw.frequency_interval()
        hits += [
            low[place] <= truth[name] <= high[place] for place, name in enumerate(names) if name in truth
        ]
        scores.append(
            {
                "f1_top16": f1(ranked[:TOP], top[:TOP]),
                "recall_top50": len(set(names) & set(top)) / len(top),
                "found": len(names),
                "false": len(set(names) - known),
                "runs_with_false": not known.issuperset(names),
                "detectable": outcome.found.detectable,
            }
        )
    mean = {name: float(np.mean([score[name] for score in scores])) for name in scores[0]}
    return row_of(
        what,
        "open",
        population,
        epsilon,
        runs,
        **mean,
        coverage=float(np.mean(hits)) if hits else math.nan,
        seconds=(time.perf_counter() - started) / runs,
        megabytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def against_pem(what: str, users: int, each: int, runs: int) -> list[Row]:
    """Words of six letters, both methods at two budgets."""
    rows, held = [], words(2000, SEED)
    population = people(held, users, each, 1.1, insecure_generator(SEED, each))
    code = learn_code(words(5000, SEED + 1), longest=36, tables=1)
    top = [held[place] for place in np.argsort(-population.frequency(), kind="stable")[:TOP]]
    for epsilon in (2.0, 4.0):
        started = time.perf_counter()
        found = [pem(population, epsilon, insecure_generator(SEED, 7, run)) for run in range(runs)]
        seconds = (time.perf_counter() - started) / runs
        score = float(np.mean([f1(names, top) for names in found]))
        rows.append(row_of(what, "pem", population, epsilon, runs, f1_top16=score, seconds=seconds))
        rows.append(open_rows(what, population, epsilon, code, each, runs))
    return rows


def peers(users: int, runs: int) -> list[Row]:
    """The words of `letters`, by pure-ldp, once: both budgets beside each other."""
    del runs
    held = words(2000, SEED)
    population = people(held, min(users, 50_000), 1, 1.1, insecure_generator(SEED, 1))
    top = [held[place] for place in np.argsort(-population.frequency(), kind="stable")[:TOP]]
    said = "\n".join(held[code] for code in population.codes)
    here = Path(__file__).parent
    command = [str(here.parent / ".bench-venv" / "bin" / "python"), str(here / "peers_search.py")]

    def found(epsilon: float) -> list[Row]:
        asked = [*command, str(epsilon), str(TOP)]
        done = subprocess.run(asked, input=said, capture_output=True, text=True, check=True)
        return [
            row_of(
                "peers",
                each["method"],
                population,
                epsilon,
                1,
                f1_top16=f1(each["found"], top),
                seconds=each["seconds"],
            )
            for each in map(json.loads, done.stdout.splitlines())
        ]

    with ThreadPoolExecutor(2) as pool:
        return [row for rows in pool.map(found, (2.0, 4.0)) for row in rows]


def letters(users: int, runs: int) -> list[Row]:
    """One word a user."""
    return against_pem("letters", min(users, 50_000), 1, runs)


def sets(users: int, runs: int) -> list[Row]:
    """Five words a user."""
    return against_pem("sets", min(users, 50_000), 5, runs)


def names(users: int, runs: int) -> list[Row]:
    """Package names, five a user."""
    held, code = package_names(2000, SEED), learn_code(package_names(5000, SEED + 1), longest=96)
    rows = []
    for n, epsilon in ((min(users, 100_000), 4.0), (min(users, 100_000), 8.0), (users, 4.0)):
        population = people(held, n, 5, 1.0, insecure_generator(SEED, n))
        rows.append(open_rows("names", population, epsilon, code, 5, runs))
    return rows


def nothing(users: int, runs: int) -> list[Row]:
    """200 campaigns with nothing to find."""
    del users, runs
    code = learn_code(words(5000, SEED + 1), longest=16, tables=1)
    nobody = Population.from_pairs(
        *(np.zeros(0, dtype=kind) for kind in (np.int64, np.int64, np.float64)),
        n_users=2000,
        names=["nothing"],
    )
    return [open_rows("nothing", nobody, 2.0, code, 1, 200)]


def decode(users: int, runs: int) -> list[Row]:
    """From the answers' bytes to the release."""
    del runs
    held, code = package_names(2000, SEED), learn_code(package_names(5000, SEED + 1), longest=96)
    rng = insecure_generator(SEED, 99)
    population = people(held, users, 5, 1.0, rng)
    protocol = OpenKeys(epsilon=Fraction(4), code=code, pairs_per_user=5, users=users)
    numbers = [code.number(name) for name in held]
    shown = [code.name(number) or "" for number in numbers]
    places, seconds, history = rng.random(users), 0.0, list[tuple[Round, Tally]]()
    step: Round | Outcome = protocol.start("bench")
    while isinstance(step, Round):
        low, high = (float(end) for end in step.group)
        part = population.take(np.flatnonzero((low <= places) & (places < high)))
        if isinstance(step.mechanism, PrefixBucket):
            cells = draw_prefixes(step.mechanism, part, numbers, rng)["support"]
            symbols = rng.permutation(np.repeat(np.arange(cells.size), cells))
        else:
            assert isinstance(step.mechanism, Bucket)
            part = named(part, shown, step.names or ())
            everybody, cohorts = (
                np.arange(part.n_users),
                rng.integers(0, step.mechanism.cohorts, part.n_users),
            )
            hashed = partial(signed_buckets, step.mechanism)
            owned = owned_buckets(step.mechanism, part, everybody, cohorts, rng, hashed)
            symbols = cohorts * step.mechanism.buckets + reported_buckets(step.mechanism, owned, rng)
        answers = [step.mechanism.layout.encode(symbol) for symbol in symbols.tolist()]
        started = time.perf_counter()
        history.append((step, count(step.mechanism, answers, question=step.question)))
        step = protocol.next(history)
        seconds += time.perf_counter() - started
    assert step.found is not None
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found = len(step.found.keys) - 1
    return [row_of("decode", "open", population, 4.0, 1, found=found, seconds=seconds, megabytes=megabytes)]


WHAT: dict[str, Callable[[int, int], list[Row]]] = {
    "letters": letters,
    "peers": peers,
    "sets": sets,
    "names": names,
    "nothing": nothing,
    "decode": decode,
}


def main() -> None:
    """Measure, and put the rows into the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--users", type=int, default=1_000_000)
    parser.add_argument("--only", default=",".join(WHAT))
    given = parser.parse_args()
    chosen = given.only.split(",")
    rows: list[Row] = []
    for what in chosen:
        made = WHAT[what](given.users, given.runs)
        rows += made
        for row in made:
            print(" ".join(f"{name}={cell}" for name, cell in row.items() if cell))
    old = list(csv.DictReader(RESULTS.open(encoding="utf-8"))) if RESULTS.exists() else []
    rows += [row for row in old if row["what"] not in chosen]
    order = list(WHAT)
    rows.sort(key=lambda row: order.index(row["what"]))
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
