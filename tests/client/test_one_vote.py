"""One vote: whatever a collector asks and however a record changes, a campaign costs its epsilon once.

Each test plays what was found on commit 5629bb5 (P2 to P4), where it succeeded.
"""

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import pytest
from devices import make_campaign

from keyveil import Campaign
from keyveil.client import Caps, Code, Reporter
from keyveil.errors import CampaignError, DescriptionError, KeyveilError
from keyveil.mechanisms import build
from keyveil.numerics import InsecureSeededEntropy
from keyveil.report import Envelope
from keyveil.rounds import Round

HELD = {"app-1": 30.0}


def asked_about(campaign, keys, number=1):
    """A round about some keys."""
    mechanism = build("kvue", campaign.epsilon, n_keys=len(keys))
    return Round(
        campaign=campaign.id, number=number, purpose="collect", mechanism=mechanism, keys=tuple(keys)
    )


def said(reporter, held, asked):
    """The bytes of an answer, or the code of a refusal."""
    try:
        return reporter.report(held, asked)
    except KeyveilError as error:
        return error.code


def test_a_reopened_round_with_its_keys_reordered_tells_nothing_of_200_devices(tmp_path, hurried):
    """P2: asked about [k, bogus], then [bogus, k], equal ids meant that k was not held, for 200 of 200."""
    campaign = make_campaign()
    first, second = asked_about(campaign, (1, 2)), asked_about(campaign, (2, 1))
    seen = {True: Counter(), False: Counter()}
    for device in range(200):
        path, holds = tmp_path / f"{device}.db", device % 2 == 0
        held = HELD if holds else {}
        one, other, again = (
            said(Reporter(campaign, ledger=path), held, asked) for asked in (first, second, first)
        )
        assert isinstance(one, bytes)
        seen[holds][one == again, other] += 1
    # Whoever holds the key and whoever does not: the same kept bytes, the same refusal.
    assert seen[True] == seen[False] == Counter({(True, "pinned"): 100})


def test_an_epsilon_of_a_quarter_buys_one_answer_not_sixteen(tmp_path):
    """P2: an unchanged record gave 16 fresh answers in an epsilon 0.25 campaign, up to the cap of 4."""
    campaign = make_campaign(epsilon=0.25)
    reporter = Reporter(campaign, ledger=tmp_path / "device.db")
    orders = list(permutations(range(4)))[:16]
    told = [said(reporter, HELD, asked_about(campaign, keys)) for keys in orders]
    assert [answer for answer in told if isinstance(answer, bytes)] == told[:1]
    assert told[1:] == ["pinned"] * 15
    # Under other numbers it is the promise that refuses.
    assert said(reporter, HELD, asked_about(campaign, (0, 1), number=2)) == "over-promise"
    assert reporter.status().answers == 1
    assert 0.2 < reporter.status().epsilon_lifetime <= 0.25


@pytest.mark.parametrize(
    "change",
    [
        {"purpose": "check"},
        {"protocol": "auto/1"},
        {"protocol": "one-round/2"},
        {"group": (Fraction(0), Fraction(99999, 100000))},
        {"keys": tuple(range(40))},
        {"mechanism": build("pckv-ue", 0.99, n_keys=40, pairs_per_user=3)},
        {"mechanism": build("pckv-ue", 1, n_keys=40, pairs_per_user=2)},
    ],
    ids=str,
)
def test_every_part_of_a_description_is_pinned(tmp_path, change):
    campaign = make_campaign()
    reporter = Reporter(campaign, ledger=tmp_path / "device.db")
    one = reporter.report(HELD)
    for _ in range(2):
        with pytest.raises(DescriptionError) as refusal:
            reporter.report(HELD, replace(campaign.only_round(), **change))
        assert refusal.value.code == "pinned"
    assert reporter.report(HELD) == one
    assert reporter.status().spent == 1.0


def words_for(mechanism, record, answer):
    """Words that lead from a record to an answer."""
    tries = product(range(0, 1 << 64, 1 << 61), repeat=mechanism.n_words)
    return next(list(words) for words in tries if mechanism.perturb(record, words) == answer)


