"""Fixtures of the cache contract: every test runs on the in-memory cache and on a real Redis server.

memory   the cache of this process
redis    the Redis engine, at a real server
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.stores.cache.memory import open_memory_cache
from tests.contract.redis_server import RedisServer, run_redis

from .store import FakeClock, Store


@pytest.fixture(scope="session")
def shared_redis() -> Iterator[RedisServer]:
    """Run one Redis server for all tests of the session."""
    with run_redis() as server:
        yield server


@pytest.fixture(params=("memory", "redis"))
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """Yield the cache under test, once per engine."""
    clock = FakeClock()
    if request.param == "memory":
        cache = open_memory_cache(clock=clock)
        yield Store("memory", cache, clock, lambda: cache, cache._entries.clear)
        return
    yield from _open_redis_store(request.getfixturevalue("shared_redis"), clock)


def _open_redis_store(server: RedisServer, clock: FakeClock) -> Iterator[Store]:
    """Yield the Redis engine under test with its server; at the end close all engines it opened."""
    from holdfast.stores.cache.redis import open_redis

    cache = open_redis(server.address, clock=clock, timeout_s=10)
    others = [cache]

    def open_another() -> object:
        others.append(open_redis(server.address, clock=clock, timeout_s=10))
        return others[-1]

    yield Store("redis", cache, clock, open_another, lambda: server.execute("FLUSHALL"))  # type: ignore[arg-type]
    for each in others:
        each.close()
