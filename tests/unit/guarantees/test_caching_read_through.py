"""Read through: loaded once however many ask, kept as long as is said, and nobody depends on the cache."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import CachedValue, Component, Rate, Stores, System, open_memory_stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import (
    ComponentRefused,
    DeclarationError,
    ExternalServiceFailed,
    InvalidRequest,
    RetryLater,
)
from holdfast.guarantees import ReadThrough, lifetime_until
from holdfast.operations.cache import GetValue, PutValue
from holdfast.runtime.engines import Engines
from holdfast.stores.cache.redis import open_redis

NOON = 1770206400.0


class Token(BaseModel):
    access_token: str
    expires_at: datetime


class Provider(BaseModel):
    npi: str
    note: str = ""


oauth = CachedValue("oauth:{payer_id}", Token, lifetime_s=3600)
tokens = ReadThrough(
    oauth,
    "OA",
    rate=Rate("call"),
    example={"payer_id": "p-1"},
    lifetime=lifetime_until(lambda token: token.expires_at),
)
providers = ReadThrough(
    CachedValue("provider:{npi}", Provider, lifetime_s=300),
    "PR",
    rate=Rate("request"),
    example={"npi": "1234567893"},
)


class Hand:
    """A clock moved by hand."""

    moment = NOON

    def now(self) -> float:
        return self.moment


class Source:
    """Where values come from: counts how often it is asked, and answers when it is let."""

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


Story = Callable[[Stores, Hand], Awaitable[None]]
ADA = Provider(npi="1234567893")


def told(story: Story) -> None:
    async def run() -> None:
        clock = Hand()
        async with open_memory_stores(clock=clock) as stores:
            await story(stores, clock)

    asyncio.run(run())


async def settled(condition: Callable[[], bool]) -> None:
    """Lets everything that can go on go on, until it holds."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


# --- once ---------------------------------------------------------------------------------------------------


def test_a_value_is_loaded_and_then_read_from_the_cache() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        source = Source(ADA)
        for _ in range(3):
            assert await providers.get(stores, source, npi="1") == ADA
        assert source.loads == 1

    told(story)


@pytest.mark.proves("PG-X24")
def test_fifty_that_ask_at_once_load_once() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        source = Source(ADA)
        source.let.clear()
        asked = [asyncio.create_task(providers.get(stores, source, npi="1")) for _ in range(50)]
        await source.begun.wait()
        asked += [asyncio.create_task(providers.get(stores, source, npi="1")) for _ in range(50)]
        await asyncio.sleep(0)
        source.let.set()
        assert await asyncio.gather(*asked) == [ADA] * 100
        assert source.loads == 1

    told(story)


def test_different_keys_do_not_wait_for_each_other() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        slow, quick = Source(ADA), Source(ADA)
        slow.let.clear()
        waiting = asyncio.create_task(providers.get(stores, slow, npi="1"))
        await slow.begun.wait()
        assert await providers.get(stores, quick, npi="2") == ADA
        slow.let.set()
        assert await waiting == ADA

    told(story)


def test_two_stores_in_one_process_do_not_share_a_load() -> None:
    async def story() -> None:
        async with open_memory_stores() as one, open_memory_stores() as another:
            ada, bob = Source(ADA), Source(Provider(npi="2"))
            ada.let.clear()
            waiting = asyncio.create_task(providers.get(one, ada, npi="1"))
            await ada.begun.wait()
            assert await providers.get(another, bob, npi="1") == Provider(npi="2")
            ada.let.set()
            assert await waiting == ADA

    asyncio.run(story())


def test_one_that_gives_up_does_not_end_the_load_for_the_others() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        source = Source(ADA)
        source.let.clear()
        first = asyncio.create_task(providers.get(stores, source, npi="1"))
        await source.begun.wait()
        second = asyncio.create_task(providers.get(stores, source, npi="1"))
        await asyncio.sleep(0)
        first.cancel()
        await settled(first.done)
        source.let.set()
        assert await second == ADA
        assert source.loads == 1

    told(story)


def test_a_failure_is_raised_to_all_who_wait_and_the_next_tries_again() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        source = Source(ADA)
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

    told(story)


def test_a_load_that_hangs_is_given_up_and_does_not_hold_up_the_next() -> None:
    hasty = ReadThrough(providers.cached, "H", rate=Rate("r"), example={"npi": "1"}, lock_s=0.02)

    async def story(stores: Stores, clock: Hand) -> None:
        hanging = Source(ADA)
        hanging.let.clear()
        asked = [asyncio.create_task(hasty.get(stores, hanging, npi="1")) for _ in range(3)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(each) for each in found] == [RetryLater] * 3
        assert await hasty.get(stores, Source(ADA), npi="1") == ADA

    told(story)


