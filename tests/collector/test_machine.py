"""Random histories against the real application on a real file: whatever happens, a report counts once.

The model is a dictionary of what was acknowledged. A response that is dropped leaves the sender in doubt;
it sends again, and the second answer must fit. A crash drops the process's memory; the store is opened
again. The clock jumps both ways.
"""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from collecting import NOW, Caller, glass, glass_report, make_question
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from keyveil.protocols import Round, replay
from keyveil.report import Envelope

FOLDER = "/dev/shm" if Path("/dev/shm").is_dir() and os.access("/dev/shm", os.W_OK) else None
BUCKETS = 512
SPAN = 3600.0


class Histories(RuleBasedStateMachine):
    """One glass campaign of one round, one campaign of three rounds, and a stranger."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=FOLDER, prefix="kvm-"))
        self.now = NOW
        self.latest = NOW
        self.caller = Caller(f"sqlite:///{self.folder}/c.db", clock=lambda: self.now)
        self.admin = self.caller.admin
        self.glass, self.rounds = (
            glass(BUCKETS),
            make_question("privkvm", rounds=3, pairs_per_user=1, epsilon=4.0),
        )
        self.tokens = {
            self.glass.id: self.caller.create(self.glass, close_after=20 * SPAN)["device_token"],
            self.rounds.id: self.caller.create(self.rounds)["device_token"],
        }
        self.n_made = 0
        self.sent = []  # every report that was ever sent, with its campaign
        self.counted = {self.glass.id: {}, self.rounds.id: {}}  # id -> report, acknowledged or found so
        self.tallies = []  # of the closed rounds of the second campaign
        self.known, self.known_after = None, -1  # what follows from them, and how many they were
        self.glass_is_open = True

    def teardown(self):
        try:
            self.check_everything()
            self.caller.close()
        finally:
            shutil.rmtree(self.folder)

    # --- what the model knows ---

    @property
    def asked(self):
        if self.known_after != len(self.tallies):
            self.known = replay(self.rounds.protocol(), self.rounds.id, self.tallies)
            self.known_after = len(self.tallies)
        return self.known

    def open_number(self, campaign):
        if campaign is self.glass:
            return 1 if self.glass_is_open and self.latest < NOW + 20 * SPAN else None
        return self.asked.number if isinstance(self.asked, Round) else None

    def make(self, campaign, number):
        if campaign is self.glass:
            report = glass_report(campaign, self.n_made % BUCKETS, number)
        else:
            mechanism = (
                self.asked.mechanism
                if isinstance(self.asked, Round)
                else campaign.protocol().start("").mechanism
            )
            payload = mechanism.layout.encode(self.n_made % mechanism.layout.size)
            report_id = self.n_made.to_bytes(16, "little")
            report = Envelope(
                campaign=campaign.tag, round=number, report_id=report_id, payload=payload
            ).to_bytes()
        self.n_made += 1
        return report

    def expected(self, campaign, report, seen):
        envelope = Envelope.from_bytes(report)
        if envelope.report_id in self.counted[campaign.id] or envelope.report_id in seen:
            return "duplicate"
        number = self.open_number(campaign)
        if envelope.round == number:
            return "accepted"
        last = 1 if campaign is self.glass else (self.asked.number if isinstance(self.asked, Round) else 3)
        return "round-closed" if 1 <= envelope.round <= last else "wrong-round"

    def send(self, campaign, reports, dropped=False):
        statuses = self.caller.send(campaign, reports, token=self.tokens[campaign.id])
        seen, wanted = {}, []
        for report in reports:
            wanted.append(self.expected(campaign, report, seen))
            if wanted[-1] == "accepted":
                seen[Envelope.from_bytes(report).report_id] = report
        # A dropped response was still written: the sender learns it by sending again.
        assert dropped or statuses == wanted, (statuses, wanted)
        self.counted[campaign.id] |= seen
        self.sent += [(campaign, report) for report in reports]

    # --- what may happen ---

    @rule(which=st.booleans(), count=st.integers(1, 5))
    def upload(self, which, count):
        campaign = self.glass if which else self.rounds
        number = self.open_number(campaign) or 1
        self.send(campaign, [self.make(campaign, number) for _ in range(count)])

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def replay_some(self, data):
        picked = data.draw(st.lists(st.integers(0, len(self.sent) - 1), min_size=1, max_size=5))
        campaign = self.sent[picked[0]][0]
        self.send(campaign, [self.sent[at][1] for at in picked if self.sent[at][0] is campaign])

    @rule(which=st.booleans())
    def upload_and_drop_the_response(self, which):
        campaign = self.glass if which else self.rounds
        report = self.make(campaign, self.open_number(campaign) or 1)
        self.send(campaign, [report], dropped=True)
        self.send(campaign, [report])

    @rule(body=st.binary(max_size=80))
    def malformed(self, body):
        path = f"/v1/campaigns/{self.glass.id}/reports"
        answer = self.caller("POST", path, body, token=self.tokens[self.glass.id])
        assert answer.status in (200, 400), answer
        if answer.status == 200:
            assert "accepted" not in answer.json["reports"]

    @rule(which=st.booleans())
    def wrong_campaign(self, which):
        here, there = (self.glass, self.rounds) if which else (self.rounds, self.glass)
        answer = self.caller.send(here, [self.make(there, 1)], token=self.tokens[here.id])
        assert answer == ["wrong-campaign"]
        assert self.caller.send(here, [], token=self.tokens[there.id]).code == "other-campaign"

    @rule(which=st.booleans(), number=st.integers(0, 5))
    def some_round(self, which, number):
        campaign = self.glass if which else self.rounds
        report = self.make(campaign, number)
        if campaign is self.rounds and len(report) != len(self.make(campaign, number)):
            return
        self.send(campaign, [report])

    @rule()
    def close_a_round(self):
        asked = self.asked
        if not isinstance(asked, Round):
            assert self.caller.close_round(self.rounds, 3).status == 200
            return
        mine = [
            r for r in self.counted[self.rounds.id].values() if Envelope.from_bytes(r).round == asked.number
        ]
        answer = self.caller.close_round(self.rounds, asked.number)
        if asked.number == 1 and not mine:
            assert answer.code == "round-empty"
            return
        assert answer.status == 200
        self.tallies.append(self.rounds.tally(mine, asked))
        assert answer.json["reports"] == len(mine)

    @rule(ahead=st.floats(-5 * SPAN, 5 * SPAN))
    def jump(self, ahead):
        self.now += ahead
        # Somebody looks: a time that the collector never saw is none that it must remember.
        self.latest = max(self.latest, self.now)
        self.caller.collector.now()

    @rule()
    def tick(self):
        self.latest = max(self.latest, self.now)
        self.caller.collector.running.tick()
        self.caller.collector.running.tidy()
        if self.latest >= NOW + 20 * SPAN:
            self.glass_is_open = False

    @rule()
    def crash(self):
        self.caller.crash()
        self.caller = Caller(f"sqlite:///{self.folder}/c.db", clock=lambda: self.now)
        assert self.caller.admin is None
        self.caller.admin = self.admin
        # A process that starts anew believes its clock again; what was closed stays closed.
        self.latest = self.now

    # --- what must hold ---

    @invariant()
    def nothing_is_lost_or_doubled(self):
        with self.caller.collector.store.read() as tx:
            for campaign, mine in self.counted.items():
                no = tx.campaign(campaign).no
                tallied = [tx.tally(no, row.number) for row in tx.rounds(no)]
                assert sum(tally.n_reports for tally in tallied if tally) == len(mine)

    def check_everything(self):
        reports = self.counted[self.glass.id].values()
        assert self.caller.collector.readout.tally(self.glass.id, 1) == self.glass.tally(reports)
        assert self.caller.collector.reports.recount(self.glass.id, 1).agrees
        for number, tally in enumerate(self.tallies, 1):
            assert self.caller.collector.readout.tally(self.rounds.id, number) == tally
        view = self.caller("GET", f"/v1/campaigns/{self.rounds.id}").json
        asked = self.asked
        assert view["round"] == (asked.fields() if isinstance(asked, Round) else None)


@pytest.mark.parametrize(
    "histories",
    [
        pytest.param(120, marks=pytest.mark.timeout(600)),
        pytest.param(2000, marks=[pytest.mark.nightly, pytest.mark.timeout(7200)]),
    ],
)
def test_every_history_counts_each_report_once(histories, monkeypatch):
    # Ids move into runs all the time, so that a crash meets every state of the move.
    monkeypatch.setattr("keyveil.collector.store.sqlite._STEP_REPORTS", 1)
    monkeypatch.setattr("keyveil.collector.store.sqlite._MOST_IDS", 4)
    run_state_machine_as_test(
        Histories,
        settings=settings(
            max_examples=histories,
            stateful_step_count=100,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
