"""Write tests/vectors: what every implementation of a device must send, byte for byte.

    python scripts/vectors.py            writes the files; the tests check that they are up to date

One file a method and allocation. A suite is the description of a round and cases: what a user holds, its
record (code and level of each pair), random words (little endian, in hexadecimal), the report's id, the
answer and the report; and the tally of all reports. The public word of a hash is not among the words, nor is
that of a dither: they follow from the id. `bad_*.json` hold what must be refused, and with which code.

    exact.json         exponentials and logarithms, as integers
    calibration.json   mechanisms by name, and the integers that every device must make of them
    kernels.json       tiny kernels: for every record and answer, words that give it and its exact chance
    nonces.json        what devices ask for ids with, where a collector hands them out
    series.json        calendars, panels, texts and ids of series: see `series`
    sealed.json        HPKE as RFC 9180 prints it, sealed reports, and what must not open: see `sealed`
    crossed.json       pairs of keys, and keys by a segment that nobody is told
    segments.json      reports with clear labels behind the answer, and what a device says of itself
    *_issued.json      methods whose index or hash follows from such an id
    hostile/           descriptions of rounds, most of them spoilt, and what a device says of each
    histories/         whole lives of devices, honest and hostile collectors: see `histories`
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import calibrations
import histories
import hostile
import sealed
import series
from calibrations import scripted_words
from keyveil import Campaign
from keyveil.client.ledger import nonce_of
from keyveil.mechanisms import REGISTRY
from keyveil.methods import has_several_rounds
from keyveil.report import Envelope, Subset, Symbol, frame, to_frames
from keyveil.rounds import Round
from keyveil.segments import Segments
from keyveil.tally import Tally

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "vectors"
NAMES = (
    "maps",
    "mail",
    "chess",
    "Zürich",
    "日本",
    "a b",
    "0",
    "10",
    "2",
    "=cmd()",
    *map(str, range(100, 390)),
)

# Keys, padding length, `other`: all codes in one plane word, more than two, and the smallest question.
SIZES = ((10, 3, True), (70, 2, False), (1, 1, False))
# A method of every shape of report.
SHAPES = ("pckv-ue", "kvue", "subset", "ue-sw", "olh", "rappor-harmony")
# Sets so many that a number of two words does not tell them apart.
MANY_SETS = (300, 1, False)
STAGES = ("privkvm", "privkvm-star", "ks-grr", "auto")
ISSUING = (
    *(name for name, cls in REGISTRY.items() if cls.follows_ids and not has_several_rounds(name)),
    *STAGES[:2],
)


def files() -> dict[str, str]:
    """Every file and its text."""
    texts = {}
    for name in _methods():
        suites = [suite(campaign, asked) for campaign in _campaigns(name) for asked in _rounds(campaign)]
        texts[f"{name.replace(':', '_')}.json"] = _to_text({"method": name, "suites": suites})
    for name in ISSUING:
        asking = [replace(campaign, ids="issued") for campaign in _campaigns(name)]
        suites = [suite(campaign, asked) for campaign in asking for asked in _rounds(campaign)]
        texts[f"{name}_issued.json"] = _to_text({"method": name, "suites": suites})
    texts["crossed.json"] = _to_text({"method": "crossed", "suites": list(crossed_suites())})
    texts["segments.json"] = _to_text({"method": "segments", "suites": list(segmented())})
    texts["nonces.json"] = _to_text({"nonces": nonces()})
    for kind, cases in (("reports", bad_reports), ("frames", bad_frames), ("json", bad_json)):
        texts[f"bad_{kind}.json"] = _to_text({"refuse": cases()})
    for name, content in (
        *calibrations.files().items(),
        *hostile.files().items(),
        *histories.files().items(),
        *sealed.files().items(),
        *series.files().items(),
    ):
        texts[name] = _to_text(content)
    return texts


def segmented() -> Iterator[dict[str, Any]]:
    """Every shape of report with labels; attributes of one value and of 64, in no order of their own."""
    many = {"told": "clear", "version": [str(n) for n in range(64)], "a-b": ["日本", "a b"], "a": ["x"]}
    for name, said in (
        *((name, {"told": "clear", "platform": ["android", "ios", "web"]}) for name in SHAPES),
        ("bucket", {**many, "a_b": ["null", "0"]}),
        ("auto", many),
    ):
        campaign = replace(next(iter(_campaigns(name))), segments=Segments.from_fields(said))
        yield from (suite(campaign, asked) for asked in _rounds(campaign))


def crossed_suites() -> Iterator[dict[str, Any]]:
    """Keys and pairs of them, all and some, and keys by segment, in reports that tell signs."""
    some = {"pairs": ["日本", "maps", "a b", "maps", "mail", "chess"]}
    private = {"segments": Segments(told="private", attributes=(("platform", ("android", "ios", "web")),))}
    for name in ("bucket", "kvue", "pckv-grr", "pckv-ue"):
        for more in ({"pairs": "all"}, some, private):
            campaign = replace(next(iter(_campaigns(name))), **more)
            yield from (suite(campaign, asked) for asked in _rounds(campaign))


def _said_of(segments: Segments | None, number: int) -> dict[str, str | None]:
    """What a device says of itself: nothing, what nobody declared, each value in turn."""
    if segments is None or number == 0:
        return {}
    if number == 1:
        return dict.fromkeys(segments.names, "somewhere else") | {"stranger": "x"}
    return {
        name: None if number == 2 and place else values[(-number) % len(values)]
        for place, (name, values) in enumerate(segments.attributes)
    }


def suite(campaign: Campaign, round: Round) -> dict[str, Any]:
    """One config, its cases and their tally."""
    made = [case(campaign, round, number, held) for number, held in enumerate(_held(campaign))]
    tally = campaign.tally([bytes.fromhex(one["report"]) for one in made], round)
    return {
        "description": campaign.device_config(round),
        "cases": made,
        "tally": {
            "n_reports": tally.n_reports,
            "cells": {name: cells.tolist() for name, cells in sorted(tally.cells.items())},
            **({"segments": _parts(tally)} if tally.segments else {}),
        },
    }


def _parts(tally: Tally) -> list[Any]:
    """How many reports named each segment, by its attribute's place and its label."""
    return [[*segment, part.n_reports] for segment, part in tally.segments.items()]


