"""Plain text helpers: one-line texts without control characters, and numbers, days and counts as text."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

MAX_TITLE_CHARS: Final = 120
MAX_DETAIL_CHARS: Final = 300

NO_NAME: Final = "(no name)"

# Control and format characters can hide or reorder text; half a surrogate pair is not storable.
_REMOVED_CATEGORIES: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def to_line(text: str | None, max_chars: int = MAX_TITLE_CHARS) -> str:
    # Limit the input first: a description may be a megabyte.
    """Return the text as one line without control and format characters, truncated with an ellipsis."""
    looked_at = (text or "")[: max_chars * 8]
    cleaned = "".join(
        " " if unicodedata.category(sign) in _REMOVED_CATEGORIES else sign for sign in looked_at
    )
    line = " ".join(cleaned.split())
    return line if len(line) <= max_chars else line[: max_chars - 1].rstrip() + "…"


def to_name(text: str | None, max_chars: int = MAX_TITLE_CHARS) -> str:
    """Return the text as one line, or `(no name)` if nothing is left."""
    return to_line(text, max_chars) or NO_NAME


def format_number(value: Decimal) -> str:
    """Format a number with one decimal place, or none if it is whole: 8, 2.5."""
    short = value.quantize(Decimal("0.1"))
    return str(int(short)) if short == short.to_integral_value() else str(short)


def format_day(moment: datetime) -> str:
    """Format the date in UTC: 2026-02-03."""
    return moment.astimezone(UTC).date().isoformat()


def format_amount(value: Decimal, unit: str) -> str:
    """Format a number with its unit, given in the plural: 8 points, 1 point."""
    number = format_number(value)
    return f"{number} {unit.removesuffix('s') if number == '1' else unit}"


def format_count(count: int, noun: str) -> str:
    """Format a count with its noun, given in the singular: 1 day, 2 days."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
