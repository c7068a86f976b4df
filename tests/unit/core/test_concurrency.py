"""`SharedCall`: one call for many callers, with a time limit for each and an outcome that is kept a while."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.concurrency import SharedCall


class Service:
    """Counts its calls, and answers when it is told to."""

    def __init__(self) -> None:
        self.calls = 0
        self.may_answer = asyncio.Event()

    async def ask(self) -> int:
        self.calls += 1
        await self.may_answer.wait()
        return self.calls


async def test_many_callers_share_one_call() -> None:
    service = Service()
    shared = SharedCall(service.ask, timeout_s=30, max_age_s=30)
    callers = [asyncio.create_task(shared.get()) for _ in range(100)]
    await asyncio.sleep(0)
    service.may_answer.set()

    assert await asyncio.gather(*callers) == [1] * 100
    assert await shared.get() == 1
    assert service.calls == 1


async def test_a_call_that_hangs_is_not_started_again_until_it_ends() -> None:
    service = Service()
    shared = SharedCall(service.ask, timeout_s=0.01, max_age_s=0)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await shared.get()
    assert service.calls == 1

    service.may_answer.set()
    await asyncio.sleep(0)
    assert await shared.get() == 2


async def test_an_old_outcome_is_not_kept() -> None:
    service = Service()
    service.may_answer.set()
    shared = SharedCall(service.ask, timeout_s=30, max_age_s=0)

    assert [await shared.get(), await shared.get()] == [1, 2]


async def test_an_error_is_shared_and_kept_like_a_result() -> None:
    calls = 0

    async def fail() -> None:
        nonlocal calls
        calls += 1
        raise LookupError

    shared = SharedCall(fail, timeout_s=30, max_age_s=30)
    for _ in range(2):
        with pytest.raises(LookupError):
            await shared.get()
    assert calls == 1


async def test_a_caller_that_goes_away_does_not_end_the_call() -> None:
    service = Service()
    shared = SharedCall(service.ask, timeout_s=30, max_age_s=30)
    impatient = asyncio.create_task(shared.get())
    await asyncio.sleep(0)
    impatient.cancel()
    service.may_answer.set()

    assert await shared.get() == 1
