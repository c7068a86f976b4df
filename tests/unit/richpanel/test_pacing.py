"""How fast the help desk is called: a 429 holds the whole process back, and is nobody's failure."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.errors import RateLimited
from richpanel.integrations.rate_limits import MAX_ATTEMPTS, CallPacer, TooManyRequests


def too_many(seconds: float = 0.01) -> TooManyRequests:
    return TooManyRequests("429", may_be_done=False, retry_after_s=seconds)


def test_after_a_429_nobody_calls_before_its_time_is_over() -> None:
    async def test() -> None:
        loop, pacing = asyncio.get_running_loop(), CallPacer()
        refused_at: list[float] = []
        called_at: list[float] = []

        async def call() -> str:
            if not refused_at:
                refused_at.append(loop.time())
                raise too_many(0.05)
            called_at.append(loop.time())
            return "done"

        assert await asyncio.gather(*(pacing.call(call) for _ in range(5))) == ["done"] * 5
        # The first call was refused before the others had their turn: all of them come after its time.
        assert len(called_at) == 5
        assert min(called_at) - refused_at[0] >= 0.05

    asyncio.run(test())


def test_a_call_that_is_refused_again_and_again_is_given_up() -> None:
    async def test() -> None:
        tried: list[int] = []

        async def call() -> None:
            tried.append(1)
            raise too_many(0.0)

        told: list[int] = []
        with pytest.raises(TooManyRequests):
            await CallPacer(on_refused=lambda: told.append(1)).call(call)
        assert len(tried) == len(told) == MAX_ATTEMPTS

    asyncio.run(test())


@pytest.mark.proves("RP-43")
def test_a_full_budget_is_waited_for_and_calls_nobody() -> None:
    async def test() -> None:
        asked: list[str] = []

        async def take() -> None:
            asked.append("budget")
            if len(asked) == 1:
                raise RateLimited("full", retry_after_s=0.01)

        async def call() -> None:
            asked.append("call")

        await CallPacer(take).call(call)
        assert asked == ["budget", "budget", "call"]

    asyncio.run(test())


def test_any_other_failure_is_raised_as_it_is() -> None:
    async def test() -> None:
        async def call() -> None:
            raise ValueError("other")

        with pytest.raises(ValueError, match="other"):
            await CallPacer().call(call)

    asyncio.run(test())
