"""Tests that long PDF documents are read page by page in constant memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from itertools import islice

import psutil
import pytest
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]

from tests.systems.tripcortex.unit.documents import documents
from tripcortex.documents import ParsedEntity
from tripcortex.documents.pdf.reader import PdfReader

PAGES = 30
PAGES_LONG = 500


def build_body(pages: int) -> bytes:
    """Build a PDF with a heading, twelve lines and a picture on each page."""

    def page(number: int) -> object:
        def draw(canvas: Canvas) -> None:
            canvas.setFont("Helvetica-Bold", 15)
            canvas.drawString(72, 700, f"{number} A section of its own")
            canvas.setFont("Helvetica", 10)
            for row in range(12):
                canvas.drawString(
                    72, 660 - 12 * row, f"Line {row} of page {number} says what holds there and why."
                )
            canvas.drawImage(documents.picture(), 100, 300, 80, 60)
            canvas.drawCentredString(300, 30, f"Page {number}")

        return draw

    return documents.draw_document(*(page(number) for number in range(1, pages + 1)))  # type: ignore[arg-type]


def measure_peak_by_page(entities: Iterator[ParsedEntity], pages: tuple[int, ...]) -> list[int]:
    """Return Python's peak memory up to each of the pages; the entities are discarded."""
    peaks: list[int] = []
    tracemalloc.start()
    try:
        for entity in entities:
            if len(peaks) < len(pages) and (entity.page or 0) >= pages[len(peaks)]:
                gc.collect()
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.reset_peak()
    finally:
        tracemalloc.stop()
    return peaks


def get_resident_bytes() -> int:
    """Return the process's resident memory, PDFium included."""
    return int(psutil.Process().memory_info().rss)


def test_thirty_pages_need_no_more_memory_than_ten() -> None:
    progress_calls: list[tuple[int, int]] = []
    entities = PdfReader().parse(
        build_body(PAGES), "long.pdf", progress=lambda page, pages: progress_calls.append((page, pages))
    )
    early, late = measure_peak_by_page(entities, (10, PAGES))
    assert late < 1.3 * early
    assert progress_calls == [(page, PAGES) for page in range(1, PAGES + 1)]


def test_yields_entities_before_the_last_page_is_read() -> None:
    pages_read: list[int] = []
    entities = PdfReader().parse(
        build_body(PAGES), "long.pdf", progress=lambda page, _: pages_read.append(page)
    )
    assert len(list(islice(entities, 6))) == 6
    assert len(pages_read) <= 3


@pytest.mark.soak
def test_five_hundred_pages_need_no_more_memory_than_a_hundred() -> None:
    entities = PdfReader().parse(build_body(PAGES_LONG), "long.pdf")
    peaks: list[int] = []
    sections = set()
    for entity in entities:
        sections.add(entity.section_title)
        if entity.page in (100, PAGES_LONG) and len(peaks) < 1 + (entity.page == PAGES_LONG):
            peaks.append(get_resident_bytes())
    assert len(sections) == PAGES_LONG
    assert peaks[1] < 1.2 * peaks[0]
