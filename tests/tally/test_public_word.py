"""A device does not choose its hash, nor its index where ids are issued: both follow from the report's id."""

import hashlib

import pytest

from keyveil import Campaign
from keyveil.client import Reporter
from keyveil.domain import pick
from keyveil.errors import Refusal, ReportRejected
from keyveil.mechanisms import REGISTRY
from keyveil.numerics import system_entropy
from keyveil.report import Envelope, public_word
from keyveil.rounds import make_report

HASHED = ("bucket", "olh")
INDEXED = ("privkv", "privkv-broadcast", "privkvm-star", "privkvm-star-oue", "kvue", "levels")
FOLLOWING = [
    *((name, "own") for name in HASHED),
    *((name, "issued") for name in (*HASHED, "privkv", "kvue", "levels")),
]


def campaign(mechanism, ids="own"):
    return Campaign(
        name="apps",
        epsilon=1,
        keys=list("abcdef"),
        value_range=(0, 1),
        pairs_per_user=2,
        mechanism=mechanism,
        ids=ids,
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


def test_only_hashes_have_a_public_word_and_indices_where_ids_are_issued():
    made = {name: cls.for_epsilon(1, n_keys=4) for name, cls in REGISTRY.items()}
    assert {name for name, each in made.items() if each.public_word is not None} == set(HASHED)
    issued = {name: each.with_issued_ids() for name, each in made.items()}
    assert {name for name, each in issued.items() if each.public_word is not None} == {*HASHED, *INDEXED}
    for name, each in issued.items():
        assert each.loss == made[name].loss
        assert each.n_words == made[name].n_words
        assert each.with_issued_ids() is each


@pytest.mark.parametrize(("name", "ids"), FOLLOWING)
def test_reports_of_a_device_are_counted(name, ids):
    asked = campaign(name, ids)
    reporter = Reporter(asked)
    assert asked.tally(reporter.report({"a": 1.0}) for _ in range(200)).n_reports == 200


@pytest.mark.parametrize(("name", "ids"), FOLLOWING)
def test_words_of_the_device_do_not_move_the_cohort(name, ids):
    asked, mechanism = campaign(name, ids), campaign(name, ids).build()
    record = asked.domain.encode({"a": 1.0})
    cohorts, part = set(), mechanism.public_part
    for _ in range(50):
        words = system_entropy(mechanism.n_words)
        report = make_report(mechanism, record, words, tag=asked.tag, round=1, report_id=bytes(16))
        answer = mechanism.layout.decode(Envelope.from_bytes(report).payload)
        cohorts.add(answer // part.answers)
    assert part.choices == (6 if name in INDEXED else 1 << 16)
    assert cohorts == {pick(public_word(asked.tag, 1, bytes(16)), part.choices)}


@pytest.mark.parametrize(("name", "ids"), FOLLOWING)
@pytest.mark.parametrize("part", ["report_id", "campaign", "round"])
def test_a_cohort_of_another_header_is_refused(name, ids, part):
    asked, mechanism = campaign(name, ids), campaign(name, ids).build()
    header = {"campaign": asked.tag, "round": 1, "report_id": bytes(16)}
    other = next(each for each in others(header, part) if is_other(mechanism, header, each))
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


def others(header, part):
    for number in range(2, 50):
        yield header | {part: number if part == "round" else bytes([number]) * 16}


def is_other(mechanism, *headers):
    """Whether they give other cohorts, or other ones of few keys."""
    words = [public_word(each["campaign"], each["round"], each["report_id"]) for each in headers]
    return len({pick(word, mechanism.public_part.choices) for word in words}) == 2
