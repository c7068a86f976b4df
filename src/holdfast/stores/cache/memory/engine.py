"""The in-memory cache engine: operations on a dictionary, with lifetimes and least-recently-used eviction.

It never returns an entry that is past its lifetime. Every operation holds one lock for microseconds, so that
any thread and any event loop may use the cache.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import InternalError, StoreClosed
from holdfast.operations import cache as requests
from holdfast.operations.cache import IncrementResult
from holdfast.stores.cache.checks import check

R = TypeVar("R")

MAX_ENTRIES: Final = 10_000
MAX_BYTES: Final = 64 * 1024**2


def open_memory_cache(
    *, clock: Clock = SYSTEM_CLOCK, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES
) -> MemoryCache:
    """Return an empty cache that evicts the least recently used entries beyond either limit."""
    return MemoryCache(clock, max_entries, max_bytes)


@dataclass(frozen=True, slots=True)
class Entry:
    """A cached value, and when its lifetime ends, in seconds since 1970."""

    value: bytes
    expires_at: float


class MemoryCache:
    """The in-memory cache engine, opened by `open_memory_cache`."""

    def __init__(self, clock: Clock, max_entries: int, max_bytes: int) -> None:
        self._clock, self._max_entries, self._max_bytes = clock, max_entries, max_bytes
        # Least recently used first.
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._is_closed = False

    async def run(self, operation: requests.Operation[R]) -> R:
        """Check and run one operation. Raise `InvalidRequest` or, after `close`, `StoreClosed`."""
        check(operation)
        now = self._clock.now()
        with self._lock:
            if self._is_closed:
                raise StoreClosed("The cache was closed.")
            return cast(R, self._execute(operation, now))

    def close(self) -> None:
        """Drop all entries and refuse further operations."""
        with self._lock:
            self._is_closed = True
            self._entries.clear()
            self._bytes = 0

    def __len__(self) -> int:
        """Count the entries in memory, including expired ones that no read has dropped yet."""
        return len(self._entries)

    def _execute(self, operation: requests.Operation[Any], now: float) -> Any:
        """Run the operation on the dictionary. The caller holds the lock."""
        match operation:
            case requests.GetValue(key=key):
                entry = self._get_alive(key, now)
                return None if entry is None else entry.value
            case requests.PutValue():
                return self._put(operation, now)
            case requests.ExtendValue(key=key, lifetime_s=lifetime_s):
                return self._extend(key, lifetime_s, now)
            case requests.DeleteValue(key=key, only_if=only_if):
                entry = self._get_alive(key, now)
                return entry is not None and only_if in (None, entry.value) and self._drop(key)
            case requests.Increment():
                return self._increment(operation, now)
            case requests.Ping():
                return None
        raise InternalError(f"Invalid operation {type(operation).__name__}: expected a cache operation.")

    def _put(self, put: requests.PutValue, now: float) -> bool:
        """Store the value and return True; return False if `only_if_absent` is set and the key has a live
        value.
        """
        if put.only_if_absent and self._get_alive(put.key, now) is not None:
            return False
        self._store(put.key, Entry(put.value, now + put.lifetime_s))
        return True

    def _extend(self, key: str, lifetime_s: float, now: float) -> bool:
        """Let the value live `lifetime_s` from now; return False if there is no live value."""
        entry = self._get_alive(key, now)
        if entry is None:
            return False
        self._store(key, Entry(entry.value, now + lifetime_s))
        return True

    def _increment(self, operation: requests.Increment, now: float) -> IncrementResult:
        """Add to the count unless that exceeds `most`; a new count gets the lifetime, an existing one keeps
        its own.
        """
        entry = self._get_alive(operation.key, now)
        # A value that is not a count is replaced by one.
        count = int(entry.value) if entry is not None and entry.value.isdigit() else 0
        if operation.most is not None and count + operation.by > operation.most:
            return IncrementResult(count=count, is_counted=False)
        ends_at = now + operation.lifetime_s if entry is None else entry.expires_at
        self._store(operation.key, Entry(str(count + operation.by).encode(), ends_at))
        return IncrementResult(count=count + operation.by, is_counted=True)

    # --- entries --------------------------------------------------------------------------------------------

    def _get_alive(self, key: str, now: float) -> Entry | None:
        """Return the entry and mark it as recently used; drop an expired entry and return None."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires_at <= now:
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry

    def _store(self, key: str, entry: Entry) -> None:
        """Store the entry, then evict the least recently used entries until both limits hold."""
        self._drop(key)
        self._entries[key] = entry
        self._bytes += _count_bytes(key, entry)
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: str) -> bool:
        """Remove the entry and return whether there was one."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._bytes -= _count_bytes(key, entry)
        return entry is not None


def _count_bytes(key: str, entry: Entry) -> int:
    """Return the size of an entry with its key, which may have characters of several bytes."""
    return len(key.encode()) + len(entry.value)
