"""Collectors for tests: the real application on an event loop of its own, and campaigns to send it."""

import asyncio
import io
import json
import os
import secrets
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from devices import make_campaign

from keyveil.campaign import Campaign
from keyveil.client import Reporter
from keyveil.collector.campaigns.collector import Collector
from keyveil.collector.clock import Clock
from keyveil.collector.http.app import Application
from keyveil.collector.logs import Log
from keyveil.collector.settings import Settings
from keyveil.collector.store import open_store
from keyveil.collector.store.memtable import Memtable
from keyveil.report import Envelope, to_frames
from keyveil.simulate import draw_tally, insecure_generator, synthetic

# A Monday.
START = "2026-06-01"
NOW = datetime.fromisoformat(START).replace(tzinfo=UTC).timestamp()
WHO = {"owner": "tests", "purpose": "to see that nothing is lost", "expires": "2099-01-01"}


# Options of methods of several rounds.
SEVERAL = {
    "privkvm": {"rounds": 3, "pairs_per_user": 1},
    "privkvm-plus": {"pairs_per_user": 1},
    "privkvm-virtual": {"pairs_per_user": 1},
    "privkvm-star": {"pairs_per_user": 1},
    "ks-grr": {},
    "auto": {"keys": tuple(f"app-{i}" for i in range(12)), "pairs_per_user": 2},
}


def make_question(mechanism="pckv-ue", **changes):
    """A campaign with all that a collector asks for."""
    return make_campaign(mechanism, **(WHO | changes))


def drawn_tally(campaign, users=4_000):
    """What a campaign of one round counts of made-up people: the same numbers in every run."""
    people = synthetic(users=users, keys=campaign.domain.n_keys, seed=1)
    first = campaign.protocol().start(campaign.id)
    rng = insecure_generator(2)
    return draw_tally(first.mechanism, people, rng, question=first.question, dither=first.dither)


def make_series(mechanism="kvue", every="week", waves=4, series=None, **changes):
    """A series that begins where a caller's clock stands."""
    table = {"every": every, "waves": waves, "start": START} | (series or {})
    asked = json.loads(make_question(mechanism, **changes).canonical_json)
    return Campaign.from_said({**asked, "series": table})


def wave_reports(wave, count, round=None):
    """Reports of people who hold the first key and whose turn it is."""
    asked = wave.only_round() if round is None else round
    record = wave.domain.encode({wave.keys[0]: 30.0})
    return [asked.report(record, secrets.token_bytes(16)) for _ in range(count)]


def interim(release):
    """The release of a campaign that is open, as the collector sends it."""
    return replace(release, metadata={**release.metadata, "state": "interim"}).to_json()


class Answer:
    """What came back over ASGI."""

    def __init__(self, status, headers, body):
        self.status, self.body = status, body
        self.headers = {name.decode(): value.decode() for name, value in headers}

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def code(self):
        return self.json["code"]

    def __repr__(self):
        return f"<{self.status} {self.body[:300]!r}>"


class ServiceCaller:
    """A service in this process; every call runs its own event loop to the end of one request."""

    def __init__(self, app):
        self.app, self.host = app, app.host
        self.loop = asyncio.new_event_loop()
        self.life = app._lifespan(None)
        self.loop.run_until_complete(self.life.__aenter__())

    def close(self):
        self.loop.run_until_complete(self.life.__aexit__(None, None, None))
        self.loop.close()

    def __call__(self, method, path, body=None, *, token=None, headers=(), json_body=None):
        if json_body is not None:
            body, headers = json.dumps(json_body).encode(), [*headers, ("content-type", "application/json")]
        return self.loop.run_until_complete(self.ask(method, path, body, token=token, headers=headers))

    async def ask(self, method, path, body=None, *, token=None, headers=()):
        body = body or b""
        sent = [(name.encode(), value.encode()) for name, value in headers]
        if token:
            sent.append((b"authorization", f"Bearer {token}".encode()))
        if not any(name == b"content-length" for name, _ in sent):
            sent.append((b"content-length", str(len(body)).encode()))
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": sent,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        said, parts = {}, [body]

        async def receive():
            if parts:
                return {"type": "http.request", "body": parts.pop(), "more_body": False}
            return await asyncio.sleep(3600)

        got = []

        async def send(message):
            if message["type"] == "http.response.start":
                said.update(message)
            else:
                got.append(message.get("body", b""))

        await self.app(scope, receive, send)
        return Answer(said["status"], said["headers"], b"".join(got))


