"""`ReadThrough` on an in-memory cache: one load for many callers, lifetimes, cache outages, permissions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Component, Rate, Stores, System, open_memory_stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import (
    ComponentRefused,
    DeclarationError,
    ExternalServiceFailed,
    InvalidRequest,
    RetryLater,
)
from holdfast.guarantees import ReadThrough, lifetime_until
from holdfast.model.cache import CachedValue
from holdfast.operations.cache import GetValue, PutValue
from holdfast.runtime.engines import Engines
from holdfast.stores.cache.redis import open_redis
from tests.unit.guarantees.idempotency.once_records import ManualClock

from .conftest import NOON


class Token(BaseModel):
    access_token: str
    expires_at: datetime


class Provider(BaseModel):
    npi: str
    note: str = ""


oauth = CachedValue("oauth:{payer_id}", Token, lifetime_s=3600)
tokens = ReadThrough(
    oauth,
    prefix="OA",
    rate=Rate("call"),
    example={"payer_id": "p-1"},
    lifetime=lifetime_until(lambda token: token.expires_at),
)
providers = ReadThrough(
    CachedValue("provider:{npi}", Provider, lifetime_s=300),
    prefix="PR",
    rate=Rate("request"),
    example={"npi": "1234567893"},
)


class FakeSource:
    """Loader that counts its loads, waits for `let`, then raises `failure` or returns `value`."""

    def __init__(self, value: Provider | None = None) -> None:
        self.value, self.loads = value, 0
        self.begun, self.let = asyncio.Event(), asyncio.Event()
        self.let.set()
        self.failure: Exception | None = None

    async def __call__(self) -> Provider | None:
        self.loads += 1
        self.begun.set()
        await self.let.wait()
        if self.failure is not None:
            raise self.failure
        return self.value


ADA = Provider(npi="1234567893")


async def wait_until(condition: Callable[[], bool]) -> None:
    """Let all ready tasks run until the condition holds; fail if it never does."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition never held")


# --- loading ------------------------------------------------------------------------------------------------


async def test_a_value_is_loaded_and_then_read_from_the_cache(stores: Stores) -> None:
    source = FakeSource(ADA)
    for _ in range(3):
        assert await providers.get(stores, source, npi="1") == ADA
    assert source.loads == 1


@pytest.mark.proves("PG-X24")
async def test_a_hundred_concurrent_callers_load_once(stores: Stores) -> None:
    source = FakeSource(ADA)
    source.let.clear()
    asked = [asyncio.create_task(providers.get(stores, source, npi="1")) for _ in range(50)]
    await source.begun.wait()
    asked += [asyncio.create_task(providers.get(stores, source, npi="1")) for _ in range(50)]
    await asyncio.sleep(0)
    source.let.set()
    assert await asyncio.gather(*asked) == [ADA] * 100
    assert source.loads == 1


async def test_different_keys_do_not_wait_for_each_other(stores: Stores) -> None:
    slow, quick = FakeSource(ADA), FakeSource(ADA)
    slow.let.clear()
    waiting = asyncio.create_task(providers.get(stores, slow, npi="1"))
    await slow.begun.wait()
    assert await providers.get(stores, quick, npi="2") == ADA
    slow.let.set()
    assert await waiting == ADA


async def test_two_stores_in_one_process_do_not_share_a_load() -> None:
    async with open_memory_stores() as one, open_memory_stores() as another:
        ada, bob = FakeSource(ADA), FakeSource(Provider(npi="2"))
        ada.let.clear()
        waiting = asyncio.create_task(providers.get(one, ada, npi="1"))
        await ada.begun.wait()
        assert await providers.get(another, bob, npi="1") == Provider(npi="2")
        ada.let.set()
        assert await waiting == ADA


async def test_cancelled_caller_does_not_end_the_load_for_the_others(stores: Stores) -> None:
    source = FakeSource(ADA)
    source.let.clear()
    first = asyncio.create_task(providers.get(stores, source, npi="1"))
    await source.begun.wait()
    second = asyncio.create_task(providers.get(stores, source, npi="1"))
    await asyncio.sleep(0)
    first.cancel()
    await wait_until(first.done)
    source.let.set()
    assert await second == ADA
    assert source.loads == 1


async def test_raises_a_failure_to_all_waiting_callers_and_the_next_retries(stores: Stores) -> None:
    source = FakeSource(ADA)
    source.let.clear()
    source.failure = ExternalServiceFailed("the registry failed", may_be_done=False)
    asked = [asyncio.create_task(providers.get(stores, source, npi="1")) for _ in range(3)]
    await source.begun.wait()
    source.let.set()
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in found] == [ExternalServiceFailed] * 3
    source.failure = None
    assert await providers.get(stores, source, npi="1") == ADA
    assert source.loads == 2


