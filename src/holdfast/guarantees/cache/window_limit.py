"""Window limit: at most a given cost per subject and window, counted in the cache.

    per_minute = WindowCounter("ratelimit:{tenant}:{window}", window_s=60)
    requests = WindowLimit(
        per_minute, prefix="RL", rate=Rate("request"), example={"tenant": "clinic-1"}, limit=600
    )

    left = await requests.take(stores, tenant=caller.tenant)     # raises RateLimited, with the time to wait

Fixed windows start at multiples of their length, and none admits more than `limit`; across the border of two,
a period as long as one window can contain up to twice the limit. With `sliding`, the count of the previous
window is weighted by the share of it that is less than a window's length ago, as if it had been taken evenly.
The check and the count are one atomic step, and refused takes are not counted.

A count that is lost with the cache starts again at 0: where that is not acceptable, count in a table
(`RateLimit`). `fails` declares what happens if the cache is unavailable: `"open"` admits all, `"closed"`
none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from holdfast.core.errors import CacheUnavailable, DeclarationError, InvalidRequest, RateLimited
from holdfast.guarantees.cache.outage_log import OutageLog
from holdfast.guarantees.pattern_sets import Guarantee, PatternSet, build_pattern
from holdfast.model.cache import WINDOW_FIELD, CountInWindow, ReadWindow, WindowCounter
from holdfast.model.patterns import Pattern, Rate
from holdfast.runtime import Stores

# Added to waiting times, so that a caller that waits exactly as long is not refused by a rounding error.
ROUNDING_S: Final = 0.001
ROUNDING_SHARE: Final = 1e-9

Fields: TypeAlias = dict[str, str | int]


@dataclass(frozen=True)
class WindowLimitPatterns(PatternSet):
    """The patterns of a `WindowLimit`; a fixed window reads nothing."""

    read: Pattern[[Fields], ReadWindow] | None
    count: Pattern[[Fields, int, int, float], CountInWindow]


class WindowLimit(Guarantee):
    """A limit; each subject (the fields of the key other than the window) has its own count."""

    def __init__(
        self,
        windows: WindowCounter,
        *,
        prefix: str,
        rate: Rate,
        example: Mapping[str, str | int],
        limit: int,
        sliding: bool = False,
        fails: Literal["open", "closed"] = "open",
    ) -> None:
        if limit < 1 or fails not in ("open", "closed"):
            raise DeclarationError(
                f"Invalid limit of {windows}: limit={limit}, fails={fails!r}. Expected at least 1, and "
                "'open' or 'closed'."
            )
        self.name, self.windows, self.limit, self.fails = windows.template, windows, limit, fails
        fields = {**example, WINDOW_FIELD: 29_386_666}
        self.pattern_set: WindowLimitPatterns = _build_patterns(
            windows, prefix, rate, fields, sliding=sliding
        )
        self._outage_log = OutageLog(f"{windows} lets {'all' if fails == 'open' else 'nothing'} through")

    @property
    def sliding(self) -> bool:
        """True if the previous window counts too."""
        return self.pattern_set.read is not None

    async def take(
        self, stores: Stores, /, *, cost: int = 1, limit: int | None = None, **fields: str | int
    ) -> int:
        """Count the cost and return what is left of the limit.

        Raise `RateLimited` with the time to wait if there is not enough left; the cost is then not counted.
        `limit` overrides the declared one. If the cache is unavailable, `fails` decides: admit, or raise
        `CacheUnavailable`.
        """
        limit = self.limit if limit is None else limit
        if not 1 <= cost <= limit:
            raise InvalidRequest(f"Invalid cost {cost} for {self.windows}: expected 1 to {limit}, the limit.")
        try:
            return await self._take(stores, cost, limit, fields)
        except CacheUnavailable as error:
            self._outage_log.warn(error)
            if self.fails == "closed":
                raise
            return limit - cost

    async def _take(self, stores: Stores, cost: int, limit: int, fields: Fields) -> int:
        """Count the cost in the current window and return what is left; raise `RateLimited` if it does not
        fit.
        """
        now, window_s = stores.clock.now(), self.windows.window_s
        window = self.windows.get_window(now)
        gone_s = now - window * window_s
        read, before = self.pattern_set.read, 0
        if read is not None:
            before = await stores.run(read({**fields, WINDOW_FIELD: window - 1}))
        # The part of the limit that the previous window leaves at this time.
        most = math.floor(limit - before * (1 - gone_s / window_s) + ROUNDING_SHARE)
        # A sliding limit reads a window for twice its length.
        lifetime_s = 2 * window_s if self.sliding else window_s
        count = self.pattern_set.count({**fields, WINDOW_FIELD: window}, cost, most, lifetime_s)
        counted = await stores.run(count)
        if counted.is_counted:
            return most - counted.count
        wait_s = self._compute_free_at(limit - cost, before, counted.count) - gone_s
        raise RateLimited(
            f"Limit of {limit} in {window_s:g} s exceeded ({self.windows.template}). Retry in {wait_s:.1f} "
            "s.",
            retry_after_s=wait_s,
        )

    def _compute_free_at(self, room: int, before: int, count: int) -> float:
        """Return how many seconds after the start of this window the cost fits, if no other call takes any.

        `room` is the limit minus the cost; `before` and `count` are the counts of the previous and of this
        window.
        """
        window_s = self.windows.window_s
        if not self.sliding:
            return window_s
        if count <= room:
            return window_s * (1 - (room - count) / before) + ROUNDING_S
        return window_s + window_s * max(0.0, 1 - room / count) + ROUNDING_S


def _build_patterns(
    windows: WindowCounter, prefix: str, rate: Rate, example: Fields, *, sliding: bool
) -> WindowLimitPatterns:
    """Build the patterns: read the count of a window, if `sliding`, and count a cost in a window."""

    def read_window(fields: Fields) -> ReadWindow:
        return windows.read(**fields)

    def count(fields: Fields, cost: int, most: int, lifetime_s: float) -> CountInWindow:
        return windows.count(cost=cost, most=most, lifetime_s=lifetime_s, **fields)

    word, spoken = windows.template.partition(":")[0], f"({windows.template})"
    return WindowLimitPatterns(
        read=build_pattern(
            read_window,
            f"{prefix}1",
            f"read_{word}",
            f"Read the count of the previous window {spoken}",
            rate=rate,
            example=(example,),
        )
        if sliding
        else None,
        count=build_pattern(
            count,
            f"{prefix}2",
            f"count_{word}",
            f"Count a call within the limit {spoken}",
            rate=rate,
            example=(example, 1, 100, windows.window_s),
        ),
    )
