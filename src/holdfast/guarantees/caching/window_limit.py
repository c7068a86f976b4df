"""Window limit: no more than so much per subject and window, counted in the cache.

    per_minute = Windows("ratelimit:{tenant}:{window}", window_s=60)
    requests = WindowLimit(per_minute, "RL", limit=600, rate=Rate("request"), example={"tenant": "clinic-1"})

    left = await requests.take(stores, tenant=caller.tenant)     # RateLimited, with the time to wait, where it is too much

*Fixed*: windows begin at multiples of their length, and in none of them more than `limit` is taken; at the border of two,
up to twice the limit can fall into a stretch as long as one. *Sliding*: what was taken in the window before counts by the
share of it that is still within one window's length from now, as if it had been taken evenly. Looking and counting are
one step, whoever takes at the same time, and what is refused is not counted.

A count that is lost with the cache begins anew, and the subject may take again: where that must not be, count in a table
(`RateLimit`). What happens where the cache gives no answer is declared: `fails="open"` lets all through, `"closed"` none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from holdfast.errors import CacheUnavailable, DeclarationError, InvalidRequest, RateLimited
from holdfast.guarantees.caching.outages import Outages
from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.model import CountInWindow, Pattern, Rate, ReadWindow, Windows
from holdfast.model.cache import WINDOW
from holdfast.runtime import Stores

# So that whoever waits as long as it was told is not refused for the rounding of a sum.
ROUNDING_S: Final = 0.001
ROUNDING: Final = 1e-9

Fields: TypeAlias = dict[str, str | int]


class WindowLimit:
    """A limit; each subject, by the fields of the key beside the window, has its own."""

    def __init__(
        self,
        windows: Windows,
        prefix: str,
        *,
        limit: int,
        rate: Rate,
        example: Mapping[str, str | int],
        sliding: bool = False,
        fails: Literal["open", "closed"] = "open",
    ) -> None:
        if limit < 1 or fails not in ("open", "closed"):
            raise DeclarationError(
                f"{windows} with a limit of {limit} that fails {fails!r}: give a limit from 1 up, and 'open' or 'closed'."
            )
        self.windows, self.limit, self.sliding, self.fails = windows, limit, sliding, fails
        self._read, self._count = _patterns(windows, prefix, rate, {**example, WINDOW: 29_386_666})
        self._outages = Outages(f"{windows} lets {'all' if fails == 'open' else 'nothing'} through")

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self._read,) if self.sliding else ()

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self._count,)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.reads, *self.writes)

    async def take(
        self, stores: Stores, /, *, cost: int = 1, limit: int | None = None, **fields: str | int
    ) -> int:
        """Takes, and gives how much is left; `RateLimited` where there is not so much. `limit` is this subject's own."""
        limit = self.limit if limit is None else limit
        if not 1 <= cost <= limit:
            raise InvalidRequest(
                f"A cost of {cost} can never be taken of {self.windows}, which allows {limit}: take from 1 up to that."
            )
        try:
            return await self._taken(stores, cost, limit, fields)
        except CacheUnavailable as error:
            self._outages.tell(error)
            if self.fails == "closed":
                raise
            return limit - cost

    async def _taken(self, stores: Stores, cost: int, limit: int, fields: Fields) -> int:
        now, window_s = stores.clock.now(), self.windows.window_s
        window = self.windows.at(now)
        gone_s = now - window * window_s
        before = await stores.run(self._read({**fields, WINDOW: window - 1})) if self.sliding else 0
        # Of the limit, what the window before leaves over at this moment.
        most = math.floor(limit - before * (1 - gone_s / window_s) + ROUNDING)
        # A sliding limit looks at a window for as long again.
        lifetime_s = 2 * window_s if self.sliding else window_s
        counted = await stores.run(self._count({**fields, WINDOW: window}, cost, most, lifetime_s))
        if counted.is_counted:
            return most - counted.count
        wait_s = self._free_at(limit - cost, before, counted.count) - gone_s
        raise RateLimited(
            f"No more than {limit} are taken in {window_s:g} s ({self.windows.template}): try again in {wait_s:.1f} s.",
            retry_after_s=wait_s,
        )

    def _free_at(self, room: int, before: int, count: int) -> float:
        """How long after the beginning of this window there is room, if nobody takes anything meanwhile."""
        window_s = self.windows.window_s
        if not self.sliding:
            return window_s
        if count <= room:
            return window_s * (1 - (room - count) / before) + ROUNDING_S
        return window_s + window_s * max(0.0, 1 - room / count) + ROUNDING_S


def _patterns(
    windows: Windows, prefix: str, rate: Rate, example: Fields
) -> tuple[Pattern[[Fields], ReadWindow], Pattern[[Fields, int, int, float], CountInWindow]]:
    def read_window(fields: Fields) -> ReadWindow:
        return windows.read(**fields)

    def count(fields: Fields, cost: int, most: int, lifetime_s: float) -> CountInWindow:
        return windows.count(cost=cost, most=most, lifetime_s=lifetime_s, **fields)

    word, spoken = windows.template.partition(":")[0], f"({windows.template})"
    return (
        made_pattern(
            read_window,
            f"{prefix}1",
            f"read_{word}",
            f"What was taken in the window before {spoken}",
            rate=rate,
            example=(example,),
        ),
        made_pattern(
            count,
            f"{prefix}2",
            f"count_{word}",
            f"Take, if there is room {spoken}",
            rate=rate,
            example=(example, 1, 100, windows.window_s),
        ),
    )
