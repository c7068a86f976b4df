"""Rate limit: no more than so much per subject and window, counted together over all processes.

    calls = RateLimit("calls to the shop", "RL", limit=100, window_s=60, rate=Rate("call"))
    await calls.take(stores, "tenant-7")          # RateLimited, with the time to wait, where it would be too much

*Fixed*: windows begin at multiples of their length, and in none of them more than `limit` is taken. At the border of
two, up to twice the limit can fall into a stretch as long as one window.
*Sliding* (`parts`): a window is counted in so many parts, and a take is admitted if the part it falls in and the `parts`
before it have room. So no stretch as long as a window holds more than the limit, wherever it begins; the price is that
what was taken is forgotten up to one part later than it could be.

Both hold exactly, whoever takes at the same time: looking and counting are one conditional write. Takes are judged by
the moment at which they ask the clock; a process whose clock is behind the others' by more than a window is not.

Counters are behind a port, `Windows`: here they are items of a table.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Protocol

from holdfast.errors import (
    ConditionFailed,
    DeclarationError,
    InvalidRequest,
    RateLimited,
    RetryLater,
    TransactionConflict,
)
from holdfast.guarantees.lifetimes import kept
from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.model import (
    Attr,
    Entity,
    EpochSeconds,
    Get,
    Key,
    Pattern,
    Put,
    Rate,
    Table,
    as_written,
    attr,
)
from holdfast.runtime import Stores

RATE_LIMITS: Final = Table(
    "RateLimits",
    "counted",
    ttl="expires_at",
    names=as_written,
    purpose="How much was taken of each limit, by subject and window",
)
# Between the name of a limit and the subject.
SEPARATOR: Final = "#"
ATTEMPTS_MAX: Final = 200
PAUSE_S_MAX: Final = 0.02
_EXAMPLE_TIME: Final = datetime(2026, 2, 4, tzinfo=UTC)


@dataclass(frozen=True)
class Added:
    """Whether it was counted, and what the windows hold now."""

    is_added: bool
    counts: Mapping[int, int]


class Windows(Protocol):
    """Counters by key and window, a number that grows with time."""

    async def add(
        self, stores: Stores, key: str, cost: int, *, window: int, oldest: int, most: int, ends_at: datetime
    ) -> Added:
        """In one step: counts `cost` into `window`, if all windows from `oldest` on then hold no more than `most`.

        Counts of windows that are as old again are forgotten, and all of them at `ends_at`.
        """
        ...


class RateLimit:
    """A limit by the name of what is limited; each subject has its own.

    `parts` makes it sliding: 10 forgets a tenth of a window late; 0 is a fixed window.
    """

    def __init__(
        self,
        name: str,
        prefix: str,
        *,
        limit: int,
        window_s: float,
        rate: Rate,
        parts: int = 0,
        windows: Windows | None = None,
    ) -> None:
        if SEPARATOR in name:
            raise DeclarationError(
                f"The limit {name!r} cannot be called so: {SEPARATOR!r} ends the name in the key."
            )
        if limit < 1 or window_s <= 0 or parts < 0:
            raise DeclarationError(
                f"The limit {name!r} of {limit} in {window_s} s and {parts} parts lets nothing through or cannot be "
                "counted: give a limit from 1 up, a window longer than 0 s, and no negative parts."
            )
        self.name, self.limit, self.window_s, self.parts = name, limit, window_s, parts
        self._tables = TableWindows(name, prefix, rate)
        self._windows: Windows = windows or self._tables
        kept(WindowCounts, (1 + self._memory) * self._length_s + 1, "until its windows count no more")

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self._tables.counts,)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self._tables.keep,)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.reads, *self.writes)

    async def take(self, stores: Stores, subject: str, cost: int = 1) -> int:
        """Takes, and gives how much is left; `RateLimited` where there is not so much."""
        if not 1 <= cost <= self.limit:
            raise InvalidRequest(
                f"A cost of {cost} can never be taken of {self.name}, which allows {self.limit}: take from 1 up to that."
            )
        now = stores.clock.now()
        window = int(now // self._length_s)
        # The end of a life is kept in whole seconds: one more, so that it is never before its time.
        ends_at = datetime.fromtimestamp((window + 1 + self._memory) * self._length_s + 1, UTC)
        added = await self._windows.add(
            stores,
            f"{self.name}{SEPARATOR}{subject}",
            cost,
            window=window,
            oldest=window - self.parts,
            most=self.limit,
            ends_at=ends_at,
        )
        if not added.is_added:
            raise self._refusal(subject, now, added.counts, cost)
        return self.limit - sum(n for each, n in added.counts.items() if each >= window - self.parts)

    @property
    def _length_s(self) -> float:
        """Of what is counted in one: the window, or a part of it."""
        return self.window_s / max(1, self.parts)

    @property
    def _memory(self) -> int:
        """For how many more windows a count matters, with room for a process that comes late."""
        return 2 * self.parts + 1

    def _refusal(self, subject: str, now: float, counts: Mapping[int, int], cost: int) -> RateLimited:
        wait_s = max(0.0, self._free_at(counts, cost) - now)
        return RateLimited(
            f"{self.name} allows {self.limit} in {self.window_s:g} s, and {subject} has taken them: try again in "
            f"{wait_s:.1f} s.",
            retry_after_s=wait_s,
        )

    def _free_at(self, counts: Mapping[int, int], cost: int) -> float:
        """When enough windows are forgotten that the cost has room, if nobody takes anything meanwhile."""
        held, free_at = sum(counts.values()), 0.0
        for window in sorted(counts):
            if held + cost <= self.limit:
                break
            held -= counts[window]
            free_at = (window + self.parts + 1) * self._length_s
        return free_at


class WindowCounts(Entity, table=RATE_LIMITS):
    """The counts of one key. They are in one item, so that looking at several and counting into one is one write."""

    counted: Attr[str] = attr()
    counts: Attr[dict[str, int]] = attr(default_factory=dict)
    version: Attr[int] = attr(default=0)
    expires_at: Attr[EpochSeconds] = attr()

    of = Key(counted)


class TableWindows:
    """Counters in the table `RATE_LIMITS`."""

    def __init__(self, name: str, prefix: str, rate: Rate) -> None:
        self.counts = _counts_pattern(f"{prefix}1", name, rate)
        self.keep = _keep_pattern(f"{prefix}2", name, rate)

    async def add(
        self, stores: Stores, key: str, cost: int, *, window: int, oldest: int, most: int, ends_at: datetime
    ) -> Added:
        seen = await stores.run(self.counts(key)) or WindowCounts(counted=key, expires_at=ends_at)
        for _ in range(ATTEMPTS_MAX):
            counts = {int(each): count for each, count in seen.counts.items()}
            relevant = {each: count for each, count in counts.items() if each >= oldest}
            if sum(relevant.values()) + cost > most:
                return Added(False, relevant)
            kept = _kept(counts, window, oldest, cost)
            now_there = await self._put(stores, _with(seen, kept, ends_at), seen.version)
            if now_there is None:
                return Added(True, kept)
            seen = now_there
            await asyncio.sleep(random.uniform(0, PAUSE_S_MAX))
        raise RetryLater(f"Too many count {key} at once: try again.", retry_after_s=PAUSE_S_MAX)

    async def _put(self, stores: Stores, counts: WindowCounts, seen: int) -> WindowCounts | None:
        """None if it is written; else what another has written in the meantime."""
        try:
            await stores.run(self.keep(counts, seen))
        except ConditionFailed as refused:
            # The item as it is: one at the end of its life is not read any more, and is still written over.
            if refused.item:
                return WindowCounts.from_item(dict(refused.item))
        except TransactionConflict:
            pass
        else:
            return None
        found = await stores.run(self.counts(counts.counted))
        return found or WindowCounts(counted=counts.counted, expires_at=counts.expires_at)


def _with(seen: WindowCounts, counts: Mapping[int, int], ends_at: datetime) -> WindowCounts:
    changes = {
        "counts": {str(window): count for window, count in counts.items()},
        "expires_at": max(ends_at, seen.expires_at),
    }
    return seen.model_copy(update=changes)


def _kept(counts: Mapping[int, int], window: int, oldest: int, cost: int) -> dict[int, int]:
    """With the cost counted. What is old is kept for as long again: a process that comes late looks further back."""
    forgotten = oldest - (window - oldest) - 1
    kept = {each: count for each, count in counts.items() if each >= forgotten}
    return kept | {window: kept.get(window, 0) + cost}


def _counts_pattern(id: str, name: str, rate: Rate) -> Pattern[[str], Get[WindowCounts]]:
    def window_counts(key: str) -> Get[WindowCounts]:
        return WindowCounts.of(key).get().consistent()

    spoken = f"counts_of_{_spoken(name)}"
    purpose = f"How much a subject has taken ({name})"
    return made_pattern(window_counts, id, spoken, purpose, rate=rate, example=(f"{name}#s-1",))


def _keep_pattern(id: str, name: str, rate: Rate) -> Pattern[[WindowCounts, int], Put[WindowCounts]]:
    def keep_counts(counts: WindowCounts, seen: int) -> Put[WindowCounts]:
        if seen == 0:
            return WindowCounts.create(counts.model_copy(update={"version": 1}))
        return WindowCounts.put(counts).at_version(WindowCounts.version, seen)

    example = (WindowCounts(counted=f"{name}#s-1", counts={"1": 1}, expires_at=_EXAMPLE_TIME), 0)
    spoken = f"count_of_{_spoken(name)}"
    return made_pattern(
        keep_counts, id, spoken, f"Count what a subject takes ({name})", rate=rate, example=example
    )


def _spoken(name: str) -> str:
    return "".join(each if each.isalnum() else "_" for each in name.lower())
