"""Descriptions that a hostile or broken collector might send, and what a device says of each.

One file a mechanism, and one of rounds and campaigns. Every field is left out, and given every kind of value
that it must not have; what is accepted nevertheless is honest in its way, and its price is written beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from keyveil import Campaign
from keyveil.errors import KeyveilError
from keyveil.mechanisms.registry import NAMED
from keyveil.numerics import price

Description = dict[str, Any]
DROPPED = object()

HUGE = 10**30
NESTED: Any = [[[[[[[[1]]]]]]]]
# What no field is.
FOREIGN: tuple[Any, ...] = (DROPPED, None, True, "", "text", -1, 1.5, [], {}, NESTED, {"a": {"b": 1}}, HUGE)
FRACTIONS: tuple[Any, ...] = (
    *(DROPPED, None, True, 1, 0.5, "", [], {}, NESTED),
    *("0", "-1", "33", "1/0", "0/1", "2/4", "1/1", "01", "+1", " 1", "1 ", "1e1", "0.1", "NaN", "Infinity"),
    *("1e-400000000", "9" * 41, f"1/{'9' * 41}", "1/2/3", "½", "\uff11", "1/", "/2", "1\n"),
)
SIZES: tuple[Any, ...] = (*FOREIGN, 0, 1 << 21, 1 << 53, 1e300, "1", "1e3")
FIELDS: dict[str, tuple[Any, ...]] = {
    "epsilon": (*FRACTIONS, "32", "1/3"),
    "key_epsilon": (*FRACTIONS, "32", "1/3"),
    "sign_epsilon": (*FRACTIONS, "32", "1/3"),
    "allocation": (*FOREIGN, "optimal", "tight", "naive", "extremal", "OPTIMAL", "__proto__", "constructor"),
    "pairs_per_user": (*SIZES, 1, 2, 3, 8193),
    "bins": (*SIZES, 1, 3, 4097),
    "width": (*SIZES, 2, 1 << 20),
    "buckets": (*SIZES, 1, 2, 5),
    "occupied": (*SIZES, 2, 3),
    "tie": (*FOREIGN[:-1], 1 << 32, (1 << 32) + 1, -(1 << 32), -(1 << 32) - 1, 7),
    "cohorts": (*SIZES, 3),
    "chosen": (*SIZES, 1, 2, 3, 4096, 4097),
    "largest": (*SIZES, 3),
    "most": (*SIZES, 3),
    "starts": (
        *FOREIGN,
        [0],
        [1],
        [0, 0],
        [0, 2, 1],
        [3, 4],
        [0, 1, 1 << 21],
        [0, 1.5],
        ["0", "1"],
        [1, 2, 9],
    ),
    "popular": (*FOREIGN, [2], [-1], [0, 0], ["0"], [True], [1], [0, 1], [0.5]),
    "levels": (
        *FOREIGN,
        *(["0"], ["0", "1", "2"], [0, 1], ["0", "-1"], ["0", "18446744073709551617"], ["0", "1e3"]),
        *(["00", "1"], ["0", "18446744073709551616"], ["0", "9" * 30]),
    ),
}
RELAYS = (*FOREIGN, "none", "allowed", "required", "REQUIRED", ["required"])
# Only a mechanism with an index or a hash may say that ids are issued, and none may say anything else.
IDS = ("issued", "own", "ISSUED", "", None, True, 1, [], {}, ["issued"], HUGE)
# What devices were once told and believed: integers of a kernel.
KERNELS: tuple[Description, ...] = (
    {"channel": {"keep": "1001", "flip": "18446744073709549615", "fake": "1000"}},
    {"keep": "1", "fake": "2"},
    {"low": "1", "high": "18446744073709551614"},
    {"n_keys": 10, "encoder": {"shape": "own-key", "n_keys": 1}},
    {"shape": "signed-response"},
    {"lie": "0"},
)
SMALL: dict[str, Any] = {
    "epsilon": "1",
    "key_epsilon": "1/2",
    "sign_epsilon": "1/2",
    "pairs_per_user": 2,
    "bins": 2,
    "width": 1,
    "buckets": 3,
    "occupied": 1,
    "tie": 0,
    "cohorts": 2,
    "chosen": 1,
    "largest": 2,
    "most": 1,
    "starts": [0, 1],
    "popular": [0],
    "levels": ["0", "9223372036854775808"],
}


def files() -> dict[str, dict[str, Any]]:
    """A file for each mechanism, and one for the rest."""
    made = {f"hostile/{name}.json": {"cases": list(_judged(mechanisms(name)))} for name in NAMED}
    made["hostile/rounds.json"] = {"cases": list(_judged(rounds()))}
    made["hostile/campaigns.json"] = {"cases": list(_judged(campaigns()))}
    made["hostile/series.json"] = {"cases": list(_judged(waves()))}
    made["hostile/crossed.json"] = {"cases": list(_judged(crossings()))}
    made["hostile/segments.json"] = {"cases": list(_judged(segments()))}
    return made


def campaign(**fields: Any) -> Campaign:
    """The smallest that can be asked about."""
    told = {"name": "c", "epsilon": 1.0, "keys": ["a", "b"], "value_range": [0.0, 1.0], "pairs_per_user": 2}
    told["dither"] = 1
    return Campaign.from_fields({**told, "mechanism": "kvue", **fields})


def base(name: str) -> Description:
    """An honest description that names a mechanism."""
    cls, asking = NAMED[name], campaign()
    fields = {field: SMALL.get(field, cls.allocations[0].value) for field in cls.fields}
    if name == "popular-size":
        fields["starts"] = [1, 2]
    if name == "ue-sw":
        fields["pairs_per_user"] = 1
    return {**asking.device_config(), "mechanism": {"id": name, **fields}}


def mechanisms(name: str) -> Iterator[tuple[str, Description]]:
    """The description of a mechanism, each field spoilt in turn."""
    good = base(name)
    yield "as it should be", good
    for field in NAMED[name].fields:
        for value in FIELDS[field]:
            yield _why(f"mechanism.{field}", value), changed(good, ("mechanism", field), value)
    if name == "privkvm-star-oue":
        yield "a bit for each of too many bins", changed(good, ("mechanism", "bins"), 33)
    for value in IDS:
        yield _why("mechanism.ids", value), changed(good, ("mechanism", "ids"), value)
    for more in KERNELS:
        spoilt = deepcopy(good)
        spoilt["mechanism"] |= more
        yield f"mechanism with {', '.join(more)}", spoilt


def rounds() -> Iterator[tuple[str, Description]]:
    """The description of a round, each field spoilt in turn."""
    good = base("kvue")
    ends = (*FRACTIONS, "2")
    spoilt: dict[str, tuple[Any, ...]] = {
        "format": (
            *FOREIGN,
            "keyveil-round/2",
            "keyveil-round/3",
            "keyveil-round/4",
            "keyveil-device/1",
            "KEYVEIL-ROUND/1",
        ),
        "number": (*SIZES, 65536, 65535, 2),
        "purpose": (*FOREIGN, "x" * 200, "x" * 201, "é", "a\nb", '"'),
        "protocol": (
            *FOREIGN,
            "auto",
            "auto/0",
            "auto/01",
            "auto/1",
            "Auto/1",
            "auto/123456",
            "a" * 41 + "/1",
        ),
        "keys": (*FOREIGN, [0], [1, 0], [0, 0], [2], [-1], [0.5], ["0"], [True], [[0]], list(range(1000))),
        "mechanism": (
            *FOREIGN,
            {"id": "auto", "epsilon": "1"},
            {"id": "__proto__"},
            {"id": 1},
            {"id": "kvue"},
        ),
        "group": (
            *FOREIGN,
            *(["0"], ["0", "1", "1"], ["1/2", "1/4"], ["1/2", "1/2"], ["0", "1/2"], [["0"], ["1"]]),
            *(["0", end] for end in ends if end is not DROPPED),
            *([end, "1"] for end in ends if end is not DROPPED),
        ),
    }
    for field, values in spoilt.items():
        for value in values:
            yield _why(field, value), changed(good, (field,), value)
    yield "a field too many", {**good, "kernel": 1}
    yield from dithers(good)
    yield (
        "the round of an older keyveil",
        {
            "format": "keyveil-device/1",
            "campaign": good["campaign"],
            "round": 1,
            "keys": None,
            "mechanism": {
                "shape": "sampled-index",
                "n_keys": 2,
                "channel": {"keep": "9", "flip": "1", "fake": "1"},
            },
        },
    )
    for more in ("__proto__", "constructor", "toString"):
        yield f"a field named {more}", json.loads(json.dumps(good)[:-1] + f', "{more}": 1}}')
    for name in ("size-class", "record-size", "grr"):
        yield f"one key of two by {name}", {**base(name), "keys": [1]}


def dithers(plain: Description) -> Iterator[tuple[str, Description]]:
    """A round with a dither, spoilt; and dithers where there can be none."""
    dithered = {**plain, "format": "keyveil-round/2", "dither": 16}
    yield "with a dither", dithered
    for value in (*SIZES, 1, 2, 3, 24, 128, 256, 512, "16", [16]):
        yield _why("dither", value), changed(dithered, ("dither",), value)
    yield "a dither in a round that has none", {**plain, "dither": 16}
    yield "a dither in a round that has none, 1", {**plain, "dither": 1}
    for name in ("levels", "ue-sw", "grr", "olh"):
        yield f"a dither for {name}", {**base(name), "format": "keyveil-round/2", "dither": 16}
    tied = {**base("bucket"), "format": "keyveil-round/2", "dither": 16}
    for tie in (0, 1 << 31, 1 << 32):
        yield (
            f"a dither for signs that are tied {tie} times in 2^32",
            changed(tied, ("mechanism", "tie"), tie),
        )


def campaigns() -> Iterator[tuple[str, Description]]:
    """A campaign's text, each field spoilt in turn."""
    good = base("kvue")
    said = json.loads(good["campaign"])
    spoilt: dict[str, tuple[Any, ...]] = {
        "name": (DROPPED, None, 1, "other"),
        "epsilon": (DROPPED, None, True, "1", -1.0, 0.0, 33.0, [], {}, 32.0, 0.5, 1e-9),
        "keys": (DROPPED, None, "ab", [], ["a"], ["a", "a"], ["a", ""], ["a", 1], {"a": 1}, [["a"]]),
        "value_range": (
            DROPPED,
            None,
            [0.0],
            [1.0, 0.0],
            [0.0, 0.0],
            [0.0, 1.0, 2.0],
            ["a", "b"],
            "01",
            [-3.0, 9.5],
        ),
        "pairs_per_user": (DROPPED, None, True, 0, -1, 1.5, "1", 1),
        "mechanism": (DROPPED, None, 1, "pckv-ue"),
        "other": (1, "yes", True),
        "expires": ("soon", "9999-12-31", 1, "2027-01-31", "2027-01-31T12:00:00", "2027-13-01", "0000-01-01"),
        "users": (0, 1.5, True, 10),
        "rounds": (1.5, True, "2"),
        "bins": (1.5, True, "2"),
        "cohorts": (1.5, True, "2"),
        "rho": (2.0, True, "0"),
        "owner": (1, "somebody"),
        "unit": (1, None, "", "minutes", "m" * 41, "\u00b5s"),
        "names": (
            *(None, "ab", {}, [], ["A"], ["A", ""], ["A", 1], ["A", "B"], ["A", "B", "C"]),
            *({"a": "A", "b": "B"}, [["A"], ["B"]]),
        ),
        "dither": (0, 1, 2, 3, 16, 256, 512, None, True, 1.0, "16", [], {}, HUGE),
        "beyond": (True, False, None, 1, "true", [], {}),
        "want": ("frequency", "mean", "distribution", "both", "all", "", None, True, 1, [], {}),
        "ids": ("issued", "own", "ISSUED", "", None, True, 1, [], {}),
        "relay": RELAYS,
        "batch": (1000,),
        "central_epsilon": (0.5,),
        "delta": (1e-8,),
        "honest": (0.5,),
        "stranger": (1,),
    }
    for field, values in spoilt.items():
        for value in values:
            told = {key: entry for key, entry in said.items() if key != field}
            if value is not DROPPED:
                told[field] = value
            yield _why(f"campaign.{field}", value), {**good, "campaign": canonical(told)}
    for dither in (2, 4, 256):
        told = {**said, "dither": dither, "beyond": True}
        yield f"campaign.beyond with {dither} bins", {**good, "campaign": canonical(told)}
    yield from relayed(good)
    for why, text in (
        ("no text", 1),
        ("no JSON", "{"),
        ("a list", "[]"),
        ("deep", "[" * 5000),
        ("spaces", good["campaign"].replace(":", ": ", 1)),
        ("an epsilon beyond all floats", good["campaign"].replace('"epsilon":1.0', '"epsilon":1e999')),
        ("an epsilon written otherwise", good["campaign"].replace('"epsilon":1.0', '"epsilon":1.00')),
        ("NaN", good["campaign"].replace('"epsilon":1.0', '"epsilon":NaN')),
        ("nothing", ""),
    ):
        yield f"campaign: {why}", {**good, "campaign": text}


