"""The cache in memory: evicts the least recently used entry, and never returns one that is past its lifetime.

Every operation holds one lock for microseconds, so that any thread and any event loop may use the cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import InternalError, StoreClosed
from holdfast.operations import cache as requests
from holdfast.operations.cache import Counted
from holdfast.stores.cache.checks import check

R = TypeVar("R")

ENTRIES_MAX: Final = 10_000
BYTES_MAX: Final = 64 * 1024**2


def open_memory_cache(
    *, clock: Clock = SYSTEM_CLOCK, entries_max: int = ENTRIES_MAX, bytes_max: int = BYTES_MAX
) -> MemoryCache:
    return MemoryCache(clock, entries_max, bytes_max)


@dataclass(frozen=True, slots=True)
class Entry:
    value: bytes
    ends_at: float


class MemoryCache:
    def __init__(self, clock: Clock, entries_max: int, bytes_max: int) -> None:
        self._clock, self._entries_max, self._bytes_max = clock, entries_max, bytes_max
        # Least recently used first.
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._is_closed = False

    async def run(self, operation: requests.Operation[R]) -> R:
        check(operation)
        now = self._clock.now()
        with self._lock:
            if self._is_closed:
                raise StoreClosed("The cache was closed.")
            return cast(R, self._do(operation, now))

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._entries.clear()
            self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def _do(self, operation: requests.Operation[Any], now: float) -> Any:
        match operation:
            case requests.GetValue(key=key):
                entry = self._alive(key, now)
                return None if entry is None else entry.value
            case requests.PutValue():
                return self._put(operation, now)
            case requests.ExtendValue(key=key, lifetime_s=lifetime_s):
                return self._extend(key, lifetime_s, now)
            case requests.DeleteValue(key=key, only_if=only_if):
                entry = self._alive(key, now)
                return entry is not None and only_if in (None, entry.value) and self._drop(key)
            case requests.Increment():
                return self._increment(operation, now)
            case requests.Ping():
                return None
        raise InternalError(f"{type(operation).__name__} is no operation of a cache.")

    def _put(self, put: requests.PutValue, now: float) -> bool:
        if put.only_if_absent and self._alive(put.key, now) is not None:
            return False
        self._keep(put.key, Entry(put.value, now + put.lifetime_s))
        return True

    def _extend(self, key: str, lifetime_s: float, now: float) -> bool:
        entry = self._alive(key, now)
        if entry is None:
            return False
        self._keep(key, Entry(entry.value, now + lifetime_s))
        return True

    def _increment(self, asked: requests.Increment, now: float) -> Counted:
        entry = self._alive(asked.key, now)
        # A value that is not a count is replaced by one.
        count = int(entry.value) if entry is not None and entry.value.isdigit() else 0
        if asked.most is not None and count + asked.by > asked.most:
            return Counted(count=count, is_counted=False)
        ends_at = now + asked.lifetime_s if entry is None else entry.ends_at
        self._keep(asked.key, Entry(str(count + asked.by).encode(), ends_at))
        return Counted(count=count + asked.by, is_counted=True)

    # --- entries --------------------------------------------------------------------------------------------

    def _alive(self, key: str, now: float) -> Entry | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.ends_at <= now:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry

    def _keep(self, key: str, entry: Entry) -> None:
        self._drop(key)
        self._entries[key] = entry
        self._bytes += len(key) + len(entry.value)
        while len(self._entries) > self._entries_max or self._bytes > self._bytes_max:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: str) -> bool:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= len(key) + len(entry.value)
        return entry is not None
