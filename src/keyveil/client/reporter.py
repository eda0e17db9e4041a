"""The device's side of a campaign: the record goes in, one report comes out.

Needs nothing but the standard library. One report is made whatever the record holds, an empty one
included; its length and the number of random words behind it depend on the round alone. The time to read a
record grows with the number of its pairs, as reading does; what comes after it does not.

Without a ledger a reporter has no memory: every call draws fresh noise, and whoever calls keeps count
of what that costs. It serves simulations, tests, and hosts with a ledger of their own. With a ledger a device
has one vote: it answers a round once, ever, and repeats those bytes whatever its record becomes.

    report(held)    bytes; paid for, kept, not sent               raises a refusal (KeyveilError, with a code)
    submit(held)    the same, and queued; needs consent           never raises
    upload()        sends what waits, for at most `timeout`       never raises
    upload_soon()   the same from a thread; returns at once       never raises
    flush(timeout)  sends until nothing waits or time is over     never raises
    close()         flush, and no thread from then on             never raises
    enable() disable() status() explain(held)                     never raise

A device is a context manager, which closes it. Every method may be called from any thread, so a coroutine
calls those that wait for disk or network through `asyncio.to_thread(device.submit, held)`; `upload_soon`
waits for neither. What happens is logged under `keyveil.client`, without anything about the record.

Reports go to the collector, or sealed through a relay (`relay=`, see `courier`): one way a campaign, for
good.

Where a campaign tells its users apart in the clear a report carries the device's labels, as `segments` names
them, beside its answer; where it does so privately the label is hidden in the answer, as what is held is.
They belong to the vote: what was answered once is repeated, whatever they become.

Ids of reports are drawn here, unless the campaign issues them: then the collector is asked for one, with a
nonce of the device's, in every round another and in each always the same: asking again brings no other id.

The constructor raises for a programming mistake (TypeError, BudgetError for caps that are no numbers,
EntropyError) and looks at neither disk nor network. What never raises returns a `Receipt`, a code and
a sentence; no sentence holds anything about the record.

The order of a report: consent, the campaign's end, the answer that was given before, of a wave the panel and
the campaign that the wave was, the group, what the campaign promised, the caps, and only then the data.
Nothing a collector says is believed: a description names a mechanism, the device makes its integers and takes
their loss for the price.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType
from typing import Any, NamedTuple, Self

from keyveil.campaign import REQUIRED, Campaign
from keyveil.client import transport
from keyveil.client.background import Background
from keyveil.client.courier import Addresses, Courier, read_key
from keyveil.client.ledger import NONCE_BYTES, Account, AnsweredRound, Clock, Ledger
from keyveil.client.permission import (
    YEAR,
    Caps,
    do_not_track,
    epsilon_of,
    give_consent,
    refuse_if_withdrawn,
    require_consent,
    withdraw_consent,
)
from keyveil.client.queue import THROUGH_RELAY, Limits, Queue, Traffic, waiting_among
from keyveil.client.receipt import Code, Reading, Receipt, receipt_for
from keyveil.client.waves import Wave
from keyveil.domain import Record
from keyveil.errors import (
    CampaignError,
    DescriptionError,
    EntropyError,
    KeyveilError,
    LedgerError,
    ProtocolError,
    RecordError,
    TransportError,
)
from keyveil.numerics import Entropy, InsecureSeededEntropy, price, system_entropy
from keyveil.report import Envelope, fresh_id
from keyveil.rounds import Round

# What may go well by itself, later.
_PASSING = (Code.WAITING, Code.LEDGER_BUSY)
# Seconds that a program which ends waits for an upload, unless it says otherwise, and at most; between two
# attempts at least, where somebody waits for them and in the background.
_EXIT_TIMEOUT, _LONGEST_EXIT, _SHORTEST_WAIT, _SHORTEST_SLEEP = 3.0, 60.0, 0.05, 1.0

# What a device learns of a round: JSON as a collector sends it, or the round itself where it is at hand.
Description = Mapping[str, Any] | Round


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Where this device stands: what was spent, at most will be, and what waits.

    `promised` is the most that this campaign's rounds together can ever tell; `epsilon_worst_case` is all
    that an observer of all campaigns can ever learn from this device: the lifetime cap. Where that is
    infinite, `yearly_cap` is what they can learn in any 365 days.

    What is said of a wave is its series': what its answers have cost and may at most, how many rounds were
    answered, what waits. With the first answer `epsilon_lifetime` holds the price of all of them.
    """

    consent: str
    epsilon_campaign: float
    promised: float
    epsilon_lifetime: float
    epsilon_worst_case: float
    epsilon_year: float
    """What the answers of the last 365 days cost, by the ledger's time."""
    yearly_cap: float | None
    answers: int
    traffic: Traffic
    route: str | None
    """The way that reports go, "direct" or "relay"; None before the first attempt to send one."""
    series: str | None = None
    """The id of the series, where the campaign is a wave."""

    @property
    def spent(self) -> float:
        """What this campaign, or its series, has cost so far."""
        return self.epsilon_campaign


