"""The sample travel policy: its rules as data, and a PDF document that states the same rules in prose.

The demo uploads the PDF, and `tripcortex.domain.policy_rules` applies the rules. The bytes of the PDF are the
same on each run.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from reportlab.graphics.charts.barcharts import VerticalBarChart  # type: ignore[import-untyped]
from reportlab.graphics.shapes import Drawing, String  # type: ignore[import-untyped]
from reportlab.lib import colors  # type: ignore[import-untyped]
from reportlab.lib.pagesizes import letter  # type: ignore[import-untyped]
from reportlab.lib.styles import ParagraphStyle  # type: ignore[import-untyped]
from reportlab.lib.units import inch  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]
from reportlab.platypus import (  # type: ignore[import-untyped]
    BaseDocTemplate,
    Flowable,
    Frame,
    KeepTogether,
    ListFlowable,
    ListItem,
    NextPageTemplate,
    PageBreak,
    PageTemplate,
    Paragraph,
    Spacer,
    Table,
    TableStyle,
)

from .policy_text import (
    COMPANY,
    EFFECTIVE,
    TITLE,
    BarChart,
    BulletList,
    Heading,
    PageStart,
    Part,
    TableRows,
    Text,
    write_parts,
)

FILE_NAME: Final = "northwind-travel-policy.pdf"

_WIDTH, _HEIGHT = letter
_MARGIN: Final = 1.15 * inch
_GUTTER: Final = 0.35 * inch
_TEXT_WIDTH: Final = _WIDTH - 2 * _MARGIN
_HEADING_COLOR: Final = colors.HexColor("#1f3a5f")
_HEADER_SHADE: Final = colors.HexColor("#e6ecf3")

_BODY: Final = ParagraphStyle("body", fontName="Helvetica", fontSize=11, leading=16.5, spaceAfter=10)
_CELL: Final = ParagraphStyle("cell", fontName="Helvetica", fontSize=9.5, leading=12)
_CELL_HEAD: Final = ParagraphStyle("cell-head", parent=_CELL, fontName="Helvetica-Bold")
_CAPTION: Final = ParagraphStyle(
    "caption", fontName="Helvetica-Oblique", fontSize=9, leading=12, spaceBefore=4, spaceAfter=5
)
_TITLE: Final = ParagraphStyle(
    "title", fontName="Helvetica-Bold", fontSize=26, leading=32, textColor=_HEADING_COLOR, spaceAfter=4
)
_SUBTITLE: Final = ParagraphStyle(
    "subtitle", fontName="Helvetica", fontSize=10.5, leading=15, textColor=colors.grey, spaceAfter=22
)
_HEADINGS: Final = {
    1: ParagraphStyle(
        "h1",
        fontName="Helvetica-Bold",
        fontSize=16,
        leading=20,
        textColor=_HEADING_COLOR,
        spaceBefore=14,
        spaceAfter=8,
        keepWithNext=1,
    ),
    2: ParagraphStyle(
        "h2", fontName="Helvetica-Bold", fontSize=12, leading=15, spaceBefore=8, spaceAfter=5, keepWithNext=1
    ),
}


def build_policy_rules() -> dict[str, Any]:
    """Return the rules of the document in the shape that `policy_rules.TravelPolicy` parses."""
    return {
        "version": "2026-03",
        "currency": "USD",
        "cabins": [
            {"max_duration_hours": 6, "cabin": "economy"},
            {"max_duration_hours": 10, "cabin": "premium_economy"},
            {"max_duration_hours": None, "cabin": "business"},
        ],
        "caps": [
            {"route": route, "days_ahead_min": days, "max_usd": usd}
            for route, by_notice in {
                "domestic": {14: 500, 7: 650, 0: 800},
                "short_haul": {14: 800, 7: 950, 0: 1_150},
                "long_haul": {14: 3_200, 7: 3_700, 0: 4_300},
            }.items()
            for days, usd in by_notice.items()
        ],
        "long_haul_km": 4_000,
        "advance_purchase_days": {"soft": 14, "hard": 1},
        "preferred_carriers": {"carriers": ["UA", "DL"], "within_percent": 15},
        "approval": {
            "approver": "line-manager",
            "soft_deadline_hours": 24,
            "hard_deadline_hours": 24,
            "at_deadline": "approve",
            "must_be_given": ["fare_above_cap"],
        },
        "hard_stops": ["cabin_above_policy"],
    }


@cache
def build_policy_pdf() -> bytes:
    """Return the document as a PDF; built once per process."""
    buffer = io.BytesIO()
    document = BaseDocTemplate(
        buffer,
        pagesize=letter,
        invariant=1,  # No date and no id in the file: the same bytes on each run.
        title=f"{COMPANY}: {TITLE}",
        author=COMPANY,
        pageTemplates=[_build_one_column(), _build_two_columns()],
    )
    document.build(list(_build_flowables()))
    return buffer.getvalue()


# --- pages --------------------------------------------------------------------------------------------------


def _build_one_column() -> PageTemplate:
    frame = Frame(_MARGIN, _MARGIN, _TEXT_WIDTH, _HEIGHT - 2 * _MARGIN, 0, 0, 0, 0)
    return PageTemplate("one", [frame], onPage=_draw_header_and_footer)


def _build_two_columns() -> PageTemplate:
    width = (_TEXT_WIDTH - _GUTTER) / 2
    lefts = (_MARGIN, _MARGIN + width + _GUTTER)
    frames = [Frame(left, _MARGIN, width, _HEIGHT - 2 * _MARGIN, 0, 0, 0, 0) for left in lefts]
    return PageTemplate("two", frames, onPage=_draw_header_and_footer)


def _draw_header_and_footer(canvas: Canvas, _: BaseDocTemplate) -> None:
    """Draw company, title and effective date, a rule, and the page number on each page."""
    canvas.saveState()
    canvas.setFont("Helvetica", 8)
    canvas.setFillColor(colors.grey)
    canvas.drawString(_MARGIN, _HEIGHT - 0.6 * inch, f"{COMPANY} · {TITLE}")
    canvas.drawRightString(_WIDTH - _MARGIN, _HEIGHT - 0.6 * inch, f"Effective {EFFECTIVE}")
    canvas.setStrokeColor(colors.lightgrey)
    canvas.line(_MARGIN, _HEIGHT - 0.68 * inch, _WIDTH - _MARGIN, _HEIGHT - 0.68 * inch)
    canvas.drawCentredString(_WIDTH / 2, 0.55 * inch, f"Page {canvas.getPageNumber()}")
    canvas.restoreState()


# --- content of the pages -----------------------------------------------------------------------------------


def _build_flowables() -> Iterator[Flowable]:
    """Yield the document's content as ReportLab flowables: title, version, then each part of the text."""
    yield Paragraph(f"{COMPANY} {TITLE}", _TITLE)
    yield Paragraph(f"Version {build_policy_rules()['version']}, effective {EFFECTIVE}", _SUBTITLE)
    for part in write_parts(build_policy_rules()):
        yield from _draw(part)


