"""Readings of one round from the literature: PrivKV's EM and likelihood, and the baselines' means."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from keyveil.estimate import clip, estimate
from keyveil.estimate.privkv import ETA, MAX_ITERATIONS, SignedShares, em4, mle3
from keyveil.mechanisms import Mechanism, SampledIndex
from keyveil.mechanisms.literature import Apart
from keyveil.methods import APART, EM, MLE
from keyveil.protocols.base import BIASED, Outcome
from keyveil.protocols.one_round import OneRound, frequencies_only
from keyveil.tally import Tally


class KeysAndValuesApart(OneRound):
    """The baselines: the mean of a key is that of all signs heard with it."""

    __slots__ = ()
    reading: ClassVar[str] = APART

    def read(self, tally: Tally) -> Outcome:
        """Frequencies, and means of the signs that were heard."""
        mechanism = self.mechanism
        assert isinstance(mechanism, Apart)
        raw = frequencies_only(mechanism, tally, tally.plus + tally.minus)
        mean = mechanism.heard_mean(tally.plus.astype(float), tally.minus.astype(float))
        mean_se = 1 / (float(2 * mechanism.sign.p - 1) * np.sqrt(np.maximum(tally.plus + tally.minus, 1)))
        raw = replace(raw, signed=raw.frequency * mean, mean=mean, mean_se=mean_se, means_are_biased=True)
        published = replace(clip(raw), mean=np.clip(mean, -1, 1))
        return Outcome(raw=raw, published=published, notes=(BIASED,))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivKvEm(OneRound):
    """PrivKV's reports through the papers' four-state EM; `eta` and `max_iterations` change the answer."""

    eta: float = ETA
    max_iterations: int = MAX_ITERATIONS
    step: ClassVar[str] = "privkv-em"
    reading: ClassVar[str] = EM

    def _shares(self, tally: Tally) -> SignedShares:
        channel = _channel(self.mechanism)
        return em4(
            tally.plus.astype(float),
            tally.minus.astype(float),
            tally.asked.astype(float),
            a=float(channel.a),
            p=float(channel.p),
            eta=self.eta,
            max_iterations=self.max_iterations,
        )

    def read(self, tally: Tally) -> Outcome:
        """Unbiased numbers, and the published ones of the iteration."""
        raw = estimate(self.mechanism, tally)  # type: ignore[arg-type]  # always PrivKV
        shares = self._shares(tally)
        published = raw.after(self.step, frequency=shares.frequency, mean=np.nan_to_num(shares.mean))
        return Outcome(raw=raw, published=published)


class PrivKvMle(PrivKvEm):
    """PrivKV's reports through the exact likelihood of three states; no iteration."""

    __slots__ = ()
    step: ClassVar[str] = "privkv-mle"
    reading: ClassVar[str] = MLE

    def _shares(self, tally: Tally) -> SignedShares:
        channel = _channel(self.mechanism)
        return mle3(
            tally.plus.astype(float),
            tally.minus.astype(float),
            tally.asked.astype(float),
            a=float(channel.a),
            p=float(channel.p),
        )


def _channel(mechanism: Mechanism) -> Any:
    assert isinstance(mechanism, SampledIndex)
    return mechanism.channel