def relayed(good: Description) -> Iterator[tuple[str, Description]]:
    """What a campaign says of its relay and of the central promise, each field spoilt in turn."""
    central = {"central_epsilon": 0.5, "delta": 1e-8, "honest": 0.5}
    said = {**json.loads(good["campaign"]), "relay": "required", "batch": 1000}
    spoilt: dict[str, tuple[Any, ...]] = {
        "relay": RELAYS,
        "batch": (*SIZES, 1, 2, 1000.0, 1 << 31, (1 << 31) + 1),
        "ids": ("issued",),
        **dict.fromkeys(central, (*FOREIGN, 0.0, 0, 1, 1.0, 1e-300, 1e-8, 0.25, 1.0000001, "1")),
    }
    for name, told in (("relay", said), ("central", {**said, **central})):
        yield f"{name}, as it should be", {**good, "campaign": canonical(told)}
        for field, values in spoilt.items():
            for value in values:
                changed_ = {key: entry for key, entry in told.items() if key != field}
                if value is not DROPPED:
                    changed_[field] = value
                yield _why(f"{name}.{field}", value), {**good, "campaign": canonical(changed_)}


def waves() -> Iterator[tuple[str, Description]]:
    """What a wave's text says of its series, each field spoilt in turn."""
    weekly = {"every": "week", "waves": 9, "answers": 2, "start": "2026-11-23", "wave": 3}
    good = campaign(series=weekly).device_config()
    said = json.loads(good["campaign"])
    spoilt: dict[str, tuple[Any, ...]] = {
        "every": (*FOREIGN, "day", "month", "hour", "WEEK", ["week"]),
        "waves": (*SIZES, 1, 2, 3, 1000, 1001),
        "answers": (*SIZES, 1, 3, 9, 10),
        "start": (
            *FOREIGN,
            *("2026-11-24", "2026-02-29", "2028-02-29", "2026-13-01", "2026-1-1", "20261123", "0000-01-01"),
            *("0001-01-01", "9998-10-01", "9998-12-01", "9999-12-31", "2026-11-23T00:00:00", "2026-W48-1"),
            *("2026-11-23 ", "2026-11-2\uff13", 20261123),
        ),
        "wave": (*SIZES, 1, 9, 10),
        "first_keys": (*FOREIGN[1:], 0, 1, 2, 3, 1 << 31, (1 << 31) + 1),
        "colour": ("red",),
    }
    yield "a wave, as it should be", good
    for field, values in spoilt.items():
        for value in values:
            yield _why(f"series.{field}", value), _told(good, said, changed(weekly, (field,), value))
    for value in FOREIGN[1:]:
        yield _why("series", value), _told(good, said, value)
    whole = {name: value for name, value in weekly.items() if name != "wave"}
    yield "a series as a whole", _told(good, said, whole)
    yield "keys before there is a wave", _told(good, said, {**whole, "first_keys": 1})
    for every, start in (("month", "2026-01-28"), ("month", "2026-01-29"), ("day", "2026-12-31")):
        yield f"every {every} from {start}", _told(good, said, {**weekly, "every": every, "start": start})
    for names in (["A", "B"], ["A"], []):
        told = {**said, "names": names}
        yield f"{len(names)} names of a wave with a new key", _told(good, told, {**weekly, "first_keys": 1})
    text = good["campaign"]
    for why, other in (
        ("fields in another order", text.replace('"answers":2,"every":"week"', '"every":"week","answers":2')),
        ("a wave that is no whole number", text.replace('"wave":3', '"wave":3.0')),
        ("a wave in another notation", text.replace('"wave":3', '"wave":0.3e1')),
        ("a field twice", text.replace('"wave":3', '"wave":3,"wave":4')),
        ("spaces", text.replace('"wave":3', '"wave": 3')),
        ("an object inside", text.replace('"wave":3', '"wave":{"a":{}}')),
    ):
        assert other != text
        yield f"series: {why}", {**good, "campaign": other}


