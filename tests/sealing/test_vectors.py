"""HPKE as RFC 9180 prints it, and sealed reports byte for byte, as the JavaScript device is held to them."""

import json
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag

import sealed as reference
from keyveil.errors import ReportRejected
from keyveil.sealing import OpeningKey, SealingKey

STORED = json.loads(
    (Path(__file__).resolve().parents[1] / "vectors" / "sealed.json").read_text(encoding="utf-8")
)


def rfc():
    return {name: bytes.fromhex(text) for name, text in STORED["rfc9180"].items()}


def of(cases):
    return [pytest.param(case, id=f"{place}-{case.get('why', 'good')}") for place, case in enumerate(cases)]


def test_the_reference_works_out_what_the_rfc_prints():
    said = rfc()
    sent = reference.sender(said["pkRm"], said["info"], said["skEm"])
    read = reference.recipient(said["skRm"], said["info"], said["enc"])
    assert sent == read
    assert sent._asdict() == {name: said[name] for name in sent._fields}
    assert said["enc"] == said["pkEm"]
    assert OpeningKey(said["skRm"]).public == said["pkRm"]


def test_the_reference_seals_what_the_rfc_prints_and_reads_it():
    said = rfc()
    context = reference.sender(said["pkRm"], said["info"], said["skEm"])
    assert context.seal(said["pt"], said["aad"]) == said["ct"]
    assert context.open(said["ct"], said["aad"]) == said["pt"]
    with pytest.raises(InvalidTag):
        context.open(said["ct"])


@pytest.mark.parametrize("case", of(STORED["sealed"]))
def test_what_is_stored_opens(case):
    key = OpeningKey(bytes.fromhex(case["private"]))
    asked = {"campaign": case["campaign"], "round": case["round"]}
    assert (key.public.hex(), key.id.hex()) == (case["public"], case["key_id"])
    assert key.open(bytes.fromhex(case["sealed"]), **asked).hex() == case["report"]


@pytest.mark.parametrize("case", of(STORED["sealed"]))
def test_the_reference_opens_what_is_sealed_here(case):
    asked = {"campaign": case["campaign"], "round": case["round"]}
    report, private = bytes.fromhex(case["report"]), bytes.fromhex(case["private"])
    sealed = SealingKey(bytes.fromhex(case["public"])).seal(report, **asked)
    stored = bytes.fromhex(case["sealed"])
    assert (len(sealed), sealed[:11]) == (len(stored), stored[:11])
    assert reference.open_sealed(private, sealed, **asked) == report
    assert reference.open_sealed(private, stored, **asked) == report


@pytest.mark.parametrize("case", of(STORED["refused"]))
def test_what_does_not_open_is_refused_by_its_code(case):
    key = OpeningKey(bytes.fromhex(case["private"]))
    with pytest.raises(ReportRejected) as refusal:
        key.open(bytes.fromhex(case["sealed"]), campaign=case["campaign"], round=case["round"])
    assert refusal.value.code.value == case["code"]
