"""`keyveil plan`: what a collection will be able to say, before a single report is collected."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from keyveil.cli.columns import column_options, read_own, tell
from keyveil.cli.promising import central_options, promised
from keyveil.cli.searching import check_said, plan_search, search_options
from keyveil.cli.segmenting import breakdown_options, broken_down, tell_broken_down
from keyveil.cli.settings import want_option
from keyveil.cli.simulate import parse_range
from keyveil.cli.waves import in_waves, plan_waves, series_option
from keyveil.errors import PlanError

if TYPE_CHECKING:
    from keyveil.plan import Crowd, Plan
    from keyveil.plan.searching import Search
    from keyveil.series import Series
    from keyveil.shuffle import Shuffled
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
@click.option(
    "--size-tail",
    type=click.FloatRange(min=0, max=5),
    metavar="SIGMA",
    help="Sizes are lognormal with this sigma, about 1 where few hold very much; nine users in ten hold at "
    "most --pairs-per-user.",
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
@click.option(
    "--error",
    type=float,
    help="The root mean squared error that is wanted; of means in their unit, or on [-1, 1] without a range.",
)
@click.option("--at-frequency", type=float, help="Errors of a key this frequent, not of all (or top) keys.")
@click.option(
    "--top", type=click.IntRange(min=1), default=50, show_default=True, help="How many keys make the top."
)
@click.option("--value-range", help="LO,HI: errors of means in the unit of the values.")
@click.option("--unit", help="What values are counted in, as minutes; it needs --value-range or --from.")
@central_options
@series_option
@breakdown_options
@search_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")
@click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), help="Write errors against users as SVG."
)
@column_options
@click.pass_context
def plan(
    context: click.Context,
    /,
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
    size_tail: float | None,
    unit: str | None,
    central: float | None,
    delta: float | None,
    batch: int | None,
    honest: float | None,
    said_series: str | None,
    segments: int | None,
    pairs: bool,
    is_open: bool,
    longest: int,
    popularity: float | None,
    **columns: Any,
) -> None:
    """Predict errors and choose a mechanism; of --users, --epsilon and --error one may be left out.

    Errors are of the unbiased numbers; those of `auto`, which shrinks them, are of what it publishes. In
    brackets is how far they may be off where people are others than was guessed.
    """
    from keyveil.cli.drafting import auto_beside, unit_of
    from keyveil.numerics import parse_epsilon
    from keyveil.plan import make_plan
    from keyveil.plan.draft import MOST_BIAS, find_range

    check_said(context, is_open)
    if is_open:
        searched = plan_search(
            users=users,
            epsilon=epsilon,
            pairs_per_user=pairs_per_user or 1,
            longest=longest,
            popularity=popularity,
            as_json=as_json,
        )
        if write is not None:
            _write_search(searched, write, parse_range(value_range), unit)
            click.echo(f"wrote {write}", err=True)
        return
    hidden = promised(central, delta, batch, honest)
    budget = None if epsilon is None else float(parse_epsilon(epsilon, where="--epsilon"))
    reading = None
    if source is not None:
        reading = read_own(source, skip=True, **columns)
        tell(reading.words())
    elif keys is None:
        raise PlanError("say how many keys there are with --keys, or where to count them with --from FILE")
    crowd = _crowd(
        reading, users=users, keys=keys, pairs_per_user=pairs_per_user, skew=skew, size_tail=size_tail
    )
    limits = parse_range(value_range)
    if reading is not None:
        users = crowd.users
        limits = limits or find_range(reading.values)
        unit = unit or unit_of(reading)
    elif unit is not None and limits is None:
        raise PlanError("say the range of the values with --value-range LO,HI: a unit alone is no scale")
    scale = Scale(want, limits, unit)
    series, devices = None, crowd.users
    if said_series is not None:
        if users is None:
            raise PlanError("say how many people there are in all, with --users or --from FILE")
        series, found = plan_waves(
            said_series, crowd, epsilon=budget, change=error, at=at_frequency, as_json=as_json
        )
        if write is None:
            return
        # Each wave is a campaign: it is planned for those whom it asks.
        crowd = replace(crowd, users=found.users_a_wave)
        budget, users, error = found.epsilon_of_answer, found.users_a_wave, None
    keys = crowd.n_keys
    declared = None if reading else pairs_per_user
    with auto_beside(want, at_frequency, top, declared, hidden) as also:
        made = make_plan(
            crowd,
            epsilon=budget,
            users=users,
            error=None if error is None else scale.read(error),
            want=want,
            at=at_frequency,
            top=top,
            most_bias=math.inf if reading is None else MOST_BIAS,
            also=also,
            bands=True,
            spoken=scale.say,
            central=hidden,
        )
    if plot is not None:
        from keyveil.plan.plot import write_curves

        write_curves(made, crowd, plot, at=at_frequency, top=top)
        click.echo(f"wrote {plot}", err=True)
    if write is not None:
        _write(made, write, reading, parse_range(value_range), series, devices)
        click.echo(f"wrote {write}", err=True)
        if series is not None:
            return
    apart = broken_down(made, pairs_per_user, segments, pairs)
    if as_json:
        shuffled = _shuffled(made, keys)._asdict()
        click.echo(json.dumps({**made.to_fields(), **apart, "shuffled": shuffled}, indent=2))
    else:
        _print(made, keys, scale)
        tell_broken_down(apart)


def _crowd(
    reading: Reading | None,
    *,
    users: int | None,
    keys: int | None,
    pairs_per_user: int | None,
    skew: str | None,
    size_tail: float | None,
) -> Crowd:
    """Who will answer: as the options say, else as in somebody's own data, else as is usual."""
    from keyveil.plan import Crowd, even_sizes, tailed_sizes

    if size_tail is not None and pairs_per_user is None:
        raise PlanError(
            "say with --pairs-per-user what nine users in ten hold at most; --size-tail goes on from it"
        )
    found = None
    if reading is not None:
        from keyveil.cli.drafting import crowd_of

        found = crowd_of(reading.population)
        if (keys, pairs_per_user, skew) == (None, None, None):
            return replace(found, users=users or found.users)
    n_keys = keys or (1 if found is None else found.n_keys)
    if found is not None and pairs_per_user is None:
        law = found.law
    else:
        most = min(pairs_per_user or 1, n_keys)
        law = even_sizes(most) if size_tail is None else tailed_sizes(most, size_tail, n_keys)
    exponent = found.skew if skew is None and found is not None else _parse_skew(skew or "zipf:1.0")
    return Crowd(users=users or (1 if found is None else found.users), n_keys=n_keys, law=law, skew=exponent)