def case(campaign: Campaign, round: Round, number: int, held: dict[str, float]) -> dict[str, Any]:
    """What one device sends."""
    label = f"{campaign.name}/{campaign.mechanism}/{round.number}/{number}"
    words = scripted_words(label, round.mechanism.n_words)
    report_id = hashlib.sha256(f"id {label}".encode()).digest()[:16]
    said = _said_of(campaign.segments, number)
    labels = () if campaign.segments is None else campaign.segments.labels(said)
    hidden = labels[0] if labels and not campaign.clear_labels else 0
    encoded = campaign.domain.encode(held, hidden)
    clear = labels if campaign.clear_labels else ()
    report = round.report(encoded, report_id, labels=clear, entropy=lambda _: words)
    answer, told = round.read(Envelope.from_bytes(report).payload)
    return {
        "held": held,
        **({"segments": said} if labels else {}),
        **({"labels": list(told)} if told else {}),
        "record": [[pair.code, str(pair.level)] for pair in round.narrow(encoded).pairs],
        "words": words.data.hex(),
        "report_id": report_id.hex(),
        "answer": answer if isinstance(answer, int) else list(answer),
        "report": report.hex(),
    }


def _methods() -> Iterator[str]:
    for name, cls in REGISTRY.items():
        if not has_several_rounds(name):
            yield name
            yield from (f"{name}:{allocation.value}" for allocation in cls.allocations[1:])
    yield from STAGES


def _campaigns(name: str) -> Iterator[Campaign]:
    has_bins = any(kind in name for kind in ("ue-sw", "star"))
    for n_keys, pairs_per_user, other in (*SIZES, *([MANY_SETS] if name == "subset" else [])):
        if n_keys > 1 or name not in STAGES:
            yield Campaign(
                name=f"vectors of {n_keys} keys",
                epsilon=1.5,
                keys=NAMES[:n_keys],
                value_range=(-3.0, 60.0),
                pairs_per_user=pairs_per_user,
                mechanism=name,
                other=other,
                bins=7 if has_bins else None,
                rounds=2 if name == "privkvm" else None,
                # Every method once with its values rounded by words of the device's own.
                dither=1 if n_keys == SIZES[1][0] else None,
            )


def _rounds(campaign: Campaign) -> Iterator[Round]:
    if not campaign.has_several_rounds:
        yield campaign.only_round()
        return
    for stage in campaign.protocol().stages():
        keys = None if stage.keys is None else tuple(reversed(stage.keys))
        yield replace(stage, campaign=campaign.id, keys=keys)


