"""Read through: a value from the cache, or else from where it is kept, and then it is in the cache.

    oauth = Cached("oauth:{payer_id}", AccessToken, lifetime_s=3600)
    tokens = ReadThrough(oauth, "OA", rate=Rate("call"), example={"payer_id": "payer-1"},
                         lifetime=until(lambda token: token.expires_at))

    token = await tokens.get(stores, lambda: fetch_token(http, payer), payer_id=payer.id)

However many ask at the same time, it is loaded once: in a process the others await the one that loads; among processes a
lock in the cache decides who that is, and the others look for the value for a while, and then load it themselves. So
nobody depends on a holder that died, nor on the cache: where it gives no answer, every process loads for itself. That
two load is possible (one that no longer waits, a failover of Redis that forgets the lock): loading must do no harm twice.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Generic, TypeAlias, TypeVar

from pydantic import BaseModel

from holdfast.errors import CacheUnavailable, DeclarationError, InvalidRequest, RetryLater
from holdfast.guarantees.caching.outages import Outages
from holdfast.guarantees.pattern_sets import made_pattern
from holdfast.model import Cached, DeleteCached, Known, Pattern, PutCached, Rate
from holdfast.model.cache import CacheOperation
from holdfast.operations import cache as requests
from holdfast.runtime import Stores

V = TypeVar("V", bound=BaseModel)
R = TypeVar("R")

ABSENT_S: Final = 30.0
LOCK_S: Final = 10.0
WAIT_S: Final = 5.0
POLL_S: Final = 0.02
POLL_S_MAX: Final = 0.2
# A token that is about to end would die on its way.
SKEW_S: Final = 60.0

Fields: TypeAlias = dict[str, str | int]
Load: TypeAlias = Callable[[], Awaitable[V | None]]
# How long a value may be kept, given the value and the time.
Lifetime: TypeAlias = Callable[[V, float], float]


def until(end: Callable[[V], datetime | float], *, skew_s: float = SKEW_S) -> Lifetime[V]:
    """Until so many seconds before a value's own end, which it tells as a time or as epoch seconds."""

    def lifetime(value: V, now: float) -> float:
        told = end(value)
        ends_at = told.timestamp() if isinstance(told, datetime) else told
        return ends_at - skew_s - now

    return lifetime


