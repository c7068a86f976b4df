"""PDF documents taken apart here, without a service: text with its headings, lists, tables, figures.

bytes → `confinement` → in a process of its own: `pdf_reading` → entities
"""

from __future__ import annotations

from collections.abc import Iterator

from .confinement import read_confined
from .frames import SECONDS, Order
from .pdf_reading import PAGES_MAX
from .ports import ParsedEntity, Progress

__all__ = ["PAGES_MAX", "PdfParser"]


class PdfParser:
    def __init__(self, *, pages_max: int = PAGES_MAX, seconds: float = SECONDS) -> None:
        self._pages_max, self._seconds = pages_max, seconds

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """A document that cannot be read is refused before its first entity, or at a page that is damaged or too large."""
        return read_confined(Order("pdf", file_name, self._pages_max, self._seconds), body, progress)
