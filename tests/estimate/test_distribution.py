import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.errors import MechanismError
from keyveil.estimate import (
    Distribution,
    bin_points,
    estimate,
    expectation_maximisation,
    joint_maximisation,
    project,
    subtract_fakes,
    wasserstein,
)
from keyveil.estimate.distribution import KEYS_AT_ONCE, _gather, _spread
from keyveil.mechanisms import Window, build
from keyveil.mechanisms.channel import share
from keyveil.protocols import build_protocol
from keyveil.simulate import Population, Truth, draw_tally, insecure_generator, measure, play, synthetic
from keyveil.tally import Tally

vectors = st.lists(st.floats(-5, 5), min_size=1, max_size=30).map(np.array)


@given(vectors, st.floats(0.1, 10))
def test_projection_is_consistent_and_idempotent(values, total):
    once = project(values, total)
    assert once.min() >= 0
    assert once.sum() == pytest.approx(total)
    assert project(once, total) == pytest.approx(once, abs=1e-9)


@given(vectors, st.floats(0.1, 10))
def test_no_consistent_vector_is_nearer_than_the_projection(values, total):
    best = project(values, total)
    other = np.abs(values) + 0.1
    other *= total / other.sum()
    assert ((values - best) ** 2).sum() <= ((values - other) ** 2).sum() + 1e-9


@given(st.integers(2, 12), st.integers(1, 9), st.integers(1, 3), st.integers(0, 2**32))
def test_running_sums_are_the_window_matrix(n_in, width, step, seed):
    window, rng = Window(n_in=n_in, width=width, step=step), np.random.default_rng(seed)
    near = np.array([[window.is_near(i, j) for i in range(n_in)] for j in range(window.n_out)], dtype=float)
    inputs, outputs = rng.random((2, n_in)), rng.random((2, window.n_out))
    assert _spread(inputs, window) == pytest.approx(inputs @ near.T)
    assert _gather(outputs, window) == pytest.approx(outputs @ near)


def test_em_recovers_a_distribution_from_exact_counts():
    channel = build("ue-sw", 4, n_keys=1, bins=8).channel
    window, truth = channel.window, np.array([0.02, 0.05, 0.1, 0.3, 0.3, 0.15, 0.05, 0.03])
    heard = channel.near * window.width + channel.far * (window.n_out - window.width)
    law = np.array(
        [
            [(channel.near if window.is_near(i, j) else channel.far) / heard for i in range(8)]
            for j in range(window.n_out)
        ]
    )
    assert law.sum(axis=0) == pytest.approx(np.ones(8))
    outputs = 0.6 * law @ truth + 0.4 / window.n_out
    found = expectation_maximisation(
        channel, outputs[None] * 1e6, np.array([0.4]), smooth=False, iterations=100_000, tolerance=0
    )
    assert found[0] == pytest.approx(truth, abs=1e-3)


def test_a_key_nobody_was_heard_of_has_no_distribution():
    channel = build("ue-sw", 1, n_keys=1, bins=4).channel
    assert np.isnan(expectation_maximisation(channel, np.zeros((1, channel.window.n_out)), np.zeros(1))).all()


def test_moments_and_quantiles():
    made = Distribution(points=bin_points(4), shares=np.array([[0.5, 0, 0, 0.5], [0.25, 0.25, 0.25, 0.25]]))
    assert made.mean() == pytest.approx([0, 0])
    assert made.variance() == pytest.approx([0.75**2, 0.3125])
    assert made.quantile(0.5)[1] == pytest.approx(0)
    assert made.quantile(0.25) == pytest.approx([-0.75, -0.5])
    assert made.quantile(1.0) == pytest.approx([1, 1])
    assert made.coarse(2).shares.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert made.reached(np.array([-1.0, 0.0, 1.0]))[1] == pytest.approx([0, 0.5, 1])


def test_wasserstein_has_its_absolute_value_inside_the_sum():
    assert wasserstein(np.array([0.5, 0, 0.5]), np.array([0, 1, 0]), 1 / 3) == pytest.approx(1 / 3)


