"""Reports in, statuses out, tallies that are what was accepted."""

import pytest
from collecting import Caller, make_question, make_reports


def test_reports_are_accepted_once(caller):
    campaign = make_question()
    token = caller.create(campaign)["device_token"]
    reports = make_reports(campaign, 5)
    assert caller.send(campaign, reports, token=token) == ["accepted"] * 5
    assert caller.send(campaign, reports[:2], token=token) == ["duplicate"] * 2
    more = make_reports(campaign, 1)
    assert caller.send(campaign, [reports[4], *more, *more], token=token) == [
        "duplicate",
        "accepted",
        "duplicate",
    ]
    assert caller.collector.tally(campaign.id, 1) == campaign.tally([*reports, *more])
    assert caller.collector.recount(campaign.id, 1).agrees
