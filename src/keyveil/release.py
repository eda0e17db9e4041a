"""What is published: numbers, intervals, the budget that paid for them, and how they were made."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from keyveil.domain import Labelled
from keyveil.errors import DomainError, ProtocolError, TallyError
from keyveil.estimate import HOSTILE_SHARE, READABLE, Distribution, Estimates, step
from keyveil.estimate.breakdowns import of_all
from keyveil.methods import find_method
from keyveil.numerics import CONFIDENCE, epsilon_above
from keyveil.protocols import Outcome, Protocol, Round, total_loss
from keyveil.spreads import KNOWN, UNKNOWN, Bounded, KeyDistribution, ValueSpread
from keyveil.tables import Table, csv_of, finite, needed, rows_of

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.domain import Domain
    from keyveil.tally import Tally

PUBLISHED = "published"
# The quantiles of a release that is asked for no others.
MEDIAN = (0.5,)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Release(Table):
    """One row a key, in the value's own units, and the metadata that makes it believable.

    Numbers lie inside their ranges and intervals if nobody asks for another step (`readable`). Intervals are
    95 % and always those of the unprocessed estimates (where records were cut, brought back to whole ones),
    which stay beside processed ones as `frequency_raw` and `mean_raw`: those are unbiased, and add up.
    `frequency_top` is for a table of the top keys and nothing else. `frequency_hostile` and `mean_hostile`
    say how far `hostile_share` of all devices, lying, can move the unprocessed estimate: no statement about
    noise, and none that somebody did.
    A mean that cannot be estimated is null; its interval is the whole range. Where reports tell how values
    are spread there are quantiles, the variance, and whether a flat `shape` can be excluded ("known"); `bins`
    holds each key's shares with a band that holds for all of them together, and the metadata the values that
    the shares stand for. Shares are smoothed (`bins_post` says how), intervals and bands are not. Where
    values beyond the range are counted apart, `below` and `above` are their shares, and means are of values
    that were moved a bin beyond its ends.
    """

    columns: dict[str, Any]
    metadata: dict[str, Any]
    distributions: Distribution | None = None
    """Of every key, on the scale [-1, 1]."""
    values: ValueSpread | None = field(default=None, repr=False)
    """How values are spread, with intervals, in the value's own unit."""
    wants_bins: bool = False
    """Whether the campaign is for distributions: then its CSV has them, too."""
    raw: Estimates | None = field(default=None, repr=False)
    """The unprocessed estimates behind the table, on the scale [-1, 1]."""
    scale: float = 1.0
    """Half the value's range: what 1 on that scale stands for."""
    middle: float = 0.0
    """The middle of the value's range: what 0 on that scale stands for."""

    def hostile_shift(self, share: float = HOSTILE_SHARE) -> dict[str, Any]:
        """How far `share` of all devices, lying, can move each key; in the value's own units.

        One array a key for `frequency_down`, `frequency_up`, `mean_down`, `mean_up`; NaN for a mean that is
        not linear in reports (it can be moved through its whole range), nothing where no bound is known.
        """
        if self.raw is None or self.raw.lever is None:
            return {}
        moved = self.raw.lever.shift(self.raw.frequency, self.raw.mean, share)
        return {
            "frequency_down": moved.frequency_down,
            "frequency_up": moved.frequency_up,
            "mean_down": self.scale * moved.mean_down,
            "mean_up": self.scale * moved.mean_up,
        }

    def rows(self) -> list[dict[str, Any]]:
        """The table as one dictionary a key; what is not finite becomes None."""
        rows = rows_of(self.columns)
        for name, shares in self._bins().items():
            for row, own in zip(rows, shares, strict=True):
                row[name] = [finite(share) for share in own]
        return rows

    def _bins(self) -> dict[str, Any]:
        """Every key's shares, and the ends of their band where there is one."""
        if self.values is not None:
            low, high = self.values.bands()
            return {"bins": self.values.distribution.shares, "bins_low": low, "bins_high": high}
        return {} if self.distributions is None else {"bins": self.distributions.shares}

    def quantile(self, key: str, q: float) -> Bounded:
        """The value below which a part q of a key's values lies, with its interval."""
        code, (low, high) = self._code(key), self.value_range
        if self.values is not None:
            return Bounded(*(float(end[0]) for end in self.values.quantile(q, np.array([code]))))
        if self.distributions is None:
            raise DomainError(f'"{self.metadata["mechanism"]}" does not tell how values are spread')
        found = float(self.distributions.quantile(q)[code])
        return Bounded(self.middle + self.scale * found, low, high)

    def distribution(self, key: str) -> KeyDistribution:
        """How a key's values are spread: shares in a band, drawn by `.plot()`."""
        code, bins = self._code(key), self._bins()
        median = self.quantile(key, 0.5)
        shares = bins["bins"][code]
        return KeyDistribution(
            name=self.columns.get("name", self.columns["key"])[code],
            marks=np.array(self.metadata["bins"]),
            shares=shares,
            low=bins["bins_low"][code] if "bins_low" in bins else np.zeros_like(shares),
            high=bins["bins_high"][code] if "bins_high" in bins else np.ones_like(shares),
            is_known=self.values is not None and bool(self.values.is_known()[code]),
            median=median,
            unit=self.metadata.get("unit"),
        )

    def _code(self, key: str) -> int:
        keys = self.columns["key"]
        if key not in keys:
            raise DomainError(f"the campaign has no key {str(key)[:80]!r}")
        return int(keys.index(key))

    def to_csv(self, *, bins: bool | None = None) -> str:
        """The table as CSV; names that a spreadsheet would run are quoted with an apostrophe.

        With `bins`, or in a campaign that is for distributions, each key's shares follow.
        """
        shown = self._bins() if (self.wants_bins if bins is None else bins) else {}
        names = [
            f"{name.replace('bins', 'bin')}_{place}" for name in shown for place in range(len(shown[name][0]))
        ]
        rows = [
            {name: row[name] for name in self.columns}
            | dict(zip(names, [share for name in shown for share in row[name]], strict=True))
            for row in self.rows()
        ]
        return csv_of([*self.columns, *names], rows)

    def top(self, count: int = 20) -> list[dict[str, Any]]:
        """The rows of the most frequent keys."""
        return sorted(self.rows(), key=lambda row: -row["frequency"])[:count]

    def plot(self, count: int = 20) -> Any:
        """A matplotlib figure: the most frequent keys and their means, with intervals (`analysis` extra)."""
        needed("matplotlib", "pip install 'keyveil[analysis]'")
        from keyveil.chart import draw

        return draw(self.top(count), value_range=self.value_range, unit=self.metadata.get("unit"))

    def heads(self) -> tuple[str, ...]:
        """What a table's columns are called: the key, and `cells_of` a row."""
        median = ("median, 95 % interval",) if "median" in self.columns else ()
        return "key", "people", "95 % interval", self.metadata.get("unit", "mean"), "95 % interval", *median

    @property
    def value_range(self) -> tuple[float, float]:
        """The range of the values, in their own unit."""
        return self.middle - self.scale, self.middle + self.scale

    def _repr_html_(self) -> str:
        """What a notebook shows: the most frequent keys with their intervals, and how they were made."""
        shown = self.top()
        heads = "".join(f"<th>{html.escape(head)}</th>" for head in self.heads())
        body = "".join(
            f"<tr><th scope=row>{html.escape(row.get('name', row['key']))}</th>"
            f"{''.join(f'<td>{cell}</td>' for cell in cells_of(row))}</tr>"
            for row in shown
        )
        about = self.metadata
        return (
            f"<table><caption>{html.escape(about['name'])}: the {len(shown)} most frequent of "
            f"{len(self.columns['key']):,} keys, from {about['users']:,} reports at epsilon "
            f"{about['epsilon_exact']:.4g} ({html.escape(about['mechanism'])})</caption><thead><tr>"
            f"{heads}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )


def release(
    campaign: Campaign,
    protocol: Protocol,
    tally: Tally,
    *,
    post: str = READABLE,
    quantiles: Sequence[float] = MEDIAN,
) -> Release:
    """The release of a one-round campaign's tally."""
    first = protocol.start(campaign.id)
    if tally.question != first.question:
        raise TallyError(f"expected a tally of campaign {campaign.id[:12]}, got one of {tally.question[:12]}")
    outcome = protocol.next([(first, tally)])
    if isinstance(outcome, Round):
        raise ProtocolError(
            f'"{campaign.mechanism}" goes on with round {outcome.number}; drive its protocol to the end'
        )
    return release_outcome(campaign, protocol, outcome, post=post, quantiles=quantiles)


def release_outcome(
    campaign: Campaign,
    protocol: Protocol,
    outcome: Outcome,
    *,
    post: str = READABLE,
    quantiles: Sequence[float] = MEDIAN,
) -> Release:
    """The release of what a protocol ended with; `post` as in simulations, `published` included."""
    exact = exact_epsilon(protocol)
    return release_found(campaign, outcome, epsilon_exact=exact, post=post, quantiles=quantiles)


def exact_epsilon(protocol: Protocol) -> float:
    """What all rounds of a protocol cost together, by their own integers; rounded up."""
    return epsilon_above(total_loss(protocol.stages()))


def release_found(
    campaign: Campaign,
    outcome: Outcome,
    *,
    epsilon_exact: float,
    post: str = READABLE,
    quantiles: Sequence[float] = MEDIAN,
) -> Release:
    """The release of an outcome whose protocol need not be built again.

    Where segments are private its rows are the totals: sums over segments, without distributions.
    """
    asked, crossing = campaign, campaign.domain.crossing
    if isinstance(crossing, Labelled):
        total = of_all(outcome.raw, crossing)
        campaign = campaign.by_key
        outcome = replace(outcome, raw=total, published=total, spread=None, distribution=None)
    shaped = outcome.published if post == PUBLISHED else step(post, also=(PUBLISHED,))(outcome.raw)
    low, high = campaign.domain.reach
    names = campaign.domain.names if outcome.found is None else outcome.found.keys
    values = ValueSpread.of(
        outcome.spread, outcome.distribution, outcome.raw, (low, high), inside=READABLE in shaped.steps
    )
    return Release(
        columns=_columns(campaign, names, outcome.raw, shaped)
        | _found_columns(outcome)
        | _value_columns(values, quantiles)
        | _beyond_columns(campaign.domain, values),
        distributions=outcome.distribution,
        values=values,
        wants_bins=campaign.want == "distribution" or find_method(campaign.mechanism)[0].gives_distribution,
        raw=outcome.raw,
        scale=(high - low) / 2,
        middle=(high + low) / 2,
        metadata={
            "campaign": asked.id,
            "name": campaign.name,
            **({} if campaign.unit is None else {"unit": campaign.unit}),
            "mechanism": campaign.mechanism,
            "epsilon": campaign.epsilon,
            "epsilon_exact": epsilon_exact,
            "users": outcome.raw.n_reports,
            "rounds": outcome.rounds,
            "confidence": CONFIDENCE,
            "hostile_share": HOSTILE_SHARE,
            "post": list(shaped.steps),
            "notes": [*outcome.notes, *_told(asked)],
            **_bin_metadata(campaign.domain, outcome.distribution, values),
            **_found_metadata(campaign, outcome),
            **({"beyond": list(campaign.domain.value_range)} if campaign.beyond else {}),
        },
    )


def _told(campaign: Campaign) -> list[str]:
    """What reports said without noise, or what hiding it cost, for whoever reads what they came to."""
    if campaign.segments is None:
        return []
    if isinstance(campaign.domain.crossing, Labelled):
        parts, hidden = len(campaign.domain.crossing.labels), ", ".join(campaign.segments.names)
        return [
            f"labels of {hidden} are private: numbers of everybody are sums over {parts} segments, about "
            f"{math.sqrt(parts):.1f} times as noisy as without segments"
        ]
    return [f"every report says {', '.join(campaign.segments.names)} in the clear: these are not private"]


def _bin_metadata(
    domain: Domain, distribution: Distribution | None, values: ValueSpread | None
) -> dict[str, Any]:
    """The values that shares stand for, and what was done to the shares."""
    if values is not None:
        return {"bins": values.marks().tolist(), "bins_post": list(values.distribution.steps)}
    if distribution is None:
        return {}
    return {"bins": [domain.from_unit(float(point)) for point in distribution.points]}


def _value_columns(values: ValueSpread | None, quantiles: Sequence[float]) -> dict[str, Any]:
    """Quantiles and the variance, each with its interval, and whether a key's shape is known."""
    if values is None:
        return {}
    columns: dict[str, Any] = {}
    wanted = {quantile_name(q): values.quantile(q) for q in dict.fromkeys(quantiles)}
    for name, found in (*wanted.items(), ("variance", values.variance())):
        columns |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    return columns | {"shape": [KNOWN if known else UNKNOWN for known in values.is_known()]}


def _beyond_columns(domain: Domain, values: ValueSpread | None) -> dict[str, Any]:
    """Which part of a key's values lies below the range and above it, where those are counted apart."""
    if values is None or not domain.beyond:
        return {}
    ends = zip(("below", "above"), values.at_ends(), strict=True)
    return {
        f"{name}{of}": column
        for name, found in ends
        for of, column in (("", found.value), ("_low", found.low), ("_high", found.high))
    }


def quantile_name(q: float) -> str:
    """The column of a quantile.

    >>> quantile_name(0.5), quantile_name(0.9), quantile_name(0.025)
    ('median', 'q90', 'q2.5')
    """
    return "median" if q == MEDIAN[0] else f"q{100 * q:g}"


def _found_columns(outcome: Outcome) -> dict[str, Any]:
    """Where nobody listed the keys: which share of those at least as sure as each is false, at most."""
    return {} if outcome.found is None else {"false_share": outcome.found.false_share}


def _found_metadata(campaign: Campaign, outcome: Outcome) -> dict[str, Any]:
    """What would have been found, what did not complete, and what the operator left out."""
    if outcome.found is None:
        return {}
    found = outcome.found
    return {
        "detectable": found.detectable,
        "unfinished": list(found.unfinished),
        "block": list(campaign.block),
        "minimum": campaign.minimum,
    }


def _columns(campaign: Campaign, names: Sequence[str], raw: Estimates, shaped: Estimates) -> dict[str, Any]:
    low, high = campaign.domain.reach
    scale = (high - low) / 2
    middle = (high + low) / 2
    # Where a key's signs share all buckets a mean is a made-up middle.
    has_means = raw.moments is None or np.isfinite(raw.moments.signed_noise)
    mean, raw_mean = (each.mean if has_means else np.full_like(each.mean, np.nan) for each in (shaped, raw))
    frequency_low, frequency_high = raw.frequency_interval()
    if READABLE in shaped.steps:
        frequency_low, frequency_high = np.clip(frequency_low, 0.0, 1.0), np.clip(frequency_high, 0.0, 1.0)
    mean_low, mean_high = raw.mean_interval()
    numbers = {
        "frequency": shaped.frequency,
        "frequency_se": raw.frequency_se,
        "frequency_low": frequency_low,
        "frequency_high": frequency_high,
        "mean": middle + scale * mean,
        "mean_se": scale * raw.mean_se,
        "mean_low": middle + scale * mean_low,
        "mean_high": middle + scale * mean_high,
    }
    if raw.lever is not None:
        moved = raw.lever.shift(raw.frequency, raw.mean, HOSTILE_SHARE)
        numbers |= {"frequency_hostile": moved.frequency, "mean_hostile": scale * moved.mean}
    if shaped.steps != raw.steps:
        numbers |= {"frequency_raw": raw.frequency, "mean_raw": middle + scale * raw_mean}
    if shaped.frequency_top is not None:
        numbers["frequency_top"] = shaped.frequency_top
    words = {"key": list(names)}
    if campaign.names is not None:
        words["name"] = list(campaign.display_names)
    return {**words, **{name: np.asarray(column) for name, column in numbers.items()}}


def cells_of(row: dict[str, Any]) -> tuple[str, ...]:
    """What a table shows of a key: how many hold it, how much, each with its interval; "?" is not known.

    Behind them the median with its interval, where there is one.

    >>> row = {"frequency": 0.25, "frequency_low": 0.2, "frequency_high": None, "mean": None}
    >>> cells_of(row | {"mean_low": 0.0, "mean_high": 60.0})
    ('25.0 %', '20.0 .. ?', '?', '0 .. 60')
    >>> row |= {"mean_low": 0.0, "mean_high": 60.0, "median": 9.5, "median_low": 8.0, "median_high": 11.0}
    >>> cells_of(row)[4]
    '9.5 (8 .. 11)'
    """

    def share(name: str) -> str:
        return "?" if row[name] is None else f"{100 * row[name]:.1f}"

    def value(name: str) -> str:
        return "?" if row[name] is None else f"{row[name]:.4g}"

    median = f"{value('median')} ({value('median_low')} .. {value('median_high')})" if "median" in row else ""
    return (
        f"{share('frequency')} %",
        f"{share('frequency_low')} .. {share('frequency_high')}",
        value("mean"),
        f"{value('mean_low')} .. {value('mean_high')}",
        *([median] if median else []),
    )
