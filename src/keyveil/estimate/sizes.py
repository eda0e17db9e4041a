"""How many pairs users hold, and what cutting records to l of them does to frequencies.

A record of s pairs cut to l keeps each with chance min(1, l/s), so what is estimated is a truncated
share F, not the frequency f. The size law p(s), learnt from a small group, tells the one from the
other if popular keys are popular with everybody: a user of s pairs holds key k with chance
1 - exp(-s w_k). Then

    f(w) = sum_s p(s) (1 - exp(-s w)),      F(w) = sum_s p(s) min(1, l/s) (1 - exp(-s w)),

both increasing in w: f is a table in F. Real records stray from the model: people with few pairs may
hold the popular keys. `strength` is how much of the modelled truncation is really seen, learnt from
another small group. What stays wrong is about three tenths of what truncation takes away.

No model is needed to bound it. Whatever tastes are, P(k | s) lies in [0, 1], and what is not heard of k is

    f - F = sum_s p(s) P(k | s) (1 - min(1, l/s)),    where    F = sum_s p(s) P(k | s) min(1, l/s):

at most what it is if the longest records hold k, as many of them as F has room for. `unheard` is that bound:
0 at F = 0, rising and concave, and never more than the share of records' parts that are cut. It is never
below 0, so F bounds f from below. Intervals rely on it, with the longest records that answers about sizes
do not contradict (`SizeLaw.longest`), and whoever chooses l weighs it (`left_out`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keyveil.estimate.distribution import Windowed, project
from keyveil.mechanisms import PopularSize, SizeClass, Wave
from keyveil.mechanisms.channel import share
from keyveil.mechanisms.oracles import Oracle
from keyveil.tally import Tally

Floats = NDArray[np.float64]

# What share of the truncated part the size model does not bring back: read off MovieLens-100K, where the
# model left .060, .030 and .007 of a top key's frequency at l = 50, 100, 200 (docs/decisions/0005).
UNMODELLED = 0.3
# What of a law is spread evenly before it moves: no step brings back a class of none.
_SPARE = 0.001
# The likeliest law has settled where no share moves by more than this in a step, or after so many.
_SETTLED, _MOST_STEPS = 1e-6, 2000
# Steps of another law, and of the multiple of what is sought: a hundredth of a standard error is missed.
_STEPS, _HALVINGS = 120, 16
# A class of fewer users than this is as good as empty.
_LEAST_SHARE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeModel:
    """The tuned numbers of sizes and truncation; `bench/tuning.py` shows what each of them changes."""

    every: int = 6
    """Sizes up to this one are classes of their own: what truncation takes depends most on small ones."""
    wider: float = 0.35
    """Above it each class begins this much later: what a cut keeps of its sizes differs by no more."""
    resolved: float = 0.0
    """Sizes up to this part of e**epsilon are classes of their own, too, if so many classes are enough: up to
    so many randomized response keeps most of its answers. 0: budgets change no class."""
    steepest: float = 0.0
    """Within a class the density of sizes goes on as between its neighbours, by at most e to this power from
    end to end. 0: the geometric middle stands for a class, whatever its neighbours are."""
    tail: float = 2.0
    """Beyond the sizes that are expected each class begins this many times later: few hold so much."""
    expected_users: float = 10.0
    """As many users as would have said what is expected: a small group's own answers are worth no more."""
    beyond: float = 0.5
    """How much further than its start the last class, which is open, is taken to reach."""
    mean_error: float = 2.0
    """The error of the mean size, in errors of as many binary answers: classes share their noise."""
    least_spread: float = 0.1
    """Sizes are never taken to be more alike than this: equal ones in a small group prove nothing."""
    unmodelled: float = UNMODELLED
    """The part of what truncation takes that intervals of whole records allow for, as a standard error."""
    strength: float = 0.8
    """How much of the modelled truncation is expected before anybody was asked, and"""
    strength_error: float = 0.4
    """how far that may be off: neither 0 (everybody holds the popular keys) nor 1.5 is out of reach."""
    most_strength: float = 1.5
    """No more truncation than this is believed: above it noise is likelier than such tastes."""
    most_heard: float = math.inf
    """Of those who checked no more are believed to be in a class than this many times its share of the users:
    who answers that popular keys are held is one of them, and classes where nobody is hold only noise."""
    least_kept: float = 0.05
    """No smaller part of popular pairs is believed to be kept: noise may say 0, which has no logarithm."""

    def resolves(self, epsilon: float) -> int:
        """Up to so many classes answers at this budget keep apart."""
        return int(self.resolved * math.exp(epsilon))


