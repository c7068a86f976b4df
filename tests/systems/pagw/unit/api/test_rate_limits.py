"""Rate limit per tenant, on the in-memory cache: own number, sliding window, none without a cache."""

from __future__ import annotations

from contextlib import suppress

import pytest

from holdfast import Stores, open_memory_stores
from holdfast.core.errors import CacheUnavailable, RateLimited
from pagw.model.rate_limits import TENANT_LIMIT, count_call
from pagw.settings import PagwSettings
from pagw.system import SYSTEM

SETTINGS = PagwSettings(rate_limit=10, tenant_limits="large=20, small=1")


class ManualClock:
    """Clock that moves only when a test sets `at`."""

    def __init__(self) -> None:
        self.at = 1_780_000_000.0 - 1_780_000_000.0 % 60

    def now(self) -> float:
        return self.at


async def count_accepted(stores: Stores, tenant: str, times: int) -> int:
    """Return how many of `times` calls are accepted."""
    count = 0
    for _ in range(times):
        with suppress(RateLimited):
            await count_call(stores, SETTINGS, tenant)
            count += 1
    return count


@pytest.mark.proves("PG-38", "PG-X23")
async def test_each_tenant_has_its_limit_over_a_sliding_window() -> None:
    clock = ManualClock()
    async with open_memory_stores(SYSTEM, clock=clock) as stores:
        view = stores.for_component("api")
        assert await count_accepted(view, "large", 30) == 20
        assert await count_accepted(view, "small", 5) == 1
        with pytest.raises(RateLimited) as refused:
            await count_call(view, SETTINGS, "small")
        assert 0 < (refused.value.retry_after_s or 0) <= 121
        clock.at += 59
        assert await count_accepted(view, "acme", 30) == 10
        # A fixed window would restart here and accept ten more calls within two seconds.
        clock.at += 2
        assert await count_accepted(view, "acme", 30) <= 1
        clock.at += 119
        assert await count_accepted(view, "acme", 30) == 10


async def test_without_a_cache_no_tenant_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    async def raise_unavailable(*_: object) -> int:
        raise CacheUnavailable("The cache gives no answer.")

    monkeypatch.setattr(TENANT_LIMIT, "_take", raise_unavailable)
    async with open_memory_stores(SYSTEM) as stores:
        assert await count_accepted(stores, "small", 5) == 5
