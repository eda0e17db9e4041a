"""Hostile descriptions and whole histories, as the JavaScript device is held to them too (tests/vectors)."""

import json
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

import histories
from keyveil import Campaign
from keyveil.audit.exact import enumerate_loss
from keyveil.client.courier import Addresses
from keyveil.client.receipt import Code
from keyveil.client.sealer import Sealer
from keyveil.errors import DescriptionError, KeyveilError
from keyveil.mechanisms import describe
from keyveil.mechanisms.named import calibrated
from keyveil.mechanisms.registry import NAMED
from keyveil.numerics import exp_below, price

FOLDER = Path(__file__).resolve().parents[1] / "vectors"
SECONDS, BYTES = 0.05, 16 << 20


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def hostile_cases():
    return [case for path in sorted(FOLDER.glob("hostile/*.json")) for case in read(path)["cases"]]


# --- descriptions ---


def test_every_hostile_description_is_judged_as_stored_at_once_and_in_little_memory(capsys):
    slowest = largest = 0
    for case in hostile_cases():
        started = time.process_time()
        try:
            _, asked = Campaign.from_description(case["description"])
            code, units = "done", str(price(asked.mechanism.loss))
        except KeyveilError as error:
            code, units = error.code, None
        slowest = max(slowest, time.process_time() - started)
        assert (code, units) == (case["code"], case.get("units")), case["why"]
    for case in hostile_cases():
        tracemalloc.start()
        try:
            Campaign.from_description(case["description"])
        except KeyveilError:
            """As stored, see above."""
        largest = max(largest, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    with capsys.disabled():
        print(
            f"\n{len(hostile_cases())} descriptions: slowest {1000 * slowest:.1f} ms, largest {largest} bytes"
        )
    assert len(hostile_cases()) >= 300
    assert slowest < SECONDS
    assert largest < BYTES


def test_what_is_accepted_of_them_loses_no_more_than_it_costs():
    """By enumeration of every answer and every extreme record, as fractions."""
    accepted = [case for case in hostile_cases() if case["code"] == "done"]
    for case in accepted:
        _, asked = Campaign.from_description(case["description"])
        mechanism = asked.mechanism
        worst = enumerate_loss(mechanism).ratio
        assert 1 <= worst <= mechanism.loss, case["why"]
        assert int(case["units"]) == price(mechanism.loss) > 0
    assert len(accepted) > 100


@pytest.mark.parametrize("name", NAMED)
def test_a_mechanism_is_what_its_name_says(name):
    """Whoever knows the parameters makes the same integers, and the loss stays within the budget named."""
    cases = [case for case in read(FOLDER / "calibration.json")["cases"] if case["mechanism"]["id"] == name]
    assert cases
    for case in cases:
        mechanism = calibrated(case["mechanism"], case["n_keys"])
        assert mechanism.parameters.to_json() == case["mechanism"]
        assert describe(mechanism) == case["integers"]
        budgets = dict(mechanism.parameters.fields)
        budget = budgets.get("epsilon", sum(budgets.get(f"{part}_epsilon", 0) for part in ("key", "sign")))
        assert mechanism.loss <= exp_below(budget)
        assert price(mechanism.loss) <= budget * 2**192


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), object(), b"{}", {1: 2}, [], None])
def test_what_json_cannot_say_is_refused_too(odd):
    good = histories.asking().device_config()
    for spoilt in (odd, *({**good, field: odd} for field in good if (field, odd) != ("keys", None))):
        with pytest.raises(DescriptionError):
            Campaign.from_description(spoilt)


