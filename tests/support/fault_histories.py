"""Histories of a store under faults: what was done, what was heard of it, and what must be true after.

A history is a script of work through the collector's own code, the same for the same seed: campaigns, groups
of uploads with repeated and bad reports, closes, tokens, retention, a backup, a restart. Whoever is refused
tries again, as devices and operators do. What they heard is kept with the moment at which they heard it:
whatever happens afterwards, it must stay true.
"""

import hashlib
import io
import json
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from collecting import NOW, make_question

from keyveil.collector.campaigns.collector import Collector
from keyveil.collector.campaigns.messages import NewCampaign, NewToken
from keyveil.collector.campaigns.terms import Terms
from keyveil.collector.clock import Clock
from keyveil.collector.logs import Log
from keyveil.collector.store import open_store
from keyveil.collector.store.runs import ids_in
from keyveil.collector.tokens import Role, mint
from keyveil.collector.writing.commit import commit_group
from keyveil.collector.writing.upload import FRAMED, read_upload
from keyveil.errors import StoreError
from keyveil.report import Envelope, to_frames

# Attempts after which a store that worked before is stuck.
_ATTEMPTS = 4
_HOUR = 3600.0
COUNTED = {"accepted", "duplicate"}
_, ADMIN = mint(Role.ADMIN, None, now=NOW, label="of the tests")


class Heard(NamedTuple):
    """Something that somebody was told; `at` is how much had been done to the disk by then."""

    at: int
    what: str
    about: tuple
    told: object = None


class Item(NamedTuple):
    """A report of an upload: `kind` is good or what is wrong with it."""

    campaign: str
    round: int
    number: int
    kind: str = "good"


@dataclass(slots=True)
class Verdict:
    """What was found in a store; `wrong` in words."""

    acknowledged: int = 0
    lost: int = 0
    doubled: int = 0
    wrong: list[str] = field(default_factory=list)

    def __iadd__(self, other):
        self.acknowledged += other.acknowledged
        self.lost += other.lost
        self.doubled += other.doubled
        self.wrong += other.wrong
        return self


