"""`keyveil init`: a first campaign, from somebody's own data or from nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from keyveil.cli.columns import column_options, read_own, tell
from keyveil.cli.settings import want_option
from keyveil.cli.simulate import parse_range
from keyveil.cli.waves import in_waves, parse_series, series_option
from keyveil.errors import CampaignError

TELEMETRY = "telemetry"


@click.command()
@click.argument("source", metavar="FILE|telemetry", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="The file to write, campaign.toml if left out; for telemetry a folder.",
)
@click.option("--name", help="What the campaign is called; the file's name if left out.")
@click.option("--owner", help="Who asks; people are told.")
@click.option("--purpose", help="Why; people are told.")
@click.option("--epsilon", help="The privacy budget of each person; 1 if left out.")
@click.option("--value-range", help="LO,HI; a round range that nearly all values lie in if left out.")
@click.option(
    "--users", type=click.IntRange(min=1), help="How many will answer; as many as in FILE if left out."
)
@want_option("mean")
@series_option
@click.option("--yes", is_flag=True, help="Ask nothing.")
@column_options
def init(
    source: Path,
    out: Path | None,
    name: str | None,
    owner: str | None,
    purpose: str | None,
    epsilon: str | None,
    value_range: str | None,
    users: int | None,
    want: str,
    said_series: str | None,
    yes: bool,
    **columns: Any,
) -> None:
    """Write a commented campaign.toml that suits the people in FILE, or all that telemetry needs.

    FILE has one row a pair: who, what, how much; CSV of any separator and encoding, JSON lines or Parquet.
    `keyveil init telemetry` starts from nothing: campaign, consent text, device snippets, service files.
    On a terminal it asks what no option says.
    """
    from keyveil.cli.files import write_new
    from keyveil.numerics import parse_epsilon

    asks = sys.stdin.isatty() and not yes
    if str(source) == TELEMETRY:
        from keyveil.cli.telemetry import write_telemetry

        for path in write_telemetry(out or Path(TELEMETRY)):
            click.echo(f"wrote {path}", err=True)
        return
    out = out or Path("campaign.toml")
    # Before anybody is asked anything.
    if out.exists():
        raise CampaignError(f"{out} is there already and stays as it is; name another with -o")
    from keyveil.cli.drafting import OWNER, draft_from, purpose_of

    parsed = parse_series(said_series)
    reading = read_own(source, skip=True, **columns)
    tell(reading.words())
    said: dict[str, Any] = {
        "name": name or _ask("Name", source.name.partition(".")[0], asks),
        "owner": owner or _ask("Who asks (people are told)", OWNER, asks),
        "purpose": purpose or _ask("Why (people are told)", purpose_of(reading), asks),
    }
    budget = epsilon or _ask("Epsilon, what one person's answer may give away", "1", asks)
    people, epsilon_of_answer = users, float(parse_epsilon(budget, where="--epsilon"))
    devices = users or reading.population.n_users
    if parsed is not None:
        # A wave asks a share of the people, for a share of the budget each.
        people = max(1, int(devices * parsed[0].share))
        epsilon_of_answer /= parsed[0].answers
    drafted = draft_from(
        reading,
        epsilon=epsilon_of_answer,
        want=want,
        value_range=parse_range(value_range),
        users=people,
        **said,
    )
    made = in_waves(drafted.draft, None if parsed is None else parsed[0], devices)
    made.campaign()
    write_new(out, made.to_toml())
    low, high = made.value_range
    click.echo(
        f"wrote {out}: {len(made.keys):,} keys, values {low:g} to {high:g}, {made.mechanism}", err=True
    )
    again = "".join(
        f" --{name.removesuffix('_column')} {said}"
        for name, said in columns.items()
        if said != "mean" and said
    )
    click.echo(f"next: keyveil try {source} --campaign {out}{again}", err=True)


def _ask(question: str, usual: str, asks: bool) -> str:
    """What somebody at a terminal says, else what is usual."""
    return str(click.prompt(question, default=usual, show_default=bool(usual))) if asks else usual
