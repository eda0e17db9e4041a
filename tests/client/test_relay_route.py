"""Through a relay: one way a campaign, sealed once, to a key that both list, and never past the relay."""

import json
import random
import sqlite3
import sys
from dataclasses import replace

import pytest
from devices import cheap_round, make_campaign

from keyveil.client import Code, Limits, Reporter, courier, sealer
from keyveil.client.answer import HttpAnswer
from keyveil.client.ledger import Ledger
from keyveil.client.status import look
from keyveil.client.transport import is_same_place
from keyveil.errors import MissingPackage, TransportError
from keyveil.report import read_frames
from keyveil.sealing import SEALED_OVERHEAD, SUITE, OpeningKey, SealedHeader

HELD = {"app-1": 30.0, "app-2": 5.0}
RELAY, COLLECTOR = "https://relay.example", "https://collector.example"
FIRST, SECOND, FOREIGN = (OpeningKey(bytes([number]) * 32) for number in (1, 2, 3))
NOW = 1_800_000_000.0


def listed(*keys, suite=SUITE):
    said = [{"id": key.id.hex(), "public": key.public.hex(), "made_at": 0.0} for key in keys]
    return json.dumps({"suite": suite, "keys": said}).encode()


class World:
    """A relay and a collector behind one exchange, which remembers who was asked what."""

    def __init__(self):
        self.asked, self.bodies = [], []
        self.keys = {RELAY: listed(FIRST), COLLECTOR: listed(FIRST)}
        self.taken = {FIRST.id}
        self.unknown = set()
        self.script = []
        self.view = {}

    def __call__(self, url, body, timeout, largest):
        self.asked.append(url)
        host = next((base for base in (RELAY, COLLECTOR) if url.startswith(base)), None)
        assert host, url
        if url.endswith("/v1/keys"):
            assert body is None
            said = self.keys[host]
            return said if isinstance(said, HttpAnswer) else HttpAnswer(status=200, body=said)
        if body is None:
            return HttpAnswer(status=200, body=json.dumps(self.view).encode())
        reports = list(read_frames(body))
        self.bodies.append(reports)
        if self.script:
            said = self.script.pop(0)
            if isinstance(said, Exception):
                raise said
            return said
        known = [url.endswith("/reports") or SealedHeader.read(one).key in self.taken for one in reports]
        statuses = ["accepted" if takes else "unknown-key" for takes in known]
        self.unknown |= {one for one, takes in zip(reports, known, strict=True) if not takes}
        return HttpAnswer(status=200, body=json.dumps({"reports": statuses}).encode())

    @property
    def hosts(self):
        """Who was sent reports."""
        return {url.split("/v1/")[0] for url in self.asked if url.endswith(("/sealed", "/reports"))}


@pytest.fixture
def world():
    return World()


def relayed_campaign(**changes):
    return make_campaign(**({"relay": "required", "batch": 10} | changes))


@pytest.fixture
def device(tmp_path, world):
    """Makes reporters on one ledger; every request ends in `world`."""
    clock = {"at": NOW}

    def make(campaign=None, **changes):
        made = Reporter(
            campaign or relayed_campaign(),
            ledger=tmp_path / "device.db",
            clock=lambda: clock["at"],
            **({"relay": RELAY, "collector": COLLECTOR, "exchange": world} | changes),
        )
        assert made.enable()
        return made

    make.clock = clock
    return make


def later(device):
    """Long after every wait."""
    device.clock["at"] += 100_000


def opened(sealed, key=FIRST, campaign=None, round=1):
    return key.open(sealed, campaign=(campaign or relayed_campaign()).id, round=round)


# --- what a relay gets ---


