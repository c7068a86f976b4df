"""What one page of a PDF is made of, in reading order: entities that do not know their section yet.

    words without tables and figures → lines → columns → blocks ┐
    tables, figures, each in its place among them                ┴→ captions to what they are of → drafts

A draft at the end of a page may go on at the next: `gone_on` joins them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from .pdf_blocks import Block, Kind, Manner, blocks_of, is_unfinished
from .pdf_figures import FoundFigure, figures_of
from .pdf_layout import NO_WORDS, Atom, Thing, Vocabulary, in_reading_order, joined, segments, text_of
from .pdf_page import PageContent, Rect, Word
from .pdf_tables import FoundTable, markdown_table, tables_of
from .ports import LIST, PARAGRAPH, SECTION_TITLE, TABLE, Box, ContentType

# A table that goes on for longer than this is given in parts, each with the header.
ROWS_MAX: Final = 400
# A sentence that goes on from page to page for longer than this is none.
PARAGRAPH_CHARS_MAX: Final = 20_000

_CAPTION_NEAR: Final = 36.0
_TABLE_CAPTION: Final = re.compile(r"^table\s+[\dA-Z]", re.IGNORECASE)
_FIGURE_CAPTION: Final = re.compile(
    r"^(?:figure|fig\.?|chart|diagram|graph|image|picture|photo|exhibit|map|illustration)\s+[\dA-Z]",
    re.IGNORECASE,
)
_NUMBERING: Final = re.compile(r"^(\d+(?:\.\d+)*)\.?\s")

Crop = Callable[[Rect], bytes | None]
Found = FoundTable | FoundFigure


@dataclass(frozen=True, slots=True)
class Draft:
    content_type: ContentType
    subtype: str
    text: str
    page: int
    boxes: tuple[Box, ...]
    # Of a heading: the smaller, the higher.
    rank: float | None = None
    # Of a table; its caption is `text` until it is given.
    rows: tuple[tuple[str, ...], ...] = ()
    edges: tuple[float, ...] = ()
    crop: bytes | None = None

    def written(self) -> str:
        if not self.rows:
            return self.text
        table = markdown_table(self.rows)
        return f"{self.text}\n\n{table}" if self.text else table


def text_columns(page: PageContent) -> list[list[Atom]]:
    """The page's lines by columns, without what is in tables."""
    tables = [table.box for table in tables_of(page, NO_WORDS)]
    return _columns(page, _held(page.words, tables), tables)


def drafts_of(page: PageContent, manner: Manner, crop: Crop) -> list[Draft]:
    tables = tables_of(page, manner.vocabulary)
    taken = _held(page.words, [table.box for table in tables])
    others = [word for word in page.words if id(word) not in taken]
    figures = figures_of(page, [table.box for table in tables], others, manner.body_size)
    taken |= {id(word) for figure in figures for word in figure.words}
    things: list[Found] = [*tables, *figures]
    blocks = blocks_of(_columns(page, taken, [thing.box for thing in things]), manner)
    captions = _captions(blocks, things)
    return [
        _thing_draft(things[block.thing.index], blocks, captions.get(place), page, manner.vocabulary, crop)
        if block.thing
        else _text_draft(block, page, manner.vocabulary)
        for place, block in enumerate(blocks)
        if place not in captions.values()
    ]


def gone_on(held: Draft, following: Draft, vocabulary: Vocabulary) -> Draft | None:
    """Both as one where only a page or a column breaks them: a table with the same columns, a sentence not at its end."""
    if _is_rest_of_table(held, following):
        rows = following.rows[1:] if following.rows[0] == held.rows[0] else following.rows
        if len(held.rows) + len(rows) > ROWS_MAX:
            return None
        return replace(held, rows=held.rows + rows, boxes=held.boxes + following.boxes)
    is_next_page = following.page > held.boxes[-1].page
    if (
        is_next_page
        and held.subtype == following.subtype == PARAGRAPH
        and len(held.text) < PARAGRAPH_CHARS_MAX
        and is_unfinished(held.text, following.text)
    ):
        text = joined([held.text, following.text], vocabulary)
        return replace(held, text=text, boxes=held.boxes + following.boxes)
    return None


