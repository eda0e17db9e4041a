"""How far hostile devices can move a key, from the estimator's own weights.

A device that lies is free in its report; the privacy of the others forbids asking for proof. What it
cannot do is speak louder than the estimator listens. Every estimate of a frequency f and a signed share
S = f m is an average over the reports that were asked about a key, and a report's part in it is

    w_f = heard * weight + floor,          w_S = sign * signed

(`weight`, `floor` and `signed` are read off `debias`; there is no second set of formulas). `Lever`
lists what a report can say of one key; the extremes are vertices, so no other report moves it further.
With N reports asked about the key, e of them hostile, the others' estimate being f:

    moved(f) = ((N - e) f + e w_f) / N,        mean = ((N - e) S + e w_S) / ((N - e) f + e w_f)

both monotone in e. A share x of hostile devices makes e = x N where everybody is asked about every key. Where
a report names one key and its index is the device's own draw, all of them may name this one:
e = x n while the honest ones leave it (1 - x) n / d, so the share that counts is x d / (x d + 1 - x).

Where ids are handed out, one a device, the index follows from the id. Of x n hostile devices one in d is
asked about a key, whatever they wish, and of the (1 - x) n others too: e = x n / d of N = n / d, so the share
that counts is x, and with w_f the loudest thing to say,

    E[moved(f)] - f = x (w_f - f),                       (x d + 1 - x) / d of what it is above.

e is drawn as N is, so this is the expected shift: that of one collection is off by a factor of about
1 + z sqrt(d / (x n)). For `kvue` w_f = (1 - b) / (a - b) = E / (E - 1); at epsilon 1 a
liar in a hundred moves a key that nobody holds by 0.0158, and by 0.795 where the index is theirs.

A hash that gives both signs of a key one bucket makes a report count twice. Who may choose the hash (a
device that tries report ids until it likes the cohort) does that with every report; who may not, because ids
are handed out, with one in g.

[Cao] Cao, Jia, Gong: Data Poisoning Attacks to Local Differential Privacy Protocols, USENIX Security 2021.
[Wu] Wu, Cao, Jia, Gong: Poisoning Attacks to Local Differential Privacy Protocols for Key-Value Data,
USENIX Security 2022.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from keyveil.errors import MechanismError
from keyveil.mechanisms import (
    Bucket,
    EncodedOracle,
    IndexedBoundary,
    Levels,
    Mechanism,
    OwnKey,
    SampledIndex,
    SignedResponse,
    SignedUnary,
    UeSw,
)
from keyveil.mechanisms.channel import share

Floats = NDArray[np.float64]

# The share of devices that a release reckons with.
HOSTILE_SHARE = 0.01


class Statement(NamedTuple):
    """What a report says of one key: how often it is heard, and how often with + rather than -."""

    heard: float
    sign: float


SILENT, UP, DOWN, UNSIGNED = Statement(0, 0), Statement(1, 1), Statement(1, -1), Statement(1, 0)


class Shift(NamedTuple):
    """How far a key can be moved, downwards and upwards; means on the scale [-1, 1], or NaN."""

    frequency_down: Floats
    frequency_up: Floats
    mean_down: Floats
    mean_up: Floats

    @property
    def frequency(self) -> Floats:
        """The larger of both."""
        return np.maximum(self.frequency_down, self.frequency_up)

    @property
    def mean(self) -> Floats:
        """The larger of both."""
        return np.maximum(self.mean_down, self.mean_up)


class Pull(Protocol):
    """What a share of hostile devices can do to estimates."""

    def shift(self, frequency: Floats, mean: Floats, share: float) -> Shift:
        """How far each key moves that the others estimate like this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lever:
    """A mechanism's estimator as one report pulls at it.

    >>> from keyveil.mechanisms import build
    >>> pull = lever(build("pckv-ue", 1, n_keys=100))
    >>> pull.shift(np.array([0.1]), np.array([0.0]), 0.01).frequency_up.round(4).tolist()
    [0.0423]
    """

    weight: float
    """What a report that is heard adds to a frequency, over one that is silent."""
    floor: float
    """What a silent report adds: never positive."""
    signed: float | None = None
    """What a sign adds to what a mean is divided from; None where a mean is not linear, or not estimated."""
    mean_weight: float = 1.0
    mean_floor: float = 0.0
    """What a mean is divided by: heard * mean_weight + mean_floor."""
    says: tuple[Statement, ...]
    asked: float = 1.0
    """How much of an honest crowd is asked about a key where liars can see to it that they are; else 1."""
    echo: float = 0.0
    """How much further a key moves because others do, where estimates are corrected for each other."""

    def of_report(self, said: Statement) -> float:
        """w_f of a report that says this."""
        return said.heard * self.weight + self.floor

    def focus(self, share: float) -> float:
        """The share of hostile reports among those that are asked about one key, if all of them are.

        >>> from keyveil.mechanisms import build
        >>> round(lever(build("kvue", 1, n_keys=100)).focus(0.01), 3)
        0.503
        """
        check_share(share)
        return share / (share + (1 - share) * self.asked)

    def within(self, group: float) -> Lever:
        """The same where only a group is asked: a device draws its own place, and liars may draw this one."""
        return replace(self, asked=self.asked * group)

    def shift(self, frequency: Floats, mean: Floats, share: float) -> Shift:
        """How far a share of hostile devices moves a key that the others estimate like this.

        Exact for the estimates that the honest devices alone give; noise comes on top. Means are given as
        they are estimated and move within [-1, 1], where they are cut; one that is NaN counts as 0.
        """
        part = self.focus(share)
        frequency, mean = np.asarray(frequency, dtype=float), np.nan_to_num(np.asarray(mean, dtype=float))
        cut = np.clip(mean, -1.0, 1.0)
        ends = np.array([part * (self.of_report(said) - frequency) for said in self.says])
        means = self._means(frequency, mean, part)
        down, up = cut - means.min(axis=0), means.max(axis=0) - cut
        further = 1 + self.echo
        return Shift(
            -further * ends.min(axis=0),
            further * ends.max(axis=0),
            np.minimum(further * down, 1 + cut),
            np.minimum(further * up, 1 - cut),
        )

    def plan(self, frequency: float, mean: float, share: float, *, up: bool) -> tuple[Statement, float]:
        """What hostile reports say to move a mean furthest, and which part of those asked says it.

        Not always all of them: what takes a key's last holders away leaves no mean to be moved.
        """
        parts = np.linspace(0.0, self.focus(share), 400)[1:]
        divisor, signed = self._divisor(np.full(parts.size, frequency)), self.signed or 0.0
        far = []
        for said in self.says:
            below, above = self._mixed(divisor, mean * divisor, said, signed, parts)
            ratio = np.clip(above / np.where(below > 0, below, 1.0), -1.0, 1.0)
            far.append(np.where(below > 0, ratio if up else -ratio, -np.inf))
        best, place = np.unravel_index(int(np.argmax(far)), (len(far), parts.size))
        return self.says[int(best)], float(parts[int(place)])

    def _divisor(self, frequency: Floats) -> Floats:
        """What an honest crowd's mean is divided by."""
        return (frequency - self.floor) / self.weight * self.mean_weight + self.mean_floor

    def _mixed(
        self, divisor: Floats, sums: Floats, said: Statement, signed: float, part: Floats | float
    ) -> tuple[Floats, Floats]:
        """Divisor and sum of signs once a part says this."""
        below = (1 - part) * divisor + part * (said.heard * self.mean_weight + self.mean_floor)
        return below, (1 - part) * sums + part * said.sign * signed

    def _means(self, frequency: Floats, mean: Floats, part: float) -> Floats:
        """What the mean can become: one row for everything that can be said, and for nothing."""
        if self.signed is None:
            return np.full((1, *np.shape(frequency)), np.nan)
        divisor = self._divisor(frequency)
        sums, found = mean * divisor, [np.clip(mean, -1.0, 1.0)]
        for said in self.says:
            below, above = self._mixed(divisor, sums, said, self.signed, part)
            held = below > 0
            # Where no holder is left, the mean ran to an end on the way: to the one of the signs there were.
            shrunk = divisor - below
            gone = np.where(shrunk > 0, part * divisor / np.where(shrunk > 0, shrunk, 1.0), 0.0)
            end = np.where(self._mixed(divisor, sums, said, self.signed, gone)[1] >= 0, 1.0, -1.0)
            found.append(np.where(held, np.clip(above / np.where(held, below, 1.0), -1.0, 1.0), end))
        # A key without holders to begin with has no mean: any may come out.
        nobody = divisor <= 0
        return np.array([*found, *(np.where(nobody, end, found[0]) for end in (-1.0, 1.0))])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levers:
    """Two rounds that tell of different keys: `first` of those in `here`, `second` of all others."""

    here: NDArray[np.bool_]
    first: Lever
    second: Lever

    def shift(self, frequency: Floats, mean: Floats, share: float) -> Shift:
        """Each key's own, if all hostile devices join the round that tells of it."""
        one, other = (each.shift(frequency, mean, share) for each in (self.first, self.second))
        return Shift(*(np.where(self.here, x, y) for x, y in zip(one, other, strict=True)))


