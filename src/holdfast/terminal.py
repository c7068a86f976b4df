"""Texts of others on a terminal: what would steer it is shown as its escape, `\\x1b`, and steers nothing.

A title that clears the screen, a name that turns the rest of the line around, half a pair of surrogates that no terminal can
be sent: whatever is printed for a person goes through here. Stands at the bottom: the command line and the logs use it.
"""

from __future__ import annotations

import re
from typing import Final

# Control characters but the tab and the line's end; marks that change the direction of what follows; halves of pairs.
_STEERING: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def harmless(text: str) -> str:
    """The text, with every character that steers a terminal shown and not sent. Lines that end as mails' do just end."""
    return _STEERING.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
