"""`keyveil campaign`: campaigns of a running collector."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import click

from keyveil.cli.asking import Server, print_answer, server_options, write_release
from keyveil.errors import CampaignError, TallyError

_INTERIM = "the campaign is open, and these numbers will change"


@click.group()
def campaign() -> None:
    """Create campaigns on a running collector, watch them, close their rounds, read their releases.

    CAMPAIGN is an id or the beginning of one, a campaign's name or label, or the file that it was made from.
    """


@campaign.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--label", default="", help="A name for people.")
@click.option("--open", "is_open", is_flag=True, help="Let devices send without a token.")
@click.option(
    "--issue-ids",
    is_flag=True,
    help='Hand out the ids of reports, so that no device picks its index or hash; as ids = "issued" in FILE.',
)
@click.option("--close-at-count", type=click.IntRange(1), help="Close a round once it has so many reports.")
@click.option("--close-after", type=click.FloatRange(0, min_open=True), help="... or so many seconds.")
@click.option("--drop-reports", is_flag=True, help="Forget the reports of a round once it is closed.")
@click.option(
    "--replay-days", type=click.FloatRange(0), default=30.0, show_default=True, help="Know ids for."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@server_options
def create(
    file: Path,
    label: str,
    is_open: bool,
    issue_ids: bool,
    close_at_count: int | None,
    close_after: float | None,
    drop_reports: bool,
    replay_days: float,
    as_json: bool,
    url: str,
    token: str | None,
) -> None:
    """Create the campaign in FILE (TOML or JSON) and open its first round."""
    from keyveil.campaign import Campaign

    terms = {
        "uploads": "open" if is_open else "token",
        "close_at_count": close_at_count,
        "close_after": close_after,
        "drop_reports": drop_reports,
        "replay_days": replay_days,
    }
    asked = Campaign.load(file)
    if asked.series is not None:
        raise CampaignError(f"{file.name} is asked in waves: use `keyveil series create {file}`")
    if issue_ids and not asked.issues_ids:
        asked = replace(asked, ids="issued")
        click.echo(f'ids are part of the campaign: write ids = "issued" into {file.name} as well', err=True)
    body = {"campaign": json.loads(asked.canonical_json), "terms": terms, "label": label}
    made = Server(url=url, token=token).ask("POST", "/v1/campaigns", body)
    if as_json:
        click.echo(json.dumps(made))
        return
    click.echo(made["id"])
    click.echo(f"devices send to {url.rstrip('/')}/v1/campaigns/{made['id']}", err=True)
    if made["device_token"]:
        click.echo(f"device token, shown this once: {made['device_token']}", err=True)
    if not made["created"]:
        click.echo("the campaign was there already; nothing was changed", err=True)


@campaign.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@server_options
def list_(as_json: bool, url: str, token: str | None) -> None:
    """List the campaigns that the token is for."""
    found = Server(url=url, token=token).ask("GET", "/v1/campaigns")["campaigns"]
    if as_json:
        click.echo(json.dumps(found))
        return
    columns = ("id", "name", "mechanism", "state", "round", "reports")
    print_answer("Campaigns", columns, [[one[name] for name in columns] for one in found])


@campaign.command()
@click.argument("campaign")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@server_options
def show(campaign: str, as_json: bool, url: str, token: str | None) -> None:
    """Show a campaign; with a token of an analyst, its rounds too."""
    server = Server(url=url, token=token)
    path = server.campaign(campaign)
    found = server.ask("GET", path)
    rounds = server.ask("GET", f"{path}/rounds")["rounds"] if token else []
    if as_json:
        click.echo(json.dumps({**found, "rounds": rounds}))
        return
    from keyveil.cli.console import printable

    config = json.loads(found["campaign"])
    for name in ("name", "owner", "purpose", "expires", "mechanism", "epsilon"):
        click.echo(f"{name:10} {printable(config[name])}")
    click.echo(f"{'keys':10} {len(config['keys'])}\n{'state':10} {found['state']}")
    if rounds:
        columns = ("number", "purpose", "reports", "why", "reports_kept")
        print_answer("Rounds", columns, [[one[name] for name in columns] for one in rounds])


@campaign.command()
@click.argument("campaign")
@click.argument("round", type=int, required=False)
@click.option("--yes", is_flag=True, help="Close it even if nobody has reported.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@server_options
def close(campaign: str, round: int | None, yes: bool, as_json: bool, url: str, token: str | None) -> None:
    """Close ROUND of a campaign, the open one if none is named, and open what follows."""
    server = Server(url=url, token=token)
    path, number = server.campaign(campaign), round
    if number is None:
        asked = server.ask("GET", path)["round"]
        if asked is None:
            raise TallyError("the campaign has no open round")
        number = asked["number"]
    if not yes:
        _check_not_empty(server, path, number)
    said = server.ask("POST", f"{path}/rounds/{number}/close")
    if as_json:
        click.echo(json.dumps(said))
        return
    following = said["next_round"]
    after = "the campaign is finished" if following is None else f"round {following} is open"
    click.echo(f"round {number} has {said['reports']} reports; {after}")


def _check_not_empty(server: Server, path: str, number: int) -> None:
    """Ask before a round ends that nobody has answered: a closed round is not opened again."""
    rounds = server.ask("GET", f"{path}/rounds")["rounds"]
    if any(row["number"] == number and row["reports"] == 0 for row in rounds):
        question = f"round {number} has no reports, and a closed round is not opened again"
        if not sys.stdin.isatty():
            raise TallyError(f"{question}; pass --yes to close it all the same")
        click.confirm(f"{question}. Close it", abort=True)


@campaign.command()
@click.argument("campaign")
@click.argument("text")
@server_options
def label(campaign: str, text: str, url: str, token: str | None) -> None:
    """Give a campaign another name for people."""
    server = Server(url=url, token=token)
    server.ask("POST", f"{server.campaign(campaign)}/label", {"label": text})


@campaign.command()
@click.argument("campaign")
@click.argument("file", type=click.Path(path_type=Path))
@server_options
def compare(campaign: str, file: Path, url: str, token: str | None) -> None:
    """Say what the campaign in FILE changes, and whether reports to the old one stay usable."""
    from keyveil.campaign import Campaign

    body = json.loads(Campaign.load(file).canonical_json)
    server = Server(url=url, token=token)
    found = server.ask("POST", f"{server.campaign(campaign)}/compare", body)
    for change in found["changes"]:
        usable = "reports stay usable" if change["reports_stay_usable"] else "reports do not carry over"
        click.echo(f"{change['field']}: {usable}; {change['why']}")
    click.echo("nothing changed" if found["same"] else f"this is campaign {found['after']}")


@campaign.command()
@click.argument("campaign")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The file to write.")
@click.option(
    "--post",
    default="readable",
    show_default=True,
    help="readable, none (unbiased), clip, project, shrink or published.",
)
@click.option("--estimator", help="Another estimator for the same reports.")
@click.option(
    "--by",
    metavar="ATTRIBUTE",
    multiple=True,
    help="A row a segment and key, of the segments of this attribute; may be repeated.",
)
@server_options
def release(
    campaign: str,
    out: Path,
    post: str,
    estimator: str | None,
    by: tuple[str, ...],
    url: str,
    token: str | None,
) -> None:
    """Write what a campaign found: .json, .csv, .parquet or .arrow."""
    if by and estimator is not None:
        raise TallyError("--by takes the campaign's own estimator; leave --estimator out, or --by")
    query = {"post": post} | ({} if estimator is None else {"estimator": estimator})
    query |= {"by": ",".join(by)} if by else {}
    server = Server(url=url, token=token)
    write_release(server, lambda: server.campaign(campaign), out, query, _INTERIM)


@campaign.command()
@click.argument("campaign")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The file to write; a table if left out.")
@click.option(
    "--top", type=click.IntRange(min=1), default=20, show_default=True, help="How many pairs the table shows."
)
@server_options
def pairs(campaign: str, out: Path | None, top: int, url: str, token: str | None) -> None:
    """Show which keys are held together, or write every pair: .json, .csv, .parquet or .arrow."""
    server = Server(url=url, token=token)
    if out is not None:
        write_release(server, lambda: server.campaign(campaign), out, {}, _INTERIM, kind="pairs")
        return
    from keyveil.cli.estimate import show_pairs

    found = server.ask("GET", f"{server.campaign(campaign)}/pairs")
    show_pairs(sorted(found["rows"], key=lambda row: -row["lift_low"])[:top])
    if found["metadata"].get("state") == "interim":
        click.echo(f"interim: {_INTERIM}", err=True)


@campaign.command()
@click.argument("campaign")
@click.argument("round", type=int)
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The file to write.")
@server_options
def export(campaign: str, round: int, out: Path, url: str, token: str | None) -> None:
    """Write the stored reports of a round: .parquet, or frames under any other name."""
    form = "parquet" if out.suffix == ".parquet" else "frames"
    server = Server(url=url, token=token)
    server.download(f"{server.campaign(campaign)}/rounds/{round}/reports?format={form}", out)


@campaign.command()
@click.argument("campaign")
@click.argument("round", type=int)
@server_options
def recount(campaign: str, round: int, url: str, token: str | None) -> None:
    """Count the stored reports of a round again; exit status 1 if tally or ids disagree."""
    server = Server(url=url, token=token)
    found = server.ask("POST", f"{server.campaign(campaign)}/rounds/{round}/recount")
    click.echo(
        f"{found['stored_reports']} stored, {found['tally_reports']} in the tally, "
        f"{found['damaged_blocks']} damaged blocks"
    )
    for said in (found["ids"], found["difference"]):
        if said:
            click.echo(said)
    if not found["agrees"]:
        raise SystemExit(1)


@campaign.command()
@click.argument("campaign")
@click.argument("round", type=int)
@server_options
def examine(campaign: str, round: int, url: str, token: str | None) -> None:
    """Test whether the stored reports of a round are honest noise; exit status 1 if they are not."""
    from keyveil.cli.console import honesty

    server = Server(url=url, token=token)
    found = server.ask("POST", f"{server.campaign(campaign)}/rounds/{round}/examine")
    alarm, tests = found["alarm"], found["tests"]
    if not tests:
        click.echo(f"{found['reports']} reports are too few to tell")
        return
    said = honesty(alarm=alarm, n_tests=len(tests), p=found["p"], what=tests[0]["what"])
    click.echo(said, err=alarm)
    for each in found["segments"][:3]:
        click.echo(f"{each['what']} (p = {each['p']:.2g}); segments may differ honestly")
    if alarm:
        raise SystemExit(1)
