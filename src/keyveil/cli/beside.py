"""What was found beside what is true: a chart for somebody who tried keyveil on their own data."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from keyveil.chart import draw
from keyveil.cli.crowd import as_crossed, asked_about
from keyveil.cli.files import write_text
from keyveil.release import cells_of

if TYPE_CHECKING:
    from keyveil.campaign import Campaign
    from keyveil.simulate.population import Population

COLUMNS = ("key", "people", "95 % interval", "truth", "mean", "95 % interval", "truth")
_CHARTED = 20
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

    def cells(self) -> tuple[str, ...]:
        """What a table shows behind the key, in the order of `COLUMNS`."""
        frequency, between, mean, mean_between = cells_of(asdict(self))
        true_mean = "" if self.true_mean is None else f"{self.true_mean:.4g}"
        return frequency, between, f"{100 * self.true_frequency:.1f} %", mean, mean_between, true_mean

    @property
    def is_covered(self) -> bool:
        """Whether the interval of the frequency holds the truth."""
        return self.frequency_low <= self.true_frequency <= self.frequency_high


def beside_truth(rows: Sequence[dict[str, Any]], campaign: Campaign, people: Population) -> list[Beside]:
    """The rows of a release beside what holds of the people, the most frequent first."""
    asked, _ = asked_about(campaign, people)
    if campaign.segments is None or campaign.segments.is_clear:
        asked = as_crossed(campaign, asked)
    shares, means = asked.frequency(), asked.mean()
    found = [
        Beside(
            key=row.get("name", row["key"]),
            frequency=row["frequency"],
            # Where nothing is known of a key, it may be anything.
            frequency_low=0.0 if row["frequency_low"] is None else row["frequency_low"],
            frequency_high=1.0 if row["frequency_high"] is None else row["frequency_high"],
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
    columns = "".join(f"<th scope=col>{head}</th>" for head in COLUMNS)
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
    mark = "" if row.is_covered else " class=out"
    cells = "".join(f"<td>{cell}</td>" for cell in row.cells())
    return f"<tr{mark}><td>{html.escape(row.key)}</td>{cells}</tr>"


def _chart(rows: Sequence[Beside], campaign: Campaign) -> str:
    """The chart as SVG."""
    low, high = campaign.domain.reach
    figure = draw(
        [asdict(row) for row in rows],
        value_range=(low, high),
        unit=campaign.unit,
        truth=[(row.true_frequency, row.true_mean) for row in rows],
    )
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "keyveil", "svg.fonttype": "none"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    drawn = out.getvalue()
    label = "Frequencies and means with 95 % intervals beside the truth; the table below has the numbers"
    return drawn[drawn.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
