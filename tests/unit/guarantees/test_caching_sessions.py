"""Sessions: found by who was told the id, under its tenant alone, for as long as it is used; ended for good."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from pydantic import BaseModel

from holdfast import Rate, Stores, open_memory_stores
from holdfast.core.errors import CacheUnavailable, DeclarationError, InvalidRequest
from holdfast.guarantees import Sessions
from holdfast.operations.cache import GetValue, PutValue
from holdfast.runtime.engines import Engines
from holdfast.stores.cache.redis import open_redis

NOON = 1770206400.0
HOUR = 3600.0


class Caller(BaseModel):
    user: str


ADA = Caller(user="ada")
sessions = Sessions(
    "session:{tenant}:{id}",
    Caller,
    "SE",
    lifetime_s=HOUR / 2,
    max_lifetime_s=8 * HOUR,
    rate=Rate("request"),
    example={"tenant": "clinic-1"},
    example_value=ADA,
)


class Hand:
    """A clock moved by hand."""

    moment = NOON

    def now(self) -> float:
        return self.moment


Story = Callable[[Stores, Hand], Awaitable[None]]


def told(story: Story) -> None:
    async def run() -> None:
        clock = Hand()
        async with open_memory_stores(clock=clock) as stores:
            await story(stores, clock)

    asyncio.run(run())


@pytest.mark.proves("PG-55")
def test_a_session_is_found_by_its_id_until_it_lies_unused_for_its_lifetime() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        id = await sessions.begin(stores, ADA, tenant="clinic-1")
        for _ in range(5):
            clock.moment += HOUR / 2 - 0.1
            assert await sessions.find(stores, id, tenant="clinic-1") == ADA
        clock.moment += HOUR / 2
        assert await sessions.find(stores, id, tenant="clinic-1") is None

    told(story)


@pytest.mark.proves("PG-55")
def test_a_session_that_is_always_used_still_ends_after_its_longest() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        id = await sessions.begin(stores, ADA, tenant="clinic-1")
        for _ in range(8 * 4 - 1):
            clock.moment += HOUR / 4
            assert await sessions.find(stores, id, tenant="clinic-1") == ADA
        clock.moment += HOUR / 4
        assert await sessions.find(stores, id, tenant="clinic-1") is None

    told(story)


@pytest.mark.proves("PG-55")
def test_the_session_of_one_tenant_is_not_reachable_under_another() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        id = await sessions.begin(stores, ADA, tenant="clinic-1")
        for other in ("clinic-2", "clinic", f"clinic-1:{id}", "clinic-1%3A"):
            assert await sessions.find(stores, id, tenant=other) is None
            await sessions.end(stores, id, tenant=other)
        assert await sessions.find(stores, id, tenant="clinic-1") == ADA

    told(story)


def test_ids_are_random_and_what_is_none_is_not_looked_for() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        ids = {await sessions.begin(stores, ADA, tenant="clinic-1") for _ in range(50)}
        assert len(ids) == 50 and all(len(id) == 43 for id in ids)
        with stores.meter_usage() as meter:
            for strange in ("", "1", "x" * 42, "x" * 44, "x" * 42 + ":", "x" * 43 + "\n", "é" * 43):
                assert await sessions.find(stores, strange, tenant="clinic-1") is None
                await sessions.end(stores, strange, tenant="clinic-1")
        assert meter.usages == []

    told(story)


def test_a_session_that_was_ended_stays_ended() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        id = await sessions.begin(stores, ADA, tenant="clinic-1")
        await sessions.end(stores, id, tenant="clinic-1")
        assert await sessions.find(stores, id, tenant="clinic-1") is None
        await sessions.end(stores, id, tenant="clinic-1")

    told(story)


def test_who_finds_a_session_while_it_is_ended_does_not_bring_it_back() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        id = await sessions.begin(stores, ADA, tenant="clinic-1")
        cache = stores.engines.get("cache")
        key = sessions.cached.build_key(tenant="clinic-1", id=id)
        asked = cache.run

        async def ended_in_between(operation: object) -> object:
            answer = await asked(operation)
            if isinstance(operation, GetValue):
                await sessions.end(stores, id, tenant="clinic-1")
            return answer

        cache.run = ended_in_between  # type: ignore[method-assign]
        assert await sessions.find(stores, id, tenant="clinic-1") is None
        cache.run = asked  # type: ignore[method-assign]
        assert await cache.run(GetValue(key=key)) is None

    told(story)


def test_a_session_kept_under_another_declaration_is_a_new_log_in() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        id = await sessions.begin(stores, ADA, tenant="clinic-1")
        key = sessions.cached.build_key(tenant="clinic-1", id=id)
        cache = stores.engines.get("cache")
        await cache.run(PutValue(key=key, value=b'{"user": "ada"}', lifetime_s=60))
        assert await sessions.find(stores, id, tenant="clinic-1") is None
        assert await cache.run(GetValue(key=key)) is None

    told(story)


def test_a_cache_that_is_down_is_not_taken_for_a_session_that_ended() -> None:
    async def story() -> None:
        engines = Engines({"cache": lambda: open_redis("redis://127.0.0.1:1")})
        async with Stores(open_memory_stores().tables, engines=engines) as stores:
            with pytest.raises(CacheUnavailable):
                await sessions.find(stores, "x" * 43, tenant="clinic-1")
            with pytest.raises(CacheUnavailable):
                await sessions.begin(stores, ADA, tenant="clinic-1")

    asyncio.run(story())


def test_every_pattern_has_an_example_that_a_cache_runs() -> None:
    async def story(stores: Stores, clock: Hand) -> None:
        for each in sessions.patterns:
            assert each.build_example().resource == "session:{tenant}:{id}"
            assert each.arguments_model.model_json_schema()
            await stores.run(each.build_example())
        with pytest.raises(InvalidRequest, match="tenant"):
            await sessions.begin(stores, ADA)

    told(story)


def test_a_declaration_without_an_id_or_with_an_end_before_its_lifetime_is_refused() -> None:
    for template, longest_s in (("session:{tenant}", HOUR), ("session:{tenant}:{id}", 60.0)):
        with pytest.raises(DeclarationError):
            Sessions(
                template,
                Caller,
                "S",
                lifetime_s=HOUR / 2,
                max_lifetime_s=longest_s,
                rate=Rate("r"),
                example={"tenant": "t"},
                example_value=ADA,
            )