def beta_population(n, d, seed):
    """One pair a user, power-law keys, beta-shaped values of each key's own."""
    rng = insecure_generator(seed)
    weights = 1 / np.arange(1, d + 1)
    codes = rng.choice(d, size=n, p=weights / weights.sum())
    shapes = rng.uniform(1, 7, (d, 2))
    values = 2 * rng.beta(shapes[codes, 0], shapes[codes, 1]) - 1
    return Population.from_pairs(np.arange(n), codes, values, n_users=n, names=list(map(str, range(d))))


@pytest.mark.statistical
def test_the_number_of_fakes_is_that_of_users_who_did_not_sample_the_key():
    """l = 4: of those who hold the key three in four sampled something else, and fake it too."""
    rng, n, l = insecure_generator(5), 400_000, 4
    holders = np.flatnonzero(rng.random(n) < 0.3)
    values = 2 * rng.beta(2, 5, holders.size) - 1
    people = Population.from_pairs(holders, np.zeros_like(holders), values, n_users=n, names=["k"])
    mechanism = build("ue-sw", 2, n_keys=1, pairs_per_user=l, bins=64)
    outputs = draw_tally(mechanism, people, rng).cells["bins"][:1].astype(float)
    truth, off = Truth.of(people, distribution=True), {}
    for name, fakes in (("corrected", n * (1 - 0.3 / l)), ("printed", n * (1 - 0.3))):
        left = subtract_fakes(outputs, np.array([fakes * float(mechanism.b)]))
        shares = expectation_maximisation(mechanism.channel, left, np.zeros(1))
        found = Distribution(points=bin_points(64), shares=shares)
        off[name] = np.abs(found.reached(np.linspace(-1, 1, 257)[1:-1]) - truth.reached).mean()
    assert off["corrected"] < 0.06
    assert off["printed"] > 2 * off["corrected"]


@pytest.mark.statistical
def test_what_sums_to_nothing_is_nothing():
    from keyveil.estimate.post import STEPS

    mechanism = build("kvue", 1, n_keys=3)
    silent = Tally.of(question="q", n_reports=30, plus=[0] * 3, minus=[0] * 3, asked=[10] * 3)
    raw = estimate(mechanism, silent)
    assert raw.frequency.sum() < 0
    assert STEPS["project"](raw).frequency.tolist() == [0.0, 0.0, 0.0]


def test_projection_is_to_l_not_to_one():
    people = synthetic(users=100_000, keys=100, pairs_per_user=3, seed=8)
    mechanism = build("ue-sw", 4, n_keys=100, pairs_per_user=3, bins=4)
    truth, rng, errors = people.frequency(), insecure_generator(6), {"raw": [], "l": [], "one": []}
    for _ in range(10):
        tally = draw_tally(mechanism, people, rng)
        raw = share(
            float(mechanism.a), float(mechanism.b), tally.cells["bins"].sum(axis=1), tally.n_reports, 3
        )
        for name, guess in (("raw", raw), ("l", project(raw, 3.0)), ("one", project(raw, 1.0))):
            errors[name].append(np.mean((guess[:100] - truth) ** 2))
    raw, right, printed = (np.mean(errors[name]) for name in ("raw", "l", "one"))
    assert right < raw
    assert printed > 5 * raw


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1, 2, 4])
def test_fakes_inside_the_likelihood_beat_subtracting_them(epsilon):
    people = beta_population(100_000, 100, seed=3)
    truth, distances = Truth.of(people, distribution=True), {}
    for likelihood in (True, False):
        protocol = build_protocol("ue-sw", epsilon, n_keys=100, likelihood=likelihood, smooth=likelihood)
        outcome = play(protocol, people, insecure_generator(9, epsilon))
        distances[likelihood] = measure(truth, outcome.published, 20, outcome.distribution).wasserstein
    assert distances[True] <= distances[False]


def test_only_the_keys_asked_about_get_a_distribution():
    people = beta_population(20_000, 6, seed=1)
    outcome = play(build_protocol("ue-sw", 4, n_keys=6, bins=128, only=(0, 2)), people, insecure_generator(1))
    known = np.isfinite(outcome.distribution.shares.sum(axis=1))
    assert known.tolist() == [True, False, True, False, False, False]
    assert outcome.distribution.shares.shape == (6, 128)
    assert outcome.raw.frequency.size == 6


