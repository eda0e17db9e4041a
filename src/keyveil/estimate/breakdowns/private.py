"""Private segments: what a crossing's codes say of each segment, and of all of them together.

With f_sk the share of all users who are in segment s and hold key k, and f_s the share of segment s,

    p_sk = f_sk / f_s,      Var p_sk = (Var f_sk + p**2 Var f_s - 2 p Cov(f_sk, f_s)) / f_s**2

to first order, and so for signed shares; the covariance is the mechanism's own (`mechanisms.moments`), since
everybody who is counted by f_sk is counted by f_s. Where a segment's own share is not well above 0 nothing is
known of its keys. The whole is a sum: f_k = sum(f_sk), with the noise of all segments.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from keyveil.domain import Labelled
from keyveil.errors import MechanismError
from keyveil.estimate.estimates import Estimates, Floats, mean_error, mean_of
from keyveil.estimate.influence import Lever
from keyveil.estimate.series.observations import CLEAR_OF_ZERO
from keyveil.mechanisms import Moments
from keyveil.mechanisms.moments import Covariance


def segment_shares(raw: Estimates, crossing: Labelled) -> tuple[Floats, Floats]:
    """The share of users in each segment, unbiased, and its standard error."""
    sizes = np.arange(len(crossing.labels)) * crossing.width + crossing.n_keys
    return raw.frequency[sizes], raw.frequency_se[sizes]


def by_segment(raw: Estimates, crossing: Labelled) -> tuple[Estimates, ...]:
    """The estimates of each segment's own users, as if they had been counted apart."""
    return tuple(_of_segment(raw, crossing, label) for label in range(len(crossing.labels)))


def of_all(raw: Estimates, crossing: Labelled) -> Estimates:
    """The estimates of all users: sums over segments."""

    def cells(name: str) -> Floats:
        by_code: Floats = getattr(raw, name).reshape(len(crossing.labels), crossing.width)
        return by_code[:, : crossing.n_keys]

    frequency, signed = cells("frequency").sum(axis=0), cells("signed").sum(axis=0)
    spread = Covariance(
        frequency=(cells("frequency_se") ** 2).sum(axis=0),
        signed=(cells("signed_se") ** 2).sum(axis=0),
        crossed=cells("covariance").sum(axis=0),
    )
    mean = mean_of(signed, frequency)
    return Estimates(
        n_reports=raw.n_reports,
        asked=cells("asked").max(axis=0),
        frequency=frequency,
        frequency_se=np.sqrt(spread.frequency),
        signed=signed,
        signed_se=np.sqrt(spread.signed),
        covariance=spread.crossed,
        mean=mean,
        mean_se=mean_error(mean, frequency, spread),
        lever=raw.lever,
        steps=raw.steps,
    )


def _of_segment(raw: Estimates, crossing: Labelled, label: int) -> Estimates:
    moments, n = moments_of(raw), max(raw.n_reports, 1)
    own = np.arange(crossing.n_keys) + label * crossing.width
    size = label * crossing.width + crossing.n_keys
    share, noise = float(raw.frequency[size]), float(raw.frequency_se[size]) ** 2
    known = share > CLEAR_OF_ZERO * np.sqrt(noise)
    share = share if known else 1.0
    part, signed = raw.frequency[own] / share, raw.signed[own] / share
    held = np.clip(raw.frequency[own], 0.0, 1.0)
    # Reports that name one cell do not name another: counted as noise of both, differences have all of it.
    rival = (moments.apart**2 + 2 * moments.apart * held) / n
    tied = -(moments.apart**2 + moments.apart * (held + share) + moments.together * held) / n
    # What a signed share has in common with the size is so of its mean's part.
    leaning = tied * np.divide(raw.signed[own], held, out=np.zeros_like(held), where=held > 0).clip(-1, 1)
    # Where nobody was heard noise has no bound, and nothing of what follows is kept.
    with np.errstate(invalid="ignore"):
        spread = Covariance(
            frequency=(raw.frequency_se[own] ** 2 + rival + part**2 * noise - 2 * part * tied) / share**2,
            signed=(raw.signed_se[own] ** 2 + signed**2 * noise - 2 * signed * leaning) / share**2,
            crossed=(raw.covariance[own] + part * signed * noise - part * leaning - signed * tied) / share**2,
        )
    mean = mean_of(signed, part)
    heard = known & np.isfinite(raw.frequency_se[own])
    return Estimates(
        n_reports=round(n * share) if known else 0,
        asked=raw.asked[own],
        frequency=np.where(heard, part, 0.0),
        frequency_se=np.where(heard, np.sqrt(np.maximum(spread.frequency, 0.0)), np.inf),
        signed=np.where(heard, signed, 0.0),
        signed_se=np.where(heard, np.sqrt(np.maximum(spread.signed, 0.0)), np.inf),
        covariance=np.where(heard, spread.crossed, 0.0),
        mean=np.where(heard, mean, np.nan),
        mean_se=np.where(heard, mean_error(mean, part, spread), np.inf),
        lever=_louder(raw.lever, share) if isinstance(raw.lever, Lever) else None,
        steps=raw.steps,
    )


def moments_of(raw: Estimates) -> Moments:
    """What a crossing needs to know of the mechanism behind estimates."""
    if raw.moments is None:
        raise MechanismError("what two crossed keys have in common is not known of this mechanism")
    return raw.moments


def _louder(pull: Lever, share: float) -> Lever:
    """One report moves what is said of a part of all users by as much more as the part is smaller."""
    signed = None if pull.signed is None else pull.signed / share
    return replace(pull, weight=pull.weight / share, floor=pull.floor / share, signed=signed)
