"""The demo's series: twelve weeks in which one thing changed.

The collector's clock walks through them: each wave is opened, answered and closed as any other, and nothing
is invented in the store. Devices are made up and noised in bulk; which week each answers is its panel's.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING

from keyveil.errors import TransportError

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.cli.console import Advance
    from keyveil.cli.stage import Stage
    from keyveil.simulate.population import Population

# Of sixteen weeks the twelfth is open, since three days.
WAVES, SHOWN = 16, 12
_DAYS_OPEN, _WEEK = 3, 7
DAYS_BACK = _WEEK * (SHOWN - 1) + _DAYS_OPEN
# After this week more people play chess most.
STEP_AFTER, STEPPED = 7, "chess"
_BEFORE, _AFTER = 0.08, 0.2
# All other apps together.
_OTHERS = 0.75
_APPS = "messages camera mail maps browser music weather podcasts chess news fitness recipes".split()  # noqa: SIM905
_MINUTES = 25.0
_LONGEST = 120.0
# Reports an upload.
_BATCH = 500
_PATIENCE = 30.0
_DAY = 86400.0


def weekly_campaign() -> Campaign:
    """The question, which began eleven weeks and some days ago."""
    from keyveil.campaign import Campaign
    from keyveil.plan.draft import in_days
    from keyveil.series import WEEK, Series

    start = datetime.now(UTC).date() - timedelta(days=DAYS_BACK)
    return Campaign(
        name="the app used most, week by week",
        epsilon=3.0,
        keys=tuple(_APPS),
        value_range=(0.0, _LONGEST),
        pairs_per_user=1,
        mechanism="pckv-ue",
        unit="minutes a day",
        owner="the demo",
        purpose="show what changed, and when",
        expires=in_days(_WEEK * WAVES),
        series=Series(every=WEEK, waves=WAVES, answers=1, start=start.isoformat()),
    )


def walk_through(stage: Stage, users: int, advance: Advance) -> Campaign:
    """Create the series on a clock that is set back, and come to this day wave by wave."""
    campaign = weekly_campaign()
    token = stage.begin(campaign)
    for number in range(1, SHOWN + 1):
        # As long into the wave as this day has lasted; the last one is asked at this moment.
        stage.set_back(0.0 if number == SHOWN else _DAY * (DAYS_BACK - _WEEK * (number - 1)))
        wave = _wait_for(stage, campaign, number)
        _answer(stage, wave, people(number, users), token)
        advance(1)
    assert campaign.series is not None
    released = campaign.series.begins(STEP_AFTER + 1).timestamp()
    note = {"at": released, "text": "2.3 released: chess lessons"}
    stage.server.ask("POST", f"/v1/series/{campaign.id}/annotations", note)
    return campaign


def people(number: int, users: int, seed: int = 4) -> Population:
    """The devices whose turn it is, and the app that each used most; of the last wave who was quick."""
    import numpy as np

    from keyveil.simulate.population import Population, insecure_generator

    series = weekly_campaign().series
    assert series is not None
    turn = [user for user in range(users) if number in series.panel(Fraction(user, users))]
    asked = len(turn) * _DAYS_OPEN // _WEEK if number == SHOWN else len(turn)
    rng = insecure_generator(seed + number)
    # Who takes to chess used none of these apps most before: nothing else changes.
    shares = 1.0 / (np.arange(len(_APPS)) + 2.0)
    place = _APPS.index(STEPPED)
    shares[place] = 0.0
    shares *= _OTHERS / shares.sum()
    shares[place] = _BEFORE if number <= STEP_AFTER else _AFTER
    used = rng.choice(len(_APPS) + 1, size=asked, p=[*shares, 1 - shares.sum()])
    users_of_one = np.flatnonzero(used < len(_APPS))
    minutes = np.minimum(rng.gamma(4.0, _MINUTES / 4.0, users_of_one.size), _LONGEST)
    return Population.from_pairs(
        users_of_one,
        used[users_of_one],
        2 * minutes / _LONGEST - 1,
        n_users=asked,
        names=_APPS,
        value_range=(0.0, _LONGEST),
    )


def _wait_for(stage: Stage, campaign: Campaign, number: int) -> Campaign:
    """The wave, once the collector has opened it by its clock."""
    ends = time.monotonic() + _PATIENCE
    while True:
        wave = stage.server.ask("GET", f"/v1/series/{campaign.id}")["wave"]
        if wave is not None and wave["number"] == number:
            return campaign.wave(number)
        if time.monotonic() > ends:
            raise TransportError(f"the demo's collector did not open wave {number}")
        time.sleep(0.02)


def _answer(stage: Stage, wave: Campaign, held: Population, token: str | None) -> None:
    """Every device's report, made in bulk and uploaded as a site's own relay would."""
    from keyveil.cli.crowd import FileUsers
    from keyveil.client import transport

    crowd = FileUsers(wave, held)
    url, exchange = f"{stage.url}/v1/campaigns/{wave.id}/reports", transport.with_token(token)
    for block in crowd.blocks():
        reports = [block[at : at + crowd.length] for at in range(0, len(block), crowd.length)]
        for start in range(0, len(reports), _BATCH):
            batch = reports[start : start + _BATCH]
            if not all(transport.send(url, batch, timeout=_PATIENCE, exchange=exchange).counts):
                raise TransportError("a report of the demo's was refused")
