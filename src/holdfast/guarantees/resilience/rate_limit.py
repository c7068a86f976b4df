"""Rate limit: at most a given cost per subject and window, counted in a table over all processes.

    calls = RateLimit("calls to the shop", prefix="RL", limit=100, window_s=60, rate=Rate("call"))
    await calls.take(stores, "tenant-7")          # raises RateLimited, with the time to wait, above the limit

Fixed windows start at multiples of their length, and none admits more than `limit`. Across the border of two
windows, a period as long as one window can contain up to twice the limit.

A sliding window (`parts`) is counted in this many parts, and a take is admitted if its part and the `parts`
before it have capacity. So no period as long as a window contains more than the limit; in return, a take is
forgotten up to one part late.

Both hold exactly under concurrency: the check and the count are one conditional write. A take counts at the
time at which it reads the clock. Takes that a clock ahead of the reader's counted in the future are forgotten
when the reader has seen them for as long as a take counts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from holdfast.core.errors import (
    ConditionFailed,
    DeclarationError,
    InvalidRequest,
    RateLimited,
    RetryLater,
    TransactionConflict,
)
from holdfast.core.rng import RNG
from holdfast.guarantees.lifetimes import declare_retention
from holdfast.guarantees.pattern_sets import Guarantee, PatternSet, build_pattern
from holdfast.model.entities import Attr, Entity, EpochSeconds, Get, Key, Put, attr
from holdfast.model.patterns import Pattern, Rate
from holdfast.model.tables import Table, keep_names
from holdfast.runtime import Stores

RATE_LIMITS: Final = Table(
    "RateLimits",
    "counted",
    ttl="expires_at",
    naming=keep_names,
    purpose="Counts of each rate limit, by subject and window",
)
"""The table of rate limits. Add it to the tables of a system that uses `RateLimit`."""
# Between the name of a limit and the subject.
SEPARATOR: Final = "#"
MAX_ATTEMPTS: Final = 200
MAX_PAUSE_S: Final = 0.02
_EXAMPLE_TIME: Final = datetime(2026, 2, 4, tzinfo=UTC)


class WindowCounts(Entity, table=RATE_LIMITS):
    """The counts of one key. They are in one item, so that checking several windows and counting into one is
    one write.
    """

    counted: Attr[str] = attr()
    counts: Attr[dict[str, int]] = attr(default_factory=dict)
    version: Attr[int] = attr(default=0)
    expires_at: Attr[EpochSeconds] = attr()

    of = Key(counted)


@dataclass(frozen=True)
class RateLimitPatterns(PatternSet):
    """The patterns of a `RateLimit`: read and write the counts of a subject."""

    counts: Pattern[[str], Get[WindowCounts]]
    keep: Pattern[[WindowCounts, int], Put[WindowCounts]]


class RateLimit(Guarantee):
    """A limit with a name; each subject has its own counts.

    `parts` makes it sliding: 10 forgets a tenth of a window late; 0 is a fixed window.
    """

    def __init__(
        self,
        name: str,
        *,
        prefix: str,
        rate: Rate,
        limit: int,
        window_s: float,
        parts: int = 0,
    ) -> None:
        if SEPARATOR in name:
            raise DeclarationError(
                f"Invalid limit name {name!r}: {SEPARATOR!r} separates the name from the subject in the key. "
                "Remove it."
            )
        if limit < 1 or window_s <= 0 or parts < 0:
            raise DeclarationError(
                f"Invalid limit {name!r}: limit={limit}, window_s={window_s}, parts={parts}. Expected a "
                "limit of at least 1, a window above 0 s, and parts not negative."
            )
        self.name, self.limit, self.window_s, self.parts = name, limit, window_s, parts
        self.pattern_set: RateLimitPatterns = RateLimitPatterns(
            _build_counts_pattern(f"{prefix}1", name, rate), _build_keep_pattern(f"{prefix}2", name, rate)
        )
        declare_retention(
            WindowCounts,
            (1 + self._extra_windows) * self._counter_length_s + 1,
            "until its windows no longer count",
        )

    async def take(self, stores: Stores, subject: str, cost: int = 1) -> int:
        """Count the cost and return what is left of the limit.

        Raise `RateLimited` with the time to wait if there is not enough left, `InvalidRequest` if the cost is
        above the limit.
        """
        if not 1 <= cost <= self.limit:
            raise InvalidRequest(
                f"Invalid cost {cost} for {self.name}: expected 1 to {self.limit}, the limit."
            )
        now = stores.clock.now()
        window = int(now // self._counter_length_s)
        key = f"{self.name}{SEPARATOR}{subject}"
        # expires_at is stored in whole seconds: one more, so that the item never expires early.
        ends_at = datetime.fromtimestamp((window + 1 + self._extra_windows) * self._counter_length_s + 1, UTC)
        seen = await stores.run(self.pattern_set.counts(key)) or WindowCounts(counted=key, expires_at=ends_at)
        for _ in range(MAX_ATTEMPTS):
            counts = {int(each): count for each, count in seen.counts.items()}
            left_s = {
                each: self._compute_left_s(stores, key, each, count, now) for each, count in counts.items()
            }
            relevant = {each: count for each, count in counts.items() if left_s[each] > 0}
            left = self.limit - sum(relevant.values()) - cost
            if left < 0:
                raise self._build_rate_limited(subject, relevant, left_s, cost)
            kept = _add_cost(counts, window, window - self.parts, cost)
            changed = await self._try_put(stores, _replace_counts(seen, kept, ends_at), seen.version)
            if changed is None:
                return left
            seen = changed
            await asyncio.sleep(RNG.uniform(0, MAX_PAUSE_S))
        raise RetryLater(f"Too many callers count {key} at once. Retry.", retry_after_s=MAX_PAUSE_S)

    async def _try_put(self, stores: Stores, counts: WindowCounts, seen: int) -> WindowCounts | None:
        """Write the counts and return None, or return the counts that another caller has written.

        `seen` is the version read.
        """
        try:
            await stores.run(self.pattern_set.keep(counts, seen))
        except ConditionFailed as refused:
            # From the error, not from a read: a read hides an expired item, which still fails the condition.
            if refused.item:
                return WindowCounts.from_item(dict(refused.item))
        except TransactionConflict:
            pass
        else:
            return None
        found = await stores.run(self.pattern_set.counts(counts.counted))
        return found or WindowCounts(counted=counts.counted, expires_at=counts.expires_at)

    @property
    def _counter_length_s(self) -> float:
        """Seconds of one counter: the window, or a part of it."""
        return self.window_s / max(1, self.parts)

    def _compute_left_s(self, stores: Stores, key: str, window: int, count: int, now: float) -> float:
        """Return the seconds until the count of a window is forgotten; 0 or less if it is."""
        ends_at = (window + self.parts + 1) * self._counter_length_s
        max_s = (self.parts + 1) * self._counter_length_s
        return stores.deadlines.compute_left_s((key, window), count, ends_at, max_s, now=now)

    @property
    def _extra_windows(self) -> int:
        """Number of further windows for which a count matters, with a margin for processes that are late."""
        return 2 * self.parts + 1

    def _build_rate_limited(
        self, subject: str, counts: Mapping[int, int], left_s: Mapping[int, float], cost: int
    ) -> RateLimited:
        """Return the error with the seconds until the cost fits.

        `counts`, and the seconds until each is forgotten, are by window.
        """
        wait_s = self._compute_wait_s(counts, left_s, cost)
        return RateLimited(
            f"{subject} exceeded {self.name}: {self.limit} in {self.window_s:g} s. Retry in {wait_s:.1f} s.",
            retry_after_s=wait_s,
        )

    def _compute_wait_s(self, counts: Mapping[int, int], left_s: Mapping[int, float], cost: int) -> float:
        """Return the seconds until enough counts are forgotten for the cost, if no other caller takes any."""
        held, wait_s = sum(counts.values()), 0.0
        for window in sorted(counts, key=lambda each: left_s[each]):
            if held + cost <= self.limit:
                break
            held -= counts[window]
            wait_s = left_s[window]
        return wait_s


def _replace_counts(seen: WindowCounts, counts: Mapping[int, int], ends_at: datetime) -> WindowCounts:
    """Return the item with these counts, and with the later of both ends."""
    changes = {
        "counts": {str(window): count for window, count in counts.items()},
        "expires_at": max(ends_at, seen.expires_at),
    }
    return seen.model_copy(update=changes)


def _add_cost(counts: Mapping[int, int], window: int, oldest: int, cost: int) -> dict[int, int]:
    """Return the counts with the cost added to `window`, and without windows twice as old as `oldest`.

    The margin is for processes whose clock is late.
    """
    forgotten = oldest - (window - oldest) - 1
    kept = {each: count for each, count in counts.items() if each >= forgotten}
    return kept | {window: kept.get(window, 0) + cost}


def _build_counts_pattern(id: str, name: str, rate: Rate) -> Pattern[[str], Get[WindowCounts]]:
    """Build the consistent read of a subject's counts. `name` is the limit's."""

    def window_counts(key: str) -> Get[WindowCounts]:
        return WindowCounts.of(key).get().consistent()

    spoken = f"counts_of_{_to_identifier(name)}"
    purpose = f"Read the counts of a subject ({name})"
    return build_pattern(window_counts, id, spoken, purpose, rate=rate, example=(f"{name}#s-1",))


def _build_keep_pattern(id: str, name: str, rate: Rate) -> Pattern[[WindowCounts, int], Put[WindowCounts]]:
    """Build the write of a subject's counts, on condition that the version is as read (0: none exists)."""

    def keep_counts(counts: WindowCounts, seen: int) -> Put[WindowCounts]:
        if seen == 0:
            return WindowCounts.create(counts.model_copy(update={"version": 1}))
        return WindowCounts.put(counts).at_version(WindowCounts.version, seen)

    example = (WindowCounts(counted=f"{name}#s-1", counts={"1": 1}, expires_at=_EXAMPLE_TIME), 0)
    spoken = f"count_of_{_to_identifier(name)}"
    return build_pattern(
        keep_counts, id, spoken, f"Count a call of a subject ({name})", rate=rate, example=example
    )


def _to_identifier(name: str) -> str:
    """Return the name in lower case, with underscores for other than letters and digits."""
    return "".join(each if each.isalnum() else "_" for each in name.lower())
