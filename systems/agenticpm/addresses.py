"""Addresses: what a mail may be sent to, and how those that stand in texts from outside are made harmless.

Whoever can write a ticket could otherwise send a link to the stakeholders in the agent's name. What goes outward passes
`outward_text` or `outward_line` where it comes from a ticket, a mail or the RAID log; the agent's own words do not.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

from agenticpm.plain_text import TITLE_CHARS_MAX, line_of

ADDRESS_CHARS_MAX: Final = 254
NAME_CHARS_MAX: Final = 64
OUTWARD_CHARS_MAX: Final = 4000

LINK_REMOVED: Final = "[link removed]"
ADDRESS_REMOVED: Final = "[address removed]"

# Letters, digits and the marks that mail allows unquoted; a comma or an angle bracket would make it two addresses.
_WORD: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(rf"{_WORD}(?:\.{_WORD})*@{_LABEL}(?:\.{_LABEL})+")

# Full stops as a browser reads them in a name.
_STOP: Final = "[.\u3002\uff0e\uff61]"
_LINK: Final = re.compile(
    r"[a-z0-9+.-]*\s?:\s?(?://|\\\\)\S*|\b(?:mailto|tel|sms|javascript|vbscript|data|file):\S+|\bwww\.\S+",
    re.IGNORECASE,
)
_FOREIGN_ADDRESS: Final = re.compile(rf"[^\s@<>()]+[@\uff20][^\s@<>()]+{_STOP}[^\s@<>()]+")
# A host without a scheme, which mail programs turn into a link as well.
_HOST_STOP: Final = re.compile(rf"(?<=[^\W_]){_STOP}(?=[^\W\d_]{{2}})")


def is_address(value: Any) -> bool:
    """Whether it is one mail address, and nothing more: `name@host.example`, in ASCII."""
    if not isinstance(value, str) or len(value) > ADDRESS_CHARS_MAX or value.find("@") > NAME_CHARS_MAX:
        return False
    return _ADDRESS.fullmatch(value) is not None


def outward_text(text: str, chars_max: int = OUTWARD_CHARS_MAX) -> str:
    """A text from outside as it may go out: links and addresses taken out, no control characters, cut. Lines stay."""
    lines = (outward_line(line, chars_max) for line in text[: chars_max * 8].splitlines())
    shown = "\n".join(lines).strip()
    return shown if len(shown) <= chars_max else shown[: chars_max - 1].rstrip() + "…"


def outward_line(text: str, chars_max: int = TITLE_CHARS_MAX) -> str:
    """The same, on one line."""
    # Made plain first: a sign that is not seen must not keep a link from being found, and joins nothing when it is gone.
    plain = line_of(unicodedata.normalize("NFC", text), chars_max * 4)
    harmless = _LINK.sub(LINK_REMOVED, plain)
    harmless = _FOREIGN_ADDRESS.sub(ADDRESS_REMOVED, harmless)
    return line_of(_HOST_STOP.sub("[.]", harmless), chars_max)
