"""What a series found: the one path from the outcomes of its waves to its release."""

from __future__ import annotations

import threading
from dataclasses import replace

from keyveil.collector.campaigns.cache import StoredSeries
from keyveil.collector.campaigns.context import Context
from keyveil.collector.campaigns.outcomes import FoundOutcome, Outcomes, OutcomeVersion
from keyveil.collector.campaigns.readout import ReadOut, make_release
from keyveil.collector.campaigns.series import AllSeries
from keyveil.collector.campaigns.series_messages import TrendView
from keyveil.collector.problems import Problem
from keyveil.collector.store.series import AddedKey, WaveRow
from keyveil.dashboard.privacy import central_fields
from keyveil.dashboard.trend import make_trend
from keyveil.errors import TallyError
from keyveil.estimate import READABLE
from keyveil.trends import HeardWave, SeriesRelease, release_series

# Releases in the cache.
_MOST_CACHED = 8
# Why a wave says nothing, as people read it.
_WHY = {
    "down": "the collector was away",
    "paused": "the series was paused",
    "before": "the series was created later",
}
# Refusals of a wave's release that are no matter of the series'.
_SILENT = ("rounds-left", "round-empty")

_Versions = tuple[OutcomeVersion | int, ...]


class Trends:
    """The releases of a collector's series."""

    def __init__(self, context: Context, series: AllSeries, outcomes: Outcomes, readout: ReadOut) -> None:
        self._context, self._series = context, series
        self._outcomes, self._readout = outcomes, readout
        self._lock = threading.Lock()
        self._cached: dict[tuple[str, str, _Versions], SeriesRelease] = {}

    def release(self, id: str, *, post: str) -> tuple[SeriesRelease, bool]:
        """What a series found so far, and whether more reports may still come."""
        known, now = self._context.known_series(id), self._context.now()
        with self._context.store.read() as tx:
            row, rows, keys = tx.series(id), tx.waves(known.no), tx.added_keys(known.no)
        assert row is not None
        is_open = row.ended_at is None and not known.is_over(now)
        rows = [wave for wave in rows if known.begins(wave.number) <= now]
        found = [self._find(wave) for wave in rows]
        if not any(isinstance(each, FoundOutcome) for each in found):
            raise Problem("no-waves")
        versions = tuple(
            each.version if isinstance(each, FoundOutcome) else wave.number
            for wave, each in zip(rows, found, strict=True)
        )
        made = self._cached.get((id, post, versions))
        if made is None:
            heard = [_heard(known, keys, wave, each, post) for wave, each in zip(rows, found, strict=True)]
            made = release_series(heard)
            with self._lock:
                while len(self._cached) >= _MOST_CACHED:
                    del self._cached[next(iter(self._cached))]
                self._cached[id, post, versions] = made
        said = {"state": "interim" if is_open else "final", **self._central(known, rows)}
        return replace(made, metadata={**made.metadata, **said}), is_open

    def view(self, id: str, *, since: int, most: int, key: str, may_annotate: bool) -> TrendView:
        """The series as its page draws it; the numbers are those of the release."""
        known, now = self._context.known_series(id), self._context.now()
        shown = self._series.view(id)
        try:
            release, _ = self.release(id, post=READABLE)
            found = make_trend(release, since=since, most=most, key=key)
        except Problem as problem:
            if problem.code != "no-waves":
                raise
            found = None
        except TallyError as error:
            raise Problem("bad-request", str(error)) from None
        return TrendView(
            id=id,
            name=known.campaign.name,
            label=shown.label,
            state=shown.state,
            every=shown.every,
            n_waves=known.calendar.waves,
            may_annotate=may_annotate,
            waves=[wave for wave in self._series.waves(id).waves if wave.begins <= now],
            annotations=self._series.annotations(id).annotations,
            found=found,
        )

    def _find(self, wave: WaveRow) -> FoundOutcome | str:
        """What a wave found, or why it says nothing."""
        if wave.id is None:
            return _WHY.get(wave.why, wave.why)
        try:
            found = self._outcomes.get(wave.id)
        except Problem as problem:
            if problem.code not in _SILENT:
                raise
            return "its rounds have not come to an end"
        return found if any(found.version.counts) else "nobody has reported"

    def _central(self, known: StoredSeries, rows: list[WaveRow]) -> dict[str, object]:
        """What the collector can tell of one person's answer to each wave, where a relay carries them."""
        if not known.campaign.is_relayed:
            return {}
        losses = ((wave.number, self._readout.central(wave.id)) for wave in rows if wave.id is not None)
        return {"central": {str(no): central_fields(loss) for no, loss in losses if loss is not None}}


def _heard(
    known: StoredSeries, keys: list[AddedKey], wave: WaveRow, found: FoundOutcome | str, post: str
) -> HeardWave:
    if isinstance(found, FoundOutcome):
        return HeardWave(campaign=found.campaign, release=make_release(found, post))
    return HeardWave(campaign=known.wave(wave.number, keys), release=None, note=found)
