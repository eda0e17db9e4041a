"""Whatever the bytes: a report that is its own re-encoding, or a refusal with a code."""

import json
import random
from base64 import b64encode
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil import Campaign
from keyveil.errors import Refusal, ReportRejected
from keyveil.report import Envelope, frame, read_frames, to_frames

FOLDER = Path(__file__).resolve().parents[1] / "vectors"
METHODS = (
    *("pckv-ue", "pckv-grr", "kvue", "oue", "ue-sw", "krr-harmony", "rappor-harmony", "bucket", "olh"),
    "subset",
)


def questions():
    for name in METHODS:
        suite = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))["suites"][0]
        campaign = Campaign.from_said(json.loads(suite["description"]["campaign"]))
        yield campaign, campaign.build(), [bytes.fromhex(case["report"]) for case in suite["cases"]]


def spoil(rng, report):
    """Random bytes, or a report with bits flipped, bytes lost, added, repeated or swapped with noise."""
    data = bytearray(report)
    match rng.randrange(7):
        case 0:
            return rng.randbytes(rng.randrange(120))
        case 1:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        case 2:
            del data[rng.randrange(len(data)) :]
        case 3:
            data += rng.randbytes(rng.randrange(1, 9))
        case 4:
            data[35:] = rng.randbytes(len(data) - 35)
        case 5:
            data = data * 2
        case 6:
            start = rng.randrange(len(data))
            data[start : start + 4] = rng.randbytes(4)[: len(data) - start]
    return bytes(data)


def throw(n_strings, seed):
    """How many were read, and how many refused by each code."""
    rng, seen = random.Random(seed), dict.fromkeys(["read", *Refusal], 0)
    for _, (campaign, mechanism, reports) in zip(range(n_strings), cycle(list(questions())), strict=False):
        data = spoil(rng, rng.choice(reports))
        try:
            envelope = Envelope.from_bytes(data)
            answer = mechanism.layout.decode(envelope.payload)
        except ReportRejected as refusal:
            seen[refusal.code] += 1
            with pytest.raises(ReportRejected):
                campaign.tally([data])
            continue
        seen["read"] += 1
        again = Envelope(
            campaign=envelope.campaign,
            round=envelope.round,
            report_id=envelope.report_id,
            payload=mechanism.layout.encode(answer),
        )
        assert again.to_bytes() == data
        assert Envelope.from_json(envelope.to_json()) == envelope
    return seen


def test_ten_thousand_hostile_strings_are_read_or_refused():
    seen = throw(10_000, seed=1)
    assert all(seen[kind] > 300 for kind in ("read", Refusal.WRONG_LENGTH, Refusal.NOT_CANONICAL))


@pytest.mark.nightly
def test_a_hundred_thousand_hostile_strings_are_read_or_refused():
    assert throw(100_000, seed=random.SystemRandom().getrandbits(32))["read"] > 3000


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 7))
def test_batches_survive_the_wire_in_parts_of_any_size(reports, size):
    class Trickle:
        """A socket that hands over a few bytes at a time."""

        def __init__(self, data):
            self.data = data

        def read(self, wanted):
            part, self.data = self.data[: min(wanted, size)], self.data[min(wanted, size) :]
            return part

    assert list(read_frames(Trickle(to_frames(reports)))) == reports


@given(st.binary(max_size=60))
def test_any_stream_is_a_batch_or_refused(stream):
    try:
        reports = list(read_frames(stream, largest=16, most=3))
    except ReportRejected:
        return
    assert to_frames(reports) == stream
    assert len(reports) <= 3


def test_a_reader_stops_before_it_stores_too_much():
    class Endless:
        asked = 0

        def read(self, wanted):
            Endless.asked += wanted
            return b"\xff" * wanted

    with pytest.raises(ReportRejected) as refusal:
        list(read_frames(Endless()))
    assert refusal.value.code is Refusal.FRAME_TOO_LARGE
    assert Endless.asked == 4


def test_a_file_of_reports_is_read_to_its_end():
    assert sum(1 for _ in read_frames(frame(b"x") * 70_000, most=None)) == 70_000


texts = st.one_of(
    st.text(max_size=80),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=6),
        max_leaves=8,
    ).map(json.dumps),
)


@given(texts)
def test_any_text_is_a_report_or_refused(text):
    with pytest.raises(ReportRejected) as refusal:
        Envelope.from_json(text)
    assert refusal.value.code is Refusal.NOT_JSON


@given(
    st.fixed_dictionaries(
        {
            "version": st.integers(0, 2),
            "campaign": st.text("0123456789abcdefAB \x00", min_size=31, max_size=33) | st.just("0f" * 16),
            "round": st.integers(-2, 70_000) | st.just(1),
            "report_id": st.just("a0" * 16) | st.text(max_size=33),
            "payload": st.text(max_size=9) | st.binary().map(lambda b: b64encode(b).decode()),
        }
    )
)
def test_fields_of_the_right_types_are_a_report_or_refused(fields):
    try:
        envelope = Envelope.from_json(json.dumps(fields))
    except ReportRejected as refusal:
        assert refusal.code in (Refusal.NOT_CANONICAL, Refusal.UNKNOWN_VERSION)  # noqa: PT017
        return
    assert json.loads(envelope.to_json()) == fields


def test_refusal_codes_never_change():
    assert {refusal.value for refusal in Refusal} == {
        "wrong-length",
        "unknown-version",
        "wrong-campaign",
        "wrong-round",
        "not-canonical",
        "wrong-cohort",
        "truncated-frame",
        "frame-too-large",
        "too-many-reports",
        "not-json",
        "not-sealed",
        "unknown-key",
    }
