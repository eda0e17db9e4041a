"""What was found beside what is true: a chart for somebody who tried keyveil on their own data."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from keyveil.cli.crowd import asked_about
from keyveil.cli.files import write_text
from keyveil.palette import COLOURS

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.simulate.population import Population

_CHARTED = 20
_LONGEST_LABEL = 28
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
svg { max-width: 100%; height: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #ddd; }
th:first-child, td:first-child { text-align: left; }
.out { font-weight: 600; }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """A key's numbers and their truth, in the values' own unit; None where nobody holds the key."""

    key: str
    frequency: float
    frequency_low: float
    frequency_high: float
    true_frequency: float
    mean: float | None
    mean_low: float
    mean_high: float
    true_mean: float | None

    @property
    def is_covered(self) -> bool:
        """Whether the interval of the frequency holds the truth."""
        return self.frequency_low <= self.true_frequency <= self.frequency_high


def beside_truth(rows: Sequence[dict[str, Any]], campaign: Campaign, people: Population) -> list[Beside]:
    """The rows of a release beside what holds of the people, the most frequent first."""
    asked, _ = asked_about(campaign, people)
    shares, means = asked.frequency(), asked.mean()
    found = [
        Beside(
            key=row.get("name", row["key"]),
            frequency=row["frequency"],
            frequency_low=row["frequency_low"],
            frequency_high=row["frequency_high"],
            true_frequency=float(share),
            mean=row["mean"],
            mean_low=row["mean_low"],
            mean_high=row["mean_high"],
            true_mean=None if np.isnan(mean) else campaign.domain.from_unit(float(mean)),
        )
        for row, share, mean in zip(rows, shares, means, strict=True)
    ]
    return sorted(found, key=lambda row: -row.frequency)


def write_page(
    path: Path, rows: Sequence[Beside], campaign: Campaign, metadata: dict[str, Any], words: Sequence[str]
) -> None:
    """One HTML file that needs nothing else: what was done, the chart, the table."""
    name = html.escape(campaign.name)
    said = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in words)
    body = "".join(_row(row) for row in rows)
    heads = ("key", "people", "95 % interval", "truth", "mean", "95 % interval", "truth")
    columns = "".join(f"<th scope=col>{head}</th>" for head in heads)
    covered = sum(row.is_covered for row in rows)
    write_text(
        path,
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{name}: found and true</title>"
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style>"
        f"<h1>{name}: what was found, beside the truth</h1>"
        f"<p>{metadata['users']:,} reports, each noised on its own ({html.escape(metadata['mechanism'])}, "
        f"epsilon {metadata['epsilon_exact']:.4g}). Dots are estimates, bars their 95 % intervals, ticks the "
        "truth, which is known because the data is yours: no collector ever sees it. "
        f"{covered:,} of {len(rows):,} intervals of frequencies hold the truth.</p>"
        f"{_chart(rows[:_CHARTED], campaign)}"
        f"<h2>How it was read</h2><ul>{said}</ul>"
        f"<h2>All keys</h2><table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table></html>\n",
    )


def _row(row: Beside) -> str:
    cells = (
        f"{100 * row.frequency:.2f} %",
        f"{100 * row.frequency_low:.2f} .. {100 * row.frequency_high:.2f}",
        f"{100 * row.true_frequency:.2f} %",
        "" if row.mean is None else f"{row.mean:.4g}",
        f"{row.mean_low:.4g} .. {row.mean_high:.4g}",
        "" if row.true_mean is None else f"{row.true_mean:.4g}",
    )
    mark = "" if row.is_covered else " class=out"
    return f"<tr{mark}><td>{html.escape(row.key)}</td>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _chart(rows: Sequence[Beside], campaign: Campaign) -> str:
    """Frequencies on the left, means on the right, as SVG."""
    figure = Figure(figsize=(11, 1.2 + 0.32 * len(rows)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(rows))[::-1]
    _bars(
        left,
        places,
        [(100 * row.frequency, 100 * row.frequency_low, 100 * row.frequency_high) for row in rows],
        [100 * row.true_frequency for row in rows],
    )
    known = [at for at, row in enumerate(rows) if row.mean is not None]
    _bars(
        right,
        places[known],
        [(rows[at].mean or 0.0, rows[at].mean_low, rows[at].mean_high) for at in known],
        [np.nan if (mean := rows[at].true_mean) is None else mean for at in known],
    )
    left.set_yticks(places, [_label(row.key) for row in rows])
    left.set(xlabel="% of people", title="How many hold it")
    right.set(
        xlabel=campaign.unit or "mean value",
        title="How much, among those who do",
        xlim=campaign.domain.value_range,
    )
    for axes in (left, right):
        axes.grid(axis="x", alpha=0.3)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(left=False)
    left.legend(frameon=False, fontsize=8, loc="lower right")
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "keyveil", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    drawn = out.getvalue()
    label = "Frequencies and means with 95 % intervals beside the truth; the table below has the numbers"
    return drawn[drawn.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _bars(
    axes: Any, places: Any, found: Sequence[tuple[float, float, float]], truth: Sequence[float]
) -> None:
    if not found:
        return
    middle, low, high = np.array(found).T
    axes.hlines(places, low, high, color=COLOURS[0], alpha=0.4, linewidth=5, label="95 % interval")
    axes.plot(middle, places, "o", color=COLOURS[0], markersize=5, label="found")
    axes.plot(truth, places, "|", color=COLOURS[1], markersize=13, markeredgewidth=2.5, label="truth")


def _label(key: str) -> str:
    """A key's name, cut in the middle so that both ends are seen; a dollar sign is no formula."""
    short = key if len(key) <= _LONGEST_LABEL else f"{key[:16]}…{key[-11:]}"
    return short.replace("$", r"\$")