def _write(
    made: Plan,
    path: Path,
    reading: Reading | None,
    value_range: tuple[float, float] | None,
    series: Series | None,
    devices: int,
) -> None:
    """What the plan recommends, as a campaign: with the data's own keys, or names to replace."""
    from keyveil.cli.files import write_new

    if reading is not None:
        from keyveil.cli.drafting import auto_beside, draft_from

        with auto_beside(made.want, central=made.central) as also:
            drafted = draft_from(
                reading,
                also,
                epsilon=made.choice.epsilon if made.central is None else None,
                central=made.central,
                want=made.want,
                value_range=value_range,
                users=made.choice.users,
                name=path.stem,
            )
        write_new(path, in_waves(drafted.draft, series, devices).to_toml())
        return
    from keyveil.plan.draft import draft_plan

    why = {"keys": "replace them by the names of your keys"}
    if value_range is None:
        why["value_range"] = "replace it by your values' range"
    keys = [f"key {number}" for number in range(1, made.n_keys + 1)]
    draft = draft_plan(made, keys=keys, value_range=value_range or (0.0, 1.0), name=path.stem, why=why)
    write_new(path, in_waves(draft, series, devices).to_toml())


def _write_search(
    search: Search, path: Path, value_range: tuple[float, float] | None, unit: str | None
) -> None:
    """A search as a campaign."""
    from keyveil.campaign import OPEN
    from keyveil.cli.files import write_new
    from keyveil.plan.draft import WHY, Draft

    why = {
        **WHY,
        "keys": "nobody knows the list",
        "other": "a release has a row for all other keys as it is",
        "pairs_per_user": "how many keys a report speaks for; longer records are sampled down to it",
        "longest": "how many bits of a key are said",
        "mechanism": f"keys that {100 * search.detectable():.2g} % hold are found, with nine chances in ten",
    }
    if value_range is None:
        why["value_range"] = "replace it by your values' range"
    draft = Draft(
        name=path.stem,
        epsilon=float(search.epsilon),
        keys=OPEN,
        value_range=value_range or (0.0, 1.0),
        unit=unit,
        pairs_per_user=search.pairs_per_user,
        mechanism=OPEN,
        options={"longest": search.longest},
        users=search.users,
        why=why,
    )
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
    """What is left of epsilon where reports to the best mechanism of one round are shuffled."""
    from keyveil.mechanisms import build
    from keyveil.shuffle import shuffled

    first = next(each for each in made.candidates if not each.is_published)
    mechanism = build(
        first.mechanism, first.epsilon, n_keys=keys, pairs_per_user=first.pairs_per_user, **first.options
    )
    return shuffled(mechanism, max(2, first.users))


# An error this large on [0, 1] is that of any number.
_NOTHING = 1.0


