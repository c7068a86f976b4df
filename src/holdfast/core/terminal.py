r"""Escaping of untrusted text for a terminal: control characters are shown (`\\x1b`) instead of sent.

A title that clears the screen, a name that reverses the rest of the line, a lone surrogate that no terminal
accepts: everything printed for a person passes through here, on the command line and in the logs.
"""

from __future__ import annotations

import re
from typing import Final

# Control characters except tab and line feed; marks that change the text direction; lone surrogates.
_CONTROL_CHARS: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


def escape_control_chars(text: str) -> str:
    """Return the text with every terminal control character escaped. CRLF becomes LF."""
    return _CONTROL_CHARS.sub(_escape, text.replace("\r\n", "\n"))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
