"""Over any history, no two records' chances of all that a device sends differ by more than e**epsilon.

A hostile collector picks its moves by what it has heard so far: it opens, re-opens, re-orders, re-numbers,
re-groups and shrinks rounds, changes the mechanism, lies about epsilon, and asks again, while the record
changes and the person says no and yes. The device is the real one, with its ledger on disk. Its coins are
enumerated: wherever it draws, the history goes on once for every answer that it may give, with words that
give it, and with the answer's exact chance. So every transcript (codes and bytes) has an exact probability
under every history of records, as a fraction.

Of series the collector opens waves at any time, in any order, with keys that came later, and makes new
series that look like the old; the clock jumps. All of it tells at most the answers of the series, or, of
several series and campaigns, what the device allows in all.
"""

import hashlib
import itertools
import json
import shutil
from dataclasses import replace
from fractions import Fraction

import pytest

import histories
from calibrations import scripted_words
from keyveil import Campaign
from keyveil.client import Caps, Reporter, ledger
from keyveil.client.waves import Wave
from keyveil.errors import KeyveilError
from keyveil.numerics import Words, exp_below
from keyveil.report import Envelope, public_word

EPSILON = 1.0
STEPS = 5
HELD = ({}, {"a": 1.0}, {"a": 0.0, "b": 1.0})
# What the record is at each step: the same throughout, or another from some step on.
LIVES = (
    *((held,) * STEPS for held in HELD),
    (HELD[0], *(HELD[1],) * (STEPS - 1)),
    (HELD[1], HELD[2], HELD[0], HELD[1], HELD[2]),
)
TINY = (
    {"id": "grr", "epsilon": "1"},
    {"id": "grr", "epsilon": "1/2"},
    {"id": "own-sign", "epsilon": "1/2"},
    {"id": "size-class", "epsilon": "1/3", "starts": [0, 1]},
    {"id": "record-size", "epsilon": "1/4", "largest": 1},
    {"id": "grr", "epsilon": "2"},
)


@pytest.fixture(autouse=True)
def _ledgers_need_not_survive_a_power_cut(monkeypatch):
    connect = ledger._connect

    def hasty(path):
        connection = connect(path)
        connection.execute("pragma synchronous = off")
        connection.execute("pragma journal_mode = memory")
        return connection

    monkeypatch.setattr(ledger, "_connect", hasty)
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)


class Draws(Exception):
    """The device asks for words."""


def protocol_rounds(name):
    """Honest rounds of a tiny campaign, as described."""
    told = {"keys": ["a", "b"], "value_range": [0.0, 1.0], "epsilon": EPSILON, "pairs_per_user": 1}
    fields = {"privkvm": {"rounds": 2}, "privkvm-star": {"bins": 2}, "auto": {"users": 5000}}.get(name, {})
    campaign = Campaign.from_fields({"name": "tiny", "mechanism": name, **told, **fields})
    if not campaign.has_several_rounds:
        return [campaign.device_config()]
    return [histories.describe(campaign, stage) for stage in campaign.protocol().stages()]


def moves(rounds):
    """Everything that a collector may try, and what a person may do."""
    yield from ({"do": "report", "description": each} for each in rounds)
    for each in rounds:
        for change in (
            {"keys": [1, 0]},
            {"keys": [0]},
            {"number": 2},
            {"number": 7},
            {"group": ["0", "1"]},
            {"group": ["0", "1/2"]},
            {"purpose": "another"},
            *({"mechanism": tiny, "group": ["0", "1"]} for tiny in TINY),
            *(
                {"mechanism": tiny, "number": number, "group": ["0", "1"]}
                for tiny in TINY[1:5]
                for number in (2, 3)
            ),
        ):
            yield {"do": "report", "description": {**each, **change}}
    yield from ({"do": verb, "description": rounds[0]} for verb in ("disable", "enable"))


def chosen(seed, offered, transcript):
    """The collector's next move: any function of what it has heard."""
    drawn = hashlib.sha256(json.dumps([seed, transcript]).encode()).digest()
    return offered[int.from_bytes(drawn[:8], "big") % len(offered)]


TABLES = {}


def table(campaign, round, held, report_id):
    """Every answer that a record may get in a round: words that give it, and its chance given the id."""
    key = (round.pin, json.dumps(held), report_id if round.mechanism.public_word is not None else b"")
    if key not in TABLES:
        record, mechanism = round.narrow(campaign.domain.encode(held)), round.mechanism
        word = public_word(round.tag, round.number, report_id)
        chances = {
            mechanism.layout.encode(answer): mechanism.probability(answer, record)
            for answer in mechanism.answers()
            if mechanism.public_word is None or mechanism.follows(answer, word)
        }
        total = sum(chances.values())
        found = {}
        for attempt in itertools.count():
            words = scripted_words(f"{round.pin} {attempt}", mechanism.n_words)
            if mechanism.public_word is not None:
                words = words.with_word(mechanism.public_word, word)
            found.setdefault(mechanism.layout.encode(mechanism.perturb(record, words)), words)
            if len(found) == sum(chance > 0 for chance in chances.values()):
                break
            assert attempt < 50_000
        TABLES[key] = [(found[told], chances[told] / total) for told in sorted(found)]
    return TABLES[key]


