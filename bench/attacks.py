"""What an honest sender keeps while others attack, and what memory hostile requests cost.

    python bench/attacks.py [--seconds S] [--store sqlite|postgresql] [--requests N] [--json FILE]

One collector process. An honest sender in a process of its own sends single reports over sixteen
connections, alone and in turns beside every attack by itself, then beside all of them at once. Attackers
have addresses of their own on the loopback (127.0.1.x), and the honest sender's token. Each is a closed
loop: as fast as the collector answers. All share the machine's cores; the attackers' own work, which others
would pay for, gives way (nice 19).
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gzip
import json
import multiprocessing
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "support"))

import numpy as np
import uvloop
from collecting import make_question, make_reports
from serving import Process

from collector import on_stores
from keyveil.report import to_frames

HONEST = 16
KEYS = tuple(f"k{i}" for i in range(100))


async def open_line(port, address):
    """A connection from an address of the loopback."""
    return await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0), limit=1 << 22)


async def answer(reader):
    """The status of an answer that is read whole."""
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    at = lower.index(b"content-length:") + 15
    await reader.readexactly(int(lower[at : lower.index(b"\r", at)]))
    return int(head[9:12]), b"connection: close" in lower


def request(method, path, token=None, body=b"", **headers):
    """A request's bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: x"]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


# --- an honest sender ---


def honest(port, path, token, frames, seconds, out):
    """Single reports over some connections, as fast as they are acknowledged."""
    ids = slice(4 + 19, 4 + 35)

    async def line(ends, waits, refused):
        reader = writer = None
        body = bytearray(frames)
        head = request("POST", path, token, bytes(body))[: -len(body)]
        while (now := time.perf_counter()) < ends:
            body[ids] = os.urandom(16)
            try:
                if writer is None:
                    reader, writer = await open_line(port, "127.0.0.1")
                writer.write(head + body)
                status, is_last = await answer(reader)
            except (OSError, asyncio.IncompleteReadError):
                status, is_last = 0, True
            if is_last and writer is not None:
                writer.close()
                writer = None
            if status == 200:
                waits.append(time.perf_counter() - now)
            else:
                refused.append(status)
                await asyncio.sleep(0.05)

    async def run():
        waits, refused = [], []
        started = time.perf_counter()
        await asyncio.gather(*(line(started + seconds, waits, refused) for _ in range(HONEST)))
        took = time.perf_counter() - started
        out.put((len(waits) / took, float(np.quantile(waits, 0.99)) if waits else float("inf"), len(refused)))

    uvloop.run(run())


# --- attackers ---


async def repeat(port, address, make, asked):
    """A request again and again; a connection that was closed is opened anew."""
    reader = writer = None
    while True:
        try:
            if writer is None:
                reader, writer = await open_line(port, address)
            writer.write(make())
            _, is_last = await answer(reader)
            asked[0] += 1
        except (OSError, asyncio.IncompleteReadError, ValueError):
            is_last = True
            await asyncio.sleep(0.01)
        if is_last and writer is not None:
            writer.close()
            writer = None


async def hold(port, address, start, asked):
    """A connection that says something and then nothing; opened anew when it is cut off."""
    while True:
        try:
            reader, writer = await open_line(port, address)
            writer.write(start)
            asked[0] += 1
            while await reader.read(1 << 16):
                """Whatever is said."""
            writer.close()
        except OSError:
            """Refused."""
        await asyncio.sleep(0.5)


async def drip(port, address, asked):
    """A header that goes on for ever, a byte at a time."""
    while True:
        try:
            _, writer = await open_line(port, address)
            writer.write(b"GET /healthz HTTP/1.1\r\nx-slow: ")
            while not writer.is_closing():
                writer.write(b"a")
                asked[0] += 1
                await asyncio.sleep(0.2)
        except OSError:
            await asyncio.sleep(0.5)