def with_header_of(held: Draft, following: Draft) -> Draft:
    """A part of a table that is too long to be given whole."""
    if not _is_rest_of_table(held, following) or following.rows[0] == held.rows[0]:
        return following
    return replace(following, rows=(held.rows[0], *following.rows))


def _is_rest_of_table(held: Draft, following: Draft) -> bool:
    if not held.rows or not following.rows or following.text:
        return False
    is_next_page = following.page > held.boxes[-1].page
    return (is_next_page or following.rows[0] == held.rows[0]) and _same_columns(held, following)


def _same_columns(one: Draft, other: Draft) -> bool:
    """Of the same widths, wherever they stand."""
    if len(one.edges) != len(other.edges):
        return False
    return all(
        abs((a - one.edges[0]) - (b - other.edges[0])) <= 4
        for a, b in zip(one.edges, other.edges, strict=True)
    )


def _columns(page: PageContent, taken: set[int], things: Sequence[Rect]) -> list[list[Atom]]:
    """By columns, without the words that tables and figures have taken, and with those in their places."""
    words = [word for word in page.words if id(word) not in taken]
    atoms: list[Atom] = [*segments(words), *(Thing(box, index) for index, box in enumerate(things))]
    return list(in_reading_order(atoms))


def _held(words: Sequence[Word], boxes: Sequence[Rect]) -> set[int]:
    return {id(word) for word in words if any(box.holds(word.box) for box in boxes)}


def _captions(blocks: list[Block], things: Sequence[Found]) -> dict[int, int]:
    """Of each table and figure, by its place among the blocks, the place of its caption."""
    found: dict[int, int] = {}
    for place, block in enumerate(blocks):
        if block.thing is None:
            continue
        is_table = isinstance(things[block.thing.index], FoundTable)
        pattern = _TABLE_CAPTION if is_table else _FIGURE_CAPTION
        for other in (place - 1, place + 1) if is_table else (place + 1, place - 1):
            if (
                0 <= other < len(blocks)
                and other not in found.values()
                and _captions_it(blocks[other], block, pattern)
            ):
                found[place] = other
                break
    return found


def _captions_it(block: Block, thing: Block, pattern: re.Pattern[str]) -> bool:
    if block.kind not in (Kind.paragraph, Kind.heading) or not pattern.match(block.lines[0].text):
        return False
    apart = max(thing.box.top - block.box.bottom, block.box.top - thing.box.bottom)
    return apart <= _CAPTION_NEAR


# --- drafts --------------------------------------------------------------------------------------------------------


def _text_draft(block: Block, page: PageContent, vocabulary: Vocabulary) -> Draft:
    subtype = {Kind.heading: SECTION_TITLE, Kind.items: LIST}.get(block.kind, PARAGRAPH)
    text = block.text(vocabulary)
    rank = _rank(block.size, text) if block.kind is Kind.heading else None
    return Draft(ContentType.text, subtype, text, page.number, (_box(block.box, page),), rank)


def _rank(size: float, text: str) -> float:
    """Larger letters stand higher; of the same size, the shorter number."""
    numbering = _NUMBERING.match(text)
    return -size + 0.01 * (numbering[1].count(".") if numbering else 0)


def _thing_draft(
    thing: Found,
    blocks: list[Block],
    caption_at: int | None,
    page: PageContent,
    vocabulary: Vocabulary,
    crop: Crop,
) -> Draft:
    caption = blocks[caption_at].text(vocabulary) if caption_at is not None else ""
    boxes = (_box(thing.box, page),)
    if isinstance(thing, FoundTable):
        return Draft(
            ContentType.table, TABLE, caption, page.number, boxes, rows=thing.rows, edges=thing.edges
        )
    labels = text_of(thing.words, vocabulary)
    text = "\n".join(part for part in (caption, labels) if part)
    text = text or f"A picture on page {page.number}, without a caption."
    return Draft(ContentType.figure, thing.subtype, text, page.number, boxes, crop=crop(thing.box))


def _box(box: Rect, page: PageContent) -> Box:
    return Box(
        page.number,
        box.left / page.width,
        box.top / page.height,
        box.width / page.width,
        box.height / page.height,
    )
