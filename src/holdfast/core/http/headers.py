"""Values of HTTP headers that external services send: Retry-After and dates."""

from __future__ import annotations

import math
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = [
    "parse_http_date",
    "parse_retry_after",
]

# A service that asks for a longer pause is called again earlier.
MAX_RETRY_AFTER_S: Final = 3600.0


def parse_retry_after(
    text: str, *, since: float | None = None, max_s: float = MAX_RETRY_AFTER_S
) -> float | None:
    """Return the pause of a Retry-After header in seconds, from 0 to `max_s`; None if it is invalid.

    A date counts from `since`, in epoch seconds. Without it, a date is invalid: its clock is unknown.
    """
    try:
        pause = float(text)
    except ValueError:
        until = parse_http_date(text)
        if until is None or since is None:
            return None
        pause = until - since
    return min(max(pause, 0.0), max_s) if math.isfinite(pause) else None


def parse_http_date(text: str) -> float | None:
    """Return an HTTP date as epoch seconds, or None if it is not one."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