def test_a_relay_gets_the_report_sealed_and_the_collector_gets_nothing(device, world):
    one = device()
    assert one.submit(HELD)
    assert one.upload()
    ((sealed,),) = world.bodies
    assert opened(sealed) == one.report(HELD)
    assert len(sealed) == relayed_campaign().only_round().report_bytes + SEALED_OVERHEAD
    assert world.asked == [
        f"{RELAY}/v1/keys",
        f"{COLLECTOR}/v1/keys",
        f"{RELAY}/v1/campaigns/{relayed_campaign().id}/sealed",
    ]
    status = one.status()
    assert (status.traffic.sent, status.traffic.waiting, status.route) == (1, 0, "relay")


def test_with_a_key_that_was_shipped_nobody_is_asked_for_keys(device, world):
    one = device(sealing_key=SECOND.public.hex(), collector=None)
    world.taken = {SECOND.id}
    one.submit(HELD)
    assert one.upload()
    assert world.asked == [f"{RELAY}/v1/campaigns/{relayed_campaign().id}/sealed"]
    assert opened(world.bodies[0][0], SECOND) == one.report(HELD)


def test_each_round_is_sealed_for_itself(device, world):
    campaign = relayed_campaign(epsilon=32.0)
    one = device(campaign)
    said = {number: one.report(HELD, cheap_round(campaign, number)) for number in (1, 2, 300)}
    for number in said:
        one.submit(HELD, cheap_round(campaign, number))
    assert one.upload()
    for sealed in world.bodies[0]:
        number = SealedHeader.read(sealed).round
        assert opened(sealed, campaign=campaign, round=number) == said.pop(number)
    assert not said


def test_a_relay_is_shown_no_token(tmp_path, monkeypatch):
    seen = []

    def exchange(url, body, timeout, largest, *, token=None):
        seen.append((url, token))
        if url.endswith("/v1/keys"):
            return HttpAnswer(status=200, body=listed(FIRST))
        return HttpAnswer(status=200, body=b'{"reports":["accepted"]}')

    monkeypatch.setattr("keyveil.client.transport.exchange", exchange)
    one = Reporter(
        relayed_campaign(), ledger=tmp_path / "d.db", relay=RELAY, collector=COLLECTOR, token="secret"
    )
    one.enable()
    one.submit(HELD)
    assert one.upload()
    assert len(seen) == 3
    assert {token for _, token in seen} == {None}


# --- which way ---


def test_a_campaign_that_requires_a_relay_never_goes_directly(device, world):
    one = device(relay=None)
    one.submit(HELD)
    for _ in range(3):
        assert one.upload().code is Code.RELAY_REQUIRED
        assert one.flush(0.2).code is Code.RELAY_REQUIRED
    assert one.close(0.2).code is Code.RELAY_REQUIRED
    assert world.asked == []
    assert one.status().traffic.waiting == 1
    assert device().upload()
    assert world.hosts == {RELAY}


@pytest.mark.parametrize(
    "failure",
    [
        TransportError("no answer"),
        HttpAnswer(status=404),
        HttpAnswer(status=409),
        HttpAnswer(status=503, retry_after=1.0),
        HttpAnswer(status=200, body=b"<html>"),
        HttpAnswer(status=302),
    ],
)
def test_no_failure_of_the_relay_sends_a_report_to_the_collector(device, world, failure):
    one = device()
    one.submit(HELD)
    for _ in range(4):
        world.script = [failure]
        assert not one.upload()
        later(device)
    assert one.status().traffic.waiting == 1
    assert world.hosts == {RELAY}
    assert one.upload()
    assert len({sealed for reports in world.bodies for sealed in reports}) == 1


@pytest.mark.parametrize(("relay", "host"), [(None, COLLECTOR), (RELAY, RELAY)])
def test_where_a_relay_is_allowed_the_application_chooses(device, world, relay, host):
    one = device(relayed_campaign(relay="allowed"), relay=relay)
    one.submit(HELD)
    assert one.upload()
    assert world.hosts == {host}
    assert one.status().route == ("direct" if relay is None else "relay")


def test_a_campaign_without_relays_takes_none(device, world):
    one = device(make_campaign())
    one.submit(HELD)
    assert one.upload().code is Code.NOT_RELAYED
    assert world.asked == []
    assert one.status().traffic.waiting == 1


