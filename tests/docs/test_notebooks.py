"""The notebooks run from top to bottom, and are kept without outputs."""

from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))


def test_there_are_three():
    assert [path.stem for path in NOTEBOOKS] == ["attack", "compare", "plan"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


# The kernel is another program's; what it warns about its own sockets is not ours.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_a_page(path, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(path.parents[1])
    notebook_pages = import_module("notebook_pages")
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    assert any(cell.get("outputs") for cell in notebook.cells)
    page = notebook_pages.as_markdown(notebook)
    assert page.count("````python") == sum(cell.cell_type == "code" for cell in notebook.cells)
    shown = page.count("````text") + page.count("````{raw} html")
    assert shown == sum(len(cell.get("outputs", ())) for cell in notebook.cells)
