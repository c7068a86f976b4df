"""`Readiness`: all stores are probed at the same time, each within the limit, and once for many callers."""

from __future__ import annotations

import asyncio
import logging

import pytest

from holdfast.core.errors import StoreUnreachable
from holdfast.core.readiness import Readiness, StoreReadiness


async def hang() -> None:
    await asyncio.Event().wait()


async def succeed() -> None:
    return None


async def test_a_store_that_hangs_is_named_and_delays_no_other() -> None:
    readiness = Readiness({"sql": hang, "cache": hang, "tables": succeed}, timeout_s=0.01)

    assert await readiness.check() == [
        StoreReadiness("sql", "no answer within 0.01 s"),
        StoreReadiness("cache", "no answer within 0.01 s"),
        StoreReadiness("tables"),
    ]


async def test_probes_run_at_the_same_time() -> None:
    met = asyncio.Barrier(2)

    async def meet() -> None:
        await met.wait()

    assert all(each.is_ready for each in await Readiness({"sql": meet, "cache": meet}).check())


async def test_a_storm_of_checks_is_one_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of checks at the same time, and of those within a second after it."""
    probes, loop = 0, asyncio.get_running_loop()
    now = loop.time()
    monkeypatch.setattr(loop, "time", lambda: now)

    async def probe() -> None:
        nonlocal probes
        probes += 1

    readiness = Readiness({"sql": probe})
    await asyncio.gather(*(readiness.describe() for _ in range(200)))
    now += 0.9
    await readiness.describe()
    assert probes == 1

    now += 0.1
    await readiness.describe()
    assert probes == 2


async def test_a_process_without_stores_is_ready() -> None:
    assert await Readiness().describe() == (True, {"status": "ok", "stores": []})


async def test_logs_each_change_once_with_what_the_answer_leaves_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.core.readiness.MAX_AGE_S", 0.0)
    failures = [StoreUnreachable("No connection to 10.0.0.7")] * 2

    async def probe() -> None:
        if failures:
            raise failures.pop()

    readiness = Readiness({"sql": probe})
    with caplog.at_level(logging.INFO):
        answers = [await readiness.describe() for _ in range(4)]

    assert "10.0.0.7" not in str(answers)
    assert caplog.messages == [
        "The store sql is not ready: No connection to 10.0.0.7",
        "The store sql is ready again.",
    ]


async def test_a_defect_of_a_probe_is_not_ready_and_not_a_failed_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def probe() -> None:
        raise KeyError("secret")

    assert await Readiness({"sql": probe}).check() == [StoreReadiness("sql", "KeyError")]
    assert "failed unexpectedly" in caplog.text
