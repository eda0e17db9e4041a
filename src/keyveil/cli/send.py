"""`keyveil send`: noise every user of a file here, and upload the reports until they are settled.

Who was asked is remembered in a spool (`cli.spool`), in one transaction with the report. A run that is cut
off is gone on with by the next: it sends what waits, under the ids that it has, and asks those who were not
asked yet. Whoever was asked is left out, whichever file names them.

Of a series the open wave is asked. Every user is a device with one vote and a panel of its own (`cli.spool`):
those whose panel has the wave are asked, and nobody else.

With `--relay` reports are sealed and go through a relay, as devices send them; the collector is asked what
the round is, and for its keys, and no more.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.asking import Server, server_options
from keyveil.cli.columns import column_options, read_for, skip_option
from keyveil.errors import CampaignError, LedgerError, TransportError

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.cli.crowd import FileUsers
    from keyveil.cli.spool import Spool
    from keyveil.client import Receipt, Reporter
    from keyveil.client.courier import Addresses, Route
    from keyveil.client.waves import Wave
    from keyveil.rounds import Round

# Reports a transaction, while the spool is filled.
_GROUP = 2000
# Ids that are asked for at once, where the collector issues them.
_IDS = 10_000
# Seconds for a question to the collector that is over soon or never.
_SOON = 10.0
SPOOL = "keyveil.spool"
_AT_THE_COMMAND = {
    "relay-required": "the campaign takes reports through a relay only; name it with --relay",
    "not-relayed": "the campaign takes no reports through a relay; leave --relay out",
    "no-collector": "keys are asked of the relay and of the collector at another address; name the campaign "
    "by its address at the collector, or the collector's key with --sealing-key",
}
Issue = Callable[[int], list[bytes]]


@dataclass(frozen=True, kw_only=True)
class Question:
    """The open round of a campaign, where it is asked and who asks."""

    server: str
    campaign: Campaign
    round: Round
    ids_are_issued: bool
    token: str | None
    relay_token: str | None
    addresses: Addresses

    @property
    def url(self) -> str:
        """The campaign's address."""
        return f"{self.server}/v1/campaigns/{self.campaign.id}"

    @cached_property
    def route(self) -> Route:
        """The way of its reports, or a refusal in the command's words."""
        try:
            return self.addresses.route(self.campaign)
        except TransportError as error:
            raise TransportError(_AT_THE_COMMAND.get(error.code, str(error)), code=error.code) from None

    @cached_property
    def wave(self) -> Wave | None:
        """The wave that the campaign is, if it is one of a series."""
        from keyveil.client.waves import Wave

        return Wave.of(self.campaign)

    @property
    def own_token(self) -> str | None:
        """What whoever takes the reports is shown: the collector's token is not for a relay."""
        return self.token if self.addresses.relay is None else self.relay_token


def _checked_key(_context: click.Context, _option: click.Parameter, digits: str | None) -> bytes | None:
    """The key, if one was given."""
    from keyveil.client.courier import read_key

    try:
        return None if digits is None else read_key(digits)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("campaign")
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option(
    "--spool",
    type=click.Path(path_type=Path),
    help=f"Where it is remembered who was asked, and reports wait; {SPOOL} beside PAIRS if left out.",
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Seconds without progress after which to give up; what is left waits in the spool.",
)
@click.option(
    "--relay",
    metavar="URL",
    help="Seal the reports and send them through this relay, never to the collector.",
)
@click.option(
    "--sealing-key",
    metavar="HEX",
    callback=_checked_key,
    help="The collector's public key to seal to; relay and collector are asked for one if left out.",
)
@click.option("--relay-token", metavar="TOKEN", help="A device's token of the relay, if it wants one.")
@column_options
@skip_option
@server_options
def send(
    campaign: str,
    pairs: Path,
    spool: Path | None,
    patience: float,
    relay: str | None,
    sealing_key: bytes | None,
    relay_token: str | None,
    url: str,
    token: str | None,
    **columns: Any,
) -> None:
    """Noise every user in PAIRS and upload to CAMPAIGN, with retries and a device's token.

    CAMPAIGN is an address (https://HOST/v1/campaigns/ID, or https://HOST/v1/series/ID for a series, whose
    open wave asks some of the users), or, at the collector of --url, an id or the beginning of one, a name
    (looked up with KEYVEIL_TOKEN) or the campaign's file. Answers the round that is open; run it again for
    the next one. Nobody is asked twice in a round: who was asked is in the spool and left out. PAIRS may
    also be a file of reports, made by `keyveil perturb`. With --relay CAMPAIGN may be an address at the
    relay; a campaign that requires one takes nothing without. Exit status 1 if reports are left or refused.
    """
    from keyveil.cli.spool import Spool
    from keyveil.client.courier import Addresses

    asked = _asked(campaign, url, token, Addresses(relay=relay, sealing_key=sealing_key), relay_token)
    _check_welcome(asked)
    path = spool or pairs.with_name(SPOOL)
    memory = Spool(path, asked.campaign.id, asked.round.number, asked.wave)
    try:
        _fill(memory, path, asked, pairs, columns)
    except LedgerError as error:
        raise LedgerError(f"{error}; --spool names another file for it") from None
    before = memory.traffic()
    receipt = _upload_all(_device(path, asked), memory, patience)
    now = memory.traffic()
    sent, refused = now.sent - before.sent, now.refused - before.refused
    click.echo(f"{sent} reports accepted, {refused} refused, {now.waiting} left", err=True)
    if now.waiting:
        click.echo(f"keyveil: {receipt.detail}; what is left waits in {path}, run this again", err=True)
    if refused:
        who = "collector" if relay is None else "relay"
        click.echo(f"keyveil: of those that were refused, the {who} says {memory.why()}", err=True)
    if now.waiting or refused:
        sys.exit(1)


