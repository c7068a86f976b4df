"""Derive the site's navigation from the pages, so that no list is kept for it.

Each second-level heading of the start page that is followed by links to pages is a group, in that order. A
page that has a folder of its own name (`decisions.md` and `decisions/`), or is the `index.md` of a folder
below `docs/`, is the parent of the pages in that folder. Sphinx warns about a page that neither rule finds.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection
from typing import Any

from sphinx.application import Sphinx

# Pages, and the pages below them.
MAX_LEVELS = 2
BEFORE_THE_THEME = 400
GROUP = re.compile(r"^## +(.+?) *$", re.MULTILINE)
PAGE_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#:]+)\.md\)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("source-read", add_navigation)
    app.connect("html-page-context", limit_depth, priority=BEFORE_THE_THEME)
    return {"parallel_read_safe": True}


def add_navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append the hidden tables of contents to the start page and to the parents of other pages."""
    pages = app.env.found_docs
    if docname == app.config.root_doc:
        for caption, entries in read_groups(docname, source[0], pages).items():
            source[0] += _build_toctree(entries, f":caption: {caption}\n")
    elif children := find_children(docname, pages):
        source[0] += _build_toctree([f"/{child}" for child in children])


def read_groups(start: str, text: str, pages: Collection[str]) -> dict[str, list[str]]:
    """Map each heading of the start page to the entries below it: the words of the link, and the page.

    A page belongs to the first group that links to it. Pages with a parent belong to none.
    """
    placed = {child for page in pages if page != start for child in find_children(page, pages)}
    parts = GROUP.split(text)
    groups: dict[str, list[str]] = {}
    for caption, section in zip(parts[1::2], parts[2::2], strict=True):
        for words, link in PAGE_LINK.findall(section):
            page = posixpath.normpath(f"{posixpath.dirname(start)}/{link}")
            if page in pages and page not in placed:
                placed.add(page)
                groups.setdefault(caption, []).append(f"{words} </{page}>")
    return groups


def find_children(parent: str, pages: Collection[str]) -> list[str]:
    """List the pages of the folder that a page is the parent of, in the order of their names."""
    folder = parent.removesuffix("/index")
    return sorted(page for page in pages if posixpath.dirname(page) == folder and page != parent)


def limit_depth(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Have the theme ask for two levels. It would copy every heading of every page, and then drop them."""
    if build := context.get("toctree"):
        context["toctree"] = lambda **options: build(**options | {"maxdepth": MAX_LEVELS})


def _build_toctree(entries: list[str], options: str = "") -> str:
    lines = "\n".join(entries)
    return f"\n\n```{{toctree}}\n:hidden:\n{options}\n{lines}\n```\n"
