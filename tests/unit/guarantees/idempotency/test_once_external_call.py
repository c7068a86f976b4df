"""`Once.call_external` in memory: intent, call, outcome; unknown outcomes are looked up before a repeat."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast import Rate, Stores, open_memory_stores
from holdfast.core.errors import (
    AccessRefused,
    CircuitOpen,
    DeclarationError,
    ExternalServiceFailed,
    ExternalServiceRefused,
    InProgress,
    InvalidRequest,
    RateLimited,
    RequestRefused,
    StoreUnreachable,
    Throttled,
    TransactionCancelled,
)
from holdfast.guarantees import BREAKERS, Breaker, Circuit, Claim, Completion, OnceStatus
from holdfast.guarantees.idempotency.record import truncate_to_second
from holdfast.operations.tables import Operation
from holdfast.runtime import create_tables
from tests.background_work import stop_background_work
from tests.unit.guarantees.idempotency.once_records import (
    LEASE_S,
    RETENTION_S,
    SYSTEM,
    Counter,
    EventRecord,
    ManualClock,
    claim_event,
    count,
    counters,
    events,
    make_event,
    once,
    read_counter,
)

ACT_S = 10.0


class FakeLetterService:
    """External service that records every send in `ledger`.

    It raises `refuses` before a send and `fails` after it.
    """

    def __init__(self) -> None:
        self.ledger: list[str] = []
        self.fails: BaseException | None = None
        self.refuses: BaseException | None = None
        self.looked_up: list[str] = []

    async def send(self, key: str) -> dict[str, Any]:
        """Record the key in the ledger and return the number of the letter, or raise."""
        if self.refuses is not None:
            raise self.refuses
        self.ledger.append(key)
        if self.fails is not None:
            raise self.fails
        return {"letter": len(self.ledger)}

    async def look_up(self, key: str) -> dict[str, Any] | None:
        """Return the outcome of a send with this key, or None; each look-up is recorded in `looked_up`."""
        self.looked_up.append(key)
        return {"letter": self.ledger.index(key) + 1} if key in self.ledger else None


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def service() -> FakeLetterService:
    return FakeLetterService()


@pytest.fixture
async def stores(clock: ManualClock) -> AsyncIterator[Stores]:
    """Open the stores of the component `worker`."""
    async with open_memory_stores(SYSTEM, clock=clock) as stores:
        await create_tables(stores, [events, counters])
        yield stores.for_component("worker")


async def send_letter(
    stores: Stores,
    service: FakeLetterService,
    id: str = "evt-1",
    record: EventRecord | None = None,
    **more: Any,
) -> Completion[EventRecord]:
    """Run `call_external` for the event; `more` overrides its arguments."""
    options: dict[str, Any] = {
        "act": service.send,
        "look_up": service.look_up,
        "act_s": ACT_S,
        "writes": lambda outcome: [count("hits")],
    }
    return await once.call_external(stores, record or make_event(id), **(options | more))


async def read_record(stores: Stores) -> EventRecord:
    """Return the stored record of `evt-1`, read without a component's limits."""
    whole = Stores(stores.tables, clock=stores.clock)
    found = await whole.run(EventRecord.of("evt-1").get().consistent())
    assert found is not None
    return found


async def read_hits(stores: Stores) -> int:
    """Return the effect's counter, read without a component's limits."""
    return await read_counter(Stores(stores.tables, clock=stores.clock))


async def test_calls_once_and_replays_the_outcome(stores: Stores, service: FakeLetterService) -> None:
    answers = [await send_letter(stores, service) for _ in range(3)]
    assert [(each.result, each.replayed) for each in answers] == [
        ({"letter": 1}, False),
        ({"letter": 1}, True),
        ({"letter": 1}, True),
    ]
    assert (service.ledger, service.looked_up, await read_hits(stores)) == (["evt-1"], [], 1)


