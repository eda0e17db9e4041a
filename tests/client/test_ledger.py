"""What was spent stays spent: caps, memory, clocks, damaged files, full and read-only disks."""

import multiprocessing
import os
import resource
import sqlite3
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from devices import make_campaign

from keyveil.client import Caps, Code, Reporter
from keyveil.client.ledger import Ledger
from keyveil.errors import BudgetError, CampaignError, KeyveilError, LedgerError, ProtocolError, RecordError
from keyveil.mechanisms import REGISTRY, SEVERAL_ROUNDS
from keyveil.numerics import epsilon_above, log_above, rounded_up
from keyveil.report import Envelope

HELD = {"app-1": 30.0, "app-2": 5.0}
ONE_ROUND = [m for m in ("privkv-em", *REGISTRY) if m not in SEVERAL_ROUNDS]


class Unread(dict):
    """A record that must not be read."""

    def items(self):
        raise AssertionError("the data was read")

    __iter__ = __len__ = __getitem__ = keys = values = items


@pytest.fixture
def path(tmp_path):
    return tmp_path / "device.db"


@pytest.mark.parametrize("mechanism", ONE_ROUND)
def test_the_same_question_about_the_same_data_repeats_the_same_bytes_and_costs_once(path, mechanism):
    campaign = make_campaign(mechanism)
    first = Reporter(campaign, ledger=path).report(HELD)
    again = {Reporter(campaign, ledger=path).report(dict(reversed(HELD.items()))) for _ in range(10)}
    assert again == {first}
    status = Reporter(campaign, ledger=path).status()
    assert status.answers == 1
    assert status.epsilon_campaign == epsilon_above(campaign.build().loss) <= 1.0


def test_what_is_outside_the_question_changes_no_answer(path):
    reporter = Reporter(make_campaign(), ledger=path)
    assert reporter.report(HELD) == reporter.report({**HELD, "unknown": 7.0, "app-9": float("nan")})


def test_a_changed_record_is_a_new_answer_until_the_cap_and_then_the_latest_is_repeated_unread(path):
    reporter = Reporter(make_campaign(), ledger=path, caps=Caps(campaign=3.0, lifetime=10.0))
    answers = [reporter.report({"app-1": float(i)}) for i in range(3)]
    assert len({Envelope.from_bytes(answer).report_id for answer in answers}) == 3
    assert reporter.status().epsilon_campaign == pytest.approx(3.0)
    assert reporter.report(Unread()) == answers[2]
    assert reporter.status().answers == 3


def test_going_back_to_an_earlier_record_repeats_its_answer(path):
    reporter = Reporter(make_campaign(), ledger=path)
    one, _other = reporter.report({"app-1": 1.0}), reporter.report({"app-1": 2.0})
    assert reporter.report({"app-1": 1.0}) == one


def test_a_campaign_that_asks_for_more_is_refused_before_the_data_is_read(path):
    reporter = Reporter(make_campaign(epsilon=5.0), ledger=path)
    with pytest.raises(BudgetError, match="costs epsilon 5; of the 4 that this device allows this campaign"):
        reporter.report(Unread())
    reporter.enable()
    assert reporter.submit(Unread()).code is Code.BUDGET
    assert reporter.status().epsilon_lifetime == 0


def test_the_lifetime_cap_binds_all_campaigns_together_whatever_they_are_called(path):
    caps = Caps(campaign=1.0, lifetime=3.0)
    for day in range(3):
        Reporter(make_campaign(name=f"day {day}"), ledger=path, caps=caps).report(HELD)
    late = Reporter(make_campaign(name="day 3"), ledger=path, caps=caps)
    with pytest.raises(BudgetError, match="all campaigns together, 3 is spent"):
        late.report(Unread())
    assert late.status().epsilon_worst_case == 3.0


