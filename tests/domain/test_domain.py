import math
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.domain import FULL_LEVEL, HALF_LEVEL, Domain, Record
from keyveil.errors import DomainError, RecordError

apps = Domain(keys=("maps", "mail", "chess"), value_range=(0.0, 60.0))


def levels(domain, held):
    return {pair.code: pair.level for pair in domain.encode(held).pairs}


def test_values_map_linearly_and_the_ends_are_exact():
    assert levels(apps, {"maps": 0.0, "mail": 30.0, "chess": 60.0}) == {0: 0, 1: HALF_LEVEL, 2: FULL_LEVEL}


@pytest.mark.parametrize(
    ("value", "level"),
    [
        (-5.0, 0),
        (1e308, FULL_LEVEL),
        (math.inf, FULL_LEVEL),
        (-math.inf, 0),
        pytest.param(10**400, FULL_LEVEL, id="huge"),
    ],
)
def test_values_outside_the_range_go_to_the_nearer_end(value, level):
    assert levels(apps, {"maps": value}) == {0: level}


def test_a_value_that_is_no_number_leaves_its_pair_out():
    assert levels(apps, {"maps": math.nan, "mail": 60.0}) == {1: FULL_LEVEL}


def test_unknown_keys_are_left_out_or_averaged_into_other():
    held = {"go": 0.0, "bridge": 60.0, "mail": 60.0}
    assert levels(apps, held) == {1: FULL_LEVEL}
    with_other = Domain(keys=apps.keys, value_range=apps.value_range, other=True)
    assert levels(with_other, held) == {1: FULL_LEVEL, 3: HALF_LEVEL}
    assert with_other.names[-1] == "other"


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1))
def test_the_scale_inverts(low, width, t):
    domain = Domain(keys=("k",), value_range=(low, low + width))
    value = low + t * width
    assert domain.from_unit(domain.to_unit(value)) == pytest.approx(value, abs=1e-6 * max(abs(low), width, 1))


def test_names_and_codes_are_inverse():
    assert [apps.code_of(apps.name_of(code)) for code in range(apps.n_keys)] == [0, 1, 2]
    assert apps.code_of("go") is None


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ((), "at least one key, got none"),
        (("a", "b", "a"), r'"a" is listed twice, at \$.keys\[0\] and \$.keys\[2\]'),
        (("a", ""), r"non-empty text, got '', at \$.keys\[1\]"),
        (("a", 3), r"non-empty text, got 3"),
    ],
)
def test_keys_that_make_no_question_are_refused(keys, message):
    with pytest.raises(DomainError, match=message):
        Domain(keys=keys)


def test_a_key_called_other_clashes_with_the_bucket():
    with pytest.raises(DomainError, match='"other" is listed twice'):
        Domain(keys=("other",), other=True)


@pytest.mark.parametrize(
    "bad", [(1, 1), (2, 1), (0, math.inf), (math.nan, 1), ("a", 1), (1,), (-1.7e308, 1.7e308)]
)
def test_ranges_that_are_no_ranges_are_refused(bad):
    with pytest.raises(DomainError, match="value_range"):
        Domain(keys=("k",), value_range=bad)


def test_a_million_keys_are_fine():
    domain = Domain(keys=tuple(map(str, range(10**6))))
    assert domain.code_of("999999") == 999_999


@pytest.mark.parametrize("held", [{"maps": "secret-text"}, {4711: 1.0}, {"maps": None}, {"maps": True}])
def test_refusals_name_the_rule_and_never_the_value(held):
    with pytest.raises(RecordError, match="must be") as refusal:
        apps.encode(held)
    assert not any(private in str(refusal.value) for private in ("secret-text", "4711", "maps"))


def test_records_neither_print_nor_pickle():
    record = apps.encode({"maps": 12.0})
    assert repr(record) == str(record) == f"{record}" == "<private record>"
    with pytest.raises(RecordError, match="never pickled"):
        pickle.dumps(record)


def test_records_are_ordered_by_code():
    assert [pair.code for pair in Record.of({9: 0.1, 2: 0.2, 5: 0.3}).pairs] == [2, 5, 9]
