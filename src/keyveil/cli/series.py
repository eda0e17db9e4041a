"""`keyveil series`: questions that a running collector asks in waves."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.asking import Server, print_answer, server_options, write_release
from keyveil.errors import CampaignError

if TYPE_CHECKING:
    from collections.abc import Sequence


# Heights of a line of text, the lowest first; and how many waves fit beside a key and its interval.
_HEIGHTS, _WIDTH = "▁▂▃▄▅▆▇█", 26
# Keys in `show`, and the letters of a name that fit.
_TOP, _NAME = 10, 22
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def series() -> None:
    """Ask a question again every day, week or month, and see what changed.

    SERIES is an id or the beginning of one, a series' name or label, or the file that it was made from.
    """


@series.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--label", default="", help="A name for people.")
@click.option("--open", "is_open", is_flag=True, help="Let devices send without a token.")
@click.option(
    "--late",
    type=click.FloatRange(0),
    help="Take reports so many seconds after their wave; a tenth of it and at most a day if left out.",
)
@click.option("--drop-reports", is_flag=True, help="Forget the reports of a wave once it is closed.")
@click.option(
    "--replay-days", type=click.FloatRange(0), default=30.0, show_default=True, help="Know ids for."
)
@_json_option
@server_options
def create(
    file: Path,
    label: str,
    is_open: bool,
    late: float | None,
    drop_reports: bool,
    replay_days: float,
    as_json: bool,
    url: str,
    token: str | None,
) -> None:
    """Create the series in FILE (TOML or JSON with a table [series]); its waves open by themselves."""
    from keyveil.campaign import Campaign

    asked = Campaign.load(file)
    if asked.series is None:
        raise CampaignError(
            f"{file.name} is asked once; say how often in a table [series], or use `keyveil campaign create`"
        )
    terms = {
        "uploads": "open" if is_open else "token",
        "late": late,
        "drop_reports": drop_reports,
        "replay_days": replay_days,
    }
    body = {"campaign": json.loads(asked.canonical_json), "terms": terms, "label": label}
    made = Server(url=url, token=token).ask("POST", "/v1/series", body)
    if as_json:
        click.echo(json.dumps(made))
        return
    click.echo(made["id"])
    click.echo(f"devices ask {url.rstrip('/')}/v1/series/{made['id']}", err=True)
    if not asked.series.start:
        click.echo(
            f'it starts on {made["start"]}: write start = "{made["start"]}" into {file.name}, so that the '
            "file is this series",
            err=True,
        )
    if made["device_token"]:
        click.echo(f"device token for all waves, shown this once: {made['device_token']}", err=True)
    if not made["created"]:
        click.echo("the series was there already; nothing was changed", err=True)


@series.command("list")
@_json_option
@server_options
def list_(as_json: bool, url: str, token: str | None) -> None:
    """List the series that the token is for."""
    found = Server(url=url, token=token).ask("GET", "/v1/series")["series"]
    if as_json:
        click.echo(json.dumps(found))
        return
    rows = [
        (one["id"], one["label"] or one["name"], one["every"], one["state"], _place(one), one["reports"])
        for one in found
    ]
    print_answer("Series", ("id", "name", "every", "state", "wave", "reports"), rows)


@series.command()
@click.argument("series")
@_json_option
@server_options
def show(series: str, as_json: bool, url: str, token: str | None) -> None:
    """Show a series; with a token of an analyst, its waves and how the most frequent keys went."""
    server = Server(url=url, token=token)
    path = server.series(series)
    found = server.ask("GET", path)
    waves = server.ask("GET", f"{path}/waves")["waves"] if token else []
    if as_json:
        click.echo(json.dumps({**found, "waves": waves}))
        return
    _print_words(found, waves)
    if any(wave["reports"] for wave in waves):
        _print_keys(server.ask("GET", f"{path}/release"))


@series.command()
@click.argument("series")
@_json_option
@server_options
def waves(series: str, as_json: bool, url: str, token: str | None) -> None:
    """List the waves of a series: each is a campaign of its own."""
    server = Server(url=url, token=token)
    found = server.ask("GET", f"{server.series(series)}/waves")["waves"]
    if as_json:
        click.echo(json.dumps(found))
        return
    rows = [
        (
            wave["number"],
            _day(wave["begins"]),
            f"missed: {wave['why']}" if wave["state"] == "missed" else wave["state"],
            wave["reports"],
            wave["campaign"],
        )
        for wave in found
        if wave["state"] != "coming"
    ]
    print_answer("Waves", ("wave", "begins", "state", "reports", "campaign"), rows)


@series.command()
@click.argument("series")
@server_options
def pause(series: str, url: str, token: str | None) -> None:
    """Open no more waves until it is resumed; the open one goes on."""
    _act(Server(url=url, token=token), series, "pause")


@series.command()
@click.argument("series")
@server_options
def resume(series: str, url: str, token: str | None) -> None:
    """Open waves again, the one of today at once."""
    _act(Server(url=url, token=token), series, "resume")


@series.command()
@click.argument("series")
@click.option("--yes", is_flag=True, help="Ask nothing.")
@server_options
def end(series: str, yes: bool, url: str, token: str | None) -> None:
    """Open no more waves, and close the one that is open: what is ended stays so."""
    if not yes:
        click.confirm("A series that was ended is not resumed. End it", abort=True)
    _act(Server(url=url, token=token), series, "end")


# What campaigns and rounds are, series are too.
series.add_command(end, "close")


@series.command()
@click.argument("series")
@click.argument("text")
@server_options
def label(series: str, text: str, url: str, token: str | None) -> None:
    """Give a series another name for people."""
    server = Server(url=url, token=token)
    server.ask("POST", f"{server.series(series)}/label", {"label": text})


@series.command()
@click.argument("series")
@click.argument("key", nargs=-1, required=True)
@server_options
def keys(series: str, key: tuple[str, ...], url: str, token: str | None) -> None:
    """Ask for more KEYs from the next wave on."""
    server = Server(url=url, token=token)
    found = server.ask("POST", f"{server.series(series)}/keys", {"add": list(key)})["keys"]
    print_answer("Keys that came later", ("key", "from wave"), [(one["key"], one["wave"]) for one in found])


@series.command()
@click.argument("series")
@click.argument("text", required=False)
@click.option("--at", metavar="DATE", help="When it happened, such as 2026-12-01; now if left out.")
@click.option("--drop", type=click.IntRange(1), metavar="ID", help="Take a note away instead.")
@server_options
def annotate(
    series: str, text: str | None, at: str | None, drop: int | None, url: str, token: str | None
) -> None:
    """Note what happened when ("2.3 released"); without TEXT, list what was noted."""
    server = Server(url=url, token=token)
    path = f"{server.series(series)}/annotations"
    if drop is not None:
        server.ask("DELETE", f"{path}/{drop}")
    elif text is not None:
        server.ask("POST", path, {"at": _moment(at), "text": text})
    else:
        notes = server.ask("GET", path)["annotations"]
        rows = [(note["id"], _day(note["at"]), note["text"]) for note in notes]
        print_answer("Annotations", ("id", "when", "what"), rows)


@series.command()
@click.argument("series")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The file to write.")
@click.option(
    "--post",
    default="readable",
    show_default=True,
    help="readable, none (unbiased), clip, project, shrink or published; for the numbers of single waves.",
)
@server_options
def release(series: str, out: Path, post: str, url: str, token: str | None) -> None:
    """Write what a series found, a row a wave and key: .json, .csv, .parquet or .arrow."""
    server = Server(url=url, token=token)
    interim = "the series goes on, and smoothed numbers of every wave will change"
    write_release(server, lambda: server.series(series), out, {"post": post}, interim)


def sparkline(shares: Sequence[float | None]) -> str:
    """A line of text that rises and falls with the shares, from 0 to the largest; a dot where there is none.

    >>> sparkline([0.1, 0.2, None, 0.8])
    '▂▃·█'
    """
    most = max((share for share in shares if share is not None), default=0.0) or 1.0
    top = len(_HEIGHTS) - 1
    return "".join(
        "·" if share is None else _HEIGHTS[round(top * min(max(share / most, 0.0), 1.0))] for share in shares
    )


def _print_words(found: dict[str, Any], waves: list[dict[str, Any]]) -> None:
    from keyveil.cli.console import printable

    config = json.loads(found["campaign"])
    calendar = config["series"]
    answers = calendar.get("answers", 1)
    for name in ("name", "owner", "purpose", "expires", "mechanism"):
        click.echo(f"{name:10} {printable(config[name])}")
    total = answers * config["epsilon"]
    click.echo(f"{'epsilon':10} {config['epsilon']:g} an answer, {total:g} a person in all")
    times = "wave" if answers == 1 else "waves"
    click.echo(
        f"{'asked':10} every {found['every']}, {calendar['waves']} waves from {calendar['start']}; "
        f"a person answers {answers} {times}"
    )
    now = found["wave"]
    until = "" if found["opens_at"] is None else f"; the next wave begins {_day(found['opens_at'])}"
    state = found["state"] if now is None else f"{found['state']}, wave {now['number']}"
    click.echo(f"{'state':10} {state}{until}")
    if waves:
        click.echo(f"{'reports':10} {sum(wave['reports'] for wave in waves):,}")
    missed = [f"{wave['number']} ({wave['why']})" for wave in waves if wave["state"] == "missed"]
    if missed:
        click.echo(f"{'missed':10} {', '.join(missed)}")


def _print_keys(said: dict[str, Any]) -> None:
    """The most frequent keys of the last wave: how they went, where they are."""
    from keyveil.cli.console import printable

    by_wave: dict[int, dict[str, dict[str, Any]]] = {}
    for row in said["rows"]:
        by_wave.setdefault(row["wave"], {})[row["key"]] = row
    last = by_wave[max(by_wave)]
    top = sorted(last.values(), key=lambda row: -(row["frequency_smoothed"] or 0.0))[:_TOP]
    seen = sorted(by_wave)[-_WIDTH:]
    rows = [
        (
            printable(row.get("name", row["key"]))[:_NAME],
            sparkline([by_wave[wave].get(row["key"], {}).get("frequency_smoothed") for wave in seen]),
            _share(row["frequency_smoothed"]),
            f"{_share(row['frequency_smoothed_low'])} .. {_share(row['frequency_smoothed_high'])}",
        )
        for row in top
    ]
    print_answer(
        f"People, smoothed: waves {seen[0]} to {seen[-1]}", ("key", "so far", "%", "95 % interval"), rows
    )


def _share(share: float | None) -> str:
    return "?" if share is None else f"{100 * share:.1f}"


def _act(server: Server, named: str, verb: str) -> None:
    said = server.ask("POST", f"{server.series(named)}/{verb}")
    wave = "no wave is open" if said["wave"] is None else f"wave {said['wave']} is open"
    click.echo(f"the series is {said['state']}; {wave}")


def _place(one: dict[str, Any]) -> str:
    return f"{min(one['wave'], one['waves'])} of {one['waves']}"


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()


def _moment(day: str | None) -> float:
    if day is None:
        return datetime.now(UTC).timestamp()
    try:
        return datetime.combine(date.fromisoformat(day), datetime.min.time(), UTC).timestamp()
    except ValueError:
        raise CampaignError(f"expected a date such as 2026-12-01, got {day[:20]!r}, at --at") from None
