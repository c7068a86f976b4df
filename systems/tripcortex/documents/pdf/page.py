"""Reads one page of a PDF with PDFium as plain values: words, ruled lines, drawings, pictures, crops.

Only this module, `structure` and `reader` use PDFium. Values are in points from the upper left corner of the
page as displayed, rotated pages included. `tables`, `figures` and `layout` interpret them.
"""

from __future__ import annotations

import ctypes
import io
import threading
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, NamedTuple

import pypdfium2 as pdfium  # type: ignore[import-untyped]
import pypdfium2.raw as raw  # type: ignore[import-untyped]

from .structure import StructureElement, read_structure

# PDFium is not thread-safe: one call at a time in a process.
PDFIUM: Final = threading.RLock()

# Two hundred inches, the largest side that the format allows.
MAX_SIDE: Final = 14_400.0
# A full page of small print has ten thousand.
MAX_LETTERS: Final = 50_000
# A map may be drawn with a million strokes; this many are enough to locate it.
MAX_STROKES: Final = 20_000
# A page of an album has a dozen.
MAX_PICTURES: Final = 500
# Text, shapes and the forms around them; a drawing of a building has about ten thousand.
MAX_OBJECTS: Final = 200_000
CROP_DPI: Final = 150
MAX_CROP_PIXELS: Final = 2_000
# A photograph that fills a page. Fifty crops may be in memory at once.
MAX_CROP_BYTES: Final = 4_000_000
_CROP_MARGIN: Final = 4.0

# Two letters belong to one word up to this gap, as a share of the letters' size.
_LETTER_GAP: Final = 0.35
_STRAIGHT: Final = 0.7
_LINE_END_HYPHEN: Final = 2
_HEAVY: Final = ("bold", "black", "heavy", "semibold", "demi")
_LIGATURES: Final = {chr(code): unicodedata.normalize("NFKC", chr(code)) for code in range(0xFB00, 0xFB07)}
# The dot of symbol fonts, and letters without a width.
_REPLACED: Final = {**_LIGATURES, "\uf0b7": "•", "\u200b": "", "\u2060": "", "\ufeff": "", "\ufffe": "-"}

Transform = Callable[[float, float], tuple[float, float]]


class PageTooLarge(Exception):
    """A page exceeds a limit. The message names both; `reader` refuses the document with it."""


class Rect(NamedTuple):
    """A rectangle in points from the upper left corner of the page."""

    left: float
    top: float
    right: float
    bottom: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top

    @property
    def middle(self) -> tuple[float, float]:
        """Return the centre."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    def contains(self, other: Rect) -> bool:
        """Return True if the centre of the other rectangle is in this one."""
        x, y = other.middle
        return self.left <= x <= self.right and self.top <= y <= self.bottom

    def touches(self, other: Rect, gap: float = 0) -> bool:
        """Return True if the rectangles touch or are at most `gap` apart."""
        return (
            self.left <= other.right + gap
            and other.left <= self.right + gap
            and self.top <= other.bottom + gap
            and other.top <= self.bottom + gap
        )


def enclose(boxes: list[Rect]) -> Rect:
    """Return the smallest rectangle around all boxes."""
    return Rect(
        min(box.left for box in boxes),
        min(box.top for box in boxes),
        max(box.right for box in boxes),
        max(box.bottom for box in boxes),
    )


@dataclass(frozen=True, slots=True)
class Word:
    """A word. `base` is the height of its baseline, `order` its position in the file.

    `content_id` is its marked content id, which the page's structure refers to; -1 without one.
    """

    text: str
    box: Rect
    size: float
    is_bold: bool
    base: float
    order: int
    content_id: int = -1


@dataclass(frozen=True, slots=True)
class Drawing:
    """A stroke or a filled shape. `is_line` is True if it is only horizontal or vertical."""

    box: Rect
    is_line: bool


@dataclass(frozen=True, slots=True)
class PageContent:
    """The content of a page. `rules` are horizontal or vertical lines, as boxes of zero height or width."""

    number: int
    width: float
    height: float
    words: tuple[Word, ...]
    rules: tuple[Rect, ...]
    drawings: tuple[Drawing, ...]
    pictures: tuple[Rect, ...]
    structure: StructureElement | None = None


def read_page(document: pdfium.PdfDocument, index: int) -> PageContent:
    """Read the page with this index, from 0. Raise `PageTooLarge` if its size or its letters exceed a limit.

    Drawings and pictures above their limits are left out.
    """
    with PDFIUM:
        page = document[index]
        try:
            width, height = _size_of(page, index)
            place = _build_transform(page)
            words = tuple(_words(page, place, index))
            rules, drawings, pictures = _shapes(page, place, Rect(0, 0, width, height))
            structure = read_structure(page)
            return PageContent(index + 1, width, height, words, rules, drawings, pictures, structure)
        finally:
            page.close()


def count_letters(document: pdfium.PdfDocument, index: int) -> int:
    """Count the characters of a page's text."""
    with PDFIUM:
        page = document[index]
        try:
            text = page.get_textpage()
            count = len(text.get_text_range().strip())
            text.close()
            return count
        finally:
            page.close()


