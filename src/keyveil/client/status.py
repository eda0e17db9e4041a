"""What a ledger says of itself: `python -m keyveil.client status device.db`, for who looks after a device.

Read only: nothing is sent, asked or written. It tells what was spent, what waits and why, never what was
said: answers are noised, but they are nobody's business here.
"""

from __future__ import annotations

import os
import time
from typing import Any

from keyveil.client.ledger import Account, Ledger
from keyveil.client.permission import YEAR, do_not_track, epsilon_of
from keyveil.client.queue import DIRECTLY, THROUGH_RELAY

_WAYS = {None: "none yet", DIRECTLY: "to the collector directly", THROUGH_RELAY: "through a relay"}
_NOTHING = {"waiting": 0, "waiting_bytes": 0, "sent": 0, "refused": 0, "dropped": 0, "failures": 0}


def look(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Consent, what was spent in all and for each campaign, what waits, and why it failed last."""
    ledger = Ledger(path)
    with ledger.reading() as account:
        return {
            "ledger": str(ledger.path),
            "consent": account.consent,
            "do_not_track": do_not_track(),
            "epsilon_lifetime": epsilon_of(account.spent()),
            "epsilon_year": epsilon_of(account.spent_since(account.now - YEAR)),
            "series": [_series(account, series) for series in account.all_series],
            "campaigns": [_campaign(account, name) for name in _campaigns(account)],
        }


def words(found: dict[str, Any]) -> str:
    """The same in lines for people."""
    wins = "; DO_NOT_TRACK is set and wins" if found["do_not_track"] else ""
    lines = [
        f"ledger    {found['ledger']}",
        f"consent   {found['consent']}{wins}",
        f"spent     epsilon {found['epsilon_lifetime']:.6g} in all, {found['epsilon_year']:.6g} in a year",
    ]
    for series in found["series"]:
        numbers = ", ".join(str(wave["number"]) for wave in series["waves"])
        cost = f"costs epsilon {series['epsilon']:.6g} in all; waves answered: {numbers}"
        lines += ["", f"series    {series['series']}", f"  price   {cost}"]
        # Of waves that nothing waits for there is no more to say.
        for wave in series["waves"]:
            if wave["waiting"] or wave["last_failure"] is not None:
                lines += _lines(wave)
    for one in found["campaigns"]:
        lines += ["", *_lines(one)]
    return "\n".join(lines)


def _lines(one: dict[str, Any]) -> list[str]:
    numbers, failure = ", ".join(map(str, one["rounds_answered"])), one["last_failure"]
    lines = [
        f"campaign  {one['campaign']}",
        f"  spent   epsilon {one['epsilon']:.6g}, rounds answered: {numbers or 'none'}",
        f"  route   {_WAYS[one['route']]}",
        f"  waits   {one['waiting']} reports, {one['waiting_bytes']} bytes",
        f"  became  {one['sent']} sent, {one['refused']} refused, {one['dropped']} dropped",
    ]
    if failure is not None:
        lines.append(f"  failed  {failure['at']}: {failure['words']} ({failure['code']})")
    if one["not_before"] is not None:
        lines.append(f"  next    not before {one['not_before']}, after {one['failures']} failures in a row")
    return lines


def _campaigns(account: Account) -> list[str]:
    """Every campaign that was answered or asked to be sent, but for waves of a series."""
    rows = account.connection.execute(
        "select campaign from answer union select campaign from route except select campaign from wave"
    )
    return sorted(str(name) for (name,) in rows)


def _series(account: Account, series: str) -> dict[str, Any]:
    """What a series costs in all, and the waves that were answered."""
    waves = sorted(account.waves(series).items())
    return {
        "series": series,
        "epsilon": epsilon_of(account.booked(series)),
        "waves": [{"number": number, **_campaign(account, campaign)} for number, campaign in waves],
    }


def _campaign(account: Account, campaign: str) -> dict[str, Any]:
    sql, failure = account.connection.execute, account.last_failures().get(campaign)
    route = sql(
        "select sent, refused, dropped, failures, not_before, way from route where campaign = ?", (campaign,)
    ).fetchone()
    traffic, not_before, way = dict(_NOTHING), 0.0, None
    if route is not None:
        *counts, not_before, way = route
        traffic |= dict(zip(("sent", "refused", "dropped", "failures"), counts, strict=True))
    traffic["waiting"], traffic["waiting_bytes"] = sql(
        "select count(*), coalesce(sum(length(report)), 0) from outbox where campaign = ?", (campaign,)
    ).fetchone()
    answered = sql("select round from answer where campaign = ? order by round", (campaign,))
    return {
        "campaign": campaign,
        "epsilon": epsilon_of(account.spent(campaign)),
        "rounds_answered": [number for (number,) in answered],
        "route": way,
        **traffic,
        "not_before": _moment(not_before) if not_before > time.time() else None,
        "last_failure": None
        if failure is None
        else {"at": _moment(failure.at), "code": failure.code, "words": failure.words},
    }


def _moment(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