def test_a_round_that_costs_more_than_the_campaign_promises_is_refused(path):
    class Greedy:
        number, group, mechanism = 1, (0, 1), make_campaign(epsilon=1.5).build()

        def narrow(self, record):
            return record

    with pytest.raises(BudgetError, match=r"more than the 1 that the campaign promises"):
        Reporter(make_campaign(), ledger=path).report(Unread(), Greedy())


@pytest.mark.parametrize("rounds", [2, 3, 7])
def test_every_round_is_a_question_of_its_own(path, rounds):
    campaign = make_campaign("privkvm", rounds=rounds)
    reporter = Reporter(campaign, ledger=path, caps=Caps(campaign=1.0))
    rounds = campaign.protocol().stages()
    answers = [reporter.report(HELD, stage) for stage in rounds]
    assert [Envelope.from_bytes(answer).round for answer in answers] == list(range(1, len(rounds) + 1))
    assert [reporter.report(HELD, stage) for stage in rounds] == answers
    paid = sum(log_above(stage.mechanism.loss) for stage in rounds)
    assert reporter.status().epsilon_campaign == rounded_up(paid) <= 1.0


def test_rounds_that_together_break_the_promise_are_refused(path):
    campaign = make_campaign("privkvm", rounds=2)
    reporter = Reporter(campaign, ledger=path, caps=Caps(campaign=9.0))
    first, second = campaign.protocol().stages()
    reporter.report(HELD, first)
    reporter.report({"app-3": 1.0}, first)  # a changed record is the device's own affair
    reporter.report(HELD, second)
    with pytest.raises(BudgetError, match="more than the 1 that the campaign promises"):
        reporter.report(Unread(), replace(second, number=3))


def test_a_device_answers_only_the_rounds_of_its_own_group(tmp_path):
    campaign = make_campaign("privkvm-star")
    asked = campaign.protocol().stages()[0]
    halves = [replace(asked, group=group) for group in ((0, Fraction(1, 2)), (Fraction(1, 2), 1))]
    met = Counter()
    for device in range(40):
        reporter = Reporter(campaign, ledger=tmp_path / f"{device}.db")
        answered = [half for half in (0, 1) if answers(reporter, halves[half])]
        assert answered == [half for half in (0, 1) if answers(reporter, halves[half])]
        met[tuple(answered)] += 1
    # Forty fair coins: all on one side once in 5e11 runs.
    assert set(met) == {(0,), (1,)}


def answers(reporter, asked):
    try:
        return bool(reporter.report(HELD, asked))
    except ProtocolError:
        return False


def test_sums_are_exact_and_rounded_up(path):
    ledger, tenth = Ledger(path), Fraction(0.1)
    for _ in range(50):
        with ledger.transaction() as account:
            account.debit("c", tenth)
    with ledger.transaction() as account:
        assert account.spent("c") == 50 * tenth
        assert Fraction(rounded_up(account.spent())) >= 50 * tenth


def test_a_clock_set_back_gives_nothing_back(path):
    now = [1_900_000_000.0]  # in March 2030
    campaign = make_campaign(expires="2030-01-01")
    reporter = Reporter(campaign, ledger=path, clock=lambda: now[0])
    with pytest.raises(CampaignError, match="ended on 2030-01-01"):
        reporter.report(Unread())
    now[0] = 0.0
    with pytest.raises(CampaignError, match="ended"):
        reporter.report(Unread())
    assert Reporter(make_campaign(expires="2031-01-01"), ledger=path, clock=lambda: 0.0).report(HELD)


def test_a_campaign_lasts_through_its_last_day(path):
    campaign = make_campaign(expires="1970-01-02")
    assert Reporter(campaign, ledger=path, clock=lambda: 2 * 86_400 - 61.0).report(HELD)
    with pytest.raises(CampaignError, match="ended"):
        Reporter(campaign, ledger=path, clock=lambda: 2 * 86_400.0).report(HELD)


