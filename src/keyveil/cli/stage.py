"""The demo's stage: a real collector as a process of its own, campaigns in it, and devices that report; where
it is shown, a relay as another process.

Devices are made up, everything else is real: the client draws from the system's randomness, reports go over
HTTP in batches, as a site's own relay would send them, and the collector stores each before it answers.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from operator import setitem
from typing import TYPE_CHECKING

from keyveil.cli.asking import Server
from keyveil.errors import StoreError, TransportError

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.cli.console import Advance

Held = Mapping[str, float]

HOST, USUAL_PORT = "127.0.0.1", 8765
# Reports an upload, and devices a task of the pool.
_BATCH, _TASK = 100, 500
_WORKERS = 2
_FRUIT = ("apple", "banana", "cherry", "durian", "elderberry", "fig", "grape", "honeydew")
_FRUITS_HELD = 2
_PATIENCE = 30.0
_DAYS = 30
# Seconds between looks at the calendar: a demo that walks through weeks waits for each.
_TICK = 0.1


@dataclass(frozen=True, slots=True)
class Stage:
    """A running collector; the operator's token opens its dashboard."""

    url: str
    token: str
    set_back: Callable[[float], None]
    """Let the collector's clock be so many seconds behind the system's."""

    @property
    def server(self) -> Server:
        """For requests."""
        return Server(url=self.url, token=self.token)

    def dashboard(self, path: str = "/") -> str:
        """The address that opens the dashboard; what stands behind # is not sent to any server."""
        return f"{self.url}/#token={self.token}" + ("" if path == "/" else f"&to={path}")

    def create(self, campaign: Campaign, **terms: object) -> str | None:
        """The device token of a new campaign, if it needs one."""
        body = {"campaign": json.loads(campaign.canonical_json), "terms": terms}
        token: str | None = self.server.ask("POST", "/v1/campaigns", body)["device_token"]
        return token

    def begin(self, campaign: Campaign) -> str | None:
        """The device token of a new series."""
        body = {"campaign": json.loads(campaign.canonical_json)}
        token: str | None = self.server.ask("POST", "/v1/series", body)["device_token"]
        return token

    def close_round(self, campaign: Campaign) -> None:
        """The only round is over."""
        self.server.ask("POST", f"/v1/campaigns/{campaign.id}/rounds/1/close")

    def report(
        self,
        campaign: Campaign,
        people: Sequence[Held],
        token: str | None,
        advance: Advance,
        relay: RelayStage | None = None,
    ) -> None:
        """One report a person, noised in a pool of processes and uploaded from there."""
        key = None if relay is None else relay.newest_key()
        address = f"{self.url if relay is None else relay.url}/v1/campaigns/{campaign.id}"
        tasks = [
            (campaign, f"{address}/{'reports' if relay is None else 'sealed'}", token, key, some)
            for some in (people[start : start + _TASK] for start in range(0, len(people), _TASK))
        ]
        if len(tasks) == 1:
            advance(_report(tasks[0]))
            return
        with multiprocessing.get_context("spawn").Pool(_WORKERS) as pool:
            for sent in pool.imap_unordered(_report, tasks):
                advance(sent)


@dataclass(frozen=True, slots=True)
class RelayStage:
    """A running relay, whose operator's token is at hand."""

    url: str
    token: str
    collector: Stage

    def newest_key(self) -> bytes:
        """The key to which devices seal, which relay and collector both list."""
        lists = [server.ask("GET", "/v1/keys")["keys"] for server in (self.server, self.collector.server)]
        assert lists[0][0] == lists[1][0], "a relay that has just been started knows the newest key"
        return bytes.fromhex(lists[0][0]["public"])

    @property
    def server(self) -> Server:
        """For requests."""
        return Server(url=self.url, token=self.token)

    def finish(self, campaign: Campaign, reports: int) -> None:
        """The round is over: the last batch goes, and arrives."""
        self.server.ask("POST", f"/v1/campaigns/{campaign.id}/rounds/1/end")
        ends = time.monotonic() + _PATIENCE
        counted = f"/v1/campaigns/{campaign.id}/rounds"
        while self.collector.server.ask("GET", counted)["rounds"][0]["reports"] < reports:
            if time.monotonic() > ends:
                raise TransportError("the relay's last batch did not arrive at the demo's collector")
            time.sleep(0.05)


# A campaign, where its reports go, the token for it, the key to seal to if it is a relay, and people.
_Task = tuple["Campaign", str, "str | None", "bytes | None", Sequence[Held]]


