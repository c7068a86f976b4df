"""`find_split`: finds texts that SQLite has split between the pages of a database or of its log.

A large row continues in an overflow page, after four bytes with the number of the next page.
The bytes before the split are followed by the number of the page with the tail; both are checked, so that a
match was one text.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from struct import pack, unpack
from typing import Final, NamedTuple

from holdfast.guarantees.privacy.scanning.live_files import FileContent, open_live
from holdfast.guarantees.privacy.scanning.needles import TAIL_HEAD_BYTES, Needles, Spelling

_DATABASE_MAGIC: Final = b"SQLite format 3\0"
_LOG_MAGIC: Final = (0x377F0682, 0x377F0683)
_LOG_HEADER, _FRAME_HEADER = 32, 24
_POINTER: Final = 4


class Page(NamedTuple):
    """A page: its number in the database, and its offset in the file."""

    number: int
    start: int


class _Layout(NamedTuple):
    """The pages of a file, all of one size."""

    page_bytes: int
    pages: list[Page]


def find_split(path: Path, needles: Needles) -> Iterator[tuple[int, Spelling]]:
    """Yield the offset of the tail of each split text, and its spelling. Finds tails of four bytes or more.

    Yields nothing for a file that is not an SQLite database or log.
    """
    rests = needles.tails
    if not rests or path.stat().st_size <= len(_DATABASE_MAGIC):
        return
    with open_live(path) as file:
        content = FileContent(file)
        layout = _read_layout(content)
        for page in layout.pages:
            body = page.start + _POINTER
            for spelled, cut in rests.get(content.read_at(body, TAIL_HEAD_BYTES), ()):
                rest = spelled.raw[cut:]
                if content.read_at(body, len(rest)) == rest and _has_beginning(
                    content, layout, page, spelled.raw[:cut]
                ):
                    yield body, spelled


def _has_beginning(content: FileContent, layout: _Layout, page: Page, front: bytes) -> bool:
    """Return True if the head of the text is followed by this page's number.

    That is in the row's own page, or, with the number at the page's start, at the end of an overflow page.
    """
    pointer = pack(">I", page.number)
    if content.contains(front + pointer):
        return True
    for other in layout.pages:
        end = other.start + layout.page_bytes
        if (
            content.read_at(other.start, _POINTER) == pointer
            and content.read_at(end - len(front), len(front)) == front
        ):
            return True
    return False


def _read_layout(content: FileContent) -> _Layout:
    """Return the pages of an SQLite database or write-ahead log; none for any other file."""
    size = content.size
    head = content.read_at(0, _LOG_HEADER)
    if head.startswith(_DATABASE_MAGIC) and len(head) == _LOG_HEADER:
        page_size: int = unpack(">H", head[16:18])[0]
        width = 65536 if page_size == 1 else page_size
        starts = range(0, size - width + 1, width) if width else ()
        return _Layout(width, [Page(number, start) for number, start in enumerate(starts, start=1)])
    if len(head) == _LOG_HEADER and unpack(">I", head[:4])[0] in _LOG_MAGIC:
        width = unpack(">I", head[8:12])[0]
        frames = range(_LOG_HEADER, size - width - _FRAME_HEADER + 1, width + _FRAME_HEADER)
        numbers = ((content.read_at(frame, _POINTER), frame) for frame in frames)
        return _Layout(
            width,
            [
                Page(unpack(">I", number)[0], frame + _FRAME_HEADER)
                for number, frame in numbers
                if len(number) == _POINTER
            ],
        )
    return _Layout(0, [])
