"""A campaign says whose the ids of its reports are; its rounds carry it, and its release counts on it."""

from dataclasses import replace

import numpy as np
import pytest

from keyveil import Campaign
from keyveil.errors import CampaignError, DescriptionError
from keyveil.methods import METHODS
from keyveil.simulate import draw_tally, insecure_generator, synthetic

WITH_INDEX = (
    "privkv",
    "kvue",
    "levels",
    "privkv-em",
    "privkv-mle",
    "privkvm",
    "privkvm-plus",
    "privkvm-star",
)


def asking(mechanism="kvue", **changes):
    fields = {"name": "apps", "epsilon": 1, "keys": [f"k{i}" for i in range(12)], "value_range": (0, 1)}
    return Campaign(**{**fields, "pairs_per_user": 1, "mechanism": mechanism, **changes})


def test_a_campaign_that_does_not_issue_ids_is_the_one_it_was():
    own = asking(dither=1)
    assert '"ids"' not in own.canonical_json
    # As an older keyveil hashed it.
    assert own.id == "24736db0dacdcf51cb396cf55426a5003082076525162446411b88bab377a583"
    assert asking(ids="own", dither=1) == own
    issuing = asking(ids="issued", dither=1)
    assert '"ids":"issued"' in issuing.canonical_json
    assert issuing.id != own.id
    assert Campaign.from_text(issuing.canonical_json) == issuing
    for ids in ("given", "", None, 1):
        with pytest.raises(CampaignError, match=r"at \$\.ids"):
            asking(ids=ids)
    with pytest.raises(DescriptionError, match="canonical"):
        Campaign.from_text(issuing.canonical_json.replace("issued", "own"))


@pytest.mark.parametrize("name", METHODS)
def test_every_round_of_an_issuing_campaign_says_so_where_something_follows_from_an_id(name):
    own, issuing = asking(name), asking(name, ids="issued")
    for stage, other in zip(own.protocol().stages(), issuing.protocol().stages(), strict=True):
        assert other.mechanism == stage.mechanism.with_issued_ids()
        told = issuing.device_config(replace(other, campaign=issuing.id))["mechanism"]
        assert told == stage.mechanism.parameters.to_json() | (
            {"ids": "issued"} if stage.mechanism.follows_ids else {}
        )
    if name in WITH_INDEX:
        assert issuing.first_round().mechanism.public_word == 0


@pytest.mark.parametrize("name", WITH_INDEX)
def test_what_is_found_of_an_issuing_campaign_has_the_smaller_bound(name):
    people, bounds = synthetic(users=60_000, keys=12, seed=1), []
    for ids in ("own", "issued"):
        campaign, rng, history = asking(name, ids=ids), insecure_generator(1), []
        protocol = campaign.protocol()
        step = protocol.start(campaign.id)
        while hasattr(step, "mechanism"):
            asked = people if step.keys is None else people.restrict(np.array(step.keys))
            history.append(
                (step, draw_tally(step.mechanism, asked, rng, question=step.question, dither=step.dither))
            )
            step = protocol.next(history)
        moved = step.raw.lever.shift(np.full(12, 0.1), np.zeros(12), 0.01)
        bounds.append(moved.frequency_up[0])
    own, issued = bounds
    # Of those who are asked about a key, liars are 0.12 of 1.11 or 0.01.
    assert own / issued == pytest.approx(0.12 / 1.11 / 0.01)
