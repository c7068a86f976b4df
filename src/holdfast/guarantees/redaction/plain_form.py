"""The form of a text that is searched: digits of every script as 0–9, one kind of space, dash, dot and at sign.

Invisible characters and accents are left out, and each character of the form knows which one of the text it came
from, so that what is found here is replaced there and all else stays as it was written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

# Letters and signs that show nothing, and dots that people type for a dot in a domain.
_INVISIBLE: Final = frozenset("\u115f\u1160\u3164\uffa0")
_AS: Final = {"\u3002": ".", "\uff61": ".", "\u2024": ".", "\u2212": "-", "\u2800": " ", "\u2044": "/"}
_KEPT_CONTROLS: Final = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85")
_LEFT_OUT_OF_ASCII: Final = re.compile(r"[\x00-\x08\x0e-\x1b\x7f]")


@dataclass(frozen=True)
class PlainForm:
    """`text` is the form; `places[i]` is where its character i stands in the original."""

    text: str
    places: Sequence[int]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """The stretch of the original that a stretch of the form came from."""
        return self.places[start], self.places[end - 1] + 1


def plain_form(text: str) -> PlainForm:
    if text.isascii() and _LEFT_OUT_OF_ASCII.search(text) is None:
        return PlainForm(text, range(len(text)))
    signs: list[str] = []
    places: list[int] = []
    for place, character in enumerate(text):
        for sign in _plain(character):
            signs.append(sign)
            places.append(place)
    return PlainForm("".join(signs), places)


@lru_cache(maxsize=65536)
def _plain(character: str) -> str:
    if character in _AS:
        return _AS[character]
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
        return _digits(character)
    folded = unicodedata.normalize("NFKC", character)
    return folded if len(folded) == 1 else "".join(_plain(sign) for sign in folded if sign != character)


def _digits(character: str) -> str:
    """The digits of a number sign: ٣ and ³ are 3, ⑫ is 12."""
    value = unicodedata.decimal(character, None)
    if value is not None:
        return str(value)
    folded = unicodedata.normalize("NFKC", character)
    digits = "".join(sign for sign in folded if sign.isascii() and sign.isalnum())
    return digits or folded
