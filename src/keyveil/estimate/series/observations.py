"""What a series heard: an unbiased estimate a wave and key, its standard error, and what a cut may hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from keyveil.errors import TallyError
from keyveil.estimate.estimates import Estimates, Floats
from keyveil.numerics import CONFIDENCE, two_sided_z

# A mean is the ratio of two estimates. Where the lower one lies this many standard errors above 0, the ratio
# is nearly normal: its relative skewness is 6/5 of a standard error at most.
CLEAR_OF_ZERO = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Observations:
    """Waves by keys, independent between waves; NaN with an infinite error where nothing was heard.

    >>> seen = Observations.of_arrays([[0.2], [np.nan], [0.3]], [[0.1], [0.1], [0.2]])
    >>> seen.n_waves, seen.n_keys, seen.heard.ravel().tolist()
    (3, 1, [True, False, True])
    """

    estimate: Floats
    standard_error: Floats
    hidden: Floats
    """So much may lie above an estimate's interval, because records were cut: no noise, never smoothed."""

    def __post_init__(self) -> None:
        shapes = {self.estimate.shape, self.standard_error.shape, self.hidden.shape}
        if len(shapes) != 1 or self.estimate.ndim != 2:
            raise TallyError(f"expected three arrays of waves by keys, got shapes {sorted(shapes)}")
        if np.any(self.standard_error[self.heard] <= 0):
            raise TallyError("expected a standard error above 0 wherever something was heard")

    @classmethod
    def of_arrays(cls, estimate: object, standard_error: object, hidden: object = 0.0) -> Observations:
        """From numbers; what is not finite in either array was not heard."""
        seen, error = np.array(estimate, dtype=float), np.array(standard_error, dtype=float)
        if seen.shape != error.shape:
            raise TallyError(f"expected a standard error an estimate, got {error.shape} for {seen.shape}")
        heard = np.isfinite(seen) & np.isfinite(error)
        return cls(
            estimate=np.where(heard, seen, np.nan),
            standard_error=np.where(heard, error, np.inf),
            hidden=np.broadcast_to(np.asarray(hidden, dtype=float), seen.shape).copy(),
        )

    @classmethod
    def of_frequencies(
        cls, waves: Sequence[Estimates | None], *, n_keys: int, crowd: float | None = None
    ) -> Observations:
        """The frequencies of every wave's unprocessed estimates (`Release.raw`); None is a wave unheard.

        A wave hears a part of a crowd, drawn by chance, and a series is about the whole: so the variance of
        the draw is added to the noise's, unless the mechanism asks a sample and has counted it. `crowd` is
        the number of devices where it is known; a wave of all of them adds nothing.
        """
        rows = [_unheard(n_keys) if wave is None else _frequencies(wave, crowd) for wave in waves]
        return cls.of_arrays(*(np.array([row[part] for row in rows]) for part in range(3)))

    @classmethod
    def of_means(cls, waves: Sequence[Estimates | None], *, n_keys: int) -> Observations:
        """Means on the scale [-1, 1], of keys whose frequency lies far enough from 0 for a normal law.

        Their errors hold the drawing of users already: a sign is as uncertain given one value as given all.
        """
        rows = [_unheard(n_keys) if wave is None else _means(wave) for wave in waves]
        return cls.of_arrays(*(np.array([row[part] for row in rows]) for part in range(3)))

    @property
    def n_waves(self) -> int:
        """How many waves there were, heard or not."""
        return int(self.estimate.shape[0])

    @property
    def n_keys(self) -> int:
        """How many keys there are."""
        return int(self.estimate.shape[1])

    @property
    def heard(self) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Where there is an estimate."""
        return np.isfinite(self.estimate)

    @property
    def precision(self) -> Floats:
        """One over the variance; 0 where nothing was heard."""
        precision: Floats = 1 / self.standard_error**2
        return precision

    @property
    def unit(self) -> Floats:
        """Each key's typical standard error of a wave; infinite where it was never heard."""
        heard = np.maximum(self.heard.sum(axis=0), 1)
        with np.errstate(divide="ignore"):
            unit: Floats = np.sqrt(heard / self.precision.sum(axis=0))
        return unit

    def interval(self, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
        """Every wave alone; NaN where nothing was heard."""
        reach = two_sided_z(confidence) * np.where(self.heard, self.standard_error, np.nan)
        return self.estimate - reach, self.estimate + reach + self.hidden

    def only(self, keys: object) -> Observations:
        """Some keys, by place."""
        return Observations(
            estimate=self.estimate[:, keys],  # type: ignore[index]
            standard_error=self.standard_error[:, keys],  # type: ignore[index]
            hidden=self.hidden[:, keys],  # type: ignore[index]
        )

    def between(self, first: int, last: int) -> Observations:
        """Waves `first` to `last`, both included."""
        place = slice(first, last + 1)
        return Observations(
            estimate=self.estimate[place],
            standard_error=self.standard_error[place],
            hidden=self.hidden[place],
        )

    def less(self, part: Floats) -> Observations:
        """With a part subtracted from every estimate."""
        return replace(self, estimate=self.estimate - part)


def _unheard(n_keys: int) -> tuple[Floats, Floats, Floats]:
    return np.full(n_keys, np.nan), np.full(n_keys, np.inf), np.zeros(n_keys)


def _frequencies(wave: Estimates, crowd: float | None) -> tuple[Floats, Floats, Floats]:
    heard = wave.heard
    share = np.clip(heard.frequency, 0.0, 1.0)
    drawn = 0.0 if wave.moments is not None and wave.moments.drawn else 1.0
    if crowd is not None:
        drawn *= max(0.0, 1 - wave.n_reports / crowd)
    variance = heard.frequency_se**2 + drawn * share * (1 - share) / max(wave.n_reports, 1)
    _, high = heard.frequency_interval()
    hidden = np.zeros_like(share) if wave.unheard is None else wave.unheard.most(high)
    return heard.frequency, np.sqrt(variance), hidden


def _means(wave: Estimates) -> tuple[Floats, Floats, Floats]:
    heard = wave.heard
    clear = (heard.frequency > CLEAR_OF_ZERO * heard.frequency_se) & (not wave.means_are_biased)
    # Those who were not heard may have any value: both ends move, so the farther one counts.
    hidden = 2 * wave.unheard_part()
    return np.where(clear, heard.mean, np.nan), np.where(clear, heard.mean_se, np.inf), hidden
