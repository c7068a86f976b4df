"""Tables without a full grid of lines, found by the alignment of their words in columns. Pure functions.

    words → bands (rows of words at one height) → runs of bands with the same free space between columns
          → rows (a cell of several lines is one) → `FoundTable`

Lines and shading between the rows, where a table has some, confirm the rows. A program writes the cells of a
table row by row, but columns of text one after the other: the order in the file tells them apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Final

from .layout import Vocabulary, join_words
from .page import Rect, Word, enclose
from .tables import FoundTable

# The free space between two columns, in letter sizes; spaces between words are smaller.
_COLUMN_GAP: Final = 0.5
# Words of one column begin within this many points of each other, and this many letter sizes after others.
_ALIGNED: Final = 1.5
_MIN_GAP: Final = 0.1
# Some row has at least this much.
_CLEAR_GAP: Final = 1.0
# The height of a line's letters above and below its baseline, in letter sizes.
_ABOVE_BASE: Final = 0.72
_BELOW_BASE: Final = 0.08
# Rows of one table are at most this many letter sizes apart.
_MAX_ROW_GAP: Final = 2.6
# The header is at most this many letter sizes above the first row.
_MAX_HEADER_GAP: Final = 2.0
# A heading row within a table is shorter than this share of its width.
_MAX_SPANNING_SHARE: Final = 0.7
# Text in two columns fills most of its lines with several words.
_COLUMN_LINE_WORDS: Final = 4
_COLUMN_LINE_FILLED: Final = 0.6
_MIN_COLUMN_LINES: Final = 5
# The share of a table's width that a line between its rows has.
_RULE_SHARE: Final = 0.5
# Cells of one line are apart by less than rows are, by this many letter sizes.
_ROWS_APART: Final = 0.12
MAX_WORDS: Final = 8_000
_MARK: Final = re.compile(
    r"^(?:[^\w\s$€£¥]|o|\(?(?:\d{1,2}(?:\.\d{1,2})*|[a-z]|[ivx]{1,4})[.)]|\d{1,2}(?:\.\d{1,2})+)$"
)


@dataclass(frozen=True, slots=True)
class Band:
    """The words at one height. Cells of several lines that are centred on each other are one band."""

    words: tuple[Word, ...]
    top: float
    bottom: float

    @property
    def size(self) -> float:
        return max(word.size for word in self.words)

    @property
    def is_bold(self) -> bool:
        return all(word.is_bold for word in self.words)

    @property
    def ranges(self) -> list[tuple[float, float]]:
        """Return where its words begin and end horizontally."""
        return [(word.box.left, word.box.right) for word in self.words]

    @property
    def orders(self) -> tuple[int, int]:
        """Return the first and the last position of its words in the file."""
        return min(word.order for word in self.words), max(word.order for word in self.words)

    @property
    def box(self) -> Rect:
        return enclose([word.box for word in self.words])


@dataclass(slots=True)
class _Run:
    """Bands that may be a table, with the horizontal ranges of their columns.

    `lefts` counts the bands that have a cell beginning at a place, in units of `_ALIGNED`.
    """

    bands: list[Band]
    columns: list[tuple[float, float]]
    spanning: set[int] = field(default_factory=set)
    lefts: Counter[int] = field(default_factory=Counter)

    @classmethod
    def begin(cls, band: Band) -> _Run:
        """Return the run of one band."""
        run = cls([], [])
        run.append(band, _find_columns(band.ranges, _COLUMN_GAP * band.size))
        return run

    def append(self, band: Band, columns: list[tuple[float, float]]) -> None:
        """Add a band, with the columns of the run together with it."""
        self.bands.append(band)
        self.columns = columns
        self.lefts.update({round(left / _ALIGNED) for left, _ in self.find_cells(band)})

    def is_start(self, left: float) -> bool:
        """Return whether at least two bands have a cell that begins here."""
        place = round(left / _ALIGNED)
        return sum(self.lefts[place + off] for off in (-1, 0, 1)) > 1

    def find_columns(self, band: Band) -> list[tuple[float, float]]:
        """Return the columns of the run together with a band."""
        return self._join([*self.columns, *band.ranges], band)

    def find_cells(self, band: Band) -> list[tuple[float, float]]:
        """Return the ranges of the cells of a band."""
        return self._join(band.ranges, band)

    def count_cells(self, band: Band) -> int:
        return len(self.find_cells(band))

    def _join(self, ranges: Sequence[tuple[float, float]], band: Band) -> list[tuple[float, float]]:
        starts = [left for left, _ in ranges if self.is_start(left)]
        return _find_columns(ranges, _COLUMN_GAP * band.size, starts, _MIN_GAP * band.size)


def find_aligned_tables(
    words: Sequence[Word], rules: Sequence[Rect], vocabulary: Vocabulary
) -> list[FoundTable]:
    """Return the tables among these words from top to bottom. `rules` are the lines of the page."""
    if len(words) > MAX_WORDS:
        return []
    across = [rule for rule in rules if rule.height == 0]
    tables = (_build(run, across, vocabulary) for run in _find_runs(_group_bands(words)))
    return [table for table in tables if table]


# --- bands and runs -----------------------------------------------------------------------------------------


def _group_bands(words: Iterable[Word]) -> list[Band]:
    """Group the words whose letters are at the same height, directly or through others."""
    bands: list[Band] = []
    group: list[Word] = []
    bottom = 0.0
    for word in sorted(words, key=lambda word: word.base - _ABOVE_BASE * word.size):
        top = word.base - _ABOVE_BASE * word.size
        if group and top >= bottom:
            bands.append(_build_band(group))
            group = []
        end = word.base + _BELOW_BASE * word.size
        bottom = max(bottom, end) if group else end
        group.append(word)
    return [*bands, _build_band(group)] if group else bands


def _build_band(words: Sequence[Word]) -> Band:
    return Band(
        tuple(words),
        min(word.base - _ABOVE_BASE * word.size for word in words),
        max(word.base + _BELOW_BASE * word.size for word in words),
    )


def _find_columns(
    ranges: Iterable[tuple[float, float]], gap: float, starts: Iterable[float] = (), min_gap: float = 0
) -> list[tuple[float, float]]:
    """Return the horizontal ranges, joined where less than `gap` is between them.

    Before one of `starts`, where other rows have a column, `min_gap` is enough.
    """
    known = set(starts)
    found: list[tuple[float, float]] = []
    for left, right in sorted(ranges):
        needed = min_gap if left in known else gap
        if found and left - found[-1][1] < needed:
            found[-1] = found[-1][0], max(found[-1][1], right)
        else:
            found.append((left, right))
    return found


def _find_runs(bands: Sequence[Band]) -> Iterator[_Run]:
    """Yield the longest runs of bands with the same columns, from top to bottom."""
    place = 0
    while place < len(bands):
        run, end = _grow(bands, place)
        if run is not None and _is_table(run):
            # A header whose cells are close together hides columns of the rows below it.
            below, below_end = _grow(bands, place + 1) if place + 1 < len(bands) else (None, 0)
            if below is not None and len(below.columns) > len(run.columns) and below_end >= end:
                run, end, place = below, below_end, place + 1
            _add_header_lines(run, bands, place)
            yield run
            place = end
        else:
            # The same bands are rejected again: try few of them.
            place += max(1, (end - place) // 2)


def _grow(bands: Sequence[Band], start: int) -> tuple[_Run | None, int]:
    """Return the run that begins with a band and the place after it; None if the band has no columns."""
    first = bands[start]
    if len(_find_columns(first.ranges, _CLEAR_GAP * first.size)) < 2:
        return None, start
    run = _Run.begin(first)
    place = start + 1
    while place < len(bands):
        band = bands[place]
        if band.top - run.bands[-1].bottom > _MAX_ROW_GAP * band.size:
            break
        columns = run.find_columns(band)
        if _keeps_columns(run, band, columns):
            run.append(band, columns)
        elif _is_spanning(run, bands, place):
            run.spanning.add(len(run.bands))
            run.bands.append(band)
        else:
            break
        place += 1
    while len(run.bands) > 1 and not _ends_table(run):
        run.spanning.discard(len(run.bands) - 1)
        run.bands.pop()
        place -= 1
    return run, place


def _plain(run: _Run) -> list[Band]:
    """Return the bands of a run that do not span its columns."""
    return [band for place, band in enumerate(run.bands) if place not in run.spanning]


def _keeps_columns(run: _Run, band: Band, columns: list[tuple[float, float]]) -> bool:
    """Return whether the columns are still apart with the band; one cell alone must continue a row."""
    if len(columns) < 2 or len(columns) < len(run.columns):
        return False
    if run.count_cells(band) > 1:
        return True
    last = run.bands[-1]
    is_similar = abs(band.size - last.size) <= 0.12 * last.size
    return is_similar and len(columns) == len(run.columns) and band.top - last.bottom <= 1.6 * band.size


def _is_spanning(run: _Run, bands: Sequence[Band], place: int) -> bool:
    """Return whether a band is a short row across several columns, with further rows below it."""
    band = bands[place]
    if len(run.bands) < 2 or place + 1 >= len(bands) or len(_find_columns(band.ranges, band.size)) > 1:
        return False
    following = bands[place + 1]
    left, right = run.columns[0][0], run.columns[-1][1]
    if following.top - band.bottom > _MAX_ROW_GAP * band.size or band.box.left > left + 2 * band.size:
        return False
    is_row = abs(band.size - following.size) <= 0.05 * band.size
    if not is_row or band.box.width > _MAX_SPANNING_SHARE * (right - left):
        return False
    return run.count_cells(following) > 1 and len(run.find_columns(following)) == len(run.columns)


def _ends_table(run: _Run) -> bool:
    """Return whether the last band can end a table: it has two cells, or continues one of the row above."""
    last, before = run.bands[-1], run.bands[-2]
    if len(run.bands) - 1 in run.spanning:
        return False
    return run.count_cells(last) > 1 or last.top - before.bottom <= 0.8 * last.size


def _add_header_lines(run: _Run, bands: Sequence[Band], start: int) -> None:
    """Add the bands above the first one whose words are in its columns: the lines of the header."""
    for band in reversed(bands[:start]):
        first = run.bands[0]
        is_near = first.top - band.bottom <= (_MAX_HEADER_GAP if first is bands[start] else 0.8) * first.size
        has_cells = len(_find_columns(band.ranges, _COLUMN_GAP * band.size)) > 1
        is_header = band.is_bold or (has_cells and not first.is_bold)
        is_similar = abs(band.size - first.size) <= 0.2 * first.size
        if not (is_near and is_header and is_similar) or any(_crosses(word, run) for word in band.words):
            return
        run.bands.insert(0, band)
        run.spanning = {place + 1 for place in run.spanning}


def _crosses(word: Word, run: _Run) -> bool:
    """Return whether a word reaches into two columns, or out of all of them."""
    reached = [each for each in run.columns if each[0] < word.box.right and word.box.left < each[1]]
    left, right = run.columns[0][0] - 2 * word.size, run.columns[-1][1] + 4 * word.size
    return len(reached) > 1 or word.box.left < left or word.box.right > right


def _is_table(run: _Run) -> bool:
    """Return whether a run is a table rather than text in columns, or labels with values."""
    rows = _plain(run)
    if sum(run.count_cells(band) > 1 for band in rows) < 2 or len(run.columns) < 2:
        return False
    if _is_written_by_column(run) or not _is_written_by_row(rows):
        return False
    return not _is_text_in_columns(run, rows) and not _is_list(run, rows)


def _is_list(run: _Run, bands: Sequence[Band]) -> bool:
    """Return whether the first of two columns has bullets or numbers, as the items of a list do."""
    _, right = run.columns[0]
    cells = [" ".join(word.text for word in band.words if word.box.middle[0] <= right) for band in bands]
    cells = [cell for cell in cells if cell]
    marks = sum(bool(_MARK.match(cell)) for cell in cells)
    return len(run.columns) == 2 and 2 * marks > len(cells)


def _is_written_by_column(run: _Run) -> bool:
    """Return whether the file has all words left of some column before all words of it and to its right."""
    words = [word for band in _plain(run) for word in band.words]
    for (_, end), (start, _) in pairwise(run.columns):
        middle = (end + start) / 2
        left = max((word.order for word in words if word.box.middle[0] < middle), default=0)
        right = min((word.order for word in words if word.box.middle[0] >= middle), default=0)
        if left < right:
            return True
    return False


def _is_written_by_row(bands: Sequence[Band]) -> bool:
    """Return whether the file has most bands one after the other, as it has rows and lines."""
    pairs = [(above.orders, below.orders) for above, below in pairwise(bands)]
    by_row = sum(_overlap_of_orders(above, below) < 0.5 for above, below in pairs)
    return by_row >= 0.7 * len(pairs)


def _overlap_of_orders(above: tuple[int, int], below: tuple[int, int]) -> float:
    """Return the share of the longer range of positions that is common to both."""
    common = min(above[1], below[1]) - max(above[0], below[0])
    return max(0, common) / max(above[1] - above[0], below[1] - below[0], 1)


def _is_text_in_columns(run: _Run, bands: Sequence[Band]) -> bool:
    """Return whether the columns are running text: equal distances, and long lines that fill them."""
    gaps = [below.top - above.bottom for above, below in pairwise(bands)]
    if len(bands) < _MIN_COLUMN_LINES or max(gaps) - min(gaps) > 0.3 * bands[0].size or len(run.columns) > 3:
        return False
    return all(_is_filled(column, bands) for column in run.columns)


def _is_filled(column: tuple[float, float], bands: Sequence[Band]) -> bool:
    """Return whether the longer lines of a column have several words and most of its width."""
    left, right = column
    lines = [[word for word in band.words if left <= word.box.middle[0] <= right] for band in bands]
    lines = [line for line in lines if line]
    if not lines:
        return False
    counts = sorted(len(line) for line in lines)
    widths = sorted(enclose([word.box for word in line]).width for line in lines)
    longer = len(lines) * 3 // 4
    return counts[longer] >= _COLUMN_LINE_WORDS and widths[longer] >= _COLUMN_LINE_FILLED * (right - left)


# --- rows ---------------------------------------------------------------------------------------------------


def _build(run: _Run, across: Sequence[Rect], vocabulary: Vocabulary) -> FoundTable | None:
    """Return the table of a run; None for labels with values."""
    box = enclose([band.box for band in run.bands])
    lines = [
        rule.top
        for rule in across
        if min(rule.right, box.right) - max(rule.left, box.left) >= _RULE_SHARE * box.width
    ]
    groups = _group_rows(run, lines)
    rows = [
        tuple(_cell_text(group, column, vocabulary) for column in _widen(run.columns))
        if not all(place in run.spanning for place in group.places)
        else (join_words(group.words, vocabulary), *[""] * (len(run.columns) - 1))
        for group in groups
    ]
    if len(rows) < 2 or not _has_header(groups, rows, lines):
        return None
    edges = (box.left, *(left for left, _ in run.columns[1:]), box.right)
    return FoundTable(box, tuple(rows), edges, _is_set_apart(groups))


@dataclass(slots=True)
class _Row:
    """The bands of one row of a table, and their places in its run."""

    bands: list[Band]
    places: list[int]

    @property
    def words(self) -> list[Word]:
        return [word for band in self.bands for word in band.words]


def _group_rows(run: _Run, lines: Sequence[float]) -> list[_Row]:
    """Group the bands into rows: a band may continue the cells of the row above it."""
    usual = _measure_row_gap(run)
    divided = [
        any(above.bottom - 1 <= line <= below.top + 1 for line in lines)
        for above, below in pairwise(run.bands)
    ]
    is_ruled = sum(divided) >= 0.4 * len(divided) and sum(divided) >= 2
    rows = [_Row([run.bands[0]], [0])]
    for place, band in enumerate(run.bands[1:], 1):
        starts = divided[place - 1] or place in run.spanning or place - 1 in run.spanning
        if not starts and not is_ruled:
            starts = not _continues_row(rows[-1].bands[-1], band, run, usual)
        if starts:
            rows.append(_Row([], []))
        rows[-1].bands.append(band)
        rows[-1].places.append(place)
    return rows


def _measure_row_gap(run: _Run) -> float:
    """Return the usual distance before a band that has a word in every column."""
    gaps = [
        below.top - above.bottom
        for above, below in pairwise(run.bands)
        if len(_filled_columns(below, run)) == len(run.columns)
    ]
    return median(gaps) if gaps else 0.0


def _filled_columns(band: Band, run: _Run) -> set[int]:
    """Return the columns in which the band has words."""
    ranges = _widen(run.columns)
    return {
        place
        for place, (left, right) in enumerate(ranges)
        if any(left <= word.box.middle[0] < right for word in band.words)
    }


def _continues_row(above: Band, band: Band, run: _Run, usual: float) -> bool:
    """Return whether a band continues the cells of the band above: by the file's order, else by its place."""
    if band.orders[0] < above.orders[1]:
        return True
    filled = _filled_columns(band, run)
    if len(filled) == len(run.columns):
        return False
    gap = band.top - above.bottom
    if gap < usual - _ROWS_APART * band.size:
        return True
    return 0 not in filled and (len(filled) == 1 or gap <= usual - 0.5)


