"""A whole series on crowds that change: whose panel has a wave answers it, by tallies of their exact law."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keyveil.campaign import Campaign
from keyveil.errors import CampaignError
from keyveil.release import release_outcome
from keyveil.series import Series
from keyveil.simulate.play import play
from keyveil.simulate.population import Population
from keyveil.trends import HeardWave, SeriesRelease, release_series


def play_series(
    series: Campaign, crowds: Sequence[Population | None], rng: np.random.Generator
) -> SeriesRelease:
    """The release after these waves, of which each met a crowd, or nobody (None).

    A user keeps their place in all crowds, and so the waves that they answer.

    >>> from keyveil.series import Series
    >>> from keyveil.simulate import insecure_generator, synthetic
    >>> weekly = Campaign(name="apps", epsilon=4.0, keys=("maps", "mail"), value_range=(-1, 1),
    ...     pairs_per_user=1, mechanism="kvue", series=Series(every="week", waves=4, start="2026-11-23"))
    >>> people = synthetic(users=4000, keys=2, seed=1)
    >>> found = play_series(weekly, [people, None, people], insecure_generator(1))
    >>> [row["wave"] for row in found.rows() if row["key"] == "maps" and row["reports"] > 800]
    [1, 3]
    """
    calendar = series.series
    if calendar is None or len(crowds) > calendar.waves:
        raise CampaignError(f"expected a series of {len(crowds)} waves or more, at $.series")
    places = rng.random(max((crowd.n_users for crowd in crowds if crowd is not None), default=0))
    return release_series(
        [_played(series.wave(number), crowd, places, rng) for number, crowd in enumerate(crowds, start=1)]
    )


def _played(
    wave: Campaign, crowd: Population | None, places: NDArray[np.float64], rng: np.random.Generator
) -> HeardWave:
    """What those of a crowd said whom the wave asks."""
    calendar = wave.series
    if crowd is None or calendar is None:
        return HeardWave(campaign=wave, release=None, note="nobody was there")
    asked = crowd.take(np.flatnonzero(in_panel(calendar, places[: crowd.n_users])))
    protocol = wave.protocol()
    outcome = play(protocol, asked, rng, campaign=wave.id)
    return HeardWave(campaign=wave, release=release_outcome(wave, protocol, outcome))


def in_panel(wave: Series, places: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which devices answer a wave, by their places: `Series.panel`, for many at once.

    >>> weekly = Series(every="week", waves=9, answers=2, start="2026-11-23", wave=5)
    >>> in_panel(weekly, np.array([0.0, 0.2, 0.5])).tolist()
    [True, False, True]
    """
    turns = np.arange(wave.answers) * wave.waves // wave.answers
    first = np.floor(places * wave.waves).astype(np.int64)
    return np.isin(((wave.wave or 0) - 1 - first) % wave.waves, turns)
