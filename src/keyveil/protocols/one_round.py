"""Protocols of one round: a mechanism, and what to make of its tally."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from keyveil.domain import DITHER_BINS
from keyveil.estimate import (
    Distribution,
    Estimates,
    bin_points,
    clip,
    estimate,
    expectation_maximisation,
    fake_share,
    joint_maximisation,
    lever,
    project,
    subtract_fakes,
    uncollide,
    windowed_spread,
)
from keyveil.estimate.estimates import mean_error, mean_of
from keyveil.estimate.shares import value_means
from keyveil.mechanisms import EncodedOracle, Mechanism, UeSw
from keyveil.mechanisms.channel import share
from keyveil.mechanisms.moments import Covariance
from keyveil.methods import KEYS_ONLY, SIGNS, VALUES
from keyveil.protocols.base import History, Outcome, check_history
from keyveil.rounds import Round
from keyveil.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class OneRound:
    """One mechanism, everybody, once; estimates debiased, published with the papers' clipping or without.

    >>> from keyveil.mechanisms import build
    >>> protocol = OneRound(mechanism=build("ks-ue", 1, n_keys=2))
    >>> protocol.start("campaign").question
    'campaign/1'
    """

    mechanism: Mechanism
    clipped: bool = True
    id: ClassVar[str] = "one-round"
    version: ClassVar[int] = 1
    reading: ClassVar[str] = SIGNS
    """What `keyveil.methods` calls what is made of the tally here."""

    @property
    def n_keys(self) -> int:
        """The mechanism's."""
        return self.mechanism.n_keys

    def start(self, campaign: str) -> Round:
        """The only round."""
        return Round(campaign=campaign, number=1, purpose="collect", mechanism=self.mechanism)

    def stages(self) -> tuple[Round, ...]:
        """The only round."""
        return (self.start("stage"),)

    def next(self, history: History) -> Outcome:
        """Estimates."""
        check_history(self, history)
        round, tally = history[-1]
        # As it was opened: what liars can do depends on whether ids were handed out.
        return replace(self, mechanism=round.mechanism).read(tally)

    def read(self, tally: Tally) -> Outcome:
        """What is made of the tally of the only round: debiased signs."""
        raw = estimate(self.mechanism, tally)  # type: ignore[arg-type]  # signed reports, see the registry
        raw = uncollide(self.mechanism, raw)
        return Outcome(raw=raw, published=clip(raw) if self.clipped else raw)