class _PricedRound(NamedTuple):
    """A round with what the device works out of it: the hash of its description, and what it costs."""

    round: Round
    pin: str
    units: int


class _Vote(NamedTuple):
    """The answer to a round, and what was read for it: None where it was given before."""

    report: bytes
    reading: Reading | None


class Reporter:
    """Turns what a user holds into a noised report.

    >>> campaign = Campaign(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0, 60),
    ...                     pairs_per_user=2, mechanism="pckv-ue")
    >>> len(Reporter(campaign).report({"maps": 12.0}))
    36

    With a ledger a round is answered once, whatever the record becomes.

    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/device.db"
    >>> device = Reporter(campaign, ledger=path, caps=Caps(campaign=2.0, lifetime=5.0))
    >>> device.report({"maps": 12.0}) == device.report({"mail": 3.0})
    True
    >>> device.status().spent, device.status().promised, device.status().epsilon_worst_case
    (1.0, 1.0, 5.0)
    >>> device.submit({"maps": 12.0}).message
    'Reporting is off until enable() is called; ask the person first.'

    Whoever wants what waits to be on its way before a program goes on uses it as a context manager; what
    cannot be sent within `exit_timeout` seconds waits on the disk.

    >>> with Reporter(campaign, ledger=path, collector="https://collect.example.org") as device:
    ...     device.upload_soon()
    """

    def __init__(
        self,
        campaign: Campaign,
        *,
        segments: Mapping[str, str | None] | None = None,
        ledger: str | os.PathLike[str] | None = None,
        collector: str | None = None,
        relay: str | None = None,
        sealing_key: str | None = None,
        relay_token: str | None = None,
        token: str | None = None,
        caps: Caps | None = None,
        limits: Limits | None = None,
        entropy: Entropy = system_entropy,
        ids: transport.Ids | None = None,
        clock: Clock = time.time,
        exchange: transport.Exchange | None = None,
        exit_timeout: float = _EXIT_TIMEOUT,
    ) -> None:
        if not isinstance(campaign, Campaign):
            raise TypeError(f"expected a Campaign, got {type(campaign).__name__}")
        if not all(transport.is_token(each) for each in (token, relay_token) if each is not None):
            raise TransportError("a token is one word of plain letters", code="bad-token")
        if isinstance(entropy, InsecureSeededEntropy):
            raise EntropyError("a device must not draw repeatable noise; leave `entropy` out")
        if not 0 <= exit_timeout <= _LONGEST_EXIT:
            raise ValueError(f"exit_timeout must be seconds from 0 to {_LONGEST_EXIT:g}")
        self._campaign = campaign
        labels = _labels(campaign, {} if segments is None else segments)
        self._labels = labels if campaign.clear_labels else ()
        self._private_label = 0 if campaign.clear_labels or not labels else labels[0]
        self._ledger = None if ledger is None else Ledger(ledger, clock=clock)
        self._addresses = Addresses(
            collector=collector,
            relay=relay,
            sealing_key=None if sealing_key is None else read_key(sealing_key),
        )
        self._caps = caps or Caps()
        self._limits = limits or Limits()
        self._entropy = entropy
        self._exchange = exchange or transport.with_token(token)
        self._ids = ids or self._own_source()
        self._relayed = exchange or transport.with_token(relay_token)
        self._plain = exchange or transport.exchange
        self._couriers: dict[str, Courier] = {}
        self._last: _PricedRound | None = None
        self._round: Round | None = None
        self._background = Background(self._attempt, exit_timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    @classmethod
    def open(cls, description: object, **options: Any) -> Self:
        """A reporter for the campaign and the round of a description; the options are the constructor's."""
        campaign, round = Campaign.from_description(description)
        device = cls(campaign, **options)
        device._round = round
        return device

    @classmethod
    def connect(cls, url: str, **options: Any) -> Self:
        """A reporter for the open round of the campaign at an address, https://HOST/v1/campaigns/ID.

        Or of the open wave of the series at https://HOST/v1/series/ID, whose text must lead to that id.

        The address may be a relay's, named by `relay` too: the campaign's id is its hash, so a relay cannot
        change what the campaign says, and a round that it describes otherwise is checked and pinned as any.
        A relay is not shown the collector's token, and is not taken for the collector.
        """
        is_series, relay = transport.leads_to_series(url), options.get("relay")
        base, _ = transport.split_address(url, "series" if is_series else "campaigns")
        is_at_relay = relay is not None and transport.is_same_place(base, relay)
        token = None if is_at_relay else options.get("token")
        exchange = options.get("exchange") or transport.with_token(token)
        fetched = (transport.fetch_wave if is_series else transport.fetch_round)(url, exchange=exchange)
        if fetched.round is None:
            raise CampaignError("no round of this campaign is open", code="waiting")
        known: dict[str, Any] = {} if is_at_relay else {"collector": base}
        if fetched.ids_are_issued and not fetched.campaign.issues_ids:
            # An older collector's: the campaign's text does not say so.
            known["ids"] = transport.Issuer(
                url=f"{base}/v1/campaigns/{fetched.campaign.id}", exchange=exchange
            )
        device = cls(fetched.campaign, **known | options)
        device._round = fetched.round
        return device

    @property
    def campaign(self) -> Campaign:
        """The campaign that it answers."""
        return self._campaign

    # --- one report ---

    def report(self, held: Mapping[str, float], description: Description | None = None) -> bytes:
        """The report for what a user holds, by the rules of `keyveil.domain` for odd values.

        `description` is what the collector says of the open round; a campaign of one round needs none.
        Nothing is queued or sent: the bytes are the caller's. Without a ledger the noise is fresh every time.
        """
        if self._ledger is None:
            asked, record = self._round_of(description), self._read(held)
            report_id = self._new_id(os.urandom(NONCE_BYTES))
            return asked.report(record, report_id, labels=self._labels, entropy=self._entropy)
        return self._vote(held, description, refuse_if_withdrawn, queue=False).report

    def submit(self, held: Mapping[str, float], description: Description | None = None) -> Receipt:
        """Make the report and queue it for `upload`, if the person has said yes.

        The receipt says whether this repeats what was said before, in which case the record was not read, or
        else which of its keys were not taken as they were (`Receipt.reading`). That is for the application on
        this device: it travels in no report and stands in no log.
        """

        def work() -> Receipt:
            _, reading = self._vote(held, description, require_consent, queue=True)
            if reading is None:
                return Receipt(Code.DONE, "queued again, as it was answered before", is_repeat=True)
            return Receipt(Code.DONE, "queued", reading=reading)

        return receipt_for("submit", work)

    # --- sending ---

    def upload(self, timeout: float = 10.0) -> Receipt:
        """Send what waits, batch by batch, until nothing is left, a batch fails or the time is over.

        What goes through a relay is sealed here, once: whenever it is sent again it is the same bytes. Of a
        wave what waits of the series' other waves is sent as well, each to its own wave.
        """
        return receipt_for("upload", lambda: self._send_all(timeout))

    def upload_soon(self, timeout: float = 10.0) -> None:
        """Send what waits from a thread, and again when it is due, until nothing is left or it is refused.

        Returns at once. The thread does not keep the application alive; one that ends waits for an attempt
        under way, for at most `exit_timeout` seconds. A process that was forked and ends by `os._exit`, as
        those of `multiprocessing` do, waits for nothing: let it call `flush` or `close`.
        """
        self._background.start(timeout)

    def flush(self, timeout: float = 10.0) -> Receipt:
        """Send until nothing waits, and try again when it is due, for at most so many seconds.

        Returns before that where the collector refuses, or asks for more patience than there is.
        """
        ends = time.monotonic() + timeout
        self._background.rest(timeout)
        while True:
            receipt = self.upload(ends - time.monotonic())
            if receipt.code not in _PASSING:
                return receipt
            wait = max(self._due(), _SHORTEST_WAIT)
            if wait >= ends - time.monotonic():
                return receipt
            time.sleep(wait)

    def close(self, timeout: float | None = None) -> Receipt:
        """Flush, for `exit_timeout` seconds if no other time is named; from then on no thread is started.

        What waits stays on the disk, and the device may still be asked and sent by `upload`.
        """
        receipt = self.flush(self._background.exit_timeout if timeout is None else timeout)
        self._background.close()
        return receipt

    # --- the person ---

    def enable(self) -> Receipt:
        """The person said yes."""

        def work() -> str:
            with self._book().transaction() as account:
                give_consent(account)
            return "enabled, but DO_NOT_TRACK is set and wins" if do_not_track() else "enabled"

        return receipt_for("enable", work)

    def disable(self) -> Receipt:
        """The person said no: every campaign's queue and kept answers are wiped, what was spent is not."""

        def work() -> str:
            with self._book().transaction() as account:
                withdraw_consent(account)
            return "disabled; nothing waits and no answer is kept"

        return receipt_for("disable", work)

    def status(self) -> Status | Receipt:
        """What was spent, what waits and what was said; a receipt where the ledger cannot tell."""
        found: list[Status] = []

        def work() -> str:
            with self._book().transaction() as account:
                found.append(self._status(account))
            return ""

        receipt = receipt_for("status", work)
        return found[0] if found else receipt

    def explain(self, held: Mapping[str, float], description: Description | None = None) -> str:
        """For the person: what is true, what was sent, what an observer can now guess, in words.

        What is true is passed in, because it is not kept. Made for this device's screen only.
        """
        from keyveil.client.explain import Story, tell

        words: list[str] = []

        def work() -> str:
            asked, record = self._asked(description), self._read(held)
            with self._book().transaction() as account:
                answer = self._given(account, asked)
                status = self._status(account)
                panel = None if self._wave is None else self._wave.panel(account)
            sent = None if answer is None or answer.report is None else Envelope.from_bytes(answer.report)
            words.append(
                tell(
                    Story(
                        campaign=self._campaign,
                        round=asked.round,
                        panel=panel,
                        held=held,
                        record=record,
                        report_id=b"" if sent is None else sent.report_id,
                        sent=None if sent is None else sent.payload,
                        labels=self._labels,
                        goes_through_relay=self._goes_through_relay(status),
                        spent=status.spent,
                        promised=status.promised,
                        spent_in_all=status.epsilon_lifetime,
                        worst_case=status.epsilon_worst_case,
                        spent_in_a_year=status.epsilon_year,
                        yearly_cap=status.yearly_cap,
                    )
                )
            )
            return ""

        receipt = receipt_for("explain", work)
        return words[0] if words else receipt.message

    # --- inside ---

    def _vote(
        self, held: Mapping[str, float], description: Description | None, allowed: Any, *, queue: bool
    ) -> _Vote:
        """The round's only answer: kept, or made, paid for and kept; in the queue too, if that is wanted."""
        asked = self._asked(description)
        report_id = None if self._ids is fresh_id else self._fetched_id(asked, allowed)
        with self._book().transaction() as account:
            allowed(account)
            kept = self._kept(account, asked)
            if kept is None:
                vote = self._answer(account, asked, held, report_id or fresh_id())
            else:
                vote = _Vote(kept, None)
            if queue:
                self._queue(account).put(vote.report)
            return vote

    def _fetched_id(self, asked: _PricedRound, allowed: Any) -> bytes | None:
        """An id from the collector, for an answer that is yet to be made; the ledger is free meanwhile."""
        with self._book().transaction() as account:
            allowed(account)
            if self._kept(account, asked) is not None:
                return None
            self._check_answerable(account, asked)
            nonce = account.nonce(self._campaign.id, asked.round.number)
        return self._new_id(nonce)

    def _own_source(self) -> transport.Ids:
        """Where ids come from if nobody says: chance, or the collector of a campaign that issues them."""
        if not self._campaign.issues_ids:
            return fresh_id
        collector = self._addresses.collector
        if collector is None:
            return fresh_id if self._ledger is None else transport.no_id
        url = f"{collector.rstrip('/')}/v1/campaigns/{self._campaign.id}"
        return transport.Issuer(url=url, exchange=self._exchange)

    def _new_id(self, nonce: bytes) -> bytes:
        """An id; for the nonce, where ids are issued by nonces."""
        if isinstance(self._ids, transport.Issuer) and self._campaign.issues_ids:
            return self._ids(nonce)
        return self._ids()

    def _kept(self, account: Account, asked: _PricedRound) -> bytes | None:
        """What the round was answered, if it was; the data is not looked at."""
        campaign = self._campaign
        if self._wave is not None:
            self._wave.check_time(account)
        if campaign.expiry is not None and account.now >= campaign.expiry.timestamp():
            raise CampaignError(f"the campaign ended on {campaign.expires}", code="expired")
        answer = self._given(account, asked)
        if answer is None:
            return None
        if answer.report is None:
            raise ProtocolError(
                f"round {asked.round.number} was answered; switching reporting off wiped the answer",
                code="answered",
            )
        return answer.report

    def _given(self, account: Account, asked: _PricedRound) -> AnsweredRound | None:
        """The answer that the round was given, if it was described alike; else a refusal."""
        answer = account.answer(self._campaign.id, asked.round.number)
        if answer is not None and answer.pin not in (None, asked.pin):
            raise DescriptionError(
                f"round {asked.round.number} was answered under another description",
                code="pinned",
            )
        return answer

    def _check_answerable(self, account: Account, asked: _PricedRound) -> None:
        """Refuse a wave and a round for others, and one beyond what was promised or allowed."""
        if self._wave is not None:
            self._wave.check(account)
        if not asked.round.asks(account.place(self._campaign.id)):
            raise ProtocolError(
                f"round {asked.round.number} is for others; this device is not in its group",
                code="other-group",
            )
        self._caps.check(account, self._campaign.id, self._campaign.epsilon, asked.units, self._wave)

    def _answer(
        self, account: Account, asked: _PricedRound, held: Mapping[str, float], report_id: bytes
    ) -> _Vote:
        """Read the data and answer. Only here is the data of a ledger's user read."""
        self._check_answerable(account, asked)
        record, reading = self._read(held), Reading(self._campaign.domain, held)
        report = asked.round.report(record, report_id, labels=self._labels, entropy=self._entropy)
        account.keep(self._campaign.id, asked.round.number, AnsweredRound(asked.pin, asked.units, report))
        if self._wave is not None:
            self._wave.join(account)
        return _Vote(report, reading)

    def _goes_through_relay(self, status: Status) -> bool:
        """As its reports went before, or else as they will."""
        if status.route is None:
            return self._addresses.relay is not None or self._campaign.relay == REQUIRED
        return status.route == THROUGH_RELAY

    def _read(self, held: Mapping[str, float]) -> Record:
        if not isinstance(held, Mapping):
            raise RecordError("a record must be a mapping of key names to numbers")
        return self._campaign.domain.encode(held, self._private_label)

    def _round_of(self, description: Description | None) -> Round:
        """The round that is asked."""
        if description is None:
            self._round = self._round or self._campaign.only_round()
            return self._round
        if not isinstance(description, Round):
            return self._campaign.read_round(description)
        if description.campaign != self._campaign.id:
            raise DescriptionError("the round belongs to another campaign", code="other-campaign")
        self._campaign.check_round(description)
        return description

    def _asked(self, description: Description | None) -> _PricedRound:
        round = self._round_of(description)
        if self._last is None or self._last.round is not round:
            self._last = _PricedRound(round, round.pin, price(round.mechanism.loss))
        return self._last

    def _send_all(self, timeout: float) -> str:
        """Own reports and those of earlier waves; where one wave's cannot be sent the others' are."""
        ends, said, failure = time.monotonic() + timeout, [], None
        for campaign in self._ids_to_send():
            route = self._addresses.route(self._campaign, campaign)
            try:
                done = self._courier(campaign).send_all(self._book(), route, ends - time.monotonic())
            except TransportError as error:
                failure = failure or error
            else:
                said.append(done if campaign == self._campaign.id else f"of an earlier wave {done}")
        if failure is not None:
            raise failure
        return "; ".join(said)

    def _ids_to_send(self) -> list[str]:
        """The campaign, and the earlier waves of its series of which reports wait."""
        if self._wave is None:
            return [self._campaign.id]
        with self._book().transaction() as account:
            waiting = waiting_among(account, account.waves(self._wave.id).values())
        return [self._campaign.id, *(each for each in waiting if each != self._campaign.id)]

    def _courier(self, campaign: str) -> Courier:
        if campaign not in self._couriers:
            self._couriers[campaign] = Courier(
                campaign,
                self._limits,
                self._addresses,
                direct=self._exchange,
                relayed=self._relayed,
                plain=self._plain,
            )
        return self._couriers[campaign]

    @cached_property
    def _wave(self) -> Wave | None:
        """The wave that the campaign is; a series as a whole is refused."""
        return None if self._campaign.series is None else Wave.of(self._campaign)

    def _counted(self, account: Account) -> list[str]:
        """The campaigns that count as one: the campaign, and the answered waves of its series."""
        waves = () if self._wave is None else account.waves(self._wave.id).values()
        return list(dict.fromkeys((self._campaign.id, *waves)))

    def _status(self, account: Account) -> Status:
        counted = self._counted(account)
        return Status(
            consent="do not track" if do_not_track() else account.consent,
            epsilon_campaign=epsilon_of(sum(map(account.spent, counted))),
            promised=self._campaign.promised,
            epsilon_lifetime=epsilon_of(account.spent()),
            epsilon_worst_case=max(epsilon_of(account.spent()), float(self._caps.lifetime)),
            epsilon_year=epsilon_of(account.spent_since(account.now - YEAR)),
            yearly_cap=self._caps.yearly,
            answers=sum(map(account.answers, counted)),
            traffic=self._traffic(account, counted),
            route=next(filter(None, (Queue(account, each, self._limits).way for each in counted)), None),
            series=None if self._wave is None else self._wave.id,
        )

    def _attempt(self, timeout: float) -> float | None:
        """An upload in the background; in how many seconds another is worth making, None where none is."""
        if self.upload(timeout).code not in _PASSING:
            return None
        return max(self._due(), _SHORTEST_SLEEP)

    def _due(self) -> float:
        """Seconds until the next attempt may be made; none where the ledger cannot tell."""
        try:
            with self._book().transaction() as account:
                waits = [Queue(account, each, self._limits).wait() for each in self._waiting(account)]
                return min(waits, default=0.0)
        except KeyveilError:
            return 0.0

    def _waiting(self, account: Account) -> list[str]:
        """Of what is counted as one, whatever has reports that wait."""
        return waiting_among(account, self._counted(account))

    def _traffic(self, account: Account, counted: list[str]) -> Traffic:
        """What became of all reports of the campaign, or of its series."""
        each = [Queue(account, campaign, self._limits).traffic() for campaign in counted]
        names = ("waiting", "sent", "refused", "dropped")
        return Traffic(
            **{name: sum(getattr(one, name) for one in each) for name in names},
            failures=max(one.failures for one in each),
            not_before=max(one.not_before for one in each),
        )

    def _queue(self, account: Account) -> Queue:
        return Queue(account, self._campaign.id, self._limits)

    def _book(self) -> Ledger:
        if self._ledger is None:
            raise LedgerError("this reporter has no ledger; pass ledger='device.db'", code="no-ledger")
        return self._ledger


def _labels(campaign: Campaign, said: Mapping[str, str | None]) -> tuple[int, ...]:
    """The device's label of each attribute; those that the campaign does not name are left out."""
    is_text = isinstance(said, Mapping) and all(
        isinstance(name, str) and (value is None or isinstance(value, str)) for name, value in said.items()
    )
    if not is_text:
        raise TypeError('segments must map names of attributes to texts, such as {"platform": "ios"}')
    return () if campaign.segments is None else campaign.segments.labels(said)
