"""The kinds of personal identifiers, the mask of each, and how masks in a text are known again.

A mask is never looked into: what stands in its place is safe, so `redact` of a redacted text changes nothing.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, Literal

Style = Literal["stars", "tokens"]

KEPT_DIGITS: Final = 4


class Kind(StrEnum):
    email = "email"
    tracking = "tracking"
    phone = "phone"
    order = "order"


MASK: Final = re.compile(
    r"\*\*\*@\*\*\*|\*\*\*-\*\*\*-[0-9]{4}(?![0-9])|\*\*\*[0-9]{4}(?![0-9])|\*\*\*"
    r"|\[(?:EMAIL|PHONE|ORDER|TRACKING)\]"
)
# Ids that machines make are no one's phone: a UUID, a digest. A run of digits alone is not taken for one.
MACHINE_ID: Final = re.compile(
    r"(?<![0-9A-Za-z])(?:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"
    r"|(?=[0-9]{0,127}[a-fA-F])[0-9a-fA-F]{32,128})(?![0-9A-Za-z])"
)
LEFT_ALONE: Final = re.compile(f"{MASK.pattern}|{MACHINE_ID.pattern}")


def mask(kind: Kind, found: str, style: Style) -> str:
    """What stands for `found`: of phones and orders the last four digits are kept, where there are so many."""
    if style == "tokens":
        return f"[{kind.upper()}]"
    if kind is Kind.email:
        return "***@***"
    kept = "".join(sign for sign in found if sign.isdecimal() and sign.isascii())[-KEPT_DIGITS:]
    if kind is Kind.tracking or len(kept) < KEPT_DIGITS:
        return "***"
    return f"***-***-{kept}" if kind is Kind.phone else f"***{kept}"
