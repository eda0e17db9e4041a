"""What a campaign found: the one path from its tallies to an outcome.

Rounds end by it, and releases, results and comparisons of estimators read it. The outcome of a finished
campaign is stored, so that a later version does not find another; that of an open one is worked out from the
tallies as they are, and cached until more reports come.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from keyveil.campaign import Campaign
from keyveil.collector.campaigns.cache import History, StoredCampaign
from keyveil.collector.campaigns.context import Context
from keyveil.collector.problems import Problem
from keyveil.collector.store.outcomes import Finished, pack_outcome, unpack_outcome
from keyveil.errors import KeyveilError, MechanismError, ProtocolError
from keyveil.release import exact_epsilon
from keyveil.rounds import Round

# Outcomes in the cache.
_MOST_CACHED = 16


def what_follows(campaign: Campaign, history: History) -> Round | Finished:
    """The round that follows the last, or what the campaign found, by the version that opened its rounds.

    This estimates, which may take seconds: never inside a transaction.
    """
    protocol = campaign.protocol(history[0][0].protocol)
    follows = protocol.next(history)
    if isinstance(follows, Round):
        return follows
    return Finished(outcome=follows, epsilon_exact=exact_epsilon(protocol))


def difference(campaign: Campaign, before: History, round: Round) -> str:
    """How a round that was opened differs from what this version makes of the rounds before it, if it does.

    An audit: whatever it says, the round is the one that was opened.
    """
    try:
        protocol = campaign.protocol(round.protocol)
        other = protocol.next(before) if before else protocol.start(campaign.id)
    except KeyveilError as error:
        return f"this keyveil would not open round {round.number}: {error}"
    if other == round:
        return ""
    would = f"as {other.pin[:12]}" if isinstance(other, Round) else "no more"
    return f"round {round.number} was opened as {round.pin[:12]}, this keyveil would open it {would}"


def find_outcome(campaign: Campaign, history: History, *, estimator: str | None) -> Finished:
    """What the tallies of all rounds say, by the campaign's estimator or another one for the same reports."""
    try:
        if estimator is not None and estimator != campaign.mechanism:
            campaign = replace(campaign, mechanism=_check_same_reports(campaign, estimator, history))
        found = what_follows(campaign, history)
    except MechanismError as error:
        raise Problem("unknown-step", str(error)) from None
    except ProtocolError as error:
        raise Problem("round-empty", str(error)) from None
    if isinstance(found, Round):
        raise Problem("rounds-left", f"round {found.number} is still to be closed")
    return found


def _check_same_reports(campaign: Campaign, estimator: str, history: History) -> str:
    """The estimator, if it would have asked the same."""
    refused = Problem(
        "unknown-step", f'"{estimator[:80]}" is no estimator for reports of "{campaign.mechanism}"'
    )
    try:
        theirs = replace(campaign, mechanism=estimator).protocol()
        for place, (asked, _) in enumerate(history):
            other = theirs.next(history[:place]) if place else theirs.start(campaign.id)
            if not isinstance(other, Round) or (other.mechanism, other.keys) != (asked.mechanism, asked.keys):
                raise refused
    except MechanismError:
        raise
    except KeyveilError:
        raise refused from None
    return estimator


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeVersion:
    """Which outcome of a campaign: by which estimator, and of how many reports to each round.

    `is_open` says whether more reports may come.
    """

    campaign: str
    estimator: str | None
    is_open: bool
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundOutcome:
    """What a campaign has found so far, or for good."""

    campaign: Campaign
    version: OutcomeVersion
    finished: Finished


class Outcomes:
    """The outcomes of a collector's campaigns."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._cached: dict[OutcomeVersion, FoundOutcome] = {}

    def get(self, id: str, *, estimator: str | None = None) -> FoundOutcome:
        """What a campaign found, by its own estimator or another one for the same reports.

        A campaign of one round may be read at any time: reports are noised, so looking costs nothing.
        """
        known, version = self._look(id, estimator)
        found = self._cached.get(version)
        if found is None:
            finished = self._find(known, version)
            found = FoundOutcome(campaign=known.campaign, version=version, finished=finished)
            with self._lock:
                while len(self._cached) >= _MOST_CACHED:
                    del self._cached[next(iter(self._cached))]
                self._cached[version] = found
        return found

    def version(self, id: str) -> OutcomeVersion:
        """How far a campaign is that can be read."""
        return self._look(id, None)[1]

    def _look(self, id: str, estimator: str | None) -> tuple[StoredCampaign, OutcomeVersion]:
        """A campaign that can be read, and how far it is."""
        known = self._context.known(id)
        with self._context.store.read() as tx:
            rows, row = tx.rounds(known.no), tx.campaign(id)
            assert row is not None
            if row.finished_at is None and known.campaign.has_several_rounds:
                is_between = rows[-1].closed_at is not None
                still = "being followed up" if is_between else "still to be closed"
                raise Problem("rounds-left", f"round {rows[-1].number} is {still}")
            sums = [tx.tally(known.no, each.number) for each in rows]
        counts = tuple(0 if each is None else each.n_reports for each in sums)
        is_open = row.finished_at is None
        return known, OutcomeVersion(campaign=id, estimator=estimator, is_open=is_open, counts=counts)

    def _find(self, known: StoredCampaign, version: OutcomeVersion) -> Finished:
        """What was found and stored; else what the tallies say, stored if the campaign is finished."""
        estimator = version.estimator
        is_own = estimator is None or estimator == known.campaign.mechanism
        with self._context.store.read() as tx:
            stored = tx.outcome(known.no) if is_own and not version.is_open else None
            if stored is None:
                history = self._context.cache.history(tx, known, tx.rounds(known.no))
        if stored is None:
            try:
                found = find_outcome(known.campaign, history, estimator=estimator)
            except Problem as problem:
                if not version.is_open and is_own:
                    self._context.log.event("no-outcome", campaign=known.id, why=problem.detail)
                raise
            if version.is_open or not is_own:
                return found
            # A store that was migrated: from now on the campaign has found what is found here.
            with self._context.store.write() as tx:
                tx.keep_outcome(known.no, pack_outcome(found))
                stored = tx.outcome(known.no)
            assert stored is not None
        return unpack_outcome(stored, campaign=known.id)
