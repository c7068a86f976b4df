"""The in-memory cache engine: limits, least-recently-used eviction, and closing."""

from __future__ import annotations

from typing import TypeVar

import pytest

from holdfast.core.errors import StoreClosed
from holdfast.operations.cache import GetValue, Increment, Operation, PutValue
from holdfast.stores.cache.memory import MemoryCache, open_memory_cache

R = TypeVar("R")


async def run(cache: MemoryCache, operation: Operation[R]) -> R:
    return await cache.run(operation)


async def put(cache: MemoryCache, key: str, size: int = 1) -> None:
    """Put a value of `size` bytes."""
    await run(cache, PutValue(key=key, value=b"x" * size, lifetime_s=60))


async def test_evicts_the_least_recently_used_value() -> None:
    cache = open_memory_cache(max_entries=3)
    for key in "abc":
        await put(cache, key)
    await run(cache, GetValue(key="a"))
    await put(cache, "d")
    assert [await run(cache, GetValue(key=key)) for key in "abcd"] == [b"x", None, b"x", b"x"]
    assert len(cache) == 3


async def test_active_count_survives_a_flood_of_other_keys() -> None:
    cache = open_memory_cache(max_entries=10)
    for number in range(100):
        await run(cache, Increment(key="ratelimit:clinic-1:1", lifetime_s=60))
        await put(cache, f"provider:{number}")
    assert await run(cache, GetValue(key="ratelimit:clinic-1:1")) == b"100"


async def test_evicts_values_beyond_the_byte_limit() -> None:
    cache = open_memory_cache(max_bytes=1000)
    for key in "abc":
        await put(cache, key, 400)
    assert [await run(cache, GetValue(key=key)) is not None for key in "abc"] == [False, True, True]
    await put(cache, "c", 10)
    await put(cache, "d", 500)
    assert len(cache) == 3


async def test_counts_the_bytes_of_a_key_and_not_its_characters() -> None:
    cache = open_memory_cache(max_bytes=1000)
    for key in ("é" * 400, "ü" * 400):
        await put(cache, key, 1)
    assert len(cache) == 1


async def test_closed_cache_keeps_nothing_and_refuses_operations() -> None:
    cache = open_memory_cache()
    await put(cache, "a")
    cache.close()
    assert len(cache) == 0
    with pytest.raises(StoreClosed):
        await run(cache, GetValue(key="a"))
