"""Normalization of text for the parsers: lower case without accents, breaks as `|`, numbers without commas.

After it, case, spacing, accents, typographic quotes and dashes have no meaning. Names in the tables pass
through the same function, so that both sides of a comparison are equal.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from holdfast.ai import strip_invisible

NUMBERS: Final = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen".split()
    )
} | {"a": 1, "an": 1, "couple": 2, "a couple of": 2, "a couple": 2}
NUMBER: Final = r"(?:\d{1,3}|a couple(?: of)?|" + "|".join(list(NUMBERS)[1:15]) + r"|an?)"

# Applied in this order.
_RULES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # The parsers use @ and % as markers: remove them from the input.
        (r"[\s@%]+", " "),
        (r"[‘’ʼ´`']", ""),
        (r"\s*(?:→|⇒|->|=>|>)\s*", " to "),
        (r"[–—−‐‑]", "-"),
        (r"\btonight\b", "today evening"),
        # Abbreviations keep no dots: d.c., u.s., a.m.
        (r"\b([a-z])\.\s?([a-z])\.", r"\1\2 "),
        (r"\bst\.? (?=louis|johns?\b|paul|petersburg)", "saint "),
        (r"\bft\.? (?=worth|lauderdale|myers)", "fort "),
        (r"(?<=\d),(?=\d{3}\b)", ""),
        # "From: Boston" is "from Boston".
        (r"(?<=[a-z]):(?!\d)", " "),
        # A dot or colon between digits belongs to a number, a date or an hour.
        (r"[.:](?!\d)|(?<!\d)[.:]|[!?;()\[\]{}\"“”«»\n\r\t|]+", " | "),
        (r"(?:\s*\|)+\s*", " | "),
        (r"\s*,\s*", " , "),
        (r"\s+", " "),
    )
)


def normalize_text(text: str) -> str:
    """Return the text in its normalized form. Characters of other scripts than Latin stay as they are."""
    plain = unicodedata.normalize("NFKD", strip_invisible(text.replace("\n", " | ").replace("\t", " ")))
    plain = "".join(each for each in plain if not unicodedata.combining(each)).casefold()
    for pattern, replacement in _RULES:
        plain = pattern.sub(replacement, plain)
    return plain.strip(" |,")


def parse_number(word: str) -> int:
    """Return the value of a number in digits or words, as `NUMBER` matches it."""
    return int(word) if word.isdigit() else NUMBERS[word]
