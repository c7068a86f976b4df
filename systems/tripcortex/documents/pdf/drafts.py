"""Drafts: the entities of one PDF page in reading order, before they get their numbers and sections.

    words without tables and figures → lines → columns → blocks ┐
    tables and figures, each in its place among them            ┴→ captions attached → drafts

A draft at the end of a page may continue on the next: `join_continued` joins them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tripcortex.documents.ports import LIST, PARAGRAPH, SECTION_TITLE, TABLE, Box, ContentType

from .blocks import Block, Kind, Typography, build_blocks, is_unfinished
from .figures import FoundFigure, find_figures
from .layout import (
    NO_WORDS,
    Atom,
    PageObject,
    Vocabulary,
    join_lines,
    join_words,
    sort_in_reading_order,
    split_into_segments,
)
from .page import PageContent, Rect, Word
from .tables import FoundTable, find_tables, format_markdown_table

# A longer table is split into several entities, each with the header.
MAX_ROWS: Final = 400
# A text that continues across pages for longer than this is not one sentence.
MAX_PARAGRAPH_CHARS: Final = 20_000

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
    """An entity without its number and its section."""

    content_type: ContentType
    subtype: str
    text: str
    page: int
    boxes: tuple[Box, ...]
    # For a heading; a smaller number is a higher rank.
    rank: float | None = None
    # For a table, whose caption is `text`.
    rows: tuple[tuple[str, ...], ...] = ()
    edges: tuple[float, ...] = ()
    crop: bytes | None = None

    def render(self) -> str:
        """Return the text; for a table, the caption and the Markdown table."""
        if not self.rows:
            return self.text
        table = format_markdown_table(self.rows)
        return f"{self.text}\n\n{table}" if self.text else table


def text_columns(page: PageContent) -> list[list[Atom]]:
    """Return the page's lines by column in reading order, without the words in tables.

    Each table is in its place as a page object.
    """
    tables = [table.box for table in find_tables(page, NO_WORDS)]
    return _columns(page, _select_inside(page.words, tables), tables)


def build_drafts(page: PageContent, typography: Typography, crop: Crop) -> list[Draft]:
    """Return the drafts of a page in reading order. `crop` renders the picture of a figure."""
    tables = find_tables(page, typography.vocabulary)
    taken = _select_inside(page.words, [table.box for table in tables])
    others = [word for word in page.words if id(word) not in taken]
    figures = find_figures(page, [table.box for table in tables], others, typography.body_size)
    taken |= {id(word) for figure in figures for word in figure.words}
    things: list[Found] = [*tables, *figures]
    blocks = build_blocks(_columns(page, taken, [thing.box for thing in things]), typography)
    captions = _captions(blocks, things)
    return [
        _thing_draft(
            things[block.thing.index], blocks, captions.get(place), page, typography.vocabulary, crop
        )
        if block.thing
        else _text_draft(block, page, typography.vocabulary)
        for place, block in enumerate(blocks)
        if place not in captions.values()
    ]


def join_continued(held: Draft, following: Draft, vocabulary: Vocabulary) -> Draft | None:
    """Return one draft of two that only a page or column break separates, or None if they are separate.

    These are parts of a table with the same columns, and a sentence that continues on the next page.
    """
    if _is_rest_of_table(held, following):
        rows = following.rows[1:] if following.rows[0] == held.rows[0] else following.rows
        if len(held.rows) + len(rows) > MAX_ROWS:
            return None
        return replace(held, rows=held.rows + rows, boxes=held.boxes + following.boxes)
    is_next_page = following.page > held.boxes[-1].page
    if (
        is_next_page
        and held.subtype == following.subtype == PARAGRAPH
        and len(held.text) < MAX_PARAGRAPH_CHARS
        and is_unfinished(held.text, following.text)
    ):
        text = join_lines([held.text, following.text], vocabulary)
        return replace(held, text=text, boxes=held.boxes + following.boxes)
    return None


def repeat_header(held: Draft, following: Draft) -> Draft:
    """Return `following` with the header of `held` if it is the rest of that table, else unchanged.

    For a table that is too long for one entity.
    """
    if not _is_rest_of_table(held, following) or following.rows[0] == held.rows[0]:
        return following
    return replace(following, rows=(held.rows[0], *following.rows))


def _is_rest_of_table(held: Draft, following: Draft) -> bool:
    """Return whether `following` is a table that continues `held`.

    It has no caption and the same columns, and is on a new page or has the same header.
    """
    if not held.rows or not following.rows or following.text:
        return False
    is_next_page = following.page > held.boxes[-1].page
    return (is_next_page or following.rows[0] == held.rows[0]) and _same_columns(held, following)


def _same_columns(one: Draft, other: Draft) -> bool:
    """Return True if the columns have the same widths, at any position."""
    if len(one.edges) != len(other.edges):
        return False
    return all(
        abs((a - one.edges[0]) - (b - other.edges[0])) <= 4
        for a, b in zip(one.edges, other.edges, strict=True)
    )


def _columns(page: PageContent, taken: set[int], things: Sequence[Rect]) -> list[list[Atom]]:
    """Return the columns with tables and figures in their places, without the words inside them."""
    words = [word for word in page.words if id(word) not in taken]
    atoms: list[Atom] = [
        *split_into_segments(words),
        *(PageObject(box, index) for index, box in enumerate(things)),
    ]
    return list(sort_in_reading_order(atoms))


def _select_inside(words: Sequence[Word], boxes: Sequence[Rect]) -> set[int]:
    """Return the `id()`s of the words whose centre is in one of the boxes."""
    return {id(word) for word in words if any(box.contains(word.box) for box in boxes)}


def _captions(blocks: list[Block], things: Sequence[Found]) -> dict[int, int]:
    """Return the place of the caption block for each table and figure block that has one, by its place.

    A table's caption is looked for above it first, a figure's below it first.
    """
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
                and _is_caption_of(blocks[other], block, pattern)
            ):
                found[place] = other
                break
    return found


def _is_caption_of(block: Block, thing: Block, pattern: re.Pattern[str]) -> bool:
    """Return whether the block starts as a caption ("Table 2") and is near the table or figure."""
    if block.kind not in (Kind.paragraph, Kind.heading) or not pattern.match(block.lines[0].text):
        return False
    apart = max(thing.box.top - block.box.bottom, block.box.top - thing.box.bottom)
    return apart <= _CAPTION_NEAR


# --- drafts -------------------------------------------------------------------------------------------------


def _text_draft(block: Block, page: PageContent, vocabulary: Vocabulary) -> Draft:
    """Return the draft of a heading, list or paragraph."""
    subtype = {Kind.heading: SECTION_TITLE, Kind.items: LIST}.get(block.kind, PARAGRAPH)
    text = block.text(vocabulary)
    rank = _rank(block.size, text) if block.kind is Kind.heading else None
    return Draft(ContentType.text, subtype, text, page.number, (_box(block.box, page),), rank)


def _rank(size: float, text: str) -> float:
    """Rank a heading: larger letters rank higher; at the same size, the shorter number does."""
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
    """Return the draft of a table or a figure; `caption_at` is the place of its caption among the blocks."""
    caption = blocks[caption_at].text(vocabulary) if caption_at is not None else ""
    boxes = (_box(thing.box, page),)
    if isinstance(thing, FoundTable):
        return Draft(
            ContentType.table, TABLE, caption, page.number, boxes, rows=thing.rows, edges=thing.edges
        )
    labels = join_words(thing.words, vocabulary)
    text = "\n".join(part for part in (caption, labels) if part)
    text = text or f"A picture on page {page.number}, without a caption."
    return Draft(ContentType.figure, thing.subtype, text, page.number, boxes, crop=crop(thing.box))


def _box(box: Rect, page: PageContent) -> Box:
    """Return a rectangle in points as fractions of the page."""
    return Box(
        page.number,
        box.left / page.width,
        box.top / page.height,
        box.width / page.width,
        box.height / page.height,
    )