SIZE_MODEL = SizeModel()


def size_classes(largest: int, model: SizeModel = SIZE_MODEL) -> tuple[int, ...]:
    """Where classes of sizes start: every small size, then steps of about a third.

    >>> size_classes(30)
    (0, 1, 2, 3, 4, 5, 6, 8, 11, 15, 20, 27)
    """
    starts = list(range(min(largest, model.every) + 1))
    # A class is about a third wide: no other is needed once one reaches the largest size.
    while starts[-1] * 4 // 3 < largest and starts[-1] >= model.every:
        starts.append(max(starts[-1] + 1, math.ceil(starts[-1] * (1 + model.wider) - 0.5)))
    return tuple(start for start in starts if start <= largest)


def with_tail(starts: tuple[int, ...], largest: int, model: SizeModel = SIZE_MODEL) -> tuple[int, ...]:
    """The same classes and a few of the sizes beyond them, up to about `largest`.

    >>> with_tail((0, 1, 2, 4), 40)
    (0, 1, 2, 4, 8, 16, 32)
    """
    longer = list(starts)
    while starts[-1] and longer[-1] * model.tail <= largest:
        longer.append(max(longer[-1] + 1, math.ceil(longer[-1] * model.tail)))
    return tuple(longer)


def class_ends(starts: tuple[int, ...], model: SizeModel = SIZE_MODEL) -> Floats:
    """The largest size of each class; the last is taken to reach half as far again.

    >>> class_ends((0, 1, 2, 4)).tolist()
    [0.0, 1.0, 3.0, 6.0]
    """
    return np.array([*(start - 1.0 for start in starts[1:]), float(int(starts[-1] * (1 + model.beyond)))])


def class_middles(starts: tuple[int, ...], model: SizeModel = SIZE_MODEL) -> Floats:
    """The size that stands for each class: the geometric middle."""
    middles: Floats = np.sqrt(np.array(starts) * class_ends(starts, model))
    return middles


def class_means(starts: tuple[int, ...], ends: Floats, shares: Floats, steepest: float) -> Floats:
    """The mean size of each class, if its density goes on as between its neighbours.

    >>> starts, ends = (0, 1, 2, 4, 8), np.array([0.0, 1.0, 3.0, 7.0, 15.0])
    >>> class_means(starts, ends, np.array([0.1, 0.4, 0.4, 0.09, 0.01]), 4.0).round(2).tolist()
    [0.0, 1.0, 2.37, 4.77, 9.44]
    """
    first = np.array(starts, dtype=np.float64)
    width = ends - first + 1
    density = np.log(np.maximum(shares, _LEAST_SHARE) / width)
    slopes = np.gradient(density, (first + ends) / 2) if first.size > 1 else np.zeros(1)
    means = first.copy()
    for place in np.flatnonzero(width > 1):
        sizes = np.arange(first[place], ends[place] + 1)
        most = steepest / width[place]
        weight = np.exp(np.clip(slopes[place], -most, most) * (sizes - first[place]))
        means[place] = sizes @ weight / weight.sum()
    return means


