"""The sample travel policy: its rules as a program reads them, and the same as a PDF that a person reads.

The demo uploads the one, and `rules` decides by the other. The bytes of the PDF are the same each time.
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

from .sample_policy_words import (
    COMPANY,
    EFFECTIVE,
    TITLE,
    Bars,
    Heading,
    NewPage,
    Part,
    Points,
    Rows,
    Words,
    parts,
)

FILE_NAME: Final = "northwind-travel-policy.pdf"

_WIDTH, _HEIGHT = letter
_MARGIN: Final = 1.15 * inch
_GUTTER: Final = 0.35 * inch
_INNER: Final = _WIDTH - 2 * _MARGIN
_INK: Final = colors.HexColor("#1f3a5f")
_SHADE: Final = colors.HexColor("#e6ecf3")

_BODY: Final = ParagraphStyle("body", fontName="Helvetica", fontSize=11, leading=16.5, spaceAfter=10)
_CELL: Final = ParagraphStyle("cell", fontName="Helvetica", fontSize=9.5, leading=12)
_CELL_HEAD: Final = ParagraphStyle("cell-head", parent=_CELL, fontName="Helvetica-Bold")
_CAPTION: Final = ParagraphStyle(
    "caption", fontName="Helvetica-Oblique", fontSize=9, leading=12, spaceBefore=4, spaceAfter=5
)
_TITLE: Final = ParagraphStyle(
    "title", fontName="Helvetica-Bold", fontSize=26, leading=32, textColor=_INK, spaceAfter=4
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
        textColor=_INK,
        spaceBefore=14,
        spaceAfter=8,
        keepWithNext=1,
    ),
    2: ParagraphStyle(
        "h2", fontName="Helvetica-Bold", fontSize=12, leading=15, spaceBefore=8, spaceAfter=5, keepWithNext=1
    ),
}


def policy_rules() -> dict[str, Any]:
    """What `policy_pdf` says, in the shape that `rules.TravelPolicy` reads."""
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
def policy_pdf() -> bytes:
    written = io.BytesIO()
    document = BaseDocTemplate(
        written,
        pagesize=letter,
        invariant=1,  # No date and no id of its own: the same bytes each time.
        title=f"{COMPANY}: {TITLE}",
        author=COMPANY,
        pageTemplates=[_one_column(), _two_columns()],
    )
    document.build(list(_flowables()))
    return written.getvalue()


# --- pages ---------------------------------------------------------------------------------------------------------


def _one_column() -> PageTemplate:
    frame = Frame(_MARGIN, _MARGIN, _INNER, _HEIGHT - 2 * _MARGIN, 0, 0, 0, 0)
    return PageTemplate("one", [frame], onPage=_around)


def _two_columns() -> PageTemplate:
    width = (_INNER - _GUTTER) / 2
    lefts = (_MARGIN, _MARGIN + width + _GUTTER)
    frames = [Frame(left, _MARGIN, width, _HEIGHT - 2 * _MARGIN, 0, 0, 0, 0) for left in lefts]
    return PageTemplate("two", frames, onPage=_around)


def _around(canvas: Canvas, _: BaseDocTemplate) -> None:
    """What stands on each page: a header, a rule, and the page's number."""
    canvas.saveState()
    canvas.setFont("Helvetica", 8)
    canvas.setFillColor(colors.grey)
    canvas.drawString(_MARGIN, _HEIGHT - 0.6 * inch, f"{COMPANY} · {TITLE}")
    canvas.drawRightString(_WIDTH - _MARGIN, _HEIGHT - 0.6 * inch, f"Effective {EFFECTIVE}")
    canvas.setStrokeColor(colors.lightgrey)
    canvas.line(_MARGIN, _HEIGHT - 0.68 * inch, _WIDTH - _MARGIN, _HEIGHT - 0.68 * inch)
    canvas.drawCentredString(_WIDTH / 2, 0.55 * inch, f"Page {canvas.getPageNumber()}")
    canvas.restoreState()


# --- what stands on them -------------------------------------------------------------------------------------------


def _flowables() -> Iterator[Flowable]:
    yield Paragraph(f"{COMPANY} {TITLE}", _TITLE)
    yield Paragraph(f"Version {policy_rules()['version']}, effective {EFFECTIVE}", _SUBTITLE)
    for part in parts(policy_rules()):
        yield from _drawn(part)


def _drawn(part: Part) -> Iterator[Flowable]:
    match part:
        case Heading():
            yield Paragraph(part.text, _HEADINGS[part.level])
        case Words():
            yield Paragraph(part.text, _BODY)
        case Points():
            yield _points(part)
        case Rows():
            yield KeepTogether([Paragraph(part.caption, _CAPTION), _table(part), Spacer(1, 10)])
        case Bars():
            yield KeepTogether([_chart(part), Paragraph(part.caption, _CAPTION), Spacer(1, 8)])
        case NewPage():
            yield NextPageTemplate("two" if part.is_two_columns else "one")
            yield PageBreak()


def _points(part: Points) -> ListFlowable:
    items = [ListItem(Paragraph(item, _BODY)) for item in part.items]
    if part.is_numbered:
        return ListFlowable(items, bulletType="1", bulletFormat="%s.", leftIndent=20, bulletFontSize=11)
    return ListFlowable(items, bulletType="bullet", start="•", leftIndent=20, bulletFontSize=11)


def _table(part: Rows) -> Table:
    cells = [
        [Paragraph(cell, _CELL_HEAD if row is part.rows[0] else _CELL) for cell in row] for row in part.rows
    ]
    widths = [width / sum(part.widths) * _INNER for width in part.widths]
    style = TableStyle(
        [
            ("GRID", (0, 0), (-1, -1), 0.5, colors.grey),
            ("BACKGROUND", (0, 0), (-1, 0), _SHADE),
            ("VALIGN", (0, 0), (-1, -1), "MIDDLE"),
            ("TOPPADDING", (0, 0), (-1, -1), 4),
            ("BOTTOMPADDING", (0, 0), (-1, -1), 5),
        ]
    )
    return Table(cells, colWidths=widths, style=style, repeatRows=1)


def _chart(part: Bars) -> Drawing:
    drawing = Drawing(_INNER, 170)
    chart = VerticalBarChart()
    chart.x, chart.y, chart.width, chart.height = 45, 25, _INNER - 90, 125
    chart.data = [part.values]
    chart.categoryAxis.categoryNames = list(part.names)
    chart.valueAxis.valueMin, chart.valueAxis.valueMax, chart.valueAxis.valueStep = 0, 500, 100
    chart.bars[0].fillColor = _INK
    chart.bars.strokeWidth = 0
    chart.barLabelFormat = "%d"
    chart.barLabels.nudge, chart.barLabels.fontSize = 8, 8
    drawing.add(chart)
    drawing.add(String(45, 158, part.unit, fontSize=8, fillColor=colors.grey))
    return drawing