def test_a_time_out_of_the_load_itself_is_raised_as_it_is() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        source = Source(ADA)
        source.failure = TimeoutError("the registry's own")
        with pytest.raises(TimeoutError, match="own"):
            await providers.get(stores, source, npi="1")

    told(story)


def test_it_serves_one_event_loop_after_another() -> None:
    source, stores = Source(ADA), open_memory_stores()

    async def asked() -> Provider | None:
        return await providers.get(stores, source, npi="1")

    assert asyncio.run(asked()) == asyncio.run(asked()) == ADA
    assert source.loads == 1
    asyncio.run(stores.close())


# --- for how long -------------------------------------------------------------------------------------------


@pytest.mark.proves("PG-39")
@pytest.mark.proves("PG-40")
@pytest.mark.parametrize("kind", ["provider:{id}", "payer:{id}"])
def test_a_registry_entry_is_read_anew_after_five_minutes(kind: str) -> None:
    entries = ReadThrough(
        CachedValue(kind, Provider, lifetime_s=300), "E", rate=Rate("r"), example={"id": "1"}
    )

    async def story(stores: Stores, clock: Hand) -> None:
        source = Source(ADA)
        await entries.get(stores, source, id="1")
        clock.moment += 299.9
        await entries.get(stores, source, id="1")
        assert source.loads == 1
        clock.moment += 0.1
        await entries.get(stores, source, id="1")
        assert source.loads == 2

    told(story)


@pytest.mark.proves("PG-37")
@pytest.mark.proves("PG-X24")
@pytest.mark.parametrize(("valid_s", "kept_s"), [(1800, 1740), (3600, 3540), (90_000, 3600)])
def test_a_token_is_kept_until_a_minute_before_its_end(valid_s: float, kept_s: float) -> None:
    async def story(stores: Stores, clock: Hand) -> None:
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

    told(story)


@pytest.mark.proves("PG-X24")
@pytest.mark.parametrize("valid_s", [-10.0, 0.0, 30.0, 60.0])
def test_a_token_about_to_end_is_used_and_never_kept(valid_s: float) -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        loads = 0

        async def fetch() -> Token:
            nonlocal loads
            loads += 1
            return Token(access_token="t", expires_at=datetime.fromtimestamp(clock.now() + valid_s, UTC))

        for _ in range(2):
            assert await tokens.get(stores, fetch, payer_id="p-1")
        assert loads == 2
        assert await stores.run(oauth.peek(payer_id="p-1")) is None

    told(story)


def test_an_end_may_be_told_in_epoch_seconds() -> None:
    lifetime = lifetime_until(lambda provider: NOON + 100, margin_s=10)
    assert lifetime(ADA, NOON) == 90


def test_an_absence_is_remembered_for_a_shorter_time() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        source = Source(None)
        for _ in range(3):
            assert await providers.get(stores, source, npi="1") is None
        assert source.loads == 1
        clock.moment += 30
        source.value = ADA
        assert await providers.get(stores, source, npi="1") == ADA
        assert source.loads == 2

    told(story)


def test_an_absence_need_not_be_remembered() -> None:
    forgetful = ReadThrough(providers.cached, "F", rate=Rate("r"), example={"npi": "1"}, absent_s=0)

    async def story(stores: Stores, clock: Hand) -> None:
        source = Source(None)
        for _ in range(2):
            assert await forgetful.get(stores, source, npi="1") is None
        assert source.loads == 2

    told(story)


def test_lifetimes_go_by_a_run_clock(tmp_path: Path) -> None:
    async def story() -> None:
        clock = RunClock(tmp_path / "clock", start=NOON)
        async with open_memory_stores(clock=clock) as stores:
            source = Source(ADA)
            for _ in range(2):
                await providers.get(stores, source, npi="1")
            clock.advance(300)
            await providers.get(stores, source, npi="1")
            assert source.loads == 2

    asyncio.run(story())


# --- what is lost, unreadable or refused --------------------------------------------------------------------


def test_a_value_that_cannot_be_read_is_loaded_and_replaced() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        cache, source = stores.engines.get("cache"), Source(ADA)
        await cache.run(PutValue(key="provider:1", value=b'{"number": 1}', lifetime_s=60))
        assert await providers.get(stores, source, npi="1") == ADA
        assert await cache.run(GetValue(key="provider:1")) == b'{"npi":"1234567893","note":""}'

    told(story)


