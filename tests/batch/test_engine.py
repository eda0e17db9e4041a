"""Partitions, files and engines: the same integers however reports are cut, and nothing lost in silence."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from keyveil import Campaign
from keyveil.batch import Block, Records, perturb_many, tally_partition
from keyveil.batch import engine as engine_module
from keyveil.batch import files as files_module
from keyveil.batch.engine import tally_files
from keyveil.batch.files import cut
from keyveil.batch.repeats import repeated_ids
from keyveil.domain import Record
from keyveil.errors import Refusal, ReportRejected, TallyError
from keyveil.report import Envelope, public_word, to_frames
from keyveil.tally import Tally

KEYVEIL = Path(sys.executable).with_name("keyveil")
MECHANISMS = ("pckv-ue", "pckv-grr", "kvue", "ue-sw", "bucket", "olh", "subset", "oue-harmony")
# With ids that are issued an index follows from the id.
ISSUED = ("kvue issued", "levels issued", "bucket issued")


def campaign_of(mechanism, name="apps"):
    mechanism, _, ids = mechanism.partition(" ")
    return Campaign(
        name=name,
        epsilon=1,
        keys=list("abcdefg"),
        value_range=(0, 1),
        pairs_per_user=2,
        mechanism=mechanism,
        ids=ids or "own",
    )


def reports_of(campaign, n, seed=1):
    rng = np.random.default_rng(seed)
    records = [Record.of({int(k): 0.5 for k in rng.choice(7, 2)}) for _ in range(n)]
    rows = perturb_many(campaign.build(), Records.of(records), tag=campaign.tag)
    return [row.tobytes() for row in rows]


def write(path, reports, row_group_size=100, said=None):
    schema = pa.schema([pa.field("report", pa.binary())], metadata=said)
    table = pa.table([pa.array(reports, pa.binary())], schema=schema)
    pq.write_table(table, path, row_group_size=row_group_size, compression="none", use_dictionary=False)
    return path


def damaged(campaign, reports):
    """Reports of every kind that is refused, in the middle of good ones, and how often each is."""
    good, layout = reports[0], campaign.build().layout
    bad = {
        Refusal.WRONG_LENGTH: [b"", b"x", good[:34], good + b"x", good[:-1]],
        Refusal.UNKNOWN_VERSION: [b"\x02" + good[1:], b"\x07" + good[1:-1]],
        Refusal.WRONG_CAMPAIGN: [good[:5] + bytes([good[5] ^ 1]) + good[6:]],
        Refusal.WRONG_ROUND: [good[:17] + b"\x02\x00" + good[19:]] * 3,
    }
    try:
        layout.decode(b"\xff" * layout.n_bytes)
    except ReportRejected:
        bad[Refusal.NOT_CANONICAL] = [good[:35] + b"\xff" * layout.n_bytes] * 2
    if campaign.build().public_word is not None:
        # Of all cohorts or indices one is right.
        others = [good[:19] + bytes([good[19] ^ bit]) + good[20:] for bit in (1, 2, 4, 8, 16)]
        answer = layout.decode(good[35:])
        bad[Refusal.WRONG_COHORT] = [
            other
            for other in others
            if not campaign.build().follows(answer, public_word(campaign.tag, 1, other[19:35]))
        ]
    mixed = list(reports)
    for place, report in enumerate(each for some in bad.values() for each in some):
        mixed.insert(7 * place + 3, report)
    return mixed, Counter({code.value: len(some) for code, some in bad.items()})


def refusal_of(campaign, report):
    """What a collector says that is handed one report."""
    try:
        campaign.tally([report])
    except ReportRejected as refusal:
        return {refusal.code.value: 1}
    return {}


@pytest.mark.parametrize("mechanism", MECHANISMS + ISSUED)
def test_a_partition_counts_what_a_collector_counts_and_says_why_not(mechanism, way):
    campaign = campaign_of(mechanism)
    reports = reports_of(campaign, 400)
    mixed, why = damaged(campaign, reports)
    blocks = [Block.of(mixed[:13]), Block.of([]), Block.of_arrow(pa.array(mixed[13:]))]
    found = tally_partition(campaign.first_round(), blocks)
    assert found.tally == campaign.tally(reports)
    assert found.refused == why
    assert {row.tobytes() for row in found.ids} == {report[19:35] for report in reports}
    for report in mixed:
        alone = tally_partition(campaign.first_round(), [Block.of([report])])
        assert dict(alone.refused) == refusal_of(campaign, report)


@pytest.mark.parametrize("mechanism", ["pckv-ue", "bucket"])
def test_any_cut_and_any_order_give_the_same(mechanism):
    campaign = campaign_of(mechanism)
    mixed, why = damaged(campaign, reports_of(campaign, 300))
    question, rng = campaign.first_round(), np.random.default_rng(4)
    whole = tally_partition(question, [Block.of(mixed)])
    for _ in range(5):
        order = rng.permutation(len(mixed))
        cuts = np.sort(rng.integers(0, len(mixed), 4))
        parts = [[mixed[i] for i in some] for some in np.split(order, cuts)]
        first, *others = (tally_partition(question, [Block.of(part)]) for part in parts)
        total = sum(others, start=first)
        assert (total.tally, total.refused) == (whole.tally, why)


def test_strict_stops_at_the_first_refusal():
    campaign = campaign_of("pckv-ue")
    with pytest.raises(ReportRejected) as refusal:
        tally_partition(campaign.first_round(), [Block.of([*reports_of(campaign, 3), b"no"])], strict=True)
    assert refusal.value.code is Refusal.WRONG_LENGTH


def test_arrow_columns_are_read_where_they_lie():
    column = pa.array([b"abc", None, b"", b"xy"])
    for made in (column, column.slice(1), column.cast(pa.large_binary()), column.slice(2, 1), column[:0]):
        block = Block.of_arrow(made)
        assert [block.report(i) for i in range(len(block))] == [x or b"" for x in made.to_pylist()]
    fixed = pa.array([b"abc", b"xyz"], pa.binary(3))
    assert Block.of_arrow(fixed).report(1) == b"xyz"


# --- files ---


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(files_module, "PART_REPORTS", 250)


@pytest.fixture
def many(tmp_path):
    """Three files of a campaign, one of them frames, with damage in the middle."""
    campaign = campaign_of("pckv-ue")
    reports = reports_of(campaign, 1000)
    mixed, why = damaged(campaign, reports)
    frames = tmp_path / "three.frames"
    frames.write_bytes(to_frames(mixed[700:]))
    paths = [
        write(tmp_path / "one.parquet", mixed[:600]),
        write(tmp_path / "two.parquet", mixed[600:700]),
        frames,
    ]
    return campaign, reports, paths, why


@pytest.mark.parametrize("processes", [1, 2])
def test_files_are_counted_in_one_process_and_in_several(many, tmp_path, small_parts, processes):
    campaign, reports, paths, why = many
    seen = []
    counted = tally_files(
        campaign.first_round(), paths, folder=tmp_path / "parts", processes=processes, advance=seen.append
    )
    assert counted.tally == campaign.tally(reports)
    assert counted.refused == why
    assert not counted.is_whole
    assert sum(seen) == 700


def test_work_that_was_cut_off_goes_on(many, tmp_path, small_parts, monkeypatch):
    campaign, reports, paths, _ = many
    question, folder, counted = campaign.first_round(), tmp_path / "parts", []

    def watched(question, blocks, *, strict):
        counted.append(1)
        return tally_partition(question, blocks, strict=strict)

    monkeypatch.setattr(engine_module, "tally_partition", watched)
    whole = tally_files(question, paths, folder=folder).tally
    assert whole == campaign.tally(reports)
    assert len(counted) == 4
    # All is there; a part that is gone, one that was changed, one of a file that was changed: anew.
    assert tally_files(question, paths, folder=folder).tally == whole
    assert len(counted) == 4
    first, second, *_ = sorted(folder.glob("*.json"))
    first.unlink()
    second.write_text(second.read_text().replace('\\"n_reports\\": ', '\\"n_reports\\": 1'))
    assert tally_files(question, paths, folder=folder).tally == whole
    assert len(counted) == 6
    paths[1].write_bytes(paths[0].read_bytes())
    os.utime(paths[1], ns=(1, 1))
    again = tally_files(question, paths, folder=folder)
    assert len(counted) == 8
    assert again.n_repeated > 0


def test_an_id_counts_once_whatever_the_order(tmp_path):
    campaign = campaign_of("pckv-ue")
    reports = reports_of(campaign, 50)
    # The same id over another answer, and plain copies.
    forged = [report[:35] + other[35:] for report, other in zip(reports[:20], reports[20:40], strict=True)]
    tallies = set()
    for number, (some, rest) in enumerate((((reports, forged)), ((forged, reports)))):
        one = write(tmp_path / f"{number}a", some + some[:3])
        other = write(tmp_path / f"{number}b", rest)
        counted = tally_files(campaign.first_round(), [one, other], folder=tmp_path / f"parts{number}")
        assert counted.n_repeated == 23
        assert counted.is_whole
        tallies.add(counted.tally.to_json())
        assert counted.tally.n_reports == 50
    assert len(tallies) == 1


def test_a_refused_copy_does_not_take_the_place_of_a_good_one(tmp_path):
    campaign = campaign_of("pckv-ue")
    reports = reports_of(campaign, 30)
    bad = [report[:35] + b"\xff\xff" for report in reports]
    path = write(tmp_path / "mixed.parquet", bad + reports)
    counted = tally_files(campaign.first_round(), [path], folder=tmp_path / "parts")
    assert counted.tally == campaign.tally(reports)
    assert (counted.n_repeated, counted.refused) == (0, {"not-canonical": 30})


def test_repeated_ids_are_found_in_bounded_memory(monkeypatch):
    from keyveil.batch import repeats

    monkeypatch.setattr(repeats, "_AT_ONCE", 100)
    ids = np.random.default_rng(1).integers(0, 256, (1000, 16), dtype=np.uint8)
    ids[500:510] = ids[:10]
    ids[999, 8:] = ids[0, 8:] + 1
    ids[999, :8] = ids[0, :8]
    assert repeated_ids(lambda: [ids[:300], ids[300:]], 1000) == {row.tobytes() for row in ids[:10]}
    assert repeated_ids(lambda: [ids[:300]], 300) == repeated_ids(list, 0) == set()


# --- bad input, as people meet it ---


def keyveil(*arguments):
    return subprocess.run([KEYVEIL, *map(str, arguments)], capture_output=True, text=True)


@pytest.fixture
def on_disk(tmp_path, many):
    campaign, reports, paths, why = many
    path = tmp_path / "campaign.json"
    path.write_text(campaign.canonical_json)
    return path, campaign, reports, paths, why


def test_the_command_says_what_it_left_out_and_ends_with_1(on_disk, tmp_path):
    path, campaign, reports, paths, why = on_disk
    cut_short = tmp_path / "short.parquet"
    cut_short.write_bytes(paths[0].read_bytes()[:-100])
    other = campaign_of("pckv-ue", name="another")
    foreign = write(
        tmp_path / "other.parquet",
        reports_of(other, 40),
        said={"keyveil": json.dumps({"campaign": other.id, "round": 1})},
    )
    shown = keyveil("tally", path, *paths, cut_short, foreign, "-o", tmp_path / "t.json")
    assert shown.returncode == 1
    assert f"could not read {cut_short}: short.parquet is not a readable Parquet file" in shown.stderr
    assert "41 wrong-campaign" in shown.stderr
    assert "5 wrong-length" in shown.stderr
    assert f"refused {why.total() + 40} of {1000 + why.total() + 40} reports" in shown.stderr
    assert Tally.from_json((tmp_path / "t.json").read_text()) == campaign.tally(reports)
    assert not (tmp_path / "t.json.parts").exists()
    strict = keyveil("tally", path, *paths, "-o", tmp_path / "s.json", "--strict")
    assert strict.returncode == 2
    assert "report refused (wrong-length)" in strict.stderr
    assert not (tmp_path / "s.json").exists()
    release = keyveil("estimate", path, *paths, "-o", tmp_path / "release.json")
    assert release.returncode == 1
    assert json.loads((tmp_path / "release.json").read_text())["metadata"]["users"] == 1000


def test_a_killed_command_goes_on_where_it_was(tmp_path):
    """Kill the command once some parts are done; the next run takes them over and ends with the same."""
    campaign = campaign_of("bucket")
    (tmp_path / "c.json").write_text(campaign.canonical_json)
    reports = reports_of(campaign, 2000)
    paths = [write(tmp_path / f"{i}.parquet", reports[20 * i : 20 * i + 20]) for i in range(100)]
    out, folder = tmp_path / "t.json", tmp_path / "t.json.parts"
    arguments = [KEYVEIL, "tally", tmp_path / "c.json", *paths, "-o", out]
    running = subprocess.Popen(arguments, stderr=subprocess.DEVNULL)
    while running.poll() is None and len(list(folder.glob("*.json"))) < 3:
        time.sleep(0.001)
    running.kill()
    running.wait()
    left = {path: path.stat().st_mtime_ns for path in folder.glob("*.json")}
    assert 3 <= len(left) < 100
    assert not out.exists()
    done = tally_files(campaign.first_round(), paths, folder=folder)
    assert {path: path.stat().st_mtime_ns for path in left} == left
    assert done.tally == campaign.tally(reports)
    shown = keyveil("tally", tmp_path / "c.json", *paths, "-o", out)
    assert f"going on with {folder}" in shown.stderr
    assert Tally.from_json(out.read_text()) == done.tally
    assert not folder.exists()


def test_a_file_without_reports_is_refused(tmp_path):
    table = tmp_path / "table.parquet"
    pq.write_table(pa.table({"user": [1]}), table)
    with pytest.raises(TallyError, match='lacks the column "report"'):
        cut(table)
    with pytest.raises(TallyError, match="found no file"):
        cut(tmp_path / "nowhere")


def test_reports_of_a_device_and_of_a_batch_are_alike():
    campaign = campaign_of("pckv-ue")
    envelope = Envelope.from_bytes(reports_of(campaign, 1)[0])
    assert (envelope.campaign, envelope.round) == (campaign.tag, 1)
