"""A device does not choose its hash: the cohort follows from the report's id."""

import hashlib

import pytest

from keyveil import Campaign
from keyveil.client import Reporter
from keyveil.domain import pick
from keyveil.errors import Refusal, ReportRejected
from keyveil.mechanisms import REGISTRY, make_report
from keyveil.numerics import system_entropy
from keyveil.report import Envelope, public_word

HASHED = ("bucket", "olh")


def campaign(mechanism):
    return Campaign(
        name="apps", epsilon=1, keys=list("abcdef"), value_range=(0, 1), pairs_per_user=2, mechanism=mechanism
    )


def test_the_public_word_is_a_hash_of_the_header():
    header = bytes([1]) + bytes(range(16)) + (258).to_bytes(2, "little") + bytes(range(16, 32))
    digest = hashlib.sha256(b"keyveil public word 1" + header).digest()
    expected = int.from_bytes(digest[:8], "little")
    assert public_word(bytes(range(16)), 258, bytes(range(16, 32))) == expected


def test_public_words_spread_evenly_over_cohorts():
    counts = [0] * 16
    for number in range(4096):
        counts[pick(public_word(bytes(16), 1, number.to_bytes(16, "little")), 16)] += 1
    # 256 each, standard error 15.5; five of them either side.
    assert all(abs(count - 256) < 78 for count in counts)


def test_only_hashes_have_a_public_word():
    have = {name for name, cls in REGISTRY.items() if cls.for_epsilon(1, n_keys=4).public_word is not None}
    assert have == set(HASHED)


@pytest.mark.parametrize("name", HASHED)
def test_reports_of_a_device_are_counted(name):
    asked = campaign(name)
    reporter = Reporter(asked)
    assert asked.tally(reporter.report({"a": 1.0}) for _ in range(200)).n_reports == 200


@pytest.mark.parametrize("name", HASHED)
def test_words_of_the_device_do_not_move_the_cohort(name):
    asked, mechanism = campaign(name), campaign(name).build()
    record = asked.domain.encode({"a": 1.0})
    cohorts = set()
    for _ in range(50):
        words = system_entropy(mechanism.n_words)
        report = make_report(mechanism, record, words, tag=asked.tag, round=1, report_id=bytes(16))
        answer = mechanism.layout.decode(Envelope.from_bytes(report).payload)
        cohorts.add(answer // (mechanism.buckets if name == "bucket" else mechanism.oracle.buckets))
    assert cohorts == {pick(public_word(asked.tag, 1, bytes(16)), 1 << 16)}


@pytest.mark.parametrize("name", HASHED)
@pytest.mark.parametrize("part", ["report_id", "campaign", "round"])
def test_a_cohort_of_another_header_is_refused(name, part):
    asked, mechanism = campaign(name), campaign(name).build()
    header = {"campaign": asked.tag, "round": 1, "report_id": bytes(16)}
    other = header | {part: 2 if part == "round" else bytes([7]) * 16}
    sent = make_report(
        mechanism,
        asked.domain.encode({}),
        system_entropy(mechanism.n_words),
        tag=other["campaign"],
        round=other["round"],
        report_id=other["report_id"],
    )
    forged = Envelope(**header, payload=Envelope.from_bytes(sent).payload).to_bytes()
    with pytest.raises(ReportRejected) as refusal:
        asked.tally([Reporter(asked).report({}), forged])
    assert refusal.value.code is Refusal.WRONG_COHORT
    assert "report 1 tells" in str(refusal.value)
