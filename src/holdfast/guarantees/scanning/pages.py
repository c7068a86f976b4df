"""A text that SQLite has cut: a large row goes on in another page, after the four bytes that name the page after it.

The bytes before the cut are followed by the number of the page where the rest stands; both are checked, so that what
is found here was one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack
from typing import Final, NamedTuple

from holdfast.guarantees.scanning.live import Content, reading
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
    with reading(path) as file:
        content = Content(file)
        layout = _layout(content)
        for page in layout.pages:
            body = page.start + _POINTER
            for spelled, cut in rests.get(content.at(body, REST_HEAD_BYTES), ()):
                rest = spelled.raw[cut:]
                if content.at(body, len(rest)) == rest and _begins(content, layout, page, spelled.raw[:cut]):
                    yield body, spelled


def _begins(content: Content, layout: _Layout, page: Page, front: bytes) -> bool:
    """Whether somewhere the front is followed by this page: in a row's own page, or at the end of one before it."""
    pointer = pack(">I", page.number)
    if content.has(front + pointer):
        return True
    for other in layout.pages:
        end = other.start + layout.page_bytes
        if content.at(other.start, _POINTER) == pointer and content.at(end - len(front), len(front)) == front:
            return True
    return False


def _layout(content: Content) -> _Layout:
    size = content.size
    head = content.at(0, _LOG_HEADER)
    if head.startswith(_DATABASE) and len(head) == _LOG_HEADER:
        told: int = unpack(">H", head[16:18])[0]
        width = 65536 if told == 1 else told
        starts = range(0, size - width + 1, width) if width else ()
        return _Layout(width, [Page(number, start) for number, start in enumerate(starts, start=1)])
    if len(head) == _LOG_HEADER and unpack(">I", head[:4])[0] in _LOG:
        width = unpack(">I", head[8:12])[0]
        frames = range(_LOG_HEADER, size - width - _FRAME_HEADER + 1, width + _FRAME_HEADER)
        numbers = ((content.at(frame, _POINTER), frame) for frame in frames)
        return _Layout(
            width,
            [
                Page(unpack(">I", number)[0], frame + _FRAME_HEADER)
                for number, frame in numbers
                if len(number) == _POINTER
            ],
        )
    return _Layout(0, [])
