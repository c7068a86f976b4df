"""A cache that is down: told once in a while, and not with each of a thousand misses."""

from __future__ import annotations

import logging
import time
from typing import Final

from holdfast.errors import HoldfastError

TOLD_EVERY_S: Final = 60.0

log = logging.getLogger(__name__)


class Outages:
    """Of one guarantee. `what` says how it goes on without the cache."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._told_at: float | None = None
        self._untold = 0

    def tell(self, error: HoldfastError) -> None:
        now = time.monotonic()
        if self._told_at is not None and now - self._told_at < TOLD_EVERY_S:
            self._untold += 1
            return
        more = f" ({self._untold} more since this was last told)" if self._untold else ""
        log.warning("%s: %s%s", self._what, error.message, more)
        self._told_at, self._untold = now, 0
