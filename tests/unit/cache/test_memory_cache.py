"""The cache of one process: bounded, the longest unused first to go; closed, it keeps nothing."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest

from holdfast.core.errors import StoreClosed
from holdfast.operations.cache import GetValue, Increment, Operation, PutValue
from holdfast.stores.cache.memory import MemoryCache, open_memory_cache

R = TypeVar("R")


def run(cache: MemoryCache, operation: Operation[R]) -> R:
    async def asked() -> R:
        return await cache.run(operation)

    return asyncio.run(asked())


def put(cache: MemoryCache, key: str, size: int = 1) -> None:
    run(cache, PutValue(key=key, value=b"x" * size, lifetime_s=60))


def test_what_was_used_longest_ago_makes_room() -> None:
    cache = open_memory_cache(entries_max=3)
    for key in "abc":
        put(cache, key)
    run(cache, GetValue(key="a"))
    put(cache, "d")
    assert [run(cache, GetValue(key=key)) for key in "abcd"] == [b"x", None, b"x", b"x"]
    assert len(cache) == 3


def test_a_count_that_is_in_use_outlives_a_flood_of_other_keys() -> None:
    cache = open_memory_cache(entries_max=10)
    for number in range(100):
        run(cache, Increment(key="ratelimit:clinic-1:1", lifetime_s=60))
        put(cache, f"provider:{number}")
    assert run(cache, GetValue(key="ratelimit:clinic-1:1")) == b"100"


def test_large_values_make_room_by_their_bytes() -> None:
    cache = open_memory_cache(bytes_max=1000)
    for key in "abc":
        put(cache, key, 400)
    assert [run(cache, GetValue(key=key)) is not None for key in "abc"] == [False, True, True]
    put(cache, "c", 10)
    put(cache, "d", 500)
    assert len(cache) == 3


def test_a_closed_cache_keeps_nothing_and_says_so() -> None:
    cache = open_memory_cache()
    put(cache, "a")
    cache.close()
    assert len(cache) == 0
    with pytest.raises(StoreClosed):
        run(cache, GetValue(key="a"))
