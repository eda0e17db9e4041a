"""Steps that trade bias for plausibility. Each has a name; a release lists those it went through."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from keyveil.errors import MechanismError
from keyveil.estimate.distribution import project as project_to
from keyveil.estimate.estimates import Estimates
from keyveil.estimate.shrink import Evidence
from keyveil.estimate.shrink import shrink as posterior
from keyveil.estimate.sizes import SizeLaw, Truncation

Step = Callable[[Estimates], Estimates]


def none(raw: Estimates) -> Estimates:
    """The unbiased numbers as they are."""
    return raw


def clip(raw: Estimates) -> Estimates:
    """The papers' correction ([PCKV] Algorithm 4).

    The frequency is cut to [1/n, 1]; the shares of holders with sign + and - are cut to between 0
    and that frequency; the mean is their difference over it, so it lies in [-1, 1]. Where nothing
    is cut, nothing changes. For rare keys the mean is worth little: it piles up at -1, 0 and 1.
    A key that was never asked about gets frequency 0 and mean 0.
    """
    heard = raw.asked > 0
    frequency = np.clip(raw.frequency, 1.0 / np.maximum(raw.asked, 1), 1.0)
    up = np.clip((raw.frequency + raw.signed) / 2, 0.0, frequency)
    down = np.clip((raw.frequency - raw.signed) / 2, 0.0, frequency)
    return raw.after(
        "clip",
        frequency=np.where(heard, frequency, 0.0),
        mean=np.where(heard, (up - down) / frequency, 0.0),
    )


def project(raw: Estimates) -> Estimates:
    """The nearest non-negative frequencies whose sum is what the unbiased ones sum to; means as by clip.

    That sum is an estimate of the pairs a user holds (never taken for 1), so it stays unbiased.
    """
    nearest = project_to(raw.frequency, max(float(raw.frequency.sum()), 0.0))
    return raw.after("project", frequency=np.minimum(nearest, 1.0), mean=clip(raw).mean)


def shrink(raw: Estimates) -> Estimates:
    """Posterior means under what all keys together show (`estimate.shrink`), without an anchor for means."""
    if raw.moments is None:
        raise MechanismError("shrink needs signed reports; use none, clip or project for this mechanism")
    shrunk = posterior(Evidence.of(raw, Truncation(law=SizeLaw.exactly(1), l=1)))
    shaped = raw.after("shrink", frequency=shrunk.frequency, mean=shrunk.mean)
    return replace(shaped, frequency_top=shrunk.frequency_top)


STEPS: Mapping[str, Step] = MappingProxyType(
    {"none": none, "clip": clip, "project": project, "shrink": shrink}
)


def step(name: str, *, also: tuple[str, ...] = ()) -> Step:
    """The post-processing step called `name`; `also` names what the caller knows besides, for the hint."""
    if name not in STEPS:
        known = (*STEPS, *also)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(known)}"
        raise MechanismError(f'unknown post-processing step "{name}"; {hint}')
    return STEPS[name]
