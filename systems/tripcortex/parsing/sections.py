"""The headings above the place that a document is read at."""

from __future__ import annotations

from typing import Final

from .ports import TITLE_CHARS_MAX

# Every entity says all headings above it; nobody writes deeper.
DEPTH_MAX: Final = 12


class Sections:
    """A heading ends those of its own rank and of lower ones; a smaller number is a higher rank."""

    def __init__(self, title: str | None = None) -> None:
        self._open: list[tuple[float, str]] = [(float("-inf"), _cut(title))] if title else []

    def enter(self, title: str, rank: float) -> None:
        while self._open and (self._open[-1][0] >= rank or len(self._open) >= DEPTH_MAX):
            self._open.pop()
        self._open.append((rank, _cut(title)))

    @property
    def titles(self) -> tuple[str, ...]:
        return tuple(title for _, title in self._open)

    @property
    def nearest(self) -> str | None:
        return self._open[-1][1] if self._open else None


def _cut(title: str) -> str:
    line = " ".join(title.split())
    return line if len(line) <= TITLE_CHARS_MAX else line[: TITLE_CHARS_MAX - 1].rstrip() + "…"
