"""`--segments` and `--pairs` of `keyveil plan`: what a breakdown will show, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from keyveil.plan import Plan

# Frequencies of which a breakdown speaks.
_POPULAR = (0.5, 0.2, 0.05)


def breakdown_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The two options."""
    for option in (
        click.option(
            "--pairs", is_flag=True, help="Say what pairs of keys will show: the smallest lift seen."
        ),
        click.option(
            "--segments",
            type=click.IntRange(min=2, max=65),
            help="Say what so many segments cost, with clear labels and private ones.",
        ),
    ):
        command = option(command)
    return command


def broken_down(made: Plan, pairs_per_user: int | None, segments: int | None, pairs: bool) -> dict[str, Any]:
    """What `bucket` will say of segments and pairs, at the epsilon that was planned."""
    from keyveil.plan.breakdowns import BreakdownPlan

    plan = BreakdownPlan(
        users=made.choice.users,
        n_keys=made.n_keys,
        epsilon=made.choice.epsilon,
        pairs_per_user=min(made.n_keys, pairs_per_user or made.choice.pairs_per_user),
    )
    said: dict[str, Any] = {}
    if segments is not None:
        said["segments"] = [
            {
                "frequency": frequency,
                "segments": segments,
                "none": plan.whole(frequency),
                "clear": plan.clear(frequency, segments),
                "private": plan.private(frequency, segments),
                "private_whole": plan.private_whole(frequency, segments),
                "difference_clear": plan.smallest_difference(plan.clear(frequency, segments), segments),
                "difference_private": plan.smallest_difference(plan.private(frequency, segments), segments),
            }
            for frequency in _POPULAR
        ]
    if pairs:
        said["pairs"] = [
            {
                "frequency": frequency,
                "lift": plan.smallest_lift(frequency, frequency),
                "lift_with_means": plan.smallest_lift(frequency, frequency, means=True),
            }
            for frequency in _POPULAR
        ]
    return said


def tell_broken_down(said: dict[str, Any]) -> None:
    """The same as tables."""
    from keyveil.cli.console import output, table

    def share(row: dict[str, Any], name: str) -> str:
        return f"{100 * row[name]:.2f} %"

    if "segments" in said:
        count = said["segments"][0]["segments"]
        heads = (
            *("held by", "all, no segments", "a clear segment", "a private one", "all, private"),
            *("seen if clear", "seen if private"),
        )
        names = ("none", "clear", "private", "private_whole", "difference_clear", "difference_private")
        rows = [
            (f"{100 * row['frequency']:g} %", *(share(row, name) for name in names))
            for row in said["segments"]
        ]
        title = (
            f"{count} segments of one size: standard errors, and the difference from the whole that is seen"
        )
        output().print(table(title, heads, rows))
    if "pairs" in said:
        lifts = [
            (f"{100 * row['frequency']:g} %", f"{row['lift']:.2f}", f"{row['lift_with_means']:.2f}")
            for row in said["pairs"]
        ]
        columns = ("each key held by", "smallest lift seen", "with means (rho = 0)")
        output().print(table("Pairs of keys, all looked at together", columns, lifts))