def _widen(columns: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the columns up to the middles of the spaces between them."""
    middles = [(left[1] + right[0]) / 2 for left, right in pairwise(columns)]
    return list(pairwise([float("-inf"), *middles, float("inf")]))


def _cell_text(row: _Row, column: tuple[float, float], vocabulary: Vocabulary) -> str:
    """Return the words of a row in a column."""
    left, right = column
    return join_words([word for word in row.words if left <= word.box.middle[0] < right], vocabulary)


def _has_header(rows: Sequence[_Row], texts: Sequence[tuple[str, ...]], lines: Sequence[float]) -> bool:
    """Return whether the first row is a header; with three columns, any row may serve as one."""
    if len(texts[0]) >= 3 or _is_set_apart(rows):
        return True
    bottom, top = rows[0].bands[-1].bottom, rows[1].bands[0].top
    inner = [
        any(above.bands[-1].bottom - 1 <= line <= below.bands[0].top + 1 for line in lines)
        for above, below in pairwise(rows[1:])
    ]
    if any(bottom - 1 <= line <= top + 1 for line in lines) and not all(inner or [False]):
        return True
    return _has_numbers_below(texts)


def _is_set_apart(rows: Sequence[_Row]) -> bool:
    """Return whether the first row is bold and the others are not, or has another size."""
    first, rest = rows[0].words, [word for row in rows[1:] for word in row.words]
    if all(word.is_bold for word in first) and not all(word.is_bold for word in rest):
        return True
    return median(word.size for word in first) != median(word.size for word in rest)


def _has_numbers_below(texts: Sequence[tuple[str, ...]]) -> bool:
    """Return whether a column has numbers in most rows, but none in the first one."""
    for column in zip(*texts, strict=True):
        numbers = [any(sign.isdigit() for sign in cell) for cell in column]
        if not numbers[0] and sum(numbers[1:]) >= 0.6 * len(numbers[1:]) and len(numbers) >= 3:
            return True
    return False
