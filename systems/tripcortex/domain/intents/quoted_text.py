"""Separation of the employee's own words from text that they quote or paste.

Quoted words never book: "Please summarise this mail: “Book a flight to Dubai.”" asks for a summary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# A quotation of fewer words is a name or an emphasis ("the “late” flight"), and stays in the sentence.
_MIN_QUOTED_WORDS: Final = 4
_QUOTATIONS: Final = re.compile(r"“([^”]*)”|„([^“”]*)[“”]|«([^»]*)»|\"([^\"]*)\"|```(.*?)```", re.DOTALL)
# Apostrophes within words are no quotation marks.
_SINGLE_QUOTATIONS: Final = re.compile(r"(?<!\w)['‘]([^\n]*?)['’](?!\w)")
_REPLY_LINES: Final = re.compile(r"(?m)^\s*>.*$")
# What follows is a mail that somebody else wrote.
_PASTED: Final = re.compile(
    r"(?is)-{2,}\s*(?:original|forwarded) message\s*-*.*"
    r"|\bbegin forwarded message\b.*"
    r"|^\s*(?:fwd?|fw)\s*:.*"
    r"|\bon [^\n]{3,60} wrote:.*|:\s*> ?.*"
    r"|(?<=\bthis: ).*|(?<=\bfollowing: ).*|(?<=\bmessage: ).*|(?<=\bmail: ).*|(?<=\bemail: ).*"
    r"|(?:^|(?<=\n))[ \t]*from: ?[^\n]+\n(?:[ \t]*(?:sent|date|to|cc): ?[^\n]*\n)*[ \t]*subject: ?.*"
)


@dataclass(frozen=True)
class OwnWords:
    """The employee's own words, and whether the text quotes others."""

    text: str
    has_quotation: bool


def separate_quotations(sentence: str) -> OwnWords:
    """Return the sentence without quoted and pasted text."""
    text = _PASTED.sub(" ", _REPLY_LINES.sub(" ", sentence))
    text = _SINGLE_QUOTATIONS.sub(_remove_if_long, _QUOTATIONS.sub(_remove_if_long, text))
    return OwnWords(text, text != sentence)


def _remove_if_long(match: re.Match[str]) -> str:
    """Return a break for a long quotation, and a short one unchanged."""
    words = next((each for each in match.groups() if each is not None), "")
    return " | " if len(words.split()) >= _MIN_QUOTED_WORDS else match[0]
