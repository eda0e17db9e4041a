"""Every command in the documentation runs, and prints what the page says it prints."""

import doctest
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from keyveil.cli.app import keyveil

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
PAGES = [page for page in PAGES if "_build" not in page.parts]
FENCE = re.compile(r"^```([^\n]+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CHECKER = doctest.OutputChecker()


def blocks(page):
    return FENCE.findall(page.read_text(encoding="utf-8"))


def parts_of(page):
    """Files to write and commands to run, in the order of the page: (name, text) or (command, output)."""
    for kind, body in blocks(page):
        caption = re.match(r":caption: (\S+\.\w+)\n\n", body)
        if kind.startswith("{code-block}") and caption:
            yield "file", caption[1], body[caption.end() :]
        if kind == "console":
            for said in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, output = said.partition("\n")
                yield "command", command, output


TOLD = [page for page in PAGES if any(kind == "command" for kind, *_ in parts_of(page))]


@pytest.mark.parametrize("page", TOLD, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_do_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    for kind, name, text in parts_of(page):
        if kind == "file":
            Path(name).write_text(text, encoding="utf-8")
            continue
        program, *arguments = shlex.split(name)
        assert program == "keyveil", f"{page.name} runs {program}; only keyveil is run here"
        done = CliRunner().invoke(keyveil, arguments)
        assert done.exit_code == 0, f"{name}: {done.output} {done.exception!r}"
        agrees = CHECKER.check_output(text, done.output, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        assert not text or agrees, f"$ {name}\nthe page says\n{text}\nit printed\n{done.output}"


def test_pages_with_commands_are_found():
    assert {"plan.md", "believe.md", "compare.md"} <= {page.name for page in TOLD}


def test_no_python_in_the_documentation_goes_unrun():
    """A Python block is a doctest, or a sketch whose caption says when it runs."""
    for page in PAGES:
        for kind, body in blocks(page):
            if "python" in kind and ">>>" not in body:
                assert body.startswith(":caption:"), f"{page.name}: a Python block that no test runs"
                compile(body.partition("\n\n")[2], page.name, "exec")


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        prose = FENCE.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)#\s]+)", prose):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"
