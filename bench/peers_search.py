"""What pure-ldp finds of words that nobody listed, in its own environment; `open_keys.py` runs this.

.bench-venv/bin/python bench/peers_search.py EPSILON K < words

A word a line, one a user, of six letters each. Prints one JSON object a method: the words that it ranks first
and the seconds of devices and server together.

Its frequency oracles by local hashing or unary encoding hold a number for every word that could be, 26^6 of
them, and hash each report as often: only its sketch can be asked. That is Apple's count-mean sketch, of
HASHES functions and WIDTH cells. A fragment has so many letters as found most of 16 other words, of 50,000
users at epsilon 4: PEM 9 by two letters and 11 by three, TreeHist 3 by two and 1 by three, SFP 2 by one (by
two it did not end within three minutes).
"""

from __future__ import annotations

import argparse
import json
import string
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np

warnings.filterwarnings("ignore")
LETTERS, LENGTH = string.ascii_lowercase, 6
HASHES, WIDTH = 128, 1024
FRAGMENTS = {"PEM": 3, "SFP": 1, "TreeHist": 2}


def zeros(shape: object, *rest: object, made: Callable[..., object] = np.zeros, **named: object) -> object:
    """numpy's, where None is no dimension: older ones took it so, pure-ldp says it, and 2.4 refuses it."""
    return made(() if shape is None else shape, *rest, **named)


def run(method: str, words: list[str], epsilon: float, k: int) -> list[str]:
    """The words that it ranks first."""
    from pure_ldp.frequency_oracles.apple_cms import CMSClient, CMSServer
    from pure_ldp.heavy_hitters.apple_sfp import SFPClient, SFPServer
    from pure_ldp.heavy_hitters.prefix_extending import PEMClient, PEMServer
    from pure_ldp.heavy_hitters.treehistogram import TreeHistClient, TreeHistServer

    np.zeros = zeros
    client, server = {
        "PEM": (PEMClient, PEMServer),
        "SFP": (SFPClient, SFPServer),
        "TreeHist": (TreeHistClient, TreeHistServer),
    }[method]
    asked = {
        "epsilon": epsilon,
        "max_string_length": LENGTH,
        "fragment_length": FRAGMENTS[method],
        # SFP adds its padding to a set, and counts its letters too.
        "alphabet": set(LETTERS) if method == "SFP" else list(LETTERS),
        "index_mapper": lambda text: text,
        **({"start_length": 0} if method == "PEM" else {}),
    }
    oracle = CMSServer(epsilon, HASHES, WIDTH)
    device = client(**asked, fo_client=CMSClient(epsilon, oracle.get_hash_funcs(), WIDTH))
    counter = server(**asked, fo_server=oracle)
    for word in words:
        counter.aggregate(device.privatise(word))
    found, frequencies = counter.find_heavy_hitters(k=k)
    ranked = sorted(zip(frequencies, found, strict=True), reverse=True)
    return [word for _, word in ranked[:k]]


def main() -> None:
    """Run all three, one after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("epsilon", type=float)
    parser.add_argument("k", type=int)
    given = parser.parse_args()
    words = sys.stdin.read().split()
    for method in FRAGMENTS:
        started = time.perf_counter()
        found = run(method, words, given.epsilon, given.k)
        seconds = time.perf_counter() - started
        print(json.dumps({"method": method, "found": found, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
