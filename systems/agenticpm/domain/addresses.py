"""Mail addresses: validate one address, and remove links and addresses from texts that come from outside.

Without this, anyone who can write a ticket could send a link to the stakeholders in the agent's name.
Outgoing text from a ticket, a mail or the RAID log passes `sanitize_text` or `sanitize_line`; the agent's own
words do not.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final

from agenticpm.domain.plain_text import MAX_TITLE_CHARS, to_line

MAX_ADDRESS_CHARS: Final = 254
MAX_NAME_CHARS: Final = 64
MAX_OUTWARD_CHARS: Final = 4000

LINK_REMOVED: Final = "[link removed]"
ADDRESS_REMOVED: Final = "[address removed]"

# Letters, digits and the marks that mail allows unquoted; a comma or an angle bracket would make it two
# addresses.
_WORD: Final = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_ADDRESS: Final = re.compile(rf"{_WORD}(?:\.{_WORD})*@{_LABEL}(?:\.{_LABEL})+")

# The characters that a browser reads as a full stop in a host name.
_FULL_STOP: Final = "[.\u3002\uff0e\uff61]"
_LINK: Final = re.compile(
    r"[a-z0-9+.-]*\s?:\s?(?://|\\\\)\S*|\b(?:mailto|tel|sms|javascript|vbscript|data|file):\S+|\bwww\.\S+",
    re.IGNORECASE,
)
# It ends at the next space, so that what follows does not form an address with the replacement text.
_LOOSE_ADDRESS: Final = re.compile(rf"[^\s@<>()]+[@\uff20][^\s@<>()]+{_FULL_STOP}[^\s<>()]+")
# A host without a scheme: mail programs turn it into a link too.
_HOST_STOP: Final = re.compile(rf"(?<=[^\W_]){_FULL_STOP}(?=[^\W\d_]{{2}})")


def is_address(value: Any) -> bool:
    """Return whether the value is exactly one ASCII mail address (`name@host.example`), at most 254 long."""
    if not isinstance(value, str) or len(value) > MAX_ADDRESS_CHARS or value.find("@") > MAX_NAME_CHARS:
        return False
    return _ADDRESS.fullmatch(value) is not None


def sanitize_text(text: str, max_chars: int = MAX_OUTWARD_CHARS) -> str:
    """Return an outside text as it may be sent: without links, addresses and control characters.

    Keep its line breaks. Truncate each line and the whole text to `max_chars`.
    """
    lines = (sanitize_line(line, max_chars) for line in text[: max_chars * 8].splitlines())
    text_out = "\n".join(lines).strip()
    return text_out if len(text_out) <= max_chars else text_out[: max_chars - 1].rstrip() + "…"


def sanitize_line(text: str, max_chars: int = MAX_TITLE_CHARS) -> str:
    """Return an outside text as one line that may be sent: links and addresses replaced, truncated."""
    # Normalize first: an invisible character must not hide a link from the patterns below.
    plain = to_line(unicodedata.normalize("NFC", text), max_chars * 4)
    sanitized = _LINK.sub(LINK_REMOVED, plain)
    sanitized = _LOOSE_ADDRESS.sub(ADDRESS_REMOVED, sanitized)
    return to_line(_HOST_STOP.sub("[.]", sanitized), max_chars)