def _report(task: _Task) -> int:
    """A task of the pool: devices, one after the other."""
    from keyveil.client import Reporter, transport

    campaign, address, token, public, people = task
    exchange, device = transport.with_token(token), Reporter(campaign)
    send = partial(transport.send, address, timeout=_PATIENCE, exchange=exchange)
    for start in range(0, len(people), _BATCH):
        batch = [device.report(held) for held in people[start : start + _BATCH]]
        if public is not None:
            from keyveil.sealing import SealingKey

            key = SealingKey(public)
            batch = [key.seal(report, campaign=campaign.id, round=1) for report in batch]
        if not all(send(batch).counts):
            raise TransportError("a report of the demo's was refused")
    return len(people)


@contextmanager
def raised(store: str, port: int | None, *, back: float = 0.0) -> Iterator[Stage]:
    """A collector that runs while the block does, on a clock that is some seconds behind."""
    with _process(_serve, (store, _free(port), back)) as (admin, url, pipe):
        yield Stage(url, _operator(url, admin), pipe.send)


@contextmanager
def relay_raised(store: str, stage: Stage, campaign: Campaign) -> Iterator[RelayStage]:
    """A relay that carries a campaign of a collector's, for as long as the block runs."""
    path = f"/v1/campaigns/{campaign.id}/tokens"
    token = stage.server.ask("POST", path, {"role": "relay"})["token"]
    with _process(_serve_relay, (store, stage.url, token)) as (admin, url, _):
        yield RelayStage(url, _operator(url, admin), stage)


def _operator(url: str, admin: str) -> str:
    token: str = _awake(Server(url=url, token=admin)).ask("POST", "/v1/tokens", {"role": "operator"})["token"]
    return token


