"""Whole lives of devices as vectors: what a collector says, in which order, and what the device does.

A history has the device's secret, its caps and steps; a step has the time, a verb, what the collector says,
what the user holds, the random words and the report's id, and then what comes of it: a code, the bytes, and
what was spent by then, in units of 2**-192. Where `held` is null the device must not read the record, where
`words` is null it must not draw. `play` is the runner in Python; the one in JavaScript does the same.

Where a relay takes part, a history has the collector's opening keys, and a step may name the relay and the
key that the application ships. There, and where a history `notes_requests`, what comes of an upload is also
who was asked for what, in order (`requests`): an address, the reports that went there, or the sealed ones.
No two sealed reports are alike, so of each it says which one it is, counted from the history's first, the key
and the round that everybody reads, and the report inside.

Every expected code is written here by hand; bytes and units are the device's own, from its first run on.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

from calibrations import scripted_words
from keyveil import Campaign
from keyveil.client import Caps, Reporter
from keyveil.client.answer import HttpAnswer
from keyveil.client.ledger import Ledger, drawn_from
from keyveil.errors import KeyveilError
from keyveil.numerics import Words
from keyveil.report import REPORT_ID_BYTES, read_frames
from keyveil.rounds import Round
from keyveil.sealing import SUITE, OpeningKey, SealedHeader

Description = dict[str, Any]
NOON = 1_800_000_000
DAY = 86_400
ALL_ACCEPTED = {"status": 200, "body": '{"reports":["accepted"]}'}
COLLECTOR, RELAY = "https://collector.example", "https://relay.example"


class Unread(Mapping[str, float]):
    """A record that fails whoever looks at it."""

    def _fail(self, *_: object) -> Any:
        raise AssertionError("the record was read")

    __getitem__ = __iter__ = __len__ = _fail


@dataclass(frozen=True, kw_only=True)
class Step:
    """One call, and the code that it must come to."""

    do: str
    code: str
    description: Description | None = None
    held: dict[str, float] | None = None
    draws: bool = False
    at: int = NOON
    collector: tuple[Mapping[str, Any], ...] = ()
    """What is answered, request by request, whoever is asked."""
    goes_through_relay: bool = False
    shipped: OpeningKey | None = None
    segments: Mapping[str, str | None] | None = None
    """What the application says of its user, where it says something."""


@dataclass(frozen=True, kw_only=True)
class History:
    """A device's life."""

    name: str
    what: str
    steps: tuple[Step, ...]
    secret: bytes = bytes(32)
    caps: dict[str, float] = field(default_factory=lambda: {"campaign": 4, "lifetime": 16})
    keys: tuple[OpeningKey, ...] = ()
    """Of the collector, where a relay takes part."""
    notes_requests: bool = False
    """Whether it is told whom an upload asks, also where there is no relay."""


def files() -> dict[str, dict[str, Any]]:
    """A file for each history."""
    return {f"histories/{history.name}.json": written(history) for history in everything()}


def written(history: History) -> dict[str, Any]:
    """A history with words and ids, and with what the device made of it."""
    steps = []
    told = [step for step in history.steps if step.description is not None]
    asked: Any = next((step for step in told if step.code == "done"), told[0]).description
    for place, step in enumerate(history.steps):
        asked = step.description or asked
        label = f"{history.name} {place}"
        steps.append(
            {
                "at": step.at,
                "do": step.do,
                "description": asked,
                "held": step.held,
                "words": _words(label, asked).data.hex() if step.draws else None,
                "id": hashlib.sha256(f"id {label}".encode()).hexdigest()[: 2 * REPORT_ID_BYTES],
                **({"collector": list(step.collector)} if step.do == "upload" else {}),
                **({"relay": RELAY} if step.goes_through_relay else {}),
                **({"sealing_key": step.shipped.public.hex()} if step.shipped else {}),
                **({"segments": dict(step.segments)} if step.segments is not None else {}),
                "code": step.code,
            }
        )
    content = {
        "name": history.name,
        "what": history.what,
        "secret": history.secret.hex(),
        "caps": history.caps,
        **({"opening_keys": [key.private.hex() for key in history.keys]} if history.keys else {}),
        **({"notes_requests": True} if history.notes_requests else {}),
        "steps": steps,
    }
    for step_, (said, seen) in zip(history.steps, zip(steps, play(content), strict=True), strict=True):
        assert seen["code"] == step_.code, f"{history.name}: expected {step_.code}, got {seen['code']}"
        said |= seen
    return content


def _words(label: str, description: Description) -> Words:
    _, asked = Campaign.from_description(description)
    return scripted_words(label, asked.mechanism.n_words)


# --- the runner ---


