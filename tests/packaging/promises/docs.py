"""`docs`: a page with a formula and a page of a module's names, in the site's theme."""

import sys
import tempfile
from pathlib import Path

from sphinx.application import Sphinx

PAGE = "# One\n\n$x^2$\n\n```{eval-rst}\n.. automodule:: keyveil.chart\n   :members:\n```\n"
SETTINGS = {
    "extensions": ["myst_parser", "sphinx.ext.autodoc"],
    "myst_enable_extensions": ["dollarmath"],
    "html_theme": "furo",
}

import latex2mathml.converter  # noqa: E402
import nbclient  # noqa: E402

with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "index.md").write_text(PAGE)
    site = Sphinx(
        folder,
        None,
        folder / "site",
        folder / "trees",
        "html",
        confoverrides=SETTINGS,
        status=None,
        warning=sys.stderr,
        exception_on_warning=True,
    )
    site.build()
    assert "One chart for all" in (folder / "site" / "index.html").read_text()
assert "<msup>" in latex2mathml.converter.convert("x^2")
assert nbclient.NotebookClient
