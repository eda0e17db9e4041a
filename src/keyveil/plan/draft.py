"""A first campaign: what a plan recommends, written as a file that a person reads, edits and creates.

What is read off somebody's own data is a proposal with a reason, which stands beside it as a comment:

    keys          those that enough people hold: the file is public, and a key of one person names them
    value_range   from 0 (or the least) to a round number that nearly all values stay below
    l             how many pairs the plan lets a report speak for
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keyveil.campaign import LARGEST_TEXT, MOST_KEYS, OPEN, Campaign
from keyveil.methods import find_method
from keyveil.plan.solve import Plan
from keyveil.series import Series

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# A key that fewer people hold is not named in a public file.
LEAST_HOLDERS = 5
# Standard errors by which cutting records may move a frequency: its interval, made for 95 %, then still holds
# the truth in 93.7 % of cases (Phi(1.96 - 1/3) - Phi(-1.96 - 1/3)).
MOST_BIAS = 1 / 3
# The part of values that may lie beyond the range: one in a hundred moves a mean less than noise does.
BEYOND = 0.01
# Scales of at most so many whole steps are taken as they are: ratings, stars, grades.
_STEPS = 20
_ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_DAYS = 30
# The rest of a campaign's text, beside its keys.
_BESIDE_KEYS = 1 << 14


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A campaign that is not created yet; `why` says of some fields why they are as they are.

    >>> draft = Draft(name="apps", epsilon=1.0, keys=("maps", "mail"), value_range=(0.0, 60.0),
    ...               pairs_per_user=2, mechanism="pckv-ue", why={"epsilon": "the budget of each person"})
    >>> print(draft.to_toml().splitlines()[6])
    epsilon = 1.0                   # the budget of each person
    >>> draft.campaign().domain.n_keys
    2
    """

    name: str
    epsilon: float
    keys: Sequence[str]
    """A list of them, or "open"."""
    value_range: tuple[float, float]
    pairs_per_user: int
    mechanism: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """The mechanism's own: cohorts, rho, bins, longest."""
    other: bool = False
    relayed: Mapping[str, Any] = field(default_factory=dict)
    """What is promised where a relay carries reports: relay, batch, central_epsilon, delta, honest."""
    users: int | None = None
    want: str | None = None
    unit: str | None = None
    series: Series | None = None
    """How often it is asked, where it is asked in waves."""
    owner: str = ""
    purpose: str = ""
    expires: str = ""
    why: Mapping[str, str] = field(default_factory=dict)

    def campaign(self) -> Campaign:
        """The campaign, checked."""
        said = {name: value for name, value in self._fields().items() if value is not None}
        return Campaign(**said, series=self.series)

    def to_toml(self) -> str:
        """The file, with a comment where there is something to say."""
        lines = ["# What people are asked. It is public: devices read it, and its hash is its id.", ""]
        for name, value in self._fields().items():
            if value is not None:
                lines += _lines(name, value, self.why.get(name, ""))
        if self.series is not None:
            # A table comes last: what followed it would be part of it.
            lines += ["", "# A person answers in so many of the waves, each time at epsilon.", "[series]"]
            lines += [
                line for name, value in self.series.to_fields().items() for line in _lines(name, value, "")
            ]
        return "\n".join(lines) + "\n"

    @property
    def _days_of_waves(self) -> int:
        """How long all waves take, if they begin today."""
        if self.series is None:
            return 0
        today = datetime.now(UTC)
        begun = replace(self.series, start=self.series.start or today.date().isoformat())
        ending = begun.begins(begun.waves + 1)
        return max(0, (ending - today).days + 1)

    def _fields(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "owner": self.owner,
            "purpose": self.purpose,
            "expires": self.expires or in_days(_DAYS + self._days_of_waves),
            "epsilon": self.epsilon,
            "keys": OPEN if self.keys == OPEN else list(self.keys),
            "other": self.other,
            "value_range": list(self.value_range),
            "unit": self.unit,
            "pairs_per_user": self.pairs_per_user,
            "mechanism": self.mechanism,
            **self.options,
            **self.relayed,
            "users": self.users,
            "want": self.want,
        }


WHY: Mapping[str, str] = {
    "owner": "who asks; people are told",
    "purpose": "why you ask; people are told",
    "expires": "devices answer until then",
    "epsilon": "what one person's answer may give away, at most",
    "other": "whether keys that are not listed share one bucket",
    "rho": "bucket's dial: 1 tells frequencies better, and no means",
    "cohorts": "bucket's public hashes",
    "relay": "reports come sealed, through another operator's relay",
    "batch": "the relay forwards so many at once, at least",
    "central_epsilon": "what a collector learns of a person that does not pool data with the relay",
    "delta": "but for this chance",
    "honest": "if this share of a batch is",
    "users": "how many are expected",
    "want": "what is to be known best",
    "unit": "what values are counted in, for people",
}


