"""Bullets that a page draws as small shapes, as browsers do, instead of writing a letter. Pure functions."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from .page import PageContent, Rect, Word

BULLET: Final = "•"
# A page with more dots than this is a drawing.
MAX_DOTS: Final = 500
# The sides of a bullet and its distance to the text, in letter sizes of the text.
_MIN_SIDE: Final = 0.15
_MAX_SIDE: Final = 0.75
_MAX_DISTANCE: Final = 2.5
# The longer side of a bullet is at most this many times the shorter one.
_SQUARE: Final = 1.5


def restore_drawn_bullets(page: PageContent) -> PageContent:
    """Return the page with a word for each drawn bullet, and without the drawing of it."""
    marks = [drawing for drawing in page.drawings if _is_dot(drawing.box)]
    if not marks or len(marks) > MAX_DOTS:
        return page
    words = sorted(page.words, key=lambda word: word.box.left)
    lefts = [word.box.left for word in words]
    found: dict[int, Word] = {}
    for mark in marks:
        owner = _find_text(mark.box, words, lefts)
        if owner is not None:
            box = Rect(mark.box.left, owner.box.top, mark.box.right, owner.box.bottom)
            found[id(mark)] = replace(owner, text=BULLET, box=box, is_bold=False)
    return replace(
        page,
        words=(*page.words, *_drop_repeated(found.values())),
        drawings=tuple(drawing for drawing in page.drawings if id(drawing) not in found),
    )


def _is_dot(box: Rect) -> bool:
    """Return whether a shape is about as wide as high, and small."""
    short, long = sorted((box.width, box.height))
    return short >= 1 and long <= min(_SQUARE * short, 14)


def _find_text(mark: Rect, words: Sequence[Word], lefts: Sequence[float]) -> Word | None:
    """Return the first word of the line that a bullet is before, or None."""
    middle = mark.middle[1]
    for word in words[bisect_left(lefts, mark.right - 0.5) :]:
        distance = word.box.left - mark.right
        if distance > _MAX_DISTANCE * 14:
            return None
        is_in_line = word.base - 0.8 * word.size <= middle <= word.base + 0.1 * word.size
        is_sized = _MIN_SIDE * word.size <= max(mark.width, mark.height) <= _MAX_SIDE * word.size
        if is_in_line and is_sized and distance <= _MAX_DISTANCE * word.size:
            return None if _has_text_before(mark, word, words) else word
    return None


def _has_text_before(mark: Rect, owner: Word, words: Sequence[Word]) -> bool:
    """Return whether another word of the line ends close before the bullet: the dot is within a sentence."""
    return any(
        abs(word.base - owner.base) <= 1 and 0 <= mark.left - word.box.right <= owner.size for word in words
    )


def _drop_repeated(words: Iterable[Word]) -> list[Word]:
    """Return one bullet for each place: some are drawn twice, as an outline and a filling."""
    kept: dict[tuple[int, int], Word] = {}
    for word in words:
        kept.setdefault((round(word.box.left / 4), round(word.base)), word)
    return list(kept.values())