@pytest.mark.parametrize(
    ("what", "spoilt"),
    [
        ("keys", {"keys": list(range(70_000))}),
        (
            "levels",
            {
                "mechanism": {
                    "id": "privkv-broadcast",
                    "key_epsilon": "1",
                    "sign_epsilon": "1",
                    "levels": ["0"] * 70_000,
                }
            },
        ),
        ("starts", {"mechanism": {"id": "size-class", "epsilon": "1", "starts": list(range(4096))}}),
        (
            "pairs",
            {
                "mechanism": {
                    "id": "pckv-grr",
                    "epsilon": "1",
                    "allocation": "optimal",
                    "pairs_per_user": 8192,
                }
            },
        ),
        ("digits", {"mechanism": {"id": "kvue", "epsilon": f"{'1' * 40}/{'7' * 40}"}}),
        ("bins", {"mechanism": {"id": "privkvm-star", "epsilon": "1", "bins": 4096}}),
    ],
)
def test_the_largest_that_may_be_named_is_read_or_refused_at_once(what, spoilt):
    wide = histories.asking(keys=[f"k{code}" for code in range(8192)], pairs_per_user=1)
    started = time.process_time()
    try:
        asked = wide.read_round({**wide.device_config(), **spoilt})
        price(asked.mechanism.loss)
    except DescriptionError:
        """Or refused."""
    assert time.process_time() - started < SECONDS, what


# --- histories ---


@pytest.mark.parametrize("path", sorted(FOLDER.glob("histories/*.json")), ids=lambda path: path.stem)
def test_a_device_lives_through_a_history_as_stored(path):
    history = read(path)
    for step, seen in zip(history["steps"], histories.play(history), strict=True):
        assert seen == {name: step[name] for name in seen}, (history["what"], step["do"])


def test_there_are_enough_histories_and_every_code_of_a_vote_is_in_them():
    stored = [read(path) for path in FOLDER.glob("histories/*.json")]
    hostile = [history for history in stored if history["name"].startswith("hostile")]
    assert len(stored) >= 30
    assert len(hostile) >= 15
    met = {step["code"] for history in stored for step in history["steps"]}
    of_machines = {"ledger", "no", "https", "fault", "do", "unknown", "other-campaign", "bad-token"}
    expected = {code.value for code in Code if not code.value.startswith(tuple(of_machines))} | {
        "not-enabled"
    }
    assert expected <= met


def goes_any_way(monkeypatch):
    monkeypatch.setattr("keyveil.client.queue.Queue.check_way", lambda *_: None)


def keeps_nothing_sealed(monkeypatch):
    monkeypatch.setattr("keyveil.client.queue.Queue.keep_sealed", lambda _, batch: batch)


def forgets_nothing_sealed(monkeypatch):
    monkeypatch.setattr("keyveil.client.queue.Queue.forget_sealed", lambda *_: None)


def takes_the_relays_word(monkeypatch):
    listed = Sealer._list
    monkeypatch.setattr(Sealer, "_list", lambda self, _, timeout: listed(self, histories.RELAY, timeout))


def falls_back(monkeypatch):
    to = Addresses.route
    monkeypatch.setattr(
        Addresses, "route", lambda self, campaign: to(self, replace(campaign, relay="none", batch=None))
    )


@pytest.mark.parametrize(
    "fault",
    [goes_any_way, keeps_nothing_sealed, forgets_nothing_sealed, takes_the_relays_word, falls_back],
)
def test_histories_of_relays_would_notice(monkeypatch, fault):
    """The power of the runner: each fault is caught by one of them at least."""
    fault(monkeypatch)
    caught = 0
    for path in FOLDER.glob("histories/relay-*.json"):
        history = read(path)
        try:
            for step, seen in zip(history["steps"], histories.play(history), strict=True):
                assert seen == {name: step[name] for name in seen}
        except AssertionError:
            caught += 1
    assert caught


def test_a_history_would_notice_a_device_that_answers_twice(monkeypatch):
    """The power of the runner: a device that forgets its answers is caught by most histories."""
    monkeypatch.setattr("keyveil.client.reporter.Reporter._kept", lambda *_: None)
    caught = 0
    for path in FOLDER.glob("histories/honest-*.json"):
        history = read(path)
        try:
            for step, seen in zip(history["steps"], histories.play(history), strict=True):
                assert seen == {name: step[name] for name in seen}
        except (AssertionError, Exception):
            caught += 1
    assert caught == len(list(FOLDER.glob("histories/honest-*.json")))