def test_a_year_of_daily_change_is_one_report_and_its_guess_stays_at_73_percent(tmp_path, hurried):
    """P3: it spent 4, an observer was right with 98.2 %, and ids told A-B-A from A-B-C.

    One key, so that every transcript of a year can be enumerated: the device is led to each answer in turn,
    and what it sends all year is a function of that answer alone.
    """
    campaign = Campaign(
        name="it", epsilon=1.0, keys=("it", "else"), value_range=(0, 1), pairs_per_user=1, mechanism="grr"
    )
    mechanism, a, b, c = campaign.build(), {"it": 1.0}, {}, {"else": 1.0}
    histories = {
        "A-A-A": (a, a, a),
        "A-B-A": (a, b, a),
        "A-B-C": (a, b, c),
        "B-A-B": (b, a, b),
        "C-C-C": (c, c, c),
    }
    chances = {name: Counter() for name in histories}
    for name, days in histories.items():
        record = campaign.domain.encode(days[0])
        for number, answer in enumerate(mechanism.answers()):
            words = words_for(mechanism, record, answer)
            reporter = Reporter(
                campaign,
                ledger=tmp_path / f"{name}-{number}.db",
                entropy=lambda _, words=words: words,
                ids=lambda: bytes(16),
            )
            transcript = tuple(reporter.report(days[day % 3]) for day in range(365))
            assert len(set(transcript)) == reporter.status().answers == 1
            assert reporter.status().spent <= 1.0
            chances[name][transcript] += mechanism.probability(answer, record)
    assert all(sum(chance.values()) == 1 for chance in chances.values())
    # The day after the first changes nothing.
    assert chances["A-A-A"] == chances["A-B-A"] == chances["A-B-C"]
    for first, second in permutations(chances.values(), 2):
        for transcript in first | second:
            assert first[transcript] <= mechanism.loss * second[transcript]
        right = sum(max(first[transcript], second[transcript]) for transcript in first | second) / 2
        assert right <= math.e / (1 + math.e) < 0.7311
    ratio = max(chances["A-A-A"][t] / chances["B-A-B"][t] for t in chances["A-A-A"])
    assert 0.731 < ratio / (1 + ratio) < 0.7311


@pytest.mark.statistical
def test_1200_changing_devices_are_counted_1200_times_and_the_release_covers_the_truth(tmp_path, hurried):
    """P4: 1,200 devices whose record changed daily were 3,000 users, chess .84 where .50 was true."""
    campaign = Campaign(
        name="games",
        epsilon=1.0,
        keys=("chess", "go"),
        value_range=(0, 1),
        pairs_per_user=1,
        mechanism="pckv-ue",
    )
    seeded, received = InsecureSeededEntropy(17), {}
    for device in range(1200):
        path = tmp_path / f"{device}.db"
        reporter = Reporter(campaign, ledger=path, entropy=lambda n: seeded(n))
        for day in range(5):
            # Every second day, and by other minutes each time: half of the devices hold chess on any day.
            held = {"chess": (device + day) % 97 / 97} if (device + day) % 2 else {"go": 0.1 * day}
            report = reporter.report(held)
            received[Envelope.from_bytes(report).report_id] = report
    release = campaign.estimate(campaign.tally(received.values()))
    low, high = release.rows()[0]["frequency_low"], release.rows()[0]["frequency_high"]
    assert release.metadata["users"] == len(received) == 1200
    assert low <= 0.5 <= high, f"[{low:.3f}, {high:.3f}]"
    assert high - low < 0.4


def test_a_clock_set_back_revives_no_campaign_also_after_a_restart(tmp_path):
    """A5, which Python withstood: the latest time seen is kept with what was answered."""
    path, campaign = tmp_path / "device.db", make_campaign(expires="2030-01-01")
    for at in (1_900_000_000.0, 1_800_000_000.0, 0.0):  # the first in March 2030
        reporter = Reporter(campaign, ledger=path, clock=lambda at=at: at)
        with pytest.raises(CampaignError) as refusal:
            reporter.report(HELD)
        assert refusal.value.code == "expired"
        reporter.enable()
        assert reporter.submit(HELD).code is Code.EXPIRED
    assert reporter.status().epsilon_lifetime == 0


def test_an_answer_is_not_repeated_after_the_end(tmp_path):
    path, campaign = tmp_path / "device.db", make_campaign(expires="2030-01-01")
    Reporter(campaign, ledger=path, clock=lambda: 0.0).report(HELD)
    with pytest.raises(CampaignError) as refusal:
        Reporter(campaign, ledger=path, clock=lambda: 1_900_000_000.0).report(HELD)
    assert refusal.value.code == "expired"


@pytest.mark.parametrize("epsilon", [1e-9, 0.001, 0.1, 1.0, 32.0])
def test_every_answer_costs_more_than_nothing_and_no_more_than_its_epsilon(tmp_path, epsilon):
    """A1: what was debited could be negative; here it cannot, whatever is asked."""
    spent = 0.0
    for number, mechanism in enumerate(("pckv-ue", "grr", "kvue", "bucket", "olh", "privkv")):
        reporter = Reporter(
            make_campaign(mechanism, epsilon=epsilon),
            ledger=tmp_path / "device.db",
            caps=Caps(campaign=32.0, lifetime=1000.0),
        )
        reporter.report(HELD)
        status = reporter.status()
        assert 0 < status.spent <= epsilon
        assert spent < status.epsilon_lifetime <= epsilon * (number + 1) * (1 + 1e-15)
        spent = status.epsilon_lifetime
