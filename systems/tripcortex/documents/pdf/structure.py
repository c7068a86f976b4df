"""Reads the structure tree of a tagged PDF page: headings, paragraphs, lists and tables as it names them.

Programs such as word processors and browsers write this tree for screen readers. A leaf names a piece of the
page's content by its marked content id, which `page.Word` has too. Only this module, `page` and `reader` use
PDFium.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pypdfium2 as pdfium  # type: ignore[import-untyped]
import pypdfium2.raw as raw  # type: ignore[import-untyped]

# Real documents nest about twenty deep, and a page of small print has a thousand elements.
MAX_DEPTH: Final = 60
MAX_ELEMENTS: Final = 30_000
MAX_SPAN: Final = 100
_MAX_TYPE_BYTES: Final = 64
_MAX_ATTRIBUTES: Final = 8

HEADINGS: Final = {"H": 1, "Title": 1, **{f"H{level}": level for level in range(1, 7)}}
# Types that hold text of their own, and never sit within a line.
BLOCKS: Final = frozenset(
    {*HEADINGS, "P", "L", "LI", "Table", "TR", "TH", "TD", "Caption", "Code", "TOC", "TOCI"}
)


@dataclass(frozen=True, slots=True)
class StructureElement:
    """An element of the tree. `parts` are elements and marked content ids, in reading order.

    A cell of a table spans `rows` and `columns`.
    """

    type: str
    parts: tuple[StructureElement | int, ...]
    rows: int = 1
    columns: int = 1

    @property
    def elements(self) -> Iterator[StructureElement]:
        """Return the parts that are elements."""
        return (part for part in self.parts if isinstance(part, StructureElement))

    def has_blocks(self) -> bool:
        """Return whether an element below this one is a heading, a paragraph, a list or a table."""
        return any(each.type in BLOCKS or each.has_blocks() for each in self.elements)

    def count_headings(self) -> int:
        """Count the headings below this element."""
        return sum((each.type in HEADINGS) + each.count_headings() for each in self.elements)

    def content_ids(self) -> Iterator[int]:
        """Yield the marked content ids of this element and all below it, in reading order."""
        for part in self.parts:
            if isinstance(part, int):
                yield part
            else:
                yield from part.content_ids()


def read_structure(page: pdfium.PdfPage) -> StructureElement | None:
    """Read the structure tree of a page; return None without one, or if it is unusually large."""
    tree = raw.FPDF_StructTree_GetForPage(page)
    if not tree:
        return None
    try:
        reader = _TreeReader()
        roots = (
            raw.FPDF_StructTree_GetChildAtIndex(tree, index)
            for index in range(min(raw.FPDF_StructTree_CountChildren(tree), MAX_ELEMENTS))
        )
        parts = tuple(reader.read(root, 1) for root in roots if root)
        return None if reader.is_too_large or not parts else StructureElement("Document", parts)
    finally:
        raw.FPDF_StructTree_Close(tree)


class _TreeReader:
    """Reads elements, and counts them: a hostile tree may be deep, wide or refer to itself."""

    def __init__(self) -> None:
        self._count = 0
        self.is_too_large = False

    def read(self, element: Any, depth: int) -> StructureElement:
        """Return the element with all below it."""
        self._count += 1
        if depth > MAX_DEPTH or self._count > MAX_ELEMENTS:
            self.is_too_large = True
            return StructureElement("", ())
        kind = _read_type(element)
        parts = tuple(self._read_parts(element, depth))
        if kind not in ("TH", "TD"):
            return StructureElement(kind, parts)
        return StructureElement(kind, parts, _read_span(element, b"RowSpan"), _read_span(element, b"ColSpan"))

    def _read_parts(self, element: Any, depth: int) -> Iterator[StructureElement | int]:
        """Yield the parts of an element until the tree proves too large."""
        for index in range(raw.FPDF_StructElement_CountChildren(element)):
            content_id = raw.FPDF_StructElement_GetChildMarkedContentID(element, index)
            self._count += 1
            if self._count > MAX_ELEMENTS:
                self.is_too_large = True
            if self.is_too_large:
                return
            if content_id >= 0:
                yield content_id
            elif child := raw.FPDF_StructElement_GetChildAtIndex(element, index):
                yield self.read(child, depth + 1)


def _read_type(element: Any) -> str:
    """Return the type of an element, such as H1, P, L, LI, Table, TR, TH or TD."""
    written = ctypes.create_string_buffer(_MAX_TYPE_BYTES)
    size = raw.FPDF_StructElement_GetType(element, written, _MAX_TYPE_BYTES)
    return written.raw[: max(0, size - 2)].decode("utf-16-le", "replace") if size <= _MAX_TYPE_BYTES else ""


def _read_span(cell: Any, name: bytes) -> int:
    """Return an attribute of a table cell that counts rows or columns; 1 without one."""
    for index in range(min(raw.FPDF_StructElement_GetAttributeCount(cell), _MAX_ATTRIBUTES)):
        attribute = raw.FPDF_StructElement_GetAttributeAtIndex(cell, index)
        value = raw.FPDF_StructElement_Attr_GetValue(attribute, name) if attribute else None
        number = ctypes.c_float()
        if value and raw.FPDF_StructElement_Attr_GetNumberValue(value, number):
            return max(1, min(int(number.value), MAX_SPAN))
    return 1