async def test_abandons_a_hanging_load_and_does_not_delay_the_next(stores: Stores) -> None:
    hasty = ReadThrough(providers.cached, prefix="H", rate=Rate("r"), example={"npi": "1"}, lock_s=0.02)

    hanging = FakeSource(ADA)
    hanging.let.clear()
    asked = [asyncio.create_task(hasty.get(stores, hanging, npi="1")) for _ in range(3)]
    found = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in found] == [RetryLater] * 3
    assert await hasty.get(stores, FakeSource(ADA), npi="1") == ADA


async def test_raises_the_loads_own_timeout_unchanged(stores: Stores) -> None:
    source = FakeSource(ADA)
    source.failure = TimeoutError("the registry's own")
    with pytest.raises(TimeoutError, match="own"):
        await providers.get(stores, source, npi="1")


async def test_serves_one_event_loop_after_another() -> None:
    source, stores = FakeSource(ADA), open_memory_stores()

    async def get() -> Provider | None:
        return await providers.get(stores, source, npi="1")

    assert await get() == await get() == ADA
    assert source.loads == 1
    await stores.close()


# --- lifetimes ----------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-39")
@pytest.mark.proves("PG-40")
@pytest.mark.parametrize("kind", ["provider:{id}", "payer:{id}"])
async def test_reloads_a_registry_entry_after_five_minutes(
    kind: str, stores: Stores, clock: ManualClock
) -> None:
    entries = ReadThrough(
        CachedValue(kind, Provider, lifetime_s=300), prefix="E", rate=Rate("r"), example={"id": "1"}
    )

    source = FakeSource(ADA)
    await entries.get(stores, source, id="1")
    clock.moment += 299.9
    await entries.get(stores, source, id="1")
    assert source.loads == 1
    clock.moment += 0.1
    await entries.get(stores, source, id="1")
    assert source.loads == 2


@pytest.mark.proves("PG-37")
@pytest.mark.proves("PG-X24")
@pytest.mark.parametrize(("valid_s", "kept_s"), [(1800, 1740), (3600, 3540), (90_000, 3600)])
async def test_keeps_a_token_until_a_minute_before_its_expiry(
    valid_s: float, kept_s: float, stores: Stores, clock: ManualClock
) -> None:
    """A token is cached until a minute before it expires, and at most for the declared hour."""
    loads: list[float] = []

    async def fetch() -> Token:
        loads.append(clock.now())
        ends = datetime.fromtimestamp(clock.now() + valid_s, UTC)
        return Token(access_token=f"t-{len(loads)}", expires_at=ends)

    for moment in (0, kept_s - 0.1, kept_s, 2 * kept_s - 0.1):
        clock.moment = NOON + moment
        token = await tokens.get(stores, fetch, payer_id="p-1")
        assert token is not None and token.expires_at.timestamp() - clock.now() > 60
    assert loads == [NOON, NOON + kept_s]


@pytest.mark.proves("PG-X24")
@pytest.mark.parametrize("valid_s", [-10.0, 0.0, 30.0, 60.0])
async def test_returns_a_token_about_to_expire_without_caching_it(
    valid_s: float, stores: Stores, clock: ManualClock
) -> None:
    loads = 0

    async def fetch() -> Token:
        nonlocal loads
        loads += 1
        return Token(access_token="t", expires_at=datetime.fromtimestamp(clock.now() + valid_s, UTC))

    for _ in range(2):
        assert await tokens.get(stores, fetch, payer_id="p-1")
    assert loads == 2
    assert await stores.run(oauth.peek(payer_id="p-1")) is None


def test_accepts_an_expiry_in_epoch_seconds() -> None:
    """`lifetime_until` subtracts the margin and the current time from the end that it is given."""
    lifetime = lifetime_until(lambda provider: NOON + 100, margin_s=10)
    assert lifetime(ADA, NOON) == 90


async def test_remembers_an_absence_for_a_shorter_time(stores: Stores, clock: ManualClock) -> None:
    """An absence is cached for 30 seconds by default."""
    source = FakeSource(None)
    for _ in range(3):
        assert await providers.get(stores, source, npi="1") is None
    assert source.loads == 1
    clock.moment += 30
    source.value = ADA
    assert await providers.get(stores, source, npi="1") == ADA
    assert source.loads == 2


async def test_remembering_an_absence_is_optional(stores: Stores) -> None:
    forgetful = ReadThrough(providers.cached, prefix="F", rate=Rate("r"), example={"npi": "1"}, absent_s=0)

    source = FakeSource(None)
    for _ in range(2):
        assert await forgetful.get(stores, source, npi="1") is None
    assert source.loads == 2


async def test_lifetimes_follow_a_run_clock(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=NOON)
    async with open_memory_stores(clock=clock) as stores:
        source = FakeSource(ADA)
        for _ in range(2):
            await providers.get(stores, source, npi="1")
        clock.advance(300)
        await providers.get(stores, source, npi="1")
        assert source.loads == 2


