"""`keyveil plan`: what a collection will be able to say, before a single report is collected."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.columns import column_options, read_own, tell
from keyveil.cli.settings import want_option
from keyveil.cli.simulate import parse_range
from keyveil.errors import PlanError

if TYPE_CHECKING:
    from keyveil.audit import Shuffled
    from keyveil.plan import Crowd, Plan
    from keyveil.simulate.pairs import Reading


@click.command()
@click.option("--users", type=click.IntRange(min=1), help="How many people will answer.")
@click.option("--keys", type=click.IntRange(min=1), help="How many keys are asked about.")
@click.option("--epsilon", help="The privacy budget of each of them.")
@click.option(
    "--pairs-per-user",
    type=click.IntRange(min=1),
    help="The most pairs a user holds, 1 if left out; sizes are taken to spread evenly from 1 to it.",
)
@click.option("--skew", help="Key number r is r**-skew as popular; zipf:1.0 if left out.")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Own data, one row a pair, to take users, keys, sizes and skew from where no option says.",
)
@click.option(
    "--write",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what is recommended as a campaign.",
)
@want_option("frequency")
@click.option("--error", type=float, help="The root mean squared error that is wanted.")
@click.option("--at-frequency", type=float, help="Errors of a key this frequent, not of all (or top) keys.")
@click.option(
    "--top", type=click.IntRange(min=1), default=50, show_default=True, help="How many keys make the top."
)
@click.option("--value-range", help="LO,HI: errors of means in the unit of the values.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write errors against users as SVG."
)
@column_options
def plan(
    users: int | None,
    keys: int | None,
    epsilon: str | None,
    pairs_per_user: int | None,
    skew: str | None,
    want: str,
    error: float | None,
    at_frequency: float | None,
    top: int,
    as_json: bool,
    plot: Path | None,
    source: Path | None,
    write: Path | None,
    value_range: str | None,
    **columns: Any,
) -> None:
    """Predict errors and choose a mechanism; of --users, --epsilon and --error one may be left out.

    Errors are of the unbiased numbers; `auto` shrinks them and does better where keys are many.
    """
    from keyveil.numerics import parse_epsilon
    from keyveil.plan import make_plan
    from keyveil.plan.draft import MOST_BIAS, find_range

    budget = None if epsilon is None else float(parse_epsilon(epsilon, where="--epsilon"))
    reading = None
    if source is not None:
        reading = read_own(source, skip=True, **columns)
        tell(reading.words())
    elif keys is None:
        raise PlanError("say how many keys there are with --keys, or where to count them with --from FILE")
    crowd = _crowd(reading, users=users, keys=keys, pairs_per_user=pairs_per_user, skew=skew)
    if reading is not None:
        users = crowd.users
    keys = crowd.n_keys
    made = make_plan(
        crowd,
        epsilon=budget,
        users=users,
        error=error,
        want=want,
        at=at_frequency,
        top=top,
        most_bias=math.inf if reading is None else MOST_BIAS,
    )
    if plot is not None:
        from keyveil.plan.plot import write_curves

        write_curves(made, crowd, plot, at=at_frequency, top=top)
        click.echo(f"wrote {plot}", err=True)
    if write is not None:
        _write(made, write, reading, parse_range(value_range))
        click.echo(f"wrote {write}", err=True)
    if as_json:
        click.echo(json.dumps({**made.to_fields(), "shuffled": _shuffled(made, keys)._asdict()}, indent=2))
    else:
        _print(
            made, keys, parse_range(value_range) or (None if reading is None else find_range(reading.values))
        )


def _crowd(
    reading: Reading | None,
    *,
    users: int | None,
    keys: int | None,
    pairs_per_user: int | None,
    skew: str | None,
) -> Crowd:
    """Who will answer: as the options say, else as in somebody's own data, else as is usual."""
    import numpy as np

    from keyveil.estimate.sizes import SizeLaw
    from keyveil.plan import Crowd

    found = None
    if reading is not None:
        from keyveil.cli.drafting import crowd_of

        found = crowd_of(reading.population)
    n_keys = keys or (1 if found is None else found.n_keys)
    if found is not None and pairs_per_user is None:
        law = found.law
    else:
        most = min(pairs_per_user or 1, n_keys)
        law = SizeLaw(sizes=np.arange(1.0, most + 1), shares=np.full(most, 1 / most))
    exponent = found.skew if skew is None and found is not None else _parse_skew(skew or "zipf:1.0")
    return Crowd(users=users or (1 if found is None else found.users), n_keys=n_keys, law=law, skew=exponent)


