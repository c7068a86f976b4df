"""The headings that are open at the current position of a document: the section path of each entity."""

from __future__ import annotations

from typing import Final

from .ports import MAX_TITLE_CHARS

# Every entity stores all headings above it. Real documents are not nested deeper.
MAX_DEPTH: Final = 12


class Sections:
    """The open headings. A new heading closes those of its own and of lower rank.

    A smaller number is a higher rank. `title` is the document's title, which is never closed.
    """

    def __init__(self, title: str | None = None) -> None:
        self._open: list[tuple[float, str]] = [(float("-inf"), _truncate(title))] if title else []

    def enter(self, title: str, rank: float) -> None:
        """Open a heading, cut to 255 characters. At most 12 are open: a deeper one replaces the innermost."""
        while self._open and (self._open[-1][0] >= rank or len(self._open) >= MAX_DEPTH):
            self._open.pop()
        self._open.append((rank, _truncate(title)))

    @property
    def titles(self) -> tuple[str, ...]:
        """Return the open headings from the outermost."""
        return tuple(title for _, title in self._open)

    @property
    def nearest(self) -> str | None:
        """Return the innermost open heading, or None."""
        return self._open[-1][1] if self._open else None


def _truncate(title: str) -> str:
    """Return the title on one line, cut to 255 characters."""
    line = " ".join(title.split())
    return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1].rstrip() + "…"
