"""Formats of values in pages: times, durations, numbers, bytes and money, as Jinja2 filters."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.core.distribution import explain_missing

with explain_missing(__name__, "console"):
    from markupsafe import Markup, escape

NO_VALUE: Final = "–"
_BYTE_UNITS: Final = ("B", "KB", "MB", "GB", "TB")
_KIBI: Final = 1024
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3600, 86400
_TIME_IN_TEXT: Final = re.compile(
    r"\b(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?)(?: UTC)?(?!\d)", re.ASCII
)


def format_time(value: datetime | float | str | None) -> Markup:
    """Return a `<time>` element: UTC as text, which the browser shows in the user's zone, UTC on hover."""
    if value is None or value == "":
        return Markup(NO_VALUE)
    try:
        at = _to_datetime(value)
    except (ValueError, OverflowError, OSError):
        return escape(str(value))  # beyond the calendar, such as milliseconds taken for seconds
    text = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(at.isoformat(), text, text)


def format_times_in_text(text: str) -> Markup:
    """Return a text in which each time, which is in UTC unless it has an offset, is a `<time>` element."""
    parts = _TIME_IN_TEXT.split(text)
    return Markup("").join(
        format_time(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


def format_duration(seconds: float | None) -> str:
    """Return a duration for a person: `42 ms`, `3.1 s`, `5 min 2 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds is None:
        return NO_VALUE
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < _MINUTE_S:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    for size, unit, smaller, inner in (
        (_DAY_S, "d", _HOUR_S, "h"),
        (_HOUR_S, "h", _MINUTE_S, "min"),
        (_MINUTE_S, "min", 1, "s"),
    ):
        if seconds >= size:
            rest = int(seconds % size // smaller)
            return f"{int(seconds // size)} {unit}" + (f" {rest} {inner}" if rest else "")
    raise AssertionError(seconds)  # a minute or more has matched above


def format_number(value: float | None) -> str:
    """Return a number with separated thousands, and at most three digits after the point."""
    if value is None:
        return NO_VALUE
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.3f}".rstrip("0").rstrip(".") if abs(value) >= 0.001 else f"{value:.2g}"


def format_rounded(value: float | None) -> str:
    """Return a number that needs no more than three significant digits, such as a rate."""
    if value is None:
        return NO_VALUE
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return "<0.001" if 0 < value < 0.001 else f"{value:.3g}"


def format_percent(share: float | None) -> str:
    """Return a share of 1 in percent: `5 %`, `0.12 %`."""
    return NO_VALUE if share is None else f"{format_rounded(share * 100)} %"


def format_bytes(value: float | None) -> str:
    """Return a size: `812 B`, `4.2 KB`."""
    if value is None:
        return NO_VALUE
    size, place = float(value), 0
    while size >= _KIBI and place < len(_BYTE_UNITS) - 1:
        size, place = size / _KIBI, place + 1
    digits = 0 if place == 0 or size >= 100 else 1
    return f"{size:.{digits}f} {_BYTE_UNITS[place]}"


def format_money(value: float | None) -> str:
    """Return an amount in US dollars, with cents, and more digits for amounts below a cent."""
    if value is None:
        return NO_VALUE
    if value == 0 or abs(value) >= 0.01:
        return f"${value:,.2f}"
    digits = 1 - math.floor(math.log10(abs(value)))
    return f"${value:.{digits}f}"


def format_json(value: Any) -> str:
    """Return a value as indented JSON; what JSON lacks is shown as text."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def to_data(value: Any) -> Markup:
    """Return a value as JSON for a `data-…` attribute."""
    return escape(json.dumps(value, ensure_ascii=False, default=str, separators=(",", ":")))


def format_inline_code(text: str) -> Markup:
    """Return a text of the documentation with the parts between backquotes as code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
        if part
    )


def _to_datetime(value: datetime | float | str) -> datetime:
    """Return the time in UTC, from epoch seconds or ISO text too."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    elif not isinstance(value, datetime):
        return datetime.fromtimestamp(value, UTC)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "time": format_time,
    "times": format_times_in_text,
    "duration": format_duration,
    "number": format_number,
    "percent": format_percent,
    "rounded": format_rounded,
    "bytes": format_bytes,
    "money": format_money,
    "pretty_json": format_json,
    "data": to_data,
    "inline_code": format_inline_code,
}