class KeysOnly(OneRound):
    """A frequency oracle over the users' own keys: shares of users who reported a key; no means.

    Users who hold several keys tell one of them, so a share is below the frequency.
    """

    __slots__ = ()
    reading: ClassVar[str] = KEYS_ONLY

    def read(self, tally: Tally) -> Outcome:
        """Shares of users who name a key."""
        mechanism = self.mechanism
        assert isinstance(mechanism, EncodedOracle)
        raw = frequencies_only(mechanism, tally, tally.cells["support"][: mechanism.n_keys])
        return Outcome(raw=raw, published=clip(raw))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnarySquareWave(OneRound):
    """UE-SW: frequencies made consistent over keys and dummies, then a distribution for every key.

    `likelihood` puts the fakes inside the EM's likelihood; without it they are subtracted from the
    histogram first, as the paper does (with the corrected number of them). `joint` estimates a key's
    share of users anew, together with its distribution, from silence as well; published frequencies
    stay those of the projection. `smooth` is EMS. With `only` distributions and means are given for
    those keys alone. What is smoothed has no standard error, so the intervals of means are those of an
    unbiased sum of the reports (`estimate.shares`).

    Memory, in bytes: 8 (d + l) n_out for the tally; while it is read, no more than
    24 (d + l) n_out + 24 d bins + 48 KEYS_AT_ONCE n_out on top.
    """

    likelihood: bool = True
    joint: bool = False
    smooth: bool = True
    only: tuple[int, ...] | int = ()
    reading: ClassVar[str] = VALUES

    def __post_init__(self) -> None:
        object.__setattr__(self, "only", (self.only,) if isinstance(self.only, int) else tuple(self.only))

    def read(self, tally: Tally) -> Outcome:
        """Frequencies, distributions, and means of both."""
        mechanism = self.mechanism
        assert isinstance(mechanism, UeSw)
        d, l, n = mechanism.n_keys, mechanism.pairs_per_user, max(tally.n_reports, 1)
        outputs = tally.cells["bins"].astype(float)
        everything = frequencies_only(mechanism, tally, tally.cells["bins"].sum(axis=1))
        consistent = project(everything.frequency, l)[:d]
        sampled = np.clip(consistent / l, 0.0, 1.0)
        wanted = np.array(self.only, dtype=np.int64) if self.only != () else np.arange(d)
        heard, fake = outputs[wanted], fake_share(mechanism.channel, sampled[wanted])
        if not self.likelihood:
            heard = subtract_fakes(heard, n * (1 - sampled[wanted]) * float(mechanism.b))
            fake = np.zeros(wanted.size)
        shares = np.full((d, mechanism.bins), np.nan)
        if self.joint:
            start = project(everything.frequency, l) / l
            _, found = joint_maximisation(mechanism.channel, outputs, n, start, smooth=self.smooth)
            shares[wanted] = found[wanted]
        else:
            shares[wanted] = expectation_maximisation(mechanism.channel, heard, fake, smooth=self.smooth)
            # A key that the projection holds for unused has no values to be distributed.
            shares[consistent <= 0] = np.nan
        points = bin_points(mechanism.bins)
        distribution = Distribution(points=points, shares=shares, steps=("ems" if self.smooth else "em",))
        mean = distribution.mean()
        unbiased = _with_means(mechanism, tally, everything)
        raw = replace(unbiased, signed=unbiased.frequency * np.nan_to_num(mean), mean=mean, unbiased=unbiased)
        published = raw.after("project", frequency=consistent, mean=np.nan_to_num(mean))
        spread = windowed_spread(mechanism, tally, min(DITHER_BINS, mechanism.bins))
        return Outcome(raw=raw, published=published, distribution=distribution, spread=spread)


def _with_means(mechanism: UeSw, tally: Tally, everything: Estimates) -> Estimates:
    """The keys' own estimates, with means that nothing smoothed."""
    d, found = mechanism.n_keys, value_means(mechanism, tally)
    frequency, error = everything.frequency[:d], everything.frequency_se[:d]
    heard, mean = np.isfinite(error), mean_of(found.signed, frequency)
    spread = Covariance(
        frequency=np.where(heard, error, 0.0) ** 2, signed=found.variance, crossed=found.covariance
    )
    return replace(
        everything,
        asked=everything.asked[:d],
        frequency=frequency,
        frequency_se=error,
        signed=found.signed,
        signed_se=np.where(heard, np.sqrt(found.variance), np.inf),
        covariance=found.covariance,
        mean=mean,
        mean_se=mean_error(mean, frequency, spread),
        # Half a bin.
        coarseness=1 / mechanism.bins,
    )


def frequencies_only(mechanism: Mechanism, tally: Tally, reported: Any) -> Estimates:
    """Frequencies of whatever was reported by everybody; nothing about means."""
    n, size = tally.n_reports, len(reported)
    asked = np.full(size, n)
    if n == 0:
        frequency, error = np.zeros(size), np.full(size, np.inf)
    else:
        frequency = share(float(mechanism.a), float(mechanism.b), reported, n, mechanism.pairs_per_user)
        error = np.sqrt(np.maximum(mechanism.variance(np.clip(frequency, 0, 1), n, n), 0))
    unknown = np.full(size, np.nan)
    return Estimates(
        n_reports=n,
        asked=asked,
        frequency=frequency,
        frequency_se=error,
        signed=np.zeros(size),
        signed_se=np.full(size, np.inf),
        covariance=np.zeros(size),
        mean=unknown,
        mean_se=np.full(size, np.inf),
        lever=lever(mechanism),
    )
