"""`--series` of `keyveil plan` and `keyveil init`: how often is asked, and what a series will show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from keyveil.errors import PlanError
from keyveil.series import MONTH, Series

if TYPE_CHECKING:
    from keyveil.plan import Crowd
    from keyveil.plan.draft import Draft
    from keyveil.plan.series import SeriesPlan

# Frequencies of which a plan speaks where nothing else is said, and the one that is planned for.
_POPULAR, _USUAL = (0.5, 0.2, 0.05, 0.01), 0.2
_YEAR = 365.25
_MONTH_DAYS = _YEAR / 12
# A first guess, where the number of waves is what is asked for.
_WAVES = 2

series_option = click.option(
    "--series",
    "said_series",
    metavar="every=week,waves=26,answers=2",
    help="Ask in waves; --epsilon is then what all answers of a person cost together.",
)


def parse_series(said: str | None, *, may_lack_waves: bool = False) -> tuple[Series, bool] | None:
    """What --series says, and whether it says how many waves.

    >>> parse_series("every=week,waves=26")
    (Series(every='week', waves=26, answers=1, start='', wave=None, first_keys=None), True)
    >>> parse_series("every=week")
    Traceback (most recent call last):
        ...
    keyveil.errors.PlanError: say how many waves: --series every=week,waves=26
    """
    if said is None:
        return None
    parts = dict(part.partition("=")[::2] for part in said.split(","))
    numbers = {name: text for name, text in parts.items() if name in ("waves", "answers")}
    if set(parts) - {"every", "waves", "answers", "start"} or "every" not in parts:
        raise PlanError(f"--series must read every=week,waves=26,answers=2, got {said[:60]!r}")
    if not all(text.isascii() and text.isdigit() for text in numbers.values()):
        raise PlanError(f"waves and answers are whole numbers, got {said[:60]!r}, at --series")
    if "waves" not in parts and not may_lack_waves:
        raise PlanError(f"say how many waves: --series {said},waves=26")
    fields = {**parts, "waves": _WAVES, **{name: int(text) for name, text in numbers.items()}}
    return Series.from_fields(fields), "waves" in parts


def in_waves(draft: Draft, series: Series | None, devices: int) -> Draft:
    """A draft for one wave, as one of the whole series, if it is asked in waves."""
    return draft if series is None else replace(draft, series=series, users=devices)


def plan_waves(
    said: str,
    crowd: Crowd,
    *,
    epsilon: float | None,
    change: float | None,
    at: float | None,
    as_json: bool,
) -> tuple[Series, SeriesPlan]:
    """Work out what a series will show, and say it; what is not said follows from the change to be seen."""
    from keyveil.plan.series import SeriesPlan, least_epsilon, most_waves

    parsed = parse_series(said, may_lack_waves=change is not None)
    assert parsed is not None
    series, has_waves = parsed
    if epsilon is None and (change is None or not has_waves):
        raise PlanError(
            "say --epsilon, what a person gives away over the whole series; or with --error, waves"
        )
    frequency = _USUAL if at is None else at
    plan = SeriesPlan(
        devices=crowd.users,
        n_keys=crowd.n_keys,
        epsilon=1.0 if epsilon is None else epsilon,
        waves=series.waves,
        answers=series.answers,
        law=crowd.law,
    )
    if change is not None and epsilon is None:
        plan = least_epsilon(plan, frequency, change)
    elif change is not None and not has_waves:
        plan = most_waves(plan, frequency, change)
    series = replace(series, waves=plan.waves)
    if as_json:
        click.echo(json.dumps(_fields(plan, series, frequency, at), indent=2))
    else:
        _print(plan, series, frequency, at)
    return series, plan


def _fields(plan: SeriesPlan, series: Series, frequency: float, at: float | None) -> dict[str, object]:
    from keyveil.plan.series import answers_table

    return {
        "every": series.every,
        "waves": plan.waves,
        "answers": plan.answers,
        "devices": plan.devices,
        "epsilon": plan.epsilon,
        "epsilon_of_answer": plan.epsilon_of_answer,
        "epsilon_a_year": a_year(plan, series),
        "users_a_wave": plan.users_a_wave,
        "false_alarms": plan.false_alarms,
        "frequencies": [
            {
                "frequency": each,
                "standard_error": plan.standard_error(each),
                "smoothed_error": plan.smoothed_error(each),
                "smallest_change": plan.smallest_change(each),
            }
            for each in _frequencies(at)
        ],
        "smallest_change_by_answers": {
            str(answers): change for answers, change in answers_table(plan, frequency).items()
        },
    }


def a_year(plan: SeriesPlan, series: Series) -> float:
    """What a year of such series costs a person, one after the other."""
    length = _MONTH_DAYS if series.every == MONTH else {"day": 1, "week": 7}[series.every]
    return plan.epsilon * _YEAR / (length * plan.waves)


def _frequencies(at: float | None) -> Sequence[float]:
    return _POPULAR if at is None else (at,)


def _print(plan: SeriesPlan, series: Series, frequency: float, at: float | None) -> None:
    from keyveil.cli.console import output, table
    from keyveil.client import Caps
    from keyveil.plan.series import answers_table, best_answers

    rows = [
        (
            f"{each:.1%}",
            f"{plan.standard_error(each):.2%}",
            f"{plan.smoothed_error(each):.2%}",
            f"{plan.smallest_change(each):.2%}",
        )
        for each in _frequencies(at)
    ]
    title = f"{plan.devices:,} people, {plan.answers} of {plan.waves} waves each"
    console = output()
    console.print(table(title, ("popularity", "error a wave", "smoothed", "change seen"), rows))
    costs = answers_table(plan, frequency)
    best = best_answers(plan, frequency).answers
    beside = ", ".join(f"{answers}: {change:.1%}" for answers, change in costs.items())
    hears = f"hears {plan.users_a_wave:,} people, each at epsilon {plan.epsilon_of_answer:g}"
    for sentence in (
        f"a wave, one every {series.every}, {hears}",
        f"the whole series costs a person epsilon {plan.epsilon:g}; a year of such series "
        f"{a_year(plan, series):.3g}, of the {Caps().lifetime:g} that a device spends in its life unless its "
        "owner sets another cap",
        "a change seen: a step half way is found with a chance of 90 %, false alarms over all keys and "
        f"waves {plan.false_alarms:.0%}",
        "smoothed: the error of a level that stays; where it moves, smoothing helps less",
        f"at the same total, by answers, the change seen of a key of {frequency:.0%}: {beside}; best: {best}",
    ):
        console.print(f"- {sentence}")
