"""Notebooks as pages of the site: run when the site is built, shown with what they print and draw.

The files are kept without outputs (tests/docs/test_notebooks.py): a page never shows what today's code does
not say.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import nbformat
from myst_parser.parsers.sphinx_ import MystParser
from nbclient import NotebookClient

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

_PATIENCE = 120


class NotebookParser(MystParser):  # type: ignore[misc]  # untyped
    """Reads a notebook as the Markdown that it becomes when it is run."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Run it, then read it."""
        super().parse(as_markdown(run(inputstring)), document)


def run(text: str) -> Any:
    """The notebook in a text, with its outputs."""
    notebook = nbformat.reads(text, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook, timeout=_PATIENCE, kernel_name="python3", resources={"metadata": {"path": folder}}
        ).execute()
    return notebook


def as_markdown(notebook: Any) -> str:
    """The cells of a notebook, one after the other."""
    return "\n\n".join(part for cell in notebook.cells for part in _parts(cell)) + "\n"


def _parts(cell: Any) -> list[str]:
    if cell.cell_type == "markdown":
        return [cell.source]
    if cell.cell_type != "code":
        return []
    return [_fenced("python", cell.source), *(_output(each) for each in cell.get("outputs", ()))]


def _output(output: Any) -> str:
    """What a cell printed or drew, in the richest form that a page can show."""
    if output.output_type == "stream":
        return _fenced("text", output.text)
    said = output.get("data", {})
    if "image/svg+xml" in said:
        drawn = said["image/svg+xml"]
        return _fenced("{raw} html", f"<div>{drawn[drawn.index('<svg') :]}</div>")
    if "image/png" in said:
        return _fenced("{raw} html", f'<img alt="" src="data:image/png;base64,{said["image/png"].strip()}">')
    if "text/html" in said:
        return _fenced("{raw} html", said["text/html"])
    return _fenced("text", said.get("text/plain", ""))


def _fenced(kind: str, text: str) -> str:
    return f"````{kind}\n{text.rstrip()}\n````"


def setup(app: Sphinx) -> None:
    """Let Sphinx read notebooks."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
