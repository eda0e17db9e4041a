"""Tables of the documentation, made from the code's own tables and from committed results.

No number on a page about measurements is typed by hand: it is read here, from `bench/results`.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import javascript_types
import numpy as np

from keyveil.collector.problems import CATALOGUE, REPORT_CODES
from keyveil.errors import Refusal
from keyveil.estimate import HOSTILE_SHARE, lever
from keyveil.methods import METHODS, has_several_rounds, mechanism_of
from keyveil.numerics import epsilon_above
from keyveil.protocols import build_protocol

RESULTS = Path(__file__).resolve().parent.parent / "bench" / "results"
PACKAGES = RESULTS.parents[1] / "package.json"
SOURCES = (
    *sorted(path for path in RESULTS.iterdir() if path.suffix in (".csv", ".json")),
    *javascript_types.FILES,
    PACKAGES,
)
EPSILONS = (0.5, 1.0, 2.0, 4.0)
OURS = ("auto", "bucket")
# The crowd of the kernel's table: small enough to read, long enough that padding shows.
KEYS, PAIRS = 100, 3

# A key that one user in a hundred holds, with values around the middle: its frequency and its mean.
HELD = np.array([0.01]), np.zeros(1)

# Refusals of a batch as a whole; the collector answers them all with `bad-batch`.
_OF_BATCHES: Mapping[str, str] = MappingProxyType(
    {
        Refusal.TRUNCATED_FRAME.value: "the batch ends within a frame",
        Refusal.FRAME_TOO_LARGE.value: "a frame claims to be longer than any report",
        Refusal.TOO_MANY_REPORTS.value: "the batch holds more reports than one batch may",
    }
)


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file of results."""
    with (RESULTS / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def load(name: str) -> Any:
    """A JSON file of results."""
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as Markdown; a bar within a cell is escaped.

    >>> print(table(("a", "b"), [(1, 2)]))
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    cells = ([str(cell).replace("|", "\\|") for cell in line] for line in lines)
    out = [f"| {' | '.join(line)} |" for line in cells]
    return "\n".join([out[0], out[1].replace(" ", ""), *out[2:]])


def measured(method: str) -> str:
    """A method's errors on every population of bench/results, beside the best of the papers there."""
    if method == "auto":
        return _gains()
    best: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows_of("accuracy.csv"):
        if row["mechanism"].split()[0] != method or row["post"] != "published":
            continue
        cell = row["population"], row["epsilon"]
        if cell not in best or float(row["frequency_mse"]) < float(best[cell]["frequency_mse"]):
            best[cell] = row
    parts = []
    if best:
        parts.append(_accuracy(best))
    parts += [part for part in (_theory(method), _variance(method), _covered(method)) if part]
    return "\n\n".join(parts) or f"`{method}` has no rows in `bench/results`."


def _accuracy(best: Mapping[tuple[str, str], Mapping[str, str]]) -> str:
    leaders: dict[tuple[str, str], float] = defaultdict(lambda: float("inf"))
    for row in rows_of("accuracy.csv"):
        if row["mechanism"].split()[0] in OURS or row["post"] != "published":
            continue
        cell = row["population"], row["epsilon"]
        leaders[cell] = min(leaders[cell], float(row["frequency_mse"]))
    rows = [
        (
            population,
            epsilon,
            row["length"],
            _pair(row, "frequency_mse"),
            f"{float(row['frequency_mse']) / leaders[population, epsilon]:.3g}",
            _pair(row, "mean_mse"),
        )
        for (population, epsilon), row in best.items()
        if float(epsilon) in EPSILONS
    ]
    head = ("population", "epsilon", "l", "frequency MSE", "times the papers' best", "mean MSE, on [-1, 1]")
    return (
        "From `bench/results/accuracy.csv`, with the published post-processing: mean squared errors over all "
        "keys, with the standard error of the mean over repeats, at the padding length l that serves this "
        "method's frequencies best.\n\n" + table(head, rows)
    )


def _pair(row: Mapping[str, str], column: str) -> str:
    return f"{float(row[column]):.3g} ± {float(row[column + '_se']):.1g}"


def _theory(method: str) -> str:
    rows = [row for row in load("theory.json") if row["mechanism"] == method]
    if not rows:
        return ""
    head = ("epsilon", "l", "variance measured / promised", "bias in standard errors")
    return (
        f"From `bench/results/theory.json`: {rows[0]['users']:,} users, {rows[0]['keys']} keys, the variance "
        "measured over repeats against the formula.\n\n"
        + table(
            head,
            (
                (
                    f"{row['epsilon']:g}",
                    row["pairs_per_user"],
                    f"{row['variance_ratio']:.3f} ± {row['variance_ratio_se']:.2g}",
                    f"{row['bias_in_standard_errors']:.2f}",
                )
                for row in rows
            ),
        )
    )


def _variance(method: str) -> str:
    rows = [row for row in load("variance.json") if row["mechanism"] == method]
    if not rows:
        return ""
    head = ("epsilon", "error measured", "error promised", "times that of `bucket`")
    return (
        "From `bench/results/variance.json`: one crowd of long records for all (see `bench/variance.py`)."
        "\n\n"
        + table(
            head,
            (
                (
                    f"{row['epsilon']:g}",
                    f"{row['measured']:.4g} ± {row['measured_se']:.1g}",
                    f"{row['promised']:.4g}",
                    f"{row['times_bucket']:g}",
                )
                for row in rows
            ),
        )
    )


def _covered(method: str) -> str:
    rows = [row for row in rows_of("coverage.csv") if row["method"].split()[0] == method]
    if not rows:
        return ""
    head = ("method", "epsilon", "popularity", "frequent keys", "rare keys", "means of frequent keys")
    return (
        "From `bench/results/coverage.csv`: how often an interval of 95 % holds the truth, over 2,000 "
        "collections from 20,000 users (see `bench/intervals.py`).\n\n"
        + table(
            head,
            (
                (
                    f"`{row['method']}`",
                    row["epsilon"],
                    row["popularity"],
                    *(f"{float(row[group]):.1%}" for group in ("frequent", "rare")),
                    f"{float(row['frequent_mean']):.1%}" if float(row["frequent_mean_known"]) else "-",
                )
                for row in rows
            ),
        )
    )


def one_pair() -> str:
    """Errors of keys alone at one pair a user, over those of subset selection."""
    rows = load("one_pair.json")
    names = tuple(dict.fromkeys(row["mechanism"] for row in rows if row["mechanism"] != "subset"))
    found = {(row["keys"], row["epsilon"], row["mechanism"]): row for row in rows}
    return table(
        ("keys", "epsilon", *(f"`{name}`" for name in names)),
        (
            (keys, f"{epsilon:g}", *(f"{found[keys, epsilon, name]['times_subset']:g}" for name in names))
            for keys, epsilon in dict.fromkeys((row["keys"], row["epsilon"]) for row in rows)
        ),
    )


def coverage() -> str:
    """How often every method's intervals hold the truth: the least and the most over all settings."""
    cells: dict[str, list[dict[str, str]]] = defaultdict(list)
    for row in rows_of("coverage.csv"):
        cells[row["method"]].append(row)

    def spread(rows: list[dict[str, str]], column: str) -> str:
        shares = [100 * float(row[column]) for row in rows if float(row.get(f"{column}_known", 1))]
        return f"{min(shares):.1f} to {max(shares):.1f}" if shares else "-"

    columns = ("frequent", "rare", "frequent_mean", "rare_mean")
    head = ("method", "frequent keys", "rare keys", "their means, frequent", "rare")
    return table(
        head,
        ((f"`{name}`", *(spread(rows, column) for column in columns)) for name, rows in cells.items()),
    )


def long_records() -> str:
    """How often intervals of `auto` hold where records are cut, beside those that noise alone would give."""
    columns = ("top_whole", "all_whole", "top_cut", "all_cut")
    head = ("people", "epsilon", "top 50 keys", "all keys", "noise alone: top 50", "all keys")
    return table(
        head,
        (
            (f"`{row['population']}`", row["epsilon"], *(f"{100 * float(row[name]):.0f}" for name in columns))
            for row in rows_of("long_records.csv")
        ),
    )


def tuning() -> str:
    """What every tuned number of `auto` changes, halved and doubled, where it changes most for its noise."""
    rows: dict[tuple[str, str], dict[str, list[dict[str, str]]]] = {}
    for row in rows_of("tuning.csv"):
        halves = rows.setdefault((row["number"], row["is"]), {"halved": [], "doubled": []})
        halves[row["tried"]].append(row)
    head = ("number", "is", *(f"{tried}: {what}" for tried in ("halved", "doubled") for what in _TUNED))
    return table(
        head,
        (
            (
                f"`{number}`",
                value,
                *(_clearest(halves[tried], *figures) for tried in halves for figures in _TUNED.values()),
            )
            for (number, value), halves in rows.items()
        ),
    )


# What a row says of errors, as a multiple of what they were, and of intervals, in percentage points more.
_TUNED: Mapping[str, tuple[str, float]] = MappingProxyType(
    {"frequencies": ("frequency_top", 1.0), "means": ("mean", 1.0), "covered": ("frequency_covered", 0.0)}
)


def _clearest(rows: list[dict[str, str]], figure: str, same: float) -> str:
    """The change that stands out most from its standard error, and whose it is."""

    def clear(row: dict[str, str]) -> float:
        off, error = abs(float(row[figure]) - same), float(row[f"{figure}_se"])
        return off / error if error else 0.0

    # An error of two collections says little: they speak where nobody else does.
    often = [row for row in rows if int(row["repeats"]) >= 4 and clear(row)]
    row = max(often or rows, key=clear)
    if not clear(row):
        return "same"
    sign = "+" if same == 0 else ""
    return f"{float(row[figure]):{sign}.3g} ± {float(row[f'{figure}_se']):.1g}, {row['people']}"


def hostile() -> str:
    """How far hostile devices move a key, for every method of one round; where ids are given out as well."""
    rows = []
    for name in METHODS:
        if has_several_rounds(name) or mechanism_of(name) != name:
            continue
        mechanism = build_protocol(name, 1.0, n_keys=KEYS).start("docs").mechanism
        chosen, given = (
            float(lever(asked).shift(*HELD, HOSTILE_SHARE).frequency_up[0])
            for asked in (mechanism, mechanism.with_issued_ids())
        )
        rows.append((f"`{name}`", chosen, f"{given:.2g}" if given < chosen else "-"))
    rows.sort(key=lambda row: row[1])
    head = ("mechanism", "moved by", "with ids given out")
    return table(head, ((name, f"{chosen:.2g}", given) for name, chosen, given in rows))


def attacks() -> str:
    """What an honest sender keeps beside every attack, and beside all at once."""
    parts = []
    for store, found in load("attacks.json").items():
        everything, grown = found["all at once"], found["memory"]
        rows = [
            (
                name,
                f"{one['share']:.2f}",
                f"{one['p99_ms']:.0f}",
                f"{one['alone_p99_ms']:.0f}",
                f"{sum(one['asked'].values()):,}",
            )
            for name, one in {**found["attacks"], "all at once": everything}.items()
        ]
        parts += [
            f"{store}: alone about {everything['alone_per_s']:,} reports a second over 16 connections. After "
            f"{grown['requests']:,} hostile requests the process was {grown['mb_grown']:.0f} MB larger.",
            table(("attack", "rate, of alone", "p99, ms", "alone, ms", "hostile requests meanwhile"), rows),
        ]
    return "\n\n".join(parts)


def _gains() -> str:
    names = {
        "frequency_mse": "frequency, all keys",
        "frequency_mse_top": "frequency, top keys",
        "mean_mse": "mean, all keys",
        "mean_mse_top": "mean, top keys",
    }
    rows = [
        (
            row["population"],
            row["epsilon"],
            names[row["figure"]],
            f"`{row['best_paper']}`",
            f"{float(row['paper']):.3g}",
            f"{float(row['ours']):.3g}",
            f"{float(row['gain']):.3g} ± {float(row['gain_se']):.1g}",
        )
        for row in rows_of("accuracy_gains.csv")
        if float(row["epsilon"]) in EPSILONS and row["figure"] in names
    ]
    head = ("population", "epsilon", "of what", "best of the papers", "its MSE", "ours", "times less")
    return (
        "From `bench/results/accuracy_gains.csv`: `auto` against the best method of the papers, chosen for "
        "each row after the fact. A number below 1 is a loss.\n\n" + table(head, rows)
    )


def kernel(method: str) -> str:
    """What a method's first round tells about one key, at four budgets, read off its integers."""
    rows = []
    for epsilon in EPSILONS:
        opening = build_protocol(method, epsilon, n_keys=KEYS, pairs_per_user=PAIRS).start("docs")
        mechanism = opening.mechanism
        rows.append(
            (
                f"{epsilon:g}",
                f"{float(mechanism.a):.6f}",
                f"{float(mechanism.b):.6f}",
                f"{epsilon_above(mechanism.loss):.6f}",
                mechanism.layout.n_bytes,
            )
        )
    head = ("epsilon", "a, if sampled", "b, if not", "exact epsilon", "bytes of an answer")
    which = f"the first round of `{method}`" if has_several_rounds(method) else f"`{method}`"
    return (
        f"Computed from the code's integers of {which} for {KEYS} keys and l = {PAIRS}: the chance that a "
        "report speaks for a key, and the loss.\n\n" + table(head, rows)
    )


def methods() -> str:
    """Every method a campaign can name."""
    pages = page_of_methods()
    rows = [
        (
            f"[`{name}`]({pages[name]}.md)",
            method.what,
            ", ".join(f"`{allocation}`" for allocation in method.allocations) or "-",
            "yes" if method.gives_distribution else "-",
        )
        for name, method in METHODS.items()
    ]
    return table(("id", "what it does", "allocations, default first", "distributions"), rows)


def page_of_methods() -> dict[str, str]:
    """Which page of docs/mechanisms tells a method's story."""
    families = {
        "privkv": ("privkv", "privkv-em", "privkv-mle"),
        "privkvm": ("privkvm", "privkvm-plus", "privkvm-virtual"),
        "baselines": ("krr-harmony", "rappor-harmony", "oue-harmony"),
        "oracles": ("grr", "oue", "olh", "subset"),
    }
    homes = {name: page for page, names in families.items() for name in names}
    return {name: homes.get(name, name) for name in METHODS}


def error_catalogue() -> str:
    """Every refusal: of a request, of one report, of a batch."""
    requests = table(
        ("code", "status", "what happened", "what to do"),
        (
            (f"`{code}`", entry.status, f"**{entry.title}.** {entry.meaning}", entry.remedy)
            for code, entry in CATALOGUE.items()
        ),
    )
    reports = table(("code", "meaning"), ((f"`{code}`", said) for code, said in REPORT_CODES.items()))
    batches = table(("code", "meaning"), ((f"`{code}`", said) for code, said in _OF_BATCHES.items()))
    return (
        f"## Of a request\n\n{requests}\n\n## Of one report in a batch\n\n{reports}\n\n"
        "## Of a batch as a whole\n\nThe collector answers `bad-batch`; the detail holds one of these.\n\n"
        f"{batches}"
    )


# What other people's builds make of the JavaScript client, by the tool of package.json that tests/sdk runs.
_BUILDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "esbuild": ("`--platform=browser`", "`--platform=node`, `--format=cjs` or `esm`; `neutral`"),
        "vite": ("`build`", "`build.ssr`"),
        "webpack": ('`target: "web"`', '`target: "node"`'),
        "typescript": ('`moduleResolution: "bundler"`', '`module: "nodenext"`, `.ts` and `.cts`'),
    }
)


def builds() -> str:
    """The bundlers and the type checker that the client is tried with, in their versions."""
    versions = json.loads(PACKAGES.read_text(encoding="utf-8"))["devDependencies"]
    return table(
        ("tool", "version", "for a page", "for Node"),
        ((name, versions[name], *how) for name, how in _BUILDS.items()),
    )


TABLES: Mapping[str, Callable[..., str]] = MappingProxyType(
    {
        "measured": measured,
        "kernel": kernel,
        "methods": methods,
        "coverage": coverage,
        "one-pair": one_pair,
        "long-records": long_records,
        "tuning": tuning,
        "hostile": hostile,
        "attacks": attacks,
        "error-catalogue": error_catalogue,
        "builds": builds,
        "javascript-types": javascript_types.show,
    }
)
