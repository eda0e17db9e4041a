"""`keyveil demo`: the whole path, from what people hold to what is published, on this machine."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.weeks import DAYS_BACK

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.cli.stage import RelayStage, Stage

_BAR, _SHOWN = 24, 15
# Seconds that the collector's clock is behind while weeks are walked through.
BACK = 86400.0 * DAYS_BACK


@click.command()
@click.option(
    "--users", type=click.IntRange(min=1), default=20_000, show_default=True, help="How many people."
)
@click.option("--once", is_flag=True, help="End after the table instead of leaving the dashboard open.")
@click.option(
    "--relay",
    "with_relay",
    is_flag=True,
    help="Ask twice at one epsilon towards the collector: by local noise alone, and through a relay.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The collector's port; 8765 if left out, or any that is free.",
)
def demo(users: int, once: bool, with_relay: bool, port: int | None) -> None:
    """Start a collector, let made-up people's devices report to it, and show what comes out.

    The client, the HTTP, the store and the dashboard are the real ones; only the people are made up. The
    store is a temporary file, gone when the demo ends.
    """
    from keyveil.cli.console import output
    from keyveil.cli.stage import app_campaign, raised
    from keyveil.simulate.apps import app_minutes

    screen, has_weeks = output(), not once and not with_relay
    with (
        tempfile.TemporaryDirectory(prefix="keyveil-demo-") as folder,
        raised(
            f"sqlite:///{Path(folder) / 'demo.db'}", port, back=0.0 if once or with_relay else BACK
        ) as stage,
    ):
        if not once:
            screen.print(f"Watch it live: {stage.dashboard()}\n", soft_wrap=True)
        weekly = _weeks(stage, users) if has_weeks else None
        people = app_minutes(users)
        if with_relay:
            _twice(stage, Path(folder), people)
            if not once:
                _stay(stage, None)
            return
        campaign = app_campaign()
        took = _collect(stage, campaign, people)
        found = stage.server.ask("GET", f"/v1/campaigns/{campaign.id}/release?post=clip")
        screen.print(_table(found["rows"], people))
        screen.print(
            f"\n{users:,} devices reported over HTTP in {took:.1f} s; each report was stored before it was "
            "acknowledged."
            f"\nNobody's minutes were sent: each report is epsilon-LDP with epsilon = "
            f"{found['metadata']['epsilon_exact']:.4g}, computed from the sampler's integers."
            "\nThe truth column exists because these people are made up; no collector ever sees it."
        )
        if not once:
            _beside(stage, users)
            _stay(stage, campaign, weekly)


def _weeks(stage: Stage, users: int) -> Campaign:
    """A series that has been asked for twelve weeks, by the collector's clock."""
    from keyveil.cli.console import progress
    from keyveil.cli.weeks import SHOWN, walk_through

    with progress("twelve weeks of a series", SHOWN) as advance:
        return walk_through(stage, users, advance)


def _collect(
    stage: Stage, campaign: Campaign, people: list[dict[str, float]], relay: RelayStage | None = None
) -> float:
    """All people's reports to a campaign that is then closed; how long the reports took."""
    from keyveil.cli.console import progress

    token = stage.create(campaign)
    started = time.perf_counter()
    with progress(campaign.name, len(people)) as advance:
        stage.report(campaign, people, None if relay else token, advance, relay)
    took = time.perf_counter() - started
    if relay is not None:
        relay.finish(campaign, len(people))
    stage.close_round(campaign)
    return took


def _twice(stage: Stage, folder: Path, people: list[dict[str, float]]) -> None:
    """The same question at the same epsilon towards the collector, without a relay and with one."""
    from keyveil.cli.console import output
    from keyveil.cli.stage import relay_raised, twin_campaigns

    screen = output()
    local, relayed = twin_campaigns(len(people))
    stage.create(relayed)
    with relay_raised(f"sqlite:///{folder / 'relay.db'}", stage, relayed) as relay:
        _collect(stage, local, people)
        _collect(stage, relayed, people, relay)
    found = [
        stage.server.ask("GET", f"/v1/campaigns/{campaign.id}/release?post=clip")
        for campaign in (local, relayed)
    ]
    screen.print(_table(found[0]["rows"], people, "Without a relay: the 15 most used of 50 apps"))
    screen.print(_table(found[1]["rows"], people, "Through a relay: the 15 most used of 50 apps"))
    widths = [_widths(each["rows"], people) for each in found]
    screen.print(
        f"\nBoth tables cost a person epsilon {local.epsilon:g} towards the collector. For the first, devices"
        f"\nnoise their answers for it. For the second they noise for epsilon {relayed.epsilon:.4g} and seal;"
        "\na relay, which cannot read them, hides each among others.\n"
        f"{found[1]['metadata']['central']['words']}\n"
        f"If they pool what they have, epsilon {relayed.epsilon:.4g} is what holds.\n"
        f"Intervals of the {_SHOWN} most used apps are {widths[0] / widths[1]:.0f} times shorter.",
        soft_wrap=True,
    )


