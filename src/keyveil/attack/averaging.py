"""The same question day after day: what fresh noise gives away, and one vote does not.

The attacker holds k reports of one device, knows the kernel, and guesses between the two records that the
mechanism's own certificate names as easiest to tell apart, by the ratio of their likelihoods. With fresh
noise nobody can be right more often than e**(k epsilon) / (1 + e**(k epsilon)), which soon is always. A
device with a ledger repeats its first answer, whatever its record becomes, so that k reports are one and the
guess stays below e**epsilon / (1 + e**epsilon) for good. bench/averaging.py plays this with the real client.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from keyveil.attack.attempt import Attempt
from keyveil.errors import MechanismError
from keyveil.mechanisms import Mechanism
from keyveil.numerics import InsecureSeededEntropy

DAYS, TRIALS = (1, 2, 5, 10, 30), 400


def averaging(
    mechanism: Mechanism, *, days: tuple[int, ...] = DAYS, trials: int = TRIALS, seed: int = 0
) -> Iterator[Attempt]:
    """How often two records are distinguished from so many days' reports, with fresh noise and with a ledger.

    >>> from keyveil.mechanisms import build
    >>> tries = list(averaging(build("kvue", 1, n_keys=1), days=(1, 30)))
    >>> [round(one.bound, 3) for one in tries]
    [0.731, 0.731, 1.0, 0.731]
    >>> tries[2].success > 0.95 > tries[3].success
    True
    """
    if not days or min(days) < 1 or trials < 1:
        raise MechanismError("expected one day, one trial or more")
    witness, entropy, loss = mechanism.witness(), InsecureSeededEntropy(seed), math.log(mechanism.loss)
    records = (witness.first, witness.second)
    right = np.zeros(max(days) + 1)
    for trial in range(trials):
        truth, lead = trial % 2, 0.0
        for day in range(1, right.size):
            answer = mechanism.perturb(records[truth], entropy(mechanism.n_words))
            first, second = (mechanism.lift(answer, record) for record in records)
            lead += math.log(first / second) * (1 if truth == 0 else -1)
            # A tie is guessed; sums of logarithms are ties up to rounding.
            right[day] += 0.5 if abs(lead) < 1e-9 else lead > 0
    for day in days:
        grown, span = day * loss, f"{day} day{'s' if day > 1 else ''}"
        yield Attempt(
            kind="averaging",
            name=f"{span}, fresh noise",
            success=float(right[day]) / trials,
            bound=1 / (1 + math.exp(-grown)),
            unit="right guesses",
        )
        yield Attempt(
            kind="averaging",
            name=f"{span}, remembered",
            success=float(right[1]) / trials,
            bound=1 / (1 + math.exp(-loss)),
            unit="right guesses",
            note="the same report every day",
        )
