"""What was spent stays spent: one vote, caps, clocks, damaged files, full and read-only disks."""

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
from keyveil.client.ledger import AnsweredRound, Ledger
from keyveil.client.permission import epsilon_of
from keyveil.errors import BudgetError, CampaignError, KeyveilError, LedgerError, RecordError
from keyveil.mechanisms import REGISTRY, build
from keyveil.methods import has_several_rounds
from keyveil.numerics import PRICE_BITS, price
from keyveil.report import Envelope

HELD = {"app-1": 30.0, "app-2": 5.0}
ONE_ROUND = [m for m in ("privkv-em", *REGISTRY) if not has_several_rounds(m)]


class Unread(dict):
    """A record that must not be read."""

    def items(self):
        raise AssertionError("the data was read")

    __iter__ = __len__ = __getitem__ = keys = values = items


@pytest.fixture
def path(tmp_path):
    return tmp_path / "device.db"


@pytest.mark.parametrize("mechanism", ONE_ROUND)
def test_a_round_is_answered_once_repeated_unread_and_paid_for_once(path, mechanism):
    campaign = make_campaign(mechanism)
    first = Reporter(campaign, ledger=path).report(HELD)
    again = {Reporter(campaign, ledger=path).report(Unread()) for _ in range(10)}
    assert again == {first}
    status = Reporter(campaign, ledger=path).status()
    assert status.answers == 1
    assert 0 < status.spent == epsilon_of(price(campaign.build().loss)) <= 1.0


def test_a_changed_record_repeats_the_answer_and_draws_nothing(path):
    draws = []

    def counting(n_words):
        draws.append(n_words)
        return [0] * n_words

    reporter = Reporter(make_campaign(), ledger=path, entropy=counting)
    first = reporter.report(HELD)
    for held in ({}, {"app-1": 1.0}, {**HELD, "unknown": 7.0}, HELD):
        assert reporter.report(held) == first
    assert len(draws) == 1


def test_beyond_its_caps_a_device_still_repeats_what_it_said(path):
    said = Reporter(make_campaign(), ledger=path).report(HELD)
    tight = Reporter(make_campaign(), ledger=path, caps=Caps(campaign=0.5, lifetime=0.5))
    assert tight.report(Unread()) == said
    assert tight.status().epsilon_worst_case == 1.0


def test_no_payload_is_repeated_across_campaigns(path):
    """Another campaign is another vote, drawn and paid for anew; the lifetime cap holds them together."""
    said = [Reporter(make_campaign(name=f"day {n}"), ledger=path).report(HELD) for n in range(8)]
    assert len({Envelope.from_bytes(report).payload for report in said}) == 8
    assert Reporter(make_campaign(name="day 0"), ledger=path).status().epsilon_lifetime == pytest.approx(8.0)


def test_a_campaign_that_asks_for_more_is_refused_before_the_data_is_read(path):
    reporter = Reporter(make_campaign(epsilon=5.0), ledger=path)
    with pytest.raises(BudgetError, match="costs epsilon 5; of the 4 that this device allows a campaign"):
        reporter.report(Unread())
    reporter.enable()
    assert reporter.submit(Unread()).code is Code.OVER_CAMPAIGN_CAP
    assert reporter.status().epsilon_lifetime == 0


def test_the_lifetime_cap_binds_all_campaigns_together_whatever_they_are_called(path):
    caps = Caps(campaign=1.0, lifetime=3.0)
    for day in range(3):
        Reporter(make_campaign(name=f"day {day}"), ledger=path, caps=caps).report(HELD)
    late = Reporter(make_campaign(name="day 3"), ledger=path, caps=caps)
    with pytest.raises(BudgetError, match="allows all campaigns, 3 is spent") as refusal:
        late.report(Unread())
    assert refusal.value.code == "over-lifetime-cap"
    assert late.status().epsilon_worst_case == 3.0


def test_a_round_that_costs_more_than_the_campaign_promises_is_refused(path):
    campaign = make_campaign()
    greedy = replace(campaign.only_round(), mechanism=make_campaign(epsilon=1.5).build())
    with pytest.raises(BudgetError, match="of the 1 that the campaign promises, 0 is spent") as refusal:
        Reporter(campaign, ledger=path).report(Unread(), greedy)
    assert refusal.value.code == "over-promise"