def _widths(rows: list[dict[str, Any]], people: list[dict[str, float]]) -> float:
    """How long the intervals of the most used apps are, on average."""
    used = Counter(name for held in people for name in held)
    most = {name for name, _ in used.most_common(_SHOWN)}
    some: list[float] = [row["frequency_high"] - row["frequency_low"] for row in rows if row["key"] in most]
    return sum(some) / len(some)


def _beside(stage: Stage, users: int) -> None:
    """More campaigns for the dashboard: last week's, to compare; distributions; and one to take part in."""
    from keyveil.cli.stage import app_campaign, fruit_eaters, glass_campaign, spread_campaign, week_after
    from keyveil.simulate.apps import app_minutes

    few = max(1, users // 4)
    later = app_campaign("minutes per app, a week later", "have something to compare with")
    _collect(stage, later, week_after(2 * few))
    spread = spread_campaign()
    _collect(stage, spread, [_only(held, spread.keys) for held in app_minutes(few, seed=11)])
    stage.create(glass_campaign(), uploads="open")
    stage.report(glass_campaign(), fruit_eaters(min(1500, users)), None, lambda *_: None)


def _only(held: dict[str, float], keys: Any) -> dict[str, float]:
    return {name: value for name, value in held.items() if name in keys}


def _stay(stage: Stage, campaign: Campaign | None, weekly: Campaign | None = None) -> None:
    """Leave the dashboard open until somebody says stop."""
    from keyveil.cli.console import output

    glass = "" if campaign is None else f"\nBe a device yourself: {stage.dashboard('/glass')}"
    weeks = "" if weekly is None else f"\nTwelve weeks of a series: {stage.dashboard(f'/s/{weekly.id}')}"
    where = "/" if campaign is None else f"/c/{campaign.id}/results"
    output().print(
        f"\nThe dashboard: {stage.dashboard(where)}{weeks}{glass}"
        "\nCtrl-C ends the demo and deletes its store.",
        soft_wrap=True,
    )
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        click.echo("\nended", err=True)


def _table(
    rows: list[dict[str, Any]],
    people: list[dict[str, float]],
    title: str = "The 15 most used of 50 apps",
) -> Any:
    from keyveil.cli.console import table

    rows = sorted(rows, key=lambda row: -row["frequency"])
    shown = []
    for row in rows[:_SHOWN]:
        minutes = [held[row["key"]] for held in people if row["key"] in held]
        shown.append(
            (
                row["key"],
                f"{100 * row['frequency']:.1f} %",
                f"{100 * row['frequency_low']:5.1f} .. {100 * row['frequency_high']:5.1f}",
                _bar(
                    row["frequency_low"], row["frequency"], row["frequency_high"], rows[0]["frequency_high"]
                ),
                "?" if row["mean"] is None else f"{row['mean']:.0f}",
                f"{row['mean_low']:3.0f} .. {row['mean_high']:3.0f}",
                f"{100 * len(minutes) / len(people):.1f} %, {sum(minutes) / max(len(minutes), 1):.0f} min",
            )
        )
    columns = ("app", "people", "95 % interval", "", "minutes", "95 % interval", "truth (demo only)")
    return table(title, columns, shown, prose=[3])


def _bar(low: float, middle: float, high: float, full: float) -> str:
    """A bar to the estimate, with the interval drawn over it."""
    low, middle, high = (round(_BAR * min(max(x / full, 0.0), 1.0)) for x in (low, middle, high))
    return "█" * low + "▓" * (middle - low) + "░" * (high - middle)
