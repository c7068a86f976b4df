"""A text that SQLite has cut: a large row goes on in another page, after the four bytes that name the page after it.

The bytes before the cut are followed by the number of the page where the rest stands; both are checked, so that what
is found here was one text.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack_from
from typing import Final, NamedTuple

from holdfast.guarantees.scanning.needles import REST_HEAD_BYTES, Needles, Spelled

_DATABASE: Final = b"SQLite format 3\0"
_LOG: Final = (0x377F0682, 0x377F0683)
_LOG_HEADER, _FRAME_HEADER = 32, 24
_POINTER: Final = 4


class Page(NamedTuple):
    number: int
    start: int


class _Layout(NamedTuple):
    page_bytes: int
    pages: list[Page]


def find_cut(path: Path, needles: Needles) -> Iterator[tuple[int, Spelled]]:
    """Where the rest of a cut text begins, and what it is. At least four of its bytes stand behind the cut."""
    rests = needles.rests
    if not rests or path.stat().st_size <= len(_DATABASE):
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        layout = _layout(content)
        for page in layout.pages:
            body = page.start + _POINTER
            for spelled, cut in rests.get(content[body : body + REST_HEAD_BYTES], ()):
                rest = spelled.raw[cut:]
                if content[body : body + len(rest)] == rest and _begins(
                    content, layout, page, spelled.raw[:cut]
                ):
                    yield body, spelled


def _begins(content: mmap.mmap, layout: _Layout, page: Page, front: bytes) -> bool:
    """Whether somewhere the front is followed by this page: in a row's own page, or at the end of one before it."""
    pointer = pack(">I", page.number)
    if content.find(front + pointer) >= 0:
        return True
    for other in layout.pages:
        end = other.start + layout.page_bytes
        if (
            content[other.start : other.start + _POINTER] == pointer
            and content[end - len(front) : end] == front
        ):
            return True
    return False


def _layout(content: mmap.mmap) -> _Layout:
    size = len(content)
    if content[: len(_DATABASE)] == _DATABASE:
        told: int = unpack_from(">H", content, 16)[0]
        width = 65536 if told == 1 else told
        starts = range(0, size - width + 1, width) if width else ()
        return _Layout(width, [Page(number, start) for number, start in enumerate(starts, start=1)])
    if size > _LOG_HEADER and unpack_from(">I", content, 0)[0] in _LOG:
        width = unpack_from(">I", content, 8)[0]
        frames = range(_LOG_HEADER, size - width - _FRAME_HEADER + 1, width + _FRAME_HEADER)
        return _Layout(
            width, [Page(unpack_from(">I", content, frame)[0], frame + _FRAME_HEADER) for frame in frames]
        )
    return _Layout(0, [])
