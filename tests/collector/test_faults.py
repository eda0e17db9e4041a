"""Faults at every write of the store, in the manner of SQLite's own tests: nothing is lost, nothing doubled.

A history is played once to see what it does to the disk; then again for every operation, which fails, is cut
short, is slow, or is the last before the power is lost. A bounded selection is in the gate, all of it
nightly.
"""

import shutil
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path

import pytest
from collecting import fast_folder
from fault_histories import Heard, History, Run, Verdict, check
from faulty_vfs import KINDS_OF, Disk, Event, Fault, Loss, after_power_loss, dropped, faults, kept

from keyveil.collector.store import open_store
from keyveil.collector.store.sqlite import SqliteStore

LOSSES = {"dropped": dropped, "killed": kept, "torn": lambda: Loss(0.5, seed=18)}
SEEDS = (1, 2, 3)
# In the gate every so many points of one seed; strides share no factor with what repeats in a commit.
STRIDES = {"fail": 29, "short": 29, "sync": 5, "full": 29, "read": 7, "delay": 97}
STRIDES |= {"dropped": 17, "killed": 29, "torn": 17}
NIGHTLY = [pytest.mark.nightly, pytest.mark.timeout(3600)]
CASES = [
    *(pytest.param(1, mode, stride, id=f"1-{mode}-some") for mode, stride in STRIDES.items()),
    *(
        pytest.param(seed, mode, 1, id=f"{seed}-{mode}-all", marks=NIGHTLY)
        for seed in SEEDS
        for mode in STRIDES
    ),
]


@dataclass(frozen=True, slots=True)
class Recording:
    """A history without faults: what it did to the disk, what was heard, and when each step began."""

    journal: list[Event]
    kinds: list[str]
    heard: list[Heard]
    began: list[int]


@pytest.fixture
def folder(tmp_path):
    made = fast_folder(tmp_path)
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    """Ids are flushed and the log is checkpointed every few groups."""
    monkeypatch.setattr("keyveil.collector.store.sqlite._STEP_REPORTS", 6)
    monkeypatch.setattr("keyveil.collector.store.sqlite._STEP_GROUPS", 3)


def checkpoint_soon(store: SqliteStore) -> None:
    store._writer.execute("pragma wal_autocheckpoint = 12")


def play(history: History, folder: Path, disk: Disk, tune=checkpoint_soon) -> Run:
    """The history on an empty disk."""
    folder.mkdir()
    url = f"sqlite:///{folder}/c.db"
    run = Run(history, url, position=lambda: len(disk.journal), clear=disk.clear, tune=tune)
    run.play()
    return run


def record(history: History, folder: Path, tune=checkpoint_soon) -> Recording:
    with faults(Disk()) as disk:
        run = play(history, folder, disk, tune)
        run.close()
    shutil.rmtree(folder)
    return Recording(disk.journal, disk.kinds, run.heard, run.began)


def lose_power(journal: list[Event], loss: Loss, folder: Path) -> None:
    """The files as the power loss leaves them, in a new folder."""
    folder.mkdir()
    for path, content in after_power_loss(journal, loss).items():
        (folder / Path(path).name).write_bytes(content)


def look(history: History, path: Path, heard) -> Verdict:
    """Open a store and check it; a file that is damaged as SQLite sees it is wrong too."""
    store = open_store(f"sqlite:///{path}")
    try:
        verdict = check(history, store, heard)
        with store.read() as tx:
            verdict.wrong += [why for (why,) in tx._all("pragma integrity_check") if why != "ok"]
    finally:
        store.close()
    return verdict


def with_fault(history: History, fault: Fault, folder: Path) -> tuple[Verdict, int]:
    """Play with a fault; look at the store, at what a power loss would leave of it, and at the backup."""
    with faults(Disk(fault)) as disk:
        run = play(history, folder / "run", disk)
        journal = list(disk.journal)
        if not disk.is_met:
            # It comes at the end.
            run.close()
        assert disk.is_met, fault
        disk.fault = None
        disk.clear()
        run.open()
        verdict = check(history, run.collector.store, run.heard)
        run.close()
    lose_power(journal, dropped(), folder / "after")
    again = look(history, folder / "after" / "c.db", run.heard)
    again.acknowledged = 0
    verdict += again
    for each in run.heard:
        if each.what == "copied":
            copy = look(history, Path(each.about[0]), each.told)
            copy.acknowledged = 0
            verdict += copy
    for name in ("run", "after"):
        shutil.rmtree(folder / name)
    return verdict, run.refusals


