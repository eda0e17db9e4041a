"""Draw the documentation's figures from committed results: docs/images/*.svg.

    python scripts/figures.py            writes them; a test says when they are out of date

Small, and the same bytes from the same results: drawn by hand, so that no plotting library's version shows.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from keyveil.palette import COLOURS

ROOT = Path(__file__).resolve().parent.parent
RESULTS, FOLDER = ROOT / "bench" / "results", ROOT / "docs" / "images"
WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 70, 150, 34, 48
# One population that is neither the kindest nor the hardest, and is made by this repository itself.
POPULATION = "synthetic"
SHOWN = ("ue-sw", "ks-ue", "pckv-ue", "pckv-grr", "kvue", "privkv")


@dataclass(frozen=True)
class Line:
    """One curve."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axis:
    """One side: its title, its ends and the places that are named."""

    title: str
    low: float
    high: float
    marks: Sequence[tuple[float, str]]
    log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies, from 0 to 1."""
        low, high, here = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        return (here - low) / (high - low)


def files() -> dict[str, str]:
    """Every figure and its text."""
    return {"averaging.svg": averaging(), "frequency_errors.svg": frequency_errors()}


def averaging() -> str:
    """How often an observer is right, day by day."""
    found = json.loads((RESULTS / "averaging.json").read_text(encoding="utf-8"))
    lines = [
        Line(name, [(float(day), share) for day, share in found[kind].items()])
        for name, kind in (("fresh noise every day", "fresh"), ("with a ledger", "memoised"))
    ]
    bound = found["bound"]
    lines.append(Line("one report's bound", [(1, bound), (365, bound)]))
    return _svg(
        f"How often an observer is right about one person (epsilon {found['epsilon']:g} a day)",
        Axis("days of questions", 1, 365, [(d, str(d)) for d in (1, 5, 10, 30, 90, 365)], log=True),
        Axis("right", 0.5, 1.0, [(s / 100, f"{s} %") for s in (50, 60, 70, 80, 90, 100)]),
        lines,
    )


def frequency_errors() -> str:
    """Mean squared errors of frequencies against epsilon, each method at its best length."""
    best: dict[tuple[str, float], float] = {}
    with (RESULTS / "accuracy.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            name, epsilon = row["mechanism"].split()[0], float(row["epsilon"])
            if row["population"] == POPULATION and row["post"] == "published" and name in SHOWN:
                error = float(row["frequency_mse"])
                best[name, epsilon] = min(error, best.get((name, epsilon), math.inf))
    lines = [
        Line(name, sorted((epsilon, error) for (of, epsilon), error in best.items() if of == name))
        for name in SHOWN
    ]
    lines = [line for line in lines if line.points]
    errors = [error for line in lines for _, error in line.points]
    low, high = math.floor(math.log10(min(errors))), math.ceil(math.log10(max(errors)))
    return _svg(
        f"Mean squared error of frequencies, population {POPULATION}, best padding length",
        Axis("epsilon", 0.5, 4, [(e, f"{e:g}") for e in (0.5, 1, 2, 3, 4)], log=True),
        Axis("MSE", 10.0**low, 10.0**high, [(10.0**k, f"1e{k}") for k in range(low, high + 1)], log=True),
        lines,
    )


def _svg(title: str, across: Axis, up: Axis, lines: Sequence[Line]) -> str:
    wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(value: float) -> str:
        return f"{LEFT + wide * across.place(value):.1f}"

    def y(value: float) -> str:
        return f"{TOP + high * (1 - up.place(value)):.1f}"

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
        f'font-size="12" role="img" aria-label="{title}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="20" font-size="13">{title}</text>',
    ]
    for value, name in up.marks:
        parts.append(f'<path d="M{LEFT} {y(value)}h{wide}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(value)}" dy="4" text-anchor="end">{name}</text>')
    for value, name in across.marks:
        parts.append(f'<text x="{x(value)}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{name}</text>')
    parts.append(
        f'<text x="{LEFT + wide / 2:.0f}" y="{HEIGHT - 10}" text-anchor="middle">{across.title}</text>'
    )
    parts.append(
        f'<text transform="translate(16 {TOP + high // 2}) rotate(-90)" '
        f'text-anchor="middle">{up.title}</text>'
    )
    ends = _apart([(float(y(line.points[-1][1])), place) for place, line in enumerate(lines)])
    for place, line in enumerate(lines):
        colour = COLOURS[place % len(COLOURS)]
        path = " ".join(f"{x(a)},{y(b)}" for a, b in line.points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x(a)}" cy="{y(b)}" r="3" fill="{colour}"/>' for a, b in line.points]
        parts.append(
            f'<text x="{WIDTH - RIGHT + 10}" y="{ends[place]:.1f}" dy="4" fill="{colour}">{line.name}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _apart(ends: Sequence[tuple[float, int]], gap: float = 15) -> dict[int, float]:
    """Heights of names beside the ends of their curves, moved down where two would overlap."""
    heights: dict[int, float] = {}
    last = -math.inf
    for height, place in sorted(ends):
        last = heights[place] = max(height, last + gap)
    return heights


def main() -> None:
    """Write what is out of date."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