class Caller(ServiceCaller):
    """A collector in this process."""

    def __init__(self, store, *, clock=lambda: NOW, settings=None):
        self.out = io.StringIO()
        self.clock = clock
        self.collector = Collector(
            open_store(store),
            settings=settings or Settings(tick=3600),
            clock=clock if isinstance(clock, Clock) else Clock(clock, steady=clock),
            log=Log(self.out),
        )
        try:
            self.admin = self.collector.access.first_token()
            self.collector.inspect()
        except BaseException:
            self.collector.store.close()
            raise
        super().__init__(Application(self.collector))

    def crash(self):
        """Drop the process's memory: nothing is drained, nothing is told."""
        self.app.writer.stop()
        self.app._executor.shutdown()
        if self.collector.store.kind == "sqlite":
            self.collector.store._memory.memtable = Memtable()
        self.collector.store.close()
        self.loop.close()

    # --- shorthands ---

    def create(self, campaign, **terms):
        body = {"campaign": json.loads(campaign.canonical_json), "terms": terms}
        answer = self("POST", "/v1/campaigns", token=self.admin, json_body=body)
        assert answer.status in (200, 201), answer
        return answer.json

    def send(self, campaign, reports, *, token=None, headers=()):
        answer = self(
            "POST", f"/v1/campaigns/{campaign.id}/reports", to_frames(reports), token=token, headers=headers
        )
        return answer.json["reports"] if answer.status == 200 else answer

    def close_round(self, campaign, number):
        return self("POST", f"/v1/campaigns/{campaign.id}/rounds/{number}/close", token=self.admin)


def make_reports(campaign, count, round=None):
    """Reports of people who hold the first key."""
    device = Reporter(campaign)
    held = {campaign.keys[0]: 30.0}
    return [device.report(held, round) for _ in range(count)]


def answers(campaign, round, count):
    """Reports to a round, of people who hold one or two keys."""
    device = Reporter(campaign)
    keys = campaign.keys
    return [
        device.report({keys[i % 3]: 50.0, keys[3 + i % 5]: 10.0} if i % 2 else {keys[0]: 55.0}, round)
        for i in range(count)
    ]


def say(campaign, symbol):
    """A report that says this symbol, under a fresh id."""
    payload = campaign.build().layout.encode(symbol)
    return Envelope(
        campaign=campaign.tag, round=1, report_id=secrets.token_bytes(16), payload=payload
    ).to_bytes()


def glass(size=1 << 16, **changes):
    """A campaign in which every report owns a bucket: one symbol of `grr` each."""
    return make_question("grr", keys=tuple(f"b{i}" for i in range(size)), pairs_per_user=1, **changes)


def glass_report(campaign, bucket, round=1):
    """The report that says `bucket`; whoever sends it has chosen its noise."""
    payload = campaign.build().layout.encode(bucket)
    return Envelope(
        campaign=campaign.tag, round=round, report_id=secrets.token_bytes(16), payload=payload
    ).to_bytes()


def bucket_counts(collector, campaign):
    return np.asarray(collector.readout.tally(campaign.id, 1).cells["support"])


def fast_folder(tmp_path: Path) -> Path:
    """A folder in memory where there is one: crashes of a process do not need a disk."""
    shm = Path("/dev/shm")
    if shm.is_dir() and os.access(shm, os.W_OK):
        folder = shm / f"keyveil-tests-{os.getpid()}-{tmp_path.name}"
        folder.mkdir(exist_ok=True)
        return folder
    return tmp_path
