"""Where something central is promised each group of auto has an epsilon of its own, and keeps it."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from devices import make_campaign

from keyveil.audit import SeenRound, central_loss, largest_promised, promised_loss
from keyveil.client import Caps, Reporter
from keyveil.mechanisms import build
from keyveil.numerics import epsilon_above
from keyveil.protocols import EVERYBODY, Promise, Round, build_protocol
from keyveil.shuffle import hiding, shuffled
from keyveil.simulate import draw_tally, insecure_generator, synthetic

PEOPLE = synthetic(users=30_000, keys=600, pairs_per_user=6, seed=2)
RELAYED = {"relay": "required", "batch": 30_000, "central_epsilon": 1.0, "delta": 1e-8, "epsilon": 7.5}


def promising(**changes):
    keys = tuple(f"key {code}" for code in range(PEOPLE.n_keys))
    fields = RELAYED | {"keys": keys, "users": PEOPLE.n_users, "pairs_per_user": 6} | changes
    return make_campaign("auto", **fields)


def played(campaign, seed=1):
    """The rounds of a whole course, as they were opened, and the outcome."""
    rng = insecure_generator(seed)
    places, protocol, history = rng.random(PEOPLE.n_users), campaign.protocol(), []
    step = protocol.start(campaign.id)
    while isinstance(step, Round):
        low, high = map(float, step.group)
        asked = PEOPLE.take(((low <= places) & (places < high)).nonzero()[0])
        asked = asked if step.keys is None else asked.restrict(np.array(step.keys))
        tally = draw_tally(step.mechanism, asked, rng, question=step.question, dither=step.dither)
        history.append((step, tally))
        step = protocol.next(history)
    return [asked for asked, _ in history], step


@pytest.mark.parametrize("want", ["both", "frequency"])
def test_every_round_keeps_the_promise_with_batches_of_just_the_size_and_no_more_would(want):
    campaign = promising(want=want)
    opened, _ = played(campaign)
    assert {"sizes", "discover", "measure"} <= {asked.purpose for asked in opened}
    told = set()
    for asked in opened:
        hidden, local = hiding(campaign.batch_of(asked), 0.5), epsilon_above(asked.mechanism.loss)
        assert shuffled(asked.mechanism, hidden, 1e-8).best <= 1.0, asked.purpose
        told.add(round(local, 1))
        if asked.purpose == "sizes":
            wider = type(asked.mechanism).for_epsilon(
                Fraction(math.ceil(local * 64) + 1, 64),
                n_keys=asked.mechanism.n_keys,
                starts=asked.mechanism.encoder.starts,
            )
            assert shuffled(wider, hidden, 1e-8).best > 1.0
    # Small groups tell less, and none of them more than the budget.
    assert len(told) > 2
    assert max(told) <= 7.5
    batches = [campaign.batch_of(asked) for asked in opened]
    seen = [
        SeenRound(round=asked, batches=((size, size),)) for asked, size in zip(opened, batches, strict=True)
    ]
    assert 0.9 < central_loss(campaign, seen).epsilon <= 1.0


@pytest.mark.parametrize("pairs", [1, 6, 40])
@pytest.mark.parametrize("batch", [10, 900, 30_000, 10**6])
@pytest.mark.parametrize("want", ["both", "distribution"])
def test_what_may_come_keeps_the_promise_whoever_comes(pairs, batch, want):
    campaign = promising(pairs_per_user=pairs, batch=batch, users=batch, want=want, dither=1)
    loss = promised_loss(campaign, campaign.protocol().stages())
    assert 0 < loss.epsilon <= 1.0
    assert largest_promised(campaign) == campaign.epsilon


def test_a_budget_that_is_small_enough_is_spent_as_it_is():
    campaign = promising(epsilon=1.3, batch=10**6, users=10**6)
    for stage in campaign.protocol().stages():
        assert epsilon_above(stage.mechanism.loss) == pytest.approx(1.3, abs=0.01)


def test_nobody_beside_one_tells_the_central_epsilon():
    promise = Promise(central=0.75, delta=1e-6, batch=2, honest=0.5)
    allowed = promise.allowance(Fraction(1), Fraction(6))
    assert epsilon_above(allowed(lambda epsilon: build("kvue", epsilon, n_keys=3)).loss) <= 0.75


def test_campaigns_without_a_promise_go_on_as_they_did():
    told = {"n_keys": 600, "pairs_per_user": 6, "users": 30_000}
    plain = build_protocol("auto", 4, **told)
    assert (plain.version, build_protocol("auto", 4, promise=None, **told)) == (5, plain)
    promise = Promise(1.0, 1e-8, 30_000, 0.5)
    assert build_protocol("auto", 4, promise=promise, **told).version == 6
    # What an older version opened it opens again, digit for digit.
    older = build_protocol("auto", 4, version="auto/3", promise=promise, **told)
    unpromised = build_protocol("auto", 4, version="auto/3", **told)
    assert [stage.mechanism for stage in older.stages()] == [stage.mechanism for stage in unpromised.stages()]


def test_devices_answer_what_small_groups_are_asked(tmp_path):
    campaign = promising()
    for number, stage in enumerate(campaign.protocol().stages()):
        asked = replace(stage, campaign=campaign.id, number=1)
        assert campaign.read_round(campaign.device_config(asked)).mechanism == asked.mechanism
        caps = Caps(campaign=8.0, lifetime=8.0)
        with Reporter(campaign, ledger=tmp_path / f"{number}.db", caps=caps) as device:
            everybody = replace(asked, group=EVERYBODY)
            assert device.report({"key 1": 3.0}, campaign.device_config(everybody))


def test_outcomes_of_a_promise_are_near_the_truth():
    _, outcome = played(promising())
    off = outcome.published.frequency - PEOPLE.frequency()
    assert (off**2).mean() < 1e-5


@pytest.mark.parametrize(("epsilon", "kept"), [(6.0, True), (7.5, False)])
def test_what_one_round_cannot_keep_is_found(epsilon, kept):
    fields = RELAYED | {"epsilon": epsilon, "batch": 30_000, "pairs_per_user": 3}
    campaign = make_campaign("bucket", **fields)
    most = largest_promised(campaign)
    assert (most == epsilon) == kept
    if not kept:
        assert promised_loss(replace(campaign, epsilon=most), [replace(campaign, epsilon=most).first_round()])
        loss = shuffled(replace(campaign, epsilon=most).build(), 15_000, 1e-8).best
        assert loss <= 1.0 < shuffled(replace(campaign, epsilon=most + 1 / 64).build(), 15_000, 1e-8).best