def _asked(
    campaign: str, url: str, token: str | None, addresses: Addresses, relay_token: str | None
) -> Question:
    """What the collector asks; KEYVEIL_TOKEN, its operator's, looks a name up before --token does."""
    from keyveil.client import fetch_round
    from keyveil.client.transport import fetch_wave, is_same_place, leads_to_series, split_address

    own = server = url.rstrip("/")
    address = campaign
    is_series = "://" in campaign and leads_to_series(campaign)
    if "://" in campaign:
        server, campaign = split_address(campaign, "series" if is_series else "campaigns")
    is_relay = addresses.relay is not None and is_same_place(server, addresses.relay)
    # Another collector is shown no token but the one that is meant for it, and a relay none.
    who = None if is_relay else token if server != own else os.environ.get("KEYVEIL_TOKEN") or token
    if is_series:
        fetched = fetch_wave(address)
    else:
        fetched = fetch_round(f"{server}/v1/campaigns/{Server(url=server, token=who).id_of(campaign)}")
    if fetched.round is None:
        raise CampaignError("no round of this campaign is open")
    return Question(
        server=server,
        campaign=fetched.campaign,
        round=fetched.round,
        ids_are_issued=fetched.ids_are_issued,
        token=token,
        relay_token=relay_token,
        addresses=replace(addresses, collector=None if is_relay else server),
    )


def _check_welcome(asked: Question) -> None:
    """Stop before anybody is asked if nobody would take a report: whoever is to is sent an empty batch."""
    from keyveil.client import transport
    from keyveil.sealing import require_sealing

    if asked.addresses.relay is not None:
        require_sealing()
    url, exchange = asked.route.url, transport.with_token(asked.own_token)
    try:
        said = transport.send(url, [], timeout=_SOON, exchange=exchange)
    except TransportError as error:
        if error.code == TransportError.code:
            # It may pass: reports are made, and sent when the collector is ready.
            return
        raise TransportError(
            _with_remedy(str(error).removesuffix("; the reports wait"), asked, error.code)
        ) from None
    if said.why:
        raise TransportError(f"{url.split('/v1/')[0]} takes no reports, {said.why}", code="refused")


def _with_remedy(words: str, asked: Question, code: str) -> str:
    if code != "token-refused" or asked.addresses.relay is not None:
        return words
    make = f"keyveil token create device --campaign {asked.campaign.id[:12]}"
    return f"{words}; `{make}` makes a device's token, pass it as --token"


def _device(spool: Path, asked: Question) -> Reporter:
    from keyveil.cli.spool import ENDLESS
    from keyveil.client import Reporter

    to, key = asked.addresses, asked.addresses.sealing_key
    return Reporter(
        asked.campaign,
        ledger=spool,
        collector=to.collector,
        relay=to.relay,
        sealing_key=None if key is None else key.hex(),
        relay_token=asked.relay_token,
        token=asked.token,
        limits=ENDLESS,
    )


def _issuer(asked: Question) -> Issue | None:
    """Asks the collector for as many ids as are needed, if it issues them; a nonce stands for a crowd."""
    from keyveil.client.ledger import NONCE_BYTES
    from keyveil.client.transport import fetch_ids, with_token

    if not asked.ids_are_issued:
        return None
    ask, by_nonce = with_token(asked.token), asked.campaign.issues_ids

    def issue(count: int) -> list[bytes]:
        sizes = [min(_IDS, count - done) for done in range(0, count, _IDS)]
        nonces = (secrets.token_bytes(NONCE_BYTES) if by_nonce else None for _ in sizes)
        pairs = zip(sizes, nonces, strict=True)
        return [name for size, nonce in pairs for name in fetch_ids(asked.url, size, nonce, exchange=ask)]

    return issue