class ReadThrough(Generic[V]):
    """`absent_s` is how long an absence is remembered, 0 for not at all; `lifetime` how long a value is kept, which is at
    most what its declaration says. `lock_s` is the longest a load may take; `wait_s` is how long another process's is awaited.
    """

    def __init__(
        self,
        cached: Cached[V],
        prefix: str,
        *,
        rate: Rate,
        example: Mapping[str, str | int],
        lifetime: Lifetime[V] | None = None,
        absent_s: float = ABSENT_S,
        lock_s: float = LOCK_S,
        wait_s: float = WAIT_S,
    ) -> None:
        if lock_s <= 0 or wait_s < 0 or absent_s < 0:
            raise DeclarationError(
                f"{cached} is loaded under a lock of {lock_s:g} s, awaited for {wait_s:g} s, its absence kept for "
                f"{absent_s:g} s: give a lock above 0 s, and nothing below 0."
            )
        self.cached, self.absent_s, self.lock_s, self.wait_s = cached, absent_s, lock_s, wait_s
        self._lifetime = lifetime
        self._use = _Patterns(cached, prefix, rate, dict(example), lock_s)
        self._outages = Outages(f"{cached} is read without the cache")
        # By event loop, stores and key: one load at a time. An entry goes with its task.
        self._under_way: dict[tuple[Any, Any, str], asyncio.Task[V | None]] = {}

    @property
    def reads(self) -> tuple[Pattern[..., Any], ...]:
        return (self._use.look,)

    @property
    def writes(self) -> tuple[Pattern[..., Any], ...]:
        return (self._use.keep, self._use.drop, self._use.lock, self._use.unlock)

    @property
    def patterns(self) -> tuple[Pattern[..., Any], ...]:
        return (*self.reads, *self.writes)

    async def get(self, stores: Stores, load: Load[V], /, **fields: str | int) -> V | None:
        """The value; None where there is none. What `load` raises is raised here, and nothing is kept."""
        known = await self._look(stores, fields)
        return known.value if known is not None else await self._shared(stores, load, fields)

    async def forget(self, stores: Stores, seen: V | None = None, /, **fields: str | int) -> None:
        """Has it loaded anew, as when a token is refused. With `seen`, only if that is what is kept: of many that were
        refused with the same token, the first one's new token stays."""
        body = None
        if seen is not None:
            body = await self._tried(stores.run(self._use.look(fields)))
            known = self.cached.read(body)
            if known is None or known.value != seen:
                return
        # What was renewed since it was looked at is another text, and stays.
        await self._tried(stores.run(self._use.drop(fields, body)))

    # --- one load for all -----------------------------------------------------------------------------------

    async def _shared(self, stores: Stores, load: Load[V], fields: Fields) -> V | None:
        """All of one process await the same task: that one of them gives up does not end it."""
        place = (asyncio.get_running_loop(), stores.engines, self.cached.key(**fields))
        task = self._under_way.get(place)
        if task is None:
            task = asyncio.create_task(self._alone(stores, load, fields))
            self._under_way[place] = task
            task.add_done_callback(lambda done: self._ended(place, done))
        return await asyncio.shield(task)

    def _ended(self, place: tuple[Any, Any, str], task: asyncio.Task[V | None]) -> None:
        self._under_way.pop(place, None)
        if not task.cancelled():
            task.exception()  # heard, also where all who waited have given up

    async def _alone(self, stores: Stores, load: Load[V], fields: Fields) -> V | None:
        """One of this process. Of several processes the one with the lock loads; the others look, and after a while load."""
        loop = asyncio.get_running_loop()
        token, pause_s, ends = secrets.token_hex(16), POLL_S, loop.time() + self.wait_s
        while True:
            is_ours = await self._tried(stores.run(self._use.lock(fields, token)))
            if is_ours is None:
                return await self._loaded(stores, load, fields)
            if is_ours:
                return await self._loaded_under_lock(stores, load, fields, token)
            if loop.time() >= ends:
                return await self._loaded(stores, load, fields)
            await asyncio.sleep(min(pause_s, max(0.0, ends - loop.time())))
            pause_s = min(2 * pause_s, POLL_S_MAX)
            if (known := await self._look(stores, fields)) is not None:
                return known.value

    async def _loaded_under_lock(self, stores: Stores, load: Load[V], fields: Fields, token: str) -> V | None:
        try:
            # Since this one looked, the holder before may have loaded it and given the lock back.
            known = await self._look(stores, fields)
            return known.value if known is not None else await self._loaded(stores, load, fields)
        finally:
            await self._tried(stores.run(self._use.unlock(fields, token)))

    async def _loaded(self, stores: Stores, load: Load[V], fields: Fields) -> V | None:
        value = await self._in_time(load)
        lifetime_s = self._lifetime_of(value, stores.clock.now())
        kept = self._use.drop(fields, None) if lifetime_s <= 0 else self._use.keep(fields, value, lifetime_s)
        await self._tried(stores.run(kept))
        return value

    async def _in_time(self, load: Load[V]) -> V | None:
        """One that hangs must not hold up all who come after it, nor outlast the lock."""
        limit = asyncio.timeout(self.lock_s)
        try:
            async with limit:
                return await load()
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise RetryLater(
                f"What {self.cached} keeps was not loaded within {self.lock_s:g} s: come again, or allow it more (lock_s)."
            ) from error

    def _lifetime_of(self, value: V | None, now: float) -> float:
        if value is None:
            return self.absent_s
        asked = self.cached.lifetime_s if self._lifetime is None else self._lifetime(value, now)
        return min(asked, self.cached.lifetime_s)

    # --- without the cache ----------------------------------------------------------------------------------

    async def _look(self, stores: Stores, fields: Fields) -> Known[V] | None:
        return self.cached.read(await self._tried(stores.run(self._use.look(fields))))

    async def _tried(self, asked: Awaitable[R]) -> R | None:
        """None where the cache gives no answer, or does not take a value, for its size."""
        try:
            return await asked
        except (CacheUnavailable, InvalidRequest) as error:
            self._outages.tell(error)
            return None


@dataclass(frozen=True)
class LookAtText(CacheOperation["bytes | None"]):
    """What is kept, as it is: by that alone the cache can tell whether it is still the same."""

    kind = "GET"

    def request(self, environment: str) -> requests.GetValue:
        return requests.GetValue(key=self._key(environment), pattern=self.pattern)

    def answer(self, result: bytes | None) -> bytes | None:
        return result


class _Patterns(Generic[V]):
    def __init__(self, cached: Cached[V], prefix: str, rate: Rate, example: Fields, lock_s: float) -> None:
        def look_up(fields: Fields) -> LookAtText:
            return LookAtText(cached, cached.key(**fields))

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

        spoken, word = f"({cached.template})", cached.template.partition(":")[0]
        self.look = made_pattern(
            look_up, f"{prefix}1", f"look_up_{word}", f"What is kept {spoken}", rate=rate, example=(example,)
        )
        self.keep = made_pattern(
            keep,
            f"{prefix}2",
            f"keep_{word}",
            f"Keep what was loaded, or that there is none {spoken}",
            rate=rate,
            example=(example, None, cached.lifetime_s),
            takes={"value": cached.value | None},
        )
        self.drop = made_pattern(
            drop,
            f"{prefix}3",
            f"drop_{word}",
            f"Have it loaded anew {spoken}",
            rate=rate,
            example=(example, None),
        )
        self.lock = made_pattern(
            lock,
            f"{prefix}4",
            f"lock_{word}",
            f"Be the one that loads {spoken}",
            rate=rate,
            example=(example, "token-1"),
        )
        self.unlock = made_pattern(
            unlock,
            f"{prefix}5",
            f"unlock_{word}",
            f"Give the lock back {spoken}",
            rate=rate,
            example=(example, "token-1"),
        )