@pytest.mark.parametrize("first", [None, RELAY])
def test_the_other_way_is_refused_for_good(device, world, first):
    allowed, other = relayed_campaign(relay="allowed"), RELAY if first is None else None
    one, two = device(allowed, relay=first), device(allowed, relay=other)
    one.submit(HELD)
    assert one.upload()
    assert two.upload().code is Code.OTHER_ROUTE
    one.disable()
    two.enable()
    later(device)
    assert two.upload().code is Code.OTHER_ROUTE
    assert len(world.hosts) == 1
    # Another campaign of the same device is free.
    fresh = device(replace(allowed, name="another"), relay=other)
    fresh.submit(HELD)
    assert fresh.upload()


@pytest.mark.parametrize("first", [None, RELAY])
def test_the_way_is_on_disk_before_the_first_attempt(device, world, tmp_path, first):
    """An attempt that nobody answered may have arrived."""
    allowed = relayed_campaign(relay="allowed")
    one = device(allowed, relay=first)
    one.submit(HELD)
    met = []

    def exchange(url, body, timeout, largest):
        if not url.endswith("/v1/keys"):
            met.append(Ledger(tmp_path / "device.db"))
            with met[-1].transaction() as account:
                met.append(account.connection.execute("select way from route").fetchone()[0])
            raise TransportError("cut")
        return world(url, body, timeout, largest)

    assert device(allowed, relay=first, exchange=exchange).upload().code is Code.WAITING
    assert met[1] == ("direct" if first is None else "relay")
    later(device)
    assert device(allowed, relay=RELAY if first is None else None).upload().code is Code.OTHER_ROUTE


def test_a_request_for_keys_alone_takes_no_way(device, world):
    world.keys[RELAY] = HttpAnswer(status=503)
    allowed = relayed_campaign(relay="allowed")
    one = device(allowed)
    one.submit(HELD)
    assert one.upload().code is Code.WAITING
    assert one.status().route is None
    later(device)
    assert device(allowed, relay=None).upload()
    assert world.hosts == {COLLECTOR}


def test_the_same_bytes_may_go_to_another_relay(device, world):
    one = device()
    one.submit(HELD)
    world.script = [TransportError("no answer")]
    assert not one.upload()
    later(device)
    assert device(relay=COLLECTOR, collector=RELAY).upload()
    assert world.asked[-1].startswith(COLLECTOR)
    assert world.bodies[0] == world.bodies[1]


def test_a_way_that_makes_no_sense_is_not_believed(device, tmp_path):
    one = device()
    one.submit(HELD)
    with sqlite3.connect(tmp_path / "device.db") as connection:
        connection.execute("update route set way = 'both'")
    connection.close()
    assert one.upload().code is Code.LEDGER_CORRUPT


# --- sealed once ---


def test_a_report_is_sealed_once_and_repeated_so(device, world):
    one = device()
    one.submit(HELD)
    for failure in (TransportError("cut"), HttpAnswer(status=503), HttpAnswer(status=200, body=b"")):
        world.script = [failure]
        assert not device().upload()
        later(device)
    assert device().upload()
    for _ in range(3):
        again = device()
        assert again.submit({"app-3": 1.0}).is_repeat
        assert again.upload()
    assert len(world.bodies) == 7
    assert len({sealed for reports in world.bodies for sealed in reports}) == 1


def test_another_key_of_the_collector_changes_nothing_of_what_is_sealed(device, world):
    one = device()
    one.submit(HELD)
    world.script = [TransportError("cut")]
    assert not one.upload()
    world.keys = dict.fromkeys((RELAY, COLLECTOR), listed(SECOND, FIRST))
    later(device)
    assert device().upload()
    assert world.bodies[0] == world.bodies[1]


