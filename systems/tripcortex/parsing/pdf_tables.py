"""Tables on a page, found by their ruled lines: a full grid, or only lines across. Pure.

A table without any line cannot be told from text in columns, and is read as lines of text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from .pdf_layout import Vocabulary, line_of, segments, text_of
from .pdf_page import PageContent, Rect, Word, around

# Lines so near to each other are one, and meet.
_NEAR: Final = 2.5
# Of a table's cells at least so many have words; of a chart's "cells" hardly any.
_FILLED: Final = 0.4
# A page with more lines than these is a drawing.
_LINES_MAX: Final = 1_000
_ALIGNED: Final = 4.0
# In a table without lines down, columns are so many letters' sizes apart.
_COLUMN_GAP: Final = 0.8


@dataclass(frozen=True, slots=True)
class FoundTable:
    """`edges` are where its columns begin and end: a table that goes on at the next page has the same."""

    box: Rect
    rows: tuple[tuple[str, ...], ...]
    edges: tuple[float, ...]


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """The first row is the header."""
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + " --- |" * len(rows[0]), *lines[1:]])


def tables_of(page: PageContent, vocabulary: Vocabulary) -> list[FoundTable]:
    across = _merged([rule for rule in page.rules if rule.height == 0])
    down = _merged([rule for rule in page.rules if rule.height > 0])
    if len(across) + len(down) > _LINES_MAX:
        return []
    found: list[FoundTable] = []
    loose: list[Rect] = []
    for grid in _connected([*across, *down]):
        table = _lattice(grid, page.words, vocabulary)
        if table:
            found.append(table)
        else:
            loose += [rule for rule in grid if rule.height == 0]
    for stack in _stacks(loose):
        table = _ruled(stack, page.words, vocabulary)
        if table and not any(table.box.meets(other.box) for other in found):
            found.append(table)
    return sorted(found, key=lambda table: table.box.top)


# --- lines ---------------------------------------------------------------------------------------------------------


def _merged(rules: list[Rect]) -> list[Rect]:
    """Strokes of one direction that go on from each other, or lie on each other, as one."""
    lines: list[Rect] = []
    level: list[Rect] = []
    for rule in sorted(rules, key=_level):
        if level and _level(rule) - _level(level[0]) > _NEAR:
            lines += _chained(level)
            level = []
        level.append(rule)
    return lines + _chained(level)


def _level(rule: Rect) -> float:
    """How far down a line across stands, how far right a line down."""
    return rule.top if rule.height == 0 else rule.left


def _chained(level: list[Rect]) -> list[Rect]:
    lines: list[Rect] = []
    for rule in sorted(
        level, key=lambda rule: (rule.left, rule.top) if rule.height == 0 else (rule.top, rule.left)
    ):
        if lines and lines[-1].meets(rule, _NEAR):
            first, joint = lines[-1], around([lines[-1], rule])
            lines[-1] = (
                joint._replace(top=first.top, bottom=first.top)
                if rule.height == 0
                else joint._replace(left=first.left, right=first.left)
            )
        else:
            lines.append(rule)
    return lines


def _connected(rules: list[Rect]) -> list[list[Rect]]:
    """Lines that touch, directly or through others."""
    groups: list[list[Rect]] = []
    for rule in rules:
        apart: list[list[Rect]] = []
        joint = [rule]
        for group in groups:
            if any(rule.meets(other, _NEAR) for other in group):
                joint += group
            else:
                apart.append(group)
        groups = [*apart, joint]
    return groups


def _distinct(values: Iterable[float]) -> list[float]:
    kept: list[float] = []
    for value in sorted(values):
        if not kept or value - kept[-1] > _NEAR:
            kept.append(value)
    return kept


# --- a grid --------------------------------------------------------------------------------------------------------


def _lattice(grid: list[Rect], words: Sequence[Word], vocabulary: Vocabulary) -> FoundTable | None:
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
        if box.holds(word.box):
            row, column = _cell(word, xs, ys, across, down)
            cells.setdefault((row, column), []).append(word)
    rows = [
        [text_of(cells.get((row, column), ()), vocabulary) for column in range(len(xs) - 1)]
        for row in range(len(ys) - 1)
    ]
    if not _is_filled(rows):
        return None
    return _table(box, _spans_repeated(rows, xs, ys, across), tuple(xs))


def _cell(
    word: Word, xs: list[float], ys: list[float], across: list[Rect], down: list[Rect]
) -> tuple[int, int]:
    """The upper left one of those that no line parts from where the word stands."""
    x, y = word.box.middle
    column = max(place for place in range(len(xs) - 1) if xs[place] <= x)
    row = max(place for place in range(len(ys) - 1) if ys[place] <= y)
    while column and not _is_drawn(down, xs[column], y):
        column -= 1
    while row and not _is_drawn(across, ys[row], x):
        row -= 1
    return row, column


def _is_drawn(rules: list[Rect], at: float, through: float) -> bool:
    """Whether a line stands there, at the height (or the distance from the left) of what it would part."""
    return any(
        abs(rule.left - at) <= _NEAR and rule.top - _NEAR <= through <= rule.bottom + _NEAR
        if rule.height > 0
        else abs(rule.top - at) <= _NEAR and rule.left - _NEAR <= through <= rule.right + _NEAR
        for rule in rules
    )


def _spans_repeated(
    rows: list[list[str]], xs: list[float], ys: list[float], across: list[Rect]
) -> list[list[str]]:
    """A cell over several rows is said in each of them, so that every row can be read by itself."""
    for row in range(1, len(rows)):
        for column in range(len(xs) - 1):
            middle = (xs[column] + xs[column + 1]) / 2
            if not rows[row][column] and not _is_drawn(across, ys[row], middle):
                rows[row][column] = rows[row - 1][column]
    return rows


def _table(box: Rect, rows: list[list[str]], edges: tuple[float, ...]) -> FoundTable | None:
    kept = [row for row in rows if any(row)]
    columns = [place for place in range(len(rows[0])) if any(row[place] for row in kept)]
    if len(kept) < 2 or len(columns) < 2:
        return None
    return FoundTable(box, tuple(tuple(row[place] for place in columns) for row in kept), edges)


def _is_filled(rows: list[list[str]]) -> bool:
    return sum(bool(cell) for row in rows for cell in row) >= _FILLED * len(rows) * len(rows[0])


# --- lines across only ---------------------------------------------------------------------------------------------


def _stacks(across: list[Rect]) -> list[list[Rect]]:
    """Lines of one length above each other, three or more."""
    stacks: list[list[Rect]] = []
    for rule in sorted(across, key=lambda rule: rule.top):
        for stack in stacks:
            if abs(stack[0].left - rule.left) <= _ALIGNED and abs(stack[0].right - rule.right) <= _ALIGNED:
                stack.append(rule)
                break
        else:
            stacks.append([rule])
    return [stack for stack in stacks if len(stack) >= 3]


def _ruled(stack: list[Rect], words: Sequence[Word], vocabulary: Vocabulary) -> FoundTable | None:
    box = around(stack)
    inside = [word for word in words if box.holds(word.box)]
    if not inside:
        return None
    edges = _column_edges(inside, box)
    ys = _distinct(rule.top for rule in stack)
    bands = [
        [word for word in inside if top <= word.box.middle[1] < end] for top, end in itertools.pairwise(ys)
    ]
    bands = [band for band in bands if band]
    if len(edges) < 3 or len(bands) < 2:
        return None
    rows = [_split(band, edges, vocabulary) for band in bands]
    if len(bands) == 2:
        rows = [rows[0], *_rows_of(bands[1], edges, vocabulary)]
    return _table(box, rows, tuple(edges)) if _is_filled(rows) else None


def _column_edges(words: list[Word], box: Rect) -> list[float]:
    """Where no word of any row stands."""
    edges = [box.left]
    reached: float | None = None
    for word in sorted(words, key=lambda word: word.box.left):
        if reached is not None and word.box.left - reached >= _COLUMN_GAP * word.size:
            edges.append((reached + word.box.left) / 2)
        reached = word.box.right if reached is None else max(reached, word.box.right)
    return [*edges, box.right]


def _split(words: list[Word], edges: list[float], vocabulary: Vocabulary) -> list[str]:
    return [
        text_of([word for word in words if left <= word.box.middle[0] < right], vocabulary)
        for left, right in itertools.pairwise(edges)
    ]


def _rows_of(band: list[Word], edges: list[float], vocabulary: Vocabulary) -> list[list[str]]:
    """A row begins with each line that has something in the first column."""
    rows: list[list[Word]] = []
    tops = _distinct(segment.box.middle[1] for segment in segments(band))
    for place, top in enumerate(tops):
        end = tops[place + 1] if place + 1 < len(tops) else float("inf")
        line = [word for word in band if top - _NEAR <= word.box.middle[1] < end - _NEAR]
        if not line:
            continue
        if not rows or line_of(line).box.left < edges[1]:
            rows.append([])
        rows[-1] += line
    return [_split(row, edges, vocabulary) for row in rows]
