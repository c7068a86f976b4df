"""`Once` for effects in tables, in one process: claims, renewed leases, lost responses, declarations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Attr, Key, Rate, Stores, Table, attr, keep_names, open_memory_stores
from holdfast.core.errors import (
    ComponentRefused,
    DeclarationError,
    InProgress,
    InvalidRequest,
    LeaseLost,
    RetryLater,
    StoreUnreachable,
)
from holdfast.guarantees import Claim, Completion, Once, OnceRecord, OnceStatus, fingerprint
from holdfast.guarantees.idempotency.record import format_key, truncate_to_second
from holdfast.operations.tables import Operation, PutItem, TransactWriteItems
from holdfast.reports.design.design_check import check_design
from holdfast.runtime import create_tables
from tests.unit.guarantees.idempotency.once_records import (
    LEASE_S,
    PAYLOAD,
    RETENTION_S,
    SYSTEM,
    EventRecord,
    LossyTables,
    ManualClock,
    claim_event,
    count,
    counters,
    events,
    make_event,
    once,
    read_counter,
    replay_event,
)

ROOT = Path(__file__).parents[4]
SHORT_LEASE_S = 0.15
short = Once(
    EventRecord,
    prefix="SH",
    rate=Rate("event"),
    example=make_event(),
    lease_s=SHORT_LEASE_S,
    retention_s=RETENTION_S,
)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def stores(clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_memory_stores(SYSTEM, clock=clock) as stores:
        await create_tables(stores, [events, counters])
        yield stores


# --- function and decorator ---------------------------------------------------------------------------------


@pytest.mark.proves("RP-41")
async def test_effect_requested_many_times_at_once_happens_once(stores: Stores) -> None:
    async def effect(claim: Claim[EventRecord]) -> None:
        await claim.complete(count("hits"), result="counted")

    answers = await asyncio.gather(
        *(once.do(stores, make_event(), effect) for _ in range(20)), return_exceptions=True
    )
    assert {type(each) for each in answers} <= {Completion, InProgress}
    assert await read_counter(stores) == 1
    assert (await once.do(stores, make_event(), effect)).result == "counted"
    assert await read_counter(stores) == 1


async def test_effects_return_value_becomes_its_result(stores: Stores) -> None:
    async def effect(claim: Claim[EventRecord]) -> object:
        return {"attempt": claim.record.attempts}

    first, second = [await once.do(stores, make_event(), effect) for _ in range(2)]
    assert (first.result, first.replayed) == ({"attempt": 1}, False)
    assert (second.result, second.replayed) == ({"attempt": 1}, True)


async def test_a_decorated_function_runs_once_per_record(stores: Stores) -> None:
    @once.wraps(lambda id, text: make_event(id, fingerprint(text)))
    async def handle(stores: Stores, claim: Claim[EventRecord], id: str, text: str) -> object:
        await claim.complete(count(id), result=len(text))
        return None

    calls = (("a", "four"), ("a", "four"), ("b", "x"))
    answers = [await handle(stores, *each) for each in calls]
    assert [(each.result, each.replayed) for each in answers] == [(4, False), (4, True), (1, False)]
    assert (await read_counter(stores, "a"), await read_counter(stores, "b")) == (1, 1)


async def test_releases_the_claim_of_an_effect_that_may_succeed_later(stores: Stores) -> None:
    async def effect(claim: Claim[EventRecord]) -> None:
        raise RetryLater("the shop is closed", retry_after_s=7)

    with pytest.raises(RetryLater, match="closed"):
        await once.do(stores, make_event(), effect)
    assert (await claim_event(stores)).record.attempts == 2


async def test_records_a_failed_effect_with_its_error_type_and_without_its_text(stores: Stores) -> None:
    async def effect(claim: Claim[EventRecord]) -> None:
        raise KeyError("jane@example.com")

    with pytest.raises(KeyError):
        await once.do(stores, make_event(), effect)
    found = await stores.run(EventRecord.of("evt-1").get())
    assert found is not None and (found.status, found.error) == (OnceStatus.FAILED, "KeyError")


async def test_releases_the_claim_of_a_cancelled_effect(stores: Stores) -> None:
    begun = asyncio.Event()

    async def effect(claim: Claim[EventRecord]) -> None:
        begun.set()
        await asyncio.Event().wait()

    work = asyncio.create_task(once.do(stores, make_event(), effect))
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert (await claim_event(stores)).record.attempts == 2


# --- leases -------------------------------------------------------------------------------------------------


async def test_renews_the_lease_while_the_work_continues(stores: Stores, clock: ManualClock) -> None:
    renewals, enough = 0, asyncio.Event()

    def hear(usage: Any) -> None:
        nonlocal renewals
        renewals += usage.pattern == short.pattern_set.change.id
        clock.advance(SHORT_LEASE_S / 3)  # without the renewals it would be over by now
        if renewals == 5:
            enough.set()

    async def effect(claim: Claim[EventRecord]) -> None:
        stores.observe(hear)
        await enough.wait()
        with pytest.raises(InProgress):
            await short.claim(stores, make_event())
        await claim.complete(count("hits"))

    assert not (await short.do(stores, make_event(), effect)).replayed
    assert await read_counter(stores) == 1


async def test_record_outlives_a_lease_that_is_renewed_repeatedly(stores: Stores, clock: ManualClock) -> None:
    claim = await claim_event(stores)
    for _ in range(int(RETENTION_S / LEASE_S) + 2):
        clock.advance(LEASE_S - 1)
        await claim.renew()
    with pytest.raises(InProgress):
        await once.claim(stores, make_event())


async def test_cancels_work_whose_claim_is_lost(stores: Stores, clock: ManualClock) -> None:
    begun = asyncio.Event()
    ended: list[str] = []

    async def effect(claim: Claim[EventRecord]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    work = asyncio.create_task(short.do(stores, make_event(), effect))
    await begun.wait()
    taker = await _take_over(stores, clock)
    with pytest.raises(LeaseLost):
        await work
    assert ended == ["cancelled"]
    await taker.complete()


async def _take_over(stores: Stores, clock: ManualClock) -> Claim[EventRecord]:
    """Take the claim over; retry when a renewal comes in between."""
    while True:
        clock.advance(SHORT_LEASE_S)
        try:
            taken = await once.claim(stores, make_event())
        except InProgress:
            continue
        assert isinstance(taken, Claim)
        return taken


async def test_cancels_work_whose_lease_is_not_renewed_in_time(stores: Stores, clock: ManualClock) -> None:
    class Unreachable:
        async def run(self, operation: Operation[Any]) -> Any:
            raise StoreUnreachable("no connection")

    async def effect(claim: Claim[EventRecord]) -> None:
        claim.stores = Stores(Unreachable(), clock=clock)
        await asyncio.Event().wait()

    with pytest.raises(LeaseLost, match="no connection"):
        await short.do(stores, make_event(), effect)


async def test_released_claim_is_not_renewed(stores: Stores) -> None:
    claim = await claim_event(stores)
    await claim.release()
    await claim.renew()
    with pytest.raises(InvalidRequest, match="released"):
        await claim.complete()
    assert (await claim_event(stores)).record.attempts == 2


async def test_explicit_expiry_does_not_end_the_lease(stores: Stores, clock: ManualClock) -> None:
    claim = await claim_event(stores)
    await claim.save(expires_at=truncate_to_second(clock.now() - 5), note="mine")
    with pytest.raises(InProgress):
        await once.claim(stores, make_event())
    await claim.renew()
    clock.advance(LEASE_S - 1)
    with pytest.raises(InProgress):
        await once.claim(stores, make_event())


# --- lost responses -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["done", "not done"])
async def test_claim_with_a_lost_response_is_one_claim(fate: str, stores: Stores, clock: ManualClock) -> None:
    engine = LossyTables(stores.tables)
    engine.is_lost = lambda operation: fate if not engine.lost else None
    claim = await claim_event(Stores(engine, clock=clock))
    assert engine.lost == [fate] and claim.record.attempts == 1
    await claim.complete()


@pytest.mark.parametrize("fate", ["done", "not done"])
@pytest.mark.parametrize("kind", [PutItem, TransactWriteItems])
async def test_completion_with_a_lost_response_happens_once(
    fate: str, kind: type, stores: Stores, clock: ManualClock
) -> None:
    engine = LossyTables(stores.tables)
    claim = await claim_event(Stores(engine, clock=clock))
    engine.is_lost = lambda operation: fate if isinstance(operation, kind) and not engine.lost else None
    writes = [count("hits")] if kind is TransactWriteItems else []
    assert (await claim.complete(*writes, result=1)).result == 1
    assert engine.lost == [fate]
    assert await read_counter(stores) == len(writes)
    assert (await replay_event(stores)).result == 1


async def test_late_renewal_changes_nothing(stores: Stores, clock: ManualClock) -> None:
    engine = LossyTables(stores.tables)
    claim = await claim_event(Stores(engine, clock=clock))
    engine.is_lost = lambda operation: "not done"
    with pytest.raises(RetryLater):
        await claim.renew()
    engine.is_lost = lambda operation: None
    del engine.withheld[1:]
    await claim.record_intent(5)
    intended = claim.record
    with pytest.raises(Exception, match="conditional request failed"):
        await engine.deliver_withheld()
    assert await stores.run(EventRecord.of("evt-1").get().consistent()) == intended


async def test_renewal_that_succeeded_despite_an_error_keeps_the_claim(
    stores: Stores, clock: ManualClock
) -> None:
    """A renewal that arrives after its error is not mistaken for another worker's write."""
    engine = LossyTables(stores.tables)
    claim = await claim_event(Stores(engine, clock=clock))
    engine.is_lost = lambda operation: "not done"
    with pytest.raises(RetryLater):
        await claim.renew()
    engine.is_lost = lambda operation: None
    del engine.withheld[1:]
    await engine.deliver_withheld()
    await claim.complete(count("hits"))
    assert await read_counter(stores) == 1


