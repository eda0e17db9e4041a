"""People meet the words of the glossary, and no others for the same things."""

import io
import json
import re
import tokenize
from pathlib import Path

import click
import pytest

from keyveil.cli.app import keyveil as command

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "src" / "keyveil" / "dashboard" / "static"
# What a page for people says: text between tags, and strings that are sentences.
TEXT = re.compile(r">([^<>{}\n]+)<")
STRING = re.compile(r"\"((?:[^\"\\\n]|\\.)*)\"|`((?:[^`\\]|\\.)*)`")


def helps(asked, parent=None, name="keyveil"):
    context = click.Context(asked, info_name=name, parent=parent)
    yield asked.get_help(context)
    if isinstance(asked, click.Group):
        for each in asked.list_commands(context):
            yield from helps(asked.get_command(context, each), context, each)


def openapi():
    from keyveil.collector.http.endpoints import ENDPOINTS
    from keyveil.collector.http.openapi import document

    return json.dumps(document(ENDPOINTS))


def dashboard():
    found = [text for page in STATIC.rglob("*.html") for text in TEXT.findall(page.read_text())]
    for script in STATIC.rglob("*.js"):
        strings = ("".join(match) for match in STRING.findall(script.read_text()))
        found += [string for string in strings if " " in string]
    return "\n".join(found)


SURFACES = {
    "README": lambda: (ROOT / "README.md").read_text(),
    "help": lambda: "\n".join(helps(command)),
    "OpenAPI": openapi,
    "dashboard": dashboard,
}


def glossary():
    """Words that people read, each with those that are not used for it."""
    table = (ROOT / "docs" / "glossary.md").read_text().partition("| and not |")[2].partition("\n\n")[0]
    rows = [line.strip("|").split("|") for line in table.splitlines()[2:]]
    return {row[0].strip(): [word.strip() for word in row[2].split(",")] for row in rows}


def uses(text, word):
    return re.search(rf"\b{word}s?\b", text, re.IGNORECASE) is not None


@pytest.mark.parametrize("surface", SURFACES)
def test_no_other_word_is_used_for_what_has_one(surface):
    text = SURFACES[surface]()
    others = [word for words in glossary().values() for word in words]
    assert len(others) > 15
    assert [word for word in others if uses(text, word)] == []


@pytest.mark.parametrize("word", glossary())
def test_every_word_is_met_in_two_places_at_least(word):
    assert sum(uses(read(), word) for read in SURFACES.values()) >= 2


def test_the_glossary_is_two_screens_at_most():
    assert len((ROOT / "docs" / "glossary.md").read_text().splitlines()) <= 60


def test_told_is_no_name_and_hardly_a_word():
    """It was 249 things in 64 files. A campaign's file says it of segments, and they read it."""
    sources = [
        path
        for path in (ROOT / "src").rglob("*")
        if path.suffix in (".py", ".js", ".toml", ".yml") and path.name != "segments.py"
    ]
    lines = [line for path in sources for line in path.read_text(encoding="utf-8").splitlines()]
    # But for the field of that name: told = "clear".
    assert sum(re.search(r"\btold\b(?!\"?\s?[=:])", line) is not None for line in lines) <= 20
    names = [
        token.string
        for path in sources
        if path.suffix == ".py"
        for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
        if token.type == tokenize.NAME
    ]
    assert names.count("told") == 0 < names.count("heard")


def test_another_word_would_be_found():
    assert uses("Send your submissions", "submission")
    assert not uses("a report", "submission")
