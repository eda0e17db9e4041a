"""The device's side of a campaign: the record goes in, one report comes out.

Needs nothing but the standard library. One report is made whatever the record holds, an empty one
included; its length and the number of random words behind it depend on the campaign alone.

Without a ledger a reporter has no memory: every call draws fresh noise, and whoever calls keeps count
of what that costs. It serves simulations, tests, and hosts with a ledger of their own. With a ledger

    report(held)    bytes; debited, remembered, not sent          raises a refusal (KeyveilError)
    submit(held)    the same, and queued; needs consent           never raises
    upload()        sends what waits, for at most `timeout`       never raises
    upload_soon()   the same from a thread; returns at once       never raises
    enable() disable() status() explain(held)                     never raise

Ids of reports are drawn here, unless the campaign issues them: then `ids=issued_ids(URL, token=...)`.

The constructor raises for a programming mistake (TypeError, BudgetError for caps that are no numbers,
EntropyError) and looks at neither disk nor network. What never raises returns a `Receipt`, a code and
a sentence; no sentence holds anything about the record.

The order of a report: consent, the campaign's end and promise, the caps, and only then the data. An
answer whose price the caps do not cover is refused, or the latest one repeated, without reading what
the user holds. The price is ln(loss) of the kernel's own integers, rounded up.
"""

from __future__ import annotations

import hmac
import os
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from keyveil.campaign import Campaign
from keyveil.client import consent, transport
from keyveil.client.caps import Caps
from keyveil.client.explain import Story, tell
from keyveil.client.ledger import Account, Clock, Ledger
from keyveil.client.memo import Memo
from keyveil.client.noise import Ids, noised, own_id
from keyveil.client.queue import Limits, Queue, Traffic
from keyveil.client.receipt import Receipt, receipt_for
from keyveil.domain import Record
from keyveil.errors import (
    BudgetError,
    CampaignError,
    EntropyError,
    LedgerError,
    ProtocolError,
    RecordError,
    TransportError,
)
from keyveil.mechanisms import Mechanism
from keyveil.numerics import Entropy, InsecureSeededEntropy, log_above, rounded_up, system_entropy
from keyveil.report import Envelope


class OpenRound(Protocol):
    """What a device must know of the round that it answers."""

    @property
    def number(self) -> int:
        """Which round it is."""

    @property
    def mechanism(self) -> Mechanism:
        """How to answer."""

    @property
    def group(self) -> tuple[Fraction, Fraction]:
        """Which places in [0, 1) are asked."""

    def narrow(self, record: Record) -> Record:
        """What of a record is asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where this device stands: what was spent, at most will be, and what waits.

    `epsilon_worst_case` is all that an observer can ever have learnt from this device: the lifetime cap.
    """

    consent: str
    epsilon_campaign: float
    epsilon_lifetime: float
    epsilon_worst_case: float
    answers: int
    traffic: Traffic


