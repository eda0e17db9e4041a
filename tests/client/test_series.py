"""A series on a device: its panel, one price for all of it, its place in the ledger and in words."""

import sqlite3
from contextlib import closing
from fractions import Fraction
from math import inf

import pytest
from devices import make_campaign

from keyveil.campaign import Campaign
from keyveil.client import Caps, Code, Reporter
from keyveil.client.__main__ import main
from keyveil.client.ledger import AnsweredRound, Ledger
from keyveil.client.permission import fits
from keyveil.client.status import look
from keyveil.client.transport import fetch_wave
from keyveil.client.waves import Wave, whole_price
from keyveil.errors import (
    BudgetError,
    CampaignError,
    DescriptionError,
    LedgerError,
    ProtocolError,
    TransportError,
)
from keyveil.numerics import PRICE_BITS
from keyveil.series import Series

HELD = {"app-1": 30.0}
WAVES, WEEK = 6, 7 * 86_400.0
START = Series(every="week", waves=WAVES, answers=2, start="2026-11-23")


def weekly(answers=2, **changes):
    series = Series(every="week", waves=WAVES, answers=answers, start="2026-11-23")
    return make_campaign(**{"series": series, **changes})


def in_wave(number):
    return START.begins(number).timestamp() + 3600.0


class Life:
    """A device of one ledger, asked in waves."""

    def __init__(self, path, whole, **options):
        self.path, self.whole, self.options = path, whole, options
        with Ledger(path, clock=lambda: 0.0).transaction() as account:
            self.panel = Wave.of(whole.wave(1)).panel(account)
        self.others = [number for number in range(1, WAVES + 1) if number not in self.panel]

    def device(self, number, *added, at=None, **options):
        now = in_wave(number) if at is None else at
        wave = self.whole.wave(number, added)
        return Reporter(wave, ledger=self.path, clock=lambda: now, **{**self.options, **options})


@pytest.fixture
def life(tmp_path):
    return Life(tmp_path / "device.db", weekly())


# --- the price ---


@pytest.mark.parametrize("epsilon", [1.0, 0.1, 1 / 3, 1e-9, 32.0])
@pytest.mark.parametrize("answers", [1, 2, 7])
def test_the_price_of_a_series_is_exact_and_rounded_up(epsilon, answers):
    units = whole_price(epsilon, answers)
    exact = Fraction(epsilon) * answers
    assert 0 <= Fraction(units, 1 << PRICE_BITS) - exact < Fraction(1, 1 << PRICE_BITS)


def test_a_series_is_spent_with_its_first_answer_and_costs_no_more(life):
    first, second = life.panel
    life.device(first).report(HELD)
    status = life.device(life.others[0], at=in_wave(first)).status()
    assert (status.promised, status.epsilon_lifetime, status.answers) == (2.0, 2.0, 1)
    assert 0.99 < status.spent <= 1.0
    life.device(second).report(HELD)
    status = life.device(second).status()
    assert (status.epsilon_lifetime, status.answers, status.series) == (2.0, 2, life.whole.id)
    assert 1.99 < status.spent <= 2.0


@pytest.mark.parametrize(
    ("caps", "code"),
    [
        (Caps(campaign=2.0, lifetime=2.0), None),
        (Caps(campaign=2.0 - 2.0**-51), "over-campaign-cap"),
        (Caps(lifetime=2.0 - 2.0**-51), "over-lifetime-cap"),
        (Caps(yearly=0.5), "over-yearly-cap"),
        (Caps(yearly=1.0, lifetime=inf), None),
    ],
)
def test_all_of_it_must_fit_before_the_first_answer(life, caps, code):
    device = life.device(life.panel[0], caps=caps)
    if code is None:
        device.report(HELD)
        return
    with pytest.raises(BudgetError) as refusal:
        device.report(HELD)
    assert refusal.value.code == code
    assert device.status().epsilon_lifetime == 0.0


def test_a_cap_that_was_lowered_since_stops_a_series(life):
    first, second = life.panel
    life.device(first).report(HELD)
    with pytest.raises(BudgetError, match="the series costs epsilon 2; of the 1 that"):
        life.device(second, caps=Caps(campaign=1.0)).report(HELD)