def _held(campaign: Campaign) -> list[dict[str, float]]:
    """Nothing, one pair, ends of the range and beyond, as many as l, all; unknown keys among them."""
    names = campaign.keys
    some = [names[place % len(names)] for place in (0, 3, 7)]
    return [
        {},
        {names[0]: 12.25},
        {names[-1]: 60.0},
        {names[0]: -1e300, names[-1]: 1e300},
        dict(zip(some, (-3.0, 0.1, 33.3), strict=True)),
        {"unknown": 1.1, "stranger": 2.2, "third": 3.3, names[0]: 59.999},
        {name: 60.0 * place / len(names) for place, name in enumerate(names)},
        dict.fromkeys(names[: campaign.pairs_per_user], 28.5),
    ]


def nonces() -> list[dict[str, Any]]:
    """What a device with a secret asks for the ids of its answers with."""
    named = [(fill, hashlib.sha256(fill.encode()).hexdigest()) for fill in ("one", "two")]
    return [
        {
            "secret": hashlib.sha256(f"secret {fill}".encode()).hexdigest(),
            "campaign": campaign,
            "round": round,
            "nonce": nonce_of(hashlib.sha256(f"secret {fill}".encode()).digest(), campaign, round).hex(),
        }
        for fill, campaign in named
        for round in (1, 2, 65535)
    ]


def bad_reports() -> list[dict[str, Any]]:
    """Bytes that are no report of their campaign."""
    cases: list[dict[str, Any]] = []
    for name in ("pckv-ue", "pckv-grr", "kvue", "oue", "subset", "ue-sw", "krr-harmony", "bucket", "olh"):
        campaign = next(iter(_campaigns(name)))
        (asked,) = _rounds(campaign)
        layout = asked.mechanism.layout
        good = bytes.fromhex(case(campaign, asked, 0, {})["report"])
        n = layout.n_bytes

        def with_payload(payload: bytes, good: bytes = good, n: int = n) -> bytes:
            return good[: len(good) - n] + payload

        spoilt = {
            "nothing at all": (b"", "wrong-length"),
            "half a header": (good[:20], "wrong-length"),
            "a byte too few": (good[:-1], "wrong-length"),
            "a byte too many": (good + b"\0", "wrong-length"),
            "version 0": (b"\0" + good[1:], "unknown-version"),
            "version 2": (b"\2" + good[1:], "unknown-version"),
            "another campaign": (good[:1] + bytes(16) + good[17:], "wrong-campaign"),
            "another round": (good[:17] + b"\2\0" + good[19:], "wrong-round"),
            "all bits set": (with_payload(b"\xff" * n), "not-canonical"),
        }
        if isinstance(layout, Symbol):
            beyond = layout.size.to_bytes(n, "little")
            spoilt["the first symbol that is none"] = (with_payload(beyond), "not-canonical")
        elif isinstance(layout, Subset):
            named = int.from_bytes(good[-n:], "little")
            fewer, more = (places.to_bytes(n, "little") for places in (named & named - 1, named | named + 1))
            spoilt["a symbol too few"] = (with_payload(fewer), "not-canonical")
            spoilt["a symbol too many"] = (with_payload(more), "not-canonical")
        elif 8 * n > layout.length * getattr(layout, "bits", 2):
            beyond = good[-1] | 0x80
            spoilt["a bit behind the last number"] = (good[:-1] + bytes([beyond]), "not-canonical")
        if asked.mechanism.public_word is not None:
            other_id = bytes(byte ^ 1 for byte in good[19:35])
            spoilt["a hash of the device's choice"] = (good[:19] + other_id + good[35:], "wrong-cohort")
        for why, (report, code) in spoilt.items():
            cases.append(
                {
                    "why": why,
                    "description": campaign.device_config(asked),
                    "report": report.hex(),
                    "code": code,
                }
            )
        if name == "kvue":
            cases.append(_index_of_choice(campaign))
            cases += _bad_labels(campaign)
    return cases


def _index_of_choice(campaign: Campaign) -> dict[str, Any]:
    """A report whose id was handed out, and gives another index."""
    issuing = replace(campaign, ids="issued")
    good = bytes.fromhex(case(issuing, issuing.only_round(), 0, {})["report"])
    other_id = bytes(byte ^ 1 for byte in good[19:35])
    return {
        "why": "an index of the device's choice",
        "description": issuing.device_config(),
        "report": (good[:19] + other_id + good[35:]).hex(),
        "code": "wrong-cohort",
    }


