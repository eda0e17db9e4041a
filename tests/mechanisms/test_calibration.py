"""The papers' numbers, the tight epsilon, and which way the rounding falls."""

import dataclasses
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.errors import BudgetError, DomainError, MechanismError
from keyveil.mechanisms import REGISTRY, Allocation, Channel, SignedResponse, SignedUnary, build
from keyveil.numerics import epsilon_above, exp_below, parse_epsilon

NAMES = [f"{name}:{allocation.value}" for name, cls in REGISTRY.items() for allocation in cls.allocations]
SIGNED = [name for name in NAMES if name.split(":")[0] in ("privkv", "kvue", "pckv-ue", "pckv-grr", "ks-ue")]

# epsilon: pckv-ue b | pckv-grr (d=100, l=3) a, b, p | ks-ue a, b, p | privkv tight epsilon
GOLDEN = {
    "0.5": (0.430226, (0.018977, 0.00961787, 0.746589), (0.637034, 0.548137, 0.569774), 0.367208),
    "1": (0.349755, (0.033884, 0.00947172, 0.860235), (0.605971, 0.423883, 0.650245), 0.719070),
    "2": (0.192510, (0.094006, 0.00888229, 0.952757), (0.553253, 0.213014, 0.807490), 1.379885),
    "4": (0.034723, (0.443830, 0.00545265, 0.993857), (0.508834, 0.035337, 0.965277), 2.566219),
}


def letters(mechanism):
    channel = mechanism.channel
    return tuple(float(x) for x in (channel.a, channel.b, channel.p))


@pytest.mark.parametrize("epsilon", GOLDEN)
def test_the_papers_parameters_come_out(epsilon):
    ue_b, grr, ks, privkv = GOLDEN[epsilon]
    E = math.exp(float(epsilon))
    assert letters(build("pckv-ue", epsilon, n_keys=100)) == pytest.approx((0.5, ue_b, E / (E + 1)), abs=5e-7)
    assert letters(build("pckv-grr", epsilon, n_keys=100, pairs_per_user=3)) == pytest.approx(grr, abs=5e-7)
    assert letters(build("ks-ue", epsilon, n_keys=100)) == pytest.approx(ks, abs=5e-7)
    assert epsilon_above(build("privkv", epsilon, n_keys=100).loss) == pytest.approx(privkv, abs=5e-7)
    kvue = ((E + 1) / (E + 2), 2 / (E + 2), E / (E + 1))
    assert letters(build("kvue", epsilon, n_keys=100)) == pytest.approx(kvue, abs=1e-12)


def papers_epsilon(mechanism):
    """The tight composition theorems, in the papers' letters."""
    a, b, p = letters(mechanism)
    e2 = p / (1 - p)
    if isinstance(mechanism, SignedResponse):
        l, e1 = mechanism.pairs_per_user, a / b
        lam = (l - 1) * (e2 + 1) / 2
        return math.log((e1 * e2 + lam) / (min(e1, (e2 + 1) / 2) + lam))
    if isinstance(mechanism, SignedUnary):
        e1 = a * (1 - b) / (b * (1 - a))
        # KS-UE's wrong sign is the rarest, so the same-key ratio is not what binds it.
        return max(math.log(e2), math.log(e1 * 2 * e2 / (e2 + 1)))
    return max(math.log(e2), math.log(a / b * 2 * e2 / (e2 + 1)))


@pytest.mark.parametrize("name", SIGNED)
@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "2", "4"])
@pytest.mark.parametrize(("n_keys", "pairs"), [(4, 2), (2000, 5)])
def test_the_loss_is_the_papers_tight_epsilon(name, epsilon, n_keys, pairs):
    mechanism = build(name, epsilon, n_keys=n_keys, pairs_per_user=pairs)
    assert epsilon_above(mechanism.loss) == pytest.approx(papers_epsilon(mechanism), abs=1e-9)


