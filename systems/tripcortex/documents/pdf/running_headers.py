"""Removal of running headers and footers, page numbers and logos from a page. Pure functions.

A text in the margin is a running header if a page at most two pages away has the same text at the same
height; numbers may differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from .layout import TextLine, split_into_segments
from .page import PageContent, Rect

# The share of a page's height at its top and at its foot.
_MARGIN: Final = 0.11
_HEIGHT_NEAR: Final = 3.0

_NUMBER: Final = re.compile(r"\d+")
_PAGE_NUMBER: Final = re.compile(
    r"^[\s\-–—|·]*(?:(?:page|p\.|seite)\s*)?(?:\d{1,4}|[ivxl]{1,7})(?:\s*(?:of|/|von)\s*\d{1,4})?[\s\-–—|·]*$",
    re.IGNORECASE,
)


def remove_running_headers(page: PageContent, neighbours: Sequence[PageContent]) -> PageContent:
    """Return the page without running headers, footers, page numbers and logos that its neighbours repeat."""
    elsewhere = {mark for neighbour in neighbours for mark in _marks(neighbour)}
    left_out = {
        id(word) for line in _margin_lines(page) if _is_running(line, page, elsewhere) for word in line.words
    }
    pictures = {_round_box(box) for neighbour in neighbours for box in neighbour.pictures}
    return replace(
        page,
        words=tuple(word for word in page.words if id(word) not in left_out),
        pictures=tuple(
            box for box in page.pictures if not (_is_in_margin(box, page) and _round_box(box) in pictures)
        ),
    )


def _is_running(line: TextLine, page: PageContent, elsewhere: set[tuple[str, int]]) -> bool:
    """Return whether the line is a page number or is also in a neighbour's margin."""
    if _PAGE_NUMBER.match(line.text):
        return True
    text, height = _mark(line)
    return any((text, height + off) in elsewhere for off in (-1, 0, 1))


def _margin_lines(page: PageContent) -> Iterator[TextLine]:
    """Yield the lines in the top and the bottom margin."""
    yield from split_into_segments(word for word in page.words if _is_in_margin(word.box, page))


def _is_in_margin(box: Rect, page: PageContent) -> bool:
    """Return whether the box is entirely in the top or the bottom 11 % of the page."""
    return box.bottom <= _MARGIN * page.height or box.top >= (1 - _MARGIN) * page.height


def _marks(page: PageContent) -> Iterator[tuple[str, int]]:
    """Yield the marks of the lines in the margins."""
    for line in _margin_lines(page):
        yield _mark(line)


def _mark(line: TextLine) -> tuple[str, int]:
    """Return the line's text with "#" for each number, and its rounded height."""
    return _NUMBER.sub("#", line.text), round(line.box.top / _HEIGHT_NEAR)


def _round_box(box: Rect) -> tuple[int, ...]:
    """Return the box in units of three points, to compare pictures."""
    return tuple(round(side / _HEIGHT_NEAR) for side in box)
