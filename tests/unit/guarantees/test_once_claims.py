"""Once in one process: leases that are renewed, answers that are lost, writes that arrive late, what is refused."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from holdfast import Attr, Key, Rate, Stores, Table, attr, create_tables, keep_names, open_memory_stores
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
from tests.unit.guarantees.once_records import (
    LEASE_S,
    LIFETIME_S,
    PAYLOAD,
    SYSTEM,
    EventRecord,
    HandClock,
    LosingAnswers,
    claimed,
    count,
    counted,
    counters,
    event,
    events,
    once,
    replayed,
)

ROOT = Path(__file__).parents[3]
SHORT_LEASE_S = 0.15
short = Once(
    EventRecord, "SH", rate=Rate("event"), example=event(), lease_s=SHORT_LEASE_S, lifetime_s=LIFETIME_S
)

Story = Callable[[Stores, HandClock], Coroutine[Any, Any, None]]


def told(story: Story) -> None:
    async def on_stores() -> None:
        clock = HandClock()
        async with open_memory_stores(SYSTEM, clock=clock) as stores:
            await create_tables(stores, [events, counters])
            await story(stores, clock)

    asyncio.run(on_stores())


# --- as a function and as a decorator -----------------------------------------------------------------------


@pytest.mark.proves("RP-41")
def test_an_effect_asked_for_many_times_at_once_happens_once() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        async def effect(claim: Claim[EventRecord]) -> None:
            await claim.complete(count("hits"), result="counted")

        answers = await asyncio.gather(
            *(once.do(stores, event(), effect) for _ in range(20)), return_exceptions=True
        )
        assert {type(each) for each in answers} <= {Completion, InProgress}
        assert await counted(stores) == 1
        assert (await once.do(stores, event(), effect)).result == "counted"
        assert await counted(stores) == 1

    told(story)


def test_what_an_effect_returns_is_its_result() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        async def effect(claim: Claim[EventRecord]) -> object:
            return {"attempt": claim.record.attempts}

        first, second = [await once.do(stores, event(), effect) for _ in range(2)]
        assert (first.result, first.replayed) == ({"attempt": 1}, False)
        assert (second.result, second.replayed) == ({"attempt": 1}, True)

    told(story)


def test_a_decorated_function_runs_once_per_record() -> None:
    @once.wraps(lambda id, text: event(id, fingerprint(text)))
    async def handle(stores: Stores, claim: Claim[EventRecord], id: str, text: str) -> object:
        await claim.complete(count(id), result=len(text))
        return None

    async def story(stores: Stores, clock: HandClock) -> None:
        answers = [
            await handle(stores, "a", "four"),
            await handle(stores, "a", "four"),
            await handle(stores, "b", "x"),
        ]
        assert [(each.result, each.replayed) for each in answers] == [(4, False), (4, True), (1, False)]
        assert (await counted(stores, "a"), await counted(stores, "b")) == (1, 1)

    told(story)


def test_an_effect_that_may_go_better_later_is_given_back() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        async def effect(claim: Claim[EventRecord]) -> None:
            raise RetryLater("the shop is closed", retry_after_s=7)

        with pytest.raises(RetryLater, match="closed"):
            await once.do(stores, event(), effect)
        assert (await claimed(stores)).record.attempts == 2

    told(story)


def test_an_effect_that_fails_is_failed_with_its_kind_and_without_its_text() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        async def effect(claim: Claim[EventRecord]) -> None:
            raise KeyError("jane@example.com")

        with pytest.raises(KeyError):
            await once.do(stores, event(), effect)
        found = await stores.run(EventRecord.of("evt-1").get())
        assert found is not None and (found.status, found.error) == (OnceStatus.FAILED, "KeyError")

    told(story)


def test_an_effect_that_is_cancelled_is_given_back() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        begun = asyncio.Event()

        async def effect(claim: Claim[EventRecord]) -> None:
            begun.set()
            await asyncio.Event().wait()

        work = asyncio.create_task(once.do(stores, event(), effect))
        await begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert (await claimed(stores)).record.attempts == 2

    told(story)


# --- a lease that is yours to set ---------------------------------------------------------------------------


def test_a_worker_that_is_gone_blocks_for_its_lease_and_no_longer() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        taken = await short.claim(stores, event())
        assert isinstance(taken, Claim)
        with pytest.raises(InProgress):
            await short.claim(stores, event())
        clock.advance(SHORT_LEASE_S)
        assert isinstance(await short.claim(stores, event()), Claim)

    told(story)


def test_a_lease_is_renewed_while_the_work_goes_on() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        renewals, enough = 0, asyncio.Event()

        def heard(usage: Any) -> None:
            nonlocal renewals
            renewals += usage.pattern == short.patterns.change.id
            clock.advance(SHORT_LEASE_S / 3)  # without the renewals it would be over by now
            if renewals == 5:
                enough.set()

        async def effect(claim: Claim[EventRecord]) -> None:
            stores.observe(heard)
            await enough.wait()
            with pytest.raises(InProgress):
                await short.claim(stores, event())
            await claim.complete(count("hits"))

        assert not (await short.do(stores, event(), effect)).replayed
        assert await counted(stores) == 1

    told(story)


def test_a_record_outlives_a_lease_that_is_renewed_again_and_again() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        for _ in range(int(LIFETIME_S / LEASE_S) + 2):
            clock.advance(LEASE_S - 1)
            await claim.renew()
        with pytest.raises(InProgress):
            await once.claim(stores, event())

    told(story)


def test_work_whose_claim_is_lost_is_cancelled() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        begun = asyncio.Event()
        ended: list[str] = []

        async def effect(claim: Claim[EventRecord]) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.append("cancelled")
                raise

        work = asyncio.create_task(short.do(stores, event(), effect))
        await begun.wait()
        taker = await _taken_over(stores, clock)
        with pytest.raises(LeaseLost):
            await work
        assert ended == ["cancelled"]
        await taker.complete()

    told(story)


async def _taken_over(stores: Stores, clock: HandClock) -> Claim[EventRecord]:
    """A renewal may come in between, and then it is tried again."""
    while True:
        clock.advance(SHORT_LEASE_S)
        try:
            taken = await once.claim(stores, event())
        except InProgress:
            continue
        assert isinstance(taken, Claim)
        return taken


def test_work_whose_lease_cannot_be_renewed_in_its_time_is_cancelled() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        class Unreachable:
            async def run(self, operation: Operation[Any]) -> Any:
                raise StoreUnreachable("no connection")

        async def effect(claim: Claim[EventRecord]) -> None:
            claim.stores = Stores(Unreachable(), clock=clock)
            await asyncio.Event().wait()

        with pytest.raises(LeaseLost, match="no connection"):
            await short.do(stores, event(), effect)

    told(story)


def test_a_claim_that_was_given_back_is_not_renewed_any_more() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        await claim.release()
        await claim.renew()
        with pytest.raises(InvalidRequest, match="released"):
            await claim.complete()
        assert (await claimed(stores)).record.attempts == 2

    told(story)


def test_an_end_given_with_what_is_kept_does_not_end_the_lease() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        await claim.save(expires_at=truncate_to_second(clock.now() - 5), note="mine")
        with pytest.raises(InProgress):
            await once.claim(stores, event())
        await claim.renew()
        clock.advance(LEASE_S - 1)
        with pytest.raises(InProgress):
            await once.claim(stores, event())

    told(story)


# --- answers that are lost ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fate", ["done", "not done"])
def test_a_claim_whose_answer_was_lost_is_one_claim(fate: str) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        engine = LosingAnswers(stores.tables)
        engine.is_lost = lambda operation: fate if not engine.lost else None
        claim = await claimed(Stores(engine, clock=clock))
        assert engine.lost == [fate] and claim.record.attempts == 1
        await claim.complete()

    told(story)


@pytest.mark.parametrize("fate", ["done", "not done"])
@pytest.mark.parametrize("kind", [PutItem, TransactWriteItems])
def test_a_completion_whose_answer_was_lost_is_done_once(fate: str, kind: type) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        engine = LosingAnswers(stores.tables)
        claim = await claimed(Stores(engine, clock=clock))
        engine.is_lost = lambda operation: fate if isinstance(operation, kind) and not engine.lost else None
        writes = [count("hits")] if kind is TransactWriteItems else []
        assert (await claim.complete(*writes, result=1)).result == 1
        assert engine.lost == [fate]
        assert await counted(stores) == len(writes)
        assert (await replayed(stores)).result == 1

    told(story)


def test_a_renewal_that_arrives_late_undoes_nothing() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        engine = LosingAnswers(stores.tables)
        claim = await claimed(Stores(engine, clock=clock))
        engine.is_lost = lambda operation: "not done"
        with pytest.raises(RetryLater):
            await claim.renew()
        engine.is_lost = lambda operation: None
        del engine.withheld[1:]
        await claim.record_intent(5)
        intended = claim.record
        with pytest.raises(Exception, match="conditional request failed"):
            await engine.arrive()
        assert await stores.run(EventRecord.of("evt-1").get().consistent()) == intended

    told(story)


def test_a_renewal_that_came_through_after_all_does_not_cost_the_claim() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        engine = LosingAnswers(stores.tables)
        claim = await claimed(Stores(engine, clock=clock))
        engine.is_lost = lambda operation: "not done"
        with pytest.raises(RetryLater):
            await claim.renew()
        engine.is_lost = lambda operation: None
        del engine.withheld[1:]
        await engine.arrive()
        await claim.complete(count("hits"))
        assert await counted(stores) == 1

    told(story)


# --- what is declared ---------------------------------------------------------------------------------------


def test_a_component_works_with_the_patterns_of_once_and_not_without() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        worker, claimer = stores.for_component("worker"), stores.for_component("claimer")
        await (await claimed(worker)).complete(count("hits"))
        other = await claimed(claimer, event("evt-2"))
        with pytest.raises(ComponentRefused):
            await other.complete()
        with pytest.raises(ComponentRefused):
            await stores.for_component("claimer").transact(other.check(), count("hits"))

    told(story)


def test_the_design_check_finds_no_error_in_a_system_with_once() -> None:
    findings = asyncio.run(check_design(SYSTEM))
    assert [each for each in findings if each.severity == "error"] == []


def test_patterns_have_ids_purposes_and_names_of_their_own() -> None:
    assert [each.id for each in once.patterns] == ["ON1", "ON2", "ON3", "ON4", "ON5"]
    assert len({each.name for each in once.patterns}) == 5
    assert once.patterns.claim.name == "claim_event_record"


def test_a_table_that_does_not_end_lives_by_expires_at_is_refused() -> None:
    class Endless(OnceRecord, table=Table("Endless", "id", naming=keep_names)):
        id: Attr[str] = attr()
        of = Key(id)

    with pytest.raises(DeclarationError, match="ttl='expires_at'"):
        Once(Endless, "EN", rate=Rate("event"), example=Endless(id="x", payload_sha256=PAYLOAD))


def test_a_record_that_does_not_outlive_its_lease_is_refused() -> None:
    with pytest.raises(DeclarationError, match="outlive"):
        Once(EventRecord, "X", rate=Rate("event"), example=event(), lease_s=60, lifetime_s=60)


def test_the_attributes_of_the_guarantee_are_not_the_callers_to_change() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        with pytest.raises(InvalidRequest, match="owner, status"):
            await claim.complete(owner="me", status=OnceStatus.FAILED)
        with pytest.raises(InvalidRequest, match="kept as JSON"):
            await claim.complete(result=object())
        await claim.complete()
        with pytest.raises(InvalidRequest, match="completed already"):
            await claim.complete()

    told(story)


def test_every_test_that_the_page_names_is_there() -> None:
    page = (ROOT / "docs" / "once.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", page))
    files = [*ROOT.glob("tests/unit/guarantees/*.py"), *ROOT.glob("tests/contract/guarantees/*.py")]
    there = set(re.findall(r"def (test_\w+)", "".join(file.read_text(encoding="utf-8") for file in files)))
    assert named and named <= there


def test_a_fingerprint_is_of_the_content() -> None:
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": "1"})
    assert fingerprint("é") == fingerprint("é".encode())


@pytest.mark.parametrize(
    "payload", ["\ud800", {"t": "\ud800"}, {1: "a"}, [{"a": {2: "b"}}], {"n": float("nan")}]
)
def test_a_payload_that_json_cannot_tell_apart_is_refused(payload: Any) -> None:
    with pytest.raises(InvalidRequest, match="kept as JSON"):
        fingerprint(payload)


def test_the_entity_says_how_long_its_records_are_kept() -> None:
    class Kept(OnceRecord, table=Table("Kept", "id", ttl="expires_at", naming=keep_names)):
        id: Attr[str] = attr()
        of = Key(id)

    for lifetime_s in (LIFETIME_S, LIFETIME_S * 2, LIFETIME_S):
        example = Kept(id="x", payload_sha256=PAYLOAD)
        Once(Kept, "KE", rate=Rate("event"), example=example, lifetime_s=lifetime_s)
    assert Kept.__dict__["__kept_s__"] == LIFETIME_S * 2
    assert "recognised" in Kept.__dict__["__kept_why__"]


def test_no_two_keys_have_the_same_text() -> None:
    class Pair(OnceRecord, table=Table("Pairs", "one", "two", ttl="expires_at", naming=keep_names)):
        one: Attr[str] = attr()
        two: Attr[str] = attr()
        of = Key(one, two)

    pairs = [("a#b", "c"), ("a", "b#c"), ("a%23b", "c"), ("a", "b")]
    texts = [format_key(Pair(one=one, two=two, payload_sha256=PAYLOAD)) for one, two in pairs]
    assert len(set(texts)) == len(pairs)
    assert (texts[-1], format_key(event("evt#1"))) == ("a#b", "evt#1")