class Reporter:
    """Turns what a user holds into a noised report.

    >>> campaign = Campaign(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0, 60),
    ...                     pairs_per_user=2, mechanism="pckv-ue")
    >>> len(Reporter(campaign).report({"maps": 12.0}))
    36

    With a ledger the same question gets the same answer, and costs once.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/device.db"
    >>> device = Reporter(campaign, ledger=path, caps=Caps(campaign=2.0, lifetime=5.0))
    >>> device.report({"maps": 12.0}) == device.report({"maps": 12.0})
    True
    >>> device.status().epsilon_campaign, device.status().epsilon_worst_case
    (1.0, 5.0)
    >>> device.submit({"maps": 12.0}).message
    'reporting is off until enable() is called; ask the person first'
    """

    def __init__(
        self,
        campaign: Campaign,
        *,
        ledger: str | os.PathLike[str] | None = None,
        collector: str | None = None,
        token: str | None = None,
        caps: Caps | None = None,
        limits: Limits | None = None,
        entropy: Entropy = system_entropy,
        ids: Ids = own_id,
        clock: Clock = time.time,
        exchange: transport.Exchange | None = None,
    ) -> None:
        if not isinstance(campaign, Campaign):
            raise TypeError(f"expected a Campaign, got {type(campaign).__name__}")
        if isinstance(entropy, InsecureSeededEntropy):
            raise EntropyError("a device must not draw repeatable noise; leave `entropy` out")
        self._campaign = campaign
        self._ledger = None if ledger is None else Ledger(ledger, clock=clock)
        self._collector = collector
        self._caps = caps or Caps()
        self._limits = limits or Limits()
        self._entropy, self._ids = entropy, ids
        self._exchange = exchange or (transport.exchange if token is None else transport.with_token(token))
        self._mechanism = None if campaign.has_several_rounds else campaign.build()

    # --- one report ---

    def report(self, held: Mapping[str, float], round: OpenRound | None = None) -> bytes:
        """The report for what a user holds, by the rules of `keyveil.domain` for odd values.

        A campaign of several rounds needs the round that is open. Nothing is queued or sent: the
        bytes are the caller's. Without a ledger the noise is fresh every time.
        """
        if self._ledger is None:
            return self._noise(self._mechanism_of(round), self._read(held, round), round)
        with self._ledger.transaction() as account:
            consent.refuse_if_withdrawn(account)
            return self._answer(account, held, round)

    def submit(self, held: Mapping[str, float], round: OpenRound | None = None) -> Receipt:
        """Make the report and queue it for `upload`, if the person has said yes."""

        def work() -> str:
            with self._book().transaction() as account:
                consent.require(account)
                self._queue(account).put(self._answer(account, held, round))
            return "queued"

        return receipt_for(work)

    # --- sending ---

    def upload(self, timeout: float = 10.0) -> Receipt:
        """Send what waits, batch by batch, until nothing is left, a batch fails or the time is over.

        A connection that hangs is given up after `timeout`, so the call may take twice that.
        """

        def work() -> str:
            if self._collector is None:
                raise TransportError("no collector is known; pass collector='https://...'")
            base = transport.checked(self._collector).rstrip("/")
            url = f"{base}/v1/campaigns/{self._campaign.id}/reports"
            ends = time.monotonic() + timeout
            sent = 0
            while batch := self._next_batch():
                if time.monotonic() > ends:
                    raise TransportError(f"{sent} reports settled, the rest waits; the time was over")
                sent += self._send(url, batch, timeout)
            return f"{sent} reports settled"

        return receipt_for(work)

    def upload_soon(self, timeout: float = 10.0) -> None:
        """Start `upload` in a thread that does not keep the host application alive."""
        # A host that is shutting down starts no threads; what waits is sent next time.
        with suppress(RuntimeError):
            threading.Thread(target=self.upload, args=(timeout,), name="keyveil-upload", daemon=True).start()

    # --- the person ---

    def enable(self) -> Receipt:
        """The person said yes."""

        def work() -> str:
            with self._book().transaction() as account:
                consent.give(account)
            return "enabled, but DO_NOT_TRACK is set and wins" if consent.do_not_track() else "enabled"

        return receipt_for(work)

    def disable(self) -> Receipt:
        """The person said no: every campaign's queue and memo are wiped, what was spent is not."""

        def work() -> str:
            with self._book().transaction() as account:
                consent.withdraw(account)
            return "disabled; nothing waits and no answer is kept"

        return receipt_for(work)

    def status(self) -> Status | Receipt:
        """What was spent, what waits and what was said; a receipt where the ledger cannot tell."""
        found: list[Status] = []

        def work() -> str:
            with self._book().transaction() as account:
                found.append(self._status(account))
            return ""

        receipt = receipt_for(work)
        return found[0] if found else receipt

    def explain(self, held: Mapping[str, float], round: OpenRound | None = None) -> str:
        """For the person: what is true, what was sent, what an observer can now guess, in words.

        What is true is passed in, because it is not kept. Made for this device's screen only.
        """
        words: list[str] = []

        def work() -> str:
            mechanism = self._mechanism_of(round)
            record = self._read(held, None)
            with self._book().transaction() as account:
                sent = Memo(account, self._campaign.id, _number(round)).latest()
                status = self._status(account)
            words.append(
                tell(
                    Story(
                        campaign=self._campaign,
                        mechanism=mechanism,
                        held=held,
                        record=record,
                        narrow=None if round is None else round.narrow,
                        sent=None if sent is None else Envelope.from_bytes(sent).payload,
                        spent=status.epsilon_campaign,
                        cap=self._caps.campaign,
                        spent_in_all=status.epsilon_lifetime,
                        worst_case=status.epsilon_worst_case,
                    )
                )
            )
            return ""

        receipt = receipt_for(work)
        return words[0] if words else receipt.message

    # --- inside ---

    def _answer(self, account: Account, held: Mapping[str, float], round: OpenRound | None) -> bytes:
        """The report: kept, or made, paid for and kept. Only here is the data of a ledger's user read."""
        mechanism = self._mechanism_of(round)
        price = log_above(mechanism.loss)
        self._check_question(account, price, round)
        memo = Memo(account, self._campaign.id, _number(round))
        refusal = self._caps.refusal(account, self._campaign.id, price)
        if refusal is not None:
            latest = memo.latest()
            if latest is None:
                raise BudgetError(refusal)
            return latest
        record = self._read(held, round)
        known = memo.find(record)
        if known is not None:
            return known
        report = self._noise(mechanism, record, round)
        account.debit(self._campaign.id, price, _number(round))
        memo.keep(record, report)
        return report

    def _read(self, held: Mapping[str, float], round: OpenRound | None) -> Record:
        if not isinstance(held, Mapping):
            raise RecordError("a record must be a mapping of key names to numbers")
        record = self._campaign.domain.encode(held)
        return record if round is None else round.narrow(record)

    def _noise(self, mechanism: Mechanism, record: Record, round: OpenRound | None) -> bytes:
        return noised(
            self._campaign.tag,
            mechanism,
            record,
            round=_number(round),
            entropy=self._entropy,
            ids=self._ids,
        )

    def _mechanism_of(self, round: OpenRound | None) -> Mechanism:
        return round.mechanism if round is not None else self._mechanism or self._campaign.build()

    def _check_question(self, account: Account, price: Fraction, round: OpenRound | None) -> None:
        """Refuse a campaign that is over, a round for others, and rounds that break the promise."""
        campaign = self._campaign
        if campaign.expiry is not None and account.now >= campaign.expiry.timestamp():
            raise CampaignError(f"the campaign ended on {campaign.expires}")
        if round is not None and not round.group[0] <= self._place(account) < round.group[1]:
            raise ProtocolError(f"round {round.number} is for others; this device is not in its group")
        prices = {**account.price_of_rounds(campaign.id), _number(round): price}
        total = sum(prices.values(), Fraction(0))
        if total > Fraction(campaign.epsilon):
            raise BudgetError(
                f"the rounds so far cost epsilon {rounded_up(total):.6g} for one record, more than the "
                f"{campaign.epsilon:g} that the campaign promises"
            )

    def _place(self, account: Account) -> Fraction:
        """Where the device stands among the groups of the campaign: random, and always the same."""
        drawn = hmac.digest(account.secret, f"place {self._campaign.id}".encode(), "sha256")
        return Fraction(int.from_bytes(drawn, "big"), 1 << 8 * len(drawn))

    def _status(self, account: Account) -> Status:
        return Status(
            consent="do not track" if consent.do_not_track() else account.consent,
            epsilon_campaign=rounded_up(account.spent(self._campaign.id)),
            epsilon_lifetime=rounded_up(account.spent()),
            epsilon_worst_case=max(rounded_up(account.spent()), float(self._caps.lifetime)),
            answers=account.answers(self._campaign.id),
            traffic=self._queue(account).traffic(),
        )

    def _next_batch(self) -> list[bytes]:
        with self._book().transaction() as account:
            consent.require(account)
            queue = self._queue(account)
            batch = queue.batch()
            if batch and queue.wait():
                raise TransportError(
                    f"the next attempt is due in {queue.wait():.0f} s", retry_after=queue.wait()
                )
            return batch

    def _send(self, url: str, batch: list[bytes], timeout: float) -> int:
        try:
            counts = transport.send(url, batch, timeout=timeout, exchange=self._exchange)
        except TransportError as error:
            with self._book().transaction() as account:
                self._queue(account).back_off(error.retry_after)
            raise
        with self._book().transaction() as account:
            self._queue(account).settle(zip(batch, counts, strict=True))
        return len(batch)

    def _queue(self, account: Account) -> Queue:
        return Queue(account, self._campaign.id, self._limits)

    def _book(self) -> Ledger:
        if self._ledger is None:
            raise LedgerError("this reporter has no ledger; pass ledger='device.db'")
        return self._ledger


def _number(round: OpenRound | None) -> int:
    return 1 if round is None else round.number