def stages(campaign):
    """Every round that may come, as rounds of the campaign."""
    return [replace(stage, campaign=campaign.id) for stage in campaign.protocol().stages()]


@pytest.mark.parametrize("rounds", [2, 3, 7])
def test_every_round_of_a_protocol_is_answered_once_and_they_fit_the_promise(path, rounds):
    campaign = make_campaign("privkvm", rounds=rounds)
    reporter = Reporter(campaign, ledger=path)
    asked = stages(campaign)
    answers = [reporter.report(HELD, stage) for stage in asked]
    assert [Envelope.from_bytes(answer).round for answer in answers] == list(range(1, len(asked) + 1))
    assert [reporter.report(Unread(), stage) for stage in asked] == answers
    paid = sum(price(stage.mechanism.loss) for stage in asked)
    assert reporter.status().spent == epsilon_of(paid) <= 1.0


def test_rounds_that_together_break_the_promise_are_refused(path):
    campaign = make_campaign("privkvm", rounds=2)
    reporter = Reporter(campaign, ledger=path, caps=Caps(campaign=9.0))
    first, second = stages(campaign)
    reporter.report(HELD, first)
    reporter.report(HELD, second)
    with pytest.raises(BudgetError, match="of the 1 that the campaign promises") as refusal:
        reporter.report(Unread(), replace(second, number=3))
    assert refusal.value.code == "over-promise"


def test_cheap_answers_do_not_hide_dear_ones(path):
    """A2: a round was priced at the average of its answers, so that 1.6 of a promised 1 could be spent."""
    campaign = make_campaign("privkvm")

    def asking(epsilon, number):
        mechanism = build("kvue", epsilon, n_keys=40)
        return replace(stages(campaign)[0], number=number, mechanism=mechanism, keys=None)

    reporter = Reporter(campaign, ledger=path, caps=Caps(campaign=99.0, lifetime=99.0))
    assert refused(reporter, asking(0.66, 1)) is None
    cheap = [refused(reporter, asking(0.01, 1), {"app-1": float(day)}) for day in range(28)]
    assert cheap == ["pinned"] * 28
    assert refused(reporter, asking(0.66, 2)) == "over-promise"
    assert refused(reporter, asking(0.33, 2)) is None
    assert refused(reporter, asking(0.011, 3)) == "over-promise"
    assert reporter.status().spent == pytest.approx(0.99)


def test_a_device_answers_only_the_rounds_of_its_own_group(tmp_path):
    campaign = make_campaign("privkvm-star")
    asked, middle = stages(campaign)[0], Fraction(1, 2)
    halves = [replace(asked, group=group) for group in ((Fraction(0), middle), (middle, Fraction(1)))]
    met = Counter()
    for device in range(40):
        # Under the numbers of two rounds, so that no pin but the group alone decides.
        reporter = Reporter(campaign, ledger=tmp_path / f"{device}.db")
        other = replace(halves[1], number=2)
        answered = [refused(reporter, halves[0]), refused(reporter, other)]
        assert answered == [refused(reporter, halves[0]), refused(reporter, other)]
        met[tuple(answered)] += 1
    # Forty fair coins: all on one side once in 5e11 runs.
    assert set(met) == {(None, "other-group"), ("other-group", None)}


def refused(reporter, asked, held=HELD):
    """The code of a refusal; None for an answer."""
    try:
        reporter.report(held, asked)
    except KeyveilError as error:
        return error.code
    return None


def test_sums_are_exact_and_rounded_up(path):
    ledger, third = Ledger(path), (1 << PRICE_BITS) // 3 + 1
    for number in range(1, 51):
        with ledger.transaction() as account:
            account.keep("c", number, AnsweredRound(pin=None, units=third, report=b""))
    with ledger.transaction() as account:
        assert account.spent("c") == account.spent() == 50 * third
        assert Fraction(epsilon_of(account.spent())) >= Fraction(50 * third, 1 << PRICE_BITS)


def test_a_ledger_that_earns_is_refused(path):
    """No debit is ever negative, though its seal be right."""
    ledger = Ledger(path)
    with ledger.transaction() as account:
        account.keep("c", 1, AnsweredRound(pin=None, units=-1, report=b""))
    with pytest.raises(LedgerError, match="earned"), ledger.transaction():
        pass


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
        connection.execute("update answer set units = '0'")
    connection.close()