def _bad_labels(campaign: Campaign) -> Iterator[dict[str, Any]]:
    """Reports with labels that nobody declared, with too few of them and too many."""
    segments = Segments.from_fields({"told": "clear", "country": ["de"], "platform": ["android", "ios"]})
    asking = replace(campaign, segments=segments)
    good = bytes.fromhex(case(asking, asking.only_round(), 0, {})["report"])
    for why, report, code in (
        ("a label beyond the first attribute's", good[:-2] + b"\2\0", "not-canonical"),
        ("a label beyond the second attribute's", good[:-2] + b"\1\3", "not-canonical"),
        ("labels of all bits", good[:-2] + b"\xff\xff", "not-canonical"),
        ("a label too few", good[:-1], "wrong-length"),
        ("a label too many", good + b"\0", "wrong-length"),
        ("no labels", good[:-2], "wrong-length"),
    ):
        yield {"why": why, "description": asking.device_config(), "report": report.hex(), "code": code}


def bad_frames() -> list[dict[str, Any]]:
    """Streams that are no batch; at most 2 reports of at most 64 bytes are allowed."""
    one = frame(bytes(40))
    spoilt: dict[str, tuple[bytes, str]] = {
        "a length cut short": (one + b"\1\0", "truncated-frame"),
        "a report cut short": (one + one[:-1], "truncated-frame"),
        "a length without a report": (b"\1\0\0\0", "truncated-frame"),
        "a report too long": (frame(bytes(65)), "frame-too-large"),
        "a length that fits no memory": (b"\xff\xff\xff\xff", "frame-too-large"),
        "a report too many": (to_frames([b"", b"", b""]), "too-many-reports"),
    }
    return [
        {"why": why, "largest": 64, "most": 2, "stream": stream.hex(), "code": code}
        for why, (stream, code) in spoilt.items()
    ]


def bad_json() -> list[dict[str, Any]]:
    """Texts that are no report."""
    good = Envelope(campaign=bytes(16), round=1, report_id=bytes(range(16)), payload=b"\1\2\3\4").to_json()

    def changed(**fields: Any) -> str:
        return json.dumps(json.loads(good) | fields)

    def without(name: str) -> str:
        return json.dumps({key: value for key, value in json.loads(good).items() if key != name})

    spoilt: dict[str, tuple[str, str]] = {
        "nothing": ("", "not-json"),
        "no JSON": (good[:-1], "not-json"),
        "no object": ("[1]", "not-json"),
        "too deep": ("[" * 3000, "not-json"),
        "a field missing": (without("round"), "not-json"),
        "a field too many": (changed(user="me"), "not-json"),
        "a field twice": (good[:-1] + ', "round": 1}', "not-json"),
        "a round in text": (changed(round="1"), "not-json"),
        "a round that is a truth value": (changed(round=True), "not-json"),
        "a round too large": (changed(round=65536), "not-canonical"),
        "a negative round": (changed(round=-1), "not-canonical"),
        "version 2": (changed(version=2), "unknown-version"),
        "a short campaign": (changed(campaign="00"), "not-canonical"),
        "capital digits": (changed(campaign="AB" * 16), "not-canonical"),
        "spaces in an id": (changed(report_id="00 " * 10 + "00"), "not-canonical"),
        "no base64": (changed(payload="%%%%"), "not-canonical"),
        "unpadded base64": (changed(payload="AQIDBA"), "not-canonical"),
        "loose bits in base64": (changed(payload="AQIDBB=="), "not-canonical"),
    }
    return [{"why": why, "text": text, "code": code} for why, (text, code) in spoilt.items()]


def _to_text(content: dict[str, Any]) -> str:
    """JSON, one line a suite or case."""
    dump: Callable[[Any], str] = lambda value: json.dumps(value, ensure_ascii=False)  # noqa: E731
    lines = []
    for name, value in content.items():
        if not isinstance(value, list):
            lines.append(f"{dump(name)}: {dump(value)}")
            continue
        items = ",\n".join(_item(dump, item) for item in value)
        lines.append(f"{dump(name)}: [\n{items}\n]")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _item(dump: Callable[[Any], str], item: dict[str, Any]) -> str:
    if "cases" not in item:
        return f"  {dump(item)}"
    cases = ",\n".join(f"    {dump(case)}" for case in item["cases"])
    head, tail = (f'"{name}": {dump(item[name])}' for name in ("description", "tally"))
    return f'  {{{head},\n  "cases": [\n{cases}\n  ],\n  {tail}}}'


if __name__ == "__main__":
    made = files()
    FOLDER.mkdir(exist_ok=True)
    for stale in FOLDER.rglob("*.json"):
        stale.unlink()
    for file_name, text in made.items():
        (FOLDER / file_name).parent.mkdir(exist_ok=True)
        (FOLDER / file_name).write_text(text, encoding="utf-8")
        print(f"{file_name}  {len(text):,} characters")
