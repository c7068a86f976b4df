"""A PDF document taken apart in this process: text with its headings, lists, tables, figures.

    bytes → PDFium → `pdf_page` (values) → `pdf_running` → `pdf_drafts` (`pdf_tables`, `pdf_figures`, `pdf_layout`,
    `pdf_blocks`) → entities

Pages are read one after the other and forgotten, so that a document of any length needs the memory of a few pages. What PDFium
itself spends on a page nobody here can bound: documents of others are read by `pdf.PdfParser`, in a process of their own.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Final

import pypdfium2 as pdfium  # type: ignore[import-untyped]

from .pdf_blocks import Manner, manner_of
from .pdf_drafts import Draft, drafts_of, gone_on, text_columns, with_header_of
from .pdf_page import PDFIUM, PageContent, PageTooLarge, crop_of, letters_on, page_content
from .pdf_running import without_running
from .ports import (
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
    require_bounded,
)
from .sections import Sections

PAGES_MAX: Final = 2_000

# From so many pages, spread over the document, is learnt how it is set.
_PAGES_LEARNT_FROM: Final = 12
# Left and right pages may have headers of their own: a running one is found again two pages on.
_NEIGHBOURS: Final = 2

_NO_PAGES: Final = re.compile(rb"/Count\s+0\b")
_A_PAGE: Final = re.compile(rb"/Type\s*/Page\b")


class PdfReading:
    """`counted` is told the number of pages before any of them is read."""

    def __init__(self, *, pages_max: int = PAGES_MAX, counted: Callable[[int], object] | None = None) -> None:
        self._pages_max, self._counted = pages_max, counted

    def parse(
        self, body: bytes, file_name: str, *, progress: Progress | None = None
    ) -> Iterator[ParsedEntity]:
        """A document that cannot be read is refused before its first entity, or at a page that is damaged."""
        with _opened(body, file_name) as document:
            self._require_readable(document, file_name)
            manner = _manner(document)
            yield from _entities(_drafts(document, manner, progress), manner, file_name)

    def _require_readable(self, document: pdfium.PdfDocument, file_name: str) -> None:
        pages = len(document)
        if pages == 0:
            raise _without_pages(file_name)
        if pages > self._pages_max:
            raise DocumentTooLong(
                file_name,
                f"it has {pages:,} pages, and at most {self._pages_max:,} are read",
                "Upload the part that holds the policy, or have TRIPCORTEX_POLICY_PAGES_MAX raised.",
            )
        if self._counted:
            self._counted(pages)
        if not any(letters_on(document, index) for index in range(pages)):
            raise DocumentScanned(
                file_name,
                "its pages are pictures without any text, and no text recognition (OCR) is built in",
                "Upload the document that was scanned, or parse it with Bedrock Data Automation, which recognises text.",
            )


@contextmanager
def _opened(body: bytes, file_name: str) -> Iterator[pdfium.PdfDocument]:
    document = None
    try:
        with PDFIUM:
            document = pdfium.PdfDocument(body)
        yield document
    except pdfium.PdfiumError as error:
        raise _refusal(body, file_name) from error
    except PageTooLarge as error:
        raise DocumentTooLarge(
            file_name, str(error), "Take that page out, or save it simpler, and upload the rest."
        ) from error
    finally:
        if document is not None:
            with PDFIUM:
                document.close()


def _refusal(body: bytes, file_name: str) -> DocumentRefused:
    """By the bytes: PDFium's own code may be that of a document before this one."""
    if b"/Encrypt" in body:
        return DocumentEncrypted(
            file_name, "it opens with a password only", "Upload a copy without a password."
        )
    if _NO_PAGES.search(body) and not _A_PAGE.search(body):
        return _without_pages(file_name)
    return DocumentDamaged(
        file_name,
        "it begins like a PDF and is damaged after that",
        "Upload it again; if it does not open elsewhere either, save it anew from where it was written.",
    )


def _without_pages(file_name: str) -> DocumentRefused:
    return DocumentEmpty(file_name, "it has no page", "Save it again from where it was written.")


def _manner(document: pdfium.PdfDocument) -> Manner:
    pages = len(document)
    step = max(1, pages // _PAGES_LEARNT_FROM)
    columns = (
        column for index in range(0, pages, step) for column in text_columns(page_content(document, index))
    )
    return manner_of(columns)


# --- page by page --------------------------------------------------------------------------------------------------


def _drafts(document: pdfium.PdfDocument, manner: Manner, progress: Progress | None) -> Iterator[list[Draft]]:
    pages = len(document)
    for page, neighbours in _with_neighbours(document):
        yield drafts_of(
            without_running(page, neighbours),
            manner,
            lambda box, index=page.number - 1: crop_of(document, index, box),  # type: ignore[misc]
        )
        if progress:
            progress(page.number, pages)


def _with_neighbours(document: pdfium.PdfDocument) -> Iterator[tuple[PageContent, list[PageContent]]]:
    window: deque[PageContent] = deque(maxlen=2 * _NEIGHBOURS + 1)
    pages = len(document)
    for index in range(pages):
        while (window[-1].number if window else 0) < min(index + 1 + _NEIGHBOURS, pages):
            window.append(page_content(document, window[-1].number if window else 0))
        page = next(page for page in window if page.number == index + 1)
        yield page, [other for other in window if 0 < abs(other.number - page.number) <= _NEIGHBOURS]


def _entities(pages: Iterator[list[Draft]], manner: Manner, file_name: str) -> Iterator[ParsedEntity]:
    """Each draft waits for the next, in which it may go on."""
    numbered = _Numbered(file_name)
    held: Draft | None = None
    for draft in chain.from_iterable(pages):
        joint = gone_on(held, draft, manner.vocabulary) if held else None
        if joint is None and held:
            draft = with_header_of(held, draft)
            yield numbered.entity(held)
        held = joint or draft
    if held:
        yield numbered.entity(held)


class _Numbered:
    """Gives each entity its place and its section."""

    def __init__(self, file_name: str) -> None:
        self._file_name = file_name
        self._sections = Sections()
        self._count = 0

    def entity(self, draft: Draft) -> ParsedEntity:
        is_first_heading = draft.rank is not None and self._sections.nearest is None
        if draft.rank is not None:
            self._sections.enter(draft.text, draft.rank)
        self._count += 1
        is_figure = draft.content_type is ContentType.figure
        text = draft.written()
        require_bounded(self._file_name, text, self._count)
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
