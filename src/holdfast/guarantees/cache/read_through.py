"""Read-through cache: return a value from the cache, or load it from its source and cache it.

    oauth = CachedValue("oauth:{payer_id}", AccessToken, lifetime_s=3600)
    tokens = ReadThrough(oauth, prefix="OA", rate=Rate("call"), example={"payer_id": "payer-1"},
                         lifetime=lifetime_until(lambda token: token.expires_at))

    token = await tokens.get(stores, lambda: fetch_token(http, payer), payer_id=payer.id)

However many callers need it at once, a value is loaded once: within a process they await one load; between
processes a lock in the cache decides which one loads, and the others poll for the value for a while and then
load it themselves. So no caller depends on a holder that died, nor on the cache: if it is unavailable, every
process loads for itself. Two loads are possible (a process that stopped waiting, a Redis failover that loses
the lock), so loading must be safe to repeat. That is why the lock is not a `Lease`: it saves loads and
protects no write, so it may be lost with the cache and needs neither renewal nor a fencing token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from holdfast.core.errors import CacheUnavailable, DeclarationError, InvalidRequest, RetryLater
from holdfast.core.rng import make_hex_token
from holdfast.guarantees.cache.outage_log import OutageLog
from holdfast.guarantees.pattern_sets import Guarantee, PatternSet, build_pattern
from holdfast.model.cache import CachedValue, CacheHit, CacheOperation, DeleteCached, PutCached
from holdfast.model.patterns import Pattern, Rate
from holdfast.operations import cache as requests
from holdfast.runtime import Stores

V = TypeVar("V", bound=BaseModel)
R = TypeVar("R")

ABSENT_S: Final = 30.0
LOCK_S: Final = 10.0
WAIT_S: Final = 5.0
POLL_S: Final = 0.02
MAX_POLL_S: Final = 0.2
# A token that is about to expire could expire in transit.
MARGIN_S: Final = 60.0

Fields: TypeAlias = dict[str, str | int]
Loader: TypeAlias = Callable[[], Awaitable[V | None]]
# Returns the seconds that a value may be cached, from the value and the time.
LifetimeFunction: TypeAlias = Callable[[V, float], float]


def lifetime_until(
    end: Callable[[V], datetime | float], *, margin_s: float = MARGIN_S
) -> LifetimeFunction[V]:
    """Return a lifetime function that ends `margin_s` seconds before the value's own end (a datetime or epoch
    seconds).
    """

    def lifetime(value: V, now: float) -> float:
        value_end = end(value)
        ends_at = value_end.timestamp() if isinstance(value_end, datetime) else value_end
        return ends_at - margin_s - now

    return lifetime


class ReadThrough(Guarantee, Generic[V]):
    """A read-through cache of one kind of value.

    An absence is cached for `absent_s` seconds, 0 for not at all. `lifetime` returns how long a value is
    cached, at most the lifetime of its declaration. A load may take `lock_s` seconds at most; another
    process's load is awaited for `wait_s` seconds.
    """

    def __init__(
        self,
        cached: CachedValue[V],
        *,
        prefix: str,
        rate: Rate,
        example: Mapping[str, str | int],
        lifetime: LifetimeFunction[V] | None = None,
        absent_s: float = ABSENT_S,
        lock_s: float = LOCK_S,
        wait_s: float = WAIT_S,
    ) -> None:
        if lock_s <= 0 or wait_s < 0 or absent_s < 0:
            raise DeclarationError(
                f"Invalid ReadThrough of {cached}: lock_s={lock_s:g}, wait_s={wait_s:g}, "
                f"absent_s={absent_s:g}. Expected lock_s above 0, and the others not negative."
            )
        self.cached, self.absent_s, self.lock_s, self.wait_s = cached, absent_s, lock_s, wait_s
        self._lifetime = lifetime
        self.name = cached.template
        self.pattern_set: ReadThroughPatterns[V] = _build_patterns(
            cached, prefix, rate, dict(example), lock_s
        )
        self._outage_log = OutageLog(f"{cached} is read without the cache")
        # One load at a time per event loop, stores and key. An entry is removed with its task.
        self._loads: dict[tuple[Any, Any, str], asyncio.Task[V | None]] = {}

    async def get(self, stores: Stores, load: Loader[V], /, **fields: str | int) -> V | None:
        """Return the value from the cache, or from `load`; None if there is none.

        `fields` fill the key template. Errors of `load` propagate, and nothing is cached then. A load above
        `lock_s` seconds raises `RetryLater`. An unavailable cache is only logged.
        """
        known = await self._peek(stores, fields)
        return known.value if known is not None else await self._load_shared(stores, load, fields)

    async def invalidate(self, stores: Stores, seen: V | None = None, /, **fields: str | int) -> None:
        """Remove the cached value, as when a token is refused, so that it is loaded again.

        With `seen`, only if that is the cached value: when many callers were refused with the same token, the
        new token of the first one stays.
        """
        body = None
        if seen is not None:
            body = await self._try_cache(stores.run(self.pattern_set.peek(fields)))
            known = self.cached.decode(body)
            if known is None or known.value != seen:
                return
        # A value that was renewed since the read differs, and stays.
        await self._try_cache(stores.run(self.pattern_set.drop(fields, body)))

    # --- one load for all -----------------------------------------------------------------------------------

    async def _load_shared(self, stores: Stores, load: Loader[V], fields: Fields) -> V | None:
        """Await the one load of this key in this process; start it if none runs.

        A caller that gives up does not cancel it.
        """
        place = (asyncio.get_running_loop(), stores.engines, self.cached.build_key(**fields))
        task = self._loads.get(place)
        if task is None:
            task = asyncio.create_task(self._load_across_processes(stores, load, fields))
            self._loads[place] = task
            task.add_done_callback(lambda done: self._on_load_done(place, done))
        return await asyncio.shield(task)

    def _on_load_done(self, place: tuple[Any, Any, str], task: asyncio.Task[V | None]) -> None:
        """Forget the finished load, and retrieve its error so that asyncio does not report it."""
        self._loads.pop(place, None)
        if not task.cancelled():
            task.exception()  # retrieve it, even if all callers have given up

    async def _load_across_processes(self, stores: Stores, load: Loader[V], fields: Fields) -> V | None:
        """Load the value under the lock that all processes share.

        A process that does not get the lock polls the cache for up to `wait_s` seconds, then loads without
        it. If the cache is unavailable, it loads at once.
        """
        loop = asyncio.get_running_loop()
        token, pause_s, ends = make_hex_token(16), POLL_S, loop.time() + self.wait_s
        while True:
            is_ours = await self._try_cache(stores.run(self.pattern_set.lock(fields, token)))
            if is_ours is None:
                return await self._load_and_store(stores, load, fields)
            if is_ours:
                return await self._load_under_lock(stores, load, fields, token)
            if loop.time() >= ends:
                return await self._load_and_store(stores, load, fields)
            await asyncio.sleep(min(pause_s, max(0.0, ends - loop.time())))
            pause_s = min(2 * pause_s, MAX_POLL_S)
            if (known := await self._peek(stores, fields)) is not None:
                return known.value

    async def _load_under_lock(self, stores: Stores, load: Loader[V], fields: Fields, token: str) -> V | None:
        """Read the cache again, load the value if it is still missing, and release the lock in any case."""
        try:
            # The previous holder may have loaded the value and released the lock since the last read.
            known = await self._peek(stores, fields)
            return known.value if known is not None else await self._load_and_store(stores, load, fields)
        finally:
            await self._try_cache(stores.run(self.pattern_set.unlock(fields, token)))

    async def _load_and_store(self, stores: Stores, load: Loader[V], fields: Fields) -> V | None:
        """Load the value and cache it or its absence; if it may not be cached, remove what is cached.

        Return the value.
        """
        value = await self._load_in_time(load)
        lifetime_s = self._compute_lifetime(value, stores.clock.now())
        kept = (
            self.pattern_set.drop(fields, None)
            if lifetime_s <= 0
            else self.pattern_set.keep(fields, value, lifetime_s)
        )
        await self._try_cache(stores.run(kept))
        return value

    async def _load_in_time(self, load: Loader[V]) -> V | None:
        """Load within `lock_s` seconds, or raise `RetryLater`: a load that hangs must not outlast the
        lock.
        """
        limit = asyncio.timeout(self.lock_s)
        try:
            async with limit:
                return await load()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise RetryLater(
                f"The value of {self.cached} was not loaded within {self.lock_s:g} s. Retry, or raise lock_s."
            ) from error

    def _compute_lifetime(self, value: V | None, now: float) -> float:
        """Return how many seconds to cache the value or its absence; 0 or less means not at all."""
        if value is None:
            return self.absent_s
        asked = self.cached.lifetime_s if self._lifetime is None else self._lifetime(value, now)
        return min(asked, self.cached.lifetime_s)

    # --- without the cache ----------------------------------------------------------------------------------

    async def _peek(self, stores: Stores, fields: Fields) -> CacheHit[V] | None:
        """Return the cached value or absence; None if nothing is cached or the cache is unavailable."""
        return self.cached.decode(await self._try_cache(stores.run(self.pattern_set.peek(fields))))

    async def _try_cache(self, asked: Awaitable[R]) -> R | None:
        """Await a cache operation.

        If the cache is unavailable or refuses the value as too large, warn and return None.
        """
        try:
            return await asked
        except (CacheUnavailable, InvalidRequest) as error:
            self._outage_log.warn(error)
            return None


@dataclass(frozen=True)
class PeekCachedText(CacheOperation["bytes | None"]):
    """Read the cached bytes unparsed, so that a delete can be conditional on exactly these bytes."""

    kind = "GET"

    def build_request(self, environment: str) -> requests.GetValue:
        return requests.GetValue(key=self._build_key(environment), pattern=self.pattern)

    def decode_result(self, result: bytes | None) -> bytes | None:
        return result


@dataclass(frozen=True)
class ReadThroughPatterns(PatternSet, Generic[V]):
    """The patterns of a `ReadThrough`."""

    peek: Pattern[[Fields], PeekCachedText]
    keep: Pattern[[Fields, V | None, float], PutCached[V]]
    drop: Pattern[[Fields, bytes | None], DeleteCached[V]]
    lock: Pattern[[Fields, str], PutCached[V]]
    unlock: Pattern[[Fields, str], DeleteCached[V]]


def _build_patterns(
    cached: CachedValue[V], prefix: str, rate: Rate, example: Fields, lock_s: float
) -> ReadThroughPatterns[V]:
    """Build the five patterns, `{prefix}1` to `{prefix}5`; `example` fills the key template."""

    def look_up(fields: Fields) -> PeekCachedText:
        return PeekCachedText(cached, cached.build_key(**fields))

    def keep(fields: Fields, value: V | None, lifetime_s: float) -> PutCached[V]:
        if value is None:
            return cached.put_absence(lifetime_s=lifetime_s, **fields)
        return cached.put(value, lifetime_s=lifetime_s, only_if_absent=False, **fields)

    def drop(fields: Fields, only_if: bytes | None) -> DeleteCached[V]:
        return replace(cached.delete(**fields), only_if=only_if)

    def lock(fields: Fields, token: str) -> PutCached[V]:
        return cached.lock(token=token, lifetime_s=lock_s, **fields)

    def unlock(fields: Fields, token: str) -> DeleteCached[V]:
        return cached.unlock(token=token, **fields)

    def build(number: int, function: Any, purpose: str, *more: Any, **types: Any) -> Any:
        return build_pattern(
            function,
            f"{prefix}{number}",
            f"{function.__name__}_{cached.template.partition(':')[0]}",
            f"{purpose} ({cached.template})",
            rate=rate,
            example=(example, *more),
            argument_types=types,
        )

    return ReadThroughPatterns(
        build(1, look_up, "Read the cached value"),
        build(
            2,
            keep,
            "Cache a loaded value or its absence",
            None,
            cached.lifetime_s,
            value=cached.value_type | None,
        ),
        build(3, drop, "Remove the cached value", None),
        build(4, lock, "Take the lock to load", "token-1"),
        build(5, unlock, "Release the lock", "token-1"),
    )