def test_the_record_is_not_in_the_file(path):
    keys = ("stigma-clinic", "app-2")
    reporter = Reporter(make_campaign(keys=keys), ledger=path)
    reporter.enable()
    reporter.submit({"stigma-clinic": 41.375})
    bytes_on_disk = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert b"stigma" not in bytes_on_disk
    assert b"41.375" not in bytes_on_disk
    level = reporter._campaign.domain.encode({"stigma-clinic": 41.375}).pairs[0].level
    assert str(level).encode() not in bytes_on_disk
    assert level.to_bytes(8, "big") not in bytes_on_disk


def test_repeating_an_answer_writes_nothing(path):
    reporter = Reporter(make_campaign(), ledger=path, clock=lambda: 1_700_000_000.0)
    reporter.report(HELD)
    before = path.stat().st_mtime_ns, path.read_bytes()
    reporter.report(HELD)
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before


def test_only_its_owner_reads_the_file(path):
    Reporter(make_campaign(), ledger=path).report(HELD)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == [path.name]


# --- files that cannot be believed, disks that cannot be written ---


def empty(path):
    path.write_bytes(b"")


def half(path):
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def scribble(path):
    data = bytearray(path.read_bytes())
    data[100:4096] = os.urandom(3996)
    path.write_bytes(data)


def text(path):
    path.write_text("spent: 0")


def foreign(path):
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("create table spent (x)")
    connection.close()


def edited(path):
    with sqlite3.connect(path) as connection:
        connection.execute("update spent set epsilon = '0'")
    connection.close()


def erased(path):
    with sqlite3.connect(path) as connection:
        connection.execute("delete from spent")
    connection.close()


def unsealed(path):
    with sqlite3.connect(path) as connection:
        connection.execute("delete from fact where name = 'seal'")
    connection.close()


def newer(path):
    with sqlite3.connect(path) as connection:
        connection.execute("pragma user_version = 2")
    connection.close()


def folder(path):
    path.unlink()
    path.mkdir()


def garbage_numbers(path):
    with sqlite3.connect(path) as connection:
        connection.execute("update spent set epsilon = 'much'")
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [empty, half, scribble, text, foreign, edited, erased, unsealed, newer, folder, garbage_numbers],
    ids=lambda damage: damage.__name__,
)
def test_a_damaged_ledger_refuses_to_report_rather_than_forget(path, damage):
    reporter = Reporter(make_campaign(), ledger=path)
    reporter.report(HELD)
    damage(path)
    fresh = Reporter(make_campaign(), ledger=path)
    with pytest.raises(LedgerError, match=r"the ledger device.db cannot be used"):
        fresh.report(Unread())
    for receipt in (fresh.enable(), fresh.submit(Unread()), fresh.status(), fresh.disable()):
        assert receipt.code is Code.LEDGER
    assert "cannot be used" in fresh.explain({})


def test_every_flipped_byte_is_refused_or_harmless(path):
    """No single damaged byte makes the ledger say that less was spent."""
    Reporter(make_campaign(), ledger=path).report(HELD)
    good = path.read_bytes()
    for at in range(0, len(good), 61):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        status = Reporter(make_campaign(), ledger=path).status()
        assert getattr(status, "code", None) is Code.LEDGER or status.epsilon_campaign == 1.0


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    for nowhere in (tmp_path / "no" / "such" / "folder.db", "/proc/keyveil.db"):
        with pytest.raises(LedgerError, match="nothing is reported without it"):
            Reporter(make_campaign(), ledger=nowhere).report(Unread())


def _as_nobody(path, channel):
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        Reporter(make_campaign(), ledger=path).report({"app-1": 55.0})
        channel.put("reported")
    except KeyveilError as error:
        channel.put(str(error))


