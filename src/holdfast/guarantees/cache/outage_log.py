"""Warnings about an unavailable cache: at most one a minute, with the number of those left out."""

from __future__ import annotations

import logging
import time
from typing import Final

from holdfast.core.errors import HoldfastError

WARN_EVERY_S: Final = 60.0

log = logging.getLogger(__name__)


class OutageLog:
    """The warnings of one guarantee. `consequence` says how it continues without the cache."""

    def __init__(self, consequence: str) -> None:
        self._consequence = consequence
        self._warned_at: float | None = None
        self._suppressed = 0

    def warn(self, error: HoldfastError) -> None:
        """Log the error, unless a warning was logged in the last minute; then only count it for the next
        one.
        """
        now = time.monotonic()
        if self._warned_at is not None and now - self._warned_at < WARN_EVERY_S:
            self._suppressed += 1
            return
        more = f" ({self._suppressed} more since the last warning)" if self._suppressed else ""
        log.warning("%s: %s%s", self._consequence, error.message, more)
        self._warned_at, self._suppressed = now, 0
