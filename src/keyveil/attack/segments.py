"""Clear labels: what they give away, and what liars do who all name one small segment.

A label is read off the report, so whoever guesses it is always right; what the user holds is as well hidden
as without it. Liars choose their labels: a share of all devices is a larger share of a small segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from keyveil.attack.attempt import Attempt
from keyveil.attack.averaging import averaging
from keyveil.attack.poisoning import Counted, poisoning
from keyveil.mechanisms import Mechanism


def share_inside(share: float, part: float) -> float:
    """Which share of a segment's reports hostile ones are, if all of them name it; honest ones are this part.

    >>> round(share_inside(0.01, 0.1), 3), share_inside(0.01, 1.0)
    (0.092, 0.01)
    """
    return share / (share + (1 - share) * part)


def segments(
    mechanism: Mechanism,
    honest: Counted,
    share: float,
    part: float,
    targets: tuple[int, ...],
    rng: np.random.Generator,
    *,
    seed: int = 0,
) -> Iterator[Attempt]:
    """What is read off labels, and poisoning by a share of all devices in a segment of this part of users.

    `honest` are the reports of the segment alone.
    """
    yield Attempt(
        kind="segments",
        name="reading the label",
        success=1.0,
        bound=1.0,
        unit="right guesses",
        note="in the clear",
    )
    (held, *_) = averaging(mechanism, days=(1,), seed=seed)
    yield replace(held, kind="segments", name="what is held, the label known", note="as without a label")
    inside = share_inside(share, part)
    note = f"{share:.3g} of all devices are {inside:.3g} of this segment"
    for each in poisoning(mechanism, honest, inside, targets, rng):
        yield replace(each, kind="segments", name=f"small segment, {each.name}", note=note)