def test_what_was_sealed_is_wiped_with_the_answer(device, world, tmp_path):
    one, other = device(), device(relayed_campaign(name="other"))
    for each in (one, other):
        each.submit(HELD)
    assert one.upload()
    world.script = [TransportError("cut")]
    assert not other.upload()
    sealed = [report for reports in world.bodies for report in reports]
    assert len(sealed) == 2
    assert all(each in (tmp_path / "device.db").read_bytes() for each in sealed)
    assert one.disable()
    on_disk = (tmp_path / "device.db").read_bytes()
    assert not any(each[11:43] in on_disk for each in sealed)


def test_two_processes_that_seal_at_once_send_the_same_bytes(device, world):
    one = device()
    one.submit(HELD)
    raced = []

    def exchange(url, body, timeout, largest):
        # While this one waits for a key the other seals and sends.
        if url == f"{COLLECTOR}/v1/keys" and not raced:
            raced.append(True)
            world.script = [TransportError("cut")]
            assert not device().upload()
            later(device)
        return world(url, body, timeout, largest)

    assert device(exchange=exchange).upload()
    assert len(world.bodies) == 2
    assert world.bodies[0] == world.bodies[1]


def test_what_another_process_settled_meanwhile_is_not_sent_sealed_anew(device, world):
    one = device()
    one.submit(HELD)
    raced = []

    def exchange(url, body, timeout, largest):
        if url == f"{COLLECTOR}/v1/keys" and not raced:
            raced.append(True)
            assert device().upload()
        return world(url, body, timeout, largest)

    assert device(exchange=exchange).upload()
    assert len(world.bodies) == len(world.bodies[0]) == 1


def test_a_no_while_keys_are_asked_for_sends_nothing(device, world):
    one = device()
    one.submit(HELD)

    def exchange(url, body, timeout, largest):
        one.disable()
        return world(url, body, timeout, largest)

    two = Reporter(
        relayed_campaign(),
        ledger=one._book().path,
        relay=RELAY,
        collector=COLLECTOR,
        exchange=exchange,
        clock=lambda: NOW,
    )
    assert two.upload().code is Code.DISABLED
    assert world.bodies == []


def test_what_is_sealed_takes_room_too(device, world):
    campaign = relayed_campaign(epsilon=32.0)
    one, size = device(campaign), relayed_campaign().only_round().report_bytes
    one.submit(HELD, cheap_round(campaign, 1))
    world.script = [TransportError("cut")]
    assert not one.upload()
    for room, waiting in ((3 * size + SEALED_OVERHEAD, 2), (3 * size + SEALED_OVERHEAD - 1, 1)):
        short = device(campaign, limits=Limits(bytes=room))
        short.submit(HELD, cheap_round(campaign, 2))
        assert short.status().traffic.waiting == waiting


# --- keys ---


def test_the_newest_key_that_both_list_is_taken(device, world):
    world.keys = {RELAY: listed(FOREIGN, FIRST), COLLECTOR: listed(SECOND, FIRST)}
    one = device()
    one.submit(HELD)
    assert one.upload()
    assert opened(world.bodies[0][0], FIRST)


@pytest.mark.parametrize(
    ("at_relay", "at_collector"),
    [
        (listed(FOREIGN), listed(FIRST)),
        (listed(FIRST), listed(FOREIGN)),
        (listed(), listed(FIRST)),
        (listed(FIRST), listed()),
        (listed(FIRST, suite="x448"), listed(FIRST)),
        (listed(FIRST), listed(FIRST, suite=None)),
        (listed(FIRST), json.dumps({"suite": SUITE, "keys": [{"public": "ab"}]}).encode()),
    ],
)
def test_neither_a_relay_nor_a_collector_alone_can_name_a_key(device, world, at_relay, at_collector):
    world.keys = {RELAY: at_relay, COLLECTOR: at_collector}
    one = device()
    one.submit(HELD)
    assert one.upload().code is Code.KEYS_DIFFER
    assert one.upload().code is Code.WAITING
    assert world.bodies == []
    world.keys = dict.fromkeys((RELAY, COLLECTOR), listed(FIRST))
    later(device)
    assert one.upload()