def segments() -> Iterator[tuple[str, Description]]:
    """What a campaign's text says of its segments, and a round of its labels, each field spoilt in turn."""
    clear = {"told": "clear", "country": ["de", "fr"], "platform": ["android", "ios", "web"]}
    good = campaign(segments=clear).device_config()
    said = json.loads(good["campaign"])
    plain = campaign().device_config()
    yield "segments, as they should be", good
    for value in (
        *SIZES,
        [2, 3],
        [3, 2],
        [2],
        [2, 3, 1],
        ["2", "3"],
        [2, True],
        [[2], [3]],
        [0, 3],
    ):
        yield _why("labels", value), changed(good, ("labels",), value)
    for value in (*SIZES, 1, 2, 3, 16, 256, 512, "16"):
        yield _why("dither of a round with labels", value), changed(good, ("dither",), value)
    unlabelled = {name: value for name, value in good.items() if name not in ("labels", "dither")}
    for dither in ({}, {"dither": 16}):
        format = "keyveil-round/2" if dither else "keyveil-round/1"
        yield f"labels kept silent, {format}", {**unlabelled, **dither, "format": format}
        yield (
            f"labels in a round of {format}",
            {**unlabelled, **dither, "format": format, "labels": [2, 3]},
        )
    for sizes in ([1], [2, 3]):
        yield (
            f"labels {sizes} that no campaign asks for",
            {**plain, "format": "keyveil-round/3", "dither": 1, "labels": sizes},
        )
    spoilt: dict[str, tuple[Any, ...]] = {
        "told": (*FOREIGN, "clear", "private", "CLEAR", ["clear"]),
        "platform": (
            *FOREIGN,
            *(["android"], ["web", "ios", "android"], ["a", "a", "b"], ["a", "b", ""], ["a", "b", "other"]),
            *(["a", "b", 1], ["a", "b", None], ["a", "b", ["c"]], [str(n) for n in range(65)]),
            *(
                ["a", "b", "x" * 80],
                ["a", "b", "x" * 81],
                ["a", "b", "é" * 80],
                ["a", "b", "\U0001f600" * 80],
            ),
            *(["a", "b", "\U0001f600" * 81], ["a", "b", " "], ["a", "b", "Other"]),
        ),
        **dict.fromkeys(("Platform", "", "9a", "a b", "a" * 41, "__proto__", "é", "-a", "a\n"), (["x"],)),
        **dict.fromkeys(("a", "constructor", "a-b", "a_b", "a" * 40), (["x"],)),
    }
    for field, values in spoilt.items():
        for value in values:
            told = changed(clear, (field,), value)
            sizes = [
                len(told[name]) for name in sorted(told) if name != "told" and isinstance(told[name], list)
            ]
            yield _why(f"segments.{field}", value), {**_told(good, said, told, "segments"), "labels": sizes}
    private = {**clear, "told": "private"}
    yield "labels of private segments", _told(good, said, private, "segments")
    yield (
        "a fifth attribute",
        {
            **_told(good, said, {**clear, "a": ["x"], "b": ["x"], "c": ["x"]}, "segments"),
            "labels": [1, 1, 1, 2],
        },
    )
    for value in FOREIGN[1:]:
        yield _why("segments", value), _told(good, said, value, "segments")
    text = good["campaign"]
    for why, other in (
        (
            "fields in another order",
            text.replace('"country":["de","fr"],"platform":', '"platform":["de","fr"],"country":'),
        ),
        (
            "an attribute twice",
            text.replace('"country":["de","fr"]', '"country":["de","fr"],"country":["de","fr"]'),
        ),
        ("spaces", text.replace('"country":[', '"country": [')),
        ("an object inside", text.replace('["de","fr"]', '[{"a":["de"]},"fr"]')),
        ("half a letter", text.replace('"de"', '"\\ud800"')),
    ):
        assert other != text
        yield f"segments: {why}", {**good, "campaign": other}


