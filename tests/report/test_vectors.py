"""The vectors are up to date, and Python sends and refuses what they say."""

import json
from pathlib import Path

import pytest

import vectors
from keyveil import Campaign
from keyveil.errors import ReportRejected
from keyveil.mechanisms import REGISTRY
from keyveil.report import Envelope, read_frames

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "vectors"


def refused(kind):
    cases = json.loads((FOLDER / f"bad_{kind}.json").read_text(encoding="utf-8"))["refuse"]
    return [pytest.param(case, id=f"{place}-{case['why']}") for place, case in enumerate(cases)]


def test_the_files_are_what_the_script_writes():
    stored = {
        path.relative_to(FOLDER).as_posix(): path.read_text(encoding="utf-8")
        for path in FOLDER.rglob("*.json")
    }
    made = vectors.files()
    assert stored.keys() == made.keys()
    changed = [name for name, text in made.items() if text != stored[name]]
    assert not changed, "run python scripts/vectors.py and look at what changed"


def test_every_mechanism_and_allocation_has_vectors():
    for name, cls in REGISTRY.items():
        assert (FOLDER / f"{name}.json").exists(), name
        for allocation in cls.allocations[1:]:
            assert (FOLDER / f"{name}_{allocation.value}.json").exists(), (name, allocation)


def test_stored_reports_are_counted_as_stored():
    """From the bytes alone: a round read back from its description tallies them."""
    counted = 0
    for path in FOLDER.glob("*.json"):
        for suite in json.loads(path.read_text(encoding="utf-8")).get("suites", ()):
            campaign, asked = Campaign.from_description(suite["description"])
            tally = campaign.tally((bytes.fromhex(case["report"]) for case in suite["cases"]), asked)
            assert tally.n_reports == suite["tally"]["n_reports"]
            assert {name: cells.tolist() for name, cells in tally.cells.items()} == suite["tally"]["cells"]
            counted += 1
    assert counted > 60


@pytest.mark.parametrize("case", refused("reports"))
def test_bad_reports_are_refused_by_code(case):
    campaign, asked = Campaign.from_description(case["description"])
    with pytest.raises(ReportRejected) as refusal:
        campaign.tally([bytes.fromhex(case["report"])], asked)
    assert refusal.value.code.value == case["code"]


@pytest.mark.parametrize("case", refused("frames"))
def test_bad_batches_are_refused_by_code(case):
    with pytest.raises(ReportRejected) as refusal:
        list(read_frames(bytes.fromhex(case["stream"]), largest=case["largest"], most=case["most"]))
    assert refusal.value.code.value == case["code"]


@pytest.mark.parametrize("case", refused("json"))
def test_bad_texts_are_refused_by_code(case):
    with pytest.raises(ReportRejected) as refusal:
        Envelope.from_json(case["text"])
    assert refusal.value.code.value == case["code"]