def render_crop(document: pdfium.PdfDocument, index: int, box: Rect) -> bytes | None:
    """Render the box and a small margin as PNG; return None if the page has too many objects."""
    box = Rect(
        box.left - _CROP_MARGIN, box.top - _CROP_MARGIN, box.right + _CROP_MARGIN, box.bottom + _CROP_MARGIN
    )
    with PDFIUM:
        page = document[index]
        try:
            if raw.FPDFPage_CountObjects(page) > MAX_STROKES:
                return None
            width, height = _size_of(page, index)
            scale = min(CROP_DPI / 72, MAX_CROP_PIXELS / max(box.width, box.height, 1))
            crop = (max(0, box.left), max(0, height - box.bottom), max(0, width - box.right), max(0, box.top))
            while len(drawn := _render(page, scale, crop)) > MAX_CROP_BYTES:
                scale /= 2
            return drawn
        finally:
            page.close()


def _render(page: pdfium.PdfPage, scale: float, crop: tuple[float, ...]) -> bytes:
    """Render a crop of the page as PNG; `crop` are the margins to cut off, left, bottom, right, top."""
    bitmap = page.render(scale=scale, crop=crop)
    written = io.BytesIO()
    bitmap.to_pil().save(written, "PNG")
    bitmap.close()
    return written.getvalue()


def _size_of(page: pdfium.PdfPage, index: int) -> tuple[float, float]:
    """Return width and height in points. Raise `PageTooLarge` unless both are from 0 to 200 inches."""
    width, height = page.get_size()
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise PageTooLarge(
            f"its page {index + 1:,} measures {width:,.0f} by {height:,.0f} points, and sides of up to "
            f"{MAX_SIDE:,.0f} are read"
        )
    return width, height


def _build_transform(page: pdfium.PdfPage) -> Transform:
    """Return the function from the file's coordinates, which rise from the lower left, to displayed ones."""
    left, bottom, right, top = page.get_bbox()
    places: dict[int, Transform] = {
        0: lambda x, y: (x - left, top - y),
        90: lambda x, y: (y - bottom, x - left),
        180: lambda x, y: (right - x, y - bottom),
        270: lambda x, y: (top - y, right - x),
    }
    return places[page.get_rotation()]


def _to_rect(place: Transform, left: float, bottom: float, right: float, top: float) -> Rect:
    """Return the displayed rectangle of file coordinates."""
    (x0, y0), (x1, y1) = place(left, bottom), place(right, top)
    return Rect(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))


# --- words --------------------------------------------------------------------------------------------------


def _words(page: pdfium.PdfPage, place: Transform, page_index: int) -> Iterator[Word]:
    """Yield the words in the order of the file, which is not yet the reading order."""
    text = page.get_textpage()
    try:
        count = text.count_chars()
        if count > MAX_LETTERS:
            raise PageTooLarge(
                f"its page {page_index + 1:,} has {count:,} letters, and pages of up to {MAX_LETTERS:,} are "
                "read"
            )
        letters: list[tuple[str, Rect]] = []
        first = 0
        for index in range(count):
            code = raw.FPDFText_GetUnicode(text, index)
            letter = "-" if code == _LINE_END_HYPHEN else chr(code)
            if letter.isspace() or code == 0:
                yield from _word(text, letters, first, place)
                letters = []
                continue
            box = _letter_box(text, index, place)
            if letters and not _continues_word(letters[-1][1], box):
                yield from _word(text, letters, first, place)
                letters = []
            if not letters:
                first = index
            letters.append((_REPLACED.get(letter, letter), box))
        yield from _word(text, letters, first, place)
    finally:
        text.close()


def _letter_box(text: pdfium.PdfTextPage, index: int, place: Transform) -> Rect:
    """Return the displayed box of the letter with this index."""
    found = raw.FS_RECTF()
    raw.FPDFText_GetLooseCharBox(text, index, found)
    return _to_rect(place, found.left, found.bottom, found.right, found.top)


def _continues_word(before: Rect, box: Rect) -> bool:
    """Return True if the next letter adjoins the one before, along a line of any direction."""
    gap = _LETTER_GAP * max(min(before.height, before.width), min(box.height, box.width), 1)
    return before.touches(box, gap) and not (box.top >= before.bottom - 1 and box.right < before.left)


def _word(
    text: pdfium.PdfTextPage, letters: list[tuple[str, Rect]], first: int, place: Transform
) -> Iterator[Word]:
    """Yield the word of these letters, if there are any; `first` is the index of the first letter."""
    written = "".join(letter for letter, _ in letters)
    if written:
        box = enclose([box for _, box in letters])
        x, y = ctypes.c_double(), ctypes.c_double()
        raw.FPDFText_GetCharOrigin(text, first, x, y)
        base = place(x.value, y.value)[1]
        owner = raw.FPDFText_GetTextObject(text, first)
        content_id = raw.FPDFPageObj_GetMarkedContentID(owner) if owner else -1
        yield Word(written, box, _size(text, first), _is_bold(text, first), base, first, content_id)


