"""Tests of tagged pages: the structure that a file names, hostile ones, and tables with missing cells."""

from __future__ import annotations

from tests.systems.tripcortex.unit.documents.documents import build_raw_document, read
from tripcortex.documents.pdf.layout import NO_WORDS
from tripcortex.documents.pdf.page import Rect, Word
from tripcortex.documents.pdf.tagged import TaggedCell, build_table

SENTENCE = b"A room costs at most 200 USD."


def build_tagged_document(*elements: bytes, owner: int) -> bytes:
    """Build a page with one sentence. The elements of its structure are objects 8, 9, …

    `owner` is the number of the element that contains the sentence.
    """
    content = b"/P << /MCID 0 >> BDC BT /F1 12 Tf 72 700 Td (%s) Tj ET EMC" % SENTENCE
    return build_raw_document(
        [
            b"<< /Type /Catalog /Pages 2 0 R /MarkInfo << /Marked true >> /StructTreeRoot 6 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /StructParents 0 "
            b"/Resources << /Font << /F1 5 0 R >> >> >>",
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
            b"<< /Type /StructTreeRoot /K 8 0 R /ParentTree 7 0 R >>",
            b"<< /Nums [0 [%d 0 R]] >>" % owner,
            *elements,
        ]
    )


def describe(body: bytes) -> list[tuple[str, str]]:
    return [(entity.subtype, entity.text) for entity in read(body)]


def test_the_structure_decides_what_a_heading_is() -> None:
    document = b"<< /S /Document /P 6 0 R /K 9 0 R >>"
    heading = build_tagged_document(document, b"<< /S /H1 /P 8 0 R /Pg 3 0 R /K 0 >>", owner=9)
    paragraph = build_tagged_document(document, b"<< /S /P /P 8 0 R /Pg 3 0 R /K 0 >>", owner=9)
    assert describe(heading) == [("TITLE", SENTENCE.decode())]
    assert describe(paragraph) == [("PARAGRAPH", SENTENCE.decode())]


def test_reads_the_text_of_a_structure_that_refers_to_itself_or_is_very_deep() -> None:
    cycle = build_tagged_document(
        b"<< /S /Document /P 9 0 R /K [9 0 R 8 0 R] >>",
        b"<< /S /H1 /P 8 0 R /Pg 3 0 R /K [0 8 0 R 9 0 R] >>",
        owner=9,
    )
    depth = 5_000
    divisions = [b"<< /S /Div /P %d 0 R /K %d 0 R >>" % (max(6, 7 + at), 9 + at) for at in range(depth)]
    last = b"<< /S /H1 /P %d 0 R /Pg 3 0 R /K 0 >>" % (7 + depth)
    deep = build_tagged_document(*divisions, last, owner=8 + depth)
    assert [text for _, text in describe(cycle)] == [SENTENCE.decode()]
    assert [text for _, text in describe(deep)] == [SENTENCE.decode()]


def make_cell(
    text: str, left: float, *, rows: int = 1, columns: int = 1, is_header: bool = False
) -> TaggedCell:
    word = Word(text, Rect(left, 0, left + 30, 10), 10, is_header, 8, 0)
    return TaggedCell([word], rows, columns, is_header)


def test_a_cell_is_in_its_column_where_the_file_leaves_out_an_empty_one() -> None:
    table = build_table(
        [
            [make_cell("Route", 0), make_cell("Economy", 100), make_cell("Business", 200)],
            [make_cell("Short", 0), make_cell("$200", 100), make_cell("$300", 200)],
            [make_cell("Long", 0), make_cell("$900", 200)],
        ],
        NO_WORDS,
    )
    assert table is not None and table.rows[2] == ("Long", "", "$900")


def test_spanning_cells_are_repeated_and_header_rows_joined() -> None:
    table = build_table(
        [
            [make_cell("Route", 0, rows=2, is_header=True), make_cell("Cap", 100, columns=2, is_header=True)],
            [make_cell("Economy", 100, is_header=True), make_cell("Business", 200, is_header=True)],
            [make_cell("Home", 0, rows=2), make_cell("$200", 100), make_cell("$300", 200)],
            [make_cell("$210", 100), make_cell("$310", 200)],
            [make_cell("Abroad", 0, columns=3)],
        ],
        NO_WORDS,
    )
    assert table is not None and table.has_header
    assert table.rows == (
        ("Route", "Cap Economy", "Cap Business"),
        ("Home", "$200", "$300"),
        ("Home", "$210", "$310"),
        ("Abroad", "", ""),
    )
