import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.errors import Refusal, ReportRejected, TallyError
from keyveil.mechanisms import REGISTRY, build
from keyveil.tally import Tally, count

counts = st.lists(st.integers(0, 2**40), min_size=3, max_size=3)
tallies = st.builds(
    Tally.of, question=st.just("q"), n_reports=st.integers(0, 2**40), plus=counts, minus=counts, asked=counts
)


@given(st.lists(tallies, min_size=1, max_size=6), st.randoms())
def test_tallies_merge_in_any_order_and_grouping(parts, random):
    forward = parts[0]
    for part in parts[1:]:
        forward = forward + part
    random.shuffle(parts)
    half = len(parts) // 2
    groups = [group for group in (parts[:half], parts[half:]) if group]
    sums = [group[0] for group in groups]
    for place, group in enumerate(groups):
        for part in group[1:]:
            sums[place] = sums[place] + part
    assert (sums[0] + sums[1] if len(sums) == 2 else sums[0]) == forward


def test_tallies_of_different_questions_do_not_merge():
    one = Tally.of(question="a" * 64, n_reports=1, plus=[1], minus=[0], asked=[1])
    other = Tally.of(question="b" * 64, n_reports=1, plus=[1], minus=[0], asked=[1])
    with pytest.raises(TallyError, match="aaaaaaaaaaaa and bbbbbbbbbbbb"):
        one + other


def test_tallies_are_read_only_copies():
    plus = np.array([1, 2])
    tally = Tally.of(question="q", n_reports=3, plus=plus, minus=[0, 0], asked=[3, 3])
    plus[0] = 99
    assert tally.plus[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        tally.plus[0] = 5


def test_tallies_of_different_cells_do_not_merge():
    one = Tally.of(question="q", n_reports=1, support=[1, 2])
    with pytest.raises(TallyError, match="different cells"):
        one + Tally.of(question="q", n_reports=1, support=[1, 2, 3])
    with pytest.raises(TallyError, match="different cells"):
        one + Tally.of(question="q", n_reports=1, bins=[1, 2])


@pytest.mark.parametrize("name", REGISTRY)
def test_nothing_counts_to_zero(name):
    empty = count(build(name, 1, n_keys=6), [], question="q")
    assert empty.n_reports == 0
    assert all(counts.sum() == 0 for counts in empty.cells.values())


@pytest.mark.parametrize(
    ("name", "payload", "code"),
    [
        ("pckv-ue", bytes(3), Refusal.WRONG_LENGTH),
        ("pckv-ue", b"\x03\x00", Refusal.NOT_CANONICAL),
        ("pckv-ue", b"\x00\x10", Refusal.NOT_CANONICAL),
        ("pckv-grr", b"\x0e", Refusal.NOT_CANONICAL),
        ("kvue", b"\x12", Refusal.NOT_CANONICAL),
        ("kvue", b"", Refusal.WRONG_LENGTH),
    ],
)
def test_one_bad_payload_among_good_ones_is_refused(name, payload, code):
    mechanism = build(name, 1, n_keys=6)
    good = bytes(mechanism.layout.n_bytes)
    with pytest.raises(ReportRejected) as refusal:
        count(mechanism, [good, payload, good], question="q")
    assert refusal.value.code is code
