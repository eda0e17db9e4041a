"""From somebody's own data to a draft of a campaign, with the plan behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from keyveil.campaign import LONGEST_UNIT
from keyveil.cli.console import progress
from keyveil.plan import Central, Crowd, Plan, Prediction, make_plan
from keyveil.plan.draft import (
    LEAST_HOLDERS,
    MOST_BIAS,
    Draft,
    draft_plan,
    find_range,
    find_skew,
    public_keys,
)
from keyveil.plan.solve import Also
from keyveil.protocols.auto.tuning import PROMISED
from keyveil.simulate.forecast import forecast_among
from keyveil.simulate.foresight import counted_crowd

if TYPE_CHECKING:
    from keyveil.simulate.pairs import Reading
    from keyveil.simulate.population import Population


# Who asks, until somebody says.
OWNER = "your team"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafted:
    """A draft, the plan that it follows, and the people in the range that it asks about."""

    draft: Draft
    plan: Plan
    reading: Reading


def crowd_of(people: Population) -> Crowd:
    """Who will answer, if they are like these people."""
    return counted_crowd(people, skew=find_skew(people.frequency()))


@contextmanager
def auto_beside(
    want: str,
    at: float | None = None,
    top: int = 50,
    declared: int | None = None,
    central: Central | None = None,
) -> Iterator[Also | None]:
    """What `auto` would publish, for plans; None where it tells no such thing. A bar moves meanwhile."""
    if want == "distribution" or at is not None:
        yield None
        return
    with progress("playing auto", None) as advance:

        def predict(epsilon: float, crowd: Crowd, others: tuple[Crowd, ...]) -> Prediction:
            kept: dict[str, Any] = {}
            if central is not None:
                kept = {"promise": central.promise(crowd.users), "version": PROMISED}
            return forecast_among(
                epsilon,
                crowd,
                others,
                pairs_per_user=declared,
                want=want,
                top=top,
                progress=lambda label: advance(label=label),
                **kept,
            )

        yield predict


def purpose_of(reading: Reading) -> str:
    """Why one would ask, by what the columns are called."""
    columns = reading.columns
    key, value = ((name or "").lower() for name in (columns.key, columns.value))
    return f"learn which {key} people have, and the {value}"


def unit_of(reading: Reading) -> str | None:
    """What the values are counted in, by the name of their column."""
    said = (reading.columns.value or "").strip().lower()
    return None if said in ("", "value") else said[:LONGEST_UNIT]


def draft_from(
    reading: Reading,
    also: Also | None = None,
    /,
    *,
    epsilon: float | None,
    want: str,
    value_range: tuple[float, float] | None = None,
    users: int | None = None,
    central: Central | None = None,
    **fields: Any,
) -> Drafted:
    """What suits the people in a file; `users` where others, and more or fewer, will be asked.

    Methods of one round, and what is predicted `also`.
    """
    low, high = value_range or find_range(reading.values)
    reading = reading.within(low, high)
    people = reading.population
    holders = np.bincount(people.codes, minlength=people.n_keys)
    keys, left_out = public_keys(people.names, holders)
    asked = people.restrict(np.flatnonzero(np.isin(np.array(people.names), keys)))
    plan = make_plan(
        crowd_of(asked),
        epsilon=epsilon,
        users=users or people.n_users,
        want=want,
        most_bias=MOST_BIAS,
        also=also,
        central=central,
    )
    beyond = f"; {reading.clamped:,} of {reading.values.size:,} lie outside" if reading.clamped else ""
    rare = f"{left_out:,} keys of fewer than {LEAST_HOLDERS} people are not named; " if left_out else ""
    why = {
        "keys": f"{rare}look them through: the list is public",
        "other": "keys that are not listed share one bucket",
        "value_range": f"values beyond are moved to the ends{beyond}",
    }
    fields = {"owner": OWNER, "purpose": purpose_of(reading), "unit": unit_of(reading), **fields}
    draft = draft_plan(plan, keys=keys, value_range=(low, high), other=bool(left_out), why=why, **fields)
    return Drafted(draft=draft, plan=plan, reading=reading)