@pytest.mark.parametrize(
    "said", [b"", b"[]", b"{}", b'{"suite":1}', b'{"suite":"x","keys":[{}]}', b"[" * 9000]
)
@pytest.mark.parametrize("host", [RELAY, COLLECTOR])
def test_what_is_no_list_of_keys_is_asked_for_later(device, world, said, host):
    world.keys[host] = said
    one = device()
    one.submit(HELD)
    assert one.upload().code is Code.WAITING
    assert one.status().traffic.waiting == 1


def test_a_point_that_nobody_can_seal_to_is_refused(device, world):
    bad = json.dumps({"suite": SUITE, "keys": [{"public": "00" * 32}]}).encode()
    world.keys = dict.fromkeys((RELAY, COLLECTOR), bad)
    one = device()
    one.submit(HELD)
    assert one.upload().code is Code.KEYS_DIFFER


@pytest.mark.parametrize(
    "collector", [None, RELAY, f"{RELAY.upper()}:443/", "HTTPS://relay.example/collector"]
)
def test_a_relay_s_word_alone_is_not_taken_for_a_key(device, world, collector):
    one = device(collector=collector)
    one.submit(HELD)
    assert one.upload().code is Code.NO_COLLECTOR
    assert world.asked == []


def test_keys_are_kept_for_some_minutes(world):
    seconds = {"at": 0.0}
    kept = sealer.Sealer(
        relayed_campaign().id,
        relay=RELAY,
        collector=COLLECTOR,
        exchange=world,
        clock=lambda: seconds["at"],
    )
    report = Reporter(relayed_campaign()).report(HELD)
    for at, asked in ((0.0, 2), (200.0, 2), (301.0, 4), (302.0, 4)):
        seconds["at"] = at
        kept.seal([report], timeout=1.0)
        assert len(world.asked) == asked
    kept.ask_anew()
    kept.seal([report], timeout=1.0)
    assert len(world.asked) == 6


def test_a_retired_key_is_left_for_the_next(device, world):
    one = device()
    one.submit(HELD)
    world.script = [TransportError("cut")]
    assert not one.upload()
    world.keys, world.taken = dict.fromkeys((RELAY, COLLECTOR), listed(SECOND)), {SECOND.id}
    later(device)
    receipt = one.upload()
    assert (receipt.code, one.status().traffic.waiting) == (Code.WAITING, 1)
    assert "sealed anew" in receipt.detail
    later(device)
    assert one.upload()
    (first,), (same,), (anew,) = world.bodies
    assert first == same
    assert opened(first, FIRST) == opened(anew, SECOND) == one.report(HELD)
    # And so from now on.
    one.submit(HELD)
    assert device().upload()
    assert world.bodies[-1] == [anew]


def test_a_relay_that_knows_no_key_at_all_is_not_asked_without_end(device, world):
    world.taken = set()
    one = device()
    one.submit(HELD)
    assert one.upload().code is Code.WAITING
    waits = []
    for _ in range(8):
        later(device)
        assert one.upload().code is Code.WAITING
        waits.append(one.status().traffic.failures)
    assert waits == list(range(2, 10))
    assert len(world.bodies) == 9


def test_a_key_that_was_shipped_and_is_retired_waits_for_the_next_application(device, world):
    one = device(sealing_key=FIRST.public.hex())
    one.submit(HELD)
    world.taken = {SECOND.id}
    receipt = one.upload()
    assert receipt.code is Code.KEYS_DIFFER
    assert FIRST.id.hex() in receipt.detail
    later(device)
    assert one.upload().code is Code.KEYS_DIFFER
    # The same bytes: sealed again to the same key they would be no more use.
    assert world.bodies[0] == world.bodies[1]
    later(device)
    updated = device(sealing_key=SECOND.public.hex())
    assert updated.upload().code is Code.WAITING
    later(device)
    assert updated.upload()
    assert opened(world.bodies[-1][0], SECOND) == one.report(HELD)