async def test_records_the_intent_before_the_call(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    async def send(key: str) -> str:
        record = await read_record(stores)
        assert record.act_until == pytest.approx(clock.now() + ACT_S, abs=0.002)
        assert record.in_progress_expires_at is not None and record.act_until is not None
        assert record.act_until < record.in_progress_expires_at
        return "sent"

    assert (await send_letter(stores, service, act=send)).result == "sent"
    assert (await read_record(stores)).act_until is None


@pytest.mark.parametrize(
    "failure",
    [
        ExternalServiceFailed("502 after all", may_be_done=True),
        ConnectionResetError(),
        ValueError("no JSON"),
        TimeoutError(),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_looks_up_an_unknown_outcome_after_the_deadline_and_does_not_repeat(
    failure: Exception, stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    service.fails = failure
    with pytest.raises(type(failure)):
        await send_letter(stores, service)
    service.fails = None

    clock.advance(ACT_S - 1)
    with pytest.raises(InProgress) as early:
        await send_letter(stores, service)
    assert early.value.retry_after_s == pytest.approx(1, abs=0.01)
    assert service.looked_up == []

    clock.advance(1)
    assert (await send_letter(stores, service)).result == {"letter": 1}
    assert (service.ledger, service.looked_up, await read_hits(stores)) == (["evt-1"], ["evt-1"], 1)


async def test_asks_the_caller_to_retry_after_the_deadline(
    stores: Stores, service: FakeLetterService
) -> None:
    """Or after the service's own retry time, if that is later."""
    service.fails = ExternalServiceFailed("502", may_be_done=True, retry_after_s=3)
    with pytest.raises(ExternalServiceFailed) as failed:
        await send_letter(stores, service)
    assert failed.value.may_be_done
    assert failed.value.retry_after_s == pytest.approx(ACT_S, abs=0.01)
    service.fails = ExternalServiceFailed("502", may_be_done=True, retry_after_s=300)
    with pytest.raises(ExternalServiceFailed) as failed:
        await send_letter(stores, service, "evt-2")
    assert failed.value.retry_after_s == 300


async def test_abandons_a_silent_service_before_the_deadline(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    async def hang(key: str) -> None:
        service.ledger.append(key)
        await asyncio.Event().wait()

    with pytest.raises(ExternalServiceFailed, match="no answer in time") as failed:
        await send_letter(stores, service, act=hang, act_s=0.1)
    assert failed.value.may_be_done
    clock.advance(0.1)
    assert (await send_letter(stores, service)).result == {"letter": 1}
    assert service.ledger == ["evt-1"]


async def test_waits_for_a_worker_that_died_in_the_call_and_looks_up_the_outcome(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    dead = await claim_event(stores)
    await dead.record_intent(ACT_S)
    await service.send("evt-1")

    clock.advance(ACT_S)
    with pytest.raises(InProgress):
        await send_letter(stores, service)
    clock.advance(LEASE_S - ACT_S)
    done = await send_letter(stores, service)
    assert (done.result, done.record.attempts) == ({"letter": 1}, 2)
    assert service.ledger == ["evt-1"]


async def test_calls_after_a_lookup_when_a_worker_died_before_the_call(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    await (await claim_event(stores)).record_intent(ACT_S)
    clock.advance(LEASE_S)
    await send_letter(stores, service)
    assert (service.ledger, service.looked_up) == (["evt-1"], ["evt-1"])


async def test_late_worker_cannot_record_an_outcome_that_another_has(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def slow(key: str) -> dict[str, Any]:
        outcome = await service.send(key)
        asked.set()
        await answer.wait()
        return outcome

    late = asyncio.create_task(send_letter(stores, service, act=slow))
    await asked.wait()
    clock.advance(LEASE_S)
    assert (await send_letter(stores, service)).result == {"letter": 1}
    answer.set()
    with pytest.raises(Exception, match="was lost"):
        await late
    assert (service.ledger, await read_hits(stores)) == (["evt-1"], 1)


@pytest.mark.parametrize(
    "refusal",
    [
        ExternalServiceFailed("429", may_be_done=False, retry_after_s=2),
        CircuitOpen("open", retry_after_s=2),
        RateLimited("full", retry_after_s=2),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_temporary_refusal_can_be_retried_at_once(
    refusal: Exception, stores: Stores, service: FakeLetterService
) -> None:
    service.refuses = refusal
    with pytest.raises(type(refusal)):
        await send_letter(stores, service)
    service.refuses = None
    await send_letter(stores, service)
    assert (service.ledger, service.looked_up) == (["evt-1"], [])


# --- permanent refusals -------------------------------------------------------------------------------------


async def test_permanent_refusal_is_replayed_without_another_call(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    service.refuses = ExternalServiceRefused("UnknownAddress", "there is no jane@example.com")
    with pytest.raises(ExternalServiceRefused):
        await send_letter(stores, service)
    record = await read_record(stores)
    assert (record.status, record.error) == (OnceStatus.FAILED, "PartyRefused (UnknownAddress)")
    assert (record.refused, record.act_until) == ("UnknownAddress", None)

    service.refuses = None
    for _ in range(3):
        clock.advance(LEASE_S)
        with pytest.raises(ExternalServiceRefused, match="not called again") as again:
            await send_letter(stores, service)
        assert again.value.code == "UnknownAddress"
    assert (service.ledger, service.looked_up) == ([], [])


async def test_reopened_record_is_called_after_a_permanent_refusal(
    stores: Stores, service: FakeLetterService
) -> None:
    service.refuses = ExternalServiceRefused("NoCredit", "declined")
    with pytest.raises(ExternalServiceRefused):
        await send_letter(stores, service)
    service.refuses = None
    await once.reopen(stores, make_event())
    assert (await send_letter(stores, service)).record.refused is None
    await once.reopen(stores, make_event())
    assert (await send_letter(stores, service)).replayed
    assert (service.ledger, service.looked_up) == (["evt-1"], [])


async def test_refused_repeat_reports_that_the_earlier_attempt_is_open(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    by_key: dict[str, Any] = {"look_up": None, "takes_key": True}
    service.fails = ExternalServiceFailed("no answer", may_be_done=True)
    with pytest.raises(ExternalServiceFailed):
        await send_letter(stores, service, **by_key)
    clock.advance(ACT_S + 0.1)
    service.fails, service.refuses = (
        None,
        ExternalServiceRefused("other_content", "It is another letter."),
    )
    with pytest.raises(
        ExternalServiceRefused, match="another letter. An earlier attempt may have succeeded"
    ) as refused:
        await send_letter(stores, service, **by_key)
    assert refused.value.code == "other_content"
    kept = await read_record(stores)
    assert (kept.refused, kept.error) == (
        "other_content",
        "PartyRefused (other_content); outcome of an attempt before unknown",
    )


async def test_refused_lookup_does_not_settle_the_effect(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    async def refuse(key: str) -> None:
        raise ExternalServiceRefused("404", "no such list")

    service.fails = ExternalServiceFailed("502", may_be_done=True)
    with pytest.raises(ExternalServiceFailed):
        await send_letter(stores, service)
    service.fails = None
    clock.advance(ACT_S)
    with pytest.raises(ExternalServiceRefused):
        await send_letter(stores, service, look_up=refuse)
    assert (await send_letter(stores, service)).result == {"letter": 1}
    assert service.ledger == ["evt-1"]


async def test_event_completes_once_though_its_effect_was_refused(
    stores: Stores, service: FakeLetterService
) -> None:
    ended: list[str] = []

    async def effects(claim: Claim[EventRecord]) -> object:
        try:
            await send_letter(stores, service, f"{claim.key}:reply")
        except ExternalServiceRefused as refused:
            ended.append(str(refused.code))
        return "ended"

    service.refuses = ExternalServiceRefused("Gone", "closed")
    assert (await once.do(stores, make_event(), effects)).result == "ended"
    assert (await once.do(stores, make_event(), effects)).replayed
    assert ended == ["Gone"]


# --- errors that leave the outcome unknown ------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        AccessRefused("AccessDeniedException", "not allowed to PutItem"),
        RequestRefused("BadRequest", "of a store"),
        InvalidRequest("too large"),
        Throttled(),
        StoreUnreachable("no connection"),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_store_error_after_the_call_does_not_cause_a_second_call(
    error: Exception, stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    service.fails = error
    with pytest.raises(type(error)):
        await send_letter(stores, service)
    service.fails = None
    with pytest.raises(InProgress):
        await send_letter(stores, service)
    clock.advance(ACT_S)
    assert (await send_letter(stores, service)).result == {"letter": 1}
    assert (service.ledger, service.looked_up) == (["evt-1"], ["evt-1"])


async def test_failed_breaker_write_after_the_call_still_returns_its_outcome(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    class Guarded:
        """Tables engine that rejects breaker writes once the service has acted."""

        async def run(self, operation: Operation[Any]) -> Any:
            if service.ledger and getattr(operation, "table", None) == BREAKERS.name:
                raise AccessRefused("AccessDeniedException", "not allowed")
            return await stores.tables.run(operation)

    guarded = Stores(Guarded(), clock=clock)
    await create_tables(guarded, [BREAKERS])
    breaker = Breaker(
        Circuit,
        prefix="CB",
        rate=Rate("event"),
        counted_errors=(ExternalServiceFailed,),
        failures=1,
        recovery_s=5,
    )
    with pytest.raises(ExternalServiceFailed):
        await breaker.call(guarded, "desk", _raise_unavailable)
    clock.advance(6)

    async def probe(key: str) -> Any:
        return await breaker.call(guarded, "desk", lambda: service.send(key))

    assert (await send_letter(stores, service, act=probe)).result == {"letter": 1}
    assert (service.ledger, service.looked_up) == (["evt-1"], [])


async def _raise_unavailable() -> None:
    raise ExternalServiceFailed("502", may_be_done=False)


# --- expiry of records --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends_in_s", [-3600, 0, 5])
async def test_open_intent_outlives_the_expiry_that_the_caller_gave(
    ends_in_s: int, stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    def ending() -> EventRecord:
        return make_event(expires_at=truncate_to_second(clock.now() + ends_in_s))

    service.fails = ExternalServiceFailed("502", may_be_done=True)
    with pytest.raises(ExternalServiceFailed):
        await send_letter(stores, service, record=ending())
    service.fails = None
    clock.advance(RETENTION_S - 1)
    wanted = ending()
    done = await send_letter(stores, service, record=wanted)
    assert (service.ledger, service.looked_up) == (["evt-1"], ["evt-1"])
    assert done.record.expires_at is not None and wanted.expires_at is not None
    outlived = truncate_to_second(clock.now() + LEASE_S + 1)
    assert done.record.expires_at == max(wanted.expires_at, outlived)


async def test_looks_up_an_open_intent_of_an_expired_record_that_still_exists(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    service.fails = ExternalServiceFailed("502", may_be_done=True)
    with pytest.raises(ExternalServiceFailed):
        await send_letter(stores, service)
    service.fails = None
    stop_background_work(stores.tables)
    clock.advance(RETENTION_S * 2)
    await send_letter(stores, service)
    assert (service.ledger, service.looked_up) == (["evt-1"], ["evt-1"])


async def test_cleared_intent_restores_the_records_own_expiry(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    wanted = truncate_to_second(clock.now() + LEASE_S * 2)
    service.refuses = ExternalServiceFailed("429", may_be_done=False)
    with pytest.raises(ExternalServiceFailed):
        await send_letter(stores, service, record=make_event(expires_at=wanted))
    assert (await read_record(stores)).expires_at == wanted


# --- unrecorded outcomes ------------------------------------------------------------------------------------


async def test_looks_up_an_unrecorded_outcome_the_next_time(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    whole = Stores(stores.tables, clock=stores.clock)
    impossible = Counter.of("nobody").update().add(Counter.value, 1)
    with pytest.raises(TransactionCancelled):
        await send_letter(whole, service, writes=lambda outcome: [impossible])
    clock.advance(ACT_S)
    assert (await send_letter(stores, service)).result == {"letter": 1}
    assert service.ledger == ["evt-1"]


async def test_repeats_a_failed_lookup_before_any_call(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    service.fails = ExternalServiceFailed("502", may_be_done=True)
    with pytest.raises(ExternalServiceFailed):
        await send_letter(stores, service)
    clock.advance(ACT_S)

    async def broken(key: str) -> None:
        raise ExternalServiceFailed("503", may_be_done=False)

    with pytest.raises(ExternalServiceFailed, match="503"):
        await send_letter(stores, service, look_up=broken)
    service.fails = None
    assert (await send_letter(stores, service)).result == {"letter": 1}
    assert service.ledger == ["evt-1"]


async def test_repeats_the_call_with_the_same_idempotency_key(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    keys: list[str] = []
    done: dict[str, int] = {}

    async def send(key: str) -> int:
        keys.append(key)
        outcome = done.setdefault(key, len(done) + 1)
        if len(keys) == 1:
            raise ExternalServiceFailed("502", may_be_done=True)
        return outcome

    with pytest.raises(ExternalServiceFailed):
        await send_letter(stores, service, act=send, look_up=None, takes_key=True)
    clock.advance(ACT_S)
    assert (await send_letter(stores, service, act=send, look_up=None, takes_key=True)).result == 1
    assert (keys, done) == (["evt-1", "evt-1"], {"evt-1": 1})


async def test_process_that_slept_past_its_deadline_does_not_call(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    def slept(usage: Any) -> None:
        if usage.pattern == once.pattern_set.claim.id and not service.looked_up:
            clock.advance(ACT_S)
            service.looked_up.append("slept")

    stores.observe(slept)
    with pytest.raises(ExternalServiceFailed, match="nothing was sent"):
        await send_letter(stores, service)
    assert service.ledger == []
    await send_letter(stores, service)
    assert (service.ledger, service.looked_up) == (["evt-1"], ["slept"])


async def test_process_that_slept_with_a_stopped_wall_clock_does_not_call(
    stores: Stores, clock: ManualClock, service: FakeLetterService
) -> None:
    act_s = 0.05

    class Slow:
        """Engine whose first response takes longer than the call may, while the wall clock does not
        move.
        """

        is_first = True

        async def run(self, operation: Operation[Any]) -> Any:
            answer = await stores.tables.run(operation)
            if self.is_first:
                self.is_first = False
                await asyncio.sleep(act_s)
            return answer

    with pytest.raises(ExternalServiceFailed, match="nothing was sent"):
        await send_letter(Stores(Slow(), clock=clock), service, act_s=act_s)
    assert service.ledger == []


async def test_rejects_a_call_without_lookup_or_key_or_with_a_deadline_beyond_the_lease(
    stores: Stores, service: FakeLetterService
) -> None:
    with pytest.raises(DeclarationError, match="look_up"):
        await send_letter(stores, service, look_up=None)
    with pytest.raises(DeclarationError, match="before the lease does"):
        await send_letter(stores, service, act_s=LEASE_S)
    assert service.ledger == []


async def test_several_effects_of_one_event_have_their_own_keys_and_resume_after_a_crash(
    stores: Stores, service: FakeLetterService
) -> None:
    crash_after: list[str] = ["route"]

    async def effects(claim: Claim[EventRecord]) -> object:
        outcomes = {}
        for action in ("route", "tag", "reply"):
            done = await send_letter(stores, service, f"{claim.key}:{action}")
            outcomes[action] = done.result["letter"]
            if crash_after and crash_after[0] == action:
                crash_after.clear()
                raise InvalidRequest("the process ends here")
        await claim.complete(count("handled"), result=outcomes)
        return None

    with pytest.raises(InvalidRequest):
        await once.do(stores, make_event(), effects)
    done = await once.do(stores, make_event(), effects)
    assert done.result == {"route": 1, "tag": 2, "reply": 3}
    assert service.ledger == ["evt-1:route", "evt-1:tag", "evt-1:reply"]
    assert await read_counter(Stores(stores.tables), "handled") == 1