def _fill(spool: Spool, path: Path, asked: Question, pairs: Path, columns: dict[str, Any]) -> None:
    """A report in the spool for everybody who was never asked; says how many were."""
    from keyveil.cli.files import holds_reports

    waiting = spool.traffic().waiting if path.exists() else 0
    if waiting:
        click.echo(f"going on with {waiting} reports that wait in {path}", err=True)
    if holds_reports(pairs):
        n_asked, what = _fill_with_reports(spool, asked, pairs), "reports"
    else:
        n_asked, what = _fill_with_users(spool, asked, pairs, columns), "users"
    if n_asked:
        click.echo(
            f"left out {n_asked} {what} that were sent before, as {path} says; if they are others, or go to "
            "another collector, name another --spool",
            err=True,
        )


def _fill_with_reports(spool: Spool, asked: Question, pairs: Path) -> int:
    """How many of a file's reports were known."""
    from keyveil.cli.files import Reports
    from keyveil.report import Envelope

    if asked.wave is not None:
        raise CampaignError(
            "a wave of a series asks some of the users, and a file of reports does not say whose they are; "
            "name the file of pairs"
        )
    reports, known = iter(Reports(asked.campaign, [pairs])), 0
    while group := list(islice(reports, _GROUP)):
        named = ((f"report {Envelope.from_bytes(report).report_id.hex()}", report) for report in group)
        known += len(group) - spool.put(named)
    return known


def _fill_with_users(spool: Spool, asked: Question, pairs: Path, columns: dict[str, Any]) -> int:
    """How many of a file's users were asked before; the others are asked now."""
    from keyveil.cli.console import progress
    from keyveil.cli.crowd import FileUsers
    from keyveil.cli.perturb import say_who_is_unknown

    held = read_for(asked.campaign, pairs, **columns).population
    crowd = FileUsers(asked.campaign, held, asked.round)
    say_who_is_unknown(crowd)
    if asked.wave is not None:
        _keep_panel(crowd, spool, asked.wave)
    n_users = crowd.n_users
    crowd.keep(spool.are_new([f"user {name}" for name in crowd.users]))
    with progress("noising", crowd.n_users) as advance:
        for group in _groups(crowd, _issuer(asked)):
            spool.put(group)
            advance(len(group))
    return n_users - crowd.n_users


def _keep_panel(crowd: FileUsers, spool: Spool, wave: Wave) -> None:
    """Ask those whose panel has the wave, and say how many they are."""
    n_users = crowd.n_users
    crowd.keep(spool.are_asked([f"user {name}" for name in crowd.users]))
    click.echo(
        f"wave {wave.number} of {wave.series.waves} asks {crowd.n_users} of {n_users} users; "
        "the others answer other waves",
        err=True,
    )


def _groups(crowd: FileUsers, issue: Issue | None) -> Iterator[list[tuple[str, bytes]]]:
    """Users with their reports, some at a time."""
    for names, block in crowd.answers(issue):
        reports = [block[at : at + crowd.length] for at in range(0, len(block), crowd.length)]
        for at in range(0, len(names), _GROUP):
            named = zip(names[at : at + _GROUP], reports[at : at + _GROUP], strict=True)
            yield [(f"user {name}", report) for name, report in named]


def _upload_all(device: Reporter, spool: Spool, patience: float) -> Receipt:
    """Upload until nothing is left, the collector refuses or nothing moves for too long; the last word."""
    from keyveil.cli.console import progress
    from keyveil.client import Code

    if not (receipt := device.enable()):
        raise LedgerError(receipt.detail)
    left, moved, is_told = spool.traffic().waiting, time.monotonic(), False
    with progress("sending", left) as advance:
        while True:
            receipt = device.upload()
            traffic = spool.traffic()
            is_moving = traffic.waiting < left
            if is_moving:
                advance(left - traffic.waiting)
                left, moved = traffic.waiting, time.monotonic()
            if receipt.code is not Code.WAITING:
                spool.try_at_once()
                return receipt
            if time.monotonic() - moved >= patience:
                return receipt
            if not is_told and not is_moving:
                click.echo(f"{receipt.detail}; trying again for {patience:g} s without progress", err=True)
                is_told = True
            time.sleep(min(max(traffic.not_before - time.time(), 0.05), max(patience, 0.05)))
