import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from keyveil.reproduce import PAPERS, Claim, Figure, judge, load, rerun
from keyveil.reproduce import cells as cell_module
from keyveil.reproduce.cells import point_of, population, solve, solve_figure
from keyveil.reproduce.verdicts import CORRECTED, FAILS, HOLDS, SKIPPED

SMALL = Figure(
    id="small",
    title="a small one",
    says="something",
    population="people",
    sweep="epsilon",
    values=(1.0, 2.0),
    methods=("ks-ue", "privkvm rounds=2"),
    metrics=("frequency_mse",),
    repeats=2,
)


@pytest.mark.parametrize("paper", PAPERS)
def test_every_claim_is_about_a_figure_that_measures_it(paper):
    loaded = load(paper)
    figures = {figure.id: figure for figure in loaded.figures}
    assert len(figures) == len(loaded.figures)
    for claim in loaded.claims:
        figure = figures[claim.figure]
        assert claim.metric in figure.metrics
        assert set(claim.lower) | set(claim.upper) <= set(figure.methods)
        assert set(claim.only) <= set(figure.values)
    for figure in loaded.figures:
        assert figure.population in loaded.sources
        for row in figure.printed.values():
            assert len(row) == len(figure.values)
        assert figure.sweep == "key" or len(figure.quick().values) <= 3


def cells_of(metric, low, high, error=0.1):
    return {
        ("low", 1.0): {metric: low, f"{metric}_se": error},
        ("high", 1.0): {metric: high, f"{metric}_se": error},
    }


@pytest.mark.parametrize(
    ("low", "high", "correction", "fate"),
    [
        (1.0, 2.0, "", HOLDS),
        (1.0, 2.0, "mended", CORRECTED),
        (2.0, 1.0, "mended", FAILS),
        (1.0, 1.1, "", FAILS),
    ],
)
def test_verdicts_follow_from_means_and_standard_errors(low, high, correction, fate):
    claim = Claim(
        text="t", figure="small", metric="m", lower=("low",), upper=("high",), correction=correction
    )
    figure = Figure(
        **{
            name: getattr(SMALL, name)
            for name in ("id", "title", "says", "population", "sweep", "methods", "metrics")
        },
        values=(1.0,),
    )
    assert judge(claim, figure, cells_of("m", low, high)).fate == fate


def test_theory_is_held_to_three_standard_errors():
    claim = Claim(text="t", figure="small", metric="m", kind="theory")
    cell = {"m": 1.0, "m_se": 0.1, "m_theory": 1.25}
    assert judge(claim, SMALL, {("a", 1.0): cell}).fate == HOLDS
    assert judge(claim, SMALL, {("a", 1.0): {**cell, "m_theory": 1.35}}).fate == FAILS
    assert judge(claim, SMALL, {("a", 1.0): {"m": 1.0, "m_se": 0.1}}).fate == FAILS


def test_a_claim_without_cells_is_skipped():
    claim = Claim(text="t", figure="small", metric="m", lower=("low",), upper=("high",))
    assert judge(claim, SMALL, {}).fate == SKIPPED


def small_point(users=300):
    source = load("em").sources["linear"]
    source = type(source)(name="people", synthetic="em-linear", size={"users": users, "keys": 5})
    return point_of(SMALL, source, "ks-ue", 1.0)


def test_cells_are_kept_and_taken_from_disk(tmp_path, monkeypatch):
    first = solve(small_point(), tmp_path, None)
    monkeypatch.setattr(cell_module, "run", None)
    assert solve(small_point(), tmp_path, None) == first
    assert math.isfinite(first["frequency_mse"])


def test_single_keys_are_shown_beside_their_truth(tmp_path):
    figure = replace(SMALL, sweep="key", values=(1.0, 5.0), methods=("ks-ue",), metrics=("mean",), epsilon=6)
    source = replace(small_point(users=20_000).source, size={"users": 20_000, "keys": 5})
    cells = dict(solve_figure(figure, source, tmp_path, None))
    assert set(cells) == {("ks-ue", 1.0), ("ks-ue", 5.0)}
    assert cells["ks-ue", 1.0]["mean_truth"] == pytest.approx(2 * 1 / 5 - 1)
    for cell in cells.values():
        assert cell["mean"] == pytest.approx(cell["mean_truth"], abs=0.3)


def test_ten_million_people_are_a_million_and_their_twins():
    source = replace(small_point().source, size={"users": 10_000_000, "keys": 1})
    people, twins = population(source, None)
    assert (people.n_users, twins) == (1_000_000, 10)


def test_a_half_written_cell_is_made_again(tmp_path):
    first = solve(small_point(), tmp_path, None)
    (path,) = tmp_path.glob("*.parquet")
    path.write_bytes(path.read_bytes()[:100])
    again = solve(small_point(), tmp_path, None)
    assert {k: v for k, v in again.items() if k != "seconds"} == {
        k: v for k, v in first.items() if k != "seconds"
    }


def test_other_code_and_other_parameters_have_other_keys(monkeypatch):
    here = small_point().key()
    assert small_point(users=301).key() != here
    monkeypatch.setattr(cell_module, "code_version", lambda: "other")
    assert small_point().key() != here


class Outside(HTMLParser):
    """Collects what a page would load from elsewhere, and figures without words."""

    def __init__(self):
        super().__init__()
        self.loaded, self.mute, self.figures = [], 0, 0

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag in ("script", "link", "iframe", "img") or "://" in (attributes.get("src") or ""):
            self.loaded.append((tag, attributes))
        if tag == "figure":
            self.figures += 1
            self.mute += not attributes.get("aria-label")


def test_pages_stand_alone_have_words_for_every_figure_and_say_what_was_skipped(tmp_path):
    seen = []
    results = rerun(["kskv"], tmp_path, quick=True, progress=seen.append)
    assert len(seen) == sum(len(f.methods) * len(f.values) for f in results[0].paper.figures)
    page = (tmp_path / "kskv.html").read_text()
    index = (tmp_path / "index.html").read_text()
    assert "needs womens_clothing.parquet; pass --data FOLDER" in page
    assert "skipped" in index
    for text in (page, index):
        parser = Outside()
        parser.feed(text)
        assert parser.loaded == []
        assert parser.mute == 0
    assert parser.figures == 0
    assert page.count("<figure") == 3
    assert (tmp_path / "kskv.csv").read_text().startswith("figure,swept,mechanism")


def test_an_interrupted_run_leaves_pages_of_what_is_done(tmp_path):
    calls = []

    def interrupt(label):
        calls.append(label)
        if len(calls) == 14:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rerun(["em"], tmp_path, quick=True, progress=interrupt)
    assert "its figure was not run" in (tmp_path / "em.html").read_text()
    assert len(list((tmp_path / "cache").glob("*.parquet"))) >= 13


def test_the_errata_name_tests_that_exist():
    root = Path(__file__).parents[2]
    text = (root / "docs" / "errata.md").read_text()
    sources = "".join(path.read_text() for path in (root / "tests").rglob("*.py"))
    sources += (root / "src" / "keyveil" / "testing" / "checks.py").read_text()
    named = set(re.findall(r"`(?:[\w/.]+::)?(test_\w+|\w+_is_\w+)`", text))
    assert len(named) > 15
    assert [name for name in sorted(named) if f"def {name}(" not in sources] == []