class History:
    """The script of a seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        keys = tuple(f"k{place}" for place in range(5))
        self.campaigns = {
            "one": make_question("grr", keys=keys, pairs_per_user=1, name=f"one {seed}"),
            "two": make_question("privkvm", keys=keys, pairs_per_user=1, rounds=2, name=f"two {seed}"),
        }
        self.terms = {
            "one": Terms(),
            "two": Terms(uploads="open", drop_reports=bool(seed % 2), replay_days=2 / 24),
        }
        self.layouts = {
            (name, stage.number): stage.mechanism.layout
            for name, campaign in self.campaigns.items()
            for stage in campaign.protocol().stages()
        }
        self._rng, self._next, self._sent = random.Random(seed), Counter(), []
        groups = [4 + self._rng.randrange(3) for _ in range(3)]
        self.steps: list[tuple[Callable, tuple]] = [(Run.create, ("one",)), (Run.create, ("two",))]
        self._groups(groups[0], (("one", 1), ("two", 1)))
        self.steps += [(Run.back_up, ()), (Run.make_token, ("second",))]
        self._groups(2, (("one", 1),), token="second")
        self.steps += [(Run.close_round, ("two", 1)), (Run.revoke, ("second",))]
        stale = [self._good("two", 1), *self._rng.sample(self._sent, 3)]
        self.steps += [(Run.commit, (stale, None)), (Run.refuse, ([self._good("one", 1)], "second"))]
        self._groups(groups[1], (("one", 1), ("two", 2)))
        self.steps += [(Run.restart, ()), (Run.tidy, ())]
        self._groups(groups[2], (("one", 1), ("two", 2)))
        self.steps += [(Run.close_round, ("two", 2)), (Run.label, ("one",)), (Run.restart, ())]
        self._groups(2, (("one", 1),))

    def _good(self, campaign: str, round: int) -> Item:
        self._next[campaign, round] += 1
        return Item(campaign, round, self._next[campaign, round])

    def _groups(self, count: int, places, token: str | None = None) -> None:
        for _ in range(count):
            items = []
            for place in places:
                items += [self._good(*place) for _ in range(self._rng.randrange(1, 9))]
                items.append(items[-1])
                if self._rng.random() < 0.5:
                    wrong = self._rng.choice(["payload", "length", "campaign", "round"])
                    items.append(self._good(*place)._replace(kind=wrong))
            sent = [item for item in self._sent if item[:2] in places]
            items += self._rng.sample(sent, min(2, len(sent)))
            self._rng.shuffle(items)
            self._sent += [item for item in dict.fromkeys(items) if item.kind == "good"]
            self.steps.append((Run.commit, (items, token)))

    def id_of(self, item: Item) -> bytes:
        """Report ids spread evenly, as those of devices do."""
        return hashlib.sha256(repr((self.seed, item)).encode()).digest()[:16]

    def report(self, item: Item) -> bytes:
        """The bytes of a report; they are the same whenever it is sent."""
        campaign, name, layout = self.campaigns[item.campaign], self.id_of(item), self.layouts[item[:2]]
        symbol = layout.size if item.kind == "payload" else name[0] % layout.size
        payload = symbol.to_bytes(layout.n_bytes, "little") + bytes(item.kind == "length")
        return Envelope(
            campaign=bytes(16) if item.kind == "campaign" else campaign.tag,
            round=9 if item.kind == "round" else item.round,
            report_id=name,
            payload=payload,
        ).to_bytes()


class Run:
    """A history on a store; `position` tells how much was done to it, `clear` ends a lasting fault."""

    def __init__(
        self, history, url, *, heard=(), position=lambda: 0, clear=lambda: None, tune=lambda _: None
    ):
        self.history, self.url, self.heard = history, url, list(heard)
        self._known = {(each.what, each.about): each.told for each in reversed(self.heard)}
        self._position, self._clear, self._tune = position, clear, tune
        self.collector, self.log, self.began = None, io.StringIO(), []
        self.refusals = self.recognised = self.step = 0
        self._is_again = False

    def play(self, first: int = 0, *, is_again: bool = False) -> None:
        """All steps from one on; after a crash it is not known what became of the first."""
        for step in range(first, len(self.history.steps)):
            self.began.append(self._position())
            self.step, self._is_again = step, is_again and step == first
            self._until_done(*self.history.steps[step])

    def _until_done(self, do, arguments) -> None:
        for _ in range(_ATTEMPTS):
            try:
                self.open()
                do(self, *arguments)
                return
            except StoreError as error:
                if error.damaged:
                    raise AssertionError(f"a fault is taken for damage: {error}") from error
                self.refusals += 1
                self._is_again = True
                self._clear()
        raise AssertionError(f"step {self.step} was refused {_ATTEMPTS} times: the store does not recover")

    def open(self) -> None:
        """A collector on the store, if there is none."""
        if self.collector is None:
            store = open_store(self.url)
            self._tune(store)
            now = lambda: NOW + _HOUR * self.step  # noqa: E731
            self.collector = Collector(store, clock=Clock(now, steady=now), log=Log(self.log))

    def close(self) -> None:
        """No collector any more."""
        if self.collector is not None:
            collector, self.collector = self.collector, None
            collector.store.close()

    def hear(self, what: str, *about, told: object = None) -> None:
        """Somebody was told."""
        self.heard.append(Heard(self._position(), what, about, told))
        self._known.setdefault((what, about), told)

    def _told(self, what: str, *about):
        return self._known.get((what, about))

    # --- steps ---

    def create(self, name: str) -> None:
        campaign, terms = self.history.campaigns[name], self.history.terms[name]
        fields = json.loads(campaign.canonical_json)
        self.collector.campaigns.create(ADMIN.id, NewCampaign(campaign=fields, terms=terms))
        self.hear("created", name)
        if terms.uploads == "token":
            self.make_token(name)

    def make_token(self, name: str) -> None:
        """A token for devices of the first campaign; one whose answer was lost is nobody's."""
        campaign = self.history.campaigns["one"].id
        self.hear("token", name, told=self.collector.access.make(ADMIN, campaign, NewToken(role="device")).id)

    def revoke(self, name: str) -> None:
        token = self._told("token", name)
        self.collector.access.revoke(ADMIN, self.history.campaigns["one"].id, token)
        self.hear("revoked", token)

    def refuse(self, items, token: str) -> None:
        """Uploads with a token that was revoked."""
        uploads = self._uploads(items, token)
        self._commit(uploads)
        assert all(upload.problem is not None for upload, _ in uploads)

    def commit(self, items, token: str | None) -> None:
        uploads = self._uploads(items, token)
        self._commit(uploads)
        for upload, members in uploads:
            assert upload.problem is None, upload.problem
            statuses = upload.statuses or ["accepted"] * upload.n_reports
            for item, status in zip(members, statuses, strict=True):
                self._settle(item, status)

    def _settle(self, item: Item, status: str) -> None:
        place, name = (item.campaign, item.round), self.history.id_of(item)
        is_known = self._told("counted", place, name) is not None
        if item.kind != "good" or status not in COUNTED:
            is_over = self._told("closed", *place) is not None
            assert status not in COUNTED, (item, status)
            assert item.kind != "good" or is_over, (item, status)
            return
        assert is_known or status == "accepted" or self._is_again, (item, status)
        assert not is_known or status == "duplicate", (item, status)
        # The answer to an earlier attempt was lost, and its commit was not.
        self.recognised += not is_known and status == "duplicate"
        if not is_known:
            self.hear("counted", place, name, told=True)

    def _uploads(self, items, token: str | None):
        """An upload a campaign, as the intake makes them."""
        made = []
        for name, campaign in self.history.campaigns.items():
            members = [item for item in items if item.campaign == name]
            if members:
                body = to_frames([self.history.report(item) for item in members])
                used = self._told("token", token or name)
                upload = read_upload(
                    body, FRAMED, tag=campaign.tag, campaign=campaign.id, token=used, most=1000
                )
                made.append((upload, members))
        return made

    def _commit(self, uploads) -> None:
        group = [upload for upload, _ in uploads]
        commit_group(self.collector.store, self.collector.cache, group, self.collector.now())

    def close_round(self, name: str, number: int) -> None:
        campaign = self.history.campaigns[name]
        closed = self.collector.running.close(ADMIN.id, campaign.id, number)
        self.hear("closed", name, number, told=self.collector.readout.tally(campaign.id, number))
        if closed.next_round is None:
            self.hear("finished", name)

    def label(self, name: str) -> None:
        self.collector.campaigns.label(ADMIN.id, self.history.campaigns[name].id, "another")
        self.hear("labelled", name, told="another")

    def tidy(self) -> None:
        """Retention logs what fails, and comes to it again."""
        self.hear("tidying")
        self.log.truncate(0)
        self.collector.running._retry_at.clear()
        self.collector.running.tidy()
        if '"fault"' in self.log.getvalue():
            raise StoreError("retention was refused")
        self.hear("tidied")

    def back_up(self) -> None:
        if self.collector.store.kind == "sqlite":
            store = Path(self.url.removeprefix("sqlite:///"))
            # A name that no attempt before had.
            path = store.with_name(f"copy-{len(list(store.parent.glob('copy-*.db')))}.db")
            before = len(self.heard)
            self.collector.store.backup(path)
            self.hear("copied", str(path), told=tuple(self.heard[:before]))

    def restart(self) -> None:
        self.close()
        self.open()