def test_of_a_batch_those_with_a_retired_key_wait_and_the_others_are_settled(device, world):
    campaign = relayed_campaign(epsilon=32.0)
    one = device(campaign)
    one.submit(HELD, cheap_round(campaign, 1))
    world.script = [TransportError("cut")]
    assert not one.upload()
    later(device)
    world.keys, world.taken = dict.fromkeys((RELAY, COLLECTOR), listed(SECOND)), {SECOND.id}
    two = device(campaign)
    two.submit(HELD, cheap_round(campaign, 2))
    world.script = [HttpAnswer(status=200, body=b'{"reports":["unknown-key","wrong-round"]}')]
    assert two.upload().code is Code.WAITING
    traffic = two.status().traffic
    assert (traffic.waiting, traffic.sent, traffic.refused) == (1, 0, 1)
    later(device)
    assert two.upload()
    assert SealedHeader.read(world.bodies[-1][0]) == SealedHeader(SECOND.id, 1)


def test_unknown_key_of_a_collector_is_a_refusal_like_any(device, world):
    one = device(relayed_campaign(relay="allowed"), relay=None)
    one.submit(HELD)
    world.script = [HttpAnswer(status=200, body=b'{"reports":["unknown-key"]}')]
    assert one.upload()
    assert (one.status().traffic.refused, one.status().traffic.waiting) == (1, 0)


# --- what is missing ---


def test_without_the_package_reports_wait_and_no_way_is_taken(device, world, monkeypatch):
    one = device()
    one.submit(HELD)

    def refuse():
        raise MissingPackage("pip install 'keyveil[sealed]'", name="cryptography", code="no-sealing")

    monkeypatch.setattr(sealer, "require_sealing", refuse)
    receipt = one.upload()
    assert receipt.code is Code.NO_SEALING
    assert "keyveil[sealed]" in receipt.detail
    assert (one.status().traffic.waiting, one.status().route, world.asked) == (1, None, [])
    monkeypatch.undo()
    assert one.upload()


def test_an_import_that_fails_has_its_code(monkeypatch):
    from keyveil import sealing

    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    sealing._hpke.cache_clear()
    try:
        with pytest.raises(MissingPackage) as refusal:
            sealing.require_sealing()
    finally:
        sealing._hpke.cache_clear()
    assert refusal.value.code == "no-sealing"


@pytest.mark.parametrize("digits", ["", "ab", "ab" * 31, "g" * 64, "ab" * 33, " " + "ab" * 32])
def test_what_is_no_sealing_key_is_a_mistake_of_the_application(digits):
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        Reporter(relayed_campaign(), sealing_key=digits)


# --- descriptions ---


@pytest.mark.parametrize("base", [RELAY, f"{RELAY}:443"])
def test_a_description_from_the_relay_makes_it_no_collector(tmp_path, world, base):
    campaign = relayed_campaign()
    said = campaign.device_config() | {"campaign": campaign.id}
    world.view = {"campaign": campaign.canonical_json, "round": said, "ids": "own"}
    url, ledger = f"{base}/v1/campaigns/{campaign.id}", tmp_path / "device.db"
    shipped = Reporter.connect(
        url, ledger=ledger, relay=RELAY, exchange=world, sealing_key=FIRST.public.hex()
    )
    shipped.enable()
    shipped.submit(HELD)
    assert (
        Reporter.connect(url, ledger=ledger, relay=RELAY, exchange=world).upload().code is Code.NO_COLLECTOR
    )
    assert shipped.upload()
    assert all(asked.startswith(RELAY) for asked in world.asked)


def test_a_description_from_the_collector_names_the_collector(tmp_path, world):
    campaign = relayed_campaign()
    said = campaign.device_config() | {"campaign": campaign.id}
    world.view = {"campaign": campaign.canonical_json, "round": said, "ids": "own"}
    one = Reporter.connect(
        f"{COLLECTOR}/v1/campaigns/{campaign.id}", ledger=tmp_path / "d.db", relay=RELAY, exchange=world
    )
    one.enable()
    one.submit(HELD)
    assert one.upload()
    assert world.hosts == {RELAY}


