"""`keyveil try`: the whole path on somebody's own data, and the chart beside the truth."""

from __future__ import annotations

import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.columns import column_options, read_own, tell
from keyveil.cli.settings import want_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from keyveil.campaign import Campaign
    from keyveil.cli.crowd import FileUsers
    from keyveil.cli.stage import Stage
    from keyveil.simulate.pairs import Reading
    from keyveil.simulate.population import Population

# Reports an upload.
_BATCH = 1000
_PATIENCE = 60.0
_SHOWN = 20


@click.command("try")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--campaign",
    "campaign_file",
    type=click.Path(path_type=Path),
    help="The campaign to try; what `keyveil init` would write if left out.",
)
@click.option(
    "--epsilon", default="1", show_default=True, help="The budget of each person, without --campaign."
)
@want_option("mean")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="The page to write; FILE.keyveil.html if left out."
)
@click.option("--no-open", is_flag=True, help="Do not open the page in a browser.")
@column_options
def trial(
    file: Path,
    campaign_file: Path | None,
    epsilon: str,
    want: str,
    out: Path | None,
    no_open: bool,
    **columns: Any,
) -> None:
    """Collect from the people in FILE as if they were devices, and show the result beside the truth.

    A real collector is started for it, on this machine, and gone afterwards: every person's pairs are noised,
    sent over HTTP, stored, counted and estimated. The truth is known because the file is yours.
    """
    from keyveil.campaign import Campaign
    from keyveil.cli.stage import raised
    from keyveil.numerics import parse_epsilon

    for package in ("uvicorn", "matplotlib"):
        # Said before everything is collected, not after.
        if find_spec(package) is None:
            raise ModuleNotFoundError(name=package)
    budget = float(parse_epsilon(epsilon, where="--epsilon"))
    reading = read_own(file, skip=True, **columns)
    if campaign_file is None:
        from keyveil.cli.drafting import draft_from

        drafted = draft_from(reading, epsilon=budget, want=want, name=file.name.partition(".")[0])
        asked, reading = drafted.draft.campaign(), drafted.reading
    else:
        asked = Campaign.load(campaign_file)
        reading = reading.as_asked(asked.domain)
    tell(reading.words())
    with (
        tempfile.TemporaryDirectory(prefix="keyveil-try-") as folder,
        raised(f"sqlite:///{Path(folder) / 'try.db'}", 0) as stage,
    ):
        started = time.perf_counter()
        n_reports = _collect(stage, asked, reading.population)
        took = time.perf_counter() - started
        found = stage.server.ask("GET", f"/v1/campaigns/{asked.id}/release?post=published")
    _show(
        found,
        asked,
        reading,
        f"{n_reports:,} reports in {took:.1f} s",
        out or _beside(file),
        opens=not no_open,
    )


def _beside(file: Path) -> Path:
    return file.with_name(f"{file.name}.keyveil.html")


def _collect(stage: Stage, campaign: Campaign, people: Population) -> int:
    """All rounds of a campaign, from opening to its end; how many reports it got."""
    from keyveil.cli.console import progress
    from keyveil.cli.crowd import FileUsers
    from keyveil.client import fetch_round

    token, sent = stage.create(campaign), 0
    url = f"{stage.url}/v1/campaigns/{campaign.id}"
    while True:
        _, asked, _ = fetch_round(url)
        if asked is None:
            return sent
        crowd = FileUsers(campaign, people, asked)
        with progress(f"round {asked.number}", crowd.n_users) as advance:
            for count in _send(crowd, url, token):
                sent += count
                advance(count)
        stage.server.ask("POST", f"/v1/campaigns/{campaign.id}/rounds/{asked.number}/close")


def _send(crowd: FileUsers, url: str, token: str | None) -> Iterator[int]:
    """Upload the reports of a crowd; how many, as they are accepted."""
    from keyveil.client import transport
    from keyveil.errors import TransportError

    exchange = transport.with_token(token)
    for block in crowd.blocks():
        reports = [block[at : at + crowd.length] for at in range(0, len(block), crowd.length)]
        for start in range(0, len(reports), _BATCH):
            batch = reports[start : start + _BATCH]
            if not all(transport.send(f"{url}/reports", batch, timeout=_PATIENCE, exchange=exchange).counts):
                raise TransportError("the collector refused a report; this should not happen, please tell us")
            yield len(batch)


def _show(
    found: dict[str, Any], campaign: Campaign, reading: Reading, took: str, page: Path, *, opens: bool
) -> None:
    """The table on the terminal, and the page."""
    from rich.text import Text

    from keyveil.cli.beside import COLUMNS, beside_truth, write_page
    from keyveil.cli.console import output, printable, table

    rows = beside_truth(found["rows"], campaign, reading.population)
    shown: list[list[str | Text]] = [[Text(printable(row.key)), *row.cells()] for row in rows[:_SHOWN]]
    screen = output()
    screen.print(table(f"The {len(shown)} most frequent of {len(rows):,} keys", COLUMNS, shown))
    covered = sum(row.is_covered for row in rows)
    screen.print(
        f"{took}; {found['metadata']['mechanism']} at epsilon {found['metadata']['epsilon_exact']:.4g}; "
        f"{covered:,} of {len(rows):,} intervals of frequencies hold the truth"
    )
    write_page(page, rows, campaign, found["metadata"], reading.words())
    screen.print(f"wrote {page}")
    if opens and sys.stdout.isatty():
        click.launch(page.resolve().as_uri())