def test_a_life_without_an_end_is_bounded_by_its_years(life):
    for wrong in ({"lifetime": inf}, {"yearly": 0.0}, {"yearly": inf}, {"yearly": True}, {"campaign": inf}):
        with pytest.raises(BudgetError):
            Caps(**wrong)
    device = life.device(life.panel[0], caps=Caps(yearly=3.0, lifetime=inf))
    assert (device.status().epsilon_worst_case, device.status().yearly_cap) == (inf, 3.0)
    told = device.explain(HELD)
    assert "Per year: 0 of 3, from 50 % to at most 95 % in any 365 days." in told
    assert "inf" not in told
    assert fits(1 << 5000, inf)


# --- the wave ---


def test_a_device_answers_its_panel_and_nothing_else(life):
    life.device(1).enable()
    codes = {number: life.device(number, at=in_wave(1)).submit(HELD).code for number in range(1, WAVES + 1)}
    answered = {number for number, code in codes.items() if code is Code.DONE}
    assert answered == set(life.panel)
    assert {codes[number] for number in life.others} == {Code.OTHER_WAVE}


def test_a_wave_has_one_campaign(life):
    number = life.panel[0]
    life.device(number, "late").report(HELD)
    for other in ((), ("later",), ("late", "later")):
        with pytest.raises(DescriptionError, match=f"wave {number} was answered") as refusal:
            life.device(number, *other).report(HELD)
        assert refusal.value.code == "pinned"
    life.device(number, "late").report(HELD)


def test_a_wave_that_is_over_says_when_it_ended(life):
    number = life.panel[0]
    with pytest.raises(CampaignError, match=f"wave {number} of the series ended at 20") as refusal:
        life.device(number, at=in_wave(number) + WEEK).report(HELD)
    assert refusal.value.code == "expired"


def test_a_series_as_a_whole_is_no_question(life, tmp_path):
    with pytest.raises(DescriptionError, match="wave by wave"):
        Campaign.from_description(life.whole.device_config())
    device = Reporter(life.whole, ledger=tmp_path / "device.db", clock=lambda: 0.0)
    with pytest.raises(DescriptionError, match="wave by wave"):
        device.report(HELD)
    assert device.status().code is Code.BAD_DESCRIPTION


def test_which_waves_are_answered_follows_from_the_secret_alone(tmp_path):
    """Over many ledgers every wave is asked alike: each panel is one of three, and none is rare."""
    whole, panels = weekly(), []
    for number in range(120):
        life = Life(tmp_path / f"{number}.db", whole)
        panels.append(life.panel)
        assert Life(life.path, whole).panel == life.panel
    assert set(panels) == {(1, 4), (2, 5), (3, 6)}
    # Of 120 with a chance of 1/3: five standard errors, 26, below the mean of 40.
    assert min(map(panels.count, set(panels))) > 14


# --- the ledger ---


@pytest.mark.parametrize(
    "change",
    [
        "delete from wave",
        "delete from series",
        "update series set units = '0'",
        "update wave set number = 9",
        "update wave set campaign = 'ab'",
        "update answer set given = 0",
        "insert into wave values ('ab', 1, 'cd')",
    ],
)
def test_a_ledger_whose_series_were_edited_is_refused(life, change):
    life.device(life.panel[0]).report(HELD)
    with closing(sqlite3.connect(life.path)) as connection:
        connection.execute(change)
        connection.commit()
    with pytest.raises(LedgerError, match="does not match its seal"):
        life.device(life.panel[0]).report(HELD)


def test_a_year_looks_back_from_the_latest_time(tmp_path):
    path, day = tmp_path / "device.db", 86_400.0
    for at, name in ((0.0, "one"), (200 * day, "two")):
        with Ledger(path, clock=lambda at=at: at).transaction() as account:
            account.keep(name, 1, AnsweredRound(pin=None, units=7, report=b""))
    for at, counted in ((364 * day, 14), (365 * day, 7), (0.0, 7), (565 * day, 0), (0.0, 0)):
        with Ledger(path, clock=lambda at=at: at).transaction() as account:
            assert account.spent_since(account.now - 365 * day) == counted
            assert account.spent() == 14


