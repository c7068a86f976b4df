"""Many texts looked for in one reading of the bytes.

A spelling of fifteen bytes or more holds, wherever it stands, a word of eight bytes that begins at a multiple of
eight. The words of a stretch are compared with those of all spellings at once, so that thousands of texts cost
little more than one; only a spelling whose word is there is then looked for itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple

from holdfast.errors import InvalidRequest
from holdfast.guarantees.scanning.spellings import spellings

# The widths of words, widest first, with the code that a memory view reads them by.
_WIDTHS: Final[tuple[tuple[int, Literal["Q", "I"]], ...]] = ((8, "Q"), (4, "I"))
# By so many bytes the rest of a text that was cut is known again.
REST_HEAD_BYTES: Final = 4


class Spelled(NamedTuple):
    """One spelling of the needle with this number."""

    raw: bytes
    needle: int
    spelling: str


class Needles:
    def __init__(self, texts: Sequence[str]) -> None:
        if "" in texts:
            raise InvalidRequest("An empty text is everywhere: give needles of at least one character.")
        self.texts = tuple(texts)
        self.spelled = [
            Spelled(raw, number, name)
            for number, text in enumerate(texts)
            for raw, name in spellings(text).items()
        ]
        self.bytes_max = max((len(each.raw) for each in self.spelled), default=0)
        self._words: dict[int, dict[int, list[Spelled]]] = {width: {} for width, _ in _WIDTHS}
        self._short: list[Spelled] = []
        for each in self.spelled:
            self._index(each)

    def _index(self, spelled: Spelled) -> None:
        width = next((width for width, _ in _WIDTHS if len(spelled.raw) >= 2 * width - 1), None)
        if width is None:
            self._short.append(spelled)
            return
        for at in range(width):
            word = int.from_bytes(spelled.raw[at : at + width], sys.byteorder)
            self._words[width].setdefault(word, []).append(spelled)

    @cached_property
    def rests(self) -> dict[bytes, list[tuple[Spelled, int]]]:
        """By its first bytes, what may stand behind a cut: of the texts as a database keeps them."""
        found: dict[bytes, list[tuple[Spelled, int]]] = {}
        for spelled in self.spelled:
            if spelled.spelling == "utf-8":
                for cut in range(1, len(spelled.raw) - REST_HEAD_BYTES + 1):
                    head = spelled.raw[cut : cut + REST_HEAD_BYTES]
                    found.setdefault(head, []).append((spelled, cut))
        return found

    def find(self, stretch: bytes) -> Iterator[tuple[int, Spelled]]:
        """Each place of each spelling, in no order."""
        for spelled in (*self._short, *self._likely(stretch)):
            at = stretch.find(spelled.raw)
            while at >= 0:
                yield at, spelled
                at = stretch.find(spelled.raw, at + 1)

    def _likely(self, stretch: bytes) -> Iterable[Spelled]:
        likely: dict[Spelled, None] = {}
        for width, code in _WIDTHS:
            index = self._words[width]
            if index:
                words = memoryview(stretch)[: len(stretch) // width * width].cast(code)
                likely |= dict.fromkeys(each for word in index.keys() & words for each in index[word])
        return likely