def test_all_but_the_naive_allocations_spend_the_whole_budget():
    for name in SIGNED:
        loss = epsilon_above(build(name, "1", n_keys=50, pairs_per_user=3).loss)
        if name.endswith(":naive"):
            assert loss < 0.75, name
        else:
            assert 1 - 1e-12 < loss <= 1, name


@given(
    st.fractions(Fraction(1, 1000), 20), st.sampled_from(NAMES), st.integers(1, 10**6), st.integers(1, 300)
)
def test_rounding_falls_on_privacys_side(epsilon, name, n_keys, pairs):
    mechanism = build(name, epsilon, n_keys=n_keys, pairs_per_user=pairs)
    assert mechanism.loss <= exp_below(epsilon)


@given(st.fractions(Fraction(1, 2), 3), st.sampled_from(NAMES), st.integers(8, 20))
def test_rounding_falls_on_privacys_side_even_when_it_is_coarse(epsilon, name, word_bits):
    try:
        mechanism = build(name, epsilon, n_keys=4, pairs_per_user=3, word_bits=word_bits)
    except MechanismError:
        return
    assert mechanism.loss <= exp_below(epsilon)


@pytest.mark.parametrize("name", ["pckv-ue", "pckv-ue:tight", "pckv-grr", "kvue", "ks-ue"])
def test_one_word_more_for_the_truth_would_break_the_promise(name):
    mechanism = build(name, 1, n_keys=10, pairs_per_user=2)
    c = mechanism.channel
    flip, fake = (c.flip if name.startswith("pckv-ue") else c.fake - 1), c.fake - 1
    keep = {
        "pckv-grr": c.words - flip - 2 * 11 * fake,
        "kvue": c.words - 2 * fake,
        "ks-ue": -(-(c.words - fake) // 2),
    }.get(name, c.keep)
    bolder = dataclasses.replace(mechanism, channel=Channel(keep=keep, flip=flip, fake=fake))
    assert bolder.loss > exp_below(parse_epsilon(1))


def test_a_mechanism_refuses_an_allocation_it_does_not_have():
    with pytest.raises(MechanismError, match="expected one of optimal"):
        REGISTRY["ks-ue"].for_epsilon(1, n_keys=3, allocation=Allocation.NAIVE)
    with pytest.raises(MechanismError, match='"ks-ue" has no allocation "naive"'):
        build("ks-ue:naive", 1, n_keys=3)


@pytest.mark.parametrize("name", REGISTRY)
def test_sizes_without_sense_are_refused(name):
    with pytest.raises(DomainError, match="at least one key, got 0"):
        build(name, 1, n_keys=0)
    with pytest.raises(BudgetError):
        build(name, "lots", n_keys=3)


@pytest.mark.parametrize("name", REGISTRY)
def test_a_padding_length_below_one_is_refused(name):
    with pytest.raises(DomainError, match="pairs_per_user must be at least 1, got 0"):
        build(name, 1, n_keys=3, pairs_per_user=0)


# `subset` is for few keys, and refuses a million: test_selection.py.
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("subset")])
def test_one_key_and_a_million_keys_both_work(name):
    assert build(name, 1, n_keys=1).loss <= exp_below(parse_epsilon(1))
    assert build(name, 1, n_keys=10**6).loss <= exp_below(parse_epsilon(1))


@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_epsilon_says_what_to_do(name):
    with pytest.raises(MechanismError, match=r"raise epsilon|wider words"):
        # The number that names a set is of two words.
        build(name, "1e-40" if name.startswith("subset") else "1e-19", n_keys=3)


def test_unknown_names_get_the_nearest_one():
    with pytest.raises(MechanismError, match='unknown mechanism "pckv_grr"; did you mean "pckv-grr"'):
        build("pckv_grr", 1, n_keys=3)
    with pytest.raises(MechanismError, match="known are privkv"):
        build("zzzzzz", 1, n_keys=3)


def test_a_response_whose_words_do_not_add_up_is_refused():
    good = build("pckv-grr", 1, n_keys=3)
    with pytest.raises(MechanismError, match="must be all"):
        type(good)(n_keys=4, pairs_per_user=1, channel=good.channel)
