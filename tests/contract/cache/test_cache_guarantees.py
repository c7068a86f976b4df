"""Read-through cache, sessions and rate limits on every cache engine, across processes, after data loss."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import TypeVar

import pytest
from pydantic import BaseModel

from holdfast import Rate, Stores, open_memory_stores
from holdfast.core.errors import CacheUnavailable, RateLimited
from holdfast.guarantees import ReadThrough, Sessions, WindowLimit
from holdfast.model.cache import CachedValue, WindowCounter
from holdfast.operations.cache import GetValue, Operation, PutValue
from holdfast.runtime.engines import Engines
from holdfast.stores.cache.port import Cache
from holdfast.stores.cache.redis import open_redis
from tests.contract.redis_server import RedisServer, run_redis

from .loader_process import Entry, entries
from .store import FakeClock, Store

R = TypeVar("R")

SECONDS = 30
IDS = count()


class Caller(BaseModel):
    user: str


ADA = Caller(user="ada")
sessions = Sessions(
    "session:{tenant}:{id}",
    Caller,
    prefix="SE",
    lifetime_s=1800,
    rate=Rate("request"),
    example={"tenant": "t"},
    example_value=ADA,
)
limit = WindowLimit(
    WindowCounter("ratelimit:{tenant}:{window}", window_s=60),
    prefix="RL",
    limit=20,
    rate=Rate("request"),
    example={"tenant": "t"},
)


def make_stores(cache: Cache, clock: FakeClock) -> Stores:
    """Return stores whose cache is this engine; the tables are in memory."""
    return Stores(open_memory_stores().tables, clock=clock, engines=Engines({"cache": lambda: cache}))


# --- several engines ----------------------------------------------------------------------------------------


def test_several_engines_on_one_cache_load_once(store: Store) -> None:
    id = f"a-{next(IDS)}"

    async def story() -> None:
        loads = 0
        let, begun = asyncio.Event(), asyncio.Event()

        async def load() -> Entry:
            nonlocal loads
            loads += 1
            begun.set()
            await let.wait()
            return Entry(loaded_by="one")

        # Each acts as another process: they share only the cache.
        parts = [
            (entries(lock_s=10, wait_s=10), make_stores(store.open_another(), store.clock)) for _ in range(3)
        ]
        waits = asyncio.Semaphore(0)
        for _, stores in parts:
            stores.observe(lambda usage: waits.release())
        requests = [
            asyncio.create_task(part.get(stores, load, id=id)) for part, stores in parts for _ in range(5)
        ]
        await begun.wait()
        for _ in range(30):  # all have read, and those without the lock more than once
            await waits.acquire()
        let.set()
        assert await asyncio.gather(*requests) == [Entry(loaded_by="one")] * 15
        assert loads == 1

    asyncio.run(story())
    left = [store.run(GetValue(key=key)) for key in (f"entry:{id}", f"entry:{id}%lock")]
    assert left == [b'{"loaded_by":"one"}', None]


class RenewedDuringRead:
    """A cache in which another process stores a new value right after every read."""

    def __init__(self, cache: Cache, put: PutValue) -> None:
        self._cache, self._put, self.close = cache, put, cache.close

    async def run(self, operation: Operation[R]) -> R:
        answer = await self._cache.run(operation)
        if isinstance(operation, GetValue):
            await self._cache.run(self._put)
        return answer


def test_invalidate_deletes_the_given_value_but_not_a_newer_one(store: Store) -> None:
    id = f"a-{next(IDS)}"
    key, part = f"entry:{id}", entries(lock_s=10, wait_s=10)
    old, new = (
        PutValue(key=key, value=text, lifetime_s=300)
        for text in (b'{"loaded_by": "one"}', b'{"loaded_by":"two"}')
    )
    refused = Entry(loaded_by="one")

    def after_forgetting(cache: Cache) -> bytes | None:
        store.run(old)
        asyncio.run(part.invalidate(make_stores(cache, store.clock), refused, id=id))
        return store.run(GetValue(key=key))

    assert after_forgetting(store.cache) is None
    assert after_forgetting(RenewedDuringRead(store.cache, new)) == new.value


@pytest.mark.proves("PG-38")
async def test_concurrent_takers_stay_within_the_limit(store: Store) -> None:
    parts = [make_stores(store.open_another(), store.clock) for _ in range(2)]

    async def take(stores: Stores, tenant: str) -> int:
        with suppress(RateLimited):
            await limit.take(stores, tenant=tenant)
            return 1
        return 0

    tenant = f"clinic-{next(IDS)}"
    assert sum(await asyncio.gather(*(take(stores, tenant) for stores in parts for _ in range(30)))) == 20


@pytest.mark.proves("PG-42")
@pytest.mark.proves("PG-55")
async def test_losing_the_cache_only_costs_a_log_in(store: Store) -> None:
    """Values are loaded again, limits start again, and only sessions are gone."""
    through = entries(lock_s=10, wait_s=1)

    stores, kept = make_stores(store.cache, store.clock), Entry(loaded_by="the registry")

    async def load() -> Entry:
        return kept

    id = await sessions.begin(stores, ADA, tenant="clinic-1")
    assert await sessions.find(stores, id, tenant="clinic-1") == ADA
    assert await through.get(stores, load, id="lost") == kept
    assert await limit.take(stores, tenant="clinic-lost") == 19
    store.lose_everything()
    assert await through.get(stores, load, id="lost") == kept
    assert await limit.take(stores, tenant="clinic-lost") == 19
    assert await sessions.find(stores, id, tenant="clinic-1") is None
    again = await sessions.begin(stores, ADA, tenant="clinic-1")
    assert await sessions.find(stores, again, tenant="clinic-1") == ADA


@pytest.mark.proves("PG-X22")
async def test_loader_that_lost_its_lock_does_not_release_the_next_ones(
    store: Store,
) -> None:
    first, second, id = entries(10, 10), entries(10, 10), f"f-{next(IDS)}"

    lets = {name: asyncio.Event() for name in ("first", "second")}
    begun = {name: asyncio.Event() for name in ("first", "second")}

    def loads(name: str) -> object:
        async def load() -> Entry:
            begun[name].set()
            await lets[name].wait()
            return Entry(loaded_by=name)

        return load

    one, another = (make_stores(store.open_another(), store.clock) for _ in range(2))
    earlier = asyncio.create_task(first.get(one, loads("first"), id=id))  # type: ignore[arg-type]
    await begun["first"].wait()
    store.lose_everything()  # as after a failover to a replica without the lock
    later = asyncio.create_task(second.get(another, loads("second"), id=id))  # type: ignore[arg-type]
    await begun["second"].wait()
    lets["first"].set()
    assert await earlier == Entry(loaded_by="first")
    # The lock belongs to the other loader, and still does.
    assert await store.cache.run(GetValue(key=f"entry:{id}%lock")) is not None
    lets["second"].set()
    assert await later == Entry(loaded_by="second")
    assert await store.cache.run(GetValue(key=f"entry:{id}%lock")) is None


async def test_recovers_from_a_dead_lock_holder(store: Store) -> None:
    """A load starts when the dead holder's lock expires, or when the caller has waited long enough."""

    stores = make_stores(store.cache, store.clock)

    async def load() -> Entry:
        return Entry(loaded_by="us")

    for clock_moves, wait_s in ((10.0, 60.0), (0.0, 0.05)):
        key = f"d-{next(IDS)}"
        lock = PutValue(key=f"entry:{key}%lock", value=b"a dead one", lifetime_s=10)
        await store.cache.run(lock)
        store.clock.moment += clock_moves
        assert await entries(10, wait_s).get(stores, load, id=key) == Entry(loaded_by="us")