def crossings() -> Iterator[tuple[str, Description]]:
    """What a campaign's text says of pairs, and of a segment that nobody is told, each spoilt in turn."""
    good = campaign(pairs="all").device_config()
    said = json.loads(good["campaign"])
    yield "all pairs, as they should be", good
    keys = [str(n) for n in range(65)]
    for value in (
        *(["a", "b"], ["b", "a"], ["a", "b", "b", "a"], ["a", "a"], ["a"], ["a", "c"], ["a", "b", "a"]),
        *(["a", 1], [["a", "b"]], [["a"], ["b"]], "ALL", "a", *FOREIGN[1:]),
    ):
        yield _why("pairs", value), _told(good, said, value, "pairs")
    for n_keys in (1, 2, 65):
        yield f"all pairs of {n_keys} keys", _told(good, {**said, "keys": keys[:n_keys]}, "all", "pairs")
    many = [name for a in range(65) for b in range(a) for name in (keys[b], keys[a])]
    yield "2017 pairs by name", _told(good, {**said, "keys": keys}, many[: 2 * 2017], "pairs")
    private = {"told": "private", "platform": ["android", "ios"]}
    good = campaign(segments=private).device_config()
    said = json.loads(good["campaign"])
    yield "private segments, as they should be", good
    yield "pairs by private segments", _told(good, said, "all", "pairs")
    yield "two private attributes", _told(good, said, {**private, "country": ["de"]}, "segments")
    values = [str(n) for n in range(64)]
    text = {**said, "keys": [str(n) for n in range(2016)]}
    yield "64 segments of 2016 keys", _told(good, text, {**private, "platform": values}, "segments")
    for codes in ([0], [8], [9], [0, 8], [-1]):
        yield _why("keys", codes), {**good, "keys": codes}


def _told(good: Description, said: Description, value: Any, field: str = "series") -> Description:
    """A campaign whose text says this of a series, or of another of its tables."""
    return {**good, "campaign": canonical({**said, field: value})}


def canonical(told: Description) -> str:
    """The text as a keyveil would write it."""
    return json.dumps(told, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def changed(good: Description, path: tuple[str, ...], value: Any) -> Description:
    """A description with one field dropped or replaced."""
    spoilt = deepcopy(good)
    inside = spoilt
    for name in path[:-1]:
        inside = inside[name]
    if value is DROPPED:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return spoilt


def _why(field: str, value: Any) -> str:
    return f"no {field}" if value is DROPPED else f"{field} = {json.dumps(value)[:60]}"


def _judged(cases: Iterator[tuple[str, Description]]) -> Iterator[dict[str, Any]]:
    """What the device says of each."""
    for why, description in cases:
        try:
            _, asked = Campaign.from_description(description)
        except KeyveilError as error:
            yield {"why": why, "description": description, "code": error.code}
        else:
            units = str(price(asked.mechanism.loss))
            yield {"why": why, "description": description, "code": "done", "units": units}
