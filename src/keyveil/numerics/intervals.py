"""Normal quantiles and the binomial intervals that audits rest on."""

from __future__ import annotations

from functools import cache

CONFIDENCE = 0.95


@cache
def two_sided_z(confidence: float = CONFIDENCE) -> float:
    """How many standard errors either side cover `confidence` of a normal law.

    >>> round(two_sided_z(0.95), 4)
    1.96
    """
    # Devices have no intervals, and do not wait for it.
    from statistics import NormalDist

    return NormalDist().inv_cdf((1 + confidence) / 2)
