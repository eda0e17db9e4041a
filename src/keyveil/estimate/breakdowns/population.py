"""represent: totals of a population whose segments have known sizes (post-stratification).

Those who answer are seldom spread over segments as all people are. Where the sizes of segments are known from
elsewhere, a census or a count of installations, each segment counts by that instead of by its reports:

    f = sum(W_s f_s),        S = sum(W_s S_s),        mean = S / f

unbiased for the population as far as those who answer in a segment are like the others in it. The price is
the variance sum(W_s**2 v_s), which is least where W_s is the share of reports; `design_effect` is how many
times as large it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from keyveil.errors import DomainError
from keyveil.estimate.breakdowns.cells import Cells
from keyveil.estimate.estimates import Estimates, Floats, mean_error, mean_of
from keyveil.mechanisms.moments import Covariance

STEP = "represent"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Mixed:
    """What cutting records may hide of totals: each segment's, by its weight."""

    segments: tuple[Estimates, ...]
    weights: Floats

    def most(self, share: Floats) -> Floats:
        """At most so much is hidden of a key, whatever share of it is heard."""
        hidden = [_most(segment, np.full_like(share, np.inf)) for segment in self.segments]
        total: Floats = self.weights @ np.array(hidden)
        return total

    def part(self, share: Floats) -> Floats:
        """At most this part of a key's holders was not heard, where this share or more was."""
        hidden = self.most(share)
        return np.where(share > 0, hidden / np.maximum(share + hidden, np.finfo(float).tiny), 1.0)


def _most(segment: Estimates, share: Floats) -> Floats:
    if segment.unheard is None:
        return np.zeros_like(share)
    return segment.unheard.most(np.minimum(share, segment.heard.frequency_interval()[1]))


def weights_of(names: Sequence[str], sizes: Mapping[str, float]) -> Floats:
    """The share of people in every segment; sizes are counts or shares, one for each segment.

    >>> weights_of(["ios", "web"], {"web": 30_000, "ios": 10_000}).tolist()
    [0.25, 0.75]
    """
    unknown = [name for name in sizes if name not in set(names)]
    if unknown:
        raise DomainError(f'no segment is called "{str(unknown[0])[:40]}"; segments are {", ".join(names)}')
    missing = [name for name in names if name not in sizes]
    if missing:
        raise DomainError(
            f'the size of segment "{missing[0]}" is missing; say 0 where nobody of interest is in it'
        )
    found = np.array([sizes[name] for name in names], dtype=float)
    if not (np.isfinite(found).all() and (found >= 0).all() and found.sum() > 0):
        raise DomainError("sizes of segments must be numbers from 0, not all of them 0")
    share: Floats = found / found.sum()
    return share


def represent(segments: Sequence[Estimates], weights: Floats) -> Estimates:
    """Estimates of the population of which each segment is this share; people are drawn by chance."""
    heard = [segment.heard for segment in segments]
    needed = weights > 0
    if any(segment.n_reports == 0 for segment, is_needed in zip(heard, needed, strict=True) if is_needed):
        raise DomainError("a segment that nobody answered for cannot be represented; give it size 0")

    def total(name: str, power: int = 1) -> Floats:
        parts = np.array([getattr(segment, name) for segment in heard])[needed]
        added: Floats = weights[needed] ** power @ parts
        return added

    frequency, signed = total("frequency"), total("signed")
    error = np.where(needed[:, None], Cells.of_frequencies(segments).standard_error, 0.0)
    of_signed = np.where(needed[:, None], [segment.signed_se for segment in heard], 0.0)
    spread = Covariance(
        frequency=(weights[:, None] ** 2 * error**2).sum(axis=0),
        signed=(weights[:, None] ** 2 * of_signed**2).sum(axis=0),
        crossed=total("covariance", 2),
    )
    mean = mean_of(signed, frequency)
    is_cut = any(segment.unheard is not None for segment in segments)
    made = Estimates(
        n_reports=sum(segment.n_reports for segment in heard),
        asked=np.sum([segment.asked for segment in heard], axis=0),
        frequency=frequency,
        frequency_se=np.sqrt(spread.frequency),
        signed=signed,
        signed_se=np.sqrt(spread.signed),
        covariance=spread.crossed,
        mean=mean,
        mean_se=mean_error(mean, frequency, spread),
        means_are_biased=any(segment.means_are_biased for segment in heard),
        coarseness=max(segment.coarseness for segment in heard),
        steps=(STEP,),
    )
    if not is_cut:
        return made
    return replace(made, unbiased=made, unheard=_Mixed(segments=tuple(segments), weights=weights))


def design_effect(users: Floats, weights: Floats) -> float:
    """How many times the variance of a total is what it would be if answers were spread as people are.

    >>> design_effect(np.array([100.0, 300.0]), np.array([0.25, 0.75]))
    1.0
    >>> round(design_effect(np.array([300.0, 100.0]), np.array([0.25, 0.75])), 2)
    2.33
    """
    needed = weights > 0
    return float(users.sum() * (weights[needed] ** 2 / users[needed]).sum())