def erased(path):
    with sqlite3.connect(path) as connection:
        connection.execute("delete from answer")
    connection.close()


def unpinned(path):
    with sqlite3.connect(path) as connection:
        connection.execute("update answer set pin = null")
    connection.close()


def unsealed(path):
    with sqlite3.connect(path) as connection:
        connection.execute("delete from fact where name = 'seal'")
    connection.close()


def newer(path):
    with sqlite3.connect(path) as connection:
        connection.execute("pragma user_version = 5")
    connection.close()


def folder(path):
    path.unlink()
    path.mkdir()


def garbage_numbers(path):
    with sqlite3.connect(path) as connection:
        connection.execute("update answer set units = 'much'")
    connection.close()


@pytest.mark.parametrize(
    "damage",
    [
        empty,
        half,
        scribble,
        text,
        foreign,
        edited,
        erased,
        unpinned,
        unsealed,
        newer,
        folder,
        garbage_numbers,
    ],
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
        assert receipt.code in (Code.LEDGER_CORRUPT, Code.LEDGER_UNWRITABLE)
        assert "cannot be used" in receipt.detail
    assert fresh.explain({}) == receipt.message


def test_every_flipped_byte_is_refused_or_harmless(path):
    """No single damaged byte makes the ledger say that less was spent."""
    Reporter(make_campaign(), ledger=path).report(HELD)
    good = path.read_bytes()
    for at in range(0, len(good), 61):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        status = Reporter(make_campaign(), ledger=path).status()
        told = getattr(status, "code", None)
        assert told in (Code.LEDGER_CORRUPT, Code.LEDGER_UNWRITABLE) or status.spent == 1.0


def test_a_place_that_cannot_be_written_is_refused(tmp_path):
    for nowhere in (tmp_path / "no" / "such" / "folder.db", "/proc/keyveil.db"):
        with pytest.raises(LedgerError, match="nothing is reported without it"):
            Reporter(make_campaign(), ledger=nowhere).report(Unread())


def _as_nobody(path, channel):
    if os.geteuid() == 0:
        os.setuid(65534)
    try:
        Reporter(make_campaign(name="new"), ledger=path).report(HELD)
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
    made = 0
    try:
        for i in range(2000):
            caps = Caps(campaign=1e6, lifetime=1e6)
            Reporter(make_campaign(name=f"{i}"), ledger=path, caps=caps).report(HELD)
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
    assert Reporter(make_campaign(), ledger=path).status().epsilon_lifetime == pytest.approx(made + 1)


def test_another_process_that_holds_the_ledger_makes_it_busy_not_stuck(path, monkeypatch):
    monkeypatch.setattr("keyveil.client.ledger._PATIENCE", 0.05)
    Reporter(make_campaign(), ledger=path).report(HELD)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("begin exclusive")
    with pytest.raises(LedgerError, match="locked") as refusal:
        Reporter(make_campaign(), ledger=path).report(HELD)
    assert refusal.value.code == "ledger-busy"
    holder.close()


def _report_one(path, number, channel):
    reporter = Reporter(make_campaign(), ledger=path)
    channel.put([reporter.report({"app-1": float(number)}), Reporter(make_campaign()).report({})])


def test_forks_share_neither_noise_nor_connections_and_have_one_vote(path):
    context = multiprocessing.get_context("fork")
    channel = context.SimpleQueue()
    children = [context.Process(target=_report_one, args=(path, n, channel)) for n in range(4)]
    for child in children:
        child.start()
    votes, fresh = zip(*(channel.get() for _ in children), strict=True)
    for child in children:
        child.join()
    assert len(set(votes)) == 1
    assert len(set(fresh)) == 4
    assert Reporter(make_campaign(), ledger=path).status().answers == 1


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


@pytest.mark.parametrize("cap", [0, -1.0, float("nan"), float("inf"), 10**400, "4", True, None])
def test_caps_are_numbers(cap):
    with pytest.raises(BudgetError, match="cap must be a positive number"):
        Caps(campaign=cap)


@pytest.mark.parametrize(
    "expires", ["soon", "9999-12-31", "2027-W05", "20270131", "2027-02-30", "2027-01-31T25:00"]
)
def test_expiry_must_be_a_date(expires):
    with pytest.raises(CampaignError, match="expires must be a date"):
        make_campaign(expires=expires)