class Bend(Protocol):
    """An increasing function of every key's estimate, and back."""

    def share(self, frequency: Floats) -> Floats:
        """What was estimated, where this is what it became."""

    def frequency(self, share: Floats) -> Floats:
        """What an estimate becomes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TransformedLever:
    """A lever whose estimates went through an increasing function: ends stay ends."""

    lever: Pull
    bend: Bend

    def shift(self, frequency: Floats, mean: Floats, share: float) -> Shift:
        """How far the function's values move."""
        cut = self.bend.share(frequency)
        moved = self.lever.shift(cut, mean, share)
        down = frequency - self.bend.frequency(cut - moved.frequency_down)
        up = self.bend.frequency(cut + moved.frequency_up) - frequency
        return moved._replace(frequency_down=down, frequency_up=up)


def check_share(share: float) -> None:
    """Refuse what is no share of devices."""
    if not 0 < share < 1:
        raise MechanismError(f"the hostile share must lie between 0 and 1, got {share:g}")


@singledispatch
def lever(mechanism: object) -> Lever:
    """The lever of a mechanism. Where ids are not handed out, liars choose their index, and try for hashes.

    >>> from keyveil.mechanisms import build
    >>> chosen = build("kvue", 1, n_keys=100)
    >>> rare = np.array([0.01]), np.zeros(1), 0.01
    >>> [lever(m).shift(*rare).frequency_up.round(4).item() for m in (chosen, chosen.with_issued_ids())]
    [0.7899, 0.0157]
    """
    raise MechanismError(
        f"no poisoning is defined for {type(mechanism).__name__}: it speaks of no single key"
    )