def _size(text: pdfium.PdfTextPage, index: int) -> float:
    """Return the displayed size: fonts are often set at size 1 and scaled."""
    matrix = raw.FS_MATRIX()
    raw.FPDFText_GetMatrix(text, index, matrix)
    stretched = (matrix.c**2 + matrix.d**2) ** 0.5 or 1.0
    return round(float(raw.FPDFText_GetFontSize(text, index)) * stretched, 1)


def _is_bold(text: pdfium.PdfTextPage, index: int) -> bool:
    """Return whether the letter's font is bold, by its name or weight."""
    flags = ctypes.c_int()
    name = ctypes.create_string_buffer(128)
    raw.FPDFText_GetFontInfo(text, index, name, 128, flags)
    written = name.value.decode("utf-8", "replace").lower()
    return any(heavy in written for heavy in _HEAVY) or raw.FPDFText_GetFontWeight(text, index) >= 600


# --- shapes -------------------------------------------------------------------------------------------------


def _shapes(
    page: pdfium.PdfPage, place: Transform, paper: Rect
) -> tuple[tuple[Rect, ...], tuple[Drawing, ...], tuple[Rect, ...]]:
    """Return the page's ruled lines, drawings and pictures, each up to a limit.

    A shape that covers the whole page is not a drawing.
    """
    rules: list[Rect] = []
    drawings: list[Drawing] = []
    pictures: list[Rect] = []
    for shape in islice(page.get_objects(), MAX_OBJECTS):
        if len(rules) + len(drawings) >= MAX_STROKES:
            break
        if shape.type not in (raw.FPDF_PAGEOBJ_PATH, raw.FPDF_PAGEOBJ_IMAGE, raw.FPDF_PAGEOBJ_SHADING):
            continue
        matrix = _outer_matrix(shape)
        box = _on_paper(_transform_box(shape.get_bounds(), matrix, place), paper)
        if box is None:
            continue
        if shape.type == raw.FPDF_PAGEOBJ_IMAGE:
            if len(pictures) < MAX_PICTURES:
                pictures.append(box)
            continue
        if shape.type == raw.FPDF_PAGEOBJ_PATH:
            rules.extend(islice(_rules(shape, matrix, place), MAX_STROKES - len(rules)))
        if box.width < 0.97 * paper.width or box.height < 0.97 * paper.height:
            drawings.append(Drawing(box, min(box.width, box.height) <= 3.5))
    return tuple(rules), tuple(drawings), tuple(pictures)


def _outer_matrix(shape: Any) -> pdfium.PdfMatrix:
    """Return the combined matrix of the forms around the shape.

    Except for a path, a shape's coordinates already include its own matrix.
    """
    matrix = pdfium.PdfMatrix()
    outer = shape.container
    while outer is not None:
        matrix = matrix.multiply(outer.get_matrix())
        outer = outer.container
    return matrix


def _transform_box(bounds: tuple[float, ...], matrix: pdfium.PdfMatrix, place: Transform) -> Rect:
    """Return the displayed box of a shape's bounds."""
    left, bottom, right, top = bounds
    corners = [matrix.on_point(x, y) for x in (left, right) for y in (bottom, top)]
    xs, ys = [x for x, _ in corners], [y for _, y in corners]
    return _to_rect(place, min(xs), min(ys), max(xs), max(ys))


def _on_paper(box: Rect, paper: Rect) -> Rect | None:
    """Return the visible part of the box, or None."""
    if not box.touches(paper):
        return None
    return Rect(max(box.left, 0), max(box.top, 0), min(box.right, paper.right), min(box.bottom, paper.bottom))


def _rules(path: Any, outer: pdfium.PdfMatrix, place: Transform) -> Iterator[Rect]:
    """Yield the straight strokes and edges of a path."""
    matrix = path.get_matrix().multiply(outer)
    before = start = None
    for index in range(min(raw.FPDFPath_CountSegments(path), MAX_STROKES)):
        segment = raw.FPDFPath_GetPathSegment(path, index)
        x, y = ctypes.c_float(), ctypes.c_float()
        raw.FPDFPathSegment_GetPoint(segment, x, y)
        point = place(*matrix.on_point(x.value, y.value))
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO:
            start = point
        elif kind == raw.FPDF_SEGMENT_LINETO and before is not None:
            yield from _straight(before, point)
        if raw.FPDFPathSegment_GetClose(segment) and start is not None:
            yield from _straight(point, start)
        before = point


def _straight(one: tuple[float, float], other: tuple[float, float]) -> Iterator[Rect]:
    """Yield the stroke between two points as a rule if it is horizontal or vertical."""
    (x0, y0), (x1, y1) = one, other
    across, down = abs(x1 - x0), abs(y1 - y0)
    if down <= _STRAIGHT < across:
        yield Rect(min(x0, x1), (y0 + y1) / 2, max(x0, x1), (y0 + y1) / 2)
    elif across <= _STRAIGHT < down:
        yield Rect((x0 + x1) / 2, min(y0, y1), (x0 + x1) / 2, max(y0, y1))
