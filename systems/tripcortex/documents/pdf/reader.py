"""The PDF reader: parses a PDF in this process into text with headings, lists, tables and figures.

    bytes → PDFium → `page` (values) → `running_headers` → `drafts` → entities

`drafts` uses `tables`, `figures`, `layout` and `blocks`. The reader parses one page after the other and keeps
only a few in memory. It has no limit on the memory that PDFium itself uses for a page: parse untrusted
documents with `parser.PdfParser`, which uses a subprocess.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Final

import pypdfium2 as pdfium  # type: ignore[import-untyped]

from tripcortex.documents.ports import (
    TITLE,
    ContentType,
    DocumentDamaged,
    DocumentEmpty,
    DocumentEncrypted,
    DocumentRefused,
    DocumentScanned,
    DocumentTooLarge,
    DocumentTooLong,
    ParsedEntity,
    Progress,
    require_within_limits,
)
from tripcortex.documents.sections import Sections

from .blocks import Typography
from .drafts import Draft, build_drafts, join_continued, measure_typography, repeat_header
from .page import PDFIUM, PageContent, PageTooLarge, count_letters, read_page, render_crop
from .running_headers import remove_running_headers

MAX_PAGES: Final = 2_000

# The typography is measured on this many pages, spread over the document.
_PAGES_LEARNT_FROM: Final = 12
# Left and right pages may have different headers: a running header repeats within two pages.
_NEIGHBOURS: Final = 2

_NO_PAGES: Final = re.compile(rb"/Count\s+0\b")
_A_PAGE: Final = re.compile(rb"/Type\s*/Page\b")


class PdfReader:
    """A `Parser` for PDF in this process.

    `on_page_count` is called with the number of pages before the first page is read.
    """

    def __init__(
        self, *, pages_max: int = MAX_PAGES, on_page_count: Callable[[int], object] | None = None
    ) -> None:
        self._pages_max, self._counted = pages_max, on_page_count

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """Yield the entities. Raise `DocumentRefused` before the first entity, or at a damaged page."""
        with _open_document(body, file_name) as document:
            self._require_readable(document, file_name)
            manner = _measure_typography(document)
            yield from _build_entities(_read_drafts(document, manner, progress), manner, file_name)

    def _require_readable(self, document: pdfium.PdfDocument, file_name: str) -> None:
        """Raise `DocumentRefused` if the document has no pages, too many, or no text.

        Call `on_page_count` before the text is looked for.
        """
        pages = len(document)
        if pages == 0:
            raise _refuse_without_pages(file_name)
        if pages > self._pages_max:
            raise DocumentTooLong(
                file_name,
                f"it has {pages:,} pages, and at most {self._pages_max:,} are read",
                "Upload the part with the policy, or ask the operator to raise TRIPCORTEX_POLICY_PAGES_MAX.",
            )
        if self._counted:
            self._counted(pages)
        if not any(count_letters(document, index) for index in range(pages)):
            raise DocumentScanned(
                file_name,
                "its pages are pictures without any text, and no text recognition (OCR) is built in",
                "Upload the document that was scanned, or parse it with Bedrock Data Automation, which "
                "recognises text.",
            )


@contextmanager
def _open_document(body: bytes, file_name: str) -> Iterator[pdfium.PdfDocument]:
    """Open the document; close it on exit. PDFium's errors in the block become `DocumentRefused`."""
    document = None
    try:
        with PDFIUM:
            document = pdfium.PdfDocument(body)
        yield document
    except pdfium.PdfiumError as error:
        raise _build_refusal(body, file_name) from error
    except PageTooLarge as error:
        raise DocumentTooLarge(
            file_name, str(error), "Remove or simplify that page, and upload the document again."
        ) from error
    finally:
        if document is not None:
            with PDFIUM:
                document.close()


