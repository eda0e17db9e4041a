"""What a protocol of several rounds will say of a crowd that nobody has met: its own rounds on strata.

`play` draws tallies of people one knows; here there are none, only a plan's guess at who holds what
(`Crowd.strata`). Every round is opened and read by the protocol itself, so whatever it chooses, learns, cuts
and shrinks is in the errors, and there is no second set of formulas:

    signed keys     each key's two unbiased numbers, Gaussian with the mechanism's own `Moments`, are put
                    back into the cells of a tally that says just that
    small groups    how many users have each symbol, by the strata; then the oracle's exact law
    candidates      records with nothing but them, again as strata

A group is a sample of the users: what it holds strays from what all hold. Hashes are taken to be as many as
anybody could want; what few of them would add is taken off by `uncollide` where it is to be seen.

The time is a few readings of so many keys, whatever the number of users.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import MechanismError
from keyveil.estimate import detectable_frequency
from keyveil.mechanisms import (
    Bucket,
    EncodedOracle,
    KeyValueMechanism,
    Levels,
    OwnKey,
    OwnSign,
    PopularSize,
    SizeClass,
)
from keyveil.mechanisms.base import is_key_value
from keyveil.numerics import parse_epsilon
from keyveil.plan import Crowd, Prediction
from keyveil.plan.band import banded
from keyveil.plan.strata import Strata
from keyveil.protocols import Outcome, Protocol, Round
from keyveil.protocols.auto import Auto, Tuning
from keyveil.protocols.auto.tuning import tuning_of
from keyveil.simulate.laws import draw_supports
from keyveil.simulate.metrics import top_keys
from keyveil.simulate.population import Floats, insecure_generator
from keyveil.tally import Tally

Cells = dict[str, NDArray[Any]]

# Errors are averages over keys: so many keys in all draws together tell an error to a few percent.
_ENOUGH, _MOST_DRAWS = 1500, 12
# Spreads are read on so coarse a grid, and the centre of means off so few keys: no error moves by more than
# another draw would move it, in a tenth of the time.
_GRID, _KEYS = 120, 300
# Keys times places of the grid, so that 10,000s of keys take some seconds; never fewer places than this.
_MOST_CELLS, _LEAST_GRID = 1_200_000, 40
# With more keys than this only the first few alternatives are played; with more than the last number none.
_FEW_FROM, _FEW, _NONE_FROM = 300, 6, 2000
# No two keys share a hash that often: shared collisions are then below anything that is looked at.
_HASHES = 1 << 50
SEED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickAuto(Auto):
    """`auto` that shrinks less finely: what it asks is the same."""

    @property
    def tuning(self) -> Tuning:
        """The version's, with a coarse grid and few keys for the centre of means."""
        full = tuning_of(self.version)
        grid = min(_GRID, max(_LEAST_GRID, _MOST_CELLS // self.n_keys))
        return replace(full, shrinking=replace(full.shrinking, largest_grid=grid, most_keys=_KEYS))


class Played(NamedTuple):
    """One run: what came of it, and the rounds that led to it."""

    outcome: Outcome
    rounds: tuple[Round, ...]


def forecast(
    epsilon: float,
    crowd: Crowd,
    *,
    pairs_per_user: int | None = None,
    top: int = 50,
    draws: int | None = None,
    progress: Callable[[str], None] = lambda _label: None,
    **options: Any,
) -> Prediction:
    """What `auto` will publish of a crowd: root mean squared errors over some runs.

    `pairs_per_user` is what the campaign declares; where it is not said, what nine users in ten hold at most.

    >>> from keyveil.estimate.sizes import SizeLaw
    >>> crowd = Crowd(users=100_000, n_keys=50, law=SizeLaw.exactly(1))
    >>> prediction = forecast(1.0, crowd)
    >>> prediction.mechanism, prediction.is_published, 0.003 < prediction.frequency_rmse < 0.008
    ('auto', True, True)
    """
    declared = min(pairs_per_user or crowd.usual_size, crowd.n_keys)
    protocol = QuickAuto(
        epsilon=parse_epsilon(epsilon),
        n_keys=crowd.n_keys,
        users=crowd.users,
        pairs_per_user=declared,
        **options,
    )
    strata = crowd.keys(crowd.n_keys)
    best = top_keys(strata.frequency, min(top, crowd.n_keys))
    held = best[strata.frequency[best] > 0]
    runs = draws or min(_MOST_DRAWS, math.ceil(_ENOUGH / crowd.n_keys))
    off = np.zeros((runs, 3))
    for run in range(runs):
        played = play_strata(protocol, strata, crowd.users, insecure_generator(SEED, run))
        published = played.outcome.published
        shown = published.frequency if published.frequency_top is None else published.frequency_top
        off[run] = (
            np.mean((published.frequency - strata.frequency) ** 2),
            np.mean((published.mean[held] - strata.mean[held]) ** 2) if held.size else math.nan,
            np.isin(top_keys(shown, best.size), best).mean(),
        )
        progress(f"auto at epsilon {epsilon:g}")
    frequency, mean, found = off.mean(axis=0).tolist()
    moments, asked = played.outcome.raw.moments, float(np.median(played.outcome.raw.asked))
    return Prediction(
        mechanism="auto",
        options={},
        epsilon=epsilon,
        pairs_per_user=declared,
        users=crowd.users,
        frequency_rmse=math.sqrt(frequency),
        mean_rmse=math.sqrt(mean),
        share_rmse=math.nan,
        detectable_frequency=(
            math.nan if moments is None else detectable_frequency(moments, max(asked, 1.0), crowd.n_keys)
        ),
        precision_top=found if best.size < crowd.n_keys else math.nan,
        bits_per_report=8 * max(round.mechanism.layout.n_bytes for round in played.rounds),
        is_published=True,
    )


def forecast_among(epsilon: float, crowd: Crowd, others: Sequence[Crowd], **options: Any) -> Prediction:
    """The forecast, with its band where others come instead; fewer of them are played where keys are many."""
    prediction = forecast(epsilon, crowd, **options)
    most = len(others) if crowd.n_keys <= _FEW_FROM else _FEW if crowd.n_keys <= _NONE_FROM else 0
    if not others or not most:
        return prediction
    options.setdefault("pairs_per_user", prediction.pairs_per_user)
    return banded(prediction, [forecast(epsilon, other, draws=1, **options) for other in others[:most]])


def play_strata(protocol: Protocol, strata: Strata, users: int, rng: np.random.Generator) -> Played:
    """One run of a protocol among so many users who hold what strata say."""
    step: Round | Outcome = protocol.start("forecast")
    history: list[tuple[Round, Tally]] = []
    while isinstance(step, Round):
        asked = strata if step.keys is None else strata.only(np.array(step.keys))
        n = int(rng.binomial(users, min(1.0, step.size)))
        cells = draw_cells(step.mechanism, asked, n, n / users, rng)
        history.append((_well_hashed(step), Tally.of(question=step.question, n_reports=n, **cells)))
        step = protocol.next(history)
    return Played(step, tuple(round for round, _ in history))


def _well_hashed(step: Round) -> Round:
    """The same round with so many hashes that keys share none."""
    if not isinstance(step.mechanism, Bucket):
        return step
    return replace(step, mechanism=replace(step.mechanism, cohorts=_HASHES))


@singledispatch
def draw_cells(
    mechanism: object, strata: Strata, n: int, part: float, rng: np.random.Generator
) -> dict[str, NDArray[Any]]:
    """The cells of a tally of n users, who are this part of all."""
    if not is_key_value(mechanism):
        raise MechanismError(f"no forecast for {type(mechanism).__name__}: it tells no signed keys")
    return _signed_cells(mechanism, strata, n, part, rng)


def _signed_cells(
    mechanism: KeyValueMechanism, strata: Strata, n: int, part: float, rng: np.random.Generator
) -> Cells:
    """Counts that come to unbiased numbers as far off as the mechanism's moments say."""
    moments, d = mechanism.moments, mechanism.n_keys
    kept = strata.kept(d if moments.drawn else mechanism.pairs_per_user)
    share, mean = kept.share, kept.mean
    asked = rng.multinomial(n, np.full(d, 1.0 / d)) if moments.drawn else np.full(d, n)
    often = np.maximum(asked, 1)
    if not moments.drawn:
        # Who is in the group is drawn; where one key is asked about, the moments know that themselves.
        stray = np.sqrt(np.maximum(kept.square - share**2, 0.0) * (1 - part) / max(n, 1))
        share = np.clip(share + stray * rng.standard_normal(d), 0.0, 1.0)
    spread = moments.covariance(share, mean, often)
    first, second = rng.standard_normal((2, d))
    frequency = share + np.sqrt(spread.frequency) * first
    if not np.isfinite(moments.signed_noise):
        signed = np.zeros(d)
    else:
        slope = spread.crossed / np.sqrt(spread.frequency)
        left = np.sqrt(np.maximum(spread.signed - slope**2, 0.0))
        signed = share * mean + slope * first + left * second
    plus, minus = _counts(mechanism, frequency, signed, often)
    if isinstance(mechanism, Levels):
        # A level at an end counts for one sign, and that is all that is read of it.
        bins = np.zeros((d, mechanism.bins), dtype=np.int64)
        bins[:, -1], bins[:, 0] = plus, minus
        return {"bins": bins, "asked": asked}
    return {"plus": plus, "minus": minus, "asked": asked}


def _counts(
    mechanism: KeyValueMechanism, frequency: Floats, signed: Floats, asked: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The reports for + and for - that are read as these numbers: reading is linear."""
    none, up, down = (np.array(mechanism.debias(p, m, 1.0)) for p, m in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)))
    # Where signs are tied for good there is one number to be known: both have half of it.
    undo = np.linalg.pinv(np.column_stack([up - none, down - none]))
    parts = undo @ (np.array([frequency, signed]) - none[:, None])
    plus, minus = np.rint(parts * asked).astype(np.int64)
    return plus, minus


@draw_cells.register
def _(mechanism: EncodedOracle, strata: Strata, n: int, part: float, rng: np.random.Generator) -> Cells:
    chances = symbol_chances(mechanism.encoder, strata)
    return draw_supports(mechanism.oracle, rng.multinomial(n, chances / chances.sum()), rng)


@singledispatch
def symbol_chances(encoder: object, strata: Strata) -> Floats:
    """The share of users who have each symbol of an encoder."""
    raise MechanismError(f"no forecast for {type(encoder).__name__}; register symbol_chances for it")


@symbol_chances.register
def _(encoder: OwnKey, strata: Strata) -> Floats:
    own = strata.kept(1).share
    return np.append(own, max(0.0, 1.0 - float(own.sum())))


@symbol_chances.register
def _(encoder: SizeClass, strata: Strata) -> Floats:
    return _by_class(_classes(encoder.starts, strata) - 1, strata.shares, encoder.n_symbols)


@symbol_chances.register
def _(encoder: OwnSign, strata: Strata) -> Floats:
    # One pair of each user, as a cut to one pair leaves.
    own = strata.kept(1)
    held, lean = float(own.share.sum()), float(own.signed.sum())
    return np.maximum([1.0 - held, (held + lean) / 2, (held - lean) / 2], 0.0)


@symbol_chances.register
def _(encoder: PopularSize, strata: Strata) -> Floats:
    # Who holds more popular keys than are heard of is heard as often as who holds just so many.
    held = strata.held[:, list(encoder.popular)].sum(axis=1)
    heard = np.minimum(held / encoder.most, strata.shares)
    spoken = _by_class(_classes(encoder.starts, strata), heard, encoder.n_symbols)
    spoken[0] = max(0.0, 1.0 - float(heard.sum()))
    return spoken


def _classes(starts: tuple[int, ...], strata: Strata) -> NDArray[np.int64]:
    """Which class each stratum falls into, counted from 1."""
    return np.searchsorted(np.array(starts), np.rint(strata.sizes), side="right")


def _by_class(classes: NDArray[np.int64], shares: Floats, count: int) -> Floats:
    """The shares of all strata of each class."""
    return np.bincount(classes, weights=shares, minlength=count).astype(float)
