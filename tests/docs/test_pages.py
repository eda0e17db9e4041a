"""Pages that are made from tables hold all of them; figures are those of the committed results."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from keyveil.collector.problems import CATALOGUE, REPORT_CODES
from keyveil.errors import Refusal
from keyveil.methods import METHODS, has_several_rounds, mechanism_of
from keyveil.testing import CHECKS

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    yield import_module("page_tables")
    sys.modules.pop("page_tables")
    sys.modules.pop("javascript_types")


def test_every_method_has_a_page_with_story_kernel_use_and_error(tables):
    for method, name in tables.page_of_methods().items():
        text = (ROOT / "docs" / "mechanisms" / f"{name}.md").read_text(encoding="utf-8")
        assert method in text
        for part in ("## Story", "## Kernel", "## When ", "## Measured"):
            assert part in text, f"{name}.md has no {part}"


def test_the_index_lists_every_page(tables):
    index = (ROOT / "docs" / "mechanisms" / "index.md").read_text(encoding="utf-8").splitlines()
    assert set(tables.page_of_methods().values()) <= set(index)


@pytest.mark.parametrize("method", METHODS)
def test_tables_of_a_method_can_be_made(tables, method):
    assert tables.kernel(method).count("\n| ") >= 4
    assert method in tables.measured(method) or "bench/results" in tables.measured(method)


def test_measured_numbers_are_those_of_the_results(tables):
    row = next(
        r for r in json.loads((ROOT / "bench/results/theory.json").read_text()) if r["mechanism"] == "kvue"
    )
    assert f"{row['variance_ratio']:.3f}" in tables.measured("kvue")


def test_the_catalogue_holds_every_code(tables):
    page = tables.error_catalogue()
    for code in {*CATALOGUE, *REPORT_CODES, *(refusal.value for refusal in Refusal)}:
        assert f"`{code}`" in page, f"{code} is not in the catalogue"


def test_the_page_of_the_javascript_client_shows_every_name_once(tables):
    """What is exported and not shown, or shown and not exported, fails; so does a name without a sentence."""
    page = (ROOT / "docs" / "api" / "javascript.md").read_text(encoding="utf-8")
    shown = [name for names in re.findall(r"{javascript-types} (\S+)", page) for name in names.split(",")]
    known = tables.javascript_types.declarations()
    assert sorted(shown) == sorted(known)
    exported = sum(
        len(re.findall("^export ", path.read_text(), re.M)) for path in tables.javascript_types.FILES
    )
    # Node's types pass on all the others' by one line.
    assert len(known) == exported - 1
    for name, declared in known.items():
        assert declared.comment, f"{name} has no comment"
        assert f"### `{name}`\n\n{declared.comment}" in tables.javascript_types.show(name)
    for verb in ("connect", "enable", "submit", "upload", "uploadOnHide"):
        assert f"{verb}(" in tables.javascript_types.show("Device")


def test_the_builds_that_are_named_are_those_that_are_tried(tables):
    tried = (ROOT / "tests" / "sdk" / "test_bundling.py").read_text(encoding="utf-8")
    versions = json.loads((ROOT / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    for name in ("esbuild", "vite", "webpack"):
        assert f'"{name}"' in tried
        assert f"| {name} | {versions[name]} |" in tables.builds()


def test_contributing_explains_every_check():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in CHECKS if f"`{name}`" not in text] == []


def test_contributing_names_files_that_exist():
    """A list of places is followed once a year; it goes stale in between."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:[\w.]+/)+[\w.]*)`", text))
    named = {path for path in named if "NAME" not in path and "ROOM" not in path}
    roots = (ROOT, ROOT / "src" / "keyveil", ROOT / "src" / "keyveil" / "mechanisms")
    assert sorted(path for path in named if not any((root / path).exists() for root in roots)) == []
    assert len(named) > 30


