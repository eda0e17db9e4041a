"""What is read out of a campaign: tallies, the release, and the results that the dashboard draws."""

from __future__ import annotations

import io
import threading
from dataclasses import replace

from keyveil.audit import CentralLoss, SeenRound, central_loss
from keyveil.breakdowns import Breakdowns, break_down
from keyveil.collector.campaigns.context import Context, find_round
from keyveil.collector.campaigns.outcomes import FoundOutcome, Outcomes, OutcomeVersion
from keyveil.collector.problems import Problem
from keyveil.collector.store import TallyRow
from keyveil.collector.store.base import BatchRow
from keyveil.dashboard.breakdowns import make_columns, pack_columns
from keyveil.dashboard.privacy import central_fields
from keyveil.dashboard.reach import Reach, reach
from keyveil.dashboard.results import make_results, pack
from keyveil.errors import CampaignError, MechanismError, ProtocolError
from keyveil.estimate import READABLE
from keyveil.pairs import PairsRelease, pairs_of
from keyveil.release import Release, release_found
from keyveil.rounds import Round
from keyveil.tables import Table
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
        self._columns: dict[tuple[OutcomeVersion, str, tuple[str, ...]], bytes] = {}
        self._central: dict[str, tuple[tuple[SeenRound, ...], CentralLoss]] = {}

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
        made, is_open = make_release(found, post), found.version.is_open
        if (central := self.central(id)) is not None:
            made = replace(made, metadata={**made.metadata, "central": central_fields(central)})
        # The last word is what anybody recomputes from the reports; what comes before it says so.
        return replace(made, metadata={**made.metadata, "state": "interim"}) if is_open else made, is_open

    def breakdowns(self, id: str, *, post: str, by: tuple[str, ...]) -> tuple[Breakdowns, bool]:
        """What the campaign found of its segments, and whether more reports may still come."""
        version = self._outcomes.version(id)
        if not any(version.counts):
            raise Problem("no-reports")
        known = self._context.known(id)
        with self._context.store.read() as tx:
            history = self._context.cache.history(tx, known, tx.rounds(known.no))
        try:
            made = break_down(known.campaign, history, by=by, post=post)
        except CampaignError as error:
            raise Problem("bad-request", str(error)) from None
        except MechanismError as error:
            raise Problem("unknown-step", str(error)) from None
        except ProtocolError as error:
            raise Problem("rounds-left", str(error)) from None
        if version.is_open:
            made = replace(made, metadata={**made.metadata, "state": "interim"})
        return made, version.is_open

    def breakdown_columns(self, id: str, *, post: str, by: tuple[str, ...]) -> bytes:
        """The same by columns as the dashboard shows it, packed."""
        name = self._outcomes.version(id), post, by
        packed = self._columns.get(name)
        if packed is None:
            made, is_open = self.breakdowns(id, post=post, by=by)
            packed = pack_columns(make_columns(self._context.known(id).campaign, made, is_open=is_open))
            with self._lock:
                while len(self._columns) >= _MOST_CACHED:
                    del self._columns[next(iter(self._columns))]
                self._columns[name] = packed
        return packed

    def pairs(self, id: str) -> tuple[PairsRelease, bool]:
        """What the campaign found of pairs of keys, and whether more reports may still come."""
        made, is_open = self.release(id, post=READABLE, estimator=None)
        try:
            return pairs_of(self._context.known(id).campaign, made), is_open
        except CampaignError as error:
            raise Problem("bad-request", str(error)) from None

    def central(self, id: str) -> CentralLoss | None:
        """What the collector can tell of one person, by the batches that came; None where none may come."""
        known = self._context.known(id)
        if not known.campaign.is_relayed:
            return None
        with self._context.store.read() as tx:
            rows, batches = tx.rounds(known.no), tx.batches(known.no)
            tallies = [tx.tally(known.no, row.number) for row in rows]
            opened = [self._context.cache.described(known, row) for row in rows]
        seen = tuple(_seen(asked, tally, batches) for asked, tally in zip(opened, tallies, strict=True))
        before = self._central.get(id)
        if before is None or before[0] != seen:
            # The bounds are sums over all that may hide a report: they are worked out when a batch has come.
            before = self._central[id] = seen, central_loss(known.campaign, seen)
        return before[1]

    def results(self, id: str, *, post: str) -> bytes:
        """The release as the dashboard shows it, packed."""
        found = self._outcomes.get(id)
        name = (found.version, post)
        packed = self._packed.get(name)
        if packed is None:
            release, is_open = make_release(found, post), found.version.is_open
            packed = pack(make_results(found.campaign, release, is_open=is_open))
            with self._lock:
                while len(self._packed) >= _MOST_CACHED:
                    del self._packed[next(iter(self._packed))]
                self._packed[name] = packed
        return packed

    def reach(self, id: str, share: float) -> Reach:
        """What this share of devices, lying, could make of the campaign's most frequent keys."""
        return reach(make_release(self._outcomes.get(id), "none"), share)


def _seen(asked: Round, tally: TallyRow | None, batches: list[BatchRow]) -> SeenRound:
    """A round's batches, and the reports that no batch brought."""
    came = tuple((batch.received, batch.counted) for batch in batches if batch.round == asked.number)
    n_reports = 0 if tally is None else tally.n_reports
    return SeenRound(round=asked, batches=came, direct=n_reports - sum(counted for _, counted in came))


def make_release(found: FoundOutcome, post: str) -> Release:
    """The release of what was found; one by another estimator names it."""
    finished, estimator = found.finished, found.version.estimator
    try:
        made = release_found(
            found.campaign, finished.outcome, epsilon_exact=finished.epsilon_exact, post=post
        )
    except MechanismError as error:
        raise Problem("unknown-step", str(error)) from None
    return made if estimator is None else replace(made, metadata={**made.metadata, "estimator": estimator})


def write_release(release: Table, form: str) -> bytes:
    """A release, or a table that was made from one, in one of `RELEASE_TYPES`."""
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
