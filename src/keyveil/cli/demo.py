"""`keyveil demo`: the whole path, from what people hold to what is published."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.release import Release

_BAR = 24


@click.command()
@click.option(
    "--users", type=click.IntRange(min=1), default=10_000, show_default=True, help="How many people."
)
@click.option("--once", is_flag=True, help="End after the table (which is all the demo does for now).")
def demo(users: int, once: bool) -> None:
    """Noise ten thousand people's app minutes by the real client, tally, and publish with intervals."""
    from keyveil.cli.console import output, progress
    from keyveil.client import Reporter
    from keyveil.simulate.apps import app_minutes

    campaign = app_campaign()
    people = app_minutes(users)
    reporter = Reporter(campaign)
    started = time.perf_counter()
    with progress("devices report", users) as advance:
        reports = []
        for held in people:
            reports.append(reporter.report(held))
            advance()
    took = time.perf_counter() - started
    release = campaign.estimate(campaign.tally(reports), post="clip")
    screen = output()
    screen.print(_table(release, people))
    screen.print(
        f"\n{users:,} reports of {len(reports[0])} bytes, made in {took:.1f} s from the system's randomness."
        f"\nNobody's minutes were sent: each report is epsilon-LDP with epsilon = "
        f"{release.metadata['epsilon_exact']:.4g}, computed from the sampler's integers."
        "\nThe truth column exists because these people are made up; no collector ever sees it."
    )


def app_campaign() -> Campaign:
    """The question that the demo asks."""
    from keyveil.campaign import Campaign
    from keyveil.simulate.apps import APPS, LONGEST, USUAL_APPS

    return Campaign(
        name="minutes per app",
        epsilon=3.0,
        keys=APPS,
        value_range=(0.0, LONGEST),
        pairs_per_user=USUAL_APPS,
        mechanism="pckv-grr",
        owner="the demo",
        purpose="show the path of a datum",
    )


def _table(release: Release, people: list[dict[str, float]]) -> Any:
    from keyveil.cli.console import table

    rows = sorted(release.rows(), key=lambda row: -row["frequency"])
    shown = []
    for row in rows[:15]:
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
    made = table("The 15 most used of 50 apps", columns, shown)
    made.columns[3].justify = "left"
    return made


def _bar(low: float, middle: float, high: float, full: float) -> str:
    """A bar to the estimate, with the interval drawn over it."""
    low, middle, high = (round(_BAR * min(max(x / full, 0.0), 1.0)) for x in (low, middle, high))
    return "█" * low + "▓" * (middle - low) + "░" * (high - middle)