class SizeAnswers(NamedTuple):
    """What a group answered about its sizes: more than the likeliest law fits it."""

    response: Floats
    """The chance of each output (rows) for users of each class (columns)."""
    outputs: Floats
    """How often each came."""
    ends: Floats
    """The largest size of each class."""

    def likeliest(self, prior: Floats) -> Floats:
        """The law that fits best, by expectation-maximisation, with so many users of each class beside it."""
        law = np.full(self.ends.size, 1.0 / self.ends.size)
        for _ in range(_MOST_STEPS):
            before = law
            law = law * (self.response.T @ (self.outputs / (self.response @ law))) + prior
            law = law / law.sum()
            if np.abs(law - before).max() <= _SETTLED:
                break
        return law

    def furthest(self, shares: Floats, gain: Floats, z: float) -> Floats:
        """The law with the most `gain` that lies no more than z standard errors from the likeliest, `shares`.

        That is where twice the logarithm of the likelihood has fallen by z**2. Law and gain rise together
        under steps of expectation-maximisation for the likelihood plus a multiple of the gain, and the
        multiple is found by halving.
        """
        start = (1 - _SPARE) * shares + _SPARE / shares.size
        most = float(self.outputs @ np.log(self.response @ start)) - z**2 / 2

        def reached(weight: float) -> tuple[Floats, bool]:
            law = start
            for _ in range(_STEPS):
                law = law * (self.response.T @ (self.outputs / (self.response @ law)) + weight * gain)
                law = law / law.sum()
            return law, float(self.outputs @ np.log(self.response @ law)) >= most

        low, high = 0.0, float(self.outputs.sum())
        law, is_near = reached(high)
        if is_near:
            return law
        law = start
        for _ in range(_HALVINGS):
            tried, is_near = reached((low + high) / 2)
            if is_near:
                law, low = tried, (low + high) / 2
            else:
                high = (low + high) / 2
        return law


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SizeLaw:
    """Typical sizes and the share of users who hold about that many pairs."""

    sizes: Floats
    shares: Floats
    mean_error: float = 0.0
    """How far the mean may be off, where it was estimated."""
    answers: SizeAnswers | None = None
    """What it was estimated from."""

    @classmethod
    def exactly(cls, size: float) -> SizeLaw:
        """Everybody holds so many."""
        return cls(sizes=np.array([float(size)]), shares=np.ones(1))

    @classmethod
    def of(cls, sizes: NDArray[np.int64]) -> SizeLaw:
        """The law of known sizes, for simulation and planning."""
        counts = np.bincount(sizes)
        held = np.flatnonzero(counts)
        return cls(sizes=held.astype(float), shares=counts[held] / counts.sum())

    @classmethod
    def from_answers(
        cls,
        classes: SizeClass,
        oracle: Oracle,
        tally: Tally,
        model: SizeModel = SIZE_MODEL,
        *,
        expected: float | None = None,
    ) -> SizeLaw:
        """From answers about sizes in classes: the likeliest law, or a projection where nothing is expected.

        Where a mean size is `expected`, a few users of exponential sizes count as if they had answered:
        noise in a small group puts people where nobody is, and a few of the longest weigh much. Classes are
        few and unlike each other, so nothing is smoothed: that would move the mean.
        """
        ends = class_ends(classes.starts, model)
        # The last class is open: a record may hold every key.
        ends[-1] = max(ends[-1], float(classes.n_keys))
        if isinstance(oracle, Wave):
            response, outputs = response_table(oracle.response), tally.cells["outputs"].astype(float)
        else:
            a, b, outputs = float(oracle.a), float(oracle.b), tally.cells["support"].astype(float)
            response = b + (a - b) * np.eye(outputs.size)
        answers = SizeAnswers(response, outputs, ends)
        if expected is None and not isinstance(oracle, Wave):
            shares = project(share(a, b, outputs, tally.n_reports), 1.0)
        else:
            shares = answers.likeliest(model.expected_users * _exponential(classes.starts, expected))
        # A multiple of what as many binary answers about the mean would leave unknown; an order of magnitude.
        if model.steepest:
            most = np.minimum(class_ends(classes.starts, model), float(classes.n_keys))
            sizes = class_means(classes.starts, most, shares, model.steepest)
        else:
            sizes = class_middles(classes.starts, model)
        spread = float(np.sqrt(shares @ (sizes - shares @ sizes) ** 2)) + model.least_spread
        odds = float(oracle.loss)
        error = model.mean_error * spread * (odds + 1) / (odds - 1) / math.sqrt(tally.n_reports)
        return cls(sizes=sizes, shares=shares, mean_error=error, answers=answers)

    def longest(self, l: int, z: float) -> SizeLaw:
        """The law of longest records, as a cut to l sees them, that the answers do not contradict.

        Records are as long as their classes allow. Where sizes are known it is the law itself.
        """
        if self.answers is None:
            return self
        ends = self.answers.ends
        gain = np.maximum(0.0, 1 - l / np.maximum(ends, 1.0))
        return SizeLaw(sizes=ends, shares=self.answers.furthest(self.shares, gain, z))

    @property
    def mean(self) -> float:
        """Pairs per user."""
        return float(self.shares @ self.sizes)

    def kept(self, l: int) -> float:
        """Pairs per user that are left when records are cut to l."""
        return float(self.shares @ np.minimum(self.sizes, l))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Truncation:
    """From frequencies to truncated shares and back.

    >>> cut = Truncation(law=SizeLaw.exactly(10), l=5)
    >>> cut.share(np.array([0.4])).round(3).tolist(), cut.frequency(np.array([0.2, -0.1])).round(3).tolist()
    ([0.2], [0.4, -0.2])
    """

    law: SizeLaw
    l: int
    strength: float = 1.0
    """How much of the model's truncation popular keys really show: 1 as modelled, 0 none."""

    @property
    def is_idle(self) -> bool:
        """Whether no record is longer than l."""
        return bool(self.law.sizes[self.law.shares > 0].max(initial=0.0) <= self.l)

    def _table(self) -> tuple[Floats, Floats]:
        weight = np.concatenate([[0.0], np.geomspace(1e-8, 20.0, 400)])
        holds = -np.expm1(-weight[:, None] * self.law.sizes)
        kept = np.minimum(1.0, self.l / np.maximum(self.law.sizes, 1.0))
        whole, cut = holds @ self.law.shares, holds @ (self.law.shares * kept)
        if self.strength != 1.0:
            cut = whole * np.divide(cut, whole, out=np.ones_like(cut), where=whole > 0) ** self.strength
        return whole, cut

    def share(self, frequency: Floats) -> Floats:
        """The truncated share of a frequency."""
        whole, cut = self._table()
        return _through(frequency, whole, cut)

    def frequency(self, share: Floats) -> Floats:
        """The frequency behind a truncated share; negative estimates go on in a straight line."""
        whole, cut = self._table()
        return _through(share, cut, whole)

    def checked(
        self,
        asked: PopularSize,
        oracle: Oracle,
        tally: Tally,
        shares: Floats,
        model: SizeModel = SIZE_MODEL,
    ) -> Truncation:
        """The same with the strength that holders of popular keys answered with; `shares` are of all keys.

        What was answered is weighed against what was expected, each by its error.
        """
        a, b, n = float(oracle.a), float(oracle.b), tally.n_reports
        heard = share(a, b, tally.cells["support"], n)[1:]
        doubts = np.full(heard.size, b * (1 - b) / n / (a - b) ** 2)
        kept = np.minimum(1.0, self.l / np.maximum(class_middles(asked.starts, model), 1.0))
        if model.most_heard < math.inf:
            users, kept = self._in_classes(asked.starts, kept)
            heard = np.clip(heard, 0.0, model.most_heard * users)
            doubts = np.minimum(doubts, (model.most_heard * users) ** 2)
        kept[0] = 1.0
        whole = float(heard.sum())
        frequency = self.frequency(np.maximum(shares[list(asked.popular)], 0.0))
        modelled = float(self.share(frequency).sum() / max(frequency.sum(), 1e-12))
        guess, doubt = model.strength, model.strength_error
        # Where next to nothing is cut its logarithm divides by 0, and any strength means the same.
        if whole <= 0 or modelled >= 0.999:
            return replace(self, strength=guess)
        found = min(1.0, max(model.least_kept, float(heard @ kept) / whole))
        error = math.sqrt(float(doubts @ (kept - found) ** 2)) / whole
        strength = math.log(found) / math.log(modelled)
        found_error = error / (found * abs(math.log(modelled)))
        weight = doubt**2 / (doubt**2 + found_error**2)
        believed = weight * strength + (1 - weight) * guess
        return replace(self, strength=min(model.most_strength, max(0.0, believed)))

    def _in_classes(self, starts: tuple[int, ...], kept: Floats) -> tuple[Floats, Floats]:
        """The users in each class and what a cut keeps of their records; as given, where there are none."""
        place = np.clip(np.searchsorted(np.array(starts), self.law.sizes, side="right") - 1, 0, None)
        users = np.bincount(place, weights=self.law.shares, minlength=len(starts)).astype(float)
        each = np.minimum(1.0, self.l / np.maximum(self.law.sizes, 1.0))
        sums = np.bincount(place, weights=self.law.shares * each, minlength=len(starts))
        return users, np.where(users > 0, sums / np.where(users > 0, users, 1.0), kept)

    def left_out(self, frequency: Floats, unmodelled: float = UNMODELLED, worst: float = 0.0) -> Floats:
        """The error that is likely to stay at a frequency, whatever the number of users.

        A part of what the model takes away, or, the more `worst` is, of what may be.
        """
        share = self.share(frequency)
        modelled = np.maximum(0.0, frequency - share)
        if not worst:
            return unmodelled * modelled
        return unmodelled * ((1 - worst) * modelled + worst * self.unheard().most(share))

    def unheard(self, z: float | None = None) -> Unheard:
        """What cutting may hide of a key, whatever tastes are; of the longest records within z errors."""
        law = self.law if z is None else self.law.longest(self.l, z)
        order = np.argsort(-law.sizes)
        kept = np.minimum(1.0, self.l / np.maximum(law.sizes[order], 1.0))
        shares = law.shares[order]
        cut = kept < 1
        return Unheard(
            heard=np.concatenate([[0.0], np.cumsum(shares[cut] * kept[cut])]),
            hidden=np.concatenate([[0.0], np.cumsum(shares[cut] * (1 - kept[cut]))]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unheard:
    """How much of a key's frequency cutting may hide, by the share that is heard: the longest records first.

    >>> cut = Truncation(law=SizeLaw(sizes=np.array([2.0, 10.0]), shares=np.array([0.8, 0.2])), l=5)
    >>> cut.unheard().most(np.array([-0.1, 0.05, 0.1, 0.5])).round(3).tolist()
    [0.0, 0.05, 0.1, 0.1]
    """

    heard: Floats
    hidden: Floats

    def most(self, share: Floats) -> Floats:
        """At most so much is hidden of a key of which this share is heard."""
        most: Floats = np.interp(share, self.heard, self.hidden)
        return most

    def part(self, share: Floats) -> Floats:
        """At most this part of the holders of a key of which this share, or more, is heard was not heard.

        >>> whole = Unheard(heard=np.array([0.0, 0.1]), hidden=np.array([0.0, 0.1]))
        >>> whole.part(np.array([0.0, 0.05, 0.3])).round(3).tolist()
        [1.0, 0.5, 0.25]
        """
        hidden = self.most(share)
        known = share > 0
        return np.where(known, hidden / np.where(known, share + hidden, 1.0), 1.0)


def response_table(channel: Windowed) -> Floats:
    """The chance of each output (rows) for each input (columns)."""
    window = channel.window
    table = np.full((window.n_out, window.n_in), float(channel.far))
    for place in range(window.n_in):
        table[window.step * place : window.step * place + window.width, place] = channel.near
    shares: Floats = table / table.sum(axis=0)
    return shares


def _exponential(starts: tuple[int, ...], mean: float | None) -> Floats:
    """The shares of exponential sizes, to whole numbers, that lie in each class; none where no mean is known.

    >>> _exponential((0, 1, 2, 8), 2.0).round(2).tolist()
    [0.22, 0.31, 0.45, 0.02]
    """
    if mean is None:
        return np.zeros(len(starts))
    above = np.append(np.exp(-np.maximum(np.array(starts) - 0.5, 0.0) / mean), 0.0)
    return -np.diff(above)


def slope(frequency: Callable[[Floats], Floats], share: Floats, step: Floats) -> Floats:
    """How much a frequency grows with its truncated share, between a step below and a step above."""
    return (frequency(share + step) - frequency(share - step)) / (2 * step)


def _through(values: Floats, start: Floats, end: Floats) -> Floats:
    """Linear between the table's points, a straight line through 0 below, its last slope above."""
    slope = end[1] / start[1] if start[1] > 0 else 1.0
    beyond = end[-1] / start[-1] if start[-1] > 0 else 1.0
    inside = np.interp(values, start, end)
    return np.where(values < start[1], values * slope, np.where(values > start[-1], values * beyond, inside))