def play(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a Python device does at each step: code, bytes, what was spent in the campaign and in all.

    And whom it asked, where a relay takes part or the history wants to know.
    """
    has_requests = "opening_keys" in content or content.get("notes_requests", False)
    keys = [OpeningKey(bytes.fromhex(key)) for key in content.get("opening_keys", ())]
    mail = Mail({key.id: key for key in keys})
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.enter_context(patch.dict("os.environ", {"DO_NOT_TRACK": ""}))
        path = Path(folder) / "device.db"
        secret = bytes.fromhex(content["secret"])
        for step in content["steps"]:
            with patch("keyveil.client.ledger.new_secret", return_value=secret):
                seen = _step(path, content["caps"], step, mail)
                asked = mail.taken()
                yield {**seen, "requests": asked} if has_requests and step["do"] == "upload" else seen


class Mail:
    """What a device sent in a history, and what there is to say of it."""

    def __init__(self, keys: Mapping[bytes, OpeningKey]) -> None:
        self._keys = keys
        self._sealed: list[bytes] = []
        self._requests: list[dict[str, Any]] = []

    def note(self, url: str, body: bytes | None) -> None:
        """A request."""
        campaign = url.rpartition("/")[0].rpartition("/")[2]
        reports = [] if body is None else list(read_frames(body))
        if url.endswith("/sealed"):
            self._requests.append({"url": url, "sealed": [self._opened(one, campaign) for one in reports]})
        elif body is not None:
            self._requests.append({"url": url, "reports": [report.hex() for report in reports]})
        else:
            self._requests.append({"url": url})

    def taken(self) -> list[dict[str, Any]]:
        """The requests since it was asked last."""
        taken, self._requests = self._requests, []
        return taken

    def _opened(self, sealed: bytes, campaign: str) -> dict[str, Any]:
        if sealed not in self._sealed:
            self._sealed.append(sealed)
        header = SealedHeader.read(sealed)
        report = self._keys[header.key].open(sealed, campaign=campaign, round=header.round)
        return {
            "which": self._sealed.index(sealed),
            "key": header.key.hex(),
            "round": header.round,
            "report": report.hex(),
        }


def _step(path: Path, caps: Mapping[str, float], step: Mapping[str, Any], mail: Mail) -> dict[str, Any]:
    answers = iter(step.get("collector", ()))

    def entropy(n_words: int) -> Words:
        assert step["words"] is not None, "words were drawn"
        words = Words(bytes.fromhex(step["words"]))
        assert len(words) == n_words
        return words

    def exchange(url: str, body: bytes | None, timeout: float, largest: int) -> HttpAnswer:
        mail.note(url, body)
        said = next(answers)
        return HttpAnswer(status=said["status"], body=said["body"].encode())

    told: bytes | None = None
    campaign = None
    try:
        device = Reporter.open(
            step["description"],
            segments=step.get("segments"),
            ledger=path,
            collector=COLLECTOR,
            relay=step.get("relay"),
            sealing_key=step.get("sealing_key"),
            caps=Caps(**caps),
            entropy=entropy,
            ids=lambda: bytes.fromhex(step["id"]),
            clock=lambda: float(step["at"]),
            exchange=exchange,
        )
        campaign = device.campaign.id
        held = Unread() if step["held"] is None else step["held"]
        code = "done"
        match step["do"]:
            case "report":
                told = device.report(held)
            case "submit":
                code = device.submit(held).code.value
            case "status":
                device.status()
            case verb:
                code = getattr(device, verb)().code.value
    except KeyveilError as error:
        code = error.code
    with Ledger(path, clock=lambda: float(step["at"])).transaction() as account:
        here = 0 if campaign is None else account.spent(campaign)
        return {
            "code": code,
            "bytes": None if told is None else told.hex(),
            "units": str(here),
            "units_in_all": str(account.spent()),
        }


# --- what collectors do ---


def asking(mechanism: str = "kvue", **fields: Any) -> Campaign:
    """A small campaign."""
    told = {"name": "life", "epsilon": 1.0, "keys": ["a", "b", "c"], "value_range": [0.0, 10.0]}
    return Campaign.from_fields({**told, "pairs_per_user": 2, "mechanism": mechanism, **fields})


HELD = {"a": 7.5, "c": 1.0}
OTHER = {"b": 10.0}
YES = Step(do="enable", code="done")
NO = Step(do="disable", code="done")


def answers(description: Description, held: dict[str, float] = HELD, **more: Any) -> Step:
    """A round that is answered with fresh noise."""
    return Step(do="report", code="done", description=description, held=held, draws=True, **more)


def repeats(description: Description | None = None, **more: Any) -> Step:
    """A round that was answered: the same bytes, and nothing is read."""
    return Step(do="report", code="done", description=description, **more)


def refuses(code: str, description: Description | None = None, **more: Any) -> Step:
    """A round that is not answered, and nothing is read."""
    return Step(do=more.pop("do", "report"), code=code, description=description, **more)


def everything() -> Iterator[History]:
    """All histories, the honest ones first."""
    yield from honest()
    yield from hostile()
    yield from relayed()
    yield from waves()
    yield from hostile_waves()
    yield from years()
    yield from segmented()
    yield from crossed()


def honest() -> Iterator[History]:
    """Collectors that keep their word."""
    for name in (
        "kvue",
        "pckv-ue",
        "pckv-grr",
        "ks-ue",
        "bucket",
        "olh",
        "subset",
        "ue-sw",
        "levels",
        "oue-harmony",
    ):
        asked = asking(name, **({"bins": 4} if name == "ue-sw" else {})).device_config()
        yield History(
            name=f"honest-{name}",
            what="one round, asked again and again while the record changes: one answer",
            steps=(YES, answers(asked), repeats(), repeats(at=NOON + 300 * DAY), repeats(asked)),
        )
    for name in ("kvue", "bucket", "levels"):
        asked = asking(name, ids="issued").device_config()
        yield History(
            name=f"honest-{name}-issued",
            what="the index or hash follows from the id that was handed out: one answer, as ever",
            steps=(YES, answers(asked), repeats(), repeats(at=NOON + 300 * DAY), repeats(asked)),
        )
    for name in ("kvue", "bucket"):
        asked = asking(name, value_range=[2.0, 7.0], beyond=True).device_config()
        yield History(
            name=f"honest-{name}-beyond",
            what="values beyond the range, one at either side, are told a bin beyond it",
            steps=(YES, answers(asked), repeats(), repeats(at=NOON + 300 * DAY), repeats(asked)),
        )
    for purpose, secret, asked in members(asking("auto", users=5000)):
        yield History(
            name=f"honest-auto-{purpose}",
            what="auto asks disjoint groups; a device answers in its own and in no other",
            secret=secret,
            steps=(YES, *grouped(asked, purpose)),
        )
    for want, pairs, what in (
        ("frequency", 1, "auto asks for frequencies alone: everybody names keys, and nobody a value"),
        (
            "distribution",
            2,
            "auto asks for distributions: a few tell a size, the others signs of all keys",
        ),
    ):
        for purpose, secret, asked in members(asking("auto", want=want, users=5000, pairs_per_user=pairs)):
            yield History(
                name=f"honest-auto-{want}-{purpose}",
                what=what,
                secret=secret,
                steps=(YES, *grouped(asked, purpose)),
            )
    for purpose, secret, asked in members(asking("ks-grr", keys=[f"k{i}" for i in range(9)])):
        yield History(
            name=f"honest-ks-grr-{purpose}",
            what="ks-grr asks disjoint groups; a device answers in its own and in no other",
            secret=secret,
            steps=(YES, *grouped(asked, purpose)),
        )
    for name, fields in (("privkvm", {"rounds": 3}), ("privkvm-star", {"bins": 4}), ("privkvm-plus", {})):
        campaign = asking(name, **fields)
        rounds = [describe(campaign, stage) for stage in campaign.protocol().stages()]
        yield History(
            name=f"honest-{name}",
            what="everybody is asked in every round, for the campaign's epsilon together",
            steps=(YES, *map(answers, rounds), *map(repeats, rounds)),
        )
    yield from lives()


def lives() -> Iterator[History]:
    """What people and machines do to a device."""
    asked, other = asking().device_config(), asking(name="another").device_config()
    yield History(
        name="honest-two-campaigns",
        what="each campaign has its own answer, and its own id",
        steps=(YES, answers(asked), answers(other), repeats(asked), repeats(other)),
    )
    yield History(
        name="life-unasked",
        what="without a yes nothing is queued; bytes may be made for the caller",
        steps=(
            refuses("not-enabled", asked, do="submit"),
            answers(asked),
            refuses("not-enabled", do="upload"),
        ),
    )
    yield History(
        name="life-no-and-yes-again",
        what="a no wipes the answer, and a yes after it does not bring the round back",
        steps=(YES, answers(asked), NO, refuses("disabled", asked), YES, refuses("answered", asked)),
    )
    yield History(
        name="life-queue",
        what="a report waits, is refused for a while, and is sent",
        steps=(
            YES,
            Step(do="submit", code="done", description=asked, held=HELD, draws=True),
            Step(do="upload", code="waiting", collector=({"status": 503, "body": ""},)),
            Step(do="upload", code="done", collector=(ALL_ACCEPTED,), at=NOON + 2 * DAY),
            Step(do="submit", code="done", at=NOON + 2 * DAY),
            Step(do="status", code="done", at=NOON + 2 * DAY),
        ),
    )
    yield History(
        name="life-token",
        what="a collector that wants another token is not asked for nothing",
        steps=(
            YES,
            Step(do="submit", code="done", description=asked, held=HELD, draws=True),
            Step(do="upload", code="token-refused", collector=({"status": 401, "body": ""},)),
            Step(
                do="upload", code="token-refused", collector=({"status": 403, "body": ""},), at=NOON + 3 * DAY
            ),
        ),
    )
    yield History(
        name="life-refused",
        what="what repeating cannot cure is said so; what waits is kept, and sent once it is mended",
        steps=(
            YES,
            Step(do="submit", code="done", description=asked, held=HELD, draws=True),
            Step(do="upload", code="refused", collector=({"status": 404, "body": ""},)),
            Step(do="upload", code="refused", collector=({"status": 409, "body": ""},), at=NOON + 2 * DAY),
            Step(do="upload", code="waiting", collector=({"status": 429, "body": ""},), at=NOON + 4 * DAY),
            Step(do="upload", code="done", collector=(ALL_ACCEPTED,), at=NOON + 6 * DAY),
        ),
    )
    yield History(
        name="life-bad-record",
        what="a record that is none costs nothing",
        steps=(
            YES,
            Step(do="report", code="bad-record", description=asked, held={"a": "text"}, draws=False),  # type: ignore[dict-item]
            answers(asked),
        ),
    )
    ending = asking(expires="2027-01-31").device_config()
    over = 1_801_440_000
    yield History(
        name="life-expired",
        what="a campaign that is over is not answered, and a clock set back does not revive it",
        steps=(
            YES,
            refuses("expired", ending, at=over + DAY),
            refuses("expired", ending, at=over - 30 * DAY),
        ),
    )
    yield History(
        name="life-expired-after-an-answer",
        what="nor is its answer repeated",
        steps=(YES, answers(ending, at=over - 30 * DAY), refuses("expired", at=over + DAY)),
    )
    yield History(
        name="life-caps",
        what="the device's own caps: a campaign beyond them, and one campaign too many",
        caps={"campaign": 1, "lifetime": 2.5},
        steps=(
            YES,
            refuses("over-campaign-cap", asking(epsilon=1.5).device_config()),
            answers(asked),
            answers(other),
            refuses("over-lifetime-cap", asking(name="third").device_config()),
            answers(asking(name="fourth", epsilon=0.25).device_config()),
            repeats(asked),
        ),
    )


def hostile() -> Iterator[History]:
    """Collectors that do not."""
    campaign = asking()
    asked = campaign.device_config()
    keys = {name: {**asked, "keys": codes} for name, codes in (("ab", [0, 1]), ("ba", [1, 0]), ("a", [0]))}
    yield History(
        name="hostile-reordered-keys",
        what="a round is opened again with its keys re-ordered: the device has pinned the first (P2)",
        steps=(
            YES,
            answers(keys["ab"]),
            refuses("pinned", keys["ba"]),
            refuses("pinned", asked),
            repeats(keys["ab"]),
        ),
    )
    yield History(
        name="hostile-shrunk-keys",
        what="a round is opened again about fewer keys",
        steps=(YES, answers(asked), refuses("pinned", keys["a"]), refuses("pinned", keys["ab"])),
    )
    secret = {name: value for name, value in asked.items() if name != "dither"}
    for what, other in {
        "dither": {**asked, "dither": 32},
        "rounding": {**secret, "format": "keyveil-round/1"},
    }.items():
        yield History(
            name=f"hostile-other-{what}",
            what=f"a round is opened again with another {what} of values: no second answer",
            steps=(YES, answers(asked), refuses("pinned", other), repeats(asked)),
        )
    for what, change in {
        "mechanism": {
            "mechanism": {"id": "pckv-ue", "epsilon": "1", "allocation": "optimal", "pairs_per_user": 2}
        },
        "epsilon": {"mechanism": {"id": "kvue", "epsilon": "1/2"}},
        "group": {"group": ["0", "1/2"]},
        "purpose": {"purpose": "something else"},
        "protocol": {"protocol": "auto/1"},
    }.items():
        yield History(
            name=f"hostile-other-{what}",
            what=f"a round is opened again with another {what}: no second answer",
            steps=(YES, answers(asked), refuses("pinned", {**asked, **change}), repeats(asked)),
        )
    issuing = asking(ids="issued").device_config()
    drawn = {**issuing, "mechanism": {"id": "kvue", "epsilon": "1"}}
    yield History(
        name="hostile-other-ids",
        what="a round whose index followed from the id is opened again with one that the device draws",
        steps=(YES, answers(issuing), refuses("pinned", drawn), repeats(issuing)),
    )
    yield History(
        name="hostile-renumbered",
        what="the same question under another number: the campaign's epsilon is spent",
        steps=(
            YES,
            answers(asked),
            *(refuses("over-promise", {**asked, "number": number}) for number in (2, 3, 65535)),
        ),
    )
    cheap = {"mechanism": {"id": "kvue", "epsilon": "1/4"}}
    yield History(
        name="hostile-cheap-then-dear",
        what="cheap rounds do not make room for a dear one (A2)",
        steps=(
            YES,
            answers({**asked, **cheap}),
            answers({**asked, **cheap, "number": 2}),
            refuses("over-promise", {**asked, "number": 3}),
            answers({**asked, **cheap, "number": 3}),
            answers({**asked, **cheap, "number": 4}),
            refuses("over-promise", {**asked, **cheap, "number": 5}),
        ),
    )
    yield History(
        name="hostile-lied-epsilon",
        what="a round that costs more than the campaign promises",
        steps=(
            YES,
            refuses("over-promise", {**asked, "mechanism": {"id": "kvue", "epsilon": "32"}}),
            refuses("over-promise", {**asked, "mechanism": {"id": "kvue", "epsilon": "1000001/1000000"}}),
            answers(asked),
        ),
    )
    auto = asking("auto", users=5000)
    purpose, secret, rounds = next(members(auto))
    everybody = [{**each, "group": ["0", "1"]} for each in rounds.values()]
    yield History(
        name="hostile-regrouped-auto",
        what="auto's rounds, all of them for everybody: the campaign's epsilon is spent by the first (P1)",
        secret=secret,
        steps=(YES, answers(everybody[0]), *(refuses("over-promise", each) for each in everybody[1:])),
    )
    yield History(
        name="hostile-moved-group",
        what="a group that moves after the device: its answer is pinned to where the group was",
        secret=secret,
        steps=(YES, answers(rounds[purpose]), refuses("pinned", {**rounds[purpose], "group": ["0", "1"]})),
    )
    yield History(
        name="hostile-kernel",
        what="integers of a kernel, as devices were once told (A1)",
        steps=(
            YES,
            *(
                refuses("bad-description", {**asked, "mechanism": {**asked["mechanism"], **more}})
                for more in (
                    {"channel": {"keep": "1001", "flip": "18446744073709549615", "fake": "1000"}},
                    {"n_keys": 10},
                    {"shape": "signed-response"},
                )
            ),
            answers(asked),
        ),
    )
    yield History(
        name="hostile-negative",
        what="nothing refunds what was spent (A1)",
        steps=(
            YES,
            answers(asked),
            refuses("bad-description", {**asked, "number": 2, "mechanism": {"id": "kvue", "epsilon": "-1"}}),
            refuses("bad-description", {**asked, "number": 2, "mechanism": {"id": "kvue", "epsilon": "0"}}),
            refuses("over-promise", {**asked, "number": 2}),
        ),
    )
    undithered = asking(dither=1).device_config()
    yield History(
        name="hostile-starts",
        what="classes of sizes that begin anywhere (A1)",
        steps=(
            YES,
            refuses(
                "bad-description",
                {**undithered, "mechanism": {"id": "size-class", "epsilon": "1", "starts": [3, 4]}},
            ),
            answers({**undithered, "mechanism": {"id": "size-class", "epsilon": "1", "starts": [0, 2]}}),
        ),
    )
    yield History(
        name="hostile-after-wiping",
        what="a no does not make a round new, whatever it is called",
        steps=(YES, answers(asked), NO, YES, refuses("answered"), refuses("pinned", keys["a"])),
    )
    yield History(
        name="hostile-renamed",
        what="the same question under many names: what the device allows in all",
        caps={"campaign": 4, "lifetime": 3},
        steps=(
            YES,
            *(answers(asking(name=f"life {n}").device_config()) for n in range(3)),
            *(refuses("over-lifetime-cap", asking(name=f"life {n}").device_config()) for n in range(3, 6)),
        ),
    )
    yield History(
        name="hostile-answers",
        what="what a collector says of reports is taken for no more than it is",
        steps=(
            YES,
            Step(do="submit", code="done", description=asked, held=HELD, draws=True),
            Step(do="upload", code="waiting", collector=({"status": 200, "body": "[" * 5000},)),
            Step(
                do="upload",
                code="waiting",
                collector=({"status": 200, "body": '{"reports":[]}'},),
                at=NOON + 2 * DAY,
            ),
            Step(do="upload", code="waiting", collector=({"status": 302, "body": ""},), at=NOON + 4 * DAY),
            Step(do="upload", code="done", collector=({"status": 410, "body": ""},), at=NOON + 6 * DAY),
            repeats(at=NOON + 6 * DAY),
        ),
    )
    star = asking("privkvm-star", bins=4)
    first, second = (describe(star, stage) for stage in star.protocol().stages())
    yield History(
        name="hostile-second-phase-twice",
        what="a second round asked once for each key: the first question is the only one",
        steps=(
            YES,
            answers(first),
            answers({**second, "keys": [0]}),
            refuses("pinned", {**second, "keys": [1]}),
            refuses("over-promise", {**second, "number": 3, "keys": [1]}),
        ),
    )
    backwards = asking("privkvm", rounds=3)
    rounds_ = [describe(backwards, stage) for stage in backwards.protocol().stages()]
    yield History(
        name="hostile-backwards",
        what="rounds in any order cost what they cost",
        steps=(
            YES,
            *map(answers, reversed(rounds_)),
            *(refuses("over-promise", {**r, "number": 9}) for r in rounds_),
        ),
    )


# --- relays ---

OLD_KEY, NEW_KEY, RELAYS_OWN = (
    OpeningKey(hashlib.sha256(name).digest()) for name in (b"old", b"new", b"own")
)
BUSY = {"status": 503, "body": ""}
KEY_IS_UNKNOWN = {"status": 200, "body": '{"reports":["unknown-key"]}'}


def lists(*keys: OpeningKey) -> Mapping[str, Any]:
    """A list of keys, as a collector or a relay gives it."""
    said = [{"id": key.id.hex(), "public": key.public.hex(), "made_at": 0} for key in keys]
    return {"status": 200, "body": json.dumps({"suite": SUITE, "keys": said})}


def sends(code: str, *said: Mapping[str, Any], on_day: int = 0, **more: Any) -> Step:
    """An upload to the collector, and what is answered to each of its requests."""
    return Step(do="upload", code=code, collector=said, at=NOON + on_day * DAY, **more)


def relays(code: str, *said: Mapping[str, Any], **more: Any) -> Step:
    """An upload through the relay."""
    return sends(code, *said, goes_through_relay=True, **more)


def relayed() -> Iterator[History]:
    """Relays, honest and not: one way a campaign, sealed once, to a key that both list."""
    asked = asking(relay="required", batch=10).device_config()
    allowed = asking(relay="allowed", batch=10).device_config()
    queues = Step(do="submit", code="done", description=asked, held=HELD, draws=True)
    queues_allowed = replace(queues, description=allowed)
    again = Step(do="submit", code="done")
    both = lists(OLD_KEY), lists(OLD_KEY)
    keys = (OLD_KEY, NEW_KEY)
    yield History(
        name="relay-required",
        what="a campaign that requires a relay: nothing goes to the collector, whatever fails",
        keys=keys,
        steps=(
            YES,
            queues,
            sends("relay-required"),
            relays("waiting", *both, BUSY),
            sends("relay-required", on_day=2),
            relays("refused", {"status": 404, "body": ""}, on_day=2),
            sends("relay-required", on_day=4),
            relays("done", ALL_ACCEPTED, on_day=4),
        ),
    )
    yield History(
        name="relay-repeats",
        what="sealed once: sent again, or queued again, it is the same bytes, whatever keys there are since",
        keys=keys,
        steps=(
            YES,
            queues,
            relays("waiting", *both, BUSY),
            relays("waiting", {"status": 200, "body": "?"}, on_day=2),
            relays("done", ALL_ACCEPTED, on_day=4),
            again,
            relays("done", ALL_ACCEPTED, on_day=4, shipped=NEW_KEY),
            again,
            relays("done", ALL_ACCEPTED, on_day=5),
        ),
    )
    yield History(
        name="relay-newest-key",
        what="the newest of the collector's keys that the relay lists too",
        keys=keys,
        steps=(
            YES,
            queues,
            relays("done", lists(RELAYS_OWN, OLD_KEY), lists(NEW_KEY, OLD_KEY), ALL_ACCEPTED),
        ),
    )
    yield History(
        name="relay-own-key",
        what="a relay that lists a key of its own, and a collector that has one for this device alone",
        keys=keys,
        steps=(
            YES,
            queues,
            relays("keys-differ", lists(RELAYS_OWN), lists(OLD_KEY)),
            relays("keys-differ", lists(OLD_KEY), lists(NEW_KEY), on_day=2),
            relays("keys-differ", lists(), lists(), on_day=4),
            relays("waiting", BUSY, on_day=6),
            relays("waiting", lists(OLD_KEY), {"status": 200, "body": "[]"}, on_day=8),
            relays("done", *both, ALL_ACCEPTED, on_day=10),
        ),
    )
    yield History(
        name="relay-retired-key",
        what="a key that is retired before the relay takes the report: it is sealed again, and then kept so",
        keys=keys,
        steps=(
            YES,
            queues,
            relays("waiting", *both, BUSY),
            relays("waiting", KEY_IS_UNKNOWN, on_day=2),
            relays("done", lists(NEW_KEY), lists(NEW_KEY), ALL_ACCEPTED, on_day=4),
            again,
            relays("done", ALL_ACCEPTED, on_day=4),
        ),
    )
    yield History(
        name="relay-shipped-key",
        what="a key that the application ships: nobody is asked, and only the next application has another",
        keys=keys,
        steps=(
            YES,
            queues,
            relays("waiting", BUSY, shipped=OLD_KEY),
            relays("keys-differ", KEY_IS_UNKNOWN, shipped=OLD_KEY, on_day=2),
            relays("keys-differ", KEY_IS_UNKNOWN, shipped=OLD_KEY, on_day=4),
            relays("waiting", KEY_IS_UNKNOWN, shipped=NEW_KEY, on_day=6),
            relays("done", ALL_ACCEPTED, shipped=NEW_KEY, on_day=8),
        ),
    )
    yield History(
        name="relay-after-the-collector",
        what="a report that may have reached the collector never goes through a relay",
        keys=keys,
        steps=(
            YES,
            queues_allowed,
            sends("waiting", BUSY),
            relays("other-route", on_day=2),
            NO,
            YES,
            relays("other-route", on_day=4),
            sends("done", on_day=4),
        ),
    )
    yield History(
        name="relay-then-the-collector",
        what="a report that may have reached a relay never goes to the collector",
        keys=keys,
        steps=(
            YES,
            queues_allowed,
            relays("waiting", *both, BUSY),
            sends("other-route", on_day=2),
            relays("done", ALL_ACCEPTED, on_day=2),
            again,
            sends("other-route", on_day=2),
        ),
    )
    yield History(
        name="relay-keys-alone",
        what="to ask for keys is not to send: the other way is still open",
        keys=keys,
        steps=(
            YES,
            queues_allowed,
            relays("keys-differ", lists(OLD_KEY), lists(NEW_KEY)),
            sends("done", ALL_ACCEPTED, on_day=2),
            again,
            relays("other-route", on_day=2),
        ),
    )
    yield History(
        name="relay-not-wanted",
        what="a campaign without relays",
        keys=keys,
        steps=(
            YES,
            replace(queues, description=asking().device_config()),
            relays("not-relayed"),
            sends("done", ALL_ACCEPTED),
        ),
    )
    yield History(
        name="relay-wiped",
        what="a no wipes what was sealed, too",
        keys=keys,
        steps=(
            YES,
            queues,
            relays("waiting", *both, BUSY),
            NO,
            relays("disabled", on_day=2),
            YES,
            relays("done", on_day=2),
            Step(do="submit", code="answered"),
        ),
    )
    grouped_campaign = asking(relay="required", batch=1000, mechanism="auto")
    stage = replace(
        grouped_campaign.protocol().start(grouped_campaign.id), group=(Fraction(0), Fraction(1, 100))
    )
    few = {"group": ["0", "1/101"]}
    yield History(
        name="relay-small-group",
        what="a round for fewer devices than its campaign asks, who would not hide each other",
        secret=_secret_in(grouped_campaign, replace(stage, group=(Fraction(0), Fraction(1, 101)))),
        keys=keys,
        steps=(
            YES,
            refuses("small-group", {**asked, "group": ["0", "99/100"]}),
            refuses("small-group", {**describe(grouped_campaign, stage), **few}),
            answers(describe(grouped_campaign, stage)),
        ),
    )
    yield History(
        name="relay-refuses",
        what="what a relay refuses for another reason is settled, as by a collector",
        keys=keys,
        steps=(
            YES,
            queues,
            relays("done", *both, {"status": 200, "body": '{"reports":["wrong-round"]}'}),
            relays("done", on_day=2),
        ),
    )


# --- series ---

WEEK = 7 * DAY
# The first wave begins eight hours before noon.
WEEKLY = {"every": "week", "waves": 6, "answers": 1, "start": "2027-01-15"}


def weekly(answers: int = 1, **fields: Any) -> Campaign:
    """A small series of six weeks."""
    return asking(**{"series": {**WEEKLY, "answers": answers}, **fields})


def wave_of(whole: Campaign, number: int, *added: str) -> Description:
    """A wave of a series, as the collector describes it."""
    return whole.wave(number, added).device_config()


def in_week(number: int, day: int = 0) -> int:
    """A time in a wave of the weekly series."""
    return NOON + (number - 1) * WEEK + day * DAY


def panel_of(whole: Campaign, secret: bytes) -> tuple[int, ...]:
    """The waves that a device with a secret answers."""
    assert whole.series is not None
    return whole.series.panel(drawn_from(secret, f"panel {whole.id}"))


def secret_with(whole: Campaign, wave: int) -> bytes:
    """The secret of a device that answers a wave."""
    tries = (hashlib.sha256(f"secret {attempt}".encode()).digest() for attempt in itertools.count())
    return next(secret for secret in tries if wave in panel_of(whole, secret))


def queues_wave(whole: Campaign, number: int) -> Step:
    """A wave that is answered in its own week, and waits to be sent."""
    asked = wave_of(whole, number)
    return Step(do="submit", code="done", description=asked, held=HELD, draws=True, at=in_week(number))


def own_wave(whole: Campaign, secret: bytes) -> Description:
    """The first wave of a series that a device with a secret answers."""
    return wave_of(whole, panel_of(whole, secret)[0])


def waves() -> Iterator[History]:
    """Collectors of series that keep their word, and what people and clocks do."""
    once, twice = weekly(), weekly(answers=2)
    third, second = secret_with(once, 3), secret_with(twice, 2)
    yield History(
        name="series-one-answer",
        what="six weeks, one answer: in the device's own wave and in no other",
        secret=third,
        steps=(
            YES,
            *(refuses("other-wave", wave_of(once, number), at=in_week(number)) for number in (1, 2)),
            answers(wave_of(once, 3), at=in_week(3)),
            repeats(at=in_week(3, day=6)),
            *(refuses("other-wave", wave_of(once, number), at=in_week(number)) for number in (4, 5, 6)),
        ),
    )
    yield History(
        name="series-two-answers",
        what="six weeks, two answers: the first pays for both, and each has noise of its own",
        secret=second,
        steps=(
            YES,
            refuses("other-wave", wave_of(twice, 1), at=in_week(1)),
            answers(wave_of(twice, 2), at=in_week(2)),
            *(refuses("other-wave", wave_of(twice, number), at=in_week(number)) for number in (3, 4)),
            answers(wave_of(twice, 5), held=OTHER, at=in_week(5)),
            repeats(at=in_week(5, day=1)),
            refuses("other-wave", wave_of(twice, 6), at=in_week(6)),
        ),
    )
    rounds = weekly(mechanism="privkvm", rounds=3)
    asked = [describe(rounds.wave(3), stage) for stage in rounds.wave(3).protocol().stages()]
    yield History(
        name="series-rounds",
        what="a wave of several rounds costs the wave's epsilon together",
        secret=secret_with(rounds, 3),
        steps=(
            YES,
            *(answers(each, at=in_week(3)) for each in asked),
            *(repeats(each, at=in_week(3, day=2)) for each in asked),
            refuses("over-promise", {**asked[0], "number": 9}, at=in_week(3, day=2)),
        ),
    )
    yield History(
        name="series-asleep",
        what="a device that slept through its wave answers none, and spends nothing",
        secret=third,
        steps=(
            YES,
            refuses("other-wave", wave_of(once, 2), at=in_week(2)),
            refuses("expired", wave_of(once, 3), at=in_week(4)),
            refuses("other-wave", wave_of(once, 4), at=in_week(4)),
            refuses("expired", wave_of(once, 6), at=in_week(7)),
        ),
    )
    yield History(
        name="series-clock-back",
        what="a clock set back brings no wave back, neither an answer nor its repetition",
        secret=second,
        steps=(
            YES,
            answers(wave_of(twice, 2), at=in_week(2)),
            repeats(at=in_week(1)),
            refuses("other-wave", wave_of(twice, 3), at=in_week(3)),
            refuses("expired", wave_of(twice, 2), at=in_week(2)),
            answers(wave_of(twice, 5), at=in_week(1)),
            refuses("expired", wave_of(twice, 2), at=in_week(1)),
        ),
    )
    yield History(
        name="series-clock-ahead",
        what="a clock that was years ahead once has ended all waves, also when it is set right",
        secret=second,
        steps=(
            YES,
            refuses("expired", wave_of(twice, 2), at=in_week(2) + 4 * 365 * DAY),
            *(refuses("expired", wave_of(twice, number), at=in_week(number)) for number in (2, 5)),
        ),
    )
    yield History(
        name="series-restart",
        what="a device that starts again, is told no, and yes again: the wave stays answered",
        secret=third,
        steps=(
            YES,
            answers(wave_of(once, 3), at=in_week(3)),
            repeats(at=in_week(3)),
            NO,
            refuses("disabled", at=in_week(3)),
            YES,
            refuses("answered", at=in_week(3)),
            refuses("pinned", wave_of(once, 3, "late"), at=in_week(3)),
        ),
    )
    yield History(
        name="series-late-upload",
        what="what waits of an earlier wave goes to that wave; one that fails holds up no other",
        secret=second,
        notes_requests=True,
        steps=(
            YES,
            queues_wave(twice, 2),
            sends("waiting", BUSY, on_day=8),
            queues_wave(twice, 5),
            sends("refused", ALL_ACCEPTED, {"status": 404, "body": ""}, on_day=29),
            sends("done", {"status": 200, "body": '{"reports":["round-closed"]}'}, on_day=31),
            sends("done", on_day=32),
        ),
    )
    hidden = weekly(answers=2, relay="allowed", batch=10)
    both = lists(OLD_KEY), lists(OLD_KEY)
    yield History(
        name="series-one-way",
        what="the way of a series' first reports is that of all its waves",
        secret=secret_with(hidden, 2),
        keys=(OLD_KEY,),
        steps=(
            YES,
            queues_wave(hidden, 2),
            relays("waiting", *both, BUSY, on_day=8),
            Step(
                do="submit",
                code="done",
                description=wave_of(hidden, 5),
                held=OTHER,
                draws=True,
                at=in_week(5),
            ),
            sends("other-route", on_day=29),
            relays("done", *both, ALL_ACCEPTED, ALL_ACCEPTED, on_day=29),
        ),
    )


def hostile_waves() -> Iterator[History]:
    """Collectors of series that do not."""
    once, twice = weekly(), weekly(answers=2)
    third, second = secret_with(once, 3), secret_with(twice, 2)
    yield History(
        name="hostile-series-added-keys",
        what="a wave is opened again with keys that came later: it has had its one answer",
        secret=third,
        steps=(
            YES,
            answers(wave_of(once, 3), at=in_week(3)),
            refuses("pinned", wave_of(once, 3, "d"), at=in_week(3)),
            refuses("pinned", wave_of(once, 3, "d", "e"), at=in_week(3)),
            repeats(wave_of(once, 3), at=in_week(3)),
        ),
    )
    yield History(
        name="hostile-series-two-campaigns",
        what="two campaigns for one wave of a device that answers two waves: the first is the wave for good",
        secret=second,
        steps=(
            YES,
            answers(wave_of(twice, 2, "d"), at=in_week(2)),
            refuses("pinned", wave_of(twice, 2), at=in_week(2)),
            refuses("pinned", wave_of(twice, 2, "e"), at=in_week(2)),
            answers(wave_of(twice, 5), at=in_week(5)),
            refuses("pinned", wave_of(twice, 5, "d"), at=in_week(5)),
        ),
    )
    shorter = [weekly(series={**WEEKLY, "waves": waves}) for waves in (5, 4, 3)]
    yield History(
        name="hostile-series-shrunk",
        what="fewer waves under the same name are another series, at a price of its own",
        secret=third,
        caps={"campaign": 4, "lifetime": 3},
        steps=(
            YES,
            answers(wave_of(once, 3)),
            *(answers(own_wave(each, third)) for each in shorter[:2]),
            refuses("over-lifetime-cap", own_wave(shorter[2], third)),
            repeats(wave_of(once, 3)),
        ),
    )
    told = wave_of(once, 3)
    yield History(
        name="hostile-series-beyond",
        what="waves that there are not, and a series as a whole, are no question",
        secret=third,
        steps=(
            YES,
            *(
                refuses(
                    "bad-description",
                    {**told, "campaign": told["campaign"].replace('"wave":3', f'"wave":{number}')},
                )
                for number in ("0", "7", "-3", "3.0", '"3"', "1e3")
            ),
            refuses("bad-description", {**told, "campaign": told["campaign"].replace(',"wave":3', "")}),
            answers(told),
        ),
    )
    more = [weekly(answers=number) for number in (5, 3)]
    yield History(
        name="hostile-series-more-answers",
        what="more answers make another series, and its price must fit before the first of them",
        secret=third,
        caps={"campaign": 4, "lifetime": 3.5},
        steps=(
            YES,
            answers(told),
            refuses("over-campaign-cap", own_wave(more[0], third)),
            refuses("over-lifetime-cap", own_wave(more[1], third)),
            refuses("other-wave", wave_of(once, 4)),
        ),
    )
    moved = [weekly(series={**WEEKLY, "start": f"2027-01-{day}"}) for day in (16, 17)]
    yield History(
        name="hostile-series-moved",
        what="a start that moves makes another series: every one is booked",
        secret=third,
        caps={"campaign": 1, "lifetime": 2},
        steps=(
            YES,
            answers(told),
            answers(own_wave(moved[0], third)),
            refuses("over-lifetime-cap", own_wave(moved[1], third)),
        ),
    )
    yield History(
        name="hostile-series-at-once",
        what="all waves at once, twice: the device's own are answered, each once",
        secret=second,
        steps=(
            YES,
            *(
                answers(wave_of(twice, number))
                if number in (2, 5)
                else refuses("other-wave", wave_of(twice, number))
                for number in range(1, 7)
            ),
            *(
                repeats(wave_of(twice, number))
                if number in (2, 5)
                else refuses("other-wave", wave_of(twice, number))
                for number in range(6, 0, -1)
            ),
        ),
    )
    alone = asking().device_config()
    yield History(
        name="hostile-series-and-campaign",
        what="the same question in a series and alone: two prices, and the device's own cap",
        secret=third,
        caps={"campaign": 4, "lifetime": 2},
        steps=(
            YES,
            answers(told),
            answers(alone),
            refuses("over-lifetime-cap", asking(name="again").device_config()),
            repeats(told),
            repeats(alone),
        ),
    )
    yield History(
        name="hostile-series-cheap-wave",
        what="rounds of a wave, cheap ones first: they cost its epsilon, and the series is booked whole",
        secret=third,
        caps={"campaign": 2, "lifetime": 1.5},
        steps=(
            YES,
            answers({**told, "mechanism": {"id": "kvue", "epsilon": "1/4"}}),
            refuses("over-promise", {**told, "number": 2}),
            answers({**told, "mechanism": {"id": "kvue", "epsilon": "3/4"}, "number": 2}),
            refuses("over-promise", {**told, "mechanism": {"id": "kvue", "epsilon": "1/4"}, "number": 3}),
            refuses("over-lifetime-cap", alone),
        ),
    )
    fewer = weekly(keys=["a"])
    yield History(
        name="hostile-series-first-keys",
        what="a wave that says that it began with fewer keys is one of another series",
        secret=third,
        caps={"campaign": 1, "lifetime": 2},
        steps=(
            YES,
            answers(told),
            answers(wave_of(fewer, panel_of(fewer, third)[0], "b", "c")),
            refuses("over-lifetime-cap", own_wave(weekly(keys=["b"]), third)),
        ),
    )


def years() -> Iterator[History]:
    """An allowance for a year, which no clock that is set back renews."""
    asked = [asking(name=f"year {number}").device_config() for number in range(5)]
    yield History(
        name="life-yearly-cap",
        what="so much a year: what was told a year ago counts no more",
        caps={"campaign": 4, "lifetime": 100, "yearly": 2},
        steps=(
            YES,
            answers(asked[0]),
            answers(asked[1], at=NOON + 100 * DAY),
            refuses("over-yearly-cap", asked[2], at=NOON + 364 * DAY),
            answers(asked[2], at=NOON + 365 * DAY),
            refuses("over-yearly-cap", asked[3], at=NOON + 366 * DAY),
            repeats(asked[0], at=NOON + 366 * DAY),
            answers(asked[3], at=NOON + 465 * DAY),
        ),
    )
    yield History(
        name="life-yearly-cap-clock-back",
        what="a clock set back renews nothing, and one set ahead renews once",
        caps={"campaign": 4, "lifetime": 100, "yearly": 1},
        steps=(
            YES,
            answers(asked[0]),
            refuses("over-yearly-cap", asked[1], at=NOON - 400 * DAY),
            answers(asked[1], at=NOON + 365 * DAY),
            refuses("over-yearly-cap", asked[2], at=NOON),
            refuses("over-yearly-cap", asked[2], at=NOON - 1000 * DAY),
            refuses("over-yearly-cap", asked[2], at=NOON + 729 * DAY),
            answers(asked[2], at=NOON + 730 * DAY),
        ),
    )
    yield History(
        name="life-yearly-cap-told-in-the-past",
        what="what is told while the clock is set back was told at the latest time that was seen",
        caps={"campaign": 4, "lifetime": 100, "yearly": 2},
        steps=(
            YES,
            answers(asked[0], at=NOON + 400 * DAY),
            answers(asked[1], at=NOON),
            refuses("over-yearly-cap", asked[2], at=NOON + 400 * DAY),
            refuses("over-yearly-cap", asked[2], at=NOON),
            answers(asked[2], at=NOON + 765 * DAY),
        ),
    )
    twice = weekly(answers=2)
    secret = secret_with(twice, 2)
    yield History(
        name="series-yearly-cap",
        what="a year counts answers when they are given, a life counts a series with the first",
        secret=secret,
        caps={"campaign": 4, "lifetime": 3, "yearly": 1.5},
        steps=(
            YES,
            answers(wave_of(twice, 2), at=in_week(2)),
            refuses("over-yearly-cap", asked[0], at=in_week(3)),
            refuses("over-yearly-cap", wave_of(twice, 5), at=in_week(5)),
            answers(asked[0], at=in_week(2) + 365 * DAY),
            refuses("over-lifetime-cap", asked[1], at=in_week(2) + 800 * DAY),
        ),
    )


# --- rounds and places ---


def describe(campaign: Campaign, stage: Round) -> Description:
    """A stage of a protocol as the collector would describe it."""
    return campaign.device_config(replace(stage, campaign=campaign.id))


def members(campaign: Campaign) -> Iterator[tuple[str, bytes, dict[str, Description]]]:
    """For each round of disjoint groups: its purpose, the secret of a device in its group, and all rounds."""
    stages = campaign.protocol().stages()
    rounds = {stage.purpose: describe(campaign, stage) for stage in stages}
    for stage in stages:
        yield stage.purpose, _secret_in(campaign, stage), rounds


def grouped(rounds: dict[str, Description], own: str) -> Iterator[Step]:
    """All rounds in order: one of them is answered."""
    for purpose, asked in rounds.items():
        yield answers(asked) if purpose == own else refuses("other-group", asked)
    yield repeats(rounds[own])


def _secret_in(campaign: Campaign, stage: Round) -> bytes:
    for attempt in range(10_000):
        secret = hashlib.sha256(f"secret {attempt}".encode()).digest()
        place = int.from_bytes(hmac.digest(secret, f"place {campaign.id}".encode(), "sha256"), "big")
        if stage.asks(Fraction(place, 1 << 256)):
            return secret
    raise AssertionError("no secret puts a device into the group")


def segmented() -> Iterator[History]:
    """Devices that say in the clear what they are."""
    told = {"told": "clear", "country": ["de", "fr"], "platform": ["android", "ios"]}
    asked = asking(segments=told).device_config()
    ios, moved = {"platform": "ios", "country": "fr"}, {"platform": "android", "country": "de"}
    yield History(
        name="segments-one-answer",
        what="what was answered once is repeated, whatever the labels become, and the record is not read",
        steps=(
            YES,
            answers(asked, segments=ios),
            repeats(segments=moved),
            repeats(),
            repeats(asked, segments={"platform": None, "stranger": "x"}, at=NOON + 300 * DAY),
        ),
    )
    yield History(
        name="segments-other",
        what="what nobody declared, and what is not said, is other",
        steps=(YES, answers(asked, segments={"platform": "Windows", "version": "7"}), repeats(segments=ios)),
    )
    yield History(
        name="segments-unsaid",
        what="a device that says nothing of itself answers as other",
        steps=(YES, answers(asked), repeats(segments=ios)),
    )
    weekly = {"every": "week", "waves": 2, "answers": 2, "start": "2026-11-23"}
    whole = asking(series=weekly, segments=told)
    opens = int(datetime(2026, 11, 23, tzinfo=UTC).timestamp())
    yield History(
        name="segments-waves",
        what="every wave is answered with the labels of its time",
        steps=(
            replace(YES, at=opens),
            answers(whole.wave(1).device_config(), segments=ios, at=opens),
            answers(whole.wave(2).device_config(), segments=moved, at=opens + 7 * DAY),
            repeats(segments=ios, at=opens + 7 * DAY),
        ),
    )
    plain = {name: value for name, value in asked.items() if name not in ("labels", "dither")}
    yield History(
        name="hostile-segments",
        what="a round with other labels than the campaign declares, or with none, is no round of it",
        steps=(
            YES,
            refuses("bad-description", {**asked, "labels": [2, 3]}, segments=ios),
            refuses("bad-description", {**asked, "labels": [2]}, segments=ios),
            refuses("bad-description", {**plain, "format": "keyveil-round/1"}, segments=ios),
            refuses("bad-description", {**plain, "format": "keyveil-round/2", "dither": 16}, segments=ios),
            answers(asked, segments=ios),
            refuses("pinned", {**asked, "dither": 32}, segments=moved),
            repeats(asked, segments=moved),
        ),
    )
    secret = asking().device_config()
    yield History(
        name="hostile-segments-unasked",
        what="a campaign that tells nobody apart is told nothing, whatever a round says",
        steps=(
            YES,
            refuses("bad-description", {**secret, "format": "keyveil-round/3", "labels": [2]}, segments=ios),
            answers(secret, segments=ios),
        ),
    )


def crossed() -> Iterator[History]:
    """Devices that are asked for pairs of keys, or for keys by a segment that nobody is told."""
    told = {"told": "private", "platform": ["android", "ios"]}
    both = asking("bucket", pairs="all", pairs_per_user=2)
    yield History(
        name="crossed-pairs",
        what="pairs are answered once, at the campaign's price",
        steps=(YES, answers(both.device_config()), repeats()),
    )
    for mechanism in ("kvue", "bucket"):
        asked = asking(mechanism, segments=told).device_config()
        yield History(
            name=f"crossed-private-{mechanism}",
            what="the label is hidden in the answer, which is repeated whatever the label becomes",
            steps=(
                YES,
                answers(asked, segments={"platform": "ios"}),
                repeats(segments={"platform": "android"}),
                repeats(asked),
            ),
        )
    asked, plain = asking(segments=told).device_config(), asking().device_config()
    yield History(
        name="hostile-crossed",
        what="what is asked about follows from the campaign's text, whatever a round says",
        steps=(
            YES,
            refuses("bad-description", {**asked, "format": "keyveil-round/3", "labels": [2]}),
            refuses("bad-description", {**asked, "keys": [99]}),
            refuses("bad-description", {**plain, "keys": [3]}),
            answers(asked, segments={"platform": "ios"}),
            answers(plain, segments={"platform": "ios"}),
            refuses("pinned", {**asked, "keys": [0]}),
        ),
    )
