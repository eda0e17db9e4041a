"""Segments side by side and keys held together: variances, alarms and coverage, with twins that fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keyveil.domain import Labelled, Pairs
from keyveil.errors import DomainError
from keyveil.estimate import estimate
from keyveil.estimate.breakdowns import (
    Cells,
    between,
    by_segment,
    from_whole,
    most_different,
    of_all,
    pairs_together,
    represent,
    segment_shares,
    towards_whole,
    weights_of,
)
from keyveil.mechanisms import Bucket
from keyveil.simulate import draw_tally, insecure_generator
from keyveil.simulate.breakdowns import crossed, in_segments, with_tastes

RUNS = 400


def normal_table(rng: np.random.Generator, truth: np.ndarray, noise: np.ndarray, users: np.ndarray) -> Cells:
    """Cells around their truth."""
    return Cells.of_arrays(truth + noise * rng.standard_normal(truth.shape), noise, users)


def at_most(rate: float, runs: int = RUNS) -> float:
    """What a rate is seen as at most, five standard errors above it."""
    return rate + 5 * np.sqrt(rate * (1 - rate) / runs)


def test_contrasts_are_the_sums_that_they_say():
    """Estimate, variance and third moment against the plain sum over cells."""
    rng = insecure_generator(1)
    value, error, skewness = rng.random((3, 4, 3))
    value[1, 2] = np.nan
    cells = Cells.of_arrays(value, error, users=[10, 20, 30, 40], skewness=skewness)
    found, (pairs, apart) = from_whole(cells), between(cells)
    for key in range(3):
        known = np.flatnonzero(cells.known[:, key])
        share = cells.users * cells.known[:, key] / cells.users[known].sum()
        rows = [(s, np.eye(4)[s] - share) for s in known]
        rows += [(p + 4, np.eye(4)[a] - np.eye(4)[b]) for p, (a, b) in enumerate(pairs) if {a, b} <= {*known}]
        for place, weights in rows:
            made = found if place < 4 else apart
            at = place % 4 if place < 4 else place - 4
            assert made.estimate[at, key] == pytest.approx(weights[known] @ value[known, key])
            variance = weights[known] ** 2 @ error[known, key] ** 2
            assert made.standard_error[at, key] == pytest.approx(np.sqrt(variance))
            third = np.abs(weights[known]) ** 3 @ (skewness[known, key] * error[known, key] ** 3)
            assert made.skewness[at, key] == pytest.approx(third / variance**1.5)
    assert np.isnan(found.estimate[1, 2])


def test_one_segment_differs_from_nothing():
    alone = Cells.of_arrays([[0.2]], [[0.1]], users=[100])
    assert not most_different(alone)
    assert np.isnan(from_whole(alone).estimate).all()
    with pytest.raises(DomainError, match="no other"):
        between(alone)


def test_a_table_without_differences_has_a_false_alarm_as_rarely_as_stated():
    rng, noise, users = insecure_generator(2), np.full((5, 40), 0.02), np.array([1.0, 1, 2, 3, 9])
    tables = [normal_table(rng, np.full((5, 40), 0.2), noise, users) for _ in range(RUNS)]
    assert np.mean([bool(most_different(cells)) for cells in tables]) <= at_most(0.05)
    # One by one, somewhere something looks different.
    alone = [from_whole(cells).interval() for cells in tables]
    assert np.mean([bool(((low > 0) | (high < 0)).any()) for low, high in alone]) > at_most(0.05)


def test_sums_of_few_reports_are_allowed_their_skewness():
    """Counts of six expected reports: far out their tail is heavier than a normal one."""
    rng, mean, shape, users = insecure_generator(3), 6.0, (8, 250), np.ones(8)
    alarms = np.zeros(2)
    for _ in range(RUNS):
        counts = rng.poisson(mean, shape)
        cells = Cells.of_arrays(counts, np.full(shape, np.sqrt(mean)), users, skewness=1 / np.sqrt(mean))
        normal = replace(cells, skewness=np.zeros(shape))
        alarms += bool(most_different(cells)), bool(most_different(normal))
    assert alarms[0] / RUNS <= at_most(0.05)
    assert alarms[1] / RUNS > at_most(0.05)


def test_pulled_cells_hold_the_truth_and_miss_by_less():
    rng, noise, users = insecure_generator(4), np.full((6, 60), 0.01), np.ones(6)
    inside, naive, gain = [], [], []
    for _ in range(60):
        whole = rng.uniform(0.02, 0.2, 60)
        truth = whole * (1 + 0.2 * rng.standard_normal((6, 60)))
        cells = normal_table(rng, truth, noise, users)
        pulled = towards_whole(cells)
        low, high = pulled.interval()
        inside.append(((low <= truth) & (truth <= high)).mean())
        low, high = cells.whole.interval()
        naive.append(((low <= truth) & (truth <= high)).mean())
        gain.append(((pulled.estimate - truth) ** 2).mean() / ((cells.estimate - truth) ** 2).mean())
    slack = 5 * np.std(inside) / np.sqrt(len(inside))
    assert 0.93 - slack < np.mean(inside) < 0.97 + slack
    assert np.mean(gain) < 0.9
    # What pulls all the way says far too much.
    assert np.mean(naive) < 0.8


def test_totals_by_the_shares_of_reports_are_the_whole():
    rng = insecure_generator(5)
    people, labels = in_segments(
        shares=np.array([0.7, 0.3]),
        frequency=np.array([[0.3, 0.1], [0.1, 0.4]]),
        mean=np.array([[0.5, -0.5], [0.0, 0.0]]),
        users=300_000,
    )
    mechanism = Bucket.for_epsilon(2, n_keys=2, pairs_per_user=2)
    segments = [
        estimate(mechanism, draw_tally(mechanism, people.take(np.flatnonzero(labels == s)), rng))
        for s in (0, 1)
    ]
    users = np.array([segment.n_reports for segment in segments])
    total, cells = represent(segments, users / users.sum()), Cells.of_frequencies(segments)
    assert total.frequency == pytest.approx(cells.whole.estimate[0])
    assert total.frequency_se == pytest.approx(cells.whole.standard_error[0])
    even = represent(segments, weights_of(["a", "b"], {"a": 5, "b": 5}))
    assert even.frequency == pytest.approx((segments[0].frequency + segments[1].frequency) / 2)
    assert np.all(np.abs(even.frequency - [0.2, 0.25]) < 5 * even.frequency_se)
    # Everybody counts alike where nothing is known of the population, and that is another number.
    assert np.any(np.abs(total.frequency - [0.2, 0.25]) > 5 * total.frequency_se)


@pytest.mark.parametrize("sizes", [{"a": 1}, {"a": 1, "b": 1, "c": 1}, {"a": -1, "b": 2}, {"a": 0, "b": 0}])
def test_sizes_that_say_nothing_are_refused(sizes):
    with pytest.raises(DomainError):
        weights_of(["a", "b"], sizes)


def test_what_two_codes_of_a_pair_have_in_common_is_known():
    """Variances and covariances of the shares of a pair and its keys, of many tallies of the same people."""
    people = with_tastes(users=1200, keys=3, pairs_per_user=2, tastes=2, seed=1)
    crossing = Pairs.among(range(3))
    over = crossed(people, crossing)
    mechanism = Bucket.for_epsilon(6, n_keys=crossing.n_codes, pairs_per_user=crossing.length(2))
    rng, seen, said = insecure_generator(6), [], []
    for _ in range(2500):
        found = pairs_together(estimate(mechanism, draw_tally(mechanism, over, rng)), crossing)
        seen.append(np.stack([found.both, found.first, found.second]))
        said.append(found.variance)
    drawn = np.array(seen)
    truth = over.frequency()
    assert drawn[:, 0].mean(axis=0) == pytest.approx(
        truth[3::2], abs=5 * drawn[:, 0].std() / np.sqrt(len(drawn))
    )
    for pair, (a, b) in enumerate(crossing.held):
        held, first, second = truth[3 + 2 * pair], truth[a], truth[b]
        # People are the same in all of them: what the draw adds is taken off.
        of_draw = np.array(
            [
                [held * (1 - held), held * (1 - first), held * (1 - second)],
                [held * (1 - first), first * (1 - first), held - first * second],
                [held * (1 - second), held - first * second, second * (1 - second)],
            ]
        )
        wanted = np.mean(said, axis=0)[pair] - of_draw / people.n_users
        found = np.cov(drawn[:, :, pair].T)
        error = np.sqrt((np.outer(np.diag(found), np.diag(found)) + found**2) / len(drawn))
        assert np.all(np.abs(found - wanted) < 5 * error)
        # Two looks at one share are not independent: without what they have in common this fails.
        alone = wanted[0, 0] + mechanism.moments.together * held / people.n_users / 2
        assert abs(found[0, 0] - alone) > 5 * error[0, 0]


def test_private_segments_are_told_as_if_they_had_been_counted_apart():
    frequency = np.array([[0.3, 0.1, 0.0], [0.1, 0.4, 0.2]])
    people, labels = in_segments(
        shares=np.array([0.6, 0.4]), frequency=frequency, mean=np.array([[0.8] * 3, [-0.8] * 3]), users=30_000
    )
    crossing = Labelled(("other", "ios"), 3)
    over = crossed(people, crossing, labels)
    mechanism = Bucket.for_epsilon(3, n_keys=crossing.n_codes, pairs_per_user=4)
    rng, off, means, sizes, totals = insecure_generator(7), [], [], [], []
    own = [people.take(np.flatnonzero(labels == s)) for s in (0, 1)]
    for _ in range(RUNS):
        raw = estimate(mechanism, draw_tally(mechanism, over, rng))
        made, total = by_segment(raw, crossing), of_all(raw, crossing)
        off.append([(m.frequency - p.frequency()) / m.frequency_se for m, p in zip(made, own, strict=True)])
        means.append([(m.mean[:2] - p.mean()[:2]) / m.mean_se[:2] for m, p in zip(made, own, strict=True)])
        share, error = segment_shares(raw, crossing)
        sizes.append((share - np.bincount(labels) / labels.size) / error)
        totals.append((total.frequency - people.frequency()) / total.frequency_se)
    for scores in (off, sizes, totals):
        drawn = np.array(scores)
        assert abs(drawn.mean()) < 5 / np.sqrt(drawn.size)
        assert abs((drawn**2).mean() - 1) < 5 * np.sqrt(2 / drawn.size)
    # Values are ends of the range drawn once: a mean's error allows for drawing them anew.
    assert 0.8 < (np.array(means) ** 2).mean() < 1.05


def test_of_a_segment_that_hardly_anybody_is_in_nothing_is_said():
    people, labels = in_segments(
        shares=np.array([1.0, 0.0]), frequency=np.full((2, 1), 0.2), mean=np.zeros((2, 1)), users=2000
    )
    crossing = Labelled(("other", "ios"), 1)
    mechanism = Bucket.for_epsilon(1, n_keys=crossing.n_codes, pairs_per_user=2)
    raw = estimate(mechanism, draw_tally(mechanism, crossed(people, crossing, labels), insecure_generator(8)))
    nobody = by_segment(raw, crossing)[1]
    assert nobody.n_reports == 0
    assert np.isinf(nobody.frequency_se).all()
    assert np.isnan(nobody.mean).all()