def test_the_status_of_a_ledger_shows_a_series_as_one_line(life, capsys):
    for number in life.panel:
        life.device(number).report(HELD)
    found = look(life.path)
    assert found["campaigns"] == []
    (series,) = found["series"]
    assert (series["series"], series["epsilon"]) == (life.whole.id, 2.0)
    assert [wave["number"] for wave in series["waves"]] == list(life.panel)
    assert main(["status", str(life.path)]) == 0
    shown = capsys.readouterr().out
    waves = ", ".join(map(str, life.panel))
    assert f"series    {life.whole.id}\n  price   costs epsilon 2 in all; waves answered: {waves}\n" in shown


# --- words ---


def test_the_person_is_told_what_all_of_it_costs_and_when_and_nobody_else_is(life):
    told = life.device(life.others[0]).explain(HELD)
    waves = ", ".join(map(str, life.panel))
    assert f"every week, {WAVES} times. This device answers 2 of these waves ({waves}), each once" in told
    assert "Sent: nothing; this wave asks other devices." in told
    assert "epsilon 0 of the 2 promised" in told
    assert "panel" not in repr(life.device(1).status())


# --- the way ---


@pytest.fixture
def asked(life, collector):
    """A collector whose open wave is the device's first."""
    wave = life.whole.wave(life.panel[0])
    collector.series, collector.campaign = life.whole.canonical_json, wave.canonical_json
    collector.round = {**wave.device_config(), "campaign": wave.id}
    return collector


def test_connect_takes_the_open_wave_of_a_series(life, asked):
    now = in_wave(life.panel[0])
    device = Reporter.connect(f"{asked.url}/v1/series/{life.whole.id}", ledger=life.path, clock=lambda: now)
    assert device.campaign == life.whole.wave(life.panel[0])
    device.enable()
    assert device.submit(HELD)
    assert device.upload()
    assert asked.posts == [(f"/v1/campaigns/{device.campaign.id}/reports", 1)]


def test_connect_believes_no_wave_of_another_series(life, asked):
    with pytest.raises(DescriptionError, match="expected a wave of series") as refusal:
        fetch_wave(f"{asked.url}/v1/series/{'ab' * 32}")
    assert refusal.value.code == "other-campaign"
    asked.campaign = make_campaign().canonical_json
    asked.round = None
    with pytest.raises(DescriptionError, match="expected a wave of series"):
        fetch_wave(f"{asked.url}/v1/series/{life.whole.id}")
    asked.campaign = None
    with pytest.raises(CampaignError) as refusal:
        Reporter.connect(f"{asked.url}/v1/series/{life.whole.id}")
    assert refusal.value.code == "waiting"
    with pytest.raises(TransportError):
        fetch_wave(f"{asked.url}/v1/campaigns/{life.whole.id}")


def test_what_waits_of_an_earlier_wave_is_sent_there(life, collector):
    first, second = life.panel
    ids = [life.whole.wave(number).id for number in life.panel]
    life.options["collector"] = collector.url
    life.device(first).enable()
    for number in life.panel:
        life.device(number).submit(HELD)
    device = life.device(second)
    assert device.status().traffic.waiting == 2
    collector.script = [(404, {}, b"{}")]
    receipt = device.upload()
    assert receipt.code is Code.REFUSED
    assert collector.posts == [(f"/v1/campaigns/{id}/reports", 1) for id in reversed(ids)]
    traffic = device.status().traffic
    assert (traffic.waiting, traffic.sent, traffic.failures) == (1, 1, 1)
    later = life.device(second, at=in_wave(second) + 10.0)
    assert later.upload()
    assert later.status().traffic.sent == 2
    assert {path for path, _ in collector.posts} == {f"/v1/campaigns/{id}/reports" for id in ids}


def test_a_round_of_a_wave_for_others_is_still_for_others(life):
    """Within a wave all is as in a campaign."""
    wave = life.whole.wave(life.panel[0])
    with Ledger(life.path, clock=lambda: 0.0).transaction() as account:
        place = account.place(wave.id)
    half = ["0", "1/2"] if place >= Fraction(1, 2) else ["1/2", "1"]
    device = life.device(life.panel[0])
    with pytest.raises(ProtocolError) as refusal:
        device.report(HELD, {**wave.device_config(), "group": half})
    assert refusal.value.code == "other-group"
