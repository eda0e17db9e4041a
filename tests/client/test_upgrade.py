"""Ledgers of formats 1, 2 and 3 become ones of today: what was spent stays spent, an answer a round is kept.

The old ledgers are made here as the versions before wrote them: their tables, their seals.
"""

import hashlib
import hmac
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import pytest
from devices import make_campaign

from keyveil.client import Caps, Code, Reporter
from keyveil.client.ledger import FORMAT, Ledger
from keyveil.errors import BudgetError, LedgerError
from keyveil.numerics import PRICE_BITS, price, system_entropy
from keyveil.rounds import make_report

OLD = """
create table fact (name text primary key, value) without rowid;
create table spent (campaign text, round integer, epsilon text not null, answers integer not null,
                    primary key (campaign, round)) without rowid;
create table memo (campaign text, round integer, record blob, report blob not null, place integer not null,
                   primary key (campaign, round, record)) without rowid;
create table outbox (place integer primary key, campaign text not null, report_id blob not null unique,
                     report blob not null);
create table route (campaign text primary key, failures integer not null default 0,
                    not_before real not null default 0, sent integer not null default 0,
                    refused integer not null default 0, dropped integer not null default 0) without rowid;
pragma user_version = 1;
"""
SECOND = """
create table fact (name text primary key, value) without rowid;
create table answer (campaign text, round integer, pin text, units text not null, report blob,
                    primary key (campaign, round)) without rowid;
create table outbox (place integer primary key, campaign text not null, report_id blob not null unique,
                     report blob not null);
create table route (campaign text primary key, failures integer not null default 0,
                    not_before real not null default 0, sent integer not null default 0,
                    refused integer not null default 0, dropped integer not null default 0) without rowid;
pragma user_version = 2;
"""
SECRET, CLOCK = bytes(range(32)), 1_700_000_040.0
HELD = {"app-1": 30.0}


def old_report(campaign, number=1):
    """What a device said to a round."""
    mechanism, record = campaign.build(), campaign.domain.encode(HELD)
    words = system_entropy(mechanism.n_words)
    return make_report(mechanism, record, words, tag=campaign.tag, round=number, report_id=os.urandom(16))


def write_old(path, spent, memo=(), waiting=(), consent="given", secret=SECRET):
    """A ledger of format 1: rows (campaign, round, epsilon, answers), and reports in their order."""
    rows = [f"{of} {number} {epsilon} {answers}" for of, number, epsilon, answers in sorted(spent)]
    seal = hmac.digest(secret, "\n".join([CLOCK.hex(), consent, *rows]).encode(), hashlib.sha256)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD)
        facts = [("secret", SECRET), ("clock", CLOCK), ("consent", consent), ("seal", seal)]
        connection.executemany("insert into fact values (?, ?)", facts)
        told = [(of, number, str(epsilon), answers) for of, number, epsilon, answers in spent]
        connection.executemany("insert into spent values (?, ?, ?, ?)", told)
        kept = [
            (of, number, os.urandom(32), report, place) for place, (of, number, report) in enumerate(memo)
        ]
        connection.executemany("insert into memo values (?, ?, ?, ?, ?)", kept)
        queued = [(of, report[19:35], report) for of, report in waiting]
        connection.executemany("insert into outbox (campaign, report_id, report) values (?, ?, ?)", queued)
        connection.commit()


def write_second(path, answers, waiting=(), routes=(), consent="given"):
    """A ledger of format 2: rows (campaign, round, pin, units, report), reports, and rows of a route."""
    rows = [f"{of} {number} {pin} {units}" for of, number, pin, units, _ in sorted(answers)]
    seal = hmac.digest(SECRET, "\n".join([CLOCK.hex(), consent, *rows]).encode(), hashlib.sha256)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(SECOND)
        facts = [("secret", SECRET), ("clock", CLOCK), ("consent", consent), ("seal", seal)]
        connection.executemany("insert into fact values (?, ?)", facts)
        told = [(of, number, pin, str(units), report) for of, number, pin, units, report in answers]
        connection.executemany("insert into answer values (?, ?, ?, ?, ?)", told)
        queued = [(of, report[19:35], report) for of, report in waiting]
        connection.executemany("insert into outbox (campaign, report_id, report) values (?, ?, ?)", queued)
        connection.executemany(
            "insert into route (campaign, failures, sent, refused) values (?, ?, ?, ?)", routes
        )
        connection.commit()


def write_third(path, answers):
    """A ledger of format 3: it knew of ways and sealed reports, and not when an answer was given."""
    write_second(path, answers)
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(
            "alter table answer add column sealed blob; alter table outbox add column sealed blob;"
            "alter table route add column way text; pragma user_version = 3;"
        )


