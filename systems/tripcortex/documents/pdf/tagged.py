"""Text blocks of a tagged page: its headings, paragraphs, lists and tables as its structure tree names them.

Text outside of these, such as the boxes of a web page, is read by its layout, in its place between them. Pure
functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from .blocks import Block, Kind
from .layout import PageObject, TextLine, Vocabulary, build_line, join_lines
from .page import PageContent, Rect, Word, enclose
from .structure import BLOCKS, HEADINGS, MAX_SPAN, StructureElement
from .tables import FoundTable

# The share of a page's letters, apart from its margins, that the structure must contain.
_MIN_TAGGED_SHARE: Final = 0.9
# Headers and footers are outside of the structure of a page.
_MARGIN: Final = 0.11
# A number or a bullet that a style sheet added belongs to the text that is at most this many sizes away.
_ADDED_NEAR: Final = 3.0
# A "heading" with more words is a paragraph.
_MAX_HEADING_WORDS: Final = 40
# A table with a longer cell arranges the page.
_MAX_CELL_WORDS: Final = 150

_CELLS: Final = ("TH", "TD")
# Reads words that the structure does not describe: returns their blocks and the tables among them.
ReadLoose = Callable[[list[Word], int], tuple[list[Block], list[FoundTable]]]


def build_tagged_blocks(
    page: PageContent, vocabulary: Vocabulary, read_loose: ReadLoose
) -> tuple[list[Block], list[FoundTable]] | None:
    """Return the blocks of a tagged page in reading order, and the tables that they refer to.

    Return None if the page has no structure, or one that leaves out much of its text.
    """
    if page.structure is None:
        return None
    words = _adopt_added_words(page.words)
    known = set(page.structure.content_ids())
    if not _covers_text(page, words, known):
        return None
    by_id: dict[int, list[Word]] = {}
    for word in sorted(words, key=lambda word: word.order):
        by_id.setdefault(word.content_id, []).append(word)
    walk = _StructureWalk(by_id, vocabulary, read_loose)
    walk.walk(page.structure)
    walk.flush()
    return walk.blocks, walk.tables


def _adopt_added_words(words: Sequence[Word]) -> list[Word]:
    """Give words outside of the structure the content id of the text next to them in the same line.

    Browsers leave the numbers and bullets that a style sheet adds out of the structure.
    """
    ordered = sorted(words, key=lambda word: word.order)
    adopted = {id(word): word for word in ordered}
    for word, following in reversed(list(pairwise(ordered))):
        owner = adopted[id(following)]
        if word.content_id < 0 <= owner.content_id and _is_next_to(word, following):
            adopted[id(word)] = replace(word, content_id=owner.content_id)
    return [adopted[id(word)] for word in ordered]


def _is_next_to(word: Word, following: Word) -> bool:
    """Return whether the second word follows the first one in the same line."""
    gap = following.box.left - word.box.right
    return abs(word.base - following.base) <= 0.3 * following.size and -1 <= gap <= _ADDED_NEAR * word.size


def _covers_text(page: PageContent, words: Sequence[Word], known: set[int]) -> bool:
    """Return whether the structure contains nearly all text of the page apart from its margins."""
    top, bottom = _MARGIN * page.height, (1 - _MARGIN) * page.height
    inner = [word for word in words if word.box.bottom > top and word.box.top < bottom] or words
    letters = sum(len(word.text) for word in inner)
    tagged = sum(len(word.text) for word in inner if word.content_id in known)
    return letters > 0 and tagged >= _MIN_TAGGED_SHARE * letters


@dataclass(slots=True)
class _StructureWalk:
    """A walk through the structure of one page; collects its blocks and tables."""

    words: dict[int, list[Word]]
    vocabulary: Vocabulary
    read_loose: ReadLoose
    blocks: list[Block] = field(default_factory=list)
    tables: list[FoundTable] = field(default_factory=list)
    _loose: list[Word] = field(default_factory=list)

    def walk(self, element: StructureElement) -> None:
        """Add the blocks of an element and all below it."""
        for part in element.parts:
            if isinstance(part, int):
                self._loose += self.words.pop(part, [])
            elif part.type in HEADINGS:
                self._add_heading(part)
            elif part.type == "L" and not _is_arrangement(part):
                self._add_list(part)
            elif part.type == "Table" and self._is_data(part):
                self._add_table(part)
            elif part.type in BLOCKS and not part.has_blocks():
                self._add_paragraph(part)
            else:
                self.walk(part)

    def flush(self) -> None:
        """Read the words since the last block, which no block contains, by their layout."""
        if self._loose:
            words, self._loose = self._loose, []
            blocks, tables = self.read_loose(words, len(self.tables))
            self.blocks += blocks
            self.tables += tables

    def _take(self, element: StructureElement) -> list[Word]:
        """Return the words of an element, each once."""
        return [word for each in element.content_ids() for word in self.words.pop(each, [])]

    def _add(self, block: Block) -> None:
        self.flush()
        self.blocks.append(block)

    def _add_heading(self, element: StructureElement) -> None:
        """Add a heading with its level; a very long one is a paragraph."""
        lines = build_lines_in_order(self._take(element))
        if not lines:
            return
        is_long = sum(len(line.words) for line in lines) > _MAX_HEADING_WORDS
        self._add(
            Block(Kind.paragraph, lines)
            if is_long
            else Block(Kind.heading, lines, level=HEADINGS[element.type])
        )

    def _add_paragraph(self, element: StructureElement) -> None:
        if lines := build_lines_in_order(self._take(element)):
            self._add(Block(Kind.paragraph, lines))

    # --- lists ----------------------------------------------------------------------------------------------

    def _add_list(self, element: StructureElement) -> None:
        block = Block(Kind.items)
        self._collect_items(element, block, 0)
        block.lines = [line for item in block.items for line in item]
        block.continues_item = not _is_labelled(element)
        if block.lines:
            self._add(block)

    def _collect_items(self, element: StructureElement, block: Block, depth: int) -> None:
        """Add the items of a list and of the lists in them to the block."""
        for item in element.elements:
            if item.type == "L":
                self._collect_items(item, block, depth + 1)
                continue
            inner = list(find_elements(item, "L"))
            own = [word for each in _own_content_ids(item) for word in self.words.pop(each, [])]
            if lines := build_lines_in_order(own):
                block.items.append(lines)
                block.depths.append(depth)
            for each in inner:
                self._collect_items(each, block, depth + 1)

    # --- tables ---------------------------------------------------------------------------------------------

    def _is_data(self, table: StructureElement) -> bool:
        """Return whether the table has data in its cells, rather than the parts of a page."""
        cells = [cell for row in find_elements(table, "TR") for cell in row.elements if cell.type in _CELLS]
        return bool(cells) and not any(
            _is_arrangement(cell)
            or sum(len(self.words.get(each, ())) for each in cell.content_ids()) > _MAX_CELL_WORDS
            for cell in cells
        )

    def _add_table(self, element: StructureElement) -> None:
        """Add the caption of a table as a paragraph, and the table; a single row or column is text."""
        for caption in element.elements:
            if caption.type == "Caption":
                self._add_paragraph(caption)
        cells = [self._read_row(row) for row in find_elements(element, "TR")]
        found = build_table([row for row in cells if row], self.vocabulary)
        if found is None:
            for lines in (build_lines_in_order(cell.words) for row in cells for cell in row):
                if lines:
                    self._add(Block(Kind.paragraph, lines))
            return
        self._add(Block(Kind.thing, thing=PageObject(found.box, len(self.tables))))
        self.tables.append(found)

    def _read_row(self, row: StructureElement) -> list[TaggedCell]:
        """Return the cells of a row that have words."""
        found = [
            TaggedCell(self._take(cell), cell.rows, cell.columns, cell.type == "TH")
            for cell in row.elements
            if cell.type in _CELLS
        ]
        return [cell for cell in found if cell.words]


@dataclass(frozen=True, slots=True)
class TaggedCell:
    """A cell of a table with the numbers of rows and columns that it spans."""

    words: list[Word]
    rows: int
    columns: int
    is_header: bool

    @property
    def box(self) -> Rect:
        return enclose([word.box for word in self.words])

    def text(self, vocabulary: Vocabulary) -> str:
        return join_lines([line.text for line in build_lines_in_order(self.words)], vocabulary)


def build_table(rows: Sequence[Sequence[TaggedCell]], vocabulary: Vocabulary) -> FoundTable | None:
    """Return the table of these rows, perhaps one that continues a table; None without two columns.

    A cell that spans several rows is repeated in each. A file leaves out empty cells, so a row with too few
    of them is filled by their positions. Several header rows become one.
    """
    width = max((sum(cell.columns for cell in row) for row in rows), default=0)
    if not rows or not 2 <= width <= MAX_SPAN:
        return None
    columns = _locate_columns(rows, width)
    grid: list[list[str | None]] = [[None] * width for _ in rows]
    for number, row in enumerate(rows):
        free = [place for place in range(width) if grid[number][place] is None]
        is_complete = sum(cell.columns for cell in row) == len(free)
        for cell in row:
            if not free:
                break
            place = free[0] if is_complete or not columns else _nearest(cell.box, columns, free)
            _fill(grid, number, place, cell, vocabulary)
            free = [each for each in free if each >= place + cell.columns]
    texts = _merge_header_rows(
        [[cell or "" for cell in row] for row in grid],
        [all(cell.is_header for cell in row) for row in rows],
    )
    box = enclose([cell.box for row in rows for cell in row])
    edges = (box.left, *(columns[each].left for each in sorted(columns)[1:]), box.right)
    return FoundTable(box, tuple(map(tuple, texts)), edges, all(cell.is_header for cell in rows[0]))


def _locate_columns(rows: Sequence[Sequence[TaggedCell]], width: int) -> dict[int, Rect]:
    """Return the box of each column, from the rows that have a cell in every column."""
    boxes: dict[int, list[Rect]] = {}
    for row in rows:
        if len(row) == width:
            for place, cell in enumerate(row):
                boxes.setdefault(place, []).append(cell.box)
    return {place: enclose(each) for place, each in boxes.items()}


def _nearest(box: Rect, columns: dict[int, Rect], free: Sequence[int]) -> int:
    """Return the free column whose middle is nearest to that of the box."""
    return min(
        free, key=lambda place: abs(columns[place].middle[0] - box.middle[0]) if place in columns else 1e6
    )


def _fill(
    grid: list[list[str | None]], row: int, column: int, cell: TaggedCell, vocabulary: Vocabulary
) -> None:
    """Write the text of a cell to all rows and columns that it spans; once if it spans the whole row."""
    text = cell.text(vocabulary)
    spans_all = column == 0 and cell.columns >= len(grid[row])
    for each in grid[row : row + cell.rows]:
        for place in range(column, min(column + cell.columns, len(each))):
            if each[place] is None:
                each[place] = "" if spans_all and place > column else text


def _merge_header_rows(rows: list[list[str]], is_header: Sequence[bool]) -> list[list[str]]:
    """Join the header rows at the top to one row, each text of a column once."""
    count = next((number for number, each in enumerate(is_header) if not each), 0)
    if count < 2:
        return rows
    merged = [" ".join(dict.fromkeys(filter(None, column))) for column in zip(*rows[:count], strict=True)]
    return [merged, *rows[count:]]


# --- lines and elements -------------------------------------------------------------------------------------


def build_lines_in_order(words: Sequence[Word]) -> list[TextLine]:
    """Return the lines of words that the file has in reading order; a paragraph may continue in a column."""
    lines: list[list[Word]] = []
    for word in words:
        last = lines[-1][-1] if lines else None
        if (
            last is not None
            and abs(word.base - last.base) <= 0.6 * max(word.size, last.size)
            and word.box.left >= last.box.left - 1
        ):
            lines[-1].append(word)
        else:
            lines.append([word])
    return [build_line(line) for line in lines]


def find_elements(element: StructureElement, kind: str) -> Iterator[StructureElement]:
    """Yield the nearest elements of a type below this one, but none inside another one of that type."""
    for each in element.elements:
        if each.type == kind:
            yield each
        else:
            yield from find_elements(each, kind)


def _own_content_ids(item: StructureElement) -> Iterator[int]:
    """Yield the content ids of a list item without those of the lists in it."""
    for part in item.parts:
        if isinstance(part, int):
            yield part
        elif part.type != "L":
            yield from _own_content_ids(part)


def _is_labelled(element: StructureElement) -> bool:
    """Return whether the first item of a list has a label: its bullet or its number."""
    first = next(element.elements, None)
    return first is not None and any(each.type == "Lbl" for each in first.elements)


def _is_arrangement(element: StructureElement) -> bool:
    """Return whether a list contains headings or tables, as one that arranges a page does."""
    return any(next(find_elements(element, kind), None) for kind in ("Table", *HEADINGS))
