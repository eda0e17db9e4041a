"""A collector that is slow on purpose (A3, A4): calls end when they said, and the ledger stays free."""

import ipaddress
import socket
import ssl
import threading
import time
import tracemalloc
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from devices import make_campaign

from keyveil.client import Code, Reporter, fetch_round, issued_ids
from keyveil.client.transport import exchange
from keyveil.errors import KeyveilError, TransportError

HELD = {"app-1": 30.0}
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n"
# The head of a TLS record of 16 KB, of which the rest takes an hour.
RECORD = b"\x16\x03\x03\x40\x00\x02"


@contextmanager
def serving(answer):
    """A server on the loopback that leaves every connection to `answer`; its port."""
    server = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def serve():
        while not over.is_set():
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    def talk(connection):
        with connection, suppress(OSError):
            answer(connection, over)

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield server.getsockname()[1]
    finally:
        over.set()
        server.close()


def dripping(at_once, drip):
    """Sends the one at once and the other byte by byte, five a second, for as long as anybody listens."""

    def answer(connection, over):
        connection.recv(65536)
        connection.sendall(at_once)
        while not over.wait(0.2):
            connection.sendall(drip)

    return answer


def requests_under_way():
    return [thread for thread in threading.enumerate() if thread.name == "keyveil-request"]


def wait_until(holds, seconds):
    ends = time.monotonic() + seconds
    while not holds() and time.monotonic() < ends:
        time.sleep(0.01)
    return holds()


