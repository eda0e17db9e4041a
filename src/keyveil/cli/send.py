"""`keyveil send`: noise every user of a file here, and upload the reports until they are settled.

All reports are made and put into a spool, a ledger's queue, before the first is sent. A run that is
cut off leaves the spool behind; the next run sends what is in it and makes nothing anew, so nobody
answers twice.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.columns import column_options, read_for, skip_option
from keyveil.cli.settings import token_option
from keyveil.errors import CampaignError, LedgerError

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.client import Reporter, Traffic
    from keyveil.rounds import Round

# Reports a transaction, while the spool is filled.
_GROUP = 2000
# Ids that are asked for at once, where the collector issues them.
_IDS = 10_000
Issue = Callable[[int], list[bytes]]


@click.command()
@click.argument("url")
@click.argument("pairs", type=click.Path(path_type=Path))
@click.option(
    "--spool", type=click.Path(path_type=Path), help="Where reports wait; PAIRS.ROUND.spool if left out."
)
@click.option(
    "--patience",
    type=click.FloatRange(min=0),
    default=300.0,
    show_default=True,
    help="Seconds without progress after which to give up; what is left waits in the spool.",
)
@column_options
@skip_option
@token_option
def send(
    url: str, pairs: Path, spool: Path | None, patience: float, token: str | None, **columns: Any
) -> None:
    """Noise every user in PAIRS and upload to URL (https://HOST/v1/campaigns/ID), with retries.

    Answers the round that is open; run it again for the next one. PAIRS may also be a file of reports,
    made by `keyveil perturb`. Exit status 1 if reports are left.
    """
    from keyveil.client import Limits, Reporter, fetch_round
    from keyveil.client.transport import split_address

    campaign, asked, ids_are_issued = fetch_round(url)
    if asked is None:
        raise CampaignError("no round of this campaign is open")
    spool = spool or pairs.with_name(f"{pairs.name}.{asked.number}.spool")
    if spool.exists():
        click.echo(f"going on with {spool}", err=True)
    else:
        issue = _issuer(url, token, by_nonce=campaign.issues_ids) if ids_are_issued else None
        _fill(spool, campaign, asked, pairs, issue, columns)
    device = Reporter(
        campaign,
        ledger=spool,
        collector=split_address(url)[0],
        token=token,
        limits=Limits(reports=sys.maxsize, bytes=sys.maxsize),
    )
    why = _upload_all(device, patience)
    traffic = _traffic(device)
    click.echo(
        f"{traffic.sent} reports accepted, {traffic.refused} refused, {traffic.waiting} left", err=True
    )
    if traffic.waiting:
        click.echo(f"keyveil: {why}; what is left waits in {spool}, run this again", err=True)
        sys.exit(1)
    spool.unlink()


def _issuer(url: str, token: str | None, *, by_nonce: bool) -> Issue:
    """Asks the collector for as many ids as are needed; a nonce a request stands for a crowd."""
    from keyveil.client.noise import NONCE_BYTES
    from keyveil.client.transport import exchange, fetch_ids, with_token

    ask = exchange if token is None else with_token(token)

    def issue(count: int) -> list[bytes]:
        sizes = [min(_IDS, count - done) for done in range(0, count, _IDS)]
        nonces = (secrets.token_bytes(NONCE_BYTES) if by_nonce else None for _ in sizes)
        asked = zip(sizes, nonces, strict=True)
        return [name for size, nonce in asked for name in fetch_ids(url, size, nonce, exchange=ask)]

    return issue


def _fill(
    spool: Path, campaign: Campaign, asked: Round, pairs: Path, issue: Issue | None, columns: dict[str, Any]
) -> None:
    """A spool with a report for every user, complete before it has its name."""
    from keyveil.cli.files import written
    from keyveil.client.ledger import Ledger
    from keyveil.client.queue import Limits, Queue

    endless = Limits(reports=sys.maxsize, bytes=sys.maxsize)
    with written(spool) as draft:
        ledger, reports = Ledger(draft), _reports(campaign, asked, pairs, issue, columns)
        while group := list(islice(reports, _GROUP)):
            with ledger.transaction() as account:
                Queue(account, campaign.id, endless).put(*group)


def _reports(
    campaign: Campaign, asked: Round, pairs: Path, issue: Issue | None, columns: dict[str, Any]
) -> Iterator[bytes]:
    """The reports in a file, or one for every user in it."""
    from keyveil.cli.console import progress
    from keyveil.cli.crowd import FileUsers
    from keyveil.cli.files import Reports, holds_reports
    from keyveil.cli.perturb import say_who_is_unknown

    if holds_reports(pairs):
        yield from Reports(campaign, [pairs])
        return
    crowd = FileUsers(campaign, read_for(campaign, pairs, **columns).population, asked)
    say_who_is_unknown(crowd)
    with progress("noising", crowd.n_users) as advance:
        for block in crowd.blocks(issue):
            for at in range(0, len(block), crowd.length):
                yield block[at : at + crowd.length]
            advance(len(block) // crowd.length)


def _upload_all(device: Reporter, patience: float) -> str:
    """Upload until nothing is left or nothing has moved for too long; the last that was said."""
    from keyveil.cli.console import progress
    from keyveil.client import Code

    if not (receipt := device.enable()):
        raise LedgerError(receipt.detail)
    left, moved = _traffic(device).waiting, time.monotonic()
    with progress("sending", left) as advance:
        while True:
            receipt = device.upload()
            traffic = _traffic(device)
            if traffic.waiting < left:
                advance(left - traffic.waiting)
                left, moved = traffic.waiting, time.monotonic()
            if receipt.code is not Code.WAITING or time.monotonic() - moved >= patience:
                return receipt.detail
            time.sleep(min(max(traffic.not_before - time.time(), 0.05), max(patience, 0.05)))


def _traffic(device: Reporter) -> Traffic:
    from keyveil.client import Receipt

    status = device.status()
    if isinstance(status, Receipt):
        raise LedgerError(status.detail)
    return status.traffic