# --- what must be true ---


def check(history: History, store, heard) -> Verdict:
    """Everything that was heard is so, and nothing is counted that should not be."""
    verdict = Verdict()
    collector = Collector(store, clock=Clock(lambda: NOW, steady=lambda: NOW), log=Log(io.StringIO()))
    collector.inspect()
    verdict.wrong += [f"quarantined: {why}" for why in collector.damaged.values()]
    told = {(each.what, each.about): each.told for each in heard}
    for name, campaign in history.campaigns.items():
        with store.read() as tx:
            row = tx.campaign(campaign.id)
        if row is not None:
            verdict += _check_campaign(history, collector, name, row, told)
        elif any(about[0] == name for _, about in told if about) or any(
            about[0][0] == name for what, about in told if what == "counted"
        ):
            verdict.wrong.append(f"campaign {name} is gone")
            verdict.lost += sum(what == "counted" and about[0][0] == name for what, about in told)
    with store.read() as tx:
        for what, about in told:
            if what == "revoked":
                credential = tx.credential(about[0])
                if credential is None or credential.revoked_at is None:
                    verdict.wrong.append("a revoked token is alive")
        acts = Counter((act.act, act.campaign, act.detail) for act in tx.acts())
    once = [
        key for key, count in acts.items() if count > 1 and key[0] in ("campaign-created", "round-closed")
    ]
    verdict.wrong += [f"{act} is logged twice" for act, _, _ in once]
    return verdict


