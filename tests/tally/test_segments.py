"""Tallies of clear segments: they are those of the segments' own reports, and add up to the whole."""

from __future__ import annotations

from collections import Counter as Count
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from segmented import Crowd, crowd_of, random_campaign

from keyveil import Campaign
from keyveil.batch import Block, tally_partition
from keyveil.batch.engine import tally_files
from keyveil.errors import Refusal, ReportRejected
from keyveil.report import HEADER_BYTES, REPORT_ID_BYTES, to_frames
from keyveil.segments import Segments
from keyveil.tally import Tally
from keyveil.tally.count import Counter, decode
from keyveil.tally.payloads import Payloads


def alone(campaign: Campaign, reports: list[bytes]) -> Tally:
    """What reports say once their labels are cut off: counted as a round without labels counts."""
    asked = campaign.only_round()
    plain = replace(asked, labels=())
    end = HEADER_BYTES + asked.mechanism.layout.n_bytes
    return campaign.tally([report[:end] for report in reports], plain)


def check(campaign: Campaign, crowd: Crowd, found: Tally) -> None:
    assert found.unsettled() == []
    assert found.whole == alone(campaign, crowd.reports)
    seen = {(a, int(label)) for a, column in enumerate(crowd.labels.T) for label in np.unique(column)}
    assert list(found.segments) == sorted(seen)
    for segment, part in found.segments.items():
        assert part == alone(campaign, crowd.of(*segment))


@pytest.mark.parametrize("seed", range(100))
def test_segments_are_their_own_reports_and_add_up(seed: int, tmp_path: Path) -> None:
    campaign = random_campaign(seed)
    crowd = crowd_of(campaign, 60, seed)
    found = campaign.tally(crowd.reports)
    check(campaign, crowd, found)
    assert campaign.tally(crowd.reports[:7]) + campaign.tally(crowd.reports[7:]) == found
    assert Tally.from_json(found.to_json()) == found
    # A file, of which the first reports came twice.
    path = tmp_path / "reports.bin"
    path.write_bytes(to_frames([*crowd.reports, *crowd.reports[:5]]))
    summary = tally_files(campaign.only_round(), [path], folder=tmp_path / "done")
    assert summary.tally == found
    assert summary.n_repeated == 5


def test_compiled_loops_count_the_same(way: str) -> None:
    for seed in range(0, 100, 7):
        campaign = random_campaign(seed)
        crowd = crowd_of(campaign, 200, seed)
        check(campaign, crowd, campaign.tally(crowd.reports))


def test_hashed_answers_of_a_segment_may_wait_undecoded() -> None:
    campaign = random_campaign(0, mechanism="bucket", cohorts=16, dither=16, ids="own", keys=list("abcdefgh"))
    asked, crowd = campaign.only_round(), crowd_of(campaign, 300, 1)
    counter = Counter.of(asked)
    counter.add(
        Payloads.of([report[HEADER_BYTES:] for report in crowd.reports], asked.payload_bytes),
        Payloads.of([report[HEADER_BYTES - REPORT_ID_BYTES : HEADER_BYTES] for report in crowd.reports], 16),
    )
    waiting = counter.undecoded()
    assert all("told" in part.cells for part in (waiting, *waiting.segments.values()))
    check(campaign, crowd, decode(asked.mechanism, waiting))


def test_a_label_that_nobody_declared_is_refused_with_its_report() -> None:
    campaign = random_campaign(3, segments=Segments(told="clear", attributes=(("platform", ("ios",)),)))
    crowd = crowd_of(campaign, 20, 3)
    wrong = [crowd.reports[0][:-1] + bytes([label]) for label in (2, 255)]
    for report in wrong:
        with pytest.raises(ReportRejected) as refusal:
            campaign.tally([crowd.reports[1], report])
        assert refusal.value.code is Refusal.NOT_CANONICAL
    longer = [crowd.reports[0] + b"\0", crowd.reports[0][:-1]]
    for report in longer:
        with pytest.raises(ReportRejected) as refusal:
            campaign.tally([report])
        assert refusal.value.code is Refusal.WRONG_LENGTH
    found = tally_partition(campaign.only_round(), [Block.of([*wrong, *crowd.reports[1:], *longer])])
    assert found.refused == Count({"not-canonical": 2, "wrong-length": 2})
    check(campaign, Crowd(crowd.reports[1:], crowd.labels[1:]), found.tally)


def test_segments_that_do_not_add_up_are_found() -> None:
    campaign = random_campaign(3)
    found = campaign.tally(crowd_of(campaign, 50, 3).reports)
    first = next(iter(found.segments))
    assert found.with_segments({**found.segments, first: alone(campaign, [])}).unsettled() == [0]