@pytest.mark.parametrize("said", ["issued", "own", None])
def test_no_word_of_a_collector_s_makes_a_relayed_report_carry_an_id_of_its_choice(tmp_path, world, said):
    campaign = relayed_campaign()
    described = campaign.device_config() | {"campaign": campaign.id}
    world.view = {"campaign": campaign.canonical_json, "round": described, "ids": said}
    one = Reporter.connect(
        f"{COLLECTOR}/v1/campaigns/{campaign.id}", ledger=tmp_path / "d.db", relay=RELAY, exchange=world
    )
    one.enable()
    assert one.submit(HELD)
    assert not [asked for asked in world.asked if "/ids" in asked]


# --- any history ---

WAYS = (
    {"relay": None},
    {"relay": RELAY},
    {"relay": RELAY, "collector": None, "sealing_key": FIRST.public.hex()},
    {"relay": RELAY, "sealing_key": SECOND.public.hex()},
)
FAILURES = (
    TransportError("cut"),
    HttpAnswer(status=404),
    HttpAnswer(status=413),
    HttpAnswer(status=503),
    HttpAnswer(status=200, body=b"[]"),
)


@pytest.mark.parametrize("seed", range(60))
def test_in_no_history_is_there_another_way_or_a_second_seal_without_need(device, world, hurried, seed):
    """Hostile relays and collectors choose failures and keys, applications their way, the person a no."""
    rng, keys = random.Random(seed), (FIRST, SECOND, FOREIGN)
    campaign = relayed_campaign(relay=rng.choice(["allowed", "required"]), epsilon=32.0)
    for _ in range(20):
        one = device(campaign, **rng.choice(WAYS))
        match rng.randrange(8):
            case 0 | 1:
                one.submit(HELD, cheap_round(campaign, rng.randint(1, 3)))
            case 2:
                world.keys = {host: listed(*rng.sample(keys, 2)) for host in (RELAY, COLLECTOR)}
                world.taken = {key.id for key in rng.sample(keys, 2)}
            case 3 if rng.random() < 0.3:
                one.disable()
            case _:
                world.script = [rng.choice(FAILURES)] if rng.random() < 0.5 else []
                one.upload()
                later(device)
    assert len(world.hosts) <= 1
    assert campaign.relay == "allowed" or COLLECTOR not in world.hosts
    if RELAY not in world.hosts:
        return
    by_id = {key.id: key for key in keys}
    seals = {}
    for sealed in {sealed for reports in world.bodies for sealed in reports}:
        header = SealedHeader.read(sealed)
        said = by_id[header.key].open(sealed, campaign=campaign.id, round=header.round)
        seals.setdefault(said, set()).add(sealed)
    # Of one report at most one is sealed to a key that was not refused.
    assert all(len(ways - world.unknown) <= 1 for ways in seals.values())
    assert len(seals) <= 3


# --- what is said of it ---


def test_status_says_the_way(device, world, tmp_path):
    one = device()
    one.submit(HELD)
    assert one.status().route is None
    assert one.upload()
    (told,) = look(tmp_path / "device.db")["campaigns"]
    assert told["route"] == "relay"


def test_explain_says_the_way(device):
    assert "through a relay" in device().explain(HELD)
    assert "shuffled batches of at least 10 " in device().explain(HELD)
    assert "to the collector directly" in device(relayed_campaign(relay="allowed"), relay=None).explain(HELD)
    assert "relay" not in device(make_campaign(), relay=None).explain(HELD)


def test_the_same_place_is_the_same_host_and_port():
    assert is_same_place("http://127.0.0.1:8001", "http://127.0.0.1:8001/x")
    assert not is_same_place("http://127.0.0.1:8001", "http://127.0.0.1:8002")


def test_every_way_has_words():
    with pytest.raises(TransportError, match="a relay"):
        courier.Addresses(relay="nowhere").route(relayed_campaign())
