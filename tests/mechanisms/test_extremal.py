"""The extremal split of UE-SW: two lifts, tight in integers, and what its reports say."""

import dataclasses
import math

import numpy as np
import pytest

from keyveil.audit import certify
from keyveil.errors import MechanismError
from keyveil.mechanisms import Allocation, UeSw, build
from keyveil.numerics import epsilon_above, exp_below, parse_epsilon
from keyveil.protocols import build_protocol
from keyveil.simulate import draw_tally, insecure_generator, play, synthetic

EPSILONS = ("0.1", "0.5", "1", "2", "3", "4", "8")


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("half_width", [0.05, 0.2, 0.5])
def test_a_far_output_lifts_as_little_as_silence_and_a_near_one_e_to_the_epsilon_times_that(
    epsilon, half_width
):
    channel = build("ue-sw:extremal", epsilon, n_keys=10, half_width=half_width).channel
    near, far, silent = map(float, channel.lifts())
    assert far == pytest.approx(silent, rel=1e-12)
    assert near / far == pytest.approx(math.exp(float(epsilon)), rel=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_the_continuous_formulas_come_out(epsilon):
    channel = build("ue-sw:extremal", epsilon, n_keys=10, half_width=0.25).channel
    E, share = math.exp(float(epsilon)), channel.window.width / channel.window.n_out
    h = min(1 / (E + 1), 0.9 * share)
    c = 1 / (1 + (E - 1) * h)
    assert float(channel.b) == pytest.approx(h / share, rel=1e-12)
    assert float(channel.a) == pytest.approx(c * h / share * (E * share + 1 - share), rel=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_all_of_epsilon_is_spent_and_no_more(epsilon):
    loss = build("ue-sw:extremal", epsilon, n_keys=10, pairs_per_user=3).loss
    assert loss <= exp_below(parse_epsilon(epsilon))
    assert epsilon_above(loss) == pytest.approx(float(epsilon), abs=1e-12)


def test_one_word_more_for_a_near_output_would_break_the_promise():
    mechanism = build("ue-sw:extremal", 1, n_keys=10, pairs_per_user=2)
    bolder = dataclasses.replace(mechanism.channel, near=mechanism.channel.near + 1)
    assert dataclasses.replace(mechanism, channel=bolder).loss > exp_below(parse_epsilon(1))


def test_the_certificate_reaches_epsilon():
    certificate = certify(build("ue-sw:extremal", 1, n_keys=100, pairs_per_user=3))
    assert certificate.epsilon == pytest.approx(1, abs=1e-9)
    assert certificate.epsilon <= 1


def test_the_papers_window_is_the_default_of_the_papers_splits_alone():
    widths = {
        allocation: UeSw.for_epsilon(2, n_keys=3, allocation=allocation).channel.window.width
        for allocation in UeSw.allocations
    }
    assert widths == {Allocation.TIGHT: 33, Allocation.NAIVE: 33, Allocation.EXTREMAL: 27}
    assert build("ue-sw", 2, n_keys=3, half_width=0.5).channel.window.width == 65


@pytest.mark.parametrize("half_width", [0, -0.1, 1.5, math.nan])
def test_a_window_of_no_width_or_wider_than_the_range_is_refused(half_width):
    with pytest.raises(MechanismError, match="half_width must be above 0 and at most 1"):
        build_protocol("ue-sw:extremal", 1, n_keys=3, half_width=half_width)


def test_the_split_is_a_method_with_options_of_its_own():
    people = synthetic(users=20_000, keys=5, seed=1)
    protocol = build_protocol("ue-sw:extremal", 4, n_keys=5, half_width=0.3, bins=16)
    assert protocol.mechanism.channel.window.width == 11
    outcome = play(protocol, people, insecure_generator(7))
    assert outcome.distribution.shares.sum(axis=1) == pytest.approx(np.ones(5))
    assert np.abs(outcome.raw.frequency - people.frequency()).max() < 5 * outcome.raw.frequency_se.max()


@pytest.mark.statistical
def test_simulated_tallies_have_the_kernels_mean():
    """Outputs of one key from 200 tallies against the exact mean, z = 5; the paper's kernel is refused."""
    people = synthetic(users=2000, keys=3, seed=2)
    mechanism, twin = (build(name, 2, n_keys=3, bins=4) for name in ("ue-sw:extremal", "ue-sw"))
    twin = dataclasses.replace(
        twin, channel=dataclasses.replace(twin.channel, window=mechanism.channel.window)
    )
    bins = np.minimum(((people.values + 1) / 2 * 4).astype(int), 3)
    held = np.bincount(bins[people.codes == 0], minlength=4)
    rng, repeats = insecure_generator(3), 200
    total = sum(draw_tally(mechanism, people, rng).cells["bins"][0] for _ in range(repeats))
    off = {}
    for name, channel in (("own", mechanism.channel), ("twin", twin.channel)):
        outputs = range(1, channel.window.n_out + 1)
        chance = np.array([[float(channel.own(i, s)) for s in outputs] for i in range(4)])
        fake = np.array([float(channel.other(s)) for s in outputs])
        mean = held @ chance + (people.n_users - held.sum()) * fake
        spread = held @ (chance * (1 - chance)) + (people.n_users - held.sum()) * fake * (1 - fake)
        off[name] = np.abs(total / repeats - mean).max() / np.sqrt(spread.max() / repeats)
    assert off["own"] < 5
    assert off["twin"] > 5
