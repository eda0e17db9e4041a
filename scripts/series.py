"""Series as vectors: their calendars, panels, canonical texts and ids.

`calendar` says when each wave begins, and the series ends, in seconds since 1970; `panels` which waves a
device with a secret answers; `texts` has texts of waves and those of their series, whose hashes are the ids.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from keyveil import Campaign
from keyveil.client.ledger import drawn_from
from keyveil.series import Series

STARTS = ("2026-11-23", "2026-01-28", "2027-12-31", "2028-02-29", "0001-01-01", "1969-12-31")


def files() -> dict[str, dict[str, Any]]:
    """One file."""
    return {
        "series.json": {
            "calendar": list(calendars()),
            "panels": list(panels()),
            "texts": list(texts()),
        }
    }


def calendars() -> Iterator[dict[str, Any]]:
    """Days, weeks and months, over leap years and the ends of years."""
    for every in ("day", "week", "month"):
        for start in STARTS:
            if every == "month" and int(start[-2:]) > 28:
                continue
            waves = 53
            series = Series(every=every, waves=waves, start=start)
            begins = [int(series.begins(wave).timestamp()) for wave in range(1, waves + 2)]
            yield {"series": series.to_fields(), "begins": begins}


def panels() -> Iterator[dict[str, Any]]:
    """Who answers when: at the ends of places and at drawn ones."""
    last = (1 << 256) - 1
    for waves, answers in ((2, 1), (2, 2), (7, 3), (52, 1), (52, 5), (12, 12), (1000, 7)):
        series = Series(every="day", waves=waves, answers=answers)
        edge = -(-(1 << 256) // waves)
        for place in (0, edge - 1, edge, last):
            panel = series.panel(Fraction(place, 1 << 256))
            yield {"waves": waves, "answers": answers, "place": str(place), "panel": list(panel)}
        for label in ("one", "two", "three"):
            secret = hashlib.sha256(f"secret {label}".encode()).digest()
            id = hashlib.sha256(f"{waves} {answers}".encode()).hexdigest()
            drawn = drawn_from(secret, f"panel {id}")
            yield {
                "waves": waves,
                "answers": answers,
                "secret": secret.hex(),
                "series": id,
                "place": str(drawn * (1 << 256)),
                "panel": list(series.panel(drawn)),
            }


def texts() -> Iterator[dict[str, Any]]:
    """Waves of all kinds, and the series that they lead to."""
    told: dict[str, Any] = {
        "name": "Zürich, weekly",
        "epsilon": 0.1,
        "keys": ["maps", "mail", "日本"],
        "value_range": [0.0, 60.0],
        "pairs_per_user": 2,
        "mechanism": "kvue",
        "series": {"every": "week", "waves": 9, "answers": 2, "start": "2026-11-23"},
    }
    for more in (
        {},
        {"names": ["Maps", "Mail", "Japan"], "other": True},
        {"expires": "2026-12-01", "unit": "minutes"},
        {"relay": "required", "batch": 10, "central_epsilon": 0.05, "delta": 1e-8},
        {"series": {"every": "month", "waves": 12, "start": "2026-01-28"}, "dither": 1, "epsilon": 1.0},
        {"mechanism": "auto", "users": 100_000, "want": "mean", "ids": "issued"},
    ):
        whole = Campaign.from_fields({**told, **more})
        named = whole.names is not None
        for wave in (whole.wave(1), whole.wave(9), whole.wave(3, ["chat", "a key that came later"])):
            assert wave.series is not None
            yield {
                "why": f"wave {wave.series.wave}{' with new keys' * bool(wave.series.first_keys)}"
                + " and names" * named,
                "campaign": wave.canonical_json,
                "id": wave.id,
                "whole": whole.canonical_json,
                "series": whole.id,
                "ends": int(wave.expiry.timestamp()) if wave.expiry else None,
            }