class Scale:
    """How errors are said: frequencies as they are, means in their unit or as a part of their range."""

    def __init__(self, want: str, limits: tuple[float, float] | None, unit: str | None) -> None:
        self.want, self.limits, self.unit = want, limits, unit

    def read(self, error: float) -> float:
        """An error that somebody wants, on the scale that plans use."""
        if self.want != "mean" or self.limits is None:
            return error
        return 2 * error / (self.limits[1] - self.limits[0])

    def say(self, error: float) -> str:
        """The error that is planned for, in words."""
        if self.want != "mean":
            return f"{error:.3g}"
        said = self.mean(error)
        return f"{said} {self.unit}" if self.unit and self.limits is not None else said

    def mean(self, error: float) -> str:
        """An error of a mean, on the scale [-1, 1]."""
        if self.limits is None:
            return f"{error / 2:.1%}"
        return f"{error * (self.limits[1] - self.limits[0]) / 2:.3g}"

    def means(self, error: float, low: float, high: float) -> str:
        """The same with its band; where the middle of the range would do as well, that nothing is known."""
        if math.isnan(error):
            return "-"
        from keyveil.plan.choice import PRIOR_MEAN_VARIANCE

        return "unknown" if error >= math.sqrt(PRIOR_MEAN_VARIANCE) else _banded(error, low, high, self.mean)

    def explain(self) -> str:
        """What errors of means are in."""
        if self.limits is None:
            return "parts of the values' range; say it with --value-range LO,HI to see them in its unit"
        what = self.unit or "the unit of the values"
        return f"in {what}, which range from {self.limits[0]:g} to {self.limits[1]:g}"


def _banded(error: float, low: float, high: float, say: Callable[[float], str]) -> str:
    """An error, and how far it may be off: 0.012 (0.009 to 0.02)."""
    ends = say(low), say(high)
    return (
        say(error)
        if math.isnan(low) or ends == (say(error),) * 2
        else f"{say(error)} ({ends[0]} to {ends[1]})"
    )


def _share(error: float, low: float = math.nan, high: float = math.nan) -> str:
    """An error of a frequency, or of a share; where it is as large as all there is, that nothing is known."""
    if math.isnan(error):
        return "-"
    return "unknown" if error >= _NOTHING else _banded(error, low, high, "{:.3g}".format)


def _print(made: Plan, keys: int, scale: Scale) -> None:
    from keyveil.cli.console import output, table
    from keyveil.client import Caps
    from keyveil.plan.predict import labelled

    tells_means = made.want != "distribution"
    columns: tuple[str, ...] = (
        "mechanism",
        "l",
        "frequency error",
        "mean error" if tells_means else "share error",
        "detectable",
        "top found",
        "bits a report",
    )
    rows: list[tuple[str, ...]] = [
        (
            labelled(each.mechanism, each.options),
            "-" if each.is_published else str(each.pairs_per_user),
            _share(each.frequency_rmse, each.frequency_low, each.frequency_high),
            scale.means(each.mean_rmse, each.mean_low, each.mean_high)
            if tells_means
            else _share(each.share_rmse),
            _share(each.detectable_frequency),
            "-" if math.isnan(each.precision_top) else f"{each.precision_top:.0%}",
            str(each.bits_per_report),
        )
        for each in made.candidates
    ]
    first, central = made.choice, made.central
    title = f"{first.users:,} users at epsilon {first.epsilon:g}; best for {made.want} first"
    if central is not None:
        plain = {each.mechanism: each for each in made.without}
        columns = ("mechanism", "local", *columns[1:], f"at {central.epsilon:g}, no relay")
        rows = [
            (
                row[0],
                f"{each.epsilon:.2f}",
                *row[1:],
                scale.say(plain[each.mechanism].error(made.want)) if each.mechanism in plain else "-",
            )
            for row, each in zip(rows, made.candidates, strict=True)
        ]
        batch = central.promise(first.users).batch
        title = (
            f"{first.users:,} users at central epsilon {central.epsilon:g} and delta {central.delta:g}, in "
            f"batches of {batch:,}; best for {made.want} first"
        )
    output().print(table(title, columns, rows))
    for sentence in (*_legend(made, scale), *made.words):
        output().print(f"- {sentence}")
    if first.epsilon > Caps().campaign:
        output().print(
            f"- a device tells one campaign at most epsilon {Caps().campaign:g}: for this one an application "
            f"says Reporter(..., caps=Caps(campaign={math.ceil(first.epsilon)})), and why"
        )
    often = int(Caps().lifetime / first.epsilon)
    output().print(
        f"- a device spends {Caps().lifetime:g} in its life unless its owner sets another cap: "
        f"{often:,} campaigns like this one"
    )
    if central is not None:
        return
    hidden = _shuffled(made, keys)
    output().print(
        "- if reports of one round are anonymised and shuffled: "
        f"central epsilon {hidden.best:.2g} at delta {hidden.delta:g} "
        f"(any mechanism of this epsilon: {hidden.by_clones:.2g})"
    )


def _legend(made: Plan, scale: Scale) -> Iterator[str]:
    """What the table's columns and brackets mean."""
    yield "l is how many pairs of a record its report speaks for; longer records are sampled down to it"
    if made.want != "distribution":
        yield f"errors of means are {scale.explain()}"
    yield "in brackets: the least and the largest error if people are others than was guessed"
    if any(each.is_published and math.isnan(each.frequency_high) for each in made.candidates):
        yield "auto has no brackets where keys are so many: playing it for others, too, would take a minute"
    if any(each.is_published for each in made.candidates):
        yield "auto's errors are of what it publishes, pulled to what all keys say; the others' are unbiased"
        yield "auto chooses l itself, and asks in several rounds, which a collector opens"