# --- declarations -------------------------------------------------------------------------------------------


async def test_component_needs_the_patterns_of_once(stores: Stores) -> None:
    """A component with the claim pattern alone can claim, but neither complete nor check its claim."""
    worker, claimer = stores.for_component("worker"), stores.for_component("claimer")
    await (await claim_event(worker)).complete(count("hits"))
    other = await claim_event(claimer, make_event("evt-2"))
    with pytest.raises(ComponentRefused):
        await other.complete()
    with pytest.raises(ComponentRefused):
        await stores.for_component("claimer").transact(other.check(), count("hits"))


async def test_the_design_check_finds_no_error_in_a_system_with_once() -> None:
    findings = await check_design(SYSTEM)
    assert [each for each in findings if each.severity == "error"] == []


def test_patterns_have_their_own_ids_purposes_and_names() -> None:
    assert [each.id for each in once.patterns] == ["ON1", "ON2", "ON3", "ON4", "ON5"]
    assert len({each.name for each in once.patterns}) == 5
    assert once.pattern_set.claim.name == "claim_event_record"


def test_rejects_a_table_whose_ttl_is_not_expires_at() -> None:
    class Endless(OnceRecord, table=Table("Endless", "id", naming=keep_names)):
        id: Attr[str] = attr()
        of = Key(id)

    with pytest.raises(DeclarationError, match="ttl='expires_at'"):
        Once(Endless, prefix="EN", rate=Rate("event"), example=Endless(id="x", payload_sha256=PAYLOAD))