def after_loss(history: History, seen: Recording, at: int, loss: Loss, folder: Path) -> Verdict:
    """The power is lost after some operations; what was heard is so, and the rest of the history follows."""
    heard = [each for each in seen.heard if each.at <= at]
    lose_power(seen.journal[:at], loss, folder / "run")
    run = Run(history, f"sqlite:///{folder}/run/c.db", heard=heard, tune=checkpoint_soon)
    run.open()
    verdict = check(history, run.collector.store, heard)
    verdict.acknowledged = 0
    run.play(max(0, bisect_right(seen.began, at) - 1), is_again=True)
    verdict += check(history, run.collector.store, run.heard)
    run.close()
    shutil.rmtree(folder / "run")
    return verdict


def points(seen: Recording, mode: str) -> list[int]:
    """Where a fault of this mode can be."""
    if mode in LOSSES:
        return list(range(len(seen.journal) + 1))
    return [at for at, kind in enumerate(seen.kinds, 1) if kind in KINDS_OF[mode]]


@pytest.mark.parametrize(("seed", "mode", "stride"), CASES)
def test_no_fault_at_any_write_loses_or_doubles_a_report(folder, seed, mode, stride):
    history = History(seed)
    seen = record(history, folder / "seen")
    total, refusals, chosen = Verdict(), 0, points(seen, mode)[::stride]
    for at in chosen:
        if mode in LOSSES:
            verdict = after_loss(history, seen, at, LOSSES[mode](), folder)
        else:
            verdict, refused = with_fault(history, Fault(mode, at), folder)
            refusals += refused
        assert (verdict.lost, verdict.doubled, verdict.wrong) == (0, 0, []), f"seed {seed}, {mode} at {at}"
        total += verdict
    print(
        f"\nseed {seed}, {mode}: {len(chosen)} of {len(points(seen, mode))} points, a history each, "
        f"{refusals} refusals, {total.acknowledged} acknowledged, {total.lost} lost, "
        f"{total.doubled} doubled, {len(total.wrong)} wrong"
    )
    assert total.acknowledged > 0
    # A commit that failed is reported; a slow one is as good as any other.
    assert (refusals > 0) == (mode in ("fail", "short", "sync", "full", "read"))


# --- wrong twins: what these tests would say of a store that is careless ---


def lost_reports(history: History, seen: Recording, folder: Path) -> int:
    """Reports that were acknowledged and are not there after a power loss, at some points."""
    lost = 0
    for at in range(0, len(seen.journal), 41):
        lose_power(seen.journal[:at], dropped(), folder / "run")
        heard = [each for each in seen.heard if each.at <= at]
        lost += look(history, folder / "run" / "c.db", heard).lost
        shutil.rmtree(folder / "run")
    return lost


@pytest.mark.parametrize("synchronous", ["off", "normal"])
def test_a_store_that_does_not_wait_for_the_disk_is_found_to_lose_reports(folder, synchronous):
    def careless(store):
        checkpoint_soon(store)
        store._writer.execute(f"pragma synchronous = {synchronous}")

    history = History(1)
    assert lost_reports(history, record(history, folder / "seen", careless), folder) > 0


def test_an_answer_before_the_commit_is_found_to_be_a_lie(folder, monkeypatch):
    def hasty(run, uploads):
        for _, members in uploads:
            for item in members:
                if item.kind == "good":
                    run.hear("counted", (item.campaign, item.round), run.history.id_of(item), told=True)
        Run._honest_commit(run, uploads)

    history = History(1)
    monkeypatch.setattr(Run, "_honest_commit", Run._commit, raising=False)
    monkeypatch.setattr(Run, "_commit", hasty)
    monkeypatch.setattr(Run, "_settle", lambda *_: None)
    assert lost_reports(history, record(history, folder / "seen"), folder) > 0


@pytest.mark.parametrize(
    ("harm", "found"),
    [
        (
            "insert into blocks (campaign, round, length, crc, reports) "
            "select campaign, round, length, crc, reports from blocks where no = 1",
            "doubled",
        ),
        ("delete from blocks where no = 1", "lost"),
        ("update tallies set n_reports = n_reports + 1", "wrong"),
        ("update rounds set closed_at = null", "wrong"),
        ("update tokens set revoked_at = null", "wrong"),
    ],
)
def test_harm_to_a_store_is_seen(folder, harm, found):
    """The check itself: what was heard is not so any more."""
    history = History(2)
    run = play(history, folder / "run", Disk())
    run.close()
    assert not look(history, folder / "run" / "c.db", run.heard).wrong
    store = open_store(run.url)
    with store.write() as tx:
        tx._run(harm)
    store.close()
    verdict = look(history, folder / "run" / "c.db", run.heard)
    assert getattr(verdict, found)
