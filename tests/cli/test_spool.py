"""The memory of `keyveil send`: whoever was asked stays asked, with a report, whatever happens in between."""

import sqlite3
import threading

import pytest
from devices import make_campaign

from keyveil.cli.spool import Spool
from keyveil.client import Reporter
from keyveil.errors import LedgerError, ReportRejected

CAMPAIGN = make_campaign()


def reports(count):
    device = Reporter(CAMPAIGN)
    return [device.report({}) for _ in range(count)]


def people(count):
    return [(f"user {number}", report) for number, report in enumerate(reports(count))]


@pytest.fixture
def spool(tmp_path):
    return Spool(tmp_path / "spool", CAMPAIGN.id, 1)


def test_a_person_has_one_report_whatever_comes_later(spool):
    """U8."""
    first = people(5)
    assert spool.put(first) == 5
    assert spool.put(people(5)) == 0
    assert spool.put([("user 4", reports(1)[0]), ("user 5", reports(1)[0])]) == 1
    assert spool.are_new(["user 0", "user 5", "user 6"]) == [False, False, True]
    assert spool.traffic().waiting == 6


def test_a_person_who_is_named_twice_at_once_has_one_report(spool):
    assert spool.put([("ann", report) for report in reports(3)]) == 1


def test_rounds_and_campaigns_are_apart(tmp_path, spool):
    spool.put(people(2))
    for other in (Spool(tmp_path / "spool", CAMPAIGN.id, 2), Spool(tmp_path / "spool", "other", 1)):
        assert other.are_new(["user 0", "user 1"]) == [True, True]


def test_who_was_asked_and_the_report_are_kept_together_or_not_at_all(spool):
    with pytest.raises(ReportRejected):
        spool.put([*people(2), ("user 2", b"no report")])
    assert spool.are_new(["user 0", "user 1", "user 2"]) == [True, True, True]
    assert spool.traffic().waiting == 0


def test_two_senders_at_once_ask_everybody_once(tmp_path, spool):
    spool.put(people(1))
    counts = []

    def sender():
        own, crowd = Spool(tmp_path / "spool", CAMPAIGN.id, 1), people(60)
        counts.append(sum(own.put(crowd[at : at + 10]) for at in range(0, 60, 10)))

    senders = [threading.Thread(target=sender) for _ in range(3)]
    for each in senders:
        each.start()
    for each in senders:
        each.join()
    assert sum(counts) == 59
    assert spool.traffic().waiting == 60


def test_nothing_links_a_person_to_a_report(tmp_path, spool):
    spool.put(people(50))
    with sqlite3.connect(tmp_path / "spool") as connection:
        columns = {row[1] for row in connection.execute("pragma table_info(asked)")}
        rows = connection.execute("select campaign, round, person from asked").fetchall()
        held = {bytes(row[0]) for row in connection.execute("select report from outbox")}
    connection.close()
    assert columns == {"campaign", "round", "person"}
    # In the order of a keyed hash, which is nobody's.
    assert [person for *_, person in rows] == sorted(person for *_, person in rows)
    assert not any(person in report for *_, person in rows for report in held)


def test_a_file_that_is_no_spool_is_refused(tmp_path):
    (tmp_path / "pairs.csv").write_text("user,key,value\n" * 100)
    with pytest.raises(LedgerError, match="cannot be used"):
        Spool(tmp_path / "pairs.csv", CAMPAIGN.id, 1).put(people(1))