@contextmanager
def _process(target: Callable[..., None], given: tuple[object, ...]) -> Iterator[tuple[str, str, Connection]]:
    """A service as a process of its own: the admin token that it made, its address, and a way to it."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=target, args=(*given, theirs), name="keyveil-demo")
    process.start()
    theirs.close()
    try:
        try:
            admin, url = ours.recv(), ours.recv()
        except EOFError:
            raise StoreError("a service of the demo's did not start") from None
        if isinstance(url, Exception):
            raise url
        yield admin, url, ours
    finally:
        ours.close()
        process.join(_PATIENCE)


def _awake(server: Server) -> Server:
    """The server, once it answers: its socket is bound a moment before it listens."""
    ends = time.monotonic() + _PATIENCE
    while True:
        try:
            server.ask("GET", "/healthz")
        except TransportError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.02)
        else:
            return server


def _serve(store: str, port: int, back: float, parent: Connection) -> None:
    try:
        from keyveil.collector.clock import Clock, since_boot
        from keyveil.collector.http.serve import serve
        from keyveil.collector.settings import Settings
    except ModuleNotFoundError as error:
        parent.send(None)
        parent.send(error)
        return
    behind = [back]
    # Both are set back: the clock is as sure of itself as any.
    clock = Clock(lambda: time.time() - behind[0], steady=lambda: since_boot() - behind[0])
    settings = Settings(is_demo=True, tick=_TICK)
    _run(
        partial(serve, store, port=port, settings=settings, clock=clock),
        parent,
        heard=partial(setitem, behind, 0),
    )


def _serve_relay(store: str, collector: str, token: str, parent: Connection) -> None:
    from keyveil.collector.settings import Settings
    from keyveil.relay.serve import serve
    from keyveil.relay.settings import RelaySettings

    _run(
        partial(
            serve,
            store,
            collector=collector,
            token=token,
            port=0,
            settings=Settings(tick=0.1),
            relay_settings=RelaySettings(refresh=0.5),
        ),
        parent,
    )


def _listen(parent: Connection, heard: Callable[[float], None]) -> None:
    """What the demo says. A demo that was killed leaves no collector behind: its pipe closes with it."""
    with suppress(EOFError, OSError):
        while True:
            heard(parent.recv())
    os.kill(os.getpid(), signal.SIGTERM)


def _run(
    serve: Callable[..., None], parent: Connection, *, heard: Callable[[float], None] = lambda _: None
) -> None:
    threading.Thread(target=_listen, args=(parent, heard), daemon=True).start()
    # The log is for operators; here it would stand between the lines of the table.
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        try:
            serve(host=HOST, show_token=parent.send, started=parent.send)
        except StoreError as error:
            parent.send(None)
            parent.send(error)
        except KeyboardInterrupt:
            pass


def _free(port: int | None) -> int:
    """The port that was asked for; else the usual one, or any if that is taken."""
    if port is not None:
        return port
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, USUAL_PORT))
        except OSError:
            return 0
    return USUAL_PORT


# --- what is asked, and who answers ---


def app_campaign(name: str = "minutes per app", purpose: str = "show the path of a datum") -> Campaign:
    """The question that the demo asks."""
    from keyveil.campaign import Campaign
    from keyveil.plan.draft import in_days
    from keyveil.simulate.apps import APPS, LONGEST, USUAL_APPS

    return Campaign(
        name=name,
        epsilon=3.0,
        keys=APPS,
        value_range=(0.0, LONGEST),
        pairs_per_user=USUAL_APPS,
        mechanism="pckv-grr",
        owner="the demo",
        purpose=purpose,
        expires=in_days(_DAYS),
    )


def twin_campaigns(users: int, central: float = 1.0, delta: float = 1e-8) -> tuple[Campaign, Campaign]:
    """One question at one epsilon towards the collector: by local noise alone, and through a relay.

    Nine in ten of the people are a batch, and half of a batch is taken to be honest.
    """
    from dataclasses import replace

    from keyveil.campaign import HONEST
    from keyveil.errors import PlanError
    from keyveil.mechanisms import build
    from keyveil.shuffle import hiding, largest_local

    local = replace(app_campaign("by local noise alone"), mechanism="bucket", epsilon=central, dither=1)
    batch = max(2, 9 * users // 10)
    n_keys, most = len(local.keys), local.pairs_per_user
    epsilon = largest_local(
        lambda epsilon: build("bucket", epsilon, n_keys=n_keys, pairs_per_user=most),
        hiding(batch, HONEST),
        central,
        delta,
    )
    if epsilon is None or epsilon <= central:
        raise PlanError(f"among {users:,} people a relay hides too little; try --users 5000 or more")
    relayed = replace(
        local,
        name="through a relay",
        epsilon=epsilon,
        relay="required",
        batch=batch,
        central_epsilon=central,
        delta=delta,
    )
    return local, relayed


def spread_campaign() -> Campaign:
    """A question about distributions: how long the six most used apps are used."""
    from keyveil.campaign import Campaign
    from keyveil.plan.draft import in_days
    from keyveil.simulate.apps import APPS, LONGEST

    return Campaign(
        name="how long, of those who do",
        epsilon=4.0,
        keys=APPS[:6],
        value_range=(0.0, LONGEST),
        pairs_per_user=1,
        mechanism="ue-sw",
        bins=12,
        owner="the demo",
        purpose="show how values are spread",
        expires=in_days(_DAYS),
    )


def glass_campaign() -> Campaign:
    """A small question that stays open to everybody who visits the glass page."""
    from keyveil.campaign import Campaign
    from keyveil.plan.draft import in_days

    return Campaign(
        name="pieces of fruit this week",
        epsilon=2.0,
        keys=_FRUIT,
        value_range=(0.0, 10.0),
        pairs_per_user=_FRUITS_HELD,
        mechanism="pckv-ue",
        owner="the demo",
        purpose="let a visitor see what leaves a device",
        expires=in_days(_DAYS),
    )


def week_after(users: int) -> list[dict[str, float]]:
    """People like the demo's, of whom fewer sent messages and more played chess: something to find."""
    from keyveil.simulate.apps import app_minutes

    people = app_minutes(users)
    for place, held in enumerate(people):
        if place % 3 == 0:
            held.pop("messages", None)
        if place % 12 == 0 and len(held) < 3:
            held["chess"] = 40.0
    return people


def fruit_eaters(users: int, seed: int = 7) -> list[dict[str, float]]:
    """People for the glass campaign, so that a visitor is not the first."""
    from keyveil.simulate.population import insecure_generator

    rng = insecure_generator(seed)
    share = [0.7, 0.55, 0.3, 0.05, 0.08, 0.15, 0.35, 0.1]
    eaten = [5.0, 4.0, 8.0, 1.0, 2.0, 3.0, 7.0, 2.0]
    people = []
    for _ in range(users):
        held = {
            name: min(10.0, float(rng.gamma(4.0, mean / 4.0)))
            for name, chance, mean in zip(_FRUIT, share, eaten, strict=True)
            if rng.random() < chance
        }
        people.append(dict(list(held.items())[:_FRUITS_HELD]))
    return people
