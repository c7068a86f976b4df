"""A sentence as the reader sees it: small letters without accents, breaks as `|`, numbers without their commas.

Case, spacing, accents, typographic quotes and dashes carry no meaning from here on. Names in the tables pass through
the same function, so that both sides of a comparison look alike.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from holdfast.ai import seen

NUMBERS: Final = {
    word: number
    for number, word in enumerate(
        "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen".split()
    )
} | {"a": 1, "an": 1, "couple": 2, "a couple of": 2, "a couple": 2}
NUMBER: Final = r"(?:\d{1,3}|a couple(?: of)?|" + "|".join(list(NUMBERS)[1:15]) + r"|an?)"

# In this order.
_RULES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        # The reader's own marks mean nothing in what others write.
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


def worded(text: str) -> str:
    """The text, made plain. What is not of Latin letters stays as it is."""
    plain = unicodedata.normalize("NFKD", seen(text.replace("\n", " | ").replace("\t", " ")))
    plain = "".join(each for each in plain if not unicodedata.combining(each)).casefold()
    for pattern, replacement in _RULES:
        plain = pattern.sub(replacement, plain)
    return plain.strip(" |,")


def number_of(word: str) -> int:
    """Of a number in digits or words, as `NUMBER` matches them."""
    return int(word) if word.isdigit() else NUMBERS[word]