async def flood(port, address, asked):
    """Header lines without end."""
    lines = b"".join(b"x-%04d: %s\r\n" % (number, b"y" * 200) for number in range(100))
    while True:
        try:
            _, writer = await open_line(port, address)
            writer.write(b"GET /healthz HTTP/1.1\r\n")
            while not writer.is_closing():
                writer.write(lines)
                asked[0] += 1
                await writer.drain()
        except OSError:
            await asyncio.sleep(0.05)


def attacks(campaign, path, token, other):
    """By name: how many lines, and what each does."""
    reports = make_reports(campaign, 2000)
    [one] = reports[:1]
    many = [one[:17] + (i % 64).to_bytes(2, "little") + one[19:] for i in range(16000)]
    texts = [base64.b64encode(report).decode() for report in reports[:1500]]
    packed = gzip.compress(json.dumps({"reports": texts}).encode())
    bomb = gzip.compress(bytes(64 << 20), 9)
    mixed = to_frames(many)
    known = to_frames(reports * 8)
    post = lambda body, **named: request("POST", path, token, body, **named)  # noqa: E731
    js = {"Content_Type": "application/json"}
    say = lambda bytes_: lambda port, address, asked: repeat(port, address, lambda: bytes_, asked)  # noqa: E731
    silent = request("POST", path, token)[: -len(b"0\r\n\r\n")]
    return {
        "silent bodies": (400, lambda p, a, n: hold(p, a, silent + b"8000000\r\n\r\n", n)),
        "idle connections": (400, lambda p, a, n: hold(p, a, b"", n)),
        "dripping headers": (50, drip),
        "headers without end": (4, flood),
        "gzip bombs": (4, say(post(bomb, Content_Encoding="gzip"))),
        "gzip JSON": (4, say(post(packed, Content_Encoding="gzip", **js))),
        "JSON of nothing": (4, say(post(b'{"reports":[' + b"1," * 16000 + b"1]}", **js))),
        "many rounds": (4, say(post(mixed))),
        "known reports, 16,000 at a time": (4, say(post(known))),
        "rubbish": (4, say(post(b"\xff" * 4000))),
        "another campaign's token": (4, say(request("POST", path, other, to_frames([one])))),
        "campaigns that are none": (4, say(request("GET", f"/v1/campaigns/{'0' * 64}"))),
        "the public pages": (4, say(request("GET", path.removesuffix("/reports")))),
    }


def attack(port, chosen, ends, out):
    """Run some attacks until it is time."""
    # In the world they run on machines of their own.
    os.nice(19)

    async def run():
        counts = {name: [0] for name in chosen}
        tasks = [
            asyncio.ensure_future(start(port, f"127.0.1.{1 + place}", counts[name]))
            for place, (name, (lines, start)) in enumerate(chosen.items())
            for _ in range(lines)
        ]
        await asyncio.sleep(ends - time.time())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        out.put({name: count[0] for name, count in counts.items()})

    uvloop.run(run())


def both(server, path, token, frames, chosen, seconds):
    """The honest sender beside some attacks."""
    # What was made here is inherited: attackers prepare nothing while they attack.
    fork = multiprocessing.get_context("fork")
    rates, asked = fork.Queue(), fork.Queue()
    attacker = fork.Process(target=attack, args=(server.port, chosen, time.time() + seconds + 3, asked))
    if chosen:
        attacker.start()
        time.sleep(1.5)
    sender = fork.Process(target=honest, args=(server.port, path, token, frames, seconds, rates))
    sender.start()
    rate, p99, refused = rates.get()
    sender.join()
    counts = asked.get() if chosen else {}
    if chosen:
        attacker.join()
    return {"per_s": round(rate), "p99_ms": round(1000 * p99, 1), "refused": refused, "asked": counts}


