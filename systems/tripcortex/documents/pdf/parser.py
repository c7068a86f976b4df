"""The PDF parser without a service, `PdfParser`: runs `reader` in a subprocess with limited resources.

bytes → `isolation` → in a subprocess: `reader` → entities
"""

from __future__ import annotations

from collections.abc import Iterator

from tripcortex.documents.frames import MAX_PARSE_S, ParseOrder
from tripcortex.documents.isolation import parse_in_subprocess
from tripcortex.documents.ports import ParsedEntity, Progress

from .reader import MAX_PAGES

__all__ = ["MAX_PAGES", "PdfParser"]


class PdfParser:
    """A `Parser` for PDF that parses in a subprocess. `seconds` is the CPU time per document."""

    def __init__(self, *, pages_max: int = MAX_PAGES, seconds: float = MAX_PARSE_S) -> None:
        self._pages_max, self._seconds = pages_max, seconds

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """Yield the entities; call `progress` after each page.

        Raise `DocumentRefused` before the first entity, or at a page that is damaged or too large.
        """
        return parse_in_subprocess(
            ParseOrder("pdf", file_name, self._pages_max, self._seconds), body, progress
        )
