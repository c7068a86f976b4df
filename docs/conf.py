"""Settings of the documentation site; `make docs` builds it. Decision 0018 has the reasons.

The source folder is the repository, so a relative link means the same on the site as on a code host.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.highlighting import lexer_classes

import holdfast

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "Holdfast"
copyright = "the Holdfast authors, Apache-2.0"
version = release = holdfast.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "navigation", "api_reference"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "examples/*.md"]
# The start page says what the README says. The folders have no pages and need not be searched.
exclude_patterns = ["README.md", ".*", "build", "src", "systems", "tests"]

# A type that is imported for the type checker only is known by its bare name, which several modules may have.
suppress_warnings = ["ref.python"]
smartquotes = False
# Our docstrings write code in single backticks.
default_role = "literal"

# GitHub's anchors, for headings of every level.
myst_heading_anchors = 6
myst_links_external_new_tab = False

autodoc_inherit_docstrings = False
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"Holdfast {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_extra_path = ["_root"]
html_show_sourcelink = False
html_copy_source = False
html_use_index = True
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def setup(app: Sphinx) -> None:
    """Show blocks in languages that Pygments does not know as plain text."""
    plain_text: Any = lexer_classes["none"]
    for language in ("csv", "mermaid"):
        app.add_lexer(language, plain_text)
