"""Tests of the PDF parser on generated documents: headings, columns, lists, tables, figures, repairs."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image
from reportlab.pdfbase import pdfmetrics  # type: ignore[import-untyped]
from reportlab.pdfbase.ttfonts import TTFont  # type: ignore[import-untyped]
from reportlab.pdfgen.canvas import Canvas  # type: ignore[import-untyped]
from reportlab.platypus import PageBreak, Spacer, TableStyle  # type: ignore[import-untyped]

from tests.systems.tripcortex.unit.documents import documents
from tests.systems.tripcortex.unit.documents.documents import (
    HEIGHT,
    WIDTH,
    filter_by_type,
    heading,
    layout_document,
    paragraph,
    read,
    table,
    texts,
)
from tripcortex.documents import ContentType

SENTENCE = "Travellers book through the assistant and keep to what was booked. "


@pytest.mark.proves("TC-26", "TC-28", "TC-31")
def test_text_belongs_to_the_heading_above_it() -> None:
    entities = read(
        layout_document(
            [
                heading("1 Booking"),
                paragraph(SENTENCE * 4),
                paragraph("A second paragraph."),
                heading("2 Hotels"),
                paragraph("Rooms are booked for the nights that are needed."),
            ]
        )
    )
    assert [(entity.subtype, entity.section_title) for entity in entities] == [
        ("TITLE", "1 Booking"),
        ("PARAGRAPH", "1 Booking"),
        ("PARAGRAPH", "1 Booking"),
        ("SECTION_TITLE", "2 Hotels"),
        ("PARAGRAPH", "2 Hotels"),
    ]
    assert entities[1].text == (SENTENCE * 4).strip()


@pytest.mark.proves("TC-27", "TC-29", "TC-30")
def test_entities_have_a_page_an_order_and_a_unique_id() -> None:
    entities = read(
        layout_document([paragraph("One."), PageBreak(), paragraph("Two."), PageBreak(), paragraph("Three.")])
    )
    assert [(entity.page, entity.reading_order, entity.text) for entity in entities] == [
        (1, 1, "One."),
        (2, 2, "Two."),
        (3, 3, "Three."),
    ]
    assert len({entity.entity_id for entity in entities}) == 3


def test_smaller_headings_are_nested_in_larger_ones() -> None:
    def page(canvas: Canvas) -> None:
        for at, size, text in ((700, 24, "Policy"), (660, 16, "Air"), (630, 13, "Caps"), (540, 16, "Rail")):
            canvas.setFont("Helvetica-Bold", size)
            canvas.drawString(72, at, text)
        canvas.setFont("Helvetica", 10)
        for at, text in ((605, SENTENCE), (592, "Caps are in dollars."), (515, SENTENCE)):
            canvas.drawString(72, at, text)

    entities = [entity for entity in read(documents.draw_document(page)) if entity.subtype == "PARAGRAPH"]
    assert [entity.sections for entity in entities] == [("Policy", "Air", "Caps"), ("Policy", "Rail")]
    assert [entity.section_title for entity in entities] == ["Caps", "Rail"]


def test_bold_line_in_body_size_is_a_heading() -> None:
    entities = read(
        layout_document(
            [
                paragraph("<b>Who pays for baggage</b>"),
                paragraph(SENTENCE),
                paragraph(f"<b>Note:</b> {SENTENCE}"),
            ]
        )
    )
    assert [entity.subtype for entity in entities] == ["TITLE", "PARAGRAPH", "PARAGRAPH"]


def test_two_columns_are_read_one_after_the_other() -> None:
    sentences = [
        f"Sentence number {number} goes on for somewhat longer than a line does." for number in range(60)
    ]
    entities = read(layout_document([heading("Columns"), *map(paragraph, sentences)], columns=2))
    assert texts(entities) == ["Columns", *sentences]


def test_a_heading_across_two_columns_comes_before_both() -> None:
    def page(canvas: Canvas) -> None:
        canvas.setFont("Helvetica-Bold", 18)
        canvas.drawString(72, 720, "A heading that goes across the whole page above them")
        canvas.setFont("Helvetica", 10)
        for row in range(8):
            # Drawn line by line across both columns, as careless programs do.
            canvas.drawString(72, 690 - 12 * row, f"Left {row} and some words that fill the column")
            canvas.drawString(320, 690 - 12 * row, f"Right {row} and some words that fill the column")

    first, left, right = (entity.text for entity in read(documents.draw_document(page)))
    assert first.startswith("A heading")
    assert [word for word in left.split() if word.isdigit()] == list("01234567") and "Right" not in left
    assert [word for word in right.split() if word.isdigit()] == list("01234567") and "Left" not in right


def test_labels_with_values_are_not_columns() -> None:
    def page(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 10)
        for row in range(5):
            canvas.drawString(72, 700 - 12 * row, f"Label {row}")
            canvas.drawString(220, 700 - 12 * row, f"value {row}")

    (entity,) = read(documents.draw_document(page))
    assert entity.text == "\n".join(f"Label {row} value {row}" for row in range(5))


def test_reads_a_table_without_lines_by_its_alignment() -> None:
    before, rows, after = read(
        layout_document([paragraph("Before it."), table(CAPS, TableStyle([])), paragraph("After it.")])
    )
    assert (before.text, after.text) == ("Before it.", "After it.")
    assert rows.text.splitlines() == [
        "| Route | Cap |",
        "| --- | --- |",
        "| Domestic | 500 USD |",
        "| Long haul | 3,200 USD |",
    ]


def test_lists_are_kept_together_item_by_item() -> None:
    def page(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 10)
        canvas.drawString(72, 700, "Before you travel:")
        for at, mark, text in (
            (680, "•", "book early, and do so through the assistant"),
            (667, "", "or the travel desk"),
            (650, "•", "tell your manager"),
        ):
            canvas.drawString(80, at, mark)
            canvas.drawString(98, at, text)
        for at, text in ((620, "1. Choose a flight."), (607, "2. Wait for the approval.")):
            canvas.drawString(80, at, text)

    before, *lists = read(documents.draw_document(page))
    assert before.text == "Before you travel:"
    assert "\n".join(texts(lists)) == (
        "- book early, and do so through the assistant or the travel desk\n- tell your manager\n"
        "1. Choose a flight.\n2. Wait for the approval."
    )
    assert {entity.subtype for entity in lists} == {"LIST"}


# --- tables -------------------------------------------------------------------------------------------------

CAPS = [["Route", "Cap"], ["Domestic", "500 USD"], ["Long haul", "3,200 USD"]]


@pytest.mark.proves("TC-25")
@pytest.mark.parametrize("style", [documents.GRID, documents.RULED], ids=["a full grid", "lines across only"])
def test_a_table_is_markdown_with_its_header_and_its_caption(style: object) -> None:
    entities = read(
        layout_document(
            [
                heading("Caps"),
                paragraph(SENTENCE),
                paragraph("Table 2: Fare caps"),
                table(CAPS, style),
                Spacer(1, 20),
            ]
        )
    )
    (found,) = filter_by_type(entities, ContentType.table)
    assert found.text == (
        "Table 2: Fare caps\n\n| Route | Cap |\n| --- | --- |\n| Domestic | 500 USD |\n| Long haul | 3,200 "
        "USD |"
    )
    assert (found.subtype, found.section_title) == ("TABLE", "Caps")
    assert texts(filter_by_type(entities, ContentType.text)) == ["Caps", SENTENCE.strip()]


def test_escapes_a_vertical_bar_in_a_table_cell() -> None:
    (found,) = read(layout_document([table([["a|b", "c"], ["d", "e"]])]))
    assert found.text.splitlines()[0] == "| a\\|b | c |"


def test_cell_over_several_rows_is_repeated_in_each() -> None:
    def page(canvas: Canvas) -> None:
        for x in (72, 172, 272):
            canvas.line(x, 640, x, 700)
        for y, left in ((700, 72), (680, 72), (660, 172), (640, 72)):
            canvas.line(left, y, 272, y)
        for x, y, text in ((80, 686, "Route"), (180, 686, "Notice"), (80, 656, "Domestic")):
            canvas.drawString(x, y, text)
        canvas.drawString(180, 666, "14 days")
        canvas.drawString(180, 646, "7 days")

    (found,) = read(documents.draw_document(page))
    assert found.text.splitlines()[2:] == ["| Domestic | 14 days |", "| Domestic | 7 days |"]


@pytest.mark.parametrize("repeats_header", [True, False])
def test_each_page_of_a_table_has_its_caption_and_header(repeats_header: bool) -> None:
    rows = [["City", "Cap"], *([f"City {number}", f"{number} USD"] for number in range(60))]
    parts = read(layout_document([paragraph("Table 3: Caps"), table(rows, repeats_header=repeats_header)]))
    assert [part.page for part in parts] == [1, 2]
    assert all(part.text.startswith("Table 3: Caps\n\n| City | Cap |\n| --- | --- |\n") for part in parts)
    assert sum(part.text.count("| City ") for part in parts) == 60 + 2


@pytest.mark.parametrize("name", ["tagged.pdf", "untagged.pdf"])
def test_reads_a_document_that_a_browser_printed(name: str) -> None:
    """Centred and wrapped lines, drawn bullets, tables without a grid or over two pages, columns."""
    entities = read((PRINTED / name).read_bytes())
    assert [(each.page, each.section_title, each.text) for each in entities] == BROWSER_PRINTED


PRINTED = Path(__file__).parent / "printed"
TITLE = "Harbour Company Travel Rules"
BROWSER_PRINTED = [
    (1, TITLE, TITLE),
    (
        1,
        TITLE,
        "These rules apply to everyone who travels for the company, whether they are employed, on contract "
        "or invited, and to every journey that is paid by it.",
    ),
    (1, "1. Booking", "1. Booking"),
    (1, "1. Booking", "Tickets are bought early:"),
    (
        1,
        "1. Booking",
        "- Within the country: at least ten days before the departure, unless the harbour master has asked "
        "for the journey later than that.\n- Abroad: at least thirty days before.",
    ),
    (1, "2. What a ticket may cost", "2. What a ticket may cost"),
    (1, "2. What a ticket may cost", "The amounts are for one direction."),
    (
        1,
        "2. What a ticket may cost",
        "| Route | Highest fare | Who approves more |\n| --- | --- | --- |\n"
        "| Along the coast | $180 | Harbour master |",
    ),
    (
        2,
        "2. What a ticket may cost",
        "| Route | Highest fare | Who approves more |\n| --- | --- | --- |\n"
        "| Between two seas, or to a port that needs more than one flight | $640 | Board |\n"
        "| Overseas | $1,250 | Board |",
    ),
    (2, "3. Nights", "3. Nights"),
    (
        2,
        "3. Nights",
        "| City | Per night |\n| --- | --- |\n| Oslo | $210 |\n| Lisbon | $140 |\n| Elsewhere | $120 |",
    ),
    (2, "4. Meals", "4. Meals"),
    (2, "4. Meals", "| Meal | Amount |\n| --- | --- |\n| Breakfast | $12 |\n| Dinner | $38 |"),
    (2, "5. Cabins", "5. Cabins"),
    (
        2,
        "5. Cabins",
        "The crew travels in economy on every route. Officers may take premium economy if the flight is "
        "longer than nine hours.",
    ),
    (
        2,
        "5. Cabins",
        "Business class is bought only for pilots who work within a day of the landing, and the board "
        "approves it.",
    ),
]


# --- figures ------------------------------------------------------------------------------------------------


def draw_chart(canvas: Canvas) -> None:
    """Draw a sentence, a bar chart with labels and a caption, and a sentence after it."""
    canvas.setFont("Helvetica", 10)
    canvas.drawString(72, 720, SENTENCE)
    canvas.line(100, 500, 400, 500)
    canvas.line(100, 500, 100, 680)
    for place, height in enumerate((150, 90, 60)):
        canvas.rect(120 + 90 * place, 500, 50, height, fill=1)
        canvas.setFont("Helvetica", 8)
        canvas.drawString(135 + 90 * place, 488, f"Q{place + 1}")
        canvas.drawString(135 + 90 * place, 504 + height, str(height))
    canvas.setFont("Helvetica", 10)
    canvas.drawString(100, 465, "Figure 3: Spend by quarter of the year")
    canvas.drawString(72, 400, "Text after it.")


@pytest.mark.proves("TC-25", "TC-33")
def test_a_drawing_is_a_figure_with_a_box_a_crop_its_labels_and_its_caption() -> None:
    before, figure, after = read(documents.draw_document(draw_chart))
    assert (before.text, after.text) == (SENTENCE.strip(), "Text after it.")
    assert (figure.content_type, figure.subtype) == (ContentType.figure, "CHART")
    caption, labels = figure.text.splitlines()
    assert caption == "Figure 3: Spend by quarter of the year"
    assert sorted(labels.split()) == sorted(["Q1", "Q2", "Q3", "150", "90", "60"])
    (box,) = figure.boxes
    assert box.left * WIDTH == pytest.approx(100, abs=15) and (box.left + box.width) * WIDTH == pytest.approx(
        400, abs=15
    )
    assert (1 - box.top) * HEIGHT == pytest.approx(680, abs=15)
    assert (1 - box.top - box.height) * HEIGHT == pytest.approx(488, abs=15)
    assert figure.crop is not None
    crop = Image.open(io.BytesIO(figure.crop))
    assert crop.format == "PNG" and crop.width / crop.height == pytest.approx(
        box.width * WIDTH / (box.height * HEIGHT), rel=0.1
    )
    # Black bars on white: it shows what was drawn.
    assert crop.convert("L").getextrema() == (0, 255)
    assert figure.to_metadata()["bounding_boxes"] == [box.to_json()]


def test_a_picture_is_a_figure() -> None:
    def page(canvas: Canvas) -> None:
        canvas.drawString(72, 720, SENTENCE)
        canvas.drawImage(documents.picture(), 100, 500, 160, 120)
        canvas.drawString(100, 480, "Figure 1: A red field")

    _, figure = read(documents.draw_document(page))
    assert (figure.subtype, figure.text) == ("IMAGE", "Figure 1: A red field")
    assert figure.crop is not None
    middle = Image.open(io.BytesIO(figure.crop)).convert("RGB").getpixel((150, 120))
    assert middle == (200, 40, 40)


def test_drawing_inside_a_form_is_located_where_it_is_shown() -> None:
    def page(canvas: Canvas) -> None:
        canvas.beginForm("logo")
        for place in range(5):
            canvas.rect(20 * place, 0, 12, 20 + 15 * place, fill=1)
        canvas.endForm()
        canvas.drawString(72, 720, SENTENCE)
        canvas.translate(200, 300)
        canvas.doForm("logo")

    _, figure = read(documents.draw_document(page))
    assert figure.boxes[0].left * WIDTH == pytest.approx(200, abs=4)
    assert (1 - figure.boxes[0].top - figure.boxes[0].height) * HEIGHT == pytest.approx(300, abs=4)


def test_frame_around_a_text_is_not_a_figure() -> None:
    def page(canvas: Canvas) -> None:
        canvas.rect(60, 640, 480, 80)
        canvas.setFont("Helvetica", 10)
        for row in range(4):
            canvas.drawString(72, 700 - 14 * row, SENTENCE)

    (entity,) = read(documents.draw_document(page))
    assert entity.subtype == "PARAGRAPH" and entity.text.count("assistant") == 4


# --- omissions and repairs ----------------------------------------------------------------------------------


def test_running_headers_footers_and_page_numbers_are_left_out() -> None:
    def around(canvas: Canvas, page: int) -> None:
        canvas.setFont("Helvetica", 8)
        canvas.drawString(72, HEIGHT - 40, "Northwind Systems" if page % 2 else "Travel Policy 2026")
        canvas.drawImage(documents.picture(), WIDTH - 110, HEIGHT - 50, 40, 40)
        canvas.drawString(72, 40, "Confidential")
        canvas.drawCentredString(WIDTH / 2, 40, f"Page {page} of 5")

    pages = [part for number in range(5) for part in (paragraph(f"The text of page {number}."), PageBreak())]
    assert texts(read(layout_document(pages, around=around))) == [
        f"The text of page {number}." for number in range(5)
    ]


def test_keeps_a_margin_line_that_appears_once() -> None:
    def page(text: str) -> object:
        return lambda canvas: canvas.drawString(72, HEIGHT - 40, text)

    body = documents.draw_document(page("A first line, high up."), page("Something else."))  # type: ignore[arg-type]
    assert texts(read(body)) == ["A first line, high up.", "Something else."]


def test_joins_hyphenated_words() -> None:
    def page(canvas: Canvas) -> None:
        canvas.setFont("Helvetica", 10)
        lines = ("A long-haul flight needs an author-", "isation, and so does another long-", "haul one.")
        for row, line in enumerate(lines):
            canvas.drawString(72, 700 - 12 * row, line)

    (entity,) = read(documents.draw_document(page))
    assert entity.text == "A long-haul flight needs an authorisation, and so does another long-haul one."


def test_another_font_within_a_sentence_does_not_break_it() -> None:
    mono = '<font name="Courier" size="9">/usr/share/travel/policy-of-the-company.xml</font>'
    (entity,) = read(
        layout_document(
            [paragraph(f"The policy is kept in {mono} and in {mono}, and nowhere else. {SENTENCE * 2}")]
        )
    )
    assert entity.text.startswith("The policy is kept in /usr") and entity.text.endswith("booked.")


def test_joins_a_paragraph_across_pages() -> None:
    def first(canvas: Canvas) -> None:
        canvas.drawString(72, 100, "A trip that keeps to the policy needs no approval, and is booked as")

    def second(canvas: Canvas) -> None:
        canvas.drawString(72, 690, "soon as it is chosen.")
        canvas.drawString(72, 650, "Another begins.")

    entities = read(documents.draw_document(first, second))
    assert texts(entities) == [
        "A trip that keeps to the policy needs no approval, and is booked as soon as it is chosen.",
        "Another begins.",
    ]
    assert entities[0].page == 1 and [box.page for box in entities[0].boxes] == [1, 2]


@pytest.mark.parametrize("rotate", [90, 180, 270])
def test_reads_a_rotated_page_as_displayed(rotate: int) -> None:
    def page(canvas: Canvas) -> None:
        # Drawn so that the text is upright on the rotated page.
        canvas.translate(*{90: (HEIGHT, 0), 180: (WIDTH, HEIGHT), 270: (0, WIDTH)}[rotate])
        canvas.rotate(rotate)
        canvas.setFont("Helvetica", 10)
        canvas.drawString(72, 500, "First line of it, and")
        canvas.drawString(72, 488, "then the second.")

    (entity,) = read(documents.draw_document(page, rotate=rotate))
    assert entity.text == "First line of it, and then the second."
    assert entity.boxes[0].left * WIDTH == pytest.approx(72, abs=1)
    assert entity.boxes[0].top * HEIGHT == pytest.approx(HEIGHT - 510, abs=3)


def test_expands_ligatures() -> None:
    pdfmetrics.registerFont(TTFont("Vera", "Vera.ttf"))

    def page(canvas: Canvas) -> None:
        canvas.setFont("Vera", 10)
        canvas.drawString(72, 700, "The \ufb01nal \ufb02ight is con\ufb01rmed.")

    (entity,) = read(documents.draw_document(page))
    assert entity.text == "The final flight is confirmed."


def test_joins_a_table_across_columns() -> None:
    rows = [["City", "Cap"], *([f"City {number}", f"{number} USD"] for number in range(50))]
    (found,) = read(layout_document([table(rows)], columns=2))
    assert len(found.text.splitlines()) == 1 + 1 + 50 and len(found.boxes) == 2


def test_two_threads_read_documents_at_once() -> None:
    bodies = [
        layout_document([paragraph(f"Document {name}, part {part}.") for part in range(150)]) for name in "ab"
    ]
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(read, bodies)
    assert texts(one) == [f"Document a, part {part}." for part in range(150)]
    assert texts(other) == [f"Document b, part {part}." for part in range(150)]