def play(folder, seed, offered, life):
    """Every transcript of a history and its exact probability."""
    told = {}

    def go(path, step, transcript, chance):
        if step == STEPS:
            told[tuple(transcript)] = told.get(tuple(transcript), Fraction(0)) + chance
            return
        move = chosen(seed, offered, transcript)
        report_id = hashlib.sha256(json.dumps([seed, step, transcript]).encode()).digest()[:16]
        held = life[step]
        try:
            heard = call(path, move, held, report_id, None)
        except Draws:
            described = Campaign.from_description(move["description"])
            for place, (words, share) in enumerate(table(*described, held, report_id)):
                branch = path.with_name(f"{path.name}.{place}")
                shutil.copyfile(path, branch)
                heard = call(branch, move, held, report_id, words)
                go(branch, step + 1, [*transcript, heard], chance * share)
                branch.unlink()
            return
        go(path, step + 1, [*transcript, heard], chance)

    start = folder / "device.db"
    with ledger.Ledger(start, clock=lambda: 0.0).transaction() as account:
        account._write("secret", hashlib.sha256(str(seed).encode()).digest())
        account.secret = hashlib.sha256(str(seed).encode()).digest()
    go(start, 0, [], Fraction(1))
    start.unlink()
    assert sum(told.values()) == 1
    return told


def call(path, move, held, report_id, words):
    """What the collector sees of a step: the code, or the bytes."""

    def entropy(n_words):
        if words is None:
            raise Draws
        assert len(words) == n_words
        return Words.of(words)

    try:
        device = Reporter.open(
            move["description"],
            ledger=path,
            entropy=entropy,
            ids=lambda: report_id,
            clock=lambda: move.get("at", 0.0),
            caps=move.get("caps"),
        )
        if move["do"] != "report":
            return getattr(device, move["do"])().code.value
        return Envelope.from_bytes(device.report(held)).to_json()
    except KeyveilError as error:
        return error.code


def worst_ratio(folder, seed, offered):
    """The largest ratio of two lives' chances of one transcript."""
    tables = [play(folder, seed, offered, life) for life in LIVES]
    worst = Fraction(1)
    for one, other in itertools.permutations(tables, 2):
        for transcript, chance in one.items():
            assert transcript in other, "a transcript is impossible for another record"
            worst = max(worst, chance / other[transcript])
    return worst


PROTOCOLS = ("kvue", "pckv-grr", "privkvm", "privkvm-star", "ks-grr", "auto")


def enumerated(folder, name, seeds):
    offered = list(moves(protocol_rounds(name)))
    return max(worst_ratio(folder, f"{name} {seed}", offered) for seed in seeds)


def check_histories(folder, name, seeds, capsys):
    promised = exp_below(Fraction(EPSILON))
    worst = enumerated(folder, name, seeds)
    with capsys.disabled():
        print(f"\n{name}: {len(seeds)} histories, ratio at most {float(worst / promised):.6f} of e**epsilon")
    assert worst <= promised


@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_transcript_tells_more_than_the_campaign_promised(name, tmp_path, capsys):
    check_histories(tmp_path, name, range(3), capsys)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_no_transcript_of_many_histories_tells_more(name, tmp_path, capsys):
    check_histories(tmp_path, name, range(3, 23), capsys)


def is_seen(folder):
    """Whether one of a few histories tells more than was promised."""
    offered, promised = list(moves(protocol_rounds("kvue"))), exp_below(Fraction(EPSILON))
    return any(worst_ratio(folder, f"kvue {seed}", offered) > promised for seed in range(8))


def test_the_enumeration_sees_a_device_that_does_not_add_up_its_rounds(tmp_path, monkeypatch):
    """The twin: it answers whatever was promised."""
    monkeypatch.setattr("keyveil.client.permission.Caps.check", lambda *_: None)
    assert is_seen(tmp_path)


def test_the_enumeration_sees_a_device_that_answers_a_changed_record_again(tmp_path, monkeypatch):
    """The twin of before: an answer for every record, kept by the record."""
    kept = Reporter._kept

    def forgetful(self, account, asked):
        account.connection.execute("delete from answer")
        account._answers.clear()
        return kept(self, account, asked)

    monkeypatch.setattr(Reporter, "_kept", forgetful)
    assert is_seen(tmp_path)


# --- series ---

TINY_SERIES = {"every": "day", "waves": 3, "answers": 2, "start": "1970-01-01"}
# Mostly while all waves are open; a day later, a year later, and back.
TIMES = (0.0, 0.0, 0.0, 86_400.0, 2.5 * 86_400.0, 366 * 86_400.0)
IN_ALL = 2.0
GENEROUS, TIGHT = Caps(campaign=9.0, lifetime=99.0), Caps(campaign=IN_ALL, lifetime=IN_ALL)