# --- outages, unreadable values, refused tokens -------------------------------------------------------------


async def test_reloads_and_replaces_an_unreadable_value(stores: Stores) -> None:
    cache, source = stores.engines.get("cache"), FakeSource(ADA)
    await cache.run(PutValue(key="provider:1", value=b'{"number": 1}', lifetime_s=60))
    assert await providers.get(stores, source, npi="1") == ADA
    assert await cache.run(GetValue(key="provider:1")) == b'{"npi":"1234567893","note":""}'


async def test_removes_an_unreadable_value_even_without_a_replacement(stores: Stores) -> None:
    forgetful = ReadThrough(providers.cached, prefix="F", rate=Rate("r"), example={"npi": "1"}, absent_s=0)

    cache = stores.engines.get("cache")
    await cache.run(PutValue(key="provider:1", value=b"{", lifetime_s=60))
    assert await forgetful.get(stores, FakeSource(None), npi="1") is None
    assert await cache.run(GetValue(key="provider:1")) is None


async def test_callers_refused_with_the_same_token_invalidate_it_once(stores: Stores) -> None:
    old, new = ADA, Provider(npi="1234567893", note="new")
    source = FakeSource(old)
    await providers.get(stores, source, npi="1")
    source.value = new
    for _ in range(3):
        await providers.invalidate(stores, old, npi="1")
        assert await providers.get(stores, source, npi="1") == new
    assert source.loads == 2
    await providers.invalidate(stores, npi="1")
    await providers.get(stores, source, npi="1")
    assert source.loads == 3


@pytest.mark.proves("PG-42")
async def test_treats_a_cache_outage_as_a_miss_and_logs_it_once(caplog: pytest.LogCaptureFixture) -> None:
    entries = ReadThrough(
        CachedValue("entry:{id}", Provider, lifetime_s=60), prefix="E", rate=Rate("r"), example={"id": "1"}
    )
    caplog.set_level(logging.WARNING, "holdfast")

    source = FakeSource(ADA)
    async with Stores(
        open_memory_stores().tables,
        engines=Engines({"cache": lambda: open_redis("redis://127.0.0.1:1", pause_s=60)}),
    ) as stores:
        for _ in range(3):
            assert await entries.get(stores, source, id="secret-1") == ADA
        source.let.clear()
        asked = [asyncio.create_task(entries.get(stores, source, id="secret-1")) for _ in range(20)]
        await wait_until(lambda: source.loads == 4)
        source.let.set()
        assert await asyncio.gather(*asked) == [ADA] * 20
        await entries.invalidate(stores, id="secret-1")
    # Callers in one process still share one load.
    assert source.loads == 4
    (line,) = [record.getMessage() for record in caplog.records]
    assert "'entry:{id}' is read without the cache" in line and "secret" not in line


async def test_returns_a_value_too_large_for_the_cache(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    entries = ReadThrough(
        CachedValue("entry:{id}", Provider, lifetime_s=60), prefix="E", rate=Rate("r"), example={"id": "1"}
    )

    large = Provider(npi="1", note="x" * 2_000_000)
    assert await entries.get(stores, FakeSource(large), id="1") == large
    assert "2,000,021 bytes: expected at most 1,048,576" in caplog.text


async def test_rejects_a_call_with_a_missing_field(stores: Stores) -> None:
    with pytest.raises(InvalidRequest, match="npi"):
        await providers.get(stores, FakeSource(ADA), id="1")


# --- declarations -------------------------------------------------------------------------------------------


async def test_component_needs_only_the_declared_patterns() -> None:
    """A component with the reads alone can return a cached value, but cannot load one."""
    system = System(
        "registry",
        "A registry",
        patterns=providers.patterns,
        components=[
            Component("api", uses=(providers.reads, providers.writes)),
            Component("reader", uses=(providers.reads,)),
        ],
    )

    async with open_memory_stores(system) as stores:
        source = FakeSource(ADA)
        with pytest.raises(ComponentRefused, match="PR4"):
            await providers.get(stores.for_component("reader"), source, npi="1")
        assert await providers.get(stores.for_component("api"), source, npi="1") == ADA
        assert await providers.get(stores.for_component("reader"), source, npi="1") == ADA


async def test_cache_runs_the_example_of_every_pattern(stores: Stores) -> None:
    for each in (*tokens.patterns, *providers.patterns):
        operation = each.build_example()
        assert operation.store == "cache"
        assert operation.pattern == each.id
        assert each.arguments_model.model_json_schema()
        await stores.run(operation)


@pytest.mark.parametrize("terms", [{"lock_s": 0}, {"wait_s": -1}, {"absent_s": -1}])
def test_rejects_invalid_times(terms: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError):
        ReadThrough(providers.cached, prefix="P", rate=Rate("r"), example={"npi": "1"}, **terms)