def test_a_value_that_cannot_be_read_is_gone_even_if_nothing_takes_its_place() -> None:
    forgetful = ReadThrough(providers.cached, "F", rate=Rate("r"), example={"npi": "1"}, absent_s=0)

    async def story(stores: Stores, clock: Hand) -> None:
        cache = stores.engines.get("cache")
        await cache.run(PutValue(key="provider:1", value=b"{", lifetime_s=60))
        assert await forgetful.get(stores, Source(None), npi="1") is None
        assert await cache.run(GetValue(key="provider:1")) is None

    told(story)


def test_a_refused_token_is_forgotten_once_by_all_who_were_refused_with_it() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        old, new = ADA, Provider(npi="1234567893", note="new")
        source = Source(old)
        await providers.get(stores, source, npi="1")
        source.value = new
        for _ in range(3):
            await providers.invalidate(stores, old, npi="1")
            assert await providers.get(stores, source, npi="1") == new
        assert source.loads == 2
        await providers.invalidate(stores, npi="1")
        await providers.get(stores, source, npi="1")
        assert source.loads == 3

    told(story)


@pytest.mark.proves("PG-42")
def test_a_cache_that_is_down_is_a_miss_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    entries = ReadThrough(
        CachedValue("entry:{id}", Provider, lifetime_s=60), "E", rate=Rate("r"), example={"id": "1"}
    )
    caplog.set_level(logging.WARNING, "holdfast")

    async def story() -> None:
        source = Source(ADA)
        async with Stores(
            open_memory_stores().tables,
            engines=Engines({"cache": lambda: open_redis("redis://127.0.0.1:1", pause_s=60)}),
        ) as stores:
            for _ in range(3):
                assert await entries.get(stores, source, id="secret-1") == ADA
            source.let.clear()
            asked = [asyncio.create_task(entries.get(stores, source, id="secret-1")) for _ in range(20)]
            await settled(lambda: source.loads == 4)
            source.let.set()
            assert await asyncio.gather(*asked) == [ADA] * 20
            await entries.invalidate(stores, id="secret-1")
        # Those of one process load together all the same.
        assert source.loads == 4

    asyncio.run(story())
    (line,) = [record.getMessage() for record in caplog.records]
    assert "'entry:{id}' is read without the cache" in line and "secret" not in line


def test_a_value_too_large_for_the_cache_is_given_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    entries = ReadThrough(
        CachedValue("entry:{id}", Provider, lifetime_s=60), "E", rate=Rate("r"), example={"id": "1"}
    )

    async def story(stores: Stores, clock: Hand) -> None:
        large = Provider(npi="1", note="x" * 2_000_000)
        assert await entries.get(stores, Source(large), id="1") == large

    told(story)
    assert "at most 1,048,576 bytes" in caplog.text


def test_a_field_that_is_missing_is_the_callers_error() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        with pytest.raises(InvalidRequest, match="npi"):
            await providers.get(stores, Source(ADA), id="1")

    told(story)


# --- declarations -------------------------------------------------------------------------------------------


def test_a_component_needs_the_patterns_and_no_more() -> None:
    system = System(
        "registry",
        "A registry",
        [],
        providers.patterns,
        [
            Component("api", reads=providers.reads, writes=providers.writes),
            Component("reader", reads=providers.reads),
        ],
    )

    async def story() -> None:
        async with open_memory_stores(system) as stores:
            source = Source(ADA)
            with pytest.raises(ComponentRefused, match="PR4"):
                await providers.get(stores.for_component("reader"), source, npi="1")
            assert await providers.get(stores.for_component("api"), source, npi="1") == ADA
            assert await providers.get(stores.for_component("reader"), source, npi="1") == ADA

    asyncio.run(story())


def test_every_pattern_has_an_example_that_a_cache_runs() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        for each in (*tokens.patterns, *providers.patterns):
            operation = each.build_example()
            assert operation.store == "cache"
            assert operation.pattern == each.id
            assert each.arguments_model.model_json_schema()
            await stores.run(operation)

    told(story)


@pytest.mark.parametrize("terms", [{"lock_s": 0}, {"wait_s": -1}, {"absent_s": -1}])
def test_times_that_make_no_sense_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError):
        ReadThrough(providers.cached, "P", rate=Rate("r"), example={"npi": "1"}, **terms)
