"""The wire page says what the code does, in both languages."""

import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from parts import lacking

from keyveil.client import SENTENCES, Code, Reporter
from keyveil.mechanisms.registry import NAMED
from keyveil.rounds import DITHERED_FORMAT, FORMAT, LABELLED_FORMAT, Round
from keyveil.sealing import (
    KEY_BYTES,
    KEY_ID_BYTES,
    SEALED_HEADER_BYTES,
    SEALED_OVERHEAD,
    SEALED_VERSION,
    SUITE,
    SealedHeader,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "wire.md").read_text(encoding="utf-8")


def rows(heading):
    """The rows of the table that begins with a heading."""
    lines = PAGE.split(f"| {heading} |", 1)[1].splitlines()[2:]
    cells = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return cells


def test_the_table_of_mechanisms_is_theirs():
    stated = {name.strip("`"): re.findall(r"`(\w+)`", fields) for name, fields in rows("mechanism")}
    assert stated == {name: list(cls.fields) for name, cls in NAMED.items()}


def test_the_mechanisms_that_follow_issued_ids_are_theirs():
    said = PAGE.split("these also have a field `ids`", 1)[1].split("Their index", 1)[0]
    stated = set(re.findall(r"`([a-z-]+)`", said))
    assert stated == {name for name, cls in NAMED.items() if cls.follows_ids}


def test_the_table_of_a_description_is_a_rounds():
    stated = {row[0].strip("`") for row in rows("field")}
    mechanism = NAMED["kvue"].for_epsilon(1, n_keys=1)
    plain = Round(campaign="ab" * 32, number=1, purpose="", mechanism=mechanism)
    dithered = replace(plain, dither=16)
    assert set(dithered.fields()) == {*plain.fields(), "dither"}
    assert stated == set(replace(plain, labels=(3,)).fields()) == {*dithered.fields(), "labels"}
    assert FORMAT in PAGE
    assert DITHERED_FORMAT in PAGE
    assert LABELLED_FORMAT in PAGE


def test_the_table_of_a_sealed_report_is_its_bytes():
    offsets = [(row[0], row[1]) for row in rows("offset | bytes | what of a sealed report")]
    parts = (1, KEY_ID_BYTES, 2, KEY_BYTES)
    starts = [sum(parts[:place]) for place in range(len(parts) + 1)]
    expected = [(str(start), str(size)) for start, size in zip(starts, parts, strict=False)]
    assert offsets == [*expected, (str(starts[-1]), "the report's and 16")]
    assert starts[-1] == SEALED_HEADER_BYTES + KEY_BYTES
    assert f"It is {SEALED_OVERHEAD} bytes longer" in PAGE
    assert f"`{SUITE}`" in PAGE
    header = SealedHeader(bytes(range(8)), 0x0102).to_bytes()
    assert header == bytes([SEALED_VERSION, *range(8), 2, 1])


def test_the_table_of_codes_is_pythons_and_javascripts():
    stated = {code.strip("`"): sentence for code, sentence in rows("code | sentence")}
    assert stated == {code.value: sentence for code, sentence in SENTENCES.items()}
    node = shutil.which("node") or lacking("Node is needed to compare the languages' sentences")
    script = "import { SENTENCES } from './keyveil.js'; console.log(JSON.stringify(SENTENCES));"
    run = subprocess.run(
        [node, "--input-type=module", "-e", script],
        cwd=ROOT / "sdk" / "js",
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(run.stdout) == stated


def test_the_reference_of_the_client_lists_every_code_and_verb():
    """U19: what to do about each code, and what each verb gives, in one place."""
    page = (ROOT / "docs" / "api" / "client.md").read_text(encoding="utf-8")
    verbs, codes = page.split("## Codes")
    assert [code.value for code in Code if f"`{code.value}`" not in codes] == []
    public = [name for name in vars(Reporter) if not name.startswith("_") and name != "campaign"]
    assert [name for name in public if f"`{name}`" not in verbs] == []


@pytest.mark.parametrize("verb", [row[0].strip("`") for row in rows("verb")])
def test_both_devices_have_every_verb(verb):
    assert callable(getattr(Reporter, verb))
    types = (ROOT / "sdk" / "js" / "index.d.ts").read_text(encoding="utf-8")
    device = types.split("export class Device", 1)[1].split("\n}", 1)[0]
    assert re.search(rf"\b{verb}\(", device)
