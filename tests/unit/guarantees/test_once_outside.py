"""An effect at an outside party that knows no idempotency: intended, done, recorded, and looked up before a repeat."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast import Rate, Stores, create_tables, open_memory_stores
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
from holdfast.guarantees import BREAKERS, Breaker, Claim, Completion, OnceStatus
from holdfast.guarantees.idempotency.record import truncate_to_second
from holdfast.operations.tables import Operation
from tests.sweeping import rest
from tests.unit.guarantees.once_records import (
    LEASE_S,
    LIFETIME_S,
    SYSTEM,
    Counter,
    EventRecord,
    HandClock,
    claimed,
    count,
    counted,
    counters,
    event,
    events,
    once,
)

ACT_S = 10.0

Story = Callable[["Stores", "HandClock", "Party"], Coroutine[Any, Any, None]]


class Party:
    """Sends letters. Each asked for is in the ledger, however often; `fails` is what happens after it is sent."""

    def __init__(self) -> None:
        self.ledger: list[str] = []
        self.fails: BaseException | None = None
        self.refuses: BaseException | None = None
        self.looked_up: list[str] = []

    async def send(self, key: str) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        self.ledger.append(key)
        if self.fails is not None:
            raise self.fails
        return {"letter": len(self.ledger)}

    async def look_up(self, key: str) -> dict[str, Any] | None:
        self.looked_up.append(key)
        return {"letter": self.ledger.index(key) + 1} if key in self.ledger else None


def told(story: Story) -> None:
    async def on_stores() -> None:
        clock = HandClock()
        async with open_memory_stores(SYSTEM, clock=clock) as stores:
            await create_tables(stores, [events, counters])
            await story(stores.for_component("worker"), clock, Party())

    asyncio.run(on_stores())


async def sent(
    stores: Stores, party: Party, id: str = "evt-1", record: EventRecord | None = None, **more: Any
) -> Completion[EventRecord]:
    options: dict[str, Any] = {
        "act": party.send,
        "look_up": party.look_up,
        "act_s": ACT_S,
        "writes": lambda outcome: [count("hits")],
    }
    return await once.call_external(stores, record or event(id), **(options | more))


async def kept_of(stores: Stores) -> EventRecord:
    whole = Stores(stores.tables, clock=stores.clock)
    found = await whole.run(EventRecord.of("evt-1").get().consistent())
    assert found is not None
    return found


async def hits(stores: Stores) -> int:
    return await counted(Stores(stores.tables, clock=stores.clock))


def test_it_is_done_once_and_its_outcome_replayed() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        answers = [await sent(stores, party) for _ in range(3)]
        assert [(each.result, each.replayed) for each in answers] == [
            ({"letter": 1}, False),
            ({"letter": 1}, True),
            ({"letter": 1}, True),
        ]
        assert (party.ledger, party.looked_up, await hits(stores)) == (["evt-1"], [], 1)

    told(story)


def test_the_intent_is_recorded_before_the_party_is_asked() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        async def send(key: str) -> str:
            record = await kept_of(stores)
            assert record.act_until == pytest.approx(clock.now() + ACT_S, abs=0.002)
            assert record.in_progress_expires_at is not None and record.act_until is not None
            assert record.act_until < record.in_progress_expires_at
            return "sent"

        assert (await sent(stores, party, act=send)).result == "sent"
        assert (await kept_of(stores)).act_until is None

    told(story)


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
def test_what_may_be_done_is_looked_up_after_the_deadline_and_not_repeated(failure: Exception) -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        party.fails = failure
        with pytest.raises(type(failure)):
            await sent(stores, party)
        party.fails = None

        clock.advance(ACT_S - 1)
        with pytest.raises(InProgress) as early:
            await sent(stores, party)
        assert early.value.retry_after_s == pytest.approx(1, abs=0.01)
        assert party.looked_up == []

        clock.advance(1)
        assert (await sent(stores, party)).result == {"letter": 1}
        assert (party.ledger, party.looked_up, await hits(stores)) == (["evt-1"], ["evt-1"], 1)

    told(story)


def test_it_is_told_to_come_again_after_the_deadline() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        party.fails = ExternalServiceFailed("502", may_be_done=True, retry_after_s=3)
        with pytest.raises(ExternalServiceFailed) as failed:
            await sent(stores, party)
        assert failed.value.may_be_done
        assert failed.value.retry_after_s == pytest.approx(ACT_S, abs=0.01)
        party.fails = ExternalServiceFailed("502", may_be_done=True, retry_after_s=300)
        with pytest.raises(ExternalServiceFailed) as failed:
            await sent(stores, party, "evt-2")
        assert failed.value.retry_after_s == 300

    told(story)


def test_a_party_that_does_not_answer_is_given_up_before_the_deadline() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        async def hang(key: str) -> None:
            party.ledger.append(key)
            await asyncio.Event().wait()

        with pytest.raises(ExternalServiceFailed, match="no answer in time") as failed:
            await sent(stores, party, act=hang, act_s=0.1)
        assert failed.value.may_be_done
        clock.advance(0.1)
        assert (await sent(stores, party)).result == {"letter": 1}
        assert party.ledger == ["evt-1"]

    told(story)


def test_a_worker_that_died_in_the_act_is_waited_for_and_looked_up() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        dead = await claimed(stores)
        await dead.record_intent(ACT_S)
        await party.send("evt-1")

        clock.advance(ACT_S)
        with pytest.raises(InProgress):
            await sent(stores, party)
        clock.advance(LEASE_S - ACT_S)
        done = await sent(stores, party)
        assert (done.result, done.record.attempts) == ({"letter": 1}, 2)
        assert party.ledger == ["evt-1"]

    told(story)


def test_a_worker_that_died_before_the_act_is_looked_up_and_it_is_done() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        await (await claimed(stores)).record_intent(ACT_S)
        clock.advance(LEASE_S)
        await sent(stores, party)
        assert (party.ledger, party.looked_up) == (["evt-1"], ["evt-1"])

    told(story)


def test_a_late_worker_cannot_record_what_another_has() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        asked, answer = asyncio.Event(), asyncio.Event()

        async def slow(key: str) -> dict[str, Any]:
            outcome = await party.send(key)
            asked.set()
            await answer.wait()
            return outcome

        late = asyncio.create_task(sent(stores, party, act=slow))
        await asked.wait()
        clock.advance(LEASE_S)
        assert (await sent(stores, party)).result == {"letter": 1}
        answer.set()
        with pytest.raises(Exception, match="was lost"):
            await late
        assert (party.ledger, await hits(stores)) == (["evt-1"], 1)

    told(story)


@pytest.mark.parametrize(
    "refusal",
    [
        ExternalServiceFailed("429", may_be_done=False, retry_after_s=2),
        CircuitOpen("open", retry_after_s=2),
        RateLimited("full", retry_after_s=2),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_refusal_for_now_may_be_repeated_at_once(refusal: Exception) -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        party.refuses = refusal
        with pytest.raises(type(refusal)):
            await sent(stores, party)
        party.refuses = None
        await sent(stores, party)
        assert (party.ledger, party.looked_up) == (["evt-1"], [])

    told(story)


# --- refused for good ---------------------------------------------------------------------------------------


def test_a_refusal_for_good_is_told_again_and_the_party_not_asked_again() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        party.refuses = ExternalServiceRefused("UnknownAddress", "there is no jane@example.com")
        with pytest.raises(ExternalServiceRefused):
            await sent(stores, party)
        record = await kept_of(stores)
        assert (record.status, record.error) == (OnceStatus.FAILED, "PartyRefused (UnknownAddress)")
        assert (record.refused, record.act_until) == ("UnknownAddress", None)

        party.refuses = None
        for _ in range(3):
            clock.advance(LEASE_S)
            with pytest.raises(ExternalServiceRefused, match="not called again") as again:
                await sent(stores, party)
            assert again.value.code == "UnknownAddress"
        assert (party.ledger, party.looked_up) == ([], [])

    told(story)


def test_what_was_refused_for_good_is_done_once_it_is_reopened() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        party.refuses = ExternalServiceRefused("NoCredit", "declined")
        with pytest.raises(ExternalServiceRefused):
            await sent(stores, party)
        party.refuses = None
        await once.reopen(stores, event())
        assert (await sent(stores, party)).record.refused is None
        await once.reopen(stores, event())
        assert (await sent(stores, party)).replayed
        assert (party.ledger, party.looked_up) == (["evt-1"], [])

    told(story)


def test_a_refusal_of_a_repeat_says_that_the_attempt_before_is_open() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        by_key: dict[str, Any] = {"look_up": None, "takes_key": True}
        party.fails = ExternalServiceFailed("no answer", may_be_done=True)
        with pytest.raises(ExternalServiceFailed):
            await sent(stores, party, **by_key)
        clock.advance(ACT_S + 0.1)
        party.fails, party.refuses = None, ExternalServiceRefused("other_content", "It is another letter.")
        with pytest.raises(
            ExternalServiceRefused, match="another letter. An earlier attempt may have succeeded"
        ) as refused:
            await sent(stores, party, **by_key)
        assert refused.value.code == "other_content"
        kept = await kept_of(stores)
        assert (kept.refused, kept.error) == (
            "other_content",
            "PartyRefused (other_content); outcome of an attempt before unknown",
        )

    told(story)


def test_a_look_up_that_is_refused_says_nothing_about_the_effect() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        async def refused(key: str) -> None:
            raise ExternalServiceRefused("404", "no such list")

        party.fails = ExternalServiceFailed("502", may_be_done=True)
        with pytest.raises(ExternalServiceFailed):
            await sent(stores, party)
        party.fails = None
        clock.advance(ACT_S)
        with pytest.raises(ExternalServiceRefused):
            await sent(stores, party, look_up=refused)
        assert (await sent(stores, party)).result == {"letter": 1}
        assert party.ledger == ["evt-1"]

    told(story)


def test_a_refused_effect_does_not_close_the_event_that_it_belongs_to() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        ended: list[str] = []

        async def effects(claim: Claim[EventRecord]) -> object:
            try:
                await sent(stores, party, f"{claim.key}:reply")
            except ExternalServiceRefused as refused:
                ended.append(str(refused.code))
            return "ended"

        party.refuses = ExternalServiceRefused("Gone", "closed")
        assert (await once.do(stores, event(), effects)).result == "ended"
        assert (await once.do(stores, event(), effects)).replayed
        assert ended == ["Gone"]

    told(story)


# --- what does not say that nothing was done ----------------------------------------------------------------


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
def test_an_error_of_a_store_after_the_party_acted_does_not_make_it_act_again(error: Exception) -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        party.fails = error
        with pytest.raises(type(error)):
            await sent(stores, party)
        party.fails = None
        with pytest.raises(InProgress):
            await sent(stores, party)
        clock.advance(ACT_S)
        assert (await sent(stores, party)).result == {"letter": 1}
        assert (party.ledger, party.looked_up) == (["evt-1"], ["evt-1"])

    told(story)


def test_a_breaker_that_cannot_write_how_the_call_ended_costs_neither_the_outcome_nor_a_second_act() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        class Guarded:
            """The tables of the stores, whose breakers can no longer be written once the party has acted."""

            async def run(self, operation: Operation[Any]) -> Any:
                if party.ledger and getattr(operation, "table", None) == BREAKERS.name:
                    raise AccessRefused("AccessDeniedException", "not allowed")
                return await stores.tables.run(operation)

        guarded = Stores(Guarded(), clock=clock)
        await create_tables(guarded, [BREAKERS])
        breaker = Breaker(
            "CB", rate=Rate("event"), counted_errors=(ExternalServiceFailed,), failures=1, recovery_s=5
        )
        with pytest.raises(ExternalServiceFailed):
            await breaker.call(guarded, "desk", _down)
        clock.advance(6)

        async def probe(key: str) -> Any:
            return await breaker.call(guarded, "desk", lambda: party.send(key))

        assert (await sent(stores, party, act=probe)).result == {"letter": 1}
        assert (party.ledger, party.looked_up) == (["evt-1"], [])

    told(story)


async def _down() -> None:
    raise ExternalServiceFailed("502", may_be_done=False)


# --- the end of a record ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ends_in_s", [-3600, 0, 5])
def test_an_open_intent_outlives_the_end_that_the_caller_gave(ends_in_s: int) -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        def ending() -> EventRecord:
            return event(expires_at=truncate_to_second(clock.now() + ends_in_s))

        party.fails = ExternalServiceFailed("502", may_be_done=True)
        with pytest.raises(ExternalServiceFailed):
            await sent(stores, party, record=ending())
        party.fails = None
        clock.advance(LIFETIME_S - 1)
        wanted = ending()
        done = await sent(stores, party, record=wanted)
        assert (party.ledger, party.looked_up) == (["evt-1"], ["evt-1"])
        assert done.record.expires_at is not None and wanted.expires_at is not None
        outlived = truncate_to_second(clock.now() + LEASE_S + 1)
        assert done.record.expires_at == max(wanted.expires_at, outlived)

    told(story)


def test_an_open_intent_is_looked_up_although_the_record_has_ended_and_is_still_there() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        party.fails = ExternalServiceFailed("502", may_be_done=True)
        with pytest.raises(ExternalServiceFailed):
            await sent(stores, party)
        party.fails = None
        rest(stores.tables)
        clock.advance(LIFETIME_S * 2)
        await sent(stores, party)
        assert (party.ledger, party.looked_up) == (["evt-1"], ["evt-1"])

    told(story)


def test_an_intent_that_is_taken_back_keeps_the_record_no_longer_than_it_was_wanted() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        wanted = truncate_to_second(clock.now() + LEASE_S * 2)
        party.refuses = ExternalServiceFailed("429", may_be_done=False)
        with pytest.raises(ExternalServiceFailed):
            await sent(stores, party, record=event(expires_at=wanted))
        assert (await kept_of(stores)).expires_at == wanted

    told(story)


# --- what cannot be recorded --------------------------------------------------------------------------------


def test_an_outcome_that_cannot_be_recorded_is_looked_up_the_next_time() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        whole = Stores(stores.tables, clock=stores.clock)
        impossible = Counter.of("nobody").update().add(Counter.value, 1)
        with pytest.raises(TransactionCancelled):
            await sent(whole, party, writes=lambda outcome: [impossible])
        clock.advance(ACT_S)
        assert (await sent(stores, party)).result == {"letter": 1}
        assert party.ledger == ["evt-1"]

    told(story)


def test_a_look_up_that_fails_is_asked_again_before_anything_is_done() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        party.fails = ExternalServiceFailed("502", may_be_done=True)
        with pytest.raises(ExternalServiceFailed):
            await sent(stores, party)
        clock.advance(ACT_S)

        async def broken(key: str) -> None:
            raise ExternalServiceFailed("503", may_be_done=False)

        with pytest.raises(ExternalServiceFailed, match="503"):
            await sent(stores, party, look_up=broken)
        party.fails = None
        assert (await sent(stores, party)).result == {"letter": 1}
        assert party.ledger == ["evt-1"]

    told(story)


def test_a_party_that_takes_the_key_is_asked_again_with_the_same_key() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        keys: list[str] = []
        done: dict[str, int] = {}

        async def send(key: str) -> int:
            keys.append(key)
            outcome = done.setdefault(key, len(done) + 1)
            if len(keys) == 1:
                raise ExternalServiceFailed("502", may_be_done=True)
            return outcome

        with pytest.raises(ExternalServiceFailed):
            await sent(stores, party, act=send, look_up=None, takes_key=True)
        clock.advance(ACT_S)
        assert (await sent(stores, party, act=send, look_up=None, takes_key=True)).result == 1
        assert (keys, done) == (["evt-1", "evt-1"], {"evt-1": 1})

    told(story)


def test_a_process_that_slept_past_its_deadline_does_not_act_any_more() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        def slept(usage: Any) -> None:
            if usage.pattern == once.patterns.claim.id and not party.looked_up:
                clock.advance(ACT_S)
                party.looked_up.append("slept")

        stores.observe(slept)
        with pytest.raises(ExternalServiceFailed, match="nothing was sent"):
            await sent(stores, party)
        assert party.ledger == []
        await sent(stores, party)
        assert (party.ledger, party.looked_up) == (["evt-1"], ["slept"])

    told(story)


def test_a_process_whose_wall_clock_stood_while_it_slept_does_not_act_any_more() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        act_s = 0.05

        class Slow:
            """Takes longer for its first answer than the party has, and the wall clock does not move."""

            is_first = True

            async def run(self, operation: Operation[Any]) -> Any:
                answer = await stores.tables.run(operation)
                if self.is_first:
                    self.is_first = False
                    await asyncio.sleep(act_s)
                return answer

        with pytest.raises(ExternalServiceFailed, match="nothing was sent"):
            await sent(Stores(Slow(), clock=clock), party, act_s=act_s)
        assert party.ledger == []

    told(story)


def test_a_party_that_can_be_neither_looked_up_nor_given_a_key_is_refused() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        with pytest.raises(DeclarationError, match="look_up"):
            await sent(stores, party, look_up=None)
        with pytest.raises(DeclarationError, match="before the lease ends"):
            await sent(stores, party, act_s=LEASE_S)
        assert party.ledger == []

    told(story)


def test_several_effects_of_one_event_have_keys_of_their_own_and_go_on_after_a_crash() -> None:
    async def story(stores: Stores, clock: HandClock, party: Party) -> None:
        crash_after: list[str] = ["route"]

        async def effects(claim: Claim[EventRecord]) -> object:
            outcomes = {}
            for action in ("route", "tag", "reply"):
                done = await sent(stores, party, f"{claim.key}:{action}")
                outcomes[action] = done.result["letter"]
                if crash_after and crash_after[0] == action:
                    crash_after.clear()
                    raise InvalidRequest("the process ends here")
            await claim.complete(count("handled"), result=outcomes)
            return None

        with pytest.raises(InvalidRequest):
            await once.do(stores, event(), effects)
        done = await once.do(stores, event(), effects)
        assert done.result == {"route": 1, "tag": 2, "reply": 3}
        assert party.ledger == ["evt-1:route", "evt-1:tag", "evt-1:reply"]
        assert await counted(Stores(stores.tables), "handled") == 1

    told(story)
