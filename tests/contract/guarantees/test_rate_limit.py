"""The rate limit on every tables engine: of 16 concurrent callers exactly the limit passes."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Rate
from holdfast.core.errors import RateLimited
from holdfast.guarantees import RATE_LIMITS, RateLimit

from .conftest import OpenStores


@pytest.mark.proves("RP-43")
@pytest.mark.parametrize("parts", [0, 6])
def test_five_of_sixteen_concurrent_callers_pass(open_stores: OpenStores, parts: int) -> None:
    stores = open_stores(RATE_LIMITS)
    # A window that does not end while the test runs.
    terms = {"limit": 5, "window_s": 100 * 365 * 86400.0, "parts": parts}

    async def is_taken() -> bool:
        try:
            await RateLimit("calls", prefix="RL", rate=Rate("call"), **terms).take(stores, "s-1")  # type: ignore[arg-type]
        except RateLimited:
            return False
        return True

    async def story() -> None:
        taken = await asyncio.gather(*(is_taken() for _ in range(16)))
        assert taken.count(True) == 5

    asyncio.run(story())