def _write(made: Plan, path: Path, reading: Reading | None, value_range: tuple[float, float] | None) -> None:
    """What the plan recommends, as a campaign: with the data's own keys, or names to replace."""
    from keyveil.cli.files import write_new

    if reading is not None:
        from keyveil.cli.drafting import draft_from

        drafted = draft_from(
            reading,
            epsilon=made.choice.epsilon,
            want=made.want,
            value_range=value_range,
            users=made.choice.users,
            name=path.stem,
        )
        write_new(path, drafted.draft.to_toml())
        return
    from keyveil.plan.draft import draft_plan

    why = {"keys": "replace them by the names of your keys"}
    if value_range is None:
        why["value_range"] = "replace it by your values' range"
    keys = [f"key {number}" for number in range(1, made.n_keys + 1)]
    draft = draft_plan(made, keys=keys, value_range=value_range or (0.0, 1.0), name=path.stem, why=why)
    write_new(path, draft.to_toml())


def _parse_skew(text: str) -> float:
    kind, _, number = text.partition(":")
    try:
        if kind != "zipf":
            raise ValueError
        return float(number)
    except ValueError:
        raise PlanError(f'--skew must read "zipf:NUMBER", as zipf:1.0, got {text!r}') from None


def _shuffled(made: Plan, keys: int) -> Shuffled:
    """What is left of the choice's epsilon where reports are anonymised and shuffled."""
    from keyveil.audit import shuffled
    from keyveil.mechanisms import build

    first = made.choice
    mechanism = build(
        first.mechanism, first.epsilon, n_keys=keys, pairs_per_user=first.pairs_per_user, **first.options
    )
    return shuffled(mechanism, max(2, first.users))


def _print(made: Plan, keys: int, value_range: tuple[float, float] | None) -> None:
    from keyveil.cli.console import output, table
    from keyveil.client import Caps
    from keyveil.plan.predict import labelled

    columns = (
        "mechanism",
        "l",
        "frequency error",
        "mean error" if made.want != "distribution" else "share error",
        "detectable",
        "top found",
        "bits a report",
    )
    rows = [
        (
            labelled(each.mechanism, each.options),
            str(each.pairs_per_user),
            f"{each.frequency_rmse:.3g}",
            _mean_error(each.mean_rmse, value_range)
            if made.want != "distribution"
            else _or_dash(each.share_rmse),
            f"{each.detectable_frequency:.3g}",
            "-" if each.precision_top != each.precision_top else f"{each.precision_top:.0%}",
            str(each.bits_per_report),
        )
        for each in made.candidates
    ]
    first = made.choice
    title = f"{first.users:,} users at epsilon {first.epsilon:g}; best for {made.want} first"
    output().print(table(title, columns, rows))
    output().print(
        "- l is how many pairs of a record its report speaks for; longer records are sampled down to it"
    )
    if made.want != "distribution":
        output().print(f"- errors of means are {_unit(value_range)}")
    for sentence in made.words:
        output().print(f"- {_in_unit(sentence, made.want, value_range)}")
    often = int(Caps().lifetime / first.epsilon)
    output().print(
        f"- a device spends {Caps().lifetime:g} in its life unless its owner sets another cap: "
        f"{often:,} campaigns like this one"
    )
    hidden = _shuffled(made, keys)
    output().print(
        f"- if reports are anonymised and shuffled among all users: central epsilon {hidden.best:.2g} "
        f"at delta {hidden.delta:g} (any mechanism of this epsilon: {hidden.by_clones:.2g})"
    )


def _mean_error(error: float, value_range: tuple[float, float] | None) -> str:
    """An error on the scale [-1, 1] in the values' own unit, or as a part of their range."""
    if value_range is None or error != error:
        return "-" if error != error else f"{error / 2:.1%}"
    return f"{error * (value_range[1] - value_range[0]) / 2:.3g}"


def _in_unit(sentence: str, want: str, value_range: tuple[float, float] | None) -> str:
    """A plan's sentence, which tells errors of means on the scale [-1, 1], in the unit of the table."""
    if want != "mean":
        return sentence
    return re.sub(
        r"error of ([\d.e-]+)",
        lambda found: f"error of {_mean_error(float(found[1]), value_range)}",
        sentence,
    )


def _unit(value_range: tuple[float, float] | None) -> str:
    if value_range is None:
        return "parts of the values' range; say it with --value-range LO,HI to see them in its unit"
    return f"in the unit of the values, which range from {value_range[0]:g} to {value_range[1]:g}"


def _or_dash(value: float) -> str:
    return "-" if value != value else f"{value:.3g}"
