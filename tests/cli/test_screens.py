"""Tables on screens as narrow as they are: nothing that a person needs is cut."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from keyveil.cli import asking, console
from keyveil.cli.console import table

WORDS = st.text(alphabet="abcdefgh", min_size=1, max_size=12)


def shown(made, width):
    out = io.StringIO()
    Console(file=out, width=width).print(made)
    return out.getvalue().splitlines()


@given(st.lists(WORDS, min_size=2, max_size=12), st.integers(30, 100), st.data())
def test_no_number_and_no_head_is_cut(heads, width, data):
    cells = [data.draw(WORDS) for _ in heads[1:]]
    lines = shown(table("", heads, [["first", *cells]]), width)
    assert all(len(line.rstrip()) <= width for line in lines)
    words = " ".join(lines).split()
    assert [words.count(word) >= (heads[1:] + cells).count(word) for word in heads[1:] + cells].count(
        False
    ) == 0


def test_every_piece_says_whose_numbers_they_are():
    lines = shown(table("Sums", ("of", *"abcdef"), [["all", *(str(n) * 8 for n in range(6))]]), 30)
    assert lines[0].strip() == "Sums"
    assert [line.split()[0] for line in lines[1:]] == ["of", "all"] * 3


def test_prose_folds_where_numbers_would_not():
    lines = shown(table("", ("id", "what it does", "n"), [["a", "many words in a row", "17"]], prose=[1]), 20)
    assert len(lines) == 3
    assert "17" in " ".join(lines)
    assert all("…" not in line for line in lines)


def test_a_list_of_campaigns_fits_eighty_columns(monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr(console, "output", lambda: Console(file=out, width=80))
    columns = ("id", "name", "mechanism", "state", "round", "reports")
    row = (
        "ab" * 32,
        "what people use on their phones",
        "privkvm-virtual",
        "waiting-for-relay",
        12,
        1_234_567,
    )
    asking.print_answer("Campaigns", columns, [row])
    lines = out.getvalue().splitlines()
    assert all(len(line.rstrip()) <= 80 for line in lines)
    words = out.getvalue().split()
    for whole in ("ab" * 6, "privkvm-virtual", "waiting-for-relay", "12", "1234567", *columns):
        assert whole in words
    assert "ab" * 32 not in out.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_long_first_column_leaves_room_for_the_rest(width):
    lines = shown(table("", ("key", "people"), [["k" * 300, "12.5 %"]]), width)
    assert lines[1].rstrip().endswith("12.5 %")