def test_rejects_a_record_that_does_not_outlive_its_lease() -> None:
    with pytest.raises(DeclarationError, match="outlive"):
        Once(EventRecord, prefix="X", rate=Rate("event"), example=make_event(), lease_s=60, retention_s=60)


async def test_callers_cannot_change_the_attributes_of_the_guarantee(stores: Stores) -> None:
    """Nor store a result that is not JSON, nor complete a claim twice."""
    claim = await claim_event(stores)
    with pytest.raises(InvalidRequest, match="owner, status"):
        await claim.complete(owner="me", status=OnceStatus.FAILED)
    with pytest.raises(InvalidRequest, match="kept as JSON"):
        await claim.complete(result=object())
    await claim.complete()
    with pytest.raises(InvalidRequest, match="completed already"):
        await claim.complete()


def test_fingerprint_depends_on_the_content() -> None:
    """The order of members does not matter, the types of values do."""
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": "1"})
    assert fingerprint("é") == fingerprint("é".encode())


@pytest.mark.parametrize(
    "payload", ["\ud800", {"t": "\ud800"}, {1: "a"}, [{"a": {2: "b"}}], {"n": float("nan")}]
)
def test_rejects_a_payload_that_json_cannot_represent_uniquely(payload: Any) -> None:
    with pytest.raises(InvalidRequest, match="kept as JSON"):
        fingerprint(payload)


def test_entity_declares_how_long_its_records_are_kept() -> None:
    class Kept(OnceRecord, table=Table("Kept", "id", ttl="expires_at", naming=keep_names)):
        id: Attr[str] = attr()
        of = Key(id)

    for retention_s in (RETENTION_S, RETENTION_S * 2, RETENTION_S):
        example = Kept(id="x", payload_sha256=PAYLOAD)
        Once(Kept, prefix="KE", rate=Rate("event"), example=example, retention_s=retention_s)
    assert Kept.__dict__["__kept_s__"] == RETENTION_S * 2
    assert "recognised" in Kept.__dict__["__kept_why__"]


def test_different_keys_have_different_texts() -> None:
    class Pair(OnceRecord, table=Table("Pairs", "one", "two", ttl="expires_at", naming=keep_names)):
        one: Attr[str] = attr()
        two: Attr[str] = attr()
        of = Key(one, two)

    pairs = [("a#b", "c"), ("a", "b#c"), ("a%23b", "c"), ("a", "b")]
    texts = [format_key(Pair(one=one, two=two, payload_sha256=PAYLOAD)) for one, two in pairs]
    assert len(set(texts)) == len(pairs)
    assert (texts[-1], format_key(make_event("evt#1"))) == ("a#b", "evt#1")
