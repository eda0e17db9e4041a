"""What is read out of a campaign: tallies, the release, and the results that the dashboard draws."""

from __future__ import annotations

import io
import threading
from dataclasses import replace

from keyveil.collector.campaigns.context import Context, find_round
from keyveil.collector.campaigns.outcomes import FoundOutcome, Outcomes, OutcomeVersion
from keyveil.collector.problems import Problem
from keyveil.dashboard.reach import Reach, reach
from keyveil.dashboard.results import make_results, pack
from keyveil.errors import MechanismError
from keyveil.release import Release, release_found
from keyveil.tally import Tally

# Packed results in the cache.
_MOST_CACHED = 16

RELEASE_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
    "arrow": "application/vnd.apache.arrow.file",
}


class ReadOut:
    """What may be known of a collector's campaigns."""

    def __init__(self, context: Context, outcomes: Outcomes) -> None:
        self._context, self._outcomes = context, outcomes
        self._lock = threading.Lock()
        self._packed: dict[tuple[OutcomeVersion, str], bytes] = {}

    def tally(self, id: str, number: int) -> Tally:
        """The sum of a round's reports."""
        known = self._context.known(id)
        with self._context.store.read() as tx:
            find_round(tx.rounds(known.no), number)
            return self._context.cache.tally(tx, known, number)

    def release(self, id: str, *, post: str, estimator: str | None) -> tuple[Release, bool]:
        """What the campaign found, and whether more reports may still come."""
        found = self._outcomes.get(id, estimator=estimator)
        if not any(found.version.counts):
            raise Problem("no-reports")
        made, is_open = _make_release(found, post), found.version.is_open
        # The last word is what anybody recomputes from the reports; what comes before it says so.
        return replace(made, metadata={**made.metadata, "state": "interim"}) if is_open else made, is_open

    def results(self, id: str, *, post: str) -> bytes:
        """The release as the dashboard shows it, packed."""
        found = self._outcomes.get(id)
        name = (found.version, post)
        packed = self._packed.get(name)
        if packed is None:
            release, is_open = _make_release(found, post), found.version.is_open
            packed = pack(make_results(found.campaign, release, is_open=is_open))
            with self._lock:
                while len(self._packed) >= _MOST_CACHED:
                    del self._packed[next(iter(self._packed))]
                self._packed[name] = packed
        return packed

    def reach(self, id: str, share: float) -> Reach:
        """What this share of devices, lying, could make of the campaign's most frequent keys."""
        return reach(_make_release(self._outcomes.get(id), "none"), share)


def _make_release(found: FoundOutcome, post: str) -> Release:
    """The release of what was found; one by another estimator names it."""
    finished, estimator = found.finished, found.version.estimator
    try:
        made = release_found(
            found.campaign, finished.outcome, epsilon_exact=finished.epsilon_exact, post=post
        )
    except MechanismError as error:
        raise Problem("unknown-step", str(error)) from None
    return made if estimator is None else replace(made, metadata={**made.metadata, "estimator": estimator})


def write_release(release: Release, form: str) -> bytes:
    """A release in one of `RELEASE_TYPES`."""
    if form == "json":
        return release.to_json().encode()
    if form == "csv":
        return release.to_csv().encode()
    import pyarrow as pa
    import pyarrow.parquet

    table, out = release.to_arrow(), io.BytesIO()
    if form == "parquet":
        pyarrow.parquet.write_table(table, out)
    else:
        with pa.ipc.new_file(out, table.schema) as file:
            file.write_table(table)
    return out.getvalue()
