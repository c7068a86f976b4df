"""Texts from outside as they stand in signals and artefacts: on one line, without control characters, cut."""

from __future__ import annotations

import unicodedata
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

TITLE_CHARS_MAX: Final = 120
DETAIL_CHARS_MAX: Final = 300

NO_NAME: Final = "(no name)"

# Control and format characters can hide or reorder what is read; half a surrogate pair cannot be stored.
_LEFT_OUT: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def line_of(text: str | None, chars_max: int = TITLE_CHARS_MAX) -> str:
    # Far more than is kept is not looked at: a description may be a megabyte.
    looked_at = (text or "")[: chars_max * 8]
    shown = "".join(" " if unicodedata.category(sign) in _LEFT_OUT else sign for sign in looked_at)
    line = " ".join(shown.split())
    return line if len(line) <= chars_max else line[: chars_max - 1].rstrip() + "…"


def name_of(text: str | None, chars_max: int = TITLE_CHARS_MAX) -> str:
    """A line that is never empty."""
    return line_of(text, chars_max) or NO_NAME


def number_of(value: Decimal) -> str:
    """Without a fraction where there is none: 8, and 2.5."""
    short = value.quantize(Decimal("0.1"))
    return str(int(short)) if short == short.to_integral_value() else str(short)


def day_of(moment: datetime) -> str:
    return moment.astimezone(UTC).date().isoformat()


def amount_of(value: Decimal, unit: str) -> str:
    """With a unit that is given for many: 8 points, and 1 point."""
    number = number_of(value)
    return f"{number} {unit.removesuffix('s') if number == '1' else unit}"


def many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