def _draw(part: Part) -> Iterator[Flowable]:
    """Yield the ReportLab flowables of one part of the text."""
    match part:
        case Heading():
            yield Paragraph(part.text, _HEADINGS[part.level])
        case Text():
            yield Paragraph(part.text, _BODY)
        case BulletList():
            yield _build_list(part)
        case TableRows():
            yield KeepTogether([Paragraph(part.caption, _CAPTION), _build_table(part), Spacer(1, 10)])
        case BarChart():
            yield KeepTogether([_build_chart(part), Paragraph(part.caption, _CAPTION), Spacer(1, 8)])
        case PageStart():
            yield NextPageTemplate("two" if part.is_two_columns else "one")
            yield PageBreak()


def _build_list(part: BulletList) -> ListFlowable:
    items = [ListItem(Paragraph(item, _BODY)) for item in part.items]
    if part.is_numbered:
        return ListFlowable(items, bulletType="1", bulletFormat="%s.", leftIndent=20, bulletFontSize=11)
    return ListFlowable(items, bulletType="bullet", start="•", leftIndent=20, bulletFontSize=11)


def _build_table(part: TableRows) -> Table:
    cells = [
        [Paragraph(cell, _CELL_HEAD if row is part.rows[0] else _CELL) for cell in row] for row in part.rows
    ]
    widths = [width / sum(part.widths) * _TEXT_WIDTH for width in part.widths]
    style = TableStyle(
        [
            ("GRID", (0, 0), (-1, -1), 0.5, colors.grey),
            ("BACKGROUND", (0, 0), (-1, 0), _HEADER_SHADE),
            ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ("TOPPADDING", (0, 0), (-1, -1), 4),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 5),
        ]
    )
    return Table(cells, colWidths=widths, style=style, repeatRows=1)


def _build_chart(part: BarChart) -> Drawing:
    drawing = Drawing(_TEXT_WIDTH, 170)
    chart = VerticalBarChart()
    chart.x, chart.y, chart.width, chart.height = 45, 25, _TEXT_WIDTH - 90, 125
    chart.data = [part.values]
    chart.categoryAxis.categoryNames = list(part.names)
    chart.valueAxis.valueMin, chart.valueAxis.valueMax, chart.valueAxis.valueStep = 0, 500, 100
    chart.bars[0].fillColor = _HEADING_COLOR
    chart.bars.strokeWidth = 0
    chart.barLabelFormat = "%d"
    chart.barLabels.nudge, chart.barLabels.fontSize = 8, 8
    drawing.add(chart)
    drawing.add(String(45, 158, part.unit, fontSize=8, fillColor=colors.grey))
    return drawing