# `auto` decides by itself how much of a record a report speaks for.
_WHY_DECLARED = "how many pairs nine people in ten hold at most; auto decides how it cuts records"


def draft_plan(
    plan: Plan, *, keys: Sequence[str], why: Mapping[str, str] | None = None, **fields: Any
) -> Draft:
    """What a plan recommends, for these keys; `fields` are a draft's."""
    choice = plan.choice
    chosen = f"best for {plan.want} with {choice.users:,} people at epsilon {choice.epsilon:g}"
    said = {
        **WHY,
        "mechanism": chosen,
        "pairs_per_user": _WHY_DECLARED
        if choice.is_published
        else "how many pairs a report speaks for; longer records are sampled down to it",
        **(why or {}),
    }
    return Draft(
        keys=keys,
        epsilon=choice.epsilon,
        pairs_per_user=choice.pairs_per_user,
        mechanism=choice.mechanism,
        options=choice.options,
        relayed={} if plan.central is None else plan.central.to_campaign(choice.users),
        users=choice.users,
        want=plan.want if find_method(choice.mechanism)[0].heeds_want else None,
        why=said,
        **fields,
    )


def in_days(days: int) -> str:
    """The date so many days from now."""
    return (datetime.now(UTC) + timedelta(days=days)).date().isoformat()


def find_range(values: Floats) -> tuple[float, float]:
    """A range that people understand and that nearly all values lie in.

    >>> find_range(np.array([1.0, 4.0, 5.0, 3.0])), find_range(np.array([3.2, 88.0, 41.0]))
    ((1.0, 5.0), (0.0, 100.0))
    """
    least, most = float(values.min()), float(values.max())
    is_scale = bool((values == np.round(values)).all()) and most - least <= _STEPS
    if is_scale and least < most:
        return least, most
    if least == most:
        return (0.0, most) if most > 0 else (least - 1.0, least + 1.0)
    low = 0.0 if least >= 0 else -_above(-float(np.quantile(values, BEYOND)), -least)
    return low, _above(float(np.quantile(values, 1 - BEYOND)), most) if most > 0 else 0.0


def _above(usual: float, most: float) -> float:
    """A round number above all values, or above the usual ones where the rest lies far out."""
    top = _rounded_up(most)
    return top if usual <= 0 or top <= 2 * usual else _rounded_up(usual)


def _rounded_up(value: float) -> float:
    """The next number of one digit or a usual half.

    >>> _rounded_up(88.0), _rounded_up(0.13), _rounded_up(1000.0)
    (100.0, 0.15, 1000.0)
    """
    power = math.floor(math.log10(value))
    for digit in _ROUND:
        rounded = float(f"{digit}e{power}")
        if rounded >= value:
            return rounded
    return float(f"1e{power + 1}")


def find_skew(frequency: Floats) -> float:
    """The exponent of the power law that is nearest to these frequencies, between 0 and 3.

    Ranks are weighed by how often a key of theirs is met: what few people hold says little.

    >>> find_skew(np.arange(1.0, 101.0) ** -1.0)
    1.0
    """
    held = np.sort(frequency[frequency > 0])[::-1]
    if held.size < 3:
        return 0.0
    x, y = np.log(np.arange(1.0, held.size + 1)), np.log(held)
    x, y = x - np.average(x, weights=held), y - np.average(y, weights=held)
    slope = -float(np.sum(held * x * y) / np.sum(held * x * x))
    return round(min(max(slope, 0.0), 3.0), 2)


def public_keys(names: Sequence[str], holders: Ints, least: int = LEAST_HOLDERS) -> tuple[list[str], int]:
    """The keys that a public file may name, in the order of `names`, and how many it may not.

    It may not name what fewer than `least` people hold; where that is all, somebody tries things out, and all
    are named. Of more keys than a device reads, the most held are named.

    >>> public_keys(["a", "b", "c"], np.array([9, 2, 7]))
    (['a', 'c'], 1)
    """
    rare = holders < least
    kept = np.flatnonzero(~rare) if (~rare).any() else np.arange(len(names))
    most = kept[np.argsort(-holders[kept], kind="stable")][: MOST_KEYS - 1]
    sizes = np.cumsum([len(json.dumps(names[code], ensure_ascii=False).encode()) + 1 for code in most])
    fits = np.sort(most[sizes <= LARGEST_TEXT - _BESIDE_KEYS])
    return [names[code] for code in fits], len(names) - fits.size


def _lines(name: str, value: Any, why: str) -> list[str]:
    if name == "keys" and len(value) > 6:
        head = [f"# {why}"] if why else []
        return [*head, "keys = [", *(f"  {_toml(key)}," for key in value), "]"]
    said = f"{name} = {_toml(value)}"
    return [f"{said:<31} # {why}" if why else said]


def _toml(value: Any) -> str:
    """A value as TOML writes it.

    >>> _toml("café"), _toml([0.0, 60.0]), _toml(True)
    ('"café"', '[0.0, 60.0]', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value)
