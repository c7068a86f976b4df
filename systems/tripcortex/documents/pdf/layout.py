"""Page layout: groups words into lines and sorts the lines in reading order by column. Pure functions.

`blocks` groups the lines into paragraphs, lists and headings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from .page import Rect, Word, enclose

# A gap of this many letter sizes may separate two columns.
_GUTTER: Final = 1.0
# The gap between parts of one line, in letter sizes, and as a multiple of the gap between its words.
_PARTS_APART: Final = 1.1
_STRETCHED: Final = 2.5
_MAX_MARK_CHARS: Final = 3
# Each of two columns takes at least this share of their common width.
_COLUMN_SHARE: Final = 0.25
# Text in columns fills most of its longer lines with several words; labels with values do not.
_LINE_FILLED: Final = 0.6
_MIN_LINE_WORDS: Final = 4
_MIN_COLUMN_LINES: Final = 3
_MIN_COLUMN_LINES_OTHER: Final = 2
# Each position is tried against each line; a page with more segments than this is not text in columns.
MAX_ATOMS_IN_COLUMNS: Final = 2_000

_BROKEN: Final = re.compile(r"([^\W\d_]+)[-\u00ad]$")
# Words before a hyphen that hardly ever begin a longer word.
_COMPOUNDING: Final = frozenset(
    {"non", "self", "cross", "multi", "semi", "mid", "well", "half", "round", "long"}
)
_LOWER_START: Final = re.compile(r"^([^\W\d_]+)")


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line of text. `size`, `is_bold` and `base` are those of most of its letters."""

    words: tuple[Word, ...]
    box: Rect
    size: float
    is_bold: bool
    base: float

    @property
    def text(self) -> str:
        """Return the words, separated by spaces."""
        return " ".join(word.text for word in self.words)

    @property
    def has_gap(self) -> bool:
        """Return whether the line has separated parts, such as a label and a value.

        The gap after a list's mark does not count.
        """
        words = self.words[1:] if len(self.words[0].text) <= _MAX_MARK_CHARS else self.words
        gaps = sorted(right.box.left - left.box.right for left, right in pairwise(words))
        if not gaps or gaps[-1] <= _PARTS_APART * self.size:
            return False
        # In a line that was stretched to its end, all gaps are wide.
        return len(gaps) == 1 or gaps[-1] >= _STRETCHED * gaps[0]


@dataclass(frozen=True, slots=True)
class PageObject:
    """A table or a figure in its place among the lines. `index` is its index in the caller's list of both."""

    box: Rect
    index: int


Atom = TextLine | PageObject


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words of the document, to distinguish a word broken at a line's end from one with a hyphen."""

    words: frozenset[str] = frozenset()

    def join_hyphenated(self, first: str, second: str) -> str:
        """Join the parts of a word split at a line's end; keep the hyphen of a compound word."""
        one, other = first.lower(), second.lower()
        is_compound = f"{one}-{other}" in self.words or one in _COMPOUNDING or {one, other} <= self.words
        return f"{first}-{second}" if is_compound and one + other not in self.words else first + second


NO_WORDS: Final = Vocabulary()


# --- lines --------------------------------------------------------------------------------------------------


def build_line(words: Iterable[Word]) -> TextLine:
    """Build a line from words that are next to each other, in any order."""
    ordered = tuple(sorted(words, key=lambda word: word.box.left))
    letters: Counter[tuple[float, float]] = Counter()
    for word in ordered:
        letters[word.size, word.base] += len(word.text)
    (size, base), _ = letters.most_common(1)[0]
    bold = sum(len(word.text) for word in ordered if word.is_bold)
    return TextLine(
        ordered, enclose([word.box for word in ordered]), size, bold >= 0.8 * letters.total(), base
    )


def split_into_segments(words: Iterable[Word]) -> list[TextLine]:
    """Return the lines, split at each gap that may separate two columns, from top to bottom."""
    found: list[TextLine] = []
    for row in _rows(words):
        begun = [row[0]]
        for word in row[1:]:
            if word.box.left - begun[-1].box.right > _GUTTER * max(word.size, begun[-1].size):
                found.append(build_line(begun))
                begun = []
            begun.append(word)
        found.append(build_line(begun))
    return found


def _rows(words: Iterable[Word]) -> list[list[Word]]:
    """Group words whose centres are at one height into rows, each from left to right."""
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.box.middle[1], word.box.left)):
        base = rows[-1][0] if rows else None
        if base and abs(word.box.middle[1] - base.box.middle[1]) <= 0.4 * min(
            word.box.height, base.box.height
        ):
            rows[-1].append(word)
        else:
            rows.append([word])
    return [sorted(row, key=lambda word: word.box.left) for row in rows]


def join_words(words: Iterable[Word], vocabulary: Vocabulary) -> str:
    """Return the words as one text, line by line."""
    rows = [build_line(row) for row in _rows(words)]
    return join_lines([row.text for row in rows], vocabulary)


