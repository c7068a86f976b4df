"""Build the documentation site as `make docs` does, and read the pages it wrote."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from tests.docs import pages

# The attribute by which a tag loads something. A link in the text loads nothing.
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data", "link": "href"}


def build(folder: Path) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Build the site below a folder; return where it is, and what the build said."""
    site = folder / "site"
    words = ["--quiet", "--fresh-env", "--fail-on-warning", "--conf-dir", "docs"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *words, "--doctree-dir", folder / "doctrees", ".", site],
        cwd=pages.ROOT,
        capture_output=True,
        text=True,
        timeout=1_500,
        check=False,
    )
    return site, done


@dataclass
class Page:
    """One page of the site: the anchors in it, its links, and everything that it loads."""

    path: Path
    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    navigation: list[str] = field(default_factory=list)


def read_pages(site: Path) -> dict[Path, Page]:
    """Return every page of the site by its path."""
    return {path: _Reader(path).read() for path in sorted(site.rglob("*.html"))}


def resolve_links(page: Page) -> Iterator[tuple[Path, str]]:
    """Yield the file and the anchor of each link that stays within the site."""
    for link in page.links:
        if ":" not in link.split("/", 1)[0]:
            path, anchor = urldefrag(link)
            target = (page.path.parent / unquote(path)).resolve() if path else page.path
            yield target, unquote(anchor)


class _Reader(HTMLParser):
    """Collect the ids, links and loaded files of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._page = Page(path)
        self._depth_in_navigation = 0

    def read(self) -> Page:
        self.feed(self._page.path.read_text(encoding="utf-8"))
        return self._page

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == "div":
            is_navigation = self._depth_in_navigation or found.get("class") == "sidebar-tree"
            self._depth_in_navigation += bool(is_navigation)
        if "id" in found:
            self._page.ids.add(found["id"])
        if tag == "a" and "href" in found:
            self._page.links.append(found["href"])
            if self._depth_in_navigation:
                self._page.navigation.append(found["href"])
        if tag in LOADING and LOADING[tag] in found:
            self._page.loaded.append(found[LOADING[tag]])

    def handle_endtag(self, tag: str) -> None:
        if tag == "div" and self._depth_in_navigation:
            self._depth_in_navigation -= 1