@pytest.mark.parametrize("write", [write_second, write_third])
def test_answers_of_older_formats_count_as_given_when_the_ledger_was_brought_over(path, write):
    """A year later they do not count in a year; for ever they do."""
    campaign, units, year = make_campaign(), 1 << 192, 365 * 86_400.0
    write(path, [(campaign.id, 1, "ab" * 32, units, old_report(campaign))])
    now = CLOCK + 1000.0
    with Ledger(path, clock=lambda: now).transaction() as account:
        given = account.now
        assert given >= now
        assert account.spent() == units
        assert account.spent_since(given - 1.0) == units
    with Ledger(path, clock=lambda: given + year).transaction() as account:
        assert (account.spent(), account.spent_since(account.now - year)) == (units, 0)


def test_a_ledger_of_format_3_that_was_edited_is_refused(path):
    campaign = make_campaign()
    write_third(path, [(campaign.id, 1, "ab" * 32, 1 << 192, old_report(campaign))])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update answer set units = '0'")
        connection.commit()
    with pytest.raises(LedgerError) as refusal:
        device(campaign, path).report(HELD)
    assert refusal.value.code == "ledger-corrupt"


def units_up(epsilon):
    """An old price in units, rounded up."""
    return -(-(epsilon.numerator << PRICE_BITS) // epsilon.denominator)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "device.db"


def device(campaign, path, **options):
    return Reporter(campaign, ledger=path, clock=lambda: CLOCK, **options)


def test_what_was_spent_stays_spent_to_the_unit(path):
    """Prices of format 1 were fractions finer than a unit: each round's is rounded up, none down."""
    campaign, other = make_campaign(epsilon=4.0), make_campaign(name="other")
    prices = Fraction(10, 3), Fraction(1, 7 << 200), Fraction(2, 3)
    write_old(
        path, [(campaign.id, 1, prices[0], 3), (campaign.id, 2, prices[1], 1), (other.id, 1, prices[2], 1)]
    )
    with Ledger(path, clock=lambda: CLOCK).transaction() as account:
        assert account.spent(campaign.id) == units_up(prices[0]) + 1
        assert account.spent() == units_up(prices[0]) + 1 + units_up(prices[2])
        assert (account.secret, account.now, account.consent) == (SECRET, CLOCK, "given")
    caps = Caps(campaign=9.0, lifetime=4.5)
    assert device(campaign, path).status().answers == 2
    with pytest.raises(BudgetError) as refusal:
        device(make_campaign(name="third"), path, caps=caps).report(HELD)
    assert refusal.value.code == "over-lifetime-cap"


def test_the_latest_bytes_are_repeated_whatever_the_description(path):
    campaign = make_campaign()
    said = [old_report(campaign) for _ in range(3)]
    write_old(path, [(campaign.id, 1, Fraction(3), 3)], [(campaign.id, 1, report) for report in said])
    for asked in (
        campaign.only_round(),
        replace(campaign.only_round(), purpose="check"),
        replace(campaign.only_round(), mechanism=make_campaign("kvue").build()),
    ):
        assert device(campaign, path).report({}, asked) == said[-1]
        assert "noised bytes" in device(campaign, path).explain(HELD, asked)
    assert device(campaign, path).status().spent == 3.0
    on_disk = path.read_bytes()
    assert said[-1] in on_disk
    assert not any(report in on_disk for report in said[:2])


def test_a_round_whose_bytes_were_wiped_is_answered(path):
    campaign = make_campaign()
    write_old(path, [(campaign.id, 1, Fraction(1), 1)], consent="withdrawn")
    reporter = device(campaign, path)
    assert reporter.submit(HELD).code is Code.DISABLED
    reporter.enable()
    assert reporter.submit(HELD).code is Code.ANSWERED


def test_what_waited_is_sent(path, collector):
    campaign = make_campaign()
    report = old_report(campaign)
    write_old(path, [(campaign.id, 1, Fraction(1), 1)], [(campaign.id, 1, report)], [(campaign.id, report)])
    assert device(campaign, path, collector=collector.url).upload()
    assert collector.received == [report]


@pytest.mark.parametrize(
    "harm",
    [
        "update spent set epsilon = '1/9'",
        "update spent set answers = 9",
        "delete from spent",
        "update fact set value = 'given' where name = 'consent'",
        "update fact set value = 0.0 where name = 'clock'",
        "delete from fact where name = 'seal'",
        "update spent set epsilon = '1e999999999'",
        "update spent set epsilon = '-1'",
        "update spent set epsilon = 'much'",
        "drop table memo",
    ],
)
def test_an_old_ledger_that_was_edited_is_refused_and_left_as_it_is(path, harm):
    campaign = make_campaign()
    write_old(
        path, [(campaign.id, 1, Fraction(1), 1)], [(campaign.id, 1, old_report(campaign))], consent="unasked"
    )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(harm)
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(LedgerError) as refusal:
        device(campaign, path).report(HELD)
    assert refusal.value.code == "ledger-corrupt"
    assert path.read_bytes() == before


def test_a_seal_by_another_secret_is_refused(path):
    write_old(path, [("c", 1, Fraction(1), 1)], secret=bytes(32))
    with pytest.raises(LedgerError, match="seal"):
        device(make_campaign(), path).report(HELD)


def test_what_an_old_ledger_earned_is_refused(path):
    """A negative price with the right seal, as no device of this language could write it."""
    write_old(path, [("c", 1, Fraction(-1), 1)])
    before = path.read_bytes()
    with pytest.raises(LedgerError) as refusal:
        device(make_campaign(), path).report(HELD)
    assert refusal.value.code == "ledger-corrupt"
    assert path.read_bytes() == before


# --- format 2: no relay, nothing sealed ---


def second_answer(campaign):
    asked = campaign.only_round()
    return campaign.id, 1, asked.pin, price(asked.mechanism.loss), old_report(campaign)


def test_what_format_2_said_is_repeated_and_what_waited_is_sent(path, collector):
    campaign = make_campaign()
    said = second_answer(campaign)
    write_second(path, [said], [(campaign.id, said[-1])])
    one = device(campaign, path, collector=collector.url)
    assert one.report({}) == said[-1]
    assert (one.status().spent, one.status().route) == (1.0, None)
    assert one.upload()
    assert collector.received == [said[-1]]
    assert one.status().route == "direct"


@pytest.mark.parametrize("counts", [(1, 0, 0), (0, 1, 0), (0, 0, 1)])
def test_what_format_2_sent_went_directly(path, counts):
    """An attempt that failed may have arrived."""
    allowed = make_campaign(relay="allowed", batch=10)
    tried, idle = second_answer(allowed), second_answer(replace(allowed, name="idle"))
    write_second(path, [tried, idle], routes=[(tried[0], *counts), (idle[0], 0, 0, 0)])
    options = {"relay": "https://relay.example", "sealing_key": "ab" * 32}
    assert device(allowed, path, **options).upload().code is Code.OTHER_ROUTE
    assert device(allowed, path).status().route == "direct"
    assert device(replace(allowed, name="idle"), path, **options).upload()


def test_a_ledger_of_format_2_that_was_edited_is_refused(path):
    campaign = make_campaign()
    write_second(path, [second_answer(campaign)])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("update answer set units = '0'")
        connection.commit()
    with pytest.raises(LedgerError) as refusal:
        device(campaign, path).report(HELD)
    assert refusal.value.code == "ledger-corrupt"


UPGRADE = """
import sys
from keyveil.client.ledger import Ledger
print("up", flush=True)
with Ledger(sys.argv[1], clock=lambda: 1_700_000_040.0).transaction():
    pass
print("done", flush=True)
"""


@pytest.mark.parametrize(
    "times", [12, pytest.param(100, marks=[pytest.mark.nightly, pytest.mark.timeout(900)])]
)
def test_a_kill_in_the_middle_leaves_one_format_or_the_other_complete(tmp_path, times):
    campaign, met = make_campaign(), set()
    said = [old_report(campaign) for _ in range(3000)]
    spent = [(campaign.id, number, Fraction(number, 7), 1) for number in range(1, len(said) + 1)]
    total = sum(units_up(Fraction(number, 7)) for number in range(1, len(said) + 1))
    for attempt in range(times):
        path = tmp_path / f"{attempt}.db"
        write_old(path, spent, [(campaign.id, number, report) for number, report in enumerate(said, 1)])
        child = subprocess.Popen([sys.executable, "-c", UPGRADE, str(path)], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"up\n"
        time.sleep(0.2 * attempt / times)
        child.send_signal(signal.SIGKILL)
        child.communicate()
        with closing(sqlite3.connect(path)) as connection:
            (found,) = connection.execute("pragma user_version").fetchone()
            tables = {
                row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")
            }
        assert tables == {"fact", "outbox", "route"} | (
            {"spent", "memo"} if found == 1 else {"answer", "series", "wave"}
        )
        met.add(found)
        with Ledger(path, clock=lambda: CLOCK).transaction() as account:
            assert account.spent() == total
            assert all(
                account.answer(campaign.id, number).report == said[number - 1] for number in (1, 77, 3000)
            )
    assert met == {1, FORMAT}
