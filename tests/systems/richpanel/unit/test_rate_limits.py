"""The call pacer, with fake calls: a 429 delays the whole process and counts as no failure."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.errors import RateLimited
from richpanel.integrations.rate_limits import MAX_ATTEMPTS, CallPacer, TooManyRequests


def make_429(seconds: float = 0.01) -> TooManyRequests:
    """Make the error of a 429 whose Retry-After is `seconds`."""
    return TooManyRequests("429", may_be_done=False, retry_after_s=seconds)


async def test_after_a_429_all_calls_wait() -> None:
    loop, pacing = asyncio.get_running_loop(), CallPacer()
    refused_at: list[float] = []
    called_at: list[float] = []

    async def call() -> str:
        if not refused_at:
            refused_at.append(loop.time())
            raise make_429(0.05)
        called_at.append(loop.time())
        return "done"

    assert await asyncio.gather(*(pacing.call(call) for _ in range(5))) == ["done"] * 5
    # The first call was refused before the others started: all of them wait.
    assert len(called_at) == 5
    assert min(called_at) - refused_at[0] >= 0.05


async def test_gives_up_after_repeated_429s() -> None:
    tried: list[int] = []

    async def call() -> None:
        tried.append(1)
        raise make_429(0.0)

    refusals: list[int] = []
    with pytest.raises(TooManyRequests):
        await CallPacer(on_refused=lambda: refusals.append(1)).call(call)
    assert len(tried) == len(refusals) == MAX_ATTEMPTS


@pytest.mark.proves("RP-43")
async def test_waits_for_a_full_budget_before_calling() -> None:
    asked: list[str] = []

    async def take() -> None:
        asked.append("budget")
        if len(asked) == 1:
            raise RateLimited("full", retry_after_s=0.01)

    async def call() -> None:
        asked.append("call")

    await CallPacer(take).call(call)
    assert asked == ["budget", "budget", "call"]


async def test_raises_other_errors_unchanged() -> None:
    async def call() -> None:
        raise ValueError("other")

    with pytest.raises(ValueError, match="other"):
        await CallPacer().call(call)
