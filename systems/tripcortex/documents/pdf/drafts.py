"""Drafts: the entities of one PDF page in reading order, before they get their numbers and sections.

    words without tables and figures → lines → columns → blocks ┐
    tables and figures, each in its place among them            ┴→ captions attached → drafts

A draft at the end of a page may continue on the next: `join_continued` joins them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from tripcortex.documents.ports import LIST, PARAGRAPH, SECTION_TITLE, TABLE, Box, ContentType

from .aligned_tables import find_aligned_tables
from .blocks import (
    Block,
    Kind,
    Typography,
    build_blocks,
    is_heading,
    is_unfinished,
    measure_columns,
)
from .drawn_bullets import restore_drawn_bullets
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
from .tables import FoundTable, find_grid_tables, format_markdown_table
from .tagged import build_tagged_blocks

# A document whose structure has fewer headings on the measured pages does not name them.
_MIN_HEADINGS: Final = 3
# A text that continues across pages for longer than this is not one sentence.
MAX_PARAGRAPH_CHARS: Final = 20_000

_CAPTION_NEAR: Final = 36.0
# The columns of two parts of a table begin at most this share of the narrowest one apart.
_EDGE_NEAR: Final = 0.35
_BULLET_MARK: Final = re.compile(r"^- ")
_TABLE_CAPTION: Final = re.compile(r"^table\s+[\dA-Z]", re.IGNORECASE)
_FIGURE_CAPTION: Final = re.compile(
    r"^(?:figure|fig\.?|chart|diagram|graph|image|picture|photo|exhibit|map|illustration)\s+[\dA-Z]",
    re.IGNORECASE,
)
_NUMBERING: Final = re.compile(r"^(\d+(?:\.\d+)*)\.?\s")

# The rank of headings that are below all levels of a page's structure.
_BELOW_LEVELS: Final = 7.0

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
    has_header: bool = False
    crop: bytes | None = None
    # For a list at the top of a page: whether its first item continues one of the page before.
    continues_item: bool = False

    def render(self) -> str:
        """Return the text; for a table, the caption and the Markdown table."""
        if not self.rows:
            return self.text
        table = format_markdown_table(self.rows)
        return f"{self.text}\n\n{table}" if self.text else table


def measure_typography(pages: Iterable[PageContent]) -> Typography:
    """Return the typography measured on these pages."""
    headings = 0

    def read_columns() -> Iterator[list[Atom]]:
        nonlocal headings
        for page in pages:
            headings += page.structure.count_headings() if page.structure else 0
            tables = [table.box for table in find_tables(page, page.words, NO_WORDS)]
            yield from _columns(page.words, _select_inside(page.words, tables), tables)

    typography = measure_columns(read_columns())
    return replace(typography, has_headings=headings >= _MIN_HEADINGS)


def build_drafts(page: PageContent, typography: Typography, crop: Crop) -> list[Draft]:
    """Return the drafts of a page in reading order. `crop` renders the picture of a figure."""
    found = _read_tagged(page, typography) or _read_layout(restore_drawn_bullets(page), typography)
    blocks, things = found
    captions = _captions(blocks, things)
    return [
        _thing_draft(
            things[block.thing.index], blocks, captions.get(place), page, typography.vocabulary, crop
        )
        if block.thing
        else _text_draft(block, page, typography)
        for place, block in enumerate(blocks)
        if place not in captions.values()
    ]


def _read_layout(page: PageContent, typography: Typography) -> tuple[list[Block], list[Found]]:
    """Return the blocks of a page by its layout, and the tables and figures that they refer to."""
    tables = find_tables(page, page.words, typography.vocabulary)
    taken = _select_inside(page.words, [table.box for table in tables])
    others = [word for word in page.words if id(word) not in taken]
    figures = find_figures(page, [table.box for table in tables], others, typography.body_size)
    taken |= {id(word) for figure in figures for word in figure.words}
    things: list[Found] = [*tables, *figures]
    return build_blocks(_columns(page.words, taken, [thing.box for thing in things]), typography), things


def find_tables(page: PageContent, words: Sequence[Word], vocabulary: Vocabulary) -> list[FoundTable]:
    """Return the tables among these words of a page: first those with a grid, then those without."""
    grids = find_grid_tables(replace(page, words=tuple(words)), vocabulary)
    taken = _select_inside(words, [table.box for table in grids])
    others = [word for word in words if id(word) not in taken]
    return [*grids, *find_aligned_tables(others, page.rules, vocabulary)]


def _read_tagged(page: PageContent, typography: Typography) -> tuple[list[Block], list[Found]] | None:
    """Return the same by the structure of the page; None if it has none that covers its text."""

    def read_loose(words: list[Word], first: int) -> tuple[list[Block], list[FoundTable]]:
        tables = find_tables(page, words, typography.vocabulary)
        taken = _select_inside(words, [table.box for table in tables])
        blocks = build_blocks(_columns(words, taken, [table.box for table in tables]), typography)
        for block in blocks:
            if block.thing:
                block.thing = replace(block.thing, index=first + block.thing.index)
        return blocks, tables

    tagged = build_tagged_blocks(page, typography.vocabulary, read_loose)
    if tagged is None:
        return None
    blocks, tables = tagged
    for block in blocks:
        if block.kind is Kind.paragraph and is_heading(block, typography):
            block.kind = Kind.heading
    figures = [
        figure
        for figure in find_figures(page, [table.box for table in tables], page.words, typography.body_size)
        if not figure.words
    ]
    return _insert_figures(blocks, figures, len(tables)), [*tables, *figures]


def _insert_figures(blocks: list[Block], figures: Sequence[FoundFigure], first: int) -> list[Block]:
    """Return the blocks with each figure before the first block that begins below it."""
    placed = list(blocks)
    for index, figure in enumerate(figures, first):
        block = Block(Kind.thing, thing=PageObject(figure.box, index))
        below = (place for place, each in enumerate(placed) if each.box.top >= figure.box.bottom - 2)
        placed.insert(next(below, len(placed)), block)
    return placed


def join_continued(held: Draft, following: Draft, vocabulary: Vocabulary) -> Draft | None:
    """Return one draft of two that only a page or column break separates, or None if they are separate.

    These are parts of a table in two columns of one page, and a sentence that continues on the next page.
    """
    is_next_page = following.page > held.boxes[-1].page
    if not is_next_page and _is_rest_of_table(held, following):
        rows = following.rows[1:] if following.rows[0] == held.rows[0] else following.rows
        return replace(held, rows=held.rows + rows, boxes=held.boxes + following.boxes)
    if is_next_page and len(held.text) < MAX_PARAGRAPH_CHARS and _continues_text(held, following):
        text = join_lines([held.text, _BULLET_MARK.sub("", following.text)], vocabulary)
        return replace(held, text=text, boxes=held.boxes + following.boxes)
    return None


def _continues_text(held: Draft, following: Draft) -> bool:
    """Return whether a paragraph, or the last item of a list, continues in the next draft."""
    if following.subtype == PARAGRAPH:
        return held.subtype in (PARAGRAPH, LIST) and is_unfinished(held.text, following.text)
    first = _BULLET_MARK.sub("", following.text)
    is_single = following.subtype == held.subtype == LIST and "\n" not in following.text
    return is_single and following.continues_item and is_unfinished(held.text, first)


def repeat_header(held: Draft, following: Draft) -> Draft:
    """Return `following` with the header and the caption of `held` if it is the rest of that table.

    For a table that continues on the next page.
    """
    if not _is_rest_of_table(held, following):
        return following
    is_repeated = following.rows[0] == held.rows[0]
    rows = following.rows if is_repeated else (held.rows[0], *following.rows)
    return replace(following, text=held.text, rows=rows, edges=held.edges)


def _is_rest_of_table(held: Draft, following: Draft) -> bool:
    """Return whether `following` is a table that continues `held`.

    It has no caption and the same columns, and is on a new page or has the same header.
    """
    if not held.rows or not following.rows or following.text:
        return False
    if following.rows[0] == held.rows[0]:
        return True
    return (
        not following.has_header and following.page > held.boxes[-1].page and _same_columns(held, following)
    )


def _same_columns(one: Draft, other: Draft) -> bool:
    """Return whether the columns begin at about the same distances from the left, at any position."""
    if len(one.edges) != len(other.edges):
        return False
    near = max(4.0, _EDGE_NEAR * min(right - left for left, right in pairwise(one.edges)))
    return all(
        abs((a - one.edges[0]) - (b - other.edges[0])) <= near
        for a, b in zip(one.edges[:-1], other.edges[:-1], strict=True)
    )


def _columns(words: Sequence[Word], taken: set[int], things: Sequence[Rect]) -> list[list[Atom]]:
    """Return the columns with tables and figures in their places, without the words inside them."""
    atoms: list[Atom] = [
        *split_into_segments(word for word in words if id(word) not in taken),
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


def _text_draft(block: Block, page: PageContent, typography: Typography) -> Draft:
    """Return the draft of a heading, list or paragraph."""
    subtype = {Kind.heading: SECTION_TITLE, Kind.items: LIST}.get(block.kind, PARAGRAPH)
    text = block.text(typography.vocabulary)
    rank = _rank(block, text, typography) if block.kind is Kind.heading else None
    return Draft(
        ContentType.text,
        subtype,
        text,
        page.number,
        (_box(block.box, page),),
        rank,
        continues_item=block.continues_item,
    )


def _rank(block: Block, text: str, typography: Typography) -> float:
    """Rank a heading: by its level in the page's structure, else by its size; then by its number.

    Larger letters rank higher, and at the same size the shorter number does.
    """
    numbering = _NUMBERING.match(text)
    deeper = 0.01 * (numbering[1].count(".") if numbering else 0)
    if block.level is not None:
        return block.level + deeper
    return deeper - block.size if not typography.has_headings else _BELOW_LEVELS + deeper - 0.001 * block.size


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
            ContentType.table,
            TABLE,
            caption,
            page.number,
            boxes,
            rows=thing.rows,
            edges=thing.edges,
            has_header=thing.has_header,
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
