import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.errors import Refusal, ReportRejected
from keyveil.report import HEADER_BYTES, Envelope, Symbol, Trits


@given(st.lists(st.integers(0, 2), min_size=1, max_size=70).map(bytes))
def test_trits_survive_the_wire(answer):
    layout = Trits(len(answer))
    payload = layout.encode(answer)
    assert len(payload) == layout.n_bytes
    assert layout.decode(payload) == answer


def test_trits_are_least_significant_bits_first():
    assert Trits(6).encode(bytes([1, 0, 0, 2, 0, 1])) == bytes([0b10_00_00_01, 0b0100])


layouts = st.one_of(st.builds(Trits, st.integers(1, 70)), st.builds(Symbol, st.integers(1, 2**24)))


@given(layouts, st.binary(max_size=20))
def test_any_bytes_are_one_answer_or_refused(layout, payload):
    try:
        answer = layout.decode(payload)
    except ReportRejected:
        return
    assert layout.encode(answer) == payload


@given(layouts, st.data())
def test_bytes_of_the_right_length_are_one_answer_or_not_canonical(layout, data):
    payload = data.draw(st.binary(min_size=layout.n_bytes, max_size=layout.n_bytes))
    try:
        assert layout.encode(layout.decode(payload)) == payload
    except ReportRejected as refusal:
        assert str(refusal).startswith("report refused (not-canonical)")  # noqa: PT017


@pytest.mark.parametrize(("size", "n_bytes"), [(1, 1), (2, 1), (256, 1), (257, 2), (65536, 2), (65537, 3)])
def test_symbols_take_the_fewest_bytes(size, n_bytes):
    assert Symbol(size).n_bytes == n_bytes


@given(
    st.binary(min_size=16, max_size=16),
    st.integers(0, 65535),
    st.binary(min_size=16, max_size=16),
    st.binary(),
)
def test_envelopes_survive_the_wire(campaign, round_, report_id, payload):
    sent = Envelope(campaign=campaign, round=round_, report_id=report_id, payload=payload)
    assert Envelope.from_bytes(sent.to_bytes()) == sent


@pytest.mark.parametrize(
    ("data", "code"),
    [(b"", Refusal.WRONG_LENGTH), (bytes([9]) + bytes(HEADER_BYTES), Refusal.UNKNOWN_VERSION)],
)
def test_what_is_no_envelope_is_refused_by_code(data, code):
    with pytest.raises(ReportRejected) as refusal:
        Envelope.from_bytes(data)
    assert refusal.value.code is code