def test_a_read_only_ledger_reports_nothing(path, tmp_path):
    Reporter(make_campaign(), ledger=path).report(HELD)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if os.stat(parent).st_uid == os.geteuid() and str(parent).startswith("/tmp/"):
            parent.chmod(0o755)
    path.chmod(0o444)
    channel = multiprocessing.get_context("fork").SimpleQueue()
    child = multiprocessing.get_context("fork").Process(target=_as_nobody, args=(path, channel))
    child.start()
    said = channel.get()
    child.join()
    assert "readonly" in said or "unable to open" in said
    assert Reporter(make_campaign(), ledger=path).status().answers == 1


def _with_little_room(path, room, channel):
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    reporter = Reporter(make_campaign(), ledger=path, caps=Caps(campaign=1e6, lifetime=1e6))
    made = 0
    try:
        for i in range(2000):
            reporter.report({"app-1": i / 100})
            made += 1
        channel.put((made, "all"))
    except KeyveilError as error:
        channel.put((made, str(error)))


def test_a_full_disk_reports_nothing_and_loses_nothing(path):
    Reporter(make_campaign(), ledger=path).report(HELD)
    room = path.stat().st_size + 8192
    context = multiprocessing.get_context("fork")
    channel = context.SimpleQueue()
    child = context.Process(target=_with_little_room, args=(path, room, channel))
    child.start()
    made, said = channel.get()
    child.join()
    assert "cannot be used" in said
    assert Reporter(make_campaign(), ledger=path).status().answers == made + 1


def test_another_process_that_holds_the_ledger_makes_it_busy_not_stuck(path, monkeypatch):
    monkeypatch.setattr("keyveil.client.ledger._PATIENCE", 0.05)
    Reporter(make_campaign(), ledger=path).report(HELD)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("begin exclusive")
    with pytest.raises(LedgerError, match="locked"):
        Reporter(make_campaign(), ledger=path).report(HELD)
    holder.close()


def _report_one(path, number, channel):
    reporter = Reporter(make_campaign(), ledger=path, caps=Caps(campaign=100.0, lifetime=100.0))
    channel.put([reporter.report({"app-1": float(number)}), Reporter(make_campaign()).report({})])


def test_forks_share_neither_noise_nor_connections(path):
    context = multiprocessing.get_context("fork")
    channel = context.SimpleQueue()
    children = [context.Process(target=_report_one, args=(path, n, channel)) for n in range(4)]
    for child in children:
        child.start()
    said = [report for _ in children for report in channel.get()]
    for child in children:
        child.join()
    assert len(set(said)) == 8
    assert Reporter(make_campaign(), ledger=path).status().answers == 4


# --- odd records ---


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 10**400, -1e308, 1e-320])
def test_odd_numbers_are_settled_by_rule(path, value):
    reporter = Reporter(make_campaign(), ledger=path)
    assert len(reporter.report({"app-1": value, "unknown": value})) == len(
        Reporter(make_campaign()).report({})
    )


@pytest.mark.parametrize(
    "held", [{"app-1": "4711"}, {4711: 1.0}, {"app-1": None}, ["app-1", 4711], None, 4711]
)
def test_what_is_no_record_is_refused_without_being_quoted(path, held):
    reporter = Reporter(make_campaign(), ledger=path)
    with pytest.raises(RecordError, match="record must be") as refusal:
        reporter.report(held)
    assert "4711" not in str(refusal.value)
    assert reporter.status().answers == 0


def test_a_million_pairs_make_one_report(path):
    held = {f"stranger-{i}": float(i) for i in range(10**6)}
    reporter = Reporter(make_campaign(), ledger=path)
    assert reporter.report(held) == reporter.report({})


@pytest.mark.parametrize("cap", [0, -1.0, float("nan"), float("inf"), "4", True, None])
def test_caps_are_numbers(cap):
    with pytest.raises(BudgetError, match="cap must be a positive number"):
        Caps(campaign=cap)


def test_expiry_must_be_a_date():
    with pytest.raises(CampaignError, match="expires must be a date"):
        make_campaign(expires="soon")