# --- several processes --------------------------------------------------------------------------------------


@contextmanager
def start_loader(
    server: RedisServer, id: str, lock_s: float, wait_s: float
) -> Iterator[subprocess.Popen[str]]:
    """Start a loader process on this Redis; kill it at the end of the context."""
    module = "tests.contract.cache.loader_process"
    process = subprocess.Popen(
        [sys.executable, "-m", module, server.address, id, str(lock_s), str(wait_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=SECONDS)


def read_until(process: subprocess.Popen[str], word: str, times: int = 1) -> list[str]:
    """Return the lines up to the one in which `word` has begun a line for the `times`-th time.

    If the process ends before, return all lines.
    """
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.strip())
        if sum(each.startswith(word) for each in lines) == times:
            break
    return lines


def continue_load(process: subprocess.Popen[str], name: str) -> None:
    """Let the process's load return an entry with this name."""
    assert process.stdin is not None
    process.stdin.write(f"{name}\n")
    process.stdin.flush()


@pytest.mark.proves("PG-X24")
def test_one_of_two_processes_loads_for_both(shared_redis: RedisServer) -> None:
    id = f"p-{next(IDS)}"
    with start_loader(shared_redis, id, 60, 60) as holder:
        output = read_until(holder, "loading")
        with start_loader(shared_redis, id, 60, 60) as other:
            output += read_until(other, "SET", 2)  # it tries for the lock again
            continue_load(holder, "the holder")
            ends = [read_until(process, "found") for process in (holder, other)]
    assert [lines[-1] for lines in ends] == ["found the holder"] * 2
    assert [*output, *ends[0], *ends[1]].count("loading") == 1


@pytest.mark.proves("PG-42")
def test_recovers_from_a_process_killed_while_loading(shared_redis: RedisServer) -> None:
    id = f"k-{next(IDS)}"
    with start_loader(shared_redis, id, 60, 60) as killed:
        read_until(killed, "loading")
    assert shared_redis.execute("EXISTS", f"entry:{id}%lock") == 1
    with start_loader(shared_redis, id, 60, 0.1) as heir:
        lines = read_until(heir, "loading")
        continue_load(heir, "the heir")
        assert read_until(heir, "found")[-1] == "found the heir"
    assert lines.count("loading") == 1


@pytest.mark.proves("PG-42")
def test_killed_server_only_costs_a_log_in() -> None:
    """While Redis is down, values are loaded and limits allow; afterwards only the session is gone."""
    through, clock = entries(lock_s=10, wait_s=1), FakeClock()

    async def story(server: RedisServer) -> None:
        cache = open_redis(server.address, clock=clock, pause_s=0)
        stores = make_stores(cache, clock)

        async def load() -> Entry:
            return Entry(loaded_by="the registry")

        async def kill_server() -> Entry:
            server.kill()
            return Entry(loaded_by="the registry")

        id = await sessions.begin(stores, ADA, tenant="clinic-1")
        found = [await through.get(stores, source, id="1") for source in (kill_server, load)]
        assert found == [Entry(loaded_by="the registry")] * 2
        assert await limit.take(stores, tenant="clinic-1") == 19
        with pytest.raises(CacheUnavailable):
            await sessions.find(stores, id, tenant="clinic-1")
        server.start()
        assert await through.get(stores, load, id="1") == Entry(loaded_by="the registry")
        assert await sessions.find(stores, id, tenant="clinic-1") is None
        await stores.close()

    with run_redis() as server:
        asyncio.run(story(server))


async def test_value_of_another_version_is_a_miss(store: Store) -> None:
    """A value of another version of the system is a miss, not an error."""

    class Older(BaseModel):
        holder: str

    stores, id = make_stores(store.cache, store.clock), f"v-{next(IDS)}"
    await stores.run(CachedValue("entry:{id}", Older, lifetime_s=60).put(Older(holder="x"), id=id))

    async def load() -> Entry:
        return Entry(loaded_by="us")

    through: ReadThrough[Entry] = entries(10, 1)
    assert await through.get(stores, load, id=id) == Entry(loaded_by="us")
