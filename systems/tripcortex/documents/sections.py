"""The headings above the current position in a document."""

from __future__ import annotations

from typing import Final

from .ports import TITLE_CHARS_MAX

# Every entity stores all headings above it. Real documents are not nested deeper.
DEPTH_MAX: Final = 12


class Sections:
    """The open headings. A new heading closes those of its own rank and of lower ones; a smaller number is a
    higher rank.
    """

    def __init__(self, title: str | None = None) -> None:
        self._open: list[tuple[float, str]] = [(float("-inf"), _truncate(title))] if title else []

    def enter(self, title: str, rank: float) -> None:
        """Open a heading."""
        while self._open and (self._open[-1][0] >= rank or len(self._open) >= DEPTH_MAX):
            self._open.pop()
        self._open.append((rank, _truncate(title)))

    @property
    def titles(self) -> tuple[str, ...]:
        """The open headings from the outermost."""
        return tuple(title for _, title in self._open)

    @property
    def nearest(self) -> str | None:
        """The innermost open heading, or None."""
        return self._open[-1][1] if self._open else None


def _truncate(title: str) -> str:
    line = " ".join(title.split())
    return line if len(line) <= TITLE_CHARS_MAX else line[: TITLE_CHARS_MAX - 1].rstrip() + "…"
