"""A collector that tests the noise of what it was sent."""

import pytest
from collecting import Caller, make_question, make_reports, say

from keyveil.simulate import insecure_generator, synthetic
from keyveil.simulate.answers import draw_answers


@pytest.fixture
def caller(tmp_path):
    caller = Caller(f"sqlite:///{tmp_path}/c.db")
    yield caller
    caller.close()


def examine(caller, campaign):
    return caller("POST", f"/v1/campaigns/{campaign.id}/rounds/1/examine", token=caller.admin).json


def test_honest_reports_raise_no_alarm_and_crude_lies_do(caller):
    campaign = make_question("kvue")
    token = caller.create(campaign)["device_token"]
    few = examine(caller, campaign)
    assert (few["reports"], few["tests"], few["alarm"], few["p"]) == (0, [], False, 1.0)
    # Seeded: one honest crowd in ten thousand is suspected, and a test is not to be that one.
    crowd = synthetic(users=1500, keys=len(campaign.keys), seed=1)
    answers = draw_answers(campaign.build(), crowd, insecure_generator(1))
    caller.send(campaign, [say(campaign, int(answer)) for answer in answers], token=token)
    honest = examine(caller, campaign)
    assert (honest["reports"], honest["alarm"], honest["damaged_blocks"]) == (1500, False, 0)
    assert len(honest["tests"]) > 1
    target = 3
    caller.send(campaign, [say(campaign, 3 * target + 1) for _ in range(400)], token=token)
    crude = examine(caller, campaign)
    assert (crude["reports"], crude["alarm"]) == (1900, True)
    assert crude["p"] < honest["p"]
    assert campaign.keys[target] in {
        key for test in crude["tests"] if test["p"] < 1e-6 for key in test["keys"]
    }


def test_reports_that_were_dropped_cannot_be_examined(caller):
    campaign = make_question("kvue")
    token = caller.create(campaign, drop_reports=True)["device_token"]
    caller.send(campaign, make_reports(campaign, 5), token=token)
    caller.close_round(campaign, 1)
    caller.collector.running.tidy()
    assert examine(caller, campaign)["code"] == "reports-dropped"
