"""Builders of PDF documents with known contents, for the tests of the parsers."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from PIL import Image
from reportlab.lib import pdfencrypt  # type: ignore[import-untyped]
from reportlab.lib.colors import black, lightgrey  # type: ignore[import-untyped]
from reportlab.lib.pagesizes import letter  # type: ignore[import-untyped]
from reportlab.lib.styles import ParagraphStyle  # type: ignore[import-untyped]
from reportlab.lib.utils import ImageReader  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]
from reportlab.platypus import (  # type: ignore[import-untyped]
    BaseDocTemplate,
    Flowable,
    Frame,
    PageTemplate,
    Paragraph,
    Table,
    TableStyle,
)

from tripcortex.documents import ContentType, ParsedEntity
from tripcortex.documents.pdf.reader import PdfReader

WIDTH, HEIGHT = letter
BODY = ParagraphStyle("body", fontName="Helvetica", fontSize=10, leading=13, spaceAfter=8)
HEADING = ParagraphStyle(
    "heading", fontName="Helvetica-Bold", fontSize=15, leading=18, spaceBefore=10, spaceAfter=6
)
GRID = TableStyle([("GRID", (0, 0), (-1, -1), 0.5, black), ("BACKGROUND", (0, 0), (-1, 0), lightgrey)])
RULED = TableStyle(
    [
        ("LINEABOVE", (0, 0), (-1, 0), 1, black),
        ("LINEBELOW", (0, 0), (-1, 0), 0.5, black),
        ("LINEBELOW", (0, -1), (-1, -1), 1, black),
    ]
)

Around = Callable[[Canvas, int], None]


def draw_document(*pages: Callable[[Canvas], None], rotate: int = 0, **settings: object) -> bytes:
    """Build a document from functions that draw its pages."""
    written = io.BytesIO()
    canvas = Canvas(written, pagesize=letter, invariant=1, **settings)
    for page in pages:
        page(canvas)
        if rotate:
            canvas.setPageRotation(rotate)
        canvas.showPage()
    canvas.save()
    return written.getvalue()


def layout_document(
    flowables: Sequence[Flowable], *, columns: int = 1, around: Around | None = None
) -> bytes:
    """Build a document with automatic page breaks; `around` draws the header and footer of each page."""
    written = io.BytesIO()
    gutter = 24
    width = (WIDTH - 144 - gutter * (columns - 1)) / columns
    frames = [
        Frame(72 + (width + gutter) * place, 90, width, HEIGHT - 180, 0, 0, 0, 0) for place in range(columns)
    ]
    on_page = lambda canvas, _: around(canvas, canvas.getPageNumber()) if around else None  # noqa: E731
    document = BaseDocTemplate(
        written, pagesize=letter, pageTemplates=[PageTemplate("page", frames, onPage=on_page)]
    )
    document.build(list(flowables))
    return written.getvalue()


def heading(text: str) -> Flowable:
    return Paragraph(text, HEADING)


def paragraph(text: str) -> Flowable:
    return Paragraph(text, BODY)


def table(
    rows: Sequence[Sequence[str]], style: TableStyle = GRID, *, repeats_header: bool = True
) -> Flowable:
    return Table(rows, style=style, repeatRows=1 if repeats_header else 0)


def picture() -> ImageReader:
    image = Image.new("RGB", (80, 60), (200, 40, 40))
    written = io.BytesIO()
    image.save(written, "PNG")
    return ImageReader(io.BytesIO(written.getvalue()))


def scan(canvas: Canvas) -> None:
    """Draw a page that is only a picture."""
    canvas.drawImage(picture(), 0, 0, WIDTH, HEIGHT)


def build_encrypted_document() -> bytes:
    encryption = pdfencrypt.StandardEncryption("open sesame", canPrint=0)
    return draw_document(lambda canvas: canvas.drawString(72, 700, "secret"), encrypt=encryption)


def build_document_without_pages() -> bytes:
    """Build a valid PDF with an empty page tree."""
    return build_raw_document([b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [] /Count 0 >>"])


def build_raw_document(objects: Sequence[bytes]) -> bytes:
    """Build a PDF of these objects, which are numbered from 1; the first one is its catalog."""
    body, places = b"%PDF-1.7\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(body))
        body += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table_at = len(body)
    body += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    body += b"".join(b"%010d 00000 n \n" % place for place in places)
    trailer = b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n"
    return body + trailer % (len(objects) + 1, table_at)


def read(body: bytes) -> list[ParsedEntity]:
    """Parse a PDF in this process; return its entities."""
    return list(PdfReader().parse(body, "policy.pdf"))


def texts(entities: Sequence[ParsedEntity]) -> list[str]:
    return [entity.text for entity in entities]


def filter_by_type(entities: Sequence[ParsedEntity], kind: ContentType) -> list[ParsedEntity]:
    return [entity for entity in entities if entity.content_type is kind]
