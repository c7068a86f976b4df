"""`Sessions` on an in-memory cache: found by id and tenant, extended by use, ended for good."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from holdfast import Rate, Stores, open_memory_stores
from holdfast.core.errors import CacheUnavailable, DeclarationError, InvalidRequest
from holdfast.guarantees import Sessions
from holdfast.operations.cache import GetValue, PutValue
from holdfast.runtime.engines import Engines
from holdfast.stores.cache.redis import open_redis
from tests.unit.guarantees.idempotency.once_records import ManualClock

HOUR = 3600.0


class Caller(BaseModel):
    user: str


ADA = Caller(user="ada")
sessions = Sessions(
    "session:{tenant}:{id}",
    Caller,
    prefix="SE",
    lifetime_s=HOUR / 2,
    max_lifetime_s=8 * HOUR,
    rate=Rate("request"),
    example={"tenant": "clinic-1"},
    example_value=ADA,
)


@pytest.mark.proves("PG-55")
async def test_finds_a_session_until_it_is_unused_for_its_lifetime(
    stores: Stores, clock: ManualClock
) -> None:
    id = await sessions.begin(stores, ADA, tenant="clinic-1")
    for _ in range(5):
        clock.moment += HOUR / 2 - 0.1
        assert await sessions.find(stores, id, tenant="clinic-1") == ADA
    clock.moment += HOUR / 2
    assert await sessions.find(stores, id, tenant="clinic-1") is None


@pytest.mark.proves("PG-55")
async def test_session_in_constant_use_still_ends_after_its_maximum_lifetime(
    stores: Stores, clock: ManualClock
) -> None:
    id = await sessions.begin(stores, ADA, tenant="clinic-1")
    for _ in range(8 * 4 - 1):
        clock.moment += HOUR / 4
        assert await sessions.find(stores, id, tenant="clinic-1") == ADA
    clock.moment += HOUR / 4
    assert await sessions.find(stores, id, tenant="clinic-1") is None


async def test_peek_finds_a_session_without_extending_it(stores: Stores, clock: ManualClock) -> None:
    id = await sessions.begin(stores, ADA, tenant="clinic-1")
    for _ in range(4):
        assert await sessions.peek(stores, id, tenant="clinic-1") == ADA
        assert await sessions.peek(stores, id, tenant="clinic-2") is None
        clock.moment += HOUR / 8
    assert await sessions.peek(stores, id, tenant="clinic-1") is None
    assert await sessions.peek(stores, "x", tenant="clinic-1") is None


@pytest.mark.proves("PG-55")
async def test_session_is_not_reachable_under_another_tenant(stores: Stores) -> None:
    id = await sessions.begin(stores, ADA, tenant="clinic-1")
    for other in ("clinic-2", "clinic", f"clinic-1:{id}", "clinic-1%3A"):
        assert await sessions.find(stores, id, tenant=other) is None
        await sessions.end(stores, id, tenant=other)
    assert await sessions.find(stores, id, tenant="clinic-1") == ADA


async def test_ids_are_random_and_invalid_ids_are_not_looked_up(stores: Stores) -> None:
    ids = {await sessions.begin(stores, ADA, tenant="clinic-1") for _ in range(50)}
    assert len(ids) == 50 and all(len(id) == 43 for id in ids)
    with stores.meter_usage() as meter:
        for strange in ("", "1", "x" * 42, "x" * 44, "x" * 42 + ":", "x" * 43 + "\n", "é" * 43):
            assert await sessions.find(stores, strange, tenant="clinic-1") is None
            await sessions.end(stores, strange, tenant="clinic-1")
    assert meter.usages == []


async def test_ended_session_stays_ended(stores: Stores) -> None:
    id = await sessions.begin(stores, ADA, tenant="clinic-1")
    await sessions.end(stores, id, tenant="clinic-1")
    assert await sessions.find(stores, id, tenant="clinic-1") is None
    await sessions.end(stores, id, tenant="clinic-1")


async def test_finding_a_session_while_it_ends_does_not_restore_it(stores: Stores) -> None:
    id = await sessions.begin(stores, ADA, tenant="clinic-1")
    cache = stores.engines.get("cache")
    key = sessions.cached.build_key(tenant="clinic-1", id=id)
    asked = cache.run

    async def end_in_between(operation: object) -> object:
        answer = await asked(operation)
        if isinstance(operation, GetValue):
            await sessions.end(stores, id, tenant="clinic-1")
        return answer

    cache.run = end_in_between  # type: ignore[method-assign]
    assert await sessions.find(stores, id, tenant="clinic-1") is None
    cache.run = asked  # type: ignore[method-assign]
    assert await cache.run(GetValue(key=key)) is None


async def test_session_stored_under_another_declaration_requires_a_new_login(stores: Stores) -> None:
    id = await sessions.begin(stores, ADA, tenant="clinic-1")
    key = sessions.cached.build_key(tenant="clinic-1", id=id)
    cache = stores.engines.get("cache")
    await cache.run(PutValue(key=key, value=b'{"user": "ada"}', lifetime_s=60))
    assert await sessions.find(stores, id, tenant="clinic-1") is None
    assert await cache.run(GetValue(key=key)) is None


async def test_reports_a_cache_outage_and_not_an_ended_session() -> None:
    engines = Engines({"cache": lambda: open_redis("redis://127.0.0.1:1")})
    async with Stores(open_memory_stores().tables, engines=engines) as stores:
        with pytest.raises(CacheUnavailable):
            await sessions.find(stores, "x" * 43, tenant="clinic-1")
        with pytest.raises(CacheUnavailable):
            await sessions.begin(stores, ADA, tenant="clinic-1")


async def test_cache_runs_the_example_of_every_pattern(stores: Stores) -> None:
    """Every example runs; a session without its tenant is refused."""
    for each in sessions.patterns:
        assert each.build_example().resource == "session:{tenant}:{id}"
        assert each.arguments_model.model_json_schema()
        await stores.run(each.build_example())
    with pytest.raises(InvalidRequest, match="tenant"):
        await sessions.begin(stores, ADA)


def test_rejects_a_declaration_without_an_id_or_ending_before_its_lifetime() -> None:
    """A template needs `{id}`, and `max_lifetime_s` must not be below `lifetime_s`."""
    for template, longest_s in (("session:{tenant}", HOUR), ("session:{tenant}:{id}", 60.0)):
        with pytest.raises(DeclarationError):
            Sessions(
                template,
                Caller,
                prefix="S",
                lifetime_s=HOUR / 2,
                max_lifetime_s=longest_s,
                rate=Rate("r"),
                example={"tenant": "t"},
                example_value=ADA,
            )
