"""The site: `make docs` builds it; nothing on its pages comes from another host."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).parent))

project = "keyveil"
copyright = "the keyveil authors, Apache-2.0"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "skeletons"]

html_theme = "furo"
html_title = "keyveil"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sphinx = False

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "undoc-members": False}
# Names in signatures whose pages are not ours, and names of ours that are not public; any other must resolve.
nitpick_ignore_regex = [("py:.*", r"(?!keyveil\.).*")]
nitpick_ignore = [
    ("py:class", f"keyveil.{name}")
    for name in (
        "client.ledger.Account",
        "client.waves.Wave",
        "client.answer.HttpAnswer",
        "domain.texts.NamedRecord",
        "estimate.distribution.Windowed",
        "estimate.influence.Statement",
        "estimate.sizes.SizeLaw",
        "estimate.sizes.Truncation",
        "mechanisms.base.Ask",
        "mechanisms.symbol.keys_only.Encoder",
        "mechanisms.oracles.Oracle",
        "shuffle.promise.Allowance",
    )
]


def setup(app: Sphinx) -> None:
    """Pages from tables, and formulas without a script from elsewhere."""
    import notebook_pages
    import site_parts

    site_parts.setup(app)
    notebook_pages.setup(app)
