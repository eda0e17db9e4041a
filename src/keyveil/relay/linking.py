"""Who sent what? A hostile collector's guesses, tried on a real relay.

The collector opens every report, knows the order and the times at which devices sent (somebody watches the
network in front of the relay), and may be some of the devices. For each honest device it names one report.
By chance it is right once in a batch; a relay that lets order, time, size, ids or repeats through makes it
right more often. Store, batching and sealing are the real ones, in a temporary folder; only the people are
made up, and nothing is sent.

    by order       the report that stands in its batch where the device stood among those who sent
    by time        any report of the first batch that left after the device had sent
    by size        any report as long as the device's own
    by id          the reports in the order of their ids, of their sealed keys, or of their bytes, against the
                   order of sending
    by a repeat    a device whose answer was lost sends twice; the report that came twice
    by flooding    all but the share that is taken to be honest are the collector's own, which it knows again
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from keyveil.attack.attempt import Attempt
from keyveil.campaign import HONEST, Campaign
from keyveil.client import Reporter
from keyveil.relay.batching import Batching
from keyveil.relay.settings import RelaySettings
from keyveil.relay.store import READY, RelayStore
from keyveil.report import Envelope, fresh_id, read_frames
from keyveil.sealing import OpeningKey, SealedHeader, SealingKey
from keyveil.shuffle import hiding

UPLOADS = 10_000
# Uploads between two looks of the relay at who waits, and of a hundred how many are sent twice.
_BETWEEN, _REPEATED = 50, 10
# Different payloads: what they say links nobody, their ids are fresh.
_PAYLOADS = 32


@dataclass(frozen=True, slots=True)
class Seen:
    """What the collector has: batches in the order in which they left, and who sent before each left."""

    batches: list[list[bytes]]
    senders: list[int]
    """Devices in the order of their uploads, repeats too."""
    left_after: list[int]
    """How many uploads there had been when each batch left."""
    opened: dict[bytes, bytes]


def linking(campaign: Campaign, *, uploads: int = UPLOADS, seed: int = 0) -> Iterator[Attempt]:
    """How often each way of guessing is right, beside one in a batch.

    >>> from keyveil import Campaign
    >>> apps = Campaign(name="apps", epsilon=1, keys=("maps", "mail"), value_range=(0, 60), pairs_per_user=1,
    ...                 mechanism="bucket", relay="required", batch=100)
    >>> all(each.success <= each.bound + 0.03 for each in linking(apps, uploads=1000))
    True
    """
    assert campaign.batch is not None, "a campaign that no relay carries has no batches"
    batch = max(2, min(campaign.batch, uploads // 4))
    honest = HONEST if campaign.honest is None else campaign.honest
    rng = random.Random(seed)
    seen, sender_of = _play(campaign, batch, uploads, rng)
    note = f"batches of {min(map(len, seen.batches)):,} and more"
    everybody = set(range(uploads))

    def attempt(name: str, guesses: dict[int, bytes], crowd: int, among: set[int], said: str) -> Attempt:
        right = sum(sender_of[report] == device for device, report in guesses.items())
        return Attempt(
            kind="linking",
            name=name,
            success=right / max(1, len(among)),
            bound=1 / crowd,
            unit="right guesses",
            note=said,
        )

    smallest = min(map(len, seen.batches))
    order = list(dict.fromkeys(seen.senders))
    yield attempt("by order", _by_order(seen, order), smallest, everybody, note)
    yield attempt("by time", _by_time(seen, order, rng), smallest, everybody, note)
    yield attempt("by size", _by_size(seen, order, rng), smallest, everybody, note)
    for what, key in _SORTED.items():
        guesses = _by_sorting(seen, order, key)
        yield attempt(f"by {what}", guesses, smallest, everybody, note)
    repeated = {device for device, n in Counter(seen.senders).items() if n > 1}
    guesses = {device: guess for device, guess in _by_repeat(seen, order, rng).items() if device in repeated}
    yield attempt("by a repeat", guesses, smallest, repeated, f"{len(repeated):,} sent twice")
    crowd = hiding(smallest, honest)
    own = set(rng.sample(range(uploads), uploads - round(honest * uploads)))
    guesses = _by_time(seen, order, rng, known={report for report, who in sender_of.items() if who in own})
    victims = everybody - own
    yield attempt(
        f"by flooding, {100 * (1 - honest):g} % its own",
        {device: report for device, report in guesses.items() if device in victims},
        max(1, crowd),
        victims,
        note,
    )


def _play(campaign: Campaign, batch: int, uploads: int, rng: random.Random) -> tuple[Seen, dict[bytes, int]]:
    """A round through a relay's own store and batching: what the collector sees, and the truth."""
    key, round = OpeningKey.fresh(), campaign.first_round()
    public, device = SealingKey(key.public), Reporter(campaign)
    payloads = [Envelope.from_bytes(device.report({}, round)).payload for _ in range(_PAYLOADS)]
    opened, sender_of, sealed = {}, {}, []
    for sender in range(uploads):
        report = Envelope(
            campaign=campaign.tag,
            round=round.number,
            report_id=fresh_id(),
            payload=payloads[sender % _PAYLOADS],
        ).to_bytes()
        sealed.append(public.seal(report, campaign=campaign.id, round=round.number))
        opened[sealed[-1]], sender_of[sealed[-1]] = report, sender
    senders = list(range(uploads))
    # Who hears nothing sends again, a while later.
    for again in rng.sample(senders, uploads * _REPEATED // 100):
        senders.insert(min(len(senders), senders.index(again) + rng.randrange(1, 2 * batch)), again)
    batches: list[list[bytes]] = []
    left_after: list[int] = []
    with tempfile.TemporaryDirectory(prefix="keyveil-linking-") as folder:
        store = RelayStore(Path(folder) / "relay.db")
        batching = Batching(store, RelaySettings(), earliest=lambda: 0.0, tell=lambda *_, **__: None)
        with store.write() as tx:
            no = tx.keep_view(campaign.id, "{}")
            tx.open_round(no, round.number, batch=batch, length=len(sealed[0]), ends_at=None)
            [carried] = tx.rounds()
        for start in range(0, len(senders), _BETWEEN):
            some = [sealed[sender] for sender in senders[start : start + _BETWEEN]]
            with store.write() as tx:
                tx.add(carried.no, SealedHeader.read(some[0]).key, some, list(map(store.digest, some)))
            batching.tick()
            _leave(store, batches, left_after, start + len(some))
        batching.end(carried, actor="", why="all have sent")
        batching.tick()
        _leave(store, batches, left_after, len(senders))
        store.close()
    return Seen(batches, senders, left_after, opened), sender_of


def _leave(store: RelayStore, batches: list[list[bytes]], left_after: list[int], n_sent: int) -> None:
    """What is ready goes to the collector."""
    with store.write() as tx:
        for ready in tx.batches("state = ?", (READY,)):
            found: list[bytes] = []
            while (following := tx.next_part(ready.no)) is not None:
                found += read_frames(following[1])
                tx.take_part(ready.no, following[0])
            tx.set_state(ready.no, "forwarded")
            batches.append(found)
            left_after.append(n_sent)


# --- guesses: for each device, one of the reports ---


def _by_order(seen: Seen, order: Sequence[int]) -> dict[int, bytes]:
    reports = [report for batch in seen.batches for report in batch]
    return dict(zip(order, reports, strict=False))


def _by_time(
    seen: Seen, order: Sequence[int], rng: random.Random, known: set[bytes] | frozenset[bytes] = frozenset()
) -> dict[int, bytes]:
    """Of the first batch that left after a device had sent, one that is nobody's who is known."""
    first = {device: place for place, device in reversed(list(enumerate(seen.senders)))}
    unknown = [[report for report in batch if report not in known] for batch in seen.batches]
    guesses = {}
    for device in order:
        at = next(at for at, left in enumerate(seen.left_after) if first[device] < left)
        if unknown[at]:
            guesses[device] = rng.choice(unknown[at])
    return guesses


def _by_size(seen: Seen, order: Sequence[int], rng: random.Random) -> dict[int, bytes]:
    """Of those as long as the device's, one in the most likely batch: all are as long as each other."""
    lengths = Counter(len(report) for batch in seen.batches for report in batch)
    [length] = [length for length, _ in lengths.most_common(1)]
    guesses = _by_time(seen, order, rng)
    return {device: report for device, report in guesses.items() if len(report) == length}


def _by_sorting(seen: Seen, order: Sequence[int], key: Callable[[Seen, bytes], bytes]) -> dict[int, bytes]:
    reports = [report for batch in seen.batches for report in sorted(batch, key=partial(key, seen))]
    return dict(zip(order, reports, strict=False))


_SORTED: dict[str, Callable[[Seen, bytes], bytes]] = {
    "report id": lambda seen, report: Envelope.from_bytes(seen.opened[report]).report_id,
    "encapsulated key": lambda _, report: report[11:43],
    "bytes": lambda _, report: report,
}


def _by_repeat(seen: Seen, order: Sequence[int], rng: random.Random) -> dict[int, bytes]:
    """Of the first batch that left after a device had sent, one that came twice, if any did."""

    def inside(report: bytes) -> bytes:
        return Envelope.from_bytes(seen.opened[report]).report_id

    times = Counter(inside(report) for batch in seen.batches for report in batch)
    once = {report for batch in seen.batches for report in batch if times[inside(report)] == 1}
    doubled = _by_time(seen, order, rng, known=once)
    return _by_time(seen, order, rng) | doubled
