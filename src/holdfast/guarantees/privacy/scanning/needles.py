"""`Needles`: searches bytes for many texts at once, in all their spellings.

A spelling of fifteen bytes or more contains, at any offset, an eight-byte word that starts at a multiple of
eight. The words of a chunk are compared with those of all spellings at once, so that thousands of texts cost
little more than one; only a spelling whose word occurs is then searched for itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple

from holdfast.core.errors import InvalidRequest
from holdfast.guarantees.privacy.scanning.spellings import list_spellings

# Word widths, widest first, with their memoryview format.
_WIDTHS: Final[tuple[tuple[int, Literal["Q", "I"]], ...]] = ((8, "Q"), (4, "I"))
# Number of bytes that identify the tail of a split text.
TAIL_HEAD_BYTES: Final = 4


class Spelling(NamedTuple):
    """One spelling of a text: its bytes, the number of the text in the list of needles, and its name."""

    raw: bytes
    needle: int
    spelling: str


class Needles:
    """Texts to search for, with their spellings indexed by four- and eight-byte words."""

    def __init__(self, texts: Sequence[str]) -> None:
        if "" in texts:
            raise InvalidRequest(
                "Invalid needle '': an empty text occurs everywhere. Pass at least one character."
            )
        self.texts = tuple(texts)
        self.spellings = [
            Spelling(raw, number, name)
            for number, text in enumerate(texts)
            for raw, name in list_spellings(text).items()
        ]
        self.max_bytes = max((len(each.raw) for each in self.spellings), default=0)
        self._words: dict[int, dict[int, list[Spelling]]] = {width: {} for width, _ in _WIDTHS}
        self._short: list[Spelling] = []
        for each in self.spellings:
            self._index(each)

    def _index(self, spelled: Spelling) -> None:
        """Add a spelling to the index of words, or to the short ones, which are always searched for."""
        width = next((width for width, _ in _WIDTHS if len(spelled.raw) >= 2 * width - 1), None)
        if width is None:
            self._short.append(spelled)
            return
        for at in range(width):
            word = int.from_bytes(spelled.raw[at : at + width], sys.byteorder)
            self._words[width].setdefault(word, []).append(spelled)

    @cached_property
    def tails(self) -> dict[bytes, list[tuple[Spelling, int]]]:
        """The possible tails after a split, by their first bytes, for texts as a database stores them."""
        found: dict[bytes, list[tuple[Spelling, int]]] = {}
        for spelled in self.spellings:
            if spelled.spelling == "utf-8":
                for cut in range(1, len(spelled.raw) - TAIL_HEAD_BYTES + 1):
                    head = spelled.raw[cut : cut + TAIL_HEAD_BYTES]
                    found.setdefault(head, []).append((spelled, cut))
        return found

    def find(self, chunk: bytes) -> Iterator[tuple[int, Spelling]]:
        """Yield the position and the spelling of each match in the chunk, in no order."""
        for spelled in (*self._short, *self._find_candidates(chunk)):
            at = chunk.find(spelled.raw)
            while at >= 0:
                yield at, spelled
                at = chunk.find(spelled.raw, at + 1)

    def _find_candidates(self, chunk: bytes) -> Iterable[Spelling]:
        """Return the spellings of which an aligned word occurs in the chunk."""
        likely: dict[Spelling, None] = {}
        for width, code in _WIDTHS:
            index = self._words[width]
            if index:
                words = memoryview(chunk)[: len(chunk) // width * width].cast(code)
                likely |= dict.fromkeys(each for word in index.keys() & words for each in index[word])
        return likely