def join_lines(lines: Sequence[str], vocabulary: Vocabulary) -> str:
    """Join lines to one text, and repair words that were broken at a line's end."""
    text = ""
    for line in lines:
        broken, start = _BROKEN.search(text), _LOWER_START.match(line)
        if broken and start and line[0].islower():
            word = (
                broken[1] + start[1]
                if text.endswith("\u00ad")
                else vocabulary.join_hyphenated(broken[1], start[1])
            )
            text = text[: broken.start()] + word + line[start.end() :]
        else:
            text = f"{text} {line}" if text else line
    return text.replace("\u00ad", "")


# --- the order of reading -----------------------------------------------------------------------------------


def sort_in_reading_order(atoms: Collection[Atom]) -> Iterator[list[Atom]]:
    """Yield the columns in reading order, each from top to bottom.

    Each list is one column of a band of the page.
    """
    gutter = _best_gutter(atoms)
    if gutter is None:
        if atoms:
            yield _row_by_row(atoms)
        return
    for band in _bands(atoms, gutter):
        left, right = _sides(band, gutter)
        if _are_columns(left, right):
            yield from sort_in_reading_order(left)
            yield from sort_in_reading_order(right)
        else:
            yield _row_by_row(band)


def _best_gutter(atoms: Collection[Atom]) -> float | None:
    """Return the x position of the vertical line that separates most of the text into columns, or None."""
    best, most = None, 0
    if len(atoms) > MAX_ATOMS_IN_COLUMNS:
        return None
    for x in sorted(set(_gap_ends(atoms))):
        sides = [_sides(band, x) for band in _bands(atoms, x)]
        parted = sum(len(left) + len(right) for left, right in sides if _are_columns(left, right))
        if parted > most:
            best, most = x, parted
    return best


def _gap_ends(atoms: Collection[Atom]) -> Iterator[float]:
    """Yield the x position just left of each atom with another one to its left: a column may begin there."""
    lines = sorted(atoms, key=lambda atom: atom.box.left)
    for place, atom in enumerate(lines):
        for other in lines[place + 1 :]:
            is_beside = other.box.top < atom.box.bottom and atom.box.top < other.box.bottom
            if is_beside and other.box.left > atom.box.right:
                yield round(other.box.left) - 2.0
                break


def _bands(atoms: Collection[Atom], x: float) -> list[list[Atom]]:
    """Split the atoms from top to bottom into runs that cross the gutter at `x` and runs that do not."""
    bands: list[list[Atom]] = []
    was_crossing = True
    for atom in sorted(atoms, key=lambda atom: atom.box.top):
        is_crossing = atom.box.left < x < atom.box.right
        if is_crossing is was_crossing and bands:
            bands[-1].append(atom)
        else:
            bands.append([atom])
        was_crossing = is_crossing
    return bands


def _sides(band: list[Atom], x: float) -> tuple[list[Atom], list[Atom]]:
    """Return the atoms left and right of `x`."""
    return [atom for atom in band if atom.box.right <= x], [atom for atom in band if atom.box.left >= x]


def _are_columns(left: list[Atom], right: list[Atom]) -> bool:
    """Return whether both sides are columns of text, by the order in the file or by their shape."""
    if not left or not right:
        return False
    one, other = enclose([atom.box for atom in left]), enclose([atom.box for atom in right])
    if one.top >= other.bottom or other.top >= one.bottom:
        return False
    if len(left) >= _MIN_COLUMN_LINES and _are_written_apart(left, right):
        return True
    few, many = sorted((len(left), len(right)))
    has_thing = any(isinstance(atom, PageObject) for atom in (*left, *right))
    return (
        (has_thing or (few >= _MIN_COLUMN_LINES_OTHER and many >= _MIN_COLUMN_LINES))
        and min(one.width, other.width) >= _COLUMN_SHARE * (other.right - one.left)
        and _fills(left, one)
        and _fills(right, other)
    )


def _are_written_apart(left: list[Atom], right: list[Atom]) -> bool:
    """Return whether the file has all words of the left side before those of the right.

    A program that sets columns writes the left one to its end; one that sets labels next to values writes row
    by row.
    """
    return max(_orders(left), default=0) < min(_orders(right), default=0)


def _orders(atoms: list[Atom]) -> Iterator[int]:
    """Yield the positions in the file of the atoms' words."""
    return (word.order for atom in atoms if isinstance(atom, TextLine) for word in atom.words)


def _fills(column: list[Atom], box: Rect) -> bool:
    """Return whether the column's longer lines have several words and fill most of its width."""
    lines = [atom for atom in column if isinstance(atom, TextLine)]
    if not lines:
        return True
    words = sorted(len(line.words) for line in lines)
    widths = sorted(line.box.width for line in lines)
    longer = len(lines) * 3 // 4
    return words[longer] >= _MIN_LINE_WORDS and widths[longer] >= _LINE_FILLED * box.width


def _row_by_row(atoms: Collection[Atom]) -> list[Atom]:
    """Return the atoms as one column from top to bottom; segments of one height become one line again."""
    words = [word for atom in atoms if isinstance(atom, TextLine) for word in atom.words]
    found: list[Atom] = [build_line(row) for row in _rows(words)]
    found += [atom for atom in atoms if isinstance(atom, PageObject)]
    return sorted(found, key=lambda atom: (atom.box.top + min(atom.box.height, 8) / 2, atom.box.left))