def _check_campaign(history, collector, name, row, told) -> Verdict:
    verdict, store = Verdict(), collector.store
    known = collector.known(row.id)
    with store.read() as tx:
        rounds = {each.number: each for each in tx.rounds(row.no)}
        outcome = tx.outcome(row.no)
    if ("finished", (name,)) in told and (row.finished_at is None or outcome is None):
        verdict.wrong.append(f"campaign {name} is not finished any more")
    if ("labelled", (name,)) in told and row.label != told["labelled", (name,)]:
        verdict.wrong.append(f"campaign {name} lost its label")
    for number in {about[1] for what, about in told if what == "closed" and about[0] == name}:
        if rounds[number].closed_at is None:
            verdict.wrong.append(f"round {number} is open again")
        if collector.readout.tally(row.id, number) != told["closed", (name, number)]:
            verdict.wrong.append(f"the tally of closed round {number} changed")
    for number, round_ in rounds.items():
        place = (name, number)
        counted = {about[1] for what, about in told if what == "counted" and about[0] == place}
        verdict.acknowledged += len(counted)
        if round_.dropped_at is None:
            verdict += _check_round(history, collector, known, place, counted)
        with store.gather() as tx:
            missing = counted - tx.known_ids(row.no, sorted(counted))
        # Retention forgets the ids of a closed round, all at once; it may not have come to saying so.
        is_forgotten = ("tidying", ()) in told and round_.closed_at is not None and missing == counted
        verdict.lost += 0 if is_forgotten else len(missing)
    return verdict


def _check_round(history, collector, known, place, counted) -> Verdict:
    verdict, number = Verdict(), place[1]
    reports, ids = [], []
    with collector.store.read() as tx:
        for block in tx.blocks(known.no, number, most=1 << 30):
            if not block.is_intact:
                verdict.wrong.append(f"block {block.no} is damaged")
            ids += ids_in(block.reports, block.length)
            starts = range(0, len(block.reports), block.length)
            reports += [block.reports[at : at + block.length] for at in starts]
    verdict.lost += len(counted - set(ids))
    verdict.doubled += len(ids) - len(set(ids))
    sent = {history.report(Item(*place, n)) for n in range(1, history._next[place] + 1)}
    verdict.wrong += [
        f"a report of round {number} was never sent so" for report in reports if report not in sent
    ]
    recount = collector.reports.recount(known.id, number)
    if not recount.agrees or recount.tally_reports != len(reports):
        verdict.wrong.append(f"the tally of round {number} is not that of its reports")
    return verdict
