"""Answers drawn at once have the law of the tallies that are drawn at once, and of `perturb`."""

import math

import numpy as np
import pytest

from keyveil.mechanisms import REGISTRY, BroadcastIndex, build
from keyveil.simulate import insecure_generator, synthetic
from keyveil.simulate.answers import draw_answers
from keyveil.simulate.laws import draw_tally
from keyveil.tally import count
from keyveil.tally.trace import decode_many, encode_many

PEOPLE = synthetic(users=20_000, keys=5, pairs_per_user=3, seed=3)


def made(name, n_keys=5):
    if name == "privkv-broadcast":
        return BroadcastIndex.for_budgets(1, 1, levels=tuple((k + 1) * 2**61 for k in range(n_keys)))
    options = {"bins": 4} if "bins" in REGISTRY[name].options else {}
    return build(name, 2, n_keys=n_keys, pairs_per_user=2, **options)


def counted(mechanism, answers):
    return count(mechanism, encode_many(mechanism.layout, answers), question="q")


@pytest.mark.statistical
@pytest.mark.parametrize("name", REGISTRY)
def test_counts_of_drawn_answers_follow_the_tally_law(name):
    mechanism = made(name)
    own = counted(mechanism, draw_answers(mechanism, PEOPLE, insecure_generator(1)))
    other = draw_tally(mechanism, PEOPLE, insecure_generator(2))
    # Two independent draws differ by sqrt(2) binomial deviations at most, over some hundred cells.
    for cell, counts in own.cells.items():
        share = (counts + other.cells[cell]) / 2 / PEOPLE.n_users
        error = np.sqrt(2 * PEOPLE.n_users * np.maximum(share * (1 - share), 1e-4))
        assert (np.abs(counts - other.cells[cell]) <= 6 * error).all(), cell


def test_a_wrong_budget_shows():
    right, wrong = (build("pckv-ue", epsilon, n_keys=5, pairs_per_user=2) for epsilon in (2, 1.7))
    own = counted(right, draw_answers(right, PEOPLE, insecure_generator(1)))
    other = draw_tally(wrong, PEOPLE, insecure_generator(2))
    gap = np.abs(own.plus - other.plus) / math.sqrt(2 * PEOPLE.n_users * 0.1)
    assert gap.max() > 6


@pytest.mark.parametrize("name", REGISTRY)
def test_decoding_many_is_decoding_one(name):
    mechanism = made(name, n_keys=7)
    people = synthetic(users=50, keys=7, pairs_per_user=2)
    answers = draw_answers(mechanism, people, insecure_generator(4))
    tuples = [tuple(row.tolist()) if answers.ndim > 1 else int(row) for row in answers]
    if mechanism.layout.__class__.__name__ == "Trits":
        tuples = [bytes(each) for each in tuples]
    payloads = [mechanism.layout.encode(each) for each in tuples]
    assert np.array_equal(decode_many(mechanism.layout, payloads), answers)
    assert encode_many(mechanism.layout, answers) == payloads