def test_figures_are_current(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    figures = import_module("figures")
    for name, text in figures.files().items():
        held = (figures.FOLDER / name).read_text(encoding="utf-8")
        assert held == text, f"docs/images/{name} is out of date; run python scripts/figures.py"


def test_the_container_is_not_root_and_writes_to_one_volume_only():
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    said = [line.split(None, 1) for line in lines if line and not line.startswith("#")]
    steps = [(word, rest) for word, rest in said]
    final = steps[max(place for place, (word, _) in enumerate(steps) if word == "FROM") :]
    users = [rest for word, rest in final if word == "USER"]
    assert users
    assert users[-1].partition(":")[0] not in ("0", "root")
    assert [rest for word, rest in final if word == "VOLUME"] == ["/var/lib/keyveil"]
    command = json.loads(next(rest for word, rest in final if word == "CMD"))
    assert command[0] == "serve"
    assert command[-1].startswith("sqlite:////var/lib/keyveil/")
    health = next(rest for word, rest in final if word == "HEALTHCHECK")
    assert "/readyz" in health
    after_user = [word for word, _ in final[[word for word, _ in final].index("USER") :]]
    assert "RUN" not in after_user
    assert "PYTHONDONTWRITEBYTECODE=1" in " ".join(rest for _, rest in final)
    assert "--read-only" in "\n".join(lines)
    # A24: a tag is another image tomorrow.
    assert {rest.split()[0] for word, rest in steps if word == "FROM"} == {"${BASE}"}
    assert ("ARG", "BASE") in steps
    assert "--constraint constraints.txt" in " ".join(rest for word, rest in steps if word == "RUN")


def test_the_container_is_built_from_all_that_the_wheel_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    assert included
    assert set(included) <= copied


def test_every_attack_that_the_security_page_names_is_a_test():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    tests = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    everything = "\n".join(tests.values())
    for name in re.findall(r"`(test_\w+)`", page):
        assert f"def {name}(" in everything, name
    for name in re.findall(r"`(?:tests/\w+/)?(test_\w+\.py)`", page):
        assert name in tests, name


def test_the_server_has_the_uvicorn_that_it_stands_on():
    """A24: `direct` builds on the inside of uvicorn, and any version below 1 was let in."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [wanted] = [name for name in extras["optional-dependencies"]["server"] if name.startswith("uvicorn")]
    low, high = re.fullmatch(r"uvicorn>=0\.(\d+),<0\.(\d+)", wanted).groups()
    assert int(high) == int(low) + 1
    assert f"uvicorn==0.{low}." in (ROOT / "constraints.txt").read_text(encoding="utf-8")


# Half a minute of work; a busy machine takes longer.
@pytest.mark.timeout(600)
def test_the_site_builds_without_a_warning(tmp_path):
    # Without a line for each function in every sidebar: a quarter of the work, and nothing to warn of.
    build = f"{sys.executable} -m sphinx -W -n --keep-going -q -b html -d {tmp_path}/trees"
    build += " -D toc_object_entries=0"
    said = subprocess.run(
        [*build.split(), str(ROOT / "docs"), str(tmp_path / "html")],
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert said.returncode == 0, said.stderr
    outside = [
        page.name
        for page in (tmp_path / "html").rglob("*.html")
        if 'src="http' in (text := page.read_text(encoding="utf-8")) or 'rel="stylesheet" href="http' in text
    ]
    assert outside == []
    # Building ran the notebooks and would have stopped where a cell fails; each page shows all cells.
    for notebook in (ROOT / "docs" / "notebooks").glob("*.ipynb"):
        cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
        page = (tmp_path / "html" / "notebooks" / f"{notebook.stem}.html").read_text(encoding="utf-8")
        assert page.count('class="highlight-python') == len(cells)
        assert 'class="highlight-text' in page, "nothing was printed"


def test_security_names_tests_that_exist():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|bench)/[\w/.]+)`", text)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_tables_of_trust_name_every_method_of_one_round(tables):
    for name in METHODS:
        if not has_several_rounds(name) and mechanism_of(name) == name:
            assert f"| `{name}` |" in tables.hostile()
            assert f"| `{name}` |" in tables.coverage()