def _build_refusal(body: bytes, file_name: str) -> DocumentRefused:
    """Return the refusal by the bytes: encrypted, empty or damaged.

    PDFium's error code may belong to an earlier document.
    """
    if b"/Encrypt" in body:
        return DocumentEncrypted(
            file_name, "it is protected by a password", "Upload a copy without a password."
        )
    if _NO_PAGES.search(body) and not _A_PAGE.search(body):
        return _refuse_without_pages(file_name)
    return DocumentDamaged(
        file_name,
        "it is a damaged PDF",
        "Upload it again; if it does not open elsewhere either, export it again from the program that wrote "
        "it.",
    )


def _refuse_without_pages(file_name: str) -> DocumentRefused:
    """Return the refusal of a document without pages; the caller raises it."""
    return DocumentEmpty(file_name, "it has no page", "Export it again from the program that wrote it.")


def _measure_typography(document: pdfium.PdfDocument) -> Typography:
    """Measure the typography on about twelve pages spread over the document."""
    pages = len(document)
    step = max(1, pages // _PAGES_LEARNT_FROM)
    return measure_typography(read_page(document, index) for index in range(0, pages, step))


# --- page by page -------------------------------------------------------------------------------------------


def _read_drafts(
    document: pdfium.PdfDocument, manner: Typography, progress: Progress | None
) -> Iterator[list[Draft]]:
    """Yield the drafts of each page, without running headers; call `progress` after each page."""
    pages = len(document)
    for page, neighbours in _read_with_neighbours(document):
        yield build_drafts(
            remove_running_headers(page, neighbours),
            manner,
            lambda box, index=page.number - 1: render_crop(document, index, box),  # type: ignore[misc]
        )
        if progress:
            progress(page.number, pages)


def _read_with_neighbours(document: pdfium.PdfDocument) -> Iterator[tuple[PageContent, list[PageContent]]]:
    """Yield each page with up to two pages before and two after it; read each page once."""
    window: deque[PageContent] = deque(maxlen=2 * _NEIGHBOURS + 1)
    pages = len(document)
    for index in range(pages):
        while (window[-1].number if window else 0) < min(index + 1 + _NEIGHBOURS, pages):
            window.append(read_page(document, window[-1].number if window else 0))
        page = next(page for page in window if page.number == index + 1)
        yield page, [other for other in window if 0 < abs(other.number - page.number) <= _NEIGHBOURS]


def _build_entities(
    pages: Iterator[list[Draft]], manner: Typography, file_name: str
) -> Iterator[ParsedEntity]:
    """Number the drafts as entities. Each draft waits for the next one, which may continue it."""
    numbered = _EntityNumbering(file_name)
    held: Draft | None = None
    for draft in chain.from_iterable(pages):
        joint = join_continued(held, draft, manner.vocabulary) if held else None
        if joint is None and held:
            draft = repeat_header(held, draft)
            yield numbered.number(held)
        held = joint or draft
    if held:
        yield numbered.number(held)


class _EntityNumbering:
    """Gives each entity its number and its section."""

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name
        self._sections = Sections()
        self._count = 0

    def number(self, draft: Draft) -> ParsedEntity:
        """Return the draft as an entity with the next number. Raise `DocumentTooLarge` if it exceeds a limit.

        The first heading of the document is its TITLE if it is on page 1.
        """
        is_first_heading = draft.rank is not None and self._sections.nearest is None
        if draft.rank is not None:
            self._sections.enter(draft.text, draft.rank)
        self._count += 1
        is_figure = draft.content_type is ContentType.figure
        text = draft.render()
        require_within_limits(self._file_name, text, self._count)
        return ParsedEntity(
            draft.content_type,
            text,
            draft.page,
            self._sections.nearest,
            self._count,
            f"p{draft.page}-e{self._count}",
            TITLE if is_first_heading and draft.page == 1 else draft.subtype,
            draft.boxes,
            self._sections.titles,
            draft.crop if is_figure else None,
        )
