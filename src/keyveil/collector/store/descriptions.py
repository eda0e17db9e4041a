"""From what schema 2 kept of a round to its description.

Up to schema 2 a round was stored as the text that devices read, with the integers of its kernel; a
description names mechanism, budget and sizes, and whoever reads it makes the integers. The campaign's rounds
are found again from its tallies and compared with that text, integer by integer: equal rounds get
descriptions. A campaign of which one round differs cannot be read here; it is quarantined, and all that it
has stays as it was.
"""

from __future__ import annotations

import json
from typing import Any

from keyveil.campaign import Campaign
from keyveil.collector.store.cells import unpack
from keyveil.collector.store.sql import SqlTransaction
from keyveil.errors import StoreError
from keyveil.mechanisms import describe
from keyveil.protocols import Outcome
from keyveil.rounds import Round
from keyveil.tally import Tally, count

_REMEDY = "finish it with the keyveil that wrote the store, on a backup, or create it anew"


def describe_rounds(tx: SqlTransaction, *, tables: tuple[str, ...]) -> None:
    """Write a description of every round, or why its campaign has none; `tables` hold parts of its tallies.

    In both stores `rounds.description` holds the text of schema 2, and `rounds.pin` nothing.
    """
    for no, name, config in tx._all("select no, id, config from campaigns order by no"):
        try:
            for round_ in _rounds(tx, no, name, config, tables):
                tx._run(
                    "update rounds set description = ?, pin = ? where campaign = ? and number = ?",
                    (round_.canonical_json, round_.pin, no, round_.number),
                )
        except Exception as error:
            said = str(error) if isinstance(error, StoreError) else type(error).__name__
            why = f"campaign {name[:12]} could not be migrated: {said}; {_REMEDY}"
            tx._run("update campaigns set quarantined = ? where no = ?", (why, no))


def _rounds(tx: SqlTransaction, no: int, name: str, config: str, tables: tuple[str, ...]) -> list[Round]:
    """The rounds of a campaign, each the same as the text of schema 2 says."""
    campaign = Campaign.from_said(json.loads(config))
    if campaign.id != name:
        raise StoreError("its text has another hash")
    # Only first versions opened rounds then, and said nothing of it.
    protocol = campaign.protocol(f"{campaign.protocol().id}/1")
    history: list[tuple[Round, Tally]] = []
    texts = tx._all("select number, description from rounds where campaign = ? order by number", (no,))
    for number, text in texts:
        asked = protocol.next(history) if history else protocol.start(campaign.id)
        if isinstance(asked, Outcome) or _schema_2_fields(asked) != _without_campaign(text):
            raise StoreError(f"round {number} was opened with other parameters than this keyveil gives it")
        is_last = number == texts[-1][0]
        empty = count(asked.mechanism, [], question=asked.question)
        history.append((asked, empty if is_last else _tally(tx, no, empty, asked, tables)))
    return [asked for asked, _ in history]


def _schema_2_fields(round: Round) -> dict[str, Any]:
    """What schema 2 said of a round, beside the campaign's text."""
    said = {
        "format": "keyveil-device/1",
        "round": round.number,
        "keys": None if round.keys is None else list(round.keys),
        "mechanism": describe(round.mechanism),
        "purpose": round.purpose,
        "group": [str(end) for end in round.group],
    }
    return dict(json.loads(json.dumps(said)))


def _without_campaign(text: str) -> dict[str, Any]:
    said = dict(json.loads(text))
    said.pop("campaign", None)
    return said


def _tally(tx: SqlTransaction, no: int, empty: Tally, round: Round, tables: tuple[str, ...]) -> Tally:
    """The sum of a closed round's reports, those included that were not flushed."""
    total = empty
    for table in tables:
        rows = tx._all(
            f"select n_reports, cells from {table} where campaign = ? and round = ?",  # noqa: S608
            (no, round.number),
        )
        for n_reports, cells in rows:
            if n_reports:
                total += unpack(bytes(cells), question=round.question, n_reports=n_reports)
    return total
