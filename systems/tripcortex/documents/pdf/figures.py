"""Figures on a page: pictures, and clusters of drawings that are neither tables nor frames. Pure functions.

Drawings that are close to each other form a figure; tables, frames around text and lines between paragraphs
do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from tripcortex.documents.ports import CHART, DIAGRAM, IMAGE

from .layout import TextLine, split_into_segments
from .page import Drawing, PageContent, Rect, Word, enclose

# Smaller pictures are icons.
_MIN_PICTURE: Final = 30.0
_MIN_DRAWING_WIDTH: Final = 50.0
_MIN_DRAWING_HEIGHT: Final = 40.0
_MIN_STROKES: Final = 4
# The size of a grid cell in points; it is doubled while all strokes together cover more cells than the limit.
_CELL: Final = 10.0
MAX_SQUARES: Final = 300_000
# Each is rendered and kept; a page with more of them is a contact sheet or a wallpaper.
MAX_FIGURES: Final = 40
# A frame around most of a page does not belong to a drawing.
_FRAME_SHARE: Final = 0.6
# If words cover more than this share, a frame is around a text.
_WORDS_SHARE: Final = 0.45
# Labels of a drawing are shorter than lines of a text.
_MIN_LINE_WORDS: Final = 7
_BACKGROUND_SHARE: Final = 0.8
_LABEL_NEAR: Final = 12.0
_MAX_LABEL_WORDS: Final = 3


@dataclass(frozen=True, slots=True)
class FoundFigure:
    """A figure. `words` are inside it or label it."""

    box: Rect
    subtype: str
    words: tuple[Word, ...]


def find_figures(
    page: PageContent, tables: Sequence[Rect], words: Sequence[Word], body_size: float
) -> list[FoundFigure]:
    """Return at most 40 figures of a page, none touching another. `words` are those outside of tables."""
    found: list[FoundFigure] = []
    for box, is_picture in (*_pictures(page, words), *_find_drawings(page, tables)):
        if len(found) >= MAX_FIGURES:
            break
        if any(other.box.touches(box) for other in found):
            continue
        inside = [word for word in words if box.contains(word.box)]
        if not is_picture and _is_frame(box, inside):
            continue
        labels = _labels(box, [word for word in words if not box.contains(word.box)], body_size)
        taken = (*inside, *(word for label in labels for word in label.words))
        whole = enclose([box, *(label.box for label in labels)])
        found.append(FoundFigure(whole, _subtype(is_picture, taken), taken))
    return found


def _is_frame(box: Rect, words: Sequence[Word]) -> bool:
    """Return whether drawings are around a text: words cover much of the box, or most are in long lines."""
    if _area([word.box for word in words]) > _WORDS_SHARE * box.width * box.height:
        return True
    lines = (len(line.words) for line in split_into_segments(words))
    return 2 * sum(count for count in lines if count >= _MIN_LINE_WORDS) > len(words)


def _pictures(page: PageContent, words: Sequence[Word]) -> Iterator[tuple[Rect, bool]]:
    """Yield the pictures, each with True, except icons and the background of a page with words."""
    for box in page.pictures:
        is_background = words and _area([box]) > _BACKGROUND_SHARE * page.width * page.height
        if min(box.width, box.height) >= _MIN_PICTURE and not is_background:
            yield box, True


def _find_drawings(page: PageContent, tables: Sequence[Rect]) -> Iterator[tuple[Rect, bool]]:
    """Yield the boxes of clusters of drawings, each with False.

    A cluster has four or more strokes, is not only lines, and is not small.
    """
    frame = _FRAME_SHARE * page.width * page.height
    strokes = [
        drawing
        for drawing in page.drawings
        if _area([drawing.box]) < frame and not any(table.touches(drawing.box, 3) for table in tables)
    ]
    for cluster in _clusters(strokes):
        box = enclose([drawing.box for drawing in cluster])
        if (
            len(cluster) >= _MIN_STROKES
            and any(not drawing.is_line for drawing in cluster)
            and box.width >= _MIN_DRAWING_WIDTH
            and box.height >= _MIN_DRAWING_HEIGHT
        ):
            yield box, False


def _clusters(drawings: list[Drawing]) -> list[list[Drawing]]:
    """Group drawings that are in the same or in adjacent grid cells of the page."""
    squares: dict[tuple[int, int], list[int]] = {}
    cell = _choose_cell_size(drawings)
    for index, drawing in enumerate(drawings):
        for square in _squares(drawing.box, cell):
            squares.setdefault(square, []).append(index)
    clusters: list[list[Drawing]] = []
    while squares:
        reached = [next(iter(squares))]
        members: set[int] = set()
        while reached:
            x, y = reached.pop()
            members.update(squares.pop((x, y), ()))
            around_it = ((x + dx, y + dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1))
            reached += [square for square in around_it if square in squares]
        clusters.append([drawings[index] for index in sorted(members)])
    return clusters


def _choose_cell_size(drawings: list[Drawing]) -> float:
    """Return the cell size: 10 points, doubled until all drawings together cover at most 300,000 cells."""
    cell = _CELL
    while sum(len(across) * len(down) for across, down in (_ranges(each.box, cell) for each in drawings)) > (
        MAX_SQUARES
    ):
        cell *= 2
    return cell


def _squares(box: Rect, cell: float) -> Iterator[tuple[int, int]]:
    """Yield the grid cells that the box covers."""
    across, down = _ranges(box, cell)
    return product(across, down)


def _ranges(box: Rect, cell: float) -> tuple[range, range]:
    """Return the columns and the rows of grid cells that the box covers."""
    return (
        range(int(box.left // cell), int(box.right // cell) + 1),
        range(int(box.top // cell), int(box.bottom // cell) + 1),
    )


def _labels(box: Rect, words: Sequence[Word], body_size: float) -> list[TextLine]:
    """Return numbers and short small texts next to a drawing, such as the labels of an axis."""
    return [
        line
        for line in split_into_segments(words)
        if line.box.touches(box, _LABEL_NEAR)
        and len(line.words) <= _MAX_LABEL_WORDS
        and not line.is_bold
        and (line.size < 0.97 * body_size or _is_number(line.text))
    ]


def _is_number(text: str) -> bool:
    """Return whether the text has only digits, signs, separators, per cent and currency signs."""
    return all(sign.isdigit() or sign in ".,%$€£ -−" for sign in text)


def _area(boxes: Iterable[Rect]) -> float:
    """Return the sum of the boxes' areas."""
    return sum(box.width * box.height for box in boxes)


def _subtype(is_picture: bool, words: Iterable[Word]) -> str:
    """Return IMAGE for a picture, CHART for a drawing with a number in it, else DIAGRAM."""
    if is_picture:
        return IMAGE
    return CHART if any(_is_number(word.text) for word in words) else DIAGRAM