def tiny_series(**changes):
    """A series of two keys."""
    # Without a dither, which the tiniest kernels have no use for.
    told = {"name": "tiny", "mechanism": "kvue", "epsilon": EPSILON, "pairs_per_user": 1, "dither": 1}
    asked = {"keys": ["a", "b"], "value_range": [0.0, 1.0], "series": {**TINY_SERIES, **changes}}
    return Campaign.from_fields({**told, **asked})


def wave_moves(whole, caps, times=TIMES):
    """All waves of a series, as they are and spoilt, at any time; and what a person may do."""
    for number, added in itertools.product(range(1, whole.series.waves + 1), ((), ("c",))):
        asked = whole.wave(number, added).device_config()
        for change in (
            *({"mechanism": tiny} for tiny in TINY[:4]),
            {"mechanism": TINY[1], "number": 2},
            {"mechanism": TINY[0], "keys": [1, 0]},
            {"mechanism": TINY[5]},
        ):
            for at in times:
                yield {"do": "report", "description": {**asked, **change}, "at": at, "caps": caps}
    asked = whole.wave(1).device_config()
    yield from ({"do": verb, "description": asked, "at": 0.0} for verb in ("disable", "enable"))


def moves_of_many(caps):
    """The waves of several series that look alike, and the same question asked once."""
    for change in ({}, {"answers": 1}, {"waves": 2}, {"start": "1970-01-02"}):
        yield from wave_moves(tiny_series(**change), caps)
    alone = replace(tiny_series(), series=None).device_config()
    yield from ({**move, "caps": caps} for move in moves([alone]))


def worst_of(folder, seeds, offered, name):
    return max(worst_ratio(folder, f"{name} {seed}", offered) for seed in seeds)


@pytest.mark.parametrize("answers", [1, 2])
def test_no_transcript_of_a_series_tells_more_than_its_answers(answers, tmp_path, capsys):
    offered = list(wave_moves(tiny_series(answers=answers), GENEROUS))
    worst, promised = worst_of(tmp_path, range(6), offered, "series"), exp_below(Fraction(answers))
    with capsys.disabled():
        print(f"\n{answers} answers: ratio at most {float(worst / promised):.6f} of e**({answers} epsilon)")
    assert 1 < worst <= promised


def test_no_transcript_of_many_series_tells_more_than_the_device_allows(tmp_path, capsys):
    worst = worst_of(tmp_path, range(6), list(moves_of_many(TIGHT)), "many")
    promised = exp_below(Fraction(IN_ALL))
    with capsys.disabled():
        print(f"\nmany series: ratio at most {float(worst / promised):.6f} of e**{IN_ALL:g}")
    assert 1 < worst <= promised


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_no_transcript_of_very_many_series_tells_more(tmp_path):
    offered = list(moves_of_many(TIGHT))
    assert worst_of(tmp_path, range(6, 60), offered, "many") <= exp_below(Fraction(IN_ALL))


def of_one_answer(folder):
    """Whether a few histories of a series of one answer tell more than that."""
    whole = tiny_series(answers=1)
    offered = [move for move in wave_moves(whole, GENEROUS, times=(0.0,)) if move["do"] == "report"]
    grr = [move for move in offered if move["description"]["mechanism"] == TINY[0]]
    return any(worst_ratio(folder, f"one {seed}", grr) > exp_below(Fraction(1)) for seed in range(6))


def test_the_enumeration_sees_a_device_that_ignores_its_panel(tmp_path, monkeypatch):
    monkeypatch.setattr(Wave, "panel", lambda self, _: tuple(range(1, self.series.waves + 1)))
    assert of_one_answer(tmp_path)


def test_the_enumeration_sees_a_device_that_does_not_pin_a_wave(tmp_path, monkeypatch):
    monkeypatch.setattr(Wave, "check_campaign", lambda *_: None)
    assert of_one_answer(tmp_path)


def test_the_enumeration_sees_a_device_that_books_a_series_answer_by_answer(tmp_path, monkeypatch):
    """The twin: room is left for another question, and then the series goes on."""
    monkeypatch.setattr(
        Wave,
        "join",
        lambda self, account: account.join(self.id, self.number, self.campaign, account.spent(self.campaign)),
    )
    whole = tiny_series()
    alone = replace(whole, series=None).device_config()
    offered = [
        {"do": "report", "description": {**each, "mechanism": TINY[0]}, "caps": TIGHT}
        for each in (*(whole.wave(number).device_config() for number in (1, 2, 3)), alone)
    ]
    promised = exp_below(Fraction(IN_ALL))
    assert any(worst_ratio(tmp_path, f"booked {seed}", offered) > promised for seed in range(12))
