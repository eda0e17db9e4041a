"""The notebooks are kept without outputs, and their pages show them; building the site runs them."""

from importlib import import_module
from pathlib import Path

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["attack", "compare", "plan"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_a_page_shows_every_cell_and_all_that_it_printed_and_drew(monkeypatch):
    monkeypatch.syspath_prepend(NOTEBOOKS[0].parents[1])
    pages = import_module("notebook_pages")
    v4 = nbformat.v4
    outputs = [
        v4.new_output("stream", text="said"),
        v4.new_output("display_data", {"image/svg+xml": "<?xml?><svg>drawn</svg>", "text/plain": "hidden"}),
        v4.new_output("display_data", {"image/png": "cG5n", "text/plain": "hidden"}),
        v4.new_output("execute_result", {"text/html": "<b>rich</b>", "text/plain": "hidden"}),
        v4.new_output("execute_result", {"text/plain": "plain"}),
    ]
    cells = [
        v4.new_markdown_cell("# Title"),
        v4.new_code_cell("f()", outputs=outputs),
        v4.new_raw_cell("raw"),
    ]
    assert pages.as_markdown(v4.new_notebook(cells=cells)) == (
        "# Title\n\n````python\nf()\n````\n\n````text\nsaid\n````\n\n"
        "````{raw} html\n<div><svg>drawn</svg></div>\n````\n\n"
        '````{raw} html\n<img alt="" src="data:image/png;base64,cG5n">\n````\n\n'
        "````{raw} html\n<b>rich</b>\n````\n\n````text\nplain\n````\n"
    )
