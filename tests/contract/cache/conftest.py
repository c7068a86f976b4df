"""The engines this suite runs over: each test once on each. One Redis serves all tests of a run.

memory   the cache of this process
redis    the Redis engine, at a real server
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.stores.cache.memory import open_memory_cache
from tests.contract.redis_server import RedisServer, redis_server

from .store import Hands, Store


@pytest.fixture(scope="session")
def redis_of_the_run() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture(params=("memory", "redis"))
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    clock = Hands()
    if request.param == "memory":
        cache = open_memory_cache(clock=clock)
        yield Store("memory", cache, clock, lambda: cache, cache._entries.clear)
        return
    yield from _at_redis(request.getfixturevalue("redis_of_the_run"), clock)


def _at_redis(server: RedisServer, clock: Hands) -> Iterator[Store]:
    from holdfast.stores.cache.redis import open_redis

    cache = open_redis(server.address, clock=clock, timeout_s=10)
    others = [cache]

    def beside() -> object:
        others.append(open_redis(server.address, clock=clock, timeout_s=10))
        return others[-1]

    yield Store("redis", cache, clock, beside, lambda: server.ask("FLUSHALL"))  # type: ignore[arg-type]
    for each in others:
        each.close()