def _debiased(
    mechanism: SignedUnary | SignedResponse | SampledIndex | Bucket | Levels, says: list[Statement]
) -> Lever:
    """Whoever debiases frequency and sign says by that how much a report weighs."""
    floor, _ = mechanism.debias(0.0, 0.0, 1.0)
    one, signed = mechanism.debias(1.0, 0.0, 1.0)
    return Lever(
        weight=one - floor,
        floor=floor,
        signed=signed or None,
        mean_weight=one - floor,
        mean_floor=floor,
        says=tuple(says),
        asked=1.0 if mechanism.issued else mechanism.expected_asked(1.0),
    )


def share_lever(mechanism: Mechanism, asked: float = 1.0) -> Lever:
    """Frequencies alone; `asked` of an honest crowd are asked about a key."""
    a, b, l = float(mechanism.a), float(mechanism.b), mechanism.pairs_per_user
    floor = share(a, b, 0.0, 1.0, l)
    asked = 1.0 if mechanism.issued else asked
    return Lever(weight=share(a, b, 1.0, 1.0, l) - floor, floor=floor, says=(SILENT, UNSIGNED), asked=asked)


@lever.register
def _(mechanism: SignedUnary) -> Lever:
    return _debiased(mechanism, [SILENT, UP, DOWN])


@lever.register
def _(mechanism: SignedResponse) -> Lever:
    return _debiased(mechanism, [SILENT, UP, DOWN])


@lever.register
def _(mechanism: SampledIndex) -> Lever:
    return _debiased(mechanism, [SILENT, UP, DOWN])


@lever.register
def _(mechanism: Levels) -> Lever:
    # Levels in between lie between these.
    return _debiased(mechanism, [SILENT, UP, DOWN])


@lever.register
def _(mechanism: Bucket) -> Lever:
    g, rho = mechanism.buckets, float(mechanism.rho)
    tied = rho + (1 - rho) / g
    if not mechanism.issued:
        says = [SILENT] if g > 2 or tied > 0 else []
        says += [UP, DOWN] if tied < 1 else []
        says += [Statement(2, 0)] if tied > 0 else []
    else:
        # Where the signs share a bucket a report speaks for both or for neither; two buckets leave no third.
        says = [SILENT] if g > 2 else []
        says += [Statement(1 + way * tied, sign * (1 - tied)) for way in (1, -1) for sign in (1, -1)]
    return _debiased(mechanism, says)


@lever.register
def _(mechanism: IndexedBoundary) -> Lever:
    return share_lever(mechanism, 1 / mechanism.n_keys)


@lever.register
def _(mechanism: UeSw) -> Lever:
    return share_lever(mechanism)


@lever.register
def _(mechanism: EncodedOracle) -> Lever:
    if not isinstance(mechanism.encoder, OwnKey):
        raise MechanismError(
            f"no poisoning is defined for {type(mechanism.encoder).__name__}: it speaks of no single key"
        )
    return share_lever(mechanism)
