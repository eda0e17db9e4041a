"""Draw docs/demo.svg, the README's picture, from a real run of the demo's path.

python scripts/readme_picture.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from keyveil.cli.demo import app_campaign
from keyveil.client import Reporter
from keyveil.simulate.apps import app_minutes

PICTURE = Path(__file__).resolve().parent.parent / "docs" / "demo.svg"
SHOWN = 14


def main() -> None:
    """Ten thousand reports by the real client, their release, and the truth nobody collected."""
    campaign, people = app_campaign(), app_minutes()
    reporter = Reporter(campaign)
    release = campaign.estimate(campaign.tally(reporter.report(held) for held in people), post="clip")
    rows = sorted(release.rows(), key=lambda row: row["frequency"])[-SHOWN:]
    figure = Figure(figsize=(8.4, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    places = range(len(rows))
    for axes, column, scale in ((left, "frequency", 100), (right, "mean", 1)):
        middle = [row[column] * scale for row in rows]
        low = [m - row[f"{column}_low"] * scale for m, row in zip(middle, rows, strict=True)]
        high = [row[f"{column}_high"] * scale - m for m, row in zip(middle, rows, strict=True)]
        reach = [[max(x, 0) for x in low], [max(x, 0) for x in high]]
        axes.errorbar(middle, places, xerr=reach, fmt="o", color="#0072B2", capsize=3, label="released, 95 %")
        axes.grid(axis="x", alpha=0.3)
        axes.set_xlim(left=0)
    for place, row in zip(places, rows, strict=True):
        minutes = [held[row["key"]] for held in people if row["key"] in held]
        left.plot(100 * len(minutes) / len(people), place, "|", color="#D55E00", ms=14, mew=2)
        right.plot(sum(minutes) / len(minutes), place, "|", color="#D55E00", ms=14, mew=2)
    left.plot([], [], "|", color="#D55E00", ms=14, mew=2, label="truth (never collected)")
    left.set_yticks(places, [row["key"] for row in rows])
    left.set_xlabel("% of people who use it")
    right.set_xlabel("minutes a day among them")
    left.legend(loc="lower right", frameon=False)
    figure.suptitle(
        f"10,000 people, 50 apps, one 1-byte answer each, epsilon = {campaign.epsilon:g}", fontsize=10
    )
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "keyveil"}):
        figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
