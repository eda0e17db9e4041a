"""What order, time, size, ids, repeats and flooding tell of who sent what: no more than chance."""

import os

import pytest
from collecting import make_question
from relaying import relayed

from keyveil.relay import batching
from keyveil.relay.linking import linking
from keyveil.relay.store import RelayStore

# Six standard errors of a chance of one in a hundred and fifty over 10,000 uploads are half a percent.
SLACK = 0.01


def found(batch=150, uploads=10_000, **changes):
    """Success beside the bound, by the way of guessing."""
    campaign = relayed(make_question, batch=batch, central_epsilon=0.5, delta=1e-4, **changes)
    return {each.name: (each.success, each.bound) for each in linking(campaign, uploads=uploads)}


def test_ten_thousand_uploads_are_linked_by_chance_alone():
    ways = found()
    assert len(ways) == 8
    for name, (success, bound) in ways.items():
        assert success <= bound + SLACK, name
    assert ways["by order"][1] <= 1 / 150
    assert ways["by flooding, 50 % its own"][1] <= 1 / 75


def test_a_relay_that_keeps_the_order_is_caught(monkeypatch):
    """The wrong twin: who came first goes first."""
    monkeypatch.setattr(batching, "shuffled_order", lambda n: list(range(n)))
    success, bound = found()["by order"]
    assert success > 0.5 > bound + SLACK


def test_a_relay_that_lets_repeats_through_is_caught(monkeypatch):
    """The wrong twin: every upload is new."""
    monkeypatch.setattr(RelayStore, "digest", lambda *_: os.urandom(16))
    success, bound = found(uploads=40_000)["by a repeat"]
    # Three times chance, over four thousand who sent twice: five standard errors above this.
    assert success > bound + SLACK / 2


@pytest.mark.parametrize("honest", [0.1, 1.0])
def test_flooding_leaves_a_crowd_of_the_honest(honest):
    campaign = relayed(make_question, batch=200, central_epsilon=0.5, delta=1e-4, honest=honest)
    [flooding] = [each for each in linking(campaign, uploads=4000) if "flooding" in each.name]
    assert flooding.bound <= 1 / (honest * 200)
    # Some twenty batches, in each of which one guess is right on average: five standard errors.
    assert flooding.success <= flooding.bound + 5 * 20**0.5 / (honest * 4000)
