"""Texts as bits: one to one where they end, cut where they do not, and nothing hostile gets through."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keyveil.domain import OpenDomain, TextCode
from keyveil.domain.learning import learn_code
from keyveil.domain.texts import ELLIPSIS, HIDDEN, PLAIN, THE_REST, visible
from keyveil.errors import DomainError, RecordError

LEARNT = learn_code(["com.example.maps", "com.example.mail", "org.example.chess"], longest=256)
PLAINLY = TextCode(longest=256)
TEXTS = st.text(max_size=40)


@given(TEXTS, st.sampled_from([PLAINLY, LEARNT]))
def test_a_text_that_fits_is_known_by_its_visible_self(text, code):
    name = code.name(code.number(text))
    if not text:
        assert name is None
    elif not name.endswith(ELLIPSIS):
        assert name == visible(text)
    else:
        assert visible(text).startswith(name[:-1]) or name == visible(text)


@given(TEXTS, st.integers(1, 255), st.sampled_from([PLAINLY, LEARNT]))
def test_a_prefix_of_the_bits_says_a_beginning_of_the_text(text, length, code):
    name = code.name(code.number(text) >> (code.longest - length), length)
    whole = visible(text)
    assert name == whole or (name is None and not text) or whole.startswith(name[:-1])


@pytest.mark.parametrize("longest", [8, 12, 13, 24])
def test_every_number_is_nobodys_or_that_of_its_name(longest):
    """All bit strings: those that end are one to one with texts, the others are cut."""
    code, seen = TextCode(longest=longest), {}
    for bits in range(1 << longest if longest < 20 else 1 << 16):
        found = code.read(bits, longest)
        if found is not None and found[1]:
            assert code.number(found[0]) == bits
            assert seen.setdefault(found[0], bits) == bits


def test_a_learnt_code_is_shorter_where_it_was_learnt():
    bits = [next(n for n in range(256) if not LEARNT.number("com.example.mall") << n & (1 << 256) - 1)]
    assert bits[0] < 8 * len("com.example.mall")


def test_letters_that_turn_or_hide_others_are_written_out():
    for letter in itertools.chain.from_iterable(HIDDEN):
        text = visible(f"a{chr(letter)}b")
        assert text == f"a\\u{{{letter:x}}}b"
        assert visible(text) == text
    # Bits that say one are no device's.
    assert PLAINLY.name(int.from_bytes(b"a\x1bb\x00", "big") << 224) is None
    assert PLAINLY.name(int.from_bytes("a\u202eb\x00".encode(), "big") << 208) is None
    assert PLAINLY.name(int.from_bytes(b"\xff\xfe\x00", "big") << 232) is None
    assert PLAINLY.name(int.from_bytes(b"ab\x00x", "big") << 224) is None


@pytest.mark.parametrize(
    ("longest", "tables"),
    [
        (1, {"": PLAIN}),
        (513, {"": PLAIN}),
        (True, {"": PLAIN}),
        (64, {}),
        (64, {"": PLAIN[:-1]}),
        (64, {"": PLAIN[:-1] + "i"}),
        (64, {"": PLAIN, "00": PLAIN}),
        (64, {"": PLAIN, "A0": PLAIN}),
        (64, {"": PLAIN, "61": "A" * 256}),
        (64, [PLAIN]),
        (64, {"": 3}),
    ],
)
def test_a_code_that_is_none_is_refused(longest, tables):
    with pytest.raises(DomainError):
        TextCode(longest=longest, tables=tables)


def test_a_record_of_texts_is_asked_for_by_name_and_the_rest_is_one():
    apps = OpenDomain(value_range=(0, 60), code=TextCode(longest=40))
    record = apps.encode(
        {"maps": 60.0, "mail": 0.0, "chess": 30.0, "chestnut": 60.0, "chestnuts": 0.0, "": 1.0}
    )
    assert repr(record) == "<private record>"
    assert record.names == tuple(sorted(record.names))
    assert "chest" + ELLIPSIS in record.names
    asked = record.among(("chest" + ELLIPSIS, "maps", THE_REST))
    assert [(code, level / 2**64) for code, level in asked.pairs] == [(0, 0.5), (1, 1.0), (2, 0.25)]
    assert record.among(("nothing",)).pairs == ()


def test_what_is_no_pair_is_refused_and_no_number_is_left_out():
    apps = OpenDomain(value_range=(0, 60), code=TextCode(longest=40))
    assert apps.encode({"maps": float("nan")}).pairs == ()
    with pytest.raises(RecordError):
        apps.encode({3: 1.0})
    with pytest.raises(RecordError):
        apps.encode({"maps": "much"})
