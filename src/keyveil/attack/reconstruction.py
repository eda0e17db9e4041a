"""One user, one report: who guesses best what they hold?

The attacker knows the kernel and that the record is one of N, each as likely; the best guess is the one
that makes the report likeliest. No mechanism of loss E = e**epsilon lets anybody be right more often than

    E / (E + N - 1)

because a report is at most E times likelier under the truth than under each of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from keyveil.attack.attempt import Attempt
from keyveil.domain import Record
from keyveil.errors import MechanismError
from keyveil.mechanisms import Bucket, Mechanism
from keyveil.mechanisms.base import Answer
from keyveil.numerics import InsecureSeededEntropy
from keyveil.simulate.population import Floats, insecure_generator

CANDIDATES, TRIALS = 16, 1000


def reconstruction(
    mechanism: Mechanism, *, candidates: int = CANDIDATES, trials: int = TRIALS, seed: int = 0
) -> Attempt:
    """How often one pair out of `candidates` signed keys is guessed from its report.

    >>> from keyveil.mechanisms import build
    >>> found = reconstruction(build("kvue", 2, n_keys=4), candidates=4, trials=200)
    >>> 0.25 < found.success < found.bound
    True
    """
    if candidates < 2 or trials < 1:
        raise MechanismError(
            f"expected two candidates and a trial or more, got {candidates} candidates and {trials} trials"
        )
    signed = [(code, value) for code in range(mechanism.n_keys) for value in (1.0, -1.0)]
    n = min(candidates, len(signed))
    records = [Record.of({code: value}) for code, value in signed[:n]]
    entropy, rng, right = InsecureSeededEntropy(seed), insecure_generator(seed), 0.0
    for _ in range(trials):
        truth = int(rng.integers(n))
        answer = mechanism.perturb(records[truth], entropy(mechanism.n_words))
        likely = likelihoods(mechanism, answer, records)
        best = np.flatnonzero(likely == likely.max())
        right += (truth in best) / best.size
    loss = float(mechanism.loss)
    return Attempt(
        kind="reconstruction",
        name=f"one of {n} pairs",
        success=right / trials,
        bound=loss / (loss + n - 1),
        unit="right guesses",
        note=f"by chance {1 / n:.1%}",
    )


def likelihoods(mechanism: Mechanism, answer: Answer, records: Sequence[Record]) -> Floats:
    """The chance of an answer under each record, up to a common factor.

    A record of one pair among l buckets leaves the others to dummies, alike for every record: whose own
    bucket was reported is all that tells them apart.
    """
    if isinstance(mechanism, Bucket) and mechanism.pairs_per_user > 1:
        cohort, bucket = divmod(answer, mechanism.buckets)
        return np.array(
            [
                float(mechanism.symbol_bucket(cohort, pair.code, 1 if pair.level else -1) == bucket)
                for record in records
                for pair in record.pairs
            ]
        )
    return np.array([float(mechanism.lift(answer, record)) for record in records])
