import json
from dataclasses import replace

import pytest

from keyveil import Campaign
from keyveil.errors import MechanismError
from keyveil.mechanisms import REGISTRY, describe


@pytest.mark.parametrize("name", REGISTRY)
def test_a_description_is_json_and_holds_no_number_that_a_float_would_round(name):
    text = json.dumps(describe(REGISTRY[name].for_epsilon(1, n_keys=5, pairs_per_user=2)))

    def check(value):
        assert not isinstance(value, int) or abs(value) < 2**53
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(inner)

    check(json.loads(text))
    assert "NaN" not in text


def test_other_integers_are_another_description():
    told = {
        json.dumps(describe(cls.for_epsilon(epsilon, n_keys=5, allocation=allocation)))
        for cls in REGISTRY.values()
        for allocation in cls.allocations
        for epsilon in ("1", "1.0000000001")
    }
    assert len(told) == 2 * sum(len(cls.allocations) for cls in REGISTRY.values())


def test_short_words_are_not_for_devices():
    with pytest.raises(MechanismError, match="words of 64 bits, got 8"):
        describe(REGISTRY["kvue"].for_epsilon(1, n_keys=3, word_bits=8))


def test_a_round_tells_its_number_and_keys():
    campaign = Campaign(
        name="c", epsilon=2, keys=list("abcd"), value_range=(0, 1), pairs_per_user=1, mechanism="privkvm-star"
    )
    first, second = (replace(stage, campaign=campaign.id) for stage in campaign.protocol().stages())
    assert campaign.device_config(first)["keys"] is None
    told = campaign.device_config(second)
    assert (told["number"], told["keys"], told["protocol"]) == (2, [0, 1, 2, 3], "privkvm-star/1")
    assert told["campaign"] == campaign.canonical_json
