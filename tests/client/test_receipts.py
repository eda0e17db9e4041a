"""What a receipt tells the application of its own record (U11), on the device and nowhere else."""

import copy
import json
import logging
import pickle
from dataclasses import asdict

import pytest
from devices import make_campaign

from keyveil.client import Reporter
from keyveil.errors import RecordError

NAN, INFINITE = float("nan"), float("inf")
ODD = {"app-1": 30.0, "app-2": NAN, "app-3": 61.0, "app-4": -1, "app-5": INFINITE, "chess": 3.0, "go": NAN}


@pytest.fixture
def device(tmp_path):
    def make(**changes):
        made = Reporter(make_campaign(**changes), ledger=tmp_path / "device.db")
        made.enable()
        return made

    return make


def test_unknown_keys_not_numbers_and_clamped_values_are_told(device):
    receipt = device().submit(ODD)
    assert receipt
    assert receipt.detail == "queued"
    assert receipt.reading.unknown == ("chess", "go")
    assert receipt.reading.not_numbers == ("app-2",)
    assert receipt.reading.clamped == ("app-3", "app-4", "app-5")
    told = receipt.reading.words()
    assert told == "not asked about: chess, go; no number: app-2; moved into [0, 60]: app-3, app-4, app-5"


def test_a_record_that_was_taken_as_it_was_leaves_nothing_to_tell(device):
    reading = device().submit({"app-1": 0.0, "app-2": 60}).reading
    assert (reading.unknown, reading.not_numbers, reading.clamped) == ((), (), ())
    assert reading.words() == ""


def test_strangers_that_are_averaged_into_other_are_told_too(device):
    reading = device(other=True).submit({"other": 1.0, "chess": 99.0, "go": NAN}).reading
    assert reading.unknown == ("chess", "go")
    assert (reading.not_numbers, reading.clamped) == (("go",), ("chess",))


def test_a_repeat_says_so_and_nothing_of_a_record_that_it_does_not_read(device):
    class Unread(dict):
        def items(self):
            raise AssertionError("the record was read")

        __iter__ = __len__ = items

    reporter = device()
    first, said = reporter.submit({"app-1": 3.0}), reporter.report({})
    again = reporter.submit(Unread())
    assert (first.is_repeat, again.is_repeat) == (False, True)
    assert again
    assert again.reading is None
    assert again.detail == "queued again, as it was answered before"
    assert reporter.report({}) == said


def test_a_refusal_reads_nothing(device):
    reporter = device()
    reporter.disable()
    receipt = reporter.submit(ODD)
    assert not receipt
    assert receipt.reading is None
    assert not receipt.is_repeat


def test_words_and_length_do_not_depend_on_what_is_told(tmp_path):
    drawn, lengths = [], set()
    for place, held in enumerate(({}, {"app-1": 1.0}, ODD)):

        def counting(n_words):
            drawn.append(n_words)
            from keyveil.numerics import system_entropy

            return system_entropy(n_words)

        reporter = Reporter(make_campaign(), ledger=tmp_path / f"{place}.db", entropy=counting)
        reporter.enable()
        assert reporter.submit(held)
        lengths.add(len(reporter.report({})))
    assert len(lengths) == 1
    assert len(drawn) == 3
    assert len(set(drawn)) == 1


def test_what_was_read_prints_copies_and_pickles_as_nothing(device):
    receipt = device().submit(ODD)
    told = [
        repr(receipt),
        str(receipt.reading),
        json.dumps(asdict(receipt), default=str),
        f"{receipt.reading}",
    ]
    assert all("<private reading>" in text for text in told)
    assert not any(name in text for text in told for name in ODD)
    assert copy.deepcopy(receipt).reading is receipt.reading
    with pytest.raises(RecordError, match="private"):
        pickle.dumps(receipt)


# --- the log ---


def test_no_key_and_no_value_is_ever_logged_or_kept(device, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    reporter = device()
    held = {"app-1": 31.4159, "app-2": NAN, "app-3": 777.25, "hidden-game": 12.125}
    for record in (held, held, {"app-1": "hidden text"}, {7: 1.0}, None, [("app-1", 3.0)]):
        reporter.submit(record)
        reporter.explain(record)
    reporter.upload()
    reporter.flush(0.1)
    reporter.status()
    reporter.disable()
    reporter.submit(held)
    reporter.enable()
    reporter.submit(held)
    reporter.close()
    private = ("app-", "31.4", "777", "hidden", "12.125", "nan")
    logged = [f"{record.getMessage()} {record.args} {record.exc_info}" for record in caplog.records]
    assert len(logged) > 15
    assert {record.name for record in caplog.records} == {"keyveil.client"}
    assert not [line for line in logged for word in private if word in line.lower()]
    on_disk = (tmp_path / "device.db").read_bytes()
    assert b"hidden" not in on_disk
    assert b"app-" not in on_disk


def test_levels_say_who_must_act(device, caplog):
    caplog.set_level(logging.DEBUG, "keyveil.client")
    reporter = device()
    reporter.submit(None)
    reporter.disable()
    reporter.submit({})
    told = {(record.levelname, record.getMessage().partition(";")[0]) for record in caplog.records}
    assert ("WARNING", "submit: bad-record") in told
    assert ("INFO", "submit: disabled") in told
    assert ("DEBUG", "disable: done") in told


def test_a_handler_that_raises_does_not_reach_the_application(device):
    class Broken(logging.Handler):
        def emit(self, _record):
            raise OSError("the log is full")

    log, handler = logging.getLogger("keyveil.client"), Broken(logging.DEBUG)
    log.addHandler(handler)
    try:
        reporter = device()
        assert not reporter.submit(None)
        assert reporter.submit({"app-1": 3.0})
    finally:
        log.removeHandler(handler)
