"""The tenant's rate limit: a number of its own, a window that slides, and a cache that may be away."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.core.errors import CacheUnavailable, RateLimited
from pagw.model.rate_limits import TENANT_LIMIT, count_call
from pagw.settings import PagwSettings
from pagw.system import SYSTEM

SETTINGS = PagwSettings(rate_limit=10, tenant_limits="large=20, small=1")


class SetClock:
    """It stands until it is moved."""

    def __init__(self) -> None:
        self.at = 1_780_000_000.0 - 1_780_000_000.0 % 60

    def now(self) -> float:
        return self.at


async def taken(stores: Stores, tenant: str, times: int) -> int:
    """How many of so many calls are let through."""
    count = 0
    for _ in range(times):
        with suppress(RateLimited):
            await count_call(stores, SETTINGS, tenant)
            count += 1
    return count


@pytest.mark.proves("PG-38")
@pytest.mark.proves("PG-X23")
def test_each_tenant_has_its_number_and_the_border_of_two_windows_lets_no_double_through() -> None:
    clock = SetClock()
    stores = open_memory_stores(SYSTEM, clock=clock)

    async def told() -> None:
        view = stores.for_component("api")
        assert await taken(view, "large", 30) == 20
        assert await taken(view, "small", 5) == 1
        with pytest.raises(RateLimited) as refused:
            await count_call(view, SETTINGS, "small")
        assert 0 < (refused.value.retry_after_s or 0) <= 121
        clock.at += 59
        assert await taken(view, "acme", 30) == 10
        # A fixed window would begin anew here, and let ten more through within two seconds.
        clock.at += 2
        assert await taken(view, "acme", 30) <= 1
        clock.at += 119
        assert await taken(view, "acme", 30) == 10

    try:
        asyncio.run(told())
    finally:
        asyncio.run(stores.close())


def test_a_cache_that_is_away_turns_nobody_away(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = open_memory_stores(SYSTEM)

    async def away(*_: object) -> int:
        raise CacheUnavailable("The cache gives no answer.")

    monkeypatch.setattr(TENANT_LIMIT, "_take", away)
    try:
        assert asyncio.run(taken(stores, "small", 5)) == 5
    finally:
        asyncio.run(stores.close())
