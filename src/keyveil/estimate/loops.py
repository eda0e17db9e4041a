"""Compiled loops of estimation; imported by `distribution` where numba is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

Array = Any


@njit(cache=True, nogil=True)
def maximise(
    outputs: Array,
    fake: Array,
    near: float,
    far: float,
    n_in: int,
    width: int,
    step: int,
    smooth: bool,
    iterations: int,
    tolerance: float,
) -> Any:
    """`distribution._em`, key by key: everything that a key's iterations touch stays in the first cache."""
    n_keys, n_out = outputs.shape
    shares = np.full((n_keys, n_in), 1.0 / n_in)
    total, ratio = np.zeros(n_in + 1), np.zeros(n_out + 1)
    then = np.zeros(n_in)
    for key in range(n_keys):
        if outputs[key].sum() <= 0:
            shares[key] = np.nan
            continue
        now, lies = shares[key], fake[key]
        for _ in range(iterations):
            for place in range(n_in):
                total[place + 1] = total[place] + now[place]
            for place in range(n_out):
                last = min(place // step, n_in - 1)
                first = max(-((width - 1 - place) // step), 0)
                spread = total[last + 1] - total[first]
                law = (1 - lies) * (far + (near - far) * spread) + lies / n_out
                ratio[place + 1] = ratio[place] + outputs[key, place] / law
            whole = 0.0
            for place in range(n_in):
                gathered = ratio[step * place + width] - ratio[step * place]
                then[place] = now[place] * (far * ratio[n_out] + (near - far) * gathered)
                whole += then[place]
            moved, before = 0.0, then[0] / whole
            for place in range(n_in):
                here = then[place] / whole
                after = then[min(place + 1, n_in - 1)] / whole
                value = before / 4 + here / 2 + after / 4 if smooth else here
                moved = max(moved, abs(value - now[place]))
                now[place] = value
                before = here
            if moved <= tolerance:
                break
    return shares
