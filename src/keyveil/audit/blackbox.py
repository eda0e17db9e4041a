"""The sampler on trial: a lower bound on epsilon from draws of the real `perturb`.

Two records and an event are fixed beforehand: the certificate's witness, and answers that resemble
its own. Both records are reported many times; Clopper-Pearson
intervals on the two chances give, with 99 % confidence, a ratio that the mechanism exceeds. A bound
above epsilon proves a fault. A bound below proves nothing: an audit that rejects nothing claims
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from keyveil.domain import Record
from keyveil.mechanisms import Mechanism, Witness
from keyveil.mechanisms.base import Answer
from keyveil.numerics import Entropy, system_entropy

CONFIDENCE = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What the draws showed: hits of the event under each record, and the epsilon they prove."""

    trials: int
    first_hits: int
    second_hits: int
    epsilon_lower_bound: float


def try_out(
    mechanism: Mechanism,
    witness: Witness,
    trials: int,
    *,
    entropy: Entropy = system_entropy,
    draw: Callable[[Record], Answer] | None = None,
    progress: Callable[[int], None] = lambda _steps: None,
) -> Trial:
    """Draw `trials` reports of each record and bound epsilon from below.

    `draw` makes one answer of a record; without it the mechanism's `perturb` does. With it whatever
    stands around the sampler is on trial too: a client, its bytes, another implementation.
    """
    n_words = mechanism.n_words
    answer = draw or (lambda record: mechanism.perturb(record, entropy(n_words)))

    def hits(record: Record) -> int:
        total = 0
        for done in range(trials):
            total += mechanism.resembles(answer(record), witness)
            if done % 1000 == 999:
                progress(1000)
        return total

    first, second = hits(witness.first), hits(witness.second)
    return Trial(
        trials=trials,
        first_hits=first,
        second_hits=second,
        epsilon_lower_bound=epsilon_lower_bound(first, second, trials),
    )


def epsilon_lower_bound(
    first_hits: int, second_hits: int, trials: int, confidence: float = CONFIDENCE
) -> float:
    """Ln of the smallest first chance over the largest second one; 0 where nothing is proved.

    >>> round(epsilon_lower_bound(7500, 2500, 10_000), 3), epsilon_lower_bound(10, 10, 1000)
    (1.039, 0.0)
    """
    # Certificates need no SciPy; only what draws prove does.
    from scipy.stats import beta

    alpha = (1 - confidence) / 2
    if first_hits == 0:
        return 0.0
    low = float(beta.ppf(alpha, first_hits, trials - first_hits + 1))
    high = float(beta.ppf(1 - alpha, second_hits + 1, trials - second_hits)) if second_hits < trials else 1.0
    return max(0.0, math.log(low / high))
