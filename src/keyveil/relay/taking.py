"""The writer: sealed reports are on disk before a device hears "accepted", and so is every repeat's answer.

What a device hears follows from what a relay sees - length, round, key - and never from what the collector
makes of a report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keyveil.collector.campaigns.cache import RoundGrowth
from keyveil.collector.problems import ROUND_CLOSED, Problem
from keyveil.collector.settings import Settings
from keyveil.collector.writing.upload import Upload, UploadPart
from keyveil.collector.writing.writer import Writer
from keyveil.errors import Refusal
from keyveil.relay.campaigns import Campaigns
from keyveil.relay.store import CarriedRound, RelayStore, RelayTransaction
from keyveil.sealing import SealedHeader


class SealedWriter(Writer):
    """A writer that keeps sealed reports as they are."""

    def __init__(self, store: RelayStore, campaigns: Campaigns, settings: Settings, **named: Any) -> None:
        super().__init__(store, settings, **named)
        self._relay_store, self._campaigns = store, campaigns

    def _write(self, group: Sequence[Upload], now: float, prepared: Callable[[], None]) -> list[RoundGrowth]:
        for upload in group:
            upload.reset()
        with self._relay_store.write() as tx:
            live = tx.live_tokens(sorted({upload.token for upload in group if upload.token is not None}))
            for upload in group:
                if upload.token is not None and upload.token not in live:
                    upload.problem = Problem("unknown-token")
                    continue
                for part in upload.parts:
                    self._take(tx, upload, part, now)
            prepared()
        return []

    def _take(self, tx: RelayTransaction, upload: Upload, part: UploadPart, now: float) -> None:
        known = self._campaigns.find(upload.campaign)
        asked = None if known is None else tx.round(known.no, part.round)
        reports = [part.reports[at : at + part.length] for at in range(0, len(part.reports), part.length)]
        if asked is None:
            upload.mark(part.places, Refusal.WRONG_ROUND.value)
            return
        digests = list(map(self._relay_store.digest, reports))
        key = SealedHeader.read(reports[0]).key
        why = self._refusal(asked, part, key, now)
        if why is None:
            tx.add(asked.no, key, reports, digests)
            return
        # A device whose answer was lost must hear that its report was taken.
        for place, digest in zip(part.places, digests, strict=True):
            if not tx.is_known(asked.no, digest):
                upload.mark((place,), why)

    def _refusal(self, asked: CarriedRound, part: UploadPart, key: bytes, now: float) -> str | None:
        if asked.ended_at is not None or (asked.ends_at is not None and now >= asked.ends_at):
            return ROUND_CLOSED
        if part.length != asked.length:
            return Refusal.WRONG_LENGTH.value
        return None if self._campaigns.takes_key(key) else Refusal.UNKNOWN_KEY.value