@pytest.mark.parametrize(
    ("scheme", "at_once", "drip"),
    [
        ("http", HEAD + b"{", b" "),
        ("http", b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x"),
        ("http", b"", b"H"),
        ("http", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        ("http", b"", b""),
        ("https", RECORD, b"\0"),
    ],
    ids=["body", "headers", "status", "chunks", "silence", "handshake"],
)
def test_a_dripping_collector_holds_an_upload_no_longer_than_its_timeout(tmp_path, scheme, at_once, drip):
    """A3: each read was short, so `upload(timeout=1)` lasted over 25 s."""
    with serving(dripping(at_once, drip)) as port:
        reporter = Reporter(
            make_campaign(), ledger=tmp_path / "device.db", collector=f"{scheme}://127.0.0.1:{port}"
        )
        reporter.enable()
        reporter.submit(HELD)
        started = time.monotonic()
        receipt = reporter.upload(timeout=1.0)
        lasted = time.monotonic() - started
        assert receipt.code is Code.WAITING
        assert lasted < 1.5
        # The thread behind it is gone too, though the collector still drips.
        assert wait_until(lambda: not requests_under_way(), 0.5)
    assert reporter.status().traffic.waiting == 1


def own_certificate(folder):
    """A certificate for 127.0.0.1 by nobody but itself: the files of it and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    here, now = x509.IPAddress(ipaddress.ip_address("127.0.0.1")), datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([here]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, private = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "certificate.pem").write_bytes(made.public_bytes(pem))
    (folder / "key.pem").write_bytes(key.private_bytes(pem, private, serialization.NoEncryption()))
    return folder / "certificate.pem", folder / "key.pem"


def test_a_collector_that_drips_through_tls_is_cut_off_too(tmp_path, monkeypatch):
    """TLS takes the socket over; what cuts the line must still reach it."""
    certificate, key = own_certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    heard = threading.Event()

    def answer(connection, over):
        with context.wrap_socket(connection, server_side=True) as hidden:
            heard.set()
            dripping(HEAD + b"{", b" ")(hidden, over)

    with serving(answer) as port:
        started = time.monotonic()
        with pytest.raises(TransportError, match="no answer"):
            exchange(f"https://127.0.0.1:{port}/", None, 1.0, 1000)
        assert heard.is_set()
        assert 0.9 < time.monotonic() - started < 5
        assert wait_until(lambda: not requests_under_way(), 0.5)


def test_a_no_comes_through_while_an_id_is_waited_for_and_the_answer_is_then_not_made(tmp_path):
    """A3: an issued id was fetched inside the ledger's lock, so that `disable()` failed meanwhile."""
    asked, may_go = threading.Event(), threading.Event()

    def answer(connection, _):
        connection.recv(65536)
        asked.set()
        may_go.wait(10)
        body = b'{"ids": ["' + b"ab" * 16 + b'"]}'
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    campaign, path, receipts = make_campaign(), tmp_path / "device.db", []
    with serving(answer) as port:
        url = f"http://127.0.0.1:{port}/v1/campaigns/{campaign.id}"
        reporter = Reporter(campaign, ledger=path, ids=issued_ids(url, token="t"))
        reporter.enable()
        thread = threading.Thread(target=lambda: receipts.append(reporter.submit(HELD)))
        thread.start()
        assert asked.wait(5)
        started = time.monotonic()
        receipt = Reporter(campaign, ledger=path).disable()
        lasted = time.monotonic() - started
        may_go.set()
        thread.join(10)
    assert receipt
    assert lasted < 0.5
    assert [each.code for each in receipts] == [Code.DISABLED]
    assert (reporter.status().answers, reporter.status().traffic.waiting) == (0, 0)


def test_an_id_is_asked_for_only_if_it_is_needed(tmp_path):
    campaign, asked = make_campaign(), []

    def ids():
        asked.append(1)
        return bytes(16)

    reporter = Reporter(campaign, ledger=tmp_path / "device.db", ids=ids)
    one = reporter.report(HELD)
    assert [reporter.report(HELD) for _ in range(3)] == [one] * 3
    for refused in (make_campaign(epsilon=5.0), make_campaign(expires="2001-01-01")):
        with pytest.raises(KeyveilError):
            Reporter(refused, ledger=tmp_path / "device.db", ids=ids).report(HELD)
    reporter.disable()
    with pytest.raises(KeyveilError):
        reporter.report(HELD)
    assert len(asked) == 1


@pytest.mark.parametrize("hangs", [False, True])
def test_an_id_that_does_not_come_is_a_refusal_in_time(tmp_path, hangs):
    def answer(connection, over):
        connection.recv(65536)
        if hangs:
            over.wait(10)
        connection.sendall(b"HTTP/1.1 429 No\r\nContent-Length: 0\r\n\r\n")

    campaign = make_campaign()
    with serving(answer) as port:
        url = f"http://127.0.0.1:{port}/v1/campaigns/{campaign.id}"
        reporter = Reporter(campaign, ledger=tmp_path / "device.db", ids=issued_ids(url, timeout=0.3))
        reporter.enable()
        started = time.monotonic()
        receipt = reporter.submit(HELD)
        assert time.monotonic() - started < 5
    assert receipt.code is Code.NO_ID
    assert reporter.status().answers == 0


def test_an_answer_of_60_megabytes_is_refused_in_little_memory():
    """A4: it took gigabytes and seconds."""
    campaign, line = make_campaign(), b" " * 65536

    def answer(connection, over):
        connection.recv(65536)
        connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 60000000\r\n\r\n{"campaign": "')
        for _ in range(60_000_000 // len(line)):
            connection.sendall(line)

    with serving(answer) as port:
        url = f"http://127.0.0.1:{port}/v1/campaigns/{campaign.id}"
        tracemalloc.start()
        try:
            with pytest.raises(KeyveilError) as refusal:
                fetch_round(url)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert refusal.value.code == "bad-description"
    assert peak < 16 << 20


def test_an_answer_may_be_as_long_as_there_is_to_say_and_no_longer():
    def answer(connection, _):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + b" " * 1000)

    with serving(answer) as port:
        url = f"http://127.0.0.1:{port}/"
        assert [len(exchange(url, None, 5.0, largest).body) for largest in (999, 1000)] == [0, 1000]


# --- descriptions that are meant to keep a device busy ---


def hostile():
    """Descriptions that took seconds, gigabytes or a foreign error (A4), and some of their kin."""
    campaign = make_campaign()
    whole, text = campaign.device_config(), campaign.canonical_json
    before, after = text.split('"keys":[', 1)
    after = after.split("]", 1)[1]

    def keyed(keys):
        return {"campaign": f'{before}"keys":[{keys}]{after}'}

    yield "long exponent", whole | {"group": ["1e-400000000", "1"]}
    yield "long fraction", whole | {"group": ["0", "1/" + "9" * 10**6]}
    yield "deep lists", whole | {"campaign": "[" * 10**5}
    yield "deep tables", whole | {"campaign": '{"a":' * 10**5}
    yield "deep keys", whole | keyed("[" * 10**5 + "]" * 10**5)
    yield "the end of time", whole | {"campaign": text.replace('"expires":""', '"expires":"9999-12-31"')}
    yield "100,000 keys", whole | keyed(",".join(f'"{code}"' for code in range(100_000)))
    yield "many lists", whole | keyed(",".join(["[]"] * 300_000))
    yield "many tables", whole | keyed(",".join(["{}"] * 300_000))
    yield "many words", whole | keyed(",".join(['"ab"'] * 200_000))
    yield "a long number", whole | {"campaign": text.replace('"epsilon":1.0', '"epsilon":' + "9" * 10**6)}
    yield "a long text", whole | {"campaign": text.replace('"name":"apps"', f'"name":"{"a" * (1 << 20)}"')}
    yield "half a letter", whole | {"campaign": text.replace('"name":"apps"', '"name":"\ud800"')}
    yield "many codes", whole | {"keys": list(range(10**6))}
    yield "a huge code", whole | {"keys": [10**4000]}
    yield "many bins", whole | {"mechanism": {"id": "levels", "epsilon": "1", "bins": 10**9}}
    yield (
        "many levels",
        whole
        | {
            "mechanism": {
                "id": "privkv-broadcast",
                "key_epsilon": "1",
                "sign_epsilon": "1",
                "levels": ["1"] * 10**6,
            }
        },
    )
    yield "a budget", whole | {"mechanism": {"id": "kvue", "epsilon": "1e99999999"}}


@pytest.mark.parametrize(("name", "description"), [pytest.param(*case, id=case[0]) for case in hostile()])
def test_what_is_meant_to_keep_a_device_busy_is_refused_within_50_ms_and_16_mb(name, description):
    spent = []
    for _ in range(3):
        started = time.thread_time()
        with pytest.raises(KeyveilError) as refusal:
            Reporter.open(description)
        spent.append(time.thread_time() - started)
        assert refusal.value.code == "bad-description"
    assert min(spent) < 0.05, name
    tracemalloc.start()
    try:
        with pytest.raises(KeyveilError):
            Reporter.open(description)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 16 << 20, name


def test_the_largest_campaign_is_read_within_50_ms_and_16_mb():
    campaign = make_campaign(
        "kvue", keys=tuple(f"key number {code:016}" for code in range(1 << 15)), dither=1
    )
    assert 0.8 < len(campaign.canonical_json) / (1 << 20) <= 1
    kinds = {
        "all": (None, {"id": "kvue", "epsilon": "1"}),
        "bucket": (
            None,
            {"id": "bucket", "epsilon": "1", "pairs_per_user": 8192, "buckets": 1 << 20, "occupied": 8192,
             "tie": 1, "cohorts": 1 << 20},
        ),
        "backwards": (list(range((1 << 15) - 1, -1, -1)), {"id": "kvue", "epsilon": "1"}),
        "levels": (
            list(range(1 << 13)),
            {"id": "privkv-broadcast", "key_epsilon": "1/2", "sign_epsilon": "1/2",
             "levels": [str(2**64 - 1 - code) for code in range(1 << 13)]},
        ),
    }  # fmt: skip
    for name, (keys, mechanism) in kinds.items():
        description = campaign.device_config() | {"keys": keys, "mechanism": mechanism}
        spent = []
        for _ in range(5):
            started = time.thread_time()
            Reporter.open(description)._asked(None)
            spent.append(time.thread_time() - started)
        print(f"{name}: {1000 * min(spent):.0f} ms")
        assert min(spent) < 0.05, name
        tracemalloc.start()
        try:
            Reporter.open(description)._asked(None)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 16 << 20, name
