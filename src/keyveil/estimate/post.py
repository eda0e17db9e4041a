"""Steps that trade bias for plausibility. Each has a name; a release lists those it went through."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

import numpy as np

from keyveil.errors import MechanismError
from keyveil.estimate.distribution import project as project_to
from keyveil.estimate.estimates import Estimates, Floats
from keyveil.estimate.influence import Lever
from keyveil.estimate.shrink import Evidence
from keyveil.estimate.shrink import shrink as posterior
from keyveil.estimate.sizes import SizeLaw, Truncation

Step = Callable[[Estimates], Estimates]

# What a release does if nobody says otherwise.
READABLE = "readable"

# Standard errors from which an attack, rather than chance, is taken to have left its mark.
SURELY = 5.0
# Reports about the median key below which nothing is said: counts that small are not normal.
_FEWEST_ASKED = 25


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


def readable(raw: Estimates) -> Estimates:
    """The unbiased numbers, moved to where they can be: a frequency into [0, 1], both into their intervals.

    A mean whose interval is the whole range is not known: it is left out. A release cuts the intervals of
    frequencies to [0, 1], too, which takes nothing away that could be true.
    """
    low, high = raw.mean_interval()
    is_known = (low > -1) | (high < 1)
    mean = np.where(is_known, np.clip(raw.mean, low, high), np.nan)
    least, most = (np.clip(end, 0.0, 1.0) for end in raw.frequency_interval())
    return raw.after(READABLE, frequency=np.clip(raw.frequency, least, most), mean=mean)


def project(raw: Estimates) -> Estimates:
    """The nearest non-negative frequencies whose sum is what the unbiased ones sum to; means as by clip.

    That sum is an estimate of the pairs a user holds (never taken for 1), so it stays unbiased.
    """
    nearest = project_to(raw.frequency, max(float(raw.frequency.sum()), 0.0))
    return raw.after("project", frequency=np.minimum(nearest, 1.0), mean=clip(raw).mean)


def shrink(raw: Estimates) -> Estimates:
    """Posterior means under what all keys together show (`estimate.shrink`), without an anchor for means."""
    shrunk = posterior(Evidence.of(raw, Truncation(law=SizeLaw.exactly(1), l=1)))
    shaped = raw.after("shrink", frequency=shrunk.frequency, mean=shrunk.mean)
    return replace(shaped, frequency_top=shrunk.frequency_top)


def recover(raw: Estimates) -> Estimates:
    """Takes out what a crude attack leaves behind, and nothing where there is no sign of one.

    Where a report names one key by its index: keys that were asked about more often than chance allows (five
    standard errors above the median key) lose the surplus, as reports that all said the one thing whose
    absence leaves a plausible frequency and mean; the rest is averaged anew.

    Where everybody is asked about every key: reports that are silent on purpose push all other keys down
    by the share x of such reports times the weight of silence. If the median key, taken to have no holders,
    lies five of its standard errors below 0, x is what explains that, and every key becomes
    (estimate - x * silence) / (1 - x). The targets themselves are not found by this and keep what they
    gained. Means: signed share over frequency, both so corrected, cut to [-1, 1].

    Nothing is taken out where fewer than 25 reports ask about, or name, the median key: that few are not
    normal, and chance alone leaves such marks.

    Intervals stay those of the unprocessed numbers. [Cao] Cao, Jia, Gong 2021 normalise instead, which wants
    frequencies that sum to one.
    """
    pull = raw.lever
    if not isinstance(pull, Lever) or pull.signed is None:
        raise MechanismError("recover needs signed reports of one round; use none, clip or project here")
    if pull.asked < 1 and raw.asked.size > 1:
        frequency, signed = _without_surplus(raw, pull, pull.signed)
    else:
        share = _silent_share(raw, pull)
        frequency, signed = (raw.frequency - share * pull.floor) / (1 - share), raw.signed / (1 - share)
    held = frequency > 0
    mean = np.where(held, np.clip(signed / np.where(held, frequency, 1.0), -1.0, 1.0), np.nan)
    return raw.after("recover", frequency=frequency, mean=mean)


def _without_surplus(raw: Estimates, pull: Lever, weight: float) -> tuple[Floats, Floats]:
    """Frequency and signed share once a surplus of reports about a key is left out."""
    usual = float(np.median(raw.asked))
    if usual < _FEWEST_ASKED:
        return raw.frequency, raw.signed
    surplus = np.where(raw.asked - usual > SURELY * np.sqrt(usual), raw.asked - usual, 0.0)
    part = surplus / raw.asked.clip(min=1)
    best = raw.frequency, raw.signed
    least = np.where(part > 0, np.inf, 0.0)
    for said in pull.says:
        frequency = (raw.frequency - part * pull.of_report(said)) / (1 - part)
        signed = (raw.signed - part * said.sign * weight) / (1 - part)
        beyond = np.maximum(np.abs(signed) - np.maximum(frequency, 0.0), 0.0)
        amiss = beyond + np.maximum(-frequency, 0.0) + np.maximum(frequency - 1.0, 0.0)
        best = np.where(amiss < least, frequency, best[0]), np.where(amiss < least, signed, best[1])
        least = np.minimum(amiss, least)
    return best


def _silent_share(raw: Estimates, pull: Lever) -> float:
    """The share of reports whose silence explains a median below 0; 0 where chance explains it."""
    median, size = float(np.median(raw.frequency)), raw.frequency.size
    # The median of d normal numbers has a variance of pi / 2d of one of them.
    error = float(np.median(raw.frequency_se)) * np.sqrt(np.pi / (2 * size))
    heard = float(np.median(raw.asked)) * (median - pull.floor) / pull.weight
    if pull.floor >= 0 or heard < _FEWEST_ASKED or median >= -SURELY * error:
        return 0.0
    return median / pull.floor


STEPS: Mapping[str, Step] = MappingProxyType(
    {READABLE: readable, "none": none, "clip": clip, "project": project, "shrink": shrink, "recover": recover}
)


def step(name: str, *, also: tuple[str, ...] = ()) -> Step:
    """The post-processing step called `name`; `also` names what the caller knows besides, for the hint."""
    if name not in STEPS:
        known = (*STEPS, *also)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"known are {', '.join(known)}"
        raise MechanismError(f'unknown post-processing step "{name}"; {hint}')
    return STEPS[name]
