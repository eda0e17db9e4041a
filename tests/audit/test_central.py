"""What is said of the central loss follows from the batches that came, and nothing is said without them."""

from dataclasses import replace
from fractions import Fraction

import pytest
from devices import make_campaign

from keyveil import Campaign
from keyveil.audit import SeenRound, central_loss, promised_loss
from keyveil.segments import Segments
from keyveil.shuffle import hiding, shuffled

RELAYED = {"relay": "required", "batch": 1000, "central_epsilon": 1.0, "delta": 1e-6, "honest": 0.25}


@pytest.fixture
def campaign():
    return make_campaign("bucket", epsilon=3.0, pairs_per_user=1, **RELAYED)


def seen(round, *received, direct=0):
    """A round of which all that was received counted."""
    return SeenRound(round=round, batches=tuple((each, each) for each in received), direct=direct)


def test_one_round_loses_what_its_smallest_batch_leaves(campaign):
    first = campaign.first_round()
    loss = central_loss(campaign, [seen(first, 1600, 1200, 1201)])
    assert loss.epsilon == shuffled(first.mechanism, 300, 1e-6).best
    assert (loss.delta, loss.honest, loss.smallest, loss.hidden) == (1e-6, 0.25, {1: 1200}, {1: 300})
    assert loss.why == ""
    assert "25 % of a batch (the smallest: 1,200 reports) is honest" in loss.words
    assert (
        promised_loss(campaign, [first]).epsilon == shuffled(first.mechanism, 250, 1e-6).best > loss.epsilon
    )


@pytest.mark.parametrize(
    ("batches", "hidden"),
    [
        # Reports that did not count are liars' as long as enough are left.
        (((1000, 999),), 250),
        (((1000, 251),), 250),
        (((1000, 249),), 249),
        # Whichever batch is the worst: the small one, or the one of which little counted.
        (((4000, 700), (1200, 1200)), 300),
        (((4000, 200), (1200, 1200)), 200),
        # Of this one nothing is known of anybody.
        (((10, 0), (1000, 1000)), 250),
    ],
)
def test_what_hides_is_what_is_honest_and_counted_in_the_worst_batch(campaign, batches, hidden):
    first = campaign.first_round()
    loss = central_loss(campaign, [SeenRound(round=first, batches=batches)])
    assert loss.hidden == {1: hidden}
    assert loss.epsilon == shuffled(first.mechanism, hidden, 1e-6).best


def test_groups_that_nobody_shares_do_not_add_up_and_others_do(campaign):
    first = campaign.first_round()
    half = Fraction(1, 2)
    low, high = (
        replace(first, number=number, group=group)
        for number, group in ((1, (Fraction(0), half)), (2, (half, Fraction(1))))
    )
    apart = central_loss(campaign, [seen(low, 500), seen(high, 600)])
    assert apart.epsilon == shuffled(first.mechanism, hiding(500, 0.25), 1e-6).best
    both = central_loss(campaign, [seen(first, 1000), seen(replace(first, number=2), 1000)])
    assert both.epsilon == 2 * shuffled(first.mechanism, 250, 1e-6 / 2).best


@pytest.mark.parametrize(
    ("batches", "direct", "why"),
    [
        ((), 0, "no batch has come yet"),
        ((), 7, "7 reports to round 1 came in no batch"),
        (((5000, 5000),), 1, "1 reports to round 1 came in no batch"),
        (((999, 999), (2000, 2000)), 0, "a batch of round 1 had 999 reports, fewer than 1,000"),
        (((1000, 1),), 0, "in a batch of round 1 a report hides among 1 honest ones, itself included"),
    ],
)
def test_nothing_is_said_of_what_did_not_happen(campaign, batches, direct, why):
    loss = central_loss(campaign, [SeenRound(round=campaign.first_round(), batches=batches, direct=direct)])
    assert (loss.epsilon, loss.why) == (None, why)
    assert why in loss.words


def test_a_round_that_nobody_answered_costs_nothing(campaign):
    first = campaign.first_round()
    alone = central_loss(campaign, [seen(first, 1000)])
    assert central_loss(campaign, [seen(first, 1000), seen(replace(first, number=2))]) == alone


def test_a_batch_of_reports_with_clear_labels_hides_nobody_for_certain():
    segments = Segments(told="clear", attributes=(("platform", ("ios",)),))
    asked = Campaign(
        name="apps",
        epsilon=4,
        keys=["a", "b"],
        value_range=(0, 1),
        pairs_per_user=1,
        mechanism="kvue",
        relay="required",
        batch=1000,
        segments=segments,
    )
    seen = SeenRound(round=asked.only_round(), batches=((5000, 5000),))
    found = central_loss(asked, [seen])
    assert found.epsilon is None
    assert "clear labels split every batch" in found.words
    assert central_loss(replace(asked, segments=None), [seen]).epsilon < 1
