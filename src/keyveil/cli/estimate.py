"""`keyveil estimate`: what the tallies, or the reports, say about every key."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.errors import CampaignError, DomainError, TallyError

if TYPE_CHECKING:
    from keyveil.breakdowns import Breakdowns
    from keyveil.pairs import PairsRelease
    from keyveil.release import Release

_FORMS = (".csv", ".json", ".parquet", ".arrow")


@click.command()
@click.argument("campaign", type=click.Path(path_type=Path))
@click.argument(
    "sources", metavar="TALLY_OR_REPORTS...", type=click.Path(path_type=Path), nargs=-1, required=True
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="The file to write: .csv (with its metadata beside it), .json, .parquet or .arrow.",
)
@click.option(
    "--post",
    default="readable",
    show_default=True,
    help="readable, none (unbiased), clip, project, shrink, recover or published.",
)
@click.option(
    "--top", type=click.IntRange(min=1), default=20, show_default=True, help="How many keys the table shows."
)
@click.option(
    "--quantiles",
    default="0.5",
    show_default=True,
    help='Which quantiles of each key\'s values to tell, with intervals: "0.1,0.5,0.9".',
)
@click.option("--bins", is_flag=True, help="Write each key's distribution into a .csv, too.")
@click.option(
    "--by",
    metavar="ATTRIBUTE",
    multiple=True,
    help="A row a segment and key, of the segments of this attribute; may be repeated.",
)
@click.option(
    "--sizes",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --by: totals of a population whose segments are as large as this says: columns segment, size.",
)
@click.option("--pairs", is_flag=True, help="A row a pair of keys, where the campaign asks about pairs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option("--strict", is_flag=True, help="Stop at the first report that is refused.")
@click.option(
    "--protocol",
    help='What opened the rounds, as they say: "auto/1" for one. The newest, if left out.',
)
def estimate(
    campaign: Path,
    sources: tuple[Path, ...],
    out: Path | None,
    post: str,
    top: int,
    quantiles: str,
    bins: bool,
    by: tuple[str, ...],
    sizes: Path | None,
    pairs: bool,
    as_json: bool,
    strict: bool,
    protocol: str | None,
) -> None:
    """Estimate CAMPAIGN from tallies (.json) and files of reports, with 95 % intervals.

    A campaign of several rounds needs what was exported of each: a file holds the reports of one round.
    Reports that do not answer are counted by reason and left out; then the exit status is 1.
    """
    from keyveil.breakdowns import break_down, represented
    from keyveil.campaign import Campaign
    from keyveil.cli.counting import count_files, follow_rounds, read_tally
    from keyveil.pairs import pairs_of
    from keyveil.release import release_outcome
    from keyveil.simulate.pairs import sizes_in

    if out is not None and out.suffix not in _FORMS:
        raise TallyError(f"expected a release to end with one of {', '.join(_FORMS)}, got {out.name}")
    asked, parts = Campaign.load(campaign), _parts(quantiles)
    reports = [path for path in sources if path.suffix != ".json"]
    tallies = [read_tally(path) for path in sources if path.suffix == ".json"]
    if asked.has_several_rounds:
        rules = asked.protocol(protocol)
        followed = follow_rounds(asked, rules, reports, tallies, strict=strict)
        history = followed.history
        made = release_outcome(asked, rules, followed.outcome, post=post, quantiles=parts)
        n_reports, is_whole = followed.n_reports, followed.is_whole
    else:
        counted = count_files(asked, reports, strict=strict)
        total = sum(tallies, counted.tally)
        history = [(asked.first_round(), total)]
        made = asked.estimate(total, post=post, quantiles=parts)
        n_reports, is_whole = total.n_reports, counted.is_whole
    if by and pairs:
        raise CampaignError("--by and --pairs are two tables; ask for one")
    if sizes is not None and len(by) != 1:
        raise CampaignError("--sizes are those of one attribute's segments; name it with --by ATTRIBUTE")
    apart = break_down(asked, history, by=by, post=post, quantiles=parts) if by else None
    if apart is not None and sizes is not None:
        made, apart = represented(asked, apart, by[0], sizes_in(sizes), post=post), None
        effect = made.metadata["design_effect"]
        click.echo(f"counted by known sizes: {effect:.2f} times the variance of counting reports", err=True)
    both = pairs_of(asked, made) if pairs else None
    shown = apart or both or made
    if out is not None:
        _write(shown, out, bins=bins or None)
        click.echo(f"wrote the release of {n_reports} reports to {out}", err=True)
    if as_json:
        click.echo(shown.to_json())
    elif apart is not None:
        show_breakdowns(apart, made, top)
    elif both is not None:
        show_pairs(both.top(top))
    else:
        show_release(made, top)
    if not is_whole:
        sys.exit(1)


def _parts(said: str) -> tuple[float, ...]:
    """Quantiles as a list of numbers between 0 and 1."""
    try:
        parts = tuple(float(each) for each in said.split(","))
    except ValueError:
        parts = (math.nan,)
    if all(0 < part < 1 for part in parts):
        return parts
    raise DomainError(f'--quantiles are numbers between 0 and 1, such as "0.1,0.5,0.9", got {said[:40]!r}')


def _write(release: Release | Breakdowns | PairsRelease, out: Path, *, bins: bool | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    from keyveil.cli.files import write_text, written
    from keyveil.release import Release

    if out.suffix == ".json":
        write_text(out, release.to_json() + "\n")
    elif out.suffix == ".csv":
        write_text(out, release.to_csv(bins=bins) if isinstance(release, Release) else release.to_csv())
        write_text(out.with_suffix(".metadata.json"), json.dumps(release.metadata, ensure_ascii=False) + "\n")
    else:
        table = release.to_arrow()
        with written(out) as draft:
            if out.suffix == ".parquet":
                pyarrow.parquet.write_table(table, draft)
            else:
                with pa.ipc.new_file(draft, table.schema) as file:
                    file.write_table(table)


def show_release(release: Release, top: int) -> None:
    """The most frequent keys, each number with its interval."""
    from rich.text import Text

    from keyveil.cli.console import output, printable, table
    from keyveil.release import cells_of

    rows = sorted(release.rows(), key=lambda row: -row["frequency"])
    shown: list[tuple[Text | str, ...]] = [
        (
            Text(printable(row.get("name", row["key"]))),
            *cells_of(row),
        )
        for row in rows[:top]
    ]
    title = (
        f"The {len(shown)} most frequent of {len(rows):,} keys, from {release.metadata['users']:,} reports"
    )
    output().print(table(title, release.heads(), shown))


def show_breakdowns(apart: Breakdowns, whole: Release, top: int) -> None:
    """The most frequent keys of all, a table an attribute and a column a segment; labels are not private."""
    from rich.text import Text

    from keyveil.cli.console import output, printable, table
    from keyveil.release import cells_of

    keys = [row["key"] for row in sorted(whole.rows(), key=lambda row: -row["frequency"])[:top]]
    for attribute, users in apart.users.items():
        known = {
            value: apart.releases[attribute, value] for value in users if (attribute, value) in apart.releases
        }
        found = {
            value: {row["key"]: " ".join(cells_of(row)[:2]) for row in release.rows()}
            for value, release in known.items()
        }
        rows: list[tuple[Text | str, ...]] = [
            (Text(printable(key)), *(cells[key] for cells in found.values())) for key in keys
        ]
        heads = ("key", *(f"{printable(value)}, {users[value]:,} reports" for value in known))
        labels = "private" if "segment_shares" in apart.metadata else "in the clear, not private"
        output().print(table(f"People, by {attribute}: labels {labels}", heads, rows))


def show_pairs(found: Sequence[Mapping[str, Any]]) -> None:
    """Rows of pairs: shares of users, lifts, and what is sure of all together."""
    from rich.text import Text

    from keyveil.cli.console import output, printable, table

    def share(row: Mapping[str, Any], name: str) -> str:
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        return f"{100 * row[name]:.1f} % ({100 * low:.1f} .. {100 * high:.1f})"

    def lift(row: Mapping[str, Any]) -> str:
        if row["lift"] is None:
            return "?"
        high = "?" if row["lift_high"] is None else f"{row['lift_high']:.2f}"
        return f"{row['lift']:.2f} ({row['lift_low']:.2f} .. {high})"

    rows: list[tuple[Text | str, ...]] = [
        (
            Text(printable(" & ".join(row.get(f"{key}_name", row[key]) for key in ("first", "second")))),
            share(row, "both"),
            lift(row),
            row["surely"],
        )
        for row in found
    ]
    output().print(table("Held together", ("pair", "people", "lift", "surely, of all pairs"), rows))
