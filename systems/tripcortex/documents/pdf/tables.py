"""Tables on a page with a full grid of lines. Pure functions.

`aligned_tables` finds the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .layout import Vocabulary, join_words
from .page import PageContent, Rect, Word, enclose

# Lines at most this far apart count as one line, and as touching.
_NEAR: Final = 2.5
# The share of a table's cells that have words at least; hardly any "cell" of a chart has.
_FILLED: Final = 0.4
# A page with more lines than these is a drawing.
_MAX_LINES: Final = 1_000


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table. `edges` are the borders of its columns: its continuation on the next page has about the same.

    `has_header` is True if the page sets the first row apart from the others.
    """

    box: Rect
    rows: tuple[tuple[str, ...], ...]
    edges: tuple[float, ...]
    has_header: bool = False


def format_markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a Markdown table. The first row is the header."""
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def find_grid_tables(page: PageContent, vocabulary: Vocabulary) -> list[FoundTable]:
    """Return the tables of a page with a full grid, from top to bottom.

    A page with more than 1,000 lines is a drawing and has none.
    """
    across = _merge_rules([rule for rule in page.rules if rule.height == 0])
    down = _merge_rules([rule for rule in page.rules if rule.height > 0])
    if len(across) + len(down) > _MAX_LINES:
        return []
    found: list[FoundTable] = []
    for grid in _group_connected([*across, *down]):
        table = _lattice(grid, page.words, vocabulary)
        if table:
            found.append(table)
    return sorted(found, key=lambda table: table.box.top)


# --- lines --------------------------------------------------------------------------------------------------


def _merge_rules(rules: list[Rect]) -> list[Rect]:
    """Merge strokes of one direction that continue or overlap each other."""
    lines: list[Rect] = []
    level: list[Rect] = []
    for rule in sorted(rules, key=_level):
        if level and _level(rule) - _level(level[0]) > _NEAR:
            lines += _chain_rules(level)
            level = []
        level.append(rule)
    return lines + _chain_rules(level)


def _level(rule: Rect) -> float:
    """Return the vertical position of a horizontal line, or the horizontal position of a vertical one."""
    return rule.top if rule.height == 0 else rule.left


def _chain_rules(level: list[Rect]) -> list[Rect]:
    """Join rules of one level whose ends meet."""
    lines: list[Rect] = []
    for rule in sorted(
        level, key=lambda rule: (rule.left, rule.top) if rule.height == 0 else (rule.top, rule.left)
    ):
        if lines and lines[-1].touches(rule, _NEAR):
            first, joint = lines[-1], enclose([lines[-1], rule])
            lines[-1] = (
                joint._replace(top=first.top, bottom=first.top)
                if rule.height == 0
                else joint._replace(left=first.left, right=first.left)
            )
        else:
            lines.append(rule)
    return lines


def _group_connected(rules: list[Rect]) -> list[list[Rect]]:
    """Group lines that touch, directly or through others."""
    groups: list[list[Rect]] = []
    for rule in rules:
        apart: list[list[Rect]] = []
        joint = [rule]
        for group in groups:
            if any(rule.touches(other, _NEAR) for other in group):
                joint += group
            else:
                apart.append(group)
        groups = [*apart, joint]
    return groups


def _distinct(values: Iterable[float]) -> list[float]:
    """Return the values in order, without those nearer than 2.5 points to the one before."""
    kept: list[float] = []
    for value in sorted(values):
        if not kept or value - kept[-1] > _NEAR:
            kept.append(value)
    return kept


# --- a grid -------------------------------------------------------------------------------------------------


def _lattice(grid: list[Rect], words: Sequence[Word], vocabulary: Vocabulary) -> FoundTable | None:
    """Return the table of a grid of lines; None without two rows and columns, or if most cells are empty."""
    across = [rule for rule in grid if rule.height == 0]
    down = [rule for rule in grid if rule.height > 0]
    if len(across) < 2 or not down:
        return None
    xs = _distinct([rule.left for rule in down] + [end for rule in across for end in (rule.left, rule.right)])
    ys = _distinct([rule.top for rule in across] + [end for rule in down for end in (rule.top, rule.bottom)])
    if len(xs) < 3 or len(ys) < 3:
        return None
    box = Rect(xs[0], ys[0], xs[-1], ys[-1])
    cells: dict[tuple[int, int], list[Word]] = {}
    for word in words:
        if box.contains(word.box):
            row, column = _cell(word, xs, ys, across, down)
            cells.setdefault((row, column), []).append(word)
    rows = [
        [join_words(cells.get((row, column), ()), vocabulary) for column in range(len(xs) - 1)]
        for row in range(len(ys) - 1)
    ]
    if not _is_filled(rows):
        return None
    first = [word.is_bold for (row, _), cell in cells.items() if row == 0 for word in cell]
    others = [word.is_bold for (row, _), cell in cells.items() if row > 0 for word in cell]
    has_header = bool(first) and all(first) and not all(others)
    return _table(box, _repeat_spans(rows, xs, ys, across), tuple(xs), has_header=has_header)


def _cell(
    word: Word, xs: list[float], ys: list[float], across: list[Rect], down: list[Rect]
) -> tuple[int, int]:
    """Return the upper left cell of the merged cell that contains the word."""
    x, y = word.box.middle
    column = max(place for place in range(len(xs) - 1) if xs[place] <= x)
    row = max(place for place in range(len(ys) - 1) if ys[place] <= y)
    while column and not _is_drawn(down, xs[column], y):
        column -= 1
    while row and not _is_drawn(across, ys[row], x):
        row -= 1
    return row, column


def _is_drawn(rules: list[Rect], at: float, through: float) -> bool:
    """Return True if a line is at `at` and crosses the position `through`."""
    return any(
        abs(rule.left - at) <= _NEAR and rule.top - _NEAR <= through <= rule.bottom + _NEAR
        if rule.height > 0
        else abs(rule.top - at) <= _NEAR and rule.left - _NEAR <= through <= rule.right + _NEAR
        for rule in rules
    )


def _repeat_spans(
    rows: list[list[str]], xs: list[float], ys: list[float], across: list[Rect]
) -> list[list[str]]:
    """Repeat a cell that spans several rows in each of them, so that every row is complete."""
    for row in range(1, len(rows)):
        for column in range(len(xs) - 1):
            middle = (xs[column] + xs[column + 1]) / 2
            if not rows[row][column] and not _is_drawn(across, ys[row], middle):
                rows[row][column] = rows[row - 1][column]
    return rows


def _table(
    box: Rect, rows: list[list[str]], edges: tuple[float, ...], *, has_header: bool
) -> FoundTable | None:
    """Return the table without empty rows and columns; None if fewer than two of either are left."""
    kept = [row for row in rows if any(row)]
    columns = [place for place in range(len(rows[0])) if any(row[place] for row in kept)]
    if len(kept) < 2 or len(columns) < 2:
        return None
    return FoundTable(box, tuple(tuple(row[place] for place in columns) for row in kept), edges, has_header)


def _is_filled(rows: list[list[str]]) -> bool:
    """Return whether at least 40 % of the cells have text."""
    return sum(bool(cell) for row in rows for cell in row) >= _FILLED * len(rows) * len(rows[0])