def memory(server, path, token, n_requests):
    """How much larger the process is after so many hostile requests."""
    bomb = request("POST", path, token, gzip.compress(bytes(4 << 20), 9), Content_Encoding="gzip")
    kinds = [
        bomb,
        request("POST", path, token, b"\xff" * 500),
        request("POST", path, token, b"[" * 1000, Content_Type="application/json"),
        request("POST", path, "kv-" + "0" * 16 + "-" + "A" * 43, b"x"),
        request("GET", f"/v1/campaigns/{'0' * 64}"),
        request("GET", "/v1/campaigns?x=%00"),
        request("PUT", path, token),
        b"nonsense\r\n\r\n",
    ]
    shares = [1, 20, 20, 20, 14, 10, 10, 5]

    async def run(total):
        done = [0]

        async def line(place):
            # An address may bring nothing thirty times a second: there are many.
            address, rng = f"127.0.2.{1 + place}", np.random.default_rng(place)
            reader = writer = None
            while done[0] < total:
                done[0] += 1
                try:
                    if writer is None:
                        reader, writer = await open_line(server.port, address)
                    writer.write(kinds[rng.choice(len(kinds), p=np.array(shares) / 100)])
                    _, is_last = await answer(reader)
                except (OSError, asyncio.IncompleteReadError):
                    is_last = True
                if is_last and writer is not None:
                    writer.close()
                    writer = None

        await asyncio.gather(*map(line, range(100)))

    uvloop.run(run(n_requests // 50))
    before = server.memory()
    started = time.perf_counter()
    uvloop.run(run(n_requests))
    return {
        "requests": n_requests,
        "seconds": round(time.perf_counter() - started, 1),
        "mb_before": before >> 20,
        "mb_grown": round((server.memory() - before) / (1 << 20), 1),
    }


def measure(store, seconds, n_requests):
    """All figures of one store."""
    print(store.partition(":")[0])
    server = Process(store)
    try:
        campaign, elsewhere = make_question(keys=KEYS), make_question(name="elsewhere")
        token, other = server.create(campaign)["device_token"], server.create(elsewhere)["device_token"]
        path = f"/v1/campaigns/{campaign.id}/reports"
        frames = to_frames(make_reports(campaign, 1))
        server.ask("POST", path, frames, token=token)
        chosen = attacks(campaign, path, token, other)
        run = lambda some, time_: both(server, path, token, frames, some, time_)  # noqa: E731
        run({}, 1.0)
        found = {"attacks": {}}
        for name in chosen:
            found["attacks"][name] = one = in_turns(run, {name: chosen[name]}, seconds, 1)
            show(name, one)
        found["all at once"] = in_turns(run, chosen, seconds, 5)
        show("all at once", found["all at once"])
        found["memory"] = memory(server, path, token, n_requests)
        print(found["memory"])
        return found
    finally:
        server.stop()


def in_turns(run, chosen, seconds, times):
    """Alone and attacked in turns, because the machine's other work comes and goes; medians."""
    pairs = [(run({}, seconds), run(chosen, seconds)) for _ in range(times)]
    middle = lambda numbers: float(np.median(list(numbers)))  # noqa: E731
    return {
        "alone_per_s": round(middle(alone["per_s"] for alone, _ in pairs)),
        "per_s": round(middle(one["per_s"] for _, one in pairs)),
        "share": round(middle(one["per_s"] / alone["per_s"] for alone, one in pairs), 2),
        "alone_p99_ms": round(middle(alone["p99_ms"] for alone, _ in pairs), 1),
        "p99_ms": round(middle(one["p99_ms"] for _, one in pairs), 1),
        "refused": sum(one["refused"] for _, one in pairs),
        "asked": {name: sum(one["asked"][name] for _, one in pairs) for name in chosen},
    }


def show(name, one):
    """One line."""
    print(
        f"{name:34} {one['per_s']:6} a second, {one['share']:.2f} of alone"
        f"  p99 {one['p99_ms']:6.1f} ms, alone {one['alone_p99_ms']:5.1f}"
        f"  refused {one['refused']}  asked {sum(one['asked'].values())}",
        flush=True,
    )


def main():
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], action="append")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    results = on_stores(asked.store, lambda url: measure(url, asked.seconds, asked.requests))
    if asked.json:
        asked.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
