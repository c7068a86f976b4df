"""`DelayedActions` in memory: declarations, delays, reviews, execution under keys, component permissions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import KEYS_ONLY, Attr, IndexKey, Key, Rate, Stores, Table, attr, open_memory_stores
from holdfast.core.errors import (
    ComponentRefused,
    ConditionFailed,
    DeclarationError,
    ExternalServiceFailed,
    ExternalServiceRefused,
    InProgress,
    InvalidRequest,
    NotFound,
    NotPending,
    TransactionCancelled,
)
from holdfast.guarantees import (
    OUTCOME_UNKNOWN,
    Completion,
    DelayedAction,
    DelayedActions,
    Once,
    OnceStatus,
    Review,
    ReviewDecision,
)
from holdfast.model.entities import TimestampMillis, TimestampSeconds
from holdfast.operations.tables import Operation, TransactWriteItems
from holdfast.reports.design.design_check import check_design
from holdfast.runtime import create_tables
from holdfast.stores.tables.embedded import open_tables
from tests.background_work import stop_background_work
from tests.unit.guarantees.delayed_actions.delayed_letters import (
    ACT_S,
    KEY_KEPT_S,
    LEASE_S,
    NO_ANSWER,
    NOT_NOW,
    RETENTION_S,
    SYSTEM,
    FakePostOffice,
    Letter,
    execute,
    execute_by_key,
    hold,
    letters,
    list_due,
    make_letter,
    queue,
    read_letter,
)
from tests.unit.guarantees.idempotency.once_records import (
    Counter,
    LossyTables,
    ManualClock,
    count,
    counters,
    read_counter,
)

# --- declarations -------------------------------------------------------------------------------------------


def test_patterns_have_ids_with_the_prefix_and_valid_examples() -> None:
    assert sorted(each.id for each in queue.patterns) == [f"HQ{number}" for number in range(1, 9)]
    assert {each.build_example().pattern for each in queue.patterns} == {
        f"HQ{number}" for number in range(1, 9)
    }
    assert queue.pattern_set.due.rate == Rate("turn")


class NoIndex(DelayedAction, table=Table("NoIndex", "id", ttl="expiresAt")):
    id: Attr[str] = attr()
    of = Key(id)


at_desks = Table("AtDesks", "id", ttl="expiresAt")
of_desk = at_desks.global_index("of-desk", "DuePK", "DueSK")


class NoQueue(DelayedAction, table=at_desks):
    id: Attr[str] = attr()
    held_until: Attr[TimestampMillis | None] = attr(default=None)
    of = Key(id)
    by_due = IndexKey(of_desk, "DESK#" + id, held_until + "#" + id)


in_seconds = Table("InSeconds", "id", ttl="expiresAt")
by_second = in_seconds.global_index("by-second", "DuePK", "DueSK")


class InSeconds(DelayedAction, table=in_seconds):
    id: Attr[str] = attr()
    queue: Attr[str | None] = attr(default=None)
    held_until: Attr[TimestampSeconds | None] = attr(default=None)
    of = Key(id)
    by_due = IndexKey(by_second, "L#" + queue, held_until + "#" + id)


unsorted = Table("Unsorted", "id", ttl="expiresAt")
by_id = unsorted.global_index("by-id", "DuePK", "DueSK")


class Unsorted(DelayedAction, table=unsorted):
    id: Attr[str] = attr()
    queue: Attr[str | None] = attr(default=None)
    held_until: Attr[TimestampMillis | None] = attr(default=None)
    of = Key(id)
    by_due = IndexKey(by_id, "L#" + queue, id + "#" + held_until)


@pytest.mark.parametrize("entity", [NoIndex, NoQueue, InSeconds, Unsorted])
def test_rejects_a_record_without_an_index_of_due_records(entity: Any) -> None:
    """The index must have the queue as partition key and begin its sort key with the due time in
    milliseconds.
    """
    with pytest.raises(DeclarationError, match="by_due = IndexKey"):
        DelayedActions(entity, prefix="HQ", rate=Rate("letter"), example=lambda: entity(id="l"))


def test_rejects_an_index_that_does_not_project_whole_items() -> None:
    table = Table("Letters", "id", ttl="expiresAt")
    index = table.global_index("by-due", "DuePK", "DueSK", projection=KEYS_ONLY)

    class Partial(DelayedAction, table=table):
        id: Attr[str] = attr()
        queue: Attr[str | None] = attr(default=None)
        held_until: Attr[TimestampMillis | None] = attr(default=None)

        of = Key(id)
        by_due = IndexKey(index, "L#" + queue, held_until + "#" + id)

    with pytest.raises(DeclarationError, match="projection ALL"):
        DelayedActions(Partial, prefix="HQ", rate=Rate("letter"), example=Partial(id="l"))


coarse = Table("Coarse", "id", ttl="expiresAt")
coarse_by_due = coarse.global_index("by-due", "DuePK", "DueSK")


class Coarse(DelayedAction, table=coarse):
    id: Attr[str] = attr()
    queue: Attr[str | None] = attr(default=None)
    held_until: Attr[TimestampMillis | None] = attr(default=None)
    executed_at: Attr[TimestampSeconds | None] = attr(default=None)
    of = Key(id)
    by_due = IndexKey(coarse_by_due, "L#" + queue, held_until + "#" + id)


def test_rejects_a_record_that_cannot_store_its_completion_time() -> None:
    with pytest.raises(DeclarationError, match="Coarse.executed_at: it cannot store milliseconds"):
        DelayedActions(Coarse, prefix="HQ", rate=Rate("letter"), example=Coarse(id="l"))


def test_rejects_a_payload_of_attributes_that_are_not_content() -> None:
    with pytest.raises(DeclarationError, match="held_until, id cannot be edited. Choose from note, text"):
        DelayedActions(
            Letter,
            prefix="HQ",
            rate=Rate("letter"),
            example=make_letter(),
            payload=("text", "id", "held_until"),
        )


def test_payload_defaults_to_all_editable_attributes() -> None:
    made = DelayedActions(Letter, prefix="HQ", rate=Rate("letter"), example=make_letter())
    assert made.payload == ("note", "text")


async def test_design_check_finds_no_problem_in_the_letters_system() -> None:
    """The design check reports nothing but information."""
    findings = await check_design(SYSTEM)
    assert [each.message for each in findings if each.severity != "info"] == []


async def test_each_component_runs_only_its_own_patterns(clock: ManualClock, office: FakePostOffice) -> None:
    async with open_memory_stores(SYSTEM, clock=clock) as stores:
        await create_tables(stores, [letters, counters])
        author, reviewer, sender = map(stores.for_component, ("author", "reviewer", "sender"))
        seen = await hold(author)
        with pytest.raises(ComponentRefused):
            await queue.approve(author, seen, by="ann")
        await queue.approve(reviewer, seen, count("approved"), by="ann")
        with pytest.raises(ComponentRefused):
            await execute(reviewer, office)
        assert await list_due(sender) == ["l-1"]
        await execute(sender, office)
        assert office.ledger == [("l-1", "hello")]


# --- delays -------------------------------------------------------------------------------------------------


async def test_delay_is_cut_to_milliseconds_and_resets_the_guarantees_own_attributes(
    stores: Stores, clock: ManualClock
) -> None:
    clock.moment = 1_900_000_000.123456
    created = datetime(2030, 3, 17, tzinfo=UTC)
    given = make_letter(executed=True, reviewed_by="eve", refused="x", attempts=7, created_at=created)
    held = await hold(stores, given, 1.0009)
    assert held.held_until == datetime.fromtimestamp(1_900_000_001, UTC) + timedelta(milliseconds=124)
    assert (held.executed, held.reviewed_by, held.refused, held.attempts) == (False, None, None, 0)
    assert (held.status, held.queue, held.created_at) == (OnceStatus.HELD, "held", created)
    assert held.expires_at == datetime.fromtimestamp(int(1_900_000_001.124356 + RETENTION_S), UTC)


@pytest.mark.parametrize("for_s", [-1.0, float("nan"), float("inf"), 1e12, 1e300, 10**400], ids=str)
async def test_rejects_an_invalid_delay(for_s: float, stores: Stores) -> None:
    with pytest.raises(InvalidRequest, match="seconds from 0 up"):
        queue.delay(stores, make_letter(), for_s=for_s)


async def test_rejects_a_delay_longer_than_the_records_lifetime(stores: Stores, clock: ManualClock) -> None:
    ends = datetime.fromtimestamp(int(clock.now()) + 60, UTC)
    with pytest.raises(InvalidRequest, match="would never be done"):
        queue.delay(stores, make_letter(expires_at=ends), for_s=61)
    queue.delay(stores, make_letter(expires_at=ends), for_s=58)


async def test_rejects_a_key_that_is_already_delayed(stores: Stores) -> None:
    await hold(stores)
    with pytest.raises(ConditionFailed):
        await hold(stores, make_letter(text="another"))


# --- reviews ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"id": "l-2"},
        {"desk": "d-2"},
        {"status": "held"},
        {"held_until": None},
        {"queue": None},
        {"text": "x", "expires_at": None},
        {"no_such": 1},
        {"text": 7},
    ],
)
async def test_rejects_an_edit_of_attributes_that_are_not_content(
    changes: dict[str, Any], stores: Stores
) -> None:
    seen = await hold(stores)
    with pytest.raises(InvalidRequest):
        await queue.edit(stores, seen, by="ann", **changes)
    assert await read_letter(stores) == seen


async def test_edit_outside_the_payload_keeps_the_fingerprint(stores: Stores) -> None:
    seen = await hold(stores)
    edited = await queue.edit(stores, seen, by="ann", note="urgent")
    assert (edited.note, edited.payload_sha256) == ("urgent", seen.payload_sha256)
    same = await queue.edit(stores, edited, by="ann", text="hello")
    assert same.payload_sha256 == seen.payload_sha256


async def test_review_is_not_committed_when_its_extra_write_fails(stores: Stores) -> None:
    seen = await hold(stores)
    impossible = Counter.of("none").check().when(Counter.value == 7)
    with pytest.raises(TransactionCancelled):
        await queue.cancel(stores, seen, impossible, by="ann")
    assert await read_letter(stores) == seen


@pytest.mark.parametrize("fate", ["done", "not done"])
async def test_review_whose_response_is_lost_is_committed_once_with_its_writes(fate: str) -> None:
    clock = ManualClock()
    async with open_memory_stores(clock=clock) as memory:
        losing = LossyTables(memory.tables)
        stores = Stores(losing, clock=clock)
        await create_tables(stores, [letters, counters])
        seen = await hold(stores)

        def lost_once(operation: Operation[Any]) -> str | None:
            return fate if isinstance(operation, TransactWriteItems) and not losing.lost else None

        losing.is_lost = lost_once
        cancelled = await queue.cancel(stores, seen, count("cancelled"), by="ann")
        assert losing.lost == [fate]
        assert await read_letter(stores) == cancelled
        assert await read_counter(stores, "cancelled") == 1


async def test_unknown_record_is_neither_reviewed_nor_executed(
    stores: Stores, office: FakePostOffice
) -> None:
    unheld = queue.delay(stores, make_letter(), for_s=0).entity
    for attempt in (queue.approve(stores, unheld, by="ann"), execute(stores, office, unheld)):
        with pytest.raises(NotPending) as refused:
            await attempt
        assert refused.value.state == "gone"
    assert office.ledger == []


async def test_reopens_only_refused_records(stores: Stores, office: FakePostOffice) -> None:
    cancelled = await queue.cancel(stores, await hold(stores), by="ann")
    with pytest.raises(NotPending):
        await queue.reopen(stores, cancelled, by="ann")
    done = await execute(stores, office, await hold(stores, make_letter("l-2"), 0))
    with pytest.raises(NotPending):
        await queue.reopen(stores, done.record, by="ann")


# --- execution ----------------------------------------------------------------------------------------------


async def test_expired_record_is_neither_due_nor_executed(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    seen = await hold(stores, for_s=0)
    clock.advance(RETENTION_S + 2)
    assert await list_due(stores) == []
    for attempt in (execute(stores, office), queue.approve(stores, seen, by="ann")):
        with pytest.raises(NotPending) as refused:
            await attempt
        assert refused.value.state == "gone"
    assert office.ledger == []


async def test_open_intent_keeps_the_record_beyond_its_expiry(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    stop_background_work(stores.tables)
    ends = datetime.fromtimestamp(int(clock.now()) + 120, UTC)
    await hold(stores, make_letter(expires_at=ends), 0)
    office.fails = NO_ANSWER
    with pytest.raises(ExternalServiceFailed):
        await execute(stores, office)
    clock.advance(3600)
    assert await list_due(stores) == ["l-1"]
    assert (await execute(stores, office)).result == {"sent": "hello"}
    assert len(office.ledger) == 1


async def test_failed_attempt_keeps_the_records_expiry(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    ends = datetime.fromtimestamp(int(clock.now()) + 600, UTC)
    await hold(stores, make_letter(expires_at=ends), 0)
    office.refuses = NOT_NOW
    with pytest.raises(ExternalServiceFailed):
        await execute(stores, office)
    assert (await read_letter(stores)).expires_at == ends
    office.refuses = None
    assert (await execute(stores, office)).record.expires_at == ends


async def test_record_of_a_dead_executor_is_due_again_after_its_lease(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    await hold(stores, for_s=0)
    office.may_go_on.clear()
    gone = asyncio.ensure_future(execute(stores, office))
    await office.is_asked.wait()
    clock.advance(LEASE_S - 1)
    assert await list_due(stores) == []
    with pytest.raises(InProgress) as early:
        await execute(stores, office)
    assert early.value.retry_after_s == pytest.approx(1, abs=0.01)
    clock.advance(1)
    assert await list_due(stores) == ["l-1"]
    assert not (await execute(stores, office)).replayed
    gone.cancel()
    await asyncio.wait([gone])
    record = await read_letter(stores)
    assert (record.executed, record.attempts, len(office.ledger)) == (True, 2, 1)


async def test_repeats_under_a_key_that_the_service_still_knows(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    office.keys, office.fails = set(), NO_ANSWER
    await hold(stores, for_s=0)
    with pytest.raises(ExternalServiceFailed):
        await execute_by_key(stores, office)
    office.fails = None
    clock.advance(KEY_KEPT_S - ACT_S - 0.1)
    assert not (await execute_by_key(stores, office)).replayed
    assert office.ledger == [("l-1", "hello")]


async def test_leaves_the_decision_to_a_person_once_the_key_may_be_forgotten(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    office.fails = NO_ANSWER
    await hold(stores, for_s=0)
    with pytest.raises(ExternalServiceFailed):
        await execute_by_key(stores, office)
    office.fails = None
    clock.advance(KEY_KEPT_S - ACT_S + 0.1)
    for _ in range(2):
        with pytest.raises(ExternalServiceRefused) as refused:
            await execute_by_key(stores, office)
        assert refused.value.code == OUTCOME_UNKNOWN
    seen = await read_letter(stores)
    assert (seen.refused, seen.error, seen.queue) == (OUTCOME_UNKNOWN, "outcome unknown", None)
    assert seen.asked_since is not None
    assert (len(office.ledger), await list_due(stores)) == (1, [])
    assert await read_counter(stores, f"refused {OUTCOME_UNKNOWN}") == 1

    await queue.reopen(stores, seen, by="ann")
    await execute_by_key(stores, office)
    assert len(office.ledger) == 2


async def test_failed_repeat_leaves_the_outcome_of_the_first_attempt_open(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    await hold(stores, for_s=0)
    office.keys, office.fails = set(), NO_ANSWER
    with pytest.raises(ExternalServiceFailed):
        await execute_by_key(stores, office)
    first = (await read_letter(stores)).asked_since
    office.fails, office.refuses = None, NOT_NOW
    clock.advance(KEY_KEPT_S / 2)
    with pytest.raises(ExternalServiceFailed):
        await execute_by_key(stores, office)
    seen = await read_letter(stores)
    assert seen.asked_since == first
    with pytest.raises(NotPending):
        await queue.cancel(stores, seen, by="ann")
    clock.advance(KEY_KEPT_S / 2)
    with pytest.raises(ExternalServiceRefused, match="is unknown"):
        await execute_by_key(stores, office)
    assert len(office.ledger) == 1


async def test_executes_after_a_lookup_finds_nothing_however_old_the_intent(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    await hold(stores, for_s=0)
    office.refuses = RuntimeError("nobody knows whether it was sent")
    with pytest.raises(RuntimeError):
        await execute_by_key(stores, office)
    office.refuses = None
    clock.advance(KEY_KEPT_S * 2)
    done = await queue.execute(
        stores,
        make_letter(),
        act=office.send,
        look_up=office.find,
        takes_key=True,
        key_kept_s=KEY_KEPT_S,
        act_s=ACT_S,
    )
    assert (done.result, len(office.looked_up)) == ({"sent": "hello"}, 1)


async def test_reports_and_retries_a_refusal_whose_writes_fail(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    await hold(stores, for_s=0)
    office.refuses = ExternalServiceRefused("no_such_address", "The office does not know it.")
    impossible = Counter.of("none").check().when(Counter.value == 7)
    with pytest.raises(TransactionCancelled):
        await queue.execute(
            stores,
            make_letter(),
            act=office.send,
            look_up=office.find,
            act_s=ACT_S,
            refused=lambda error: [impossible],
        )
    assert (await read_letter(stores)).refused is None
    clock.advance(ACT_S)
    with pytest.raises(ExternalServiceRefused):
        await execute(stores, office)
    assert await read_counter(stores, "refused no_such_address") == 1


@pytest.mark.parametrize(
    "how",
    [
        {"act_s": 1.0},
        {"act_s": 1.0, "look_up": True, "key_kept_s": 5.0},
        {"act_s": LEASE_S, "takes_key": True},
        {"act_s": 5.0, "takes_key": True, "key_kept_s": 5.0},
    ],
)
async def test_rejects_an_effect_that_could_happen_twice(
    how: dict[str, Any], stores: Stores, office: FakePostOffice
) -> None:
    """`execute` needs a look-up or a key, a deadline within the lease, and a key kept longer than the
    deadline.
    """
    await hold(stores, for_s=0)
    how_so = how | ({"look_up": office.find} if "look_up" in how else {})
    with pytest.raises(DeclarationError):
        await queue.execute(stores, make_letter(), act=office.send, **how_so)
    assert office.ledger == []


async def test_once_cannot_claim_a_delayed_or_cancelled_record(stores: Stores) -> None:
    once = Once(Letter, prefix="ON", rate=Rate("letter"), example=make_letter())

    held = await hold(stores, for_s=0)
    with pytest.raises(InvalidRequest, match="delayed action"):
        await once.claim(stores, held)
    cancelled = await queue.cancel(stores, held, by="ann")
    with pytest.raises(InvalidRequest, match="delayed action"):
        await once.claim(stores, cancelled)


async def test_only_one_of_cancel_and_execute_in_two_processes_wins(tmp_path: Path) -> None:
    with open_tables(tmp_path / "tables.db") as one, open_tables(tmp_path / "tables.db") as other:
        mine, theirs, office = Stores(one), Stores(other), FakePostOffice()
        await create_tables(mine, [letters, counters])
        for number in range(20):
            seen = await hold(mine, make_letter(f"l-{number}"), 0)
            cancelled, done = await asyncio.gather(
                queue.cancel(mine, seen, by="ann"), execute(theirs, office, seen), return_exceptions=True
            )
            assert isinstance(cancelled, Letter) != isinstance(done, Completion), (cancelled, done)
            assert [id for id, _ in office.ledger].count(seen.id) == isinstance(done, Completion)


# --- what a system adds to reviews ------------------------------------------------------------------------


async def test_declared_writes_of_a_review_are_committed_with_it() -> None:
    reviews: list[Review[Letter]] = []

    def count_review(stores: Stores, review: Review[Letter]) -> list[Any]:
        reviews.append(review)
        return [count(f"{review.decision} by {review.by}")]

    async with open_memory_stores() as stores:
        await create_tables(stores, [letters, counters])
        reviewed = _declare_reviewed(count_review)
        letter = await hold(stores)
        edited = await reviewed.edit(stores, letter, by="ann", text="Good day")
        with pytest.raises(ConditionFailed):
            await reviewed.cancel(stores, letter, by="bob", reason="late")
        await reviewed.cancel(stores, edited, by="bob", reason="wrong")

        assert await read_counter(stores, "edited by ann") == 1
        assert await read_counter(stores, "cancelled by bob") == 1
    assert (reviews[0].changes, reviews[2].reason) == ({"text": "Good day"}, "wrong")
    assert [each.decision for each in reviews] == [ReviewDecision.EDITED, *[ReviewDecision.CANCELLED] * 2]


async def test_review_that_the_system_refuses_changes_nothing() -> None:
    def refuse(stores: Stores, review: Review[Letter]) -> list[Any]:
        raise InvalidRequest("Invalid edit: the text is fixed.")

    async with open_memory_stores() as stores:
        await create_tables(stores, [letters])
        letter = await hold(stores)
        with pytest.raises(InvalidRequest, match="the text is fixed"):
            await _declare_reviewed(refuse).edit(stores, letter, by="ann", text="Good day")
        assert await read_letter(stores) == letter


async def test_gets_an_action_by_its_key_as_text() -> None:
    async with open_memory_stores() as stores:
        await create_tables(stores, [letters])
        letter = await hold(stores)
        assert await queue.get(stores, "DESK%23d-1#LETTER%23l-1") == letter
        with pytest.raises(NotFound, match="No Letter"):
            await queue.get(stores, "DESK%23d-1#LETTER%23l-2")


def test_system_finds_its_guarantees_by_their_patterns() -> None:
    assert SYSTEM.guarantees == (queue,)
    assert queue.editable == ("note", "text")


def _declare_reviewed(on_review: Any) -> DelayedActions[Letter]:
    return DelayedActions(
        Letter, prefix="HR", rate=Rate("letter"), example=make_letter, payload=("text",), on_review=on_review
    )
