"""What a mechanism will be able to say about a crowd, from its own moments.

    frequency_rmse         of the unbiased estimates, over all keys (or at one frequency): noise, and
                           what cutting records to l pairs takes away
    mean_rmse              of the means of the top keys (or at one frequency), cut to their range as the
                           papers do: that cut is applied to draws of the two estimates from their law
    share_rmse             of the share of a key's values below the middle of the range, top keys
    detectable_frequency   the least frequency that stands out from keys that nobody holds
    precision_top          the part of the estimated top that belongs there
    bits_per_report        of the answer; the envelope adds 35 bytes to every mechanism's

What is assumed besides the crowd: values are near their key's mean. What a cut leaves of keys and of their
means is the crowd's own (`Strata`). There is no second set of formulas: noise is `Moments`, the cut of means
is `clip`.

What `auto` will say follows from its own rounds, not from here: `simulate.forecast`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.domain import DITHER_BINS
from keyveil.errors import MechanismError
from keyveil.estimate import Estimates, clip, detectable_frequency
from keyveil.estimate.quantiles import level_variance
from keyveil.estimate.shares import below, unbiased_weights
from keyveil.estimate.sizes import Truncation
from keyveil.mechanisms import Mechanism, Moments, UeSw, build
from keyveil.plan.choice import Allowed, allowed_at, cohorts, lengths
from keyveil.plan.crowd import Crowd

Floats = NDArray[np.float64]

PADDED = ("bucket", "pckv-ue", "pckv-grr", "ks-ue")
UNPADDED = ("kvue", "privkv")
DISTRIBUTIONS = ("ue-sw:extremal", "ue-sw")
WANTED = ("frequency", "mean", "distribution")
DRAWS, SEED = 300, 7
# Where more than so many are asked about a key, how many they are does not matter.
_OFTEN = 300
# A key of one frequency is asked about at so many means, spread over the crowd's.
_AT_MEANS = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The errors of one mechanism at one size; NaN where it does not estimate a thing."""

    mechanism: str
    options: Mapping[str, Any]
    """What the mechanism is built with besides its size."""
    epsilon: float
    pairs_per_user: int
    users: int
    frequency_rmse: float
    mean_rmse: float
    share_rmse: float
    detectable_frequency: float
    precision_top: float
    bits_per_report: int
    is_published: bool = False
    """Whether errors are of what is published, which is not unbiased: `auto`'s are."""
    frequency_low: float = float("nan")
    """The least and the largest error of frequencies among crowds that may come instead (`plan.band`)."""
    frequency_high: float = float("nan")
    mean_low: float = float("nan")
    """The same of means."""
    mean_high: float = float("nan")

    def error(self, want: str) -> float:
        """The error that is wanted small."""
        return {"frequency": self.frequency_rmse, "mean": self.mean_rmse}.get(want, self.share_rmse)

    def to_fields(self) -> dict[str, Any]:
        """A flat dictionary; what is not finite is None."""
        return {
            name: None if isinstance(value, float) and not np.isfinite(value) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A mechanism that was built once, to be asked about many crowds."""

    name: str
    epsilon: float
    mechanism: Mechanism
    options: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The name and what sets it apart.

        >>> _build("bucket", 1.0, 10, 1, "frequency").label
        'bucket rho=1'
        """
        return labelled(self.name, self.options)

    @property
    def moments(self) -> Moments:
        """The mechanism's."""
        moments: Moments = self.mechanism.moments  # type: ignore[attr-defined]
        return moments

    @property
    def tells_means(self) -> bool:
        """Whether anything is learnt of values.

        >>> [_build("bucket", 1.0, 10, 1, want).tells_means for want in ("frequency", "mean")]
        [False, True]
        """
        return bool(np.isfinite(self.moments.signed_noise))

    @property
    def length(self) -> int:
        """Records are cut to this many pairs; where one key is asked about, not at all."""
        return self.mechanism.n_keys if self.moments.drawn else self.mechanism.pairs_per_user

    def asked(self, users: float) -> float:
        """How many of the users can speak of one key."""
        return users / self.mechanism.n_keys if self.moments.drawn else users

    def error(self, crowd: Crowd, want: str, at: float | None, top: int) -> float:
        """The error that is wanted small."""
        if want == "frequency":
            return self.frequency_rmse(crowd, at)
        return self.mean_rmse(crowd, at, top) if want == "mean" else self.share_rmse(crowd, at, top)

    def frequency_rmse(self, crowd: Crowd, at: float | None) -> float:
        """Of the unbiased estimates against the frequency."""
        frequency = crowd.frequency if at is None else np.array([at])
        counts = crowd.counts if at is None else np.ones(1)
        cut = self._cut(crowd, at)
        each, nobody = self._answers(crowd.users)
        noise = each * self.moments.covariance(cut, 0.0, 1.0).frequency + nobody * cut**2
        return float(np.sqrt(np.average(noise + (frequency - cut) ** 2, weights=counts)))

    def _answers(self, users: float) -> tuple[float, float]:
        """The mean of 1 / the answers about a key, and how likely there is none: then 0 is said."""
        often = self.asked(users)
        if not self.moments.drawn or often > _OFTEN:
            return 1 / often, 0.0
        times = np.arange(1, int(often + 12 * np.sqrt(often)) + 20)
        chance = np.exp(times * np.log(often) - often - np.cumsum(np.log(times)))
        return float(np.sum(chance / times)), float(np.exp(-often))

    def _cut(self, crowd: Crowd, at: float | None = None) -> Floats:
        """What is left of the frequencies of all ranks; of one frequency, as the law of sizes has it."""
        if at is None:
            return crowd.strata.kept(self.length).share
        return Truncation(law=crowd.law, l=self.length).share(np.array([at]))

    def mean_rmse(self, crowd: Crowd, at: float | None, top: int) -> float:
        """Of means cut to their range, by draws of the two estimates."""
        if not self.tells_means:
            return float("nan")
        frequency, mean = _shown(crowd, at, top)
        if at is None:
            kept = crowd.keys(frequency.size).kept(self.length)
            # Nobody's keys have no mean, so there is none to be wrong about.
            cut, left = kept.share[frequency > 0], kept.mean[frequency > 0]
            mean = mean[frequency > 0]
        else:
            cut, left = Truncation(law=crowd.law, l=self.length).share(frequency), mean
        guess = clip(self._draw(cut, left, crowd.users)).mean
        return float(np.sqrt(np.mean((guess.reshape(DRAWS, -1) - mean) ** 2)))

    def share_rmse(self, crowd: Crowd, at: float | None, top: int) -> float:
        """Of the share of values below the middle, first order, for keys whose values spread evenly.

        Where signs tell it, a public dither rounds values.
        """
        m = self.mechanism
        if not isinstance(m, UeSw) and not m.tells_signs:
            return float("nan")
        frequency, _ = _shown(crowd, at, top)
        kept = crowd.keys(frequency.size).kept(self.length).share if at is None else self._cut(crowd, at)
        cut = kept[kept > 0]
        if not isinstance(m, UeSw):
            signed = self.moments.covariance(cut, 0.0, self.asked(crowd.users)).signed
            return float(np.sqrt(np.mean(level_variance(signed, cut, DITHER_BINS))))
        sets = np.vstack([below((0.0,), m.bins), np.ones(m.bins)])
        weights = unbiased_weights(m.channel, sets) * m.pairs_per_user
        other = np.array([float(m.channel.other(s)) for s in range(m.channel.window.n_out + 1)])
        gap = weights[0] - weights[1] / 2
        noise = float(other @ gap**2) / crowd.users
        return float(np.sqrt(np.mean(noise / cut**2)))

    def bias(self, crowd: Crowd) -> float:
        """How far cutting records moves the frequency that it moves most, in standard errors."""
        cut = self._cut(crowd)
        noise = np.sqrt(self.moments.covariance(cut, 0.0, self.asked(crowd.users)).frequency)
        return float(np.max((crowd.frequency - cut) / noise))

    def precision_top(self, crowd: Crowd, top: int) -> float:
        """By draws of all keys' estimates; NaN where the top is all there is, and nothing has to be found."""
        if top >= crowd.n_keys:
            return float("nan")
        cut = crowd.keys(crowd.n_keys).kept(self.length).share
        noise = np.sqrt(self.moments.covariance(cut, 0.0, self.asked(crowd.users)).frequency)
        rng = np.random.default_rng(SEED)
        found = [
            np.mean(np.argpartition(-(cut + noise * rng.standard_normal(cut.size)), top - 1)[:top] < top)
            for _ in range(10)
        ]
        return float(np.mean(found))

    def predict(self, crowd: Crowd, at: float | None = None, top: int = 50) -> Prediction:
        """Everything at once."""
        return Prediction(
            mechanism=self.name,
            options=self.options,
            epsilon=self.epsilon,
            pairs_per_user=self.mechanism.pairs_per_user,
            users=crowd.users,
            frequency_rmse=self.frequency_rmse(crowd, at),
            mean_rmse=self.mean_rmse(crowd, at, top),
            share_rmse=self.share_rmse(crowd, at, top),
            detectable_frequency=detectable_frequency(
                self.moments, self.asked(crowd.users), self.mechanism.n_keys
            ),
            precision_top=self.precision_top(crowd, top),
            bits_per_report=8 * self.mechanism.layout.n_bytes,
        )

    def _draw(self, cut: Floats, mean: Floats, users: float) -> Estimates:
        """Draws of what would be estimated of these keys, one after the other."""
        rng = np.random.default_rng(SEED)
        first, second = rng.standard_normal((2, DRAWS, cut.size))
        # Where few are asked about a key, some keys meet nobody.
        often = self.asked(users)
        asked = rng.poisson(often, first.shape) if self.moments.drawn else np.full(first.shape, round(often))
        spread = self.moments.covariance(cut, mean, np.maximum(asked, 1))
        frequency = cut + np.sqrt(spread.frequency) * first
        slope = spread.crossed / np.sqrt(spread.frequency)
        signed = cut * mean + slope * first + np.sqrt(np.maximum(spread.signed - slope**2, 0)) * second
        size = frequency.size
        return Estimates(
            n_reports=int(users),
            asked=asked.ravel(),
            frequency=frequency.ravel(),
            frequency_se=np.zeros(size),
            signed=signed.ravel(),
            signed_se=np.zeros(size),
            covariance=np.zeros(size),
            mean=np.zeros(size),
            mean_se=np.zeros(size),
        )


def candidates(
    epsilon: float | Allowed,
    crowd: Crowd,
    *,
    want: str,
    at: float | None,
    top: int = 50,
    most_bias: float = float("inf"),
) -> list[Candidate]:
    """Every mechanism at the padding length that suits what is wanted, best first.

    `most_bias` bounds, in standard errors, how far cutting records may move a frequency: the interval of a
    mechanism of one round knows nothing of the cut. Where no length keeps to it, the longest is taken.
    Instead of an epsilon there may be what is allowed, which has one for each.
    """
    if want not in WANTED:
        raise MechanismError(f'want must be one of {", ".join(WANTED)}, got "{want}"')
    chosen = []
    for name in _named(want):
        tried = lengths(crowd.law) if name not in UNPADDED else [1]
        made = [_build(name, epsilon, crowd.n_keys, l, want) for l in tried if l <= crowd.n_keys]
        errors = [candidate.error(crowd, want, at, top) for candidate in made]
        if np.all(np.isnan(errors)):
            continue
        is_fit = (
            [each.bias(crowd) <= most_bias for each in made] if most_bias < np.inf else [True] * len(made)
        )
        fit = np.where(is_fit, errors, np.nan)
        place = len(made) - 1 if np.all(np.isnan(fit)) else int(np.nanargmin(fit))
        chosen.append((errors[place], made[place]))
    return [candidate for _, candidate in sorted(chosen, key=lambda pair: pair[0])]


def _named(want: str) -> tuple[str, ...]:
    """The mechanisms that tell what is wanted."""
    if want == "distribution":
        # `privkv` is the papers', and its values are rounded by no dither.
        return (*DISTRIBUTIONS, *PADDED, "kvue")
    return (*PADDED, *UNPADDED, "ue-sw")


def _build(name: str, epsilon: float | Allowed, n_keys: int, l: int, want: str) -> Candidate:
    options: dict[str, Any] = {}
    if name == "bucket":
        options = {"cohorts": cohorts(n_keys, l), "rho": 1 if want == "frequency" else 0}
    if name.startswith("ue-sw"):
        options = {"bins": 8}
    mechanism = allowed_at(epsilon)(
        lambda budget: build(name, budget, n_keys=n_keys, pairs_per_user=l, **options)
    )
    own = float(Fraction(mechanism.parameters.to_json()["epsilon"])) if callable(epsilon) else epsilon
    return Candidate(name=name, epsilon=own, mechanism=mechanism, options=options)


def labelled(name: str, options: Mapping[str, Any]) -> str:
    """A mechanism's name, and its dial where it was turned."""
    return f"{name} rho={options['rho']}" if options.get("rho") else name


def _shown(crowd: Crowd, at: float | None, top: int) -> tuple[Floats, Floats]:
    """The frequencies that are asked about, and the means of those keys."""
    if at is not None:
        return np.full(_AT_MEANS, at), np.linspace(*crowd.means, _AT_MEANS)
    keys = crowd.keys(min(top, crowd.n_keys))
    return keys.frequency, keys.mean
