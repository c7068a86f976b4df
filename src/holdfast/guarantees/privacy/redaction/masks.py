"""The kinds of personal identifiers, their masks, and the pattern of masks already in a text.

Masks are never searched, so `redact` of a redacted text changes nothing.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, Literal

MaskStyle = Literal["stars", "tokens"]
"""`stars` keeps the last digits behind stars, `tokens` replaces an identifier by its kind."""

KEPT_DIGITS: Final = 4


class IdentifierKind(StrEnum):
    """The kinds of identifiers that redaction finds."""

    email = "email"
    tracking = "tracking"
    phone = "phone"
    order = "order"


MASK: Final = re.compile(
    r"\*\*\*@\*\*\*|\*\*\*-\*\*\*-[0-9]{4}(?![0-9])|\*\*\*[0-9]{4}(?![0-9])|\*\*\*"
    r"|\[(?:EMAIL|PHONE|ORDER|TRACKING)\]"
)
# Machine ids (a UUID, a digest) are not phone numbers. Digits alone do not count as a machine id.
MACHINE_ID: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|(?=[0-9]{0,127}[a-fA-F])[0-9a-fA-F]{32,128})(?![0-9A-Za-z])"
)
UNTOUCHED: Final = re.compile(f"{MASK.pattern}|{MACHINE_ID.pattern}")


def mask(kind: IdentifierKind, found: str, style: MaskStyle) -> str:
    """Return the mask for the identifier `found`: in style `tokens` its kind, in style `stars` asterisks.

    With stars, phones and orders keep the last four digits, if there are as many.
    """
    if style == "tokens":
        return f"[{kind.upper()}]"
    if kind is IdentifierKind.email:
        return "***@***"
    kept = "".join(sign for sign in found if sign.isdecimal() and sign.isascii())[-KEPT_DIGITS:]
    if kind is IdentifierKind.tracking or len(kept) < KEPT_DIGITS:
        return "***"
    return f"***-***-{kept}" if kind is IdentifierKind.phone else f"***{kept}"