@pytest.mark.parametrize("bins", [1, 0, -3])
def test_one_bin_is_refused(bins):
    with pytest.raises(MechanismError, match="bins must be at least 2"):
        build("ue-sw", 1, n_keys=3, bins=bins)


@pytest.mark.nightly
@pytest.mark.parametrize(("bins", "only"), [(64, ()), (1024, tuple(range(20)))])
def test_thousands_of_keys_fit_the_stated_memory(bins, only):
    d, l = 5850, 2
    people = synthetic(users=105_508, keys=d, pairs_per_user=l, seed=1)
    protocol = build_protocol("ue-sw", 4, n_keys=d, pairs_per_user=l, bins=bins, only=only)
    first = protocol.start("c")
    tally = draw_tally(first.mechanism, people, insecure_generator(1), question=first.question)
    n_out = first.mechanism.channel.window.n_out
    # Code that is loaded when it is first needed, the compiler's above all, is no part of what is stated.
    protocol.next([(first, tally)])
    tracemalloc.start()
    outcome = protocol.next([(first, tally)])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    stated = 24 * (d + l) * n_out + 24 * d * bins + 48 * KEYS_AT_ONCE * n_out
    print(f"\n{bins} bins: peak {peak / 1e6:.0f} MB, stated {stated / 1e6:.0f} MB")
    assert peak < stated
    assert outcome.distribution.shares.shape == (d, bins)


def test_the_joint_likelihood_recovers_shares_of_users_and_values_from_exact_counts():
    channel = build("ue-sw:extremal", 4, n_keys=2, bins=4).channel
    users, values = (
        np.array([0.2, 0.5, 0.3]),
        np.array([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1], [1, 0, 0, 0]]),
    )
    symbols = range(1, channel.window.n_out + 1)
    own = np.array([[float(channel.own(i, s)) for s in symbols] for i in range(4)])
    other = np.array([float(channel.other(s)) for s in symbols])
    outputs = 1e6 * (users[:, None] * (values @ own) + (1 - users[:, None]) * other)
    found, shares = joint_maximisation(
        channel, outputs, 1_000_000, np.full(3, 1 / 3), smooth=False, iterations=4000
    )
    assert found == pytest.approx(users, abs=1e-4)
    assert shares == pytest.approx(values, abs=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize("epsilon", [1, 4])
def test_the_extremal_split_and_the_joint_likelihood_each_bring_distributions_nearer(epsilon):
    people = beta_population(100_000, 50, seed=4)
    truth, distances = Truth.of(people, distribution=True), []
    for name, options in (
        ("ue-sw", {"likelihood": False, "smooth": False}),
        ("ue-sw:extremal", {}),
        ("ue-sw:extremal", {"joint": True}),
    ):
        protocol = build_protocol(name, epsilon, n_keys=50, **options)
        outcomes = [play(protocol, people, insecure_generator(9, epsilon, repeat)) for repeat in range(4)]
        found = [measure(truth, o.published, 20, o.distribution).wasserstein for o in outcomes]
        distances.append(np.mean(found))
    assert distances == sorted(distances, reverse=True)


@pytest.mark.parametrize("smooth", [True, False])
@pytest.mark.parametrize("name", ["ue-sw", "privkvm-star"])
def test_the_compiled_maximisation_is_the_vectorised_one(name, smooth, monkeypatch):
    from keyveil.estimate import distribution

    pytest.importorskip("numba")
    channel, rng = build(name, 2, n_keys=3).channel, np.random.default_rng(5)
    heard = rng.dirichlet(np.ones(channel.window.n_out), size=30)
    outputs, fake = np.round(3000 * heard), rng.random(30) * 0.9
    outputs[7] = 0
    found = []
    for compiled in (True, False):
        monkeypatch.setattr(distribution, "is_compiled_alike", lambda _, compiled=compiled: compiled)
        found.append(expectation_maximisation(channel, outputs, fake, smooth=smooth))
    assert np.isnan(found[0][7]).all()
    assert np.allclose(*found, rtol=0, atol=1e-9, equal_nan=True)
