"""What the pages take from code and results: directives of `conf.py`, and formulas as MathML.

{measured} pckv-ue      the mechanism's errors, from bench/results
{kernel} pckv-ue        its integers at epsilon 1, from the code
{methods}               every method, from its registry
{coverage}              how often intervals hold, from bench/results
{long-records}          the same for `auto`, where records are cut
{tuning}                what its tuned numbers change, halved and doubled
{hostile}               how far lying devices move a key, from the estimators' weights
{error-catalogue}       every refusal, from the collector's own table
{builds}                the bundlers that the JavaScript client is tried with, from package.json
{javascript-types} A,B  what the client declares under these names, from the types it ships
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import page_tables
from docutils.nodes import Text, container, literal_block
from latex2mathml.converter import convert
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


_BACKTICKS = re.compile(r"(?<!`)`([^`]+)`(?!`)")


class _Table(SphinxDirective):
    """A directive whose content is Markdown made by a function."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """The function's Markdown, parsed where the directive stands."""
        for source in page_tables.SOURCES:
            self.env.note_dependency(str(source))
        text = page_tables.TABLES[self.name](*self.arguments)
        made = self.parse_text_to_nodes(text, allow_section_headings=True)
        # Numbers keep to one line; sentences may break.
        return [container("", *made, classes=["numbers"])] if self.arguments else made


def _inline(self: HTML5Translator, node: Any) -> None:
    self.body.append(convert(node.astext()))


def _block(self: HTML5Translator, node: Any) -> None:
    self.body.append(convert(node.astext(), display="block"))


def _leave(self: HTML5Translator, node: Any) -> None:
    """Everything was said on the way in."""


def _as_restructured_text(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Docstrings are plain text for a terminal: indented parts become literal, names in backticks code."""
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()  # what Python says of a named tuple's field, for want of anything
    out: list[str] = []
    literal = False
    for line in lines:
        indented = line.startswith("    ") and not line.lstrip().startswith(("- ", ">>> ", "... "))
        if indented and not literal and (not out or not out[-1].strip()):
            out += ["::", ""]
        if line.strip():
            literal = indented if not literal or not line.startswith(" ") else True
        out.append(line if literal else _BACKTICKS.sub(r"``\1``", line).replace("**", r"\*\*"))
    lines[:] = out


def _trim(app: Sphinx, doctree: nodes.document) -> None:
    """An example that runs ends in an empty line; a reader need not see it."""
    for block in doctree.findall(literal_block):
        block.rawsource = block.rawsource.rstrip("\n")
        block[:] = [Text(block.rawsource)]


def setup(app: Sphinx) -> None:
    """Register the directives, the renderer and the reader of docstrings."""
    app.connect("autodoc-process-docstring", _as_restructured_text)
    app.connect("doctree-read", _trim)
    for name in page_tables.TABLES:
        app.add_directive(name, _Table)
    app.add_html_math_renderer("mathml", (_skip_rest(_inline), _leave), (_skip_rest(_block), _leave))


def _skip_rest(visit: Any) -> Any:
    from docutils.nodes import SkipNode

    def visit_and_skip(self: HTML5Translator, node: Any) -> None:
        visit(self, node)
        raise SkipNode

    return visit_and_skip
