"""`normalize`: a text in one form of digits, spaces and signs, in which the redactor's finders search.

Digits of every script become 0–9; there is one kind of space, dash, dot and at sign.

Invisible characters and accents are dropped. Each character knows its position in the original, so that a
match is replaced there and the rest stays unchanged.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

# Letters and signs without a glyph, and characters that people type for a dot in a domain.
_INVISIBLE: Final = frozenset("\u115f\u1160\u3164\uffa0")
_REPLACEMENTS: Final = {
    "\u3002": ".",
    "\uff61": ".",
    "\u2024": ".",
    "\u2212": "-",
    "\u2800": " ",
    "\u2044": "/",
}
_KEPT_CONTROLS: Final = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85")
_DROPPED_ASCII: Final = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")


@dataclass(frozen=True)
class NormalizedText:
    """A normalized text; `positions[i]` is the position of its character i in the original."""

    text: str
    positions: Sequence[int]

    def to_original(self, start: int, end: int) -> tuple[int, int]:
        """Return the span of the original that a span of the normalized text came from."""
        return self.positions[start], self.positions[end - 1] + 1


def normalize(text: str) -> NormalizedText:
    """Return the normalized form of a text, with the position of each of its characters in the original."""
    if text.isascii() and _DROPPED_ASCII.search(text) is None:
        return NormalizedText(text, range(len(text)))
    signs: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for sign in _normalize_char(character):
            signs.append(sign)
            places.append(place)
    return NormalizedText("".join(signs), places)


@lru_cache(maxsize=65536)
def _normalize_char(character: str) -> str:
    """Return the normalized form of one character: several characters, or empty if it is dropped."""
    if character in _REPLACEMENTS:
        return _REPLACEMENTS[character]
    category = unicodedata.category(character)
    if category in ("Mn", "Mc", "Me", "Cf") or character in _INVISIBLE:
        return ""
    if category == "Cc":
        return character if character in _KEPT_CONTROLS else ""
    if category == "Zs":
        return " "
    if category == "Pd":
        return "-"
    if category in ("Nd", "No", "Nl"):
        return _to_digits(character)
    folded = unicodedata.normalize("NFKC", character)
    return (
        folded if len(folded) == 1 else "".join(_normalize_char(sign) for sign in folded if sign != character)
    )


def _to_digits(character: str) -> str:
    """Return the digits of a number character: ٣ and ³ are 3, ⑫ is 12."""
    value = unicodedata.decimal(character, None)
    if value is not None:
        return str(value)
    folded = unicodedata.normalize("NFKC", character)
    digits = "".join(sign for sign in folded if sign.isascii() and sign.isalnum())
    return digits or folded
