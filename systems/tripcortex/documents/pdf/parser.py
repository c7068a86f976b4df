"""The PDF parser without a service: text with its headings, lists, tables and figures.

bytes → `isolation` → in a subprocess: `reader` → entities
"""

from __future__ import annotations

from collections.abc import Iterator

from tripcortex.documents.frames import DEFAULT_SECONDS, ParseOrder
from tripcortex.documents.isolation import parse_in_subprocess
from tripcortex.documents.ports import ParsedEntity, Progress

from .reader import PAGES_MAX

__all__ = ["PAGES_MAX", "PdfParser"]


class PdfParser:
    """A `Parser` for PDF that parses each document in a subprocess. `seconds` is the CPU time for the
    document.
    """

    def __init__(self, *, pages_max: int = PAGES_MAX, seconds: float = DEFAULT_SECONDS) -> None:
        self._pages_max, self._seconds = pages_max, seconds

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """Yield the entities. Raise `DocumentRefused` before the first entity, or at a page that is damaged
        or too large.
        """
        return parse_in_subprocess(
            ParseOrder("pdf", file_name, self._pages_max, self._seconds), body, progress
        )
