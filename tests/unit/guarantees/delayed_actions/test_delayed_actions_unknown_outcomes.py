"""`DelayedActions` with unknown outcomes, in memory: refused repeats, restored records, and their expiry."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Stores
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, NotPending
from holdfast.guarantees import OUTCOME_UNKNOWN, Completion, OnceStatus
from tests.background_work import stop_background_work
from tests.unit.guarantees.delayed_actions.delayed_letters import (
    ACT_S,
    KEY_KEPT_S,
    LEASE_S,
    NO_ANSWER,
    NOT_NOW,
    RETENTION_S,
    FakePostOffice,
    Letter,
    execute,
    execute_by_key,
    hold,
    list_due,
    make_letter,
    queue,
    read_letter,
)
from tests.unit.guarantees.idempotency.once_records import ManualClock, read_counter

CHANGED = ExternalServiceRefused("invalid_idempotent_request", "The content is another.")


async def refuse_a_repeat(stores: Stores, clock: ManualClock, office: FakePostOffice) -> Letter:
    """Send a letter, lose the response, have the repeat refused, and return the stored record."""
    office.keys, office.fails = set(), NO_ANSWER
    await hold(stores, for_s=0)
    with pytest.raises(ExternalServiceFailed):
        await execute_by_key(stores, office)
    clock.advance(LEASE_S)
    office.fails, office.refuses = None, CHANGED
    with pytest.raises(
        ExternalServiceRefused, match="The content is another. An earlier attempt may have succeeded"
    ):
        await execute_by_key(stores, office)
    office.refuses = None
    return await read_letter(stores)


async def restore_record(stores: Stores, before: Letter) -> None:
    """Write the record as it was, as a restore in place does."""
    await stores.run(Letter.put(before))


async def test_refused_repeat_leaves_the_first_attempt_open(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    began = clock.now()
    seen = await refuse_a_repeat(stores, clock, office)
    assert (seen.refused, seen.executed, seen.queue) == (CHANGED.code, False, None)
    assert seen.asked_since == pytest.approx(began, abs=0.01)
    assert seen.error is not None and seen.error.endswith("outcome of an attempt before unknown")
    assert await read_counter(stores, f"refused {CHANGED.code}") == 1
    with pytest.raises(ExternalServiceRefused, match="its outcome is unknown"):
        await execute_by_key(stores, office)


async def test_reopened_record_after_a_refused_repeat_is_sent_only_under_its_key(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    again = await queue.reopen(stores, await refuse_a_repeat(stores, clock, office), by="ann")
    assert await list_due(stores) == ["l-1"]
    for late in (
        queue.cancel(stores, again, by="ann"),
        queue.edit(stores, again, by="ann", text="other"),
    ):
        with pytest.raises(NotPending, match="may have been"):
            await late
    assert not (await execute_by_key(stores, office)).replayed
    assert office.ledger == [("l-1", "hello")]


async def test_reopened_record_with_a_forgotten_key_waits_for_a_persons_decision(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    seen = await refuse_a_repeat(stores, clock, office)
    clock.advance(KEY_KEPT_S)
    office.keys = set()
    await queue.reopen(stores, seen, by="ann")
    with pytest.raises(ExternalServiceRefused, match="The outcome of .* is unknown") as refused:
        await execute_by_key(stores, office)
    assert (refused.value.code, len(office.ledger)) == (OUTCOME_UNKNOWN, 1)
    again = await queue.reopen(stores, await read_letter(stores), by="ann")
    assert (again.status, again.asked_since) == (OnceStatus.HELD, None)
    await execute_by_key(stores, office)
    assert len(office.ledger) == 2


async def test_reopened_record_after_a_refused_repeat_is_looked_up_where_possible(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    await queue.reopen(stores, await refuse_a_repeat(stores, clock, office), by="ann")
    await execute(stores, office)
    assert (len(office.looked_up), len(office.ledger)) == (1, 1)


async def test_refusal_after_an_empty_lookup_leaves_nothing_open(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    await hold(stores, for_s=0)
    office.refuses = NO_ANSWER
    with pytest.raises(ExternalServiceFailed):
        await execute(stores, office)
    clock.advance(LEASE_S)
    office.refuses = CHANGED
    with pytest.raises(ExternalServiceRefused) as refused:
        await execute(stores, office)
    assert "An earlier attempt" not in refused.value.message
    assert (await read_letter(stores)).asked_since is None


async def test_expired_record_is_not_reopened(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    stop_background_work(stores.tables)
    await hold(stores, for_s=0)
    office.refuses = CHANGED
    with pytest.raises(ExternalServiceRefused):
        await execute(stores, office)
    seen = await read_letter(stores)
    clock.advance(RETENTION_S + 2)
    with pytest.raises(NotPending) as refused:
        await queue.reopen(stores, seen, by="ann")
    assert refused.value.state == "gone"
    assert await list_due(stores) == []


async def test_restored_record_is_looked_up_first_and_executed_once(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    before = await hold(stores, for_s=0)
    await execute(stores, office)
    clock.advance(LEASE_S + 1)
    await restore_record(stores, before)
    assert await list_due(stores) == ["l-1"]
    done = await execute(stores, office)
    assert (done.result, done.record.executed) == ({"sent": "hello"}, True)
    assert (len(office.looked_up), office.ledger) == (1, [("l-1", "hello")])


async def test_record_executed_on_time_is_not_looked_up(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    await hold(stores, for_s=0)
    clock.advance(LEASE_S - 1)
    await execute(stores, office)
    assert (office.looked_up, len(office.ledger)) == ([], 1)


async def test_overdue_record_that_is_not_found_is_executed_with_a_new_intent(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    await hold(stores, for_s=0)
    clock.advance(LEASE_S + 1)
    intents = list[Any]()

    async def send(record: Letter, key: str) -> dict[str, Any]:
        stored = await read_letter(stores)
        intents.append((stored.asked_since, stored.act_until))
        return await office.send(record, key)

    await queue.execute(stores, make_letter(), act=send, look_up=office.find, act_s=ACT_S)
    assert intents == [(pytest.approx(clock.now(), abs=0.01), pytest.approx(clock.now() + ACT_S, abs=0.01))]
    assert (len(office.looked_up), len(office.ledger)) == (1, 1)


@pytest.mark.parametrize("failure", [NO_ANSWER, CHANGED, RuntimeError("nobody thought of it")], ids=repr)
async def test_overdue_record_whose_lookup_fails_waits_and_can_be_cancelled(
    failure: Exception, stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    await hold(stores, for_s=0)
    clock.advance(LEASE_S + 1)

    async def find(record: Letter, key: str) -> dict[str, Any] | None:
        raise failure

    with pytest.raises(type(failure)):
        await queue.execute(stores, make_letter(), act=office.send, look_up=find, act_s=ACT_S)
    assert (office.ledger, await list_due(stores)) == ([], ["l-1"])
    assert (await queue.cancel(stores, await read_letter(stores), by="ann")).status is OnceStatus.CANCELLED


async def test_restored_record_is_sent_under_the_key_that_the_service_still_knows(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    office.keys = set()
    before = await hold(stores, for_s=0)
    await execute_by_key(stores, office)
    clock.advance(KEY_KEPT_S - ACT_S - 0.1)
    await restore_record(stores, before)
    assert not (await execute_by_key(stores, office)).replayed
    assert office.ledger == [("l-1", "hello")]


async def test_record_overdue_beyond_the_key_retention_is_left_to_a_person(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    before = await hold(stores, for_s=0)
    await execute_by_key(stores, office)
    clock.advance(KEY_KEPT_S - ACT_S + 0.1)
    await restore_record(stores, before)
    with pytest.raises(
        ExternalServiceRefused, match=r"overdue by 21590 s .* restored .* call reopen"
    ) as refused:
        await execute_by_key(stores, office)
    assert (refused.value.code, len(office.ledger)) == (OUTCOME_UNKNOWN, 1)
    seen = await read_letter(stores)
    assert (seen.refused, seen.error, seen.queue) == (
        OUTCOME_UNKNOWN,
        "long overdue, outcome unknown",
        None,
    )
    assert (await list_due(stores), await read_counter(stores, f"refused {OUTCOME_UNKNOWN}")) == ([], 1)

    await queue.reopen(stores, seen, by="ann")
    await execute_by_key(stores, office)
    assert len(office.ledger) == 2


async def test_restored_record_is_repeated_only_while_the_service_knows_its_first_key(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    before = await hold(stores, for_s=0)
    office.keys = set()
    await execute_by_key(stores, office)
    clock.advance(KEY_KEPT_S / 2)
    await restore_record(stores, before)
    for failure in (NOT_NOW, NO_ANSWER):
        office.refuses = failure
        with pytest.raises(ExternalServiceFailed):
            await execute_by_key(stores, office)
    office.refuses = None
    clock.advance(KEY_KEPT_S / 2)
    office.keys = set()
    with pytest.raises(ExternalServiceRefused, match="is unknown"):
        await execute_by_key(stores, office)
    assert len(office.ledger) == 1


async def test_record_that_certainly_failed_is_executed_when_the_service_recovers(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    await hold(stores, for_s=0)

    async def attempt() -> Completion[Letter]:
        clock.advance(LEASE_S - 1)
        return await queue.execute(
            stores, make_letter(), act=office.send, takes_key=True, key_kept_s=3 * LEASE_S, act_s=ACT_S
        )

    office.refuses = NOT_NOW
    for _ in range(10):
        with pytest.raises(ExternalServiceFailed):
            await attempt()
    office.refuses = None
    await attempt()
    assert office.ledger == [("l-1", "hello")]


async def test_record_executed_after_a_lost_response_keeps_its_expiry(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    ends = datetime.fromtimestamp(int(clock.now() + RETENTION_S), UTC)
    await hold(stores, make_letter(expires_at=ends), 0)
    office.fails = NO_ANSWER
    for _ in range(3):
        clock.advance(3600)
        with pytest.raises(ExternalServiceFailed):
            await queue.execute(
                stores, make_letter(), act=office.send, takes_key=True, look_up=find_nothing, act_s=ACT_S
            )
    lasting = (await read_letter(stores)).expires_at
    assert lasting is not None and lasting > ends
    office.fails = None
    clock.advance(3600)
    done: Completion[Letter] = await execute(stores, office)
    assert (done.record.expires_at, done.record.ends_at) == (ends, None)


async def test_record_with_unknown_outcome_is_kept_for_the_operator(
    stores: Stores, clock: ManualClock, office: FakePostOffice
) -> None:
    stop_background_work(stores.tables)
    ends = datetime.fromtimestamp(int(clock.now()) + 120, UTC)
    await hold(stores, make_letter(expires_at=ends), 0)
    office.fails = NO_ANSWER
    with pytest.raises(ExternalServiceFailed):
        await execute_by_key(stores, office)
    clock.advance(KEY_KEPT_S)
    with pytest.raises(ExternalServiceRefused):
        await execute_by_key(stores, office)
    clock.advance(RETENTION_S - 10)
    office.fails = None
    await queue.reopen(stores, await read_letter(stores), by="ann")
    done = await execute_by_key(stores, office)
    assert len(office.ledger) == 2
    assert done.record.expires_at is not None
    assert done.record.expires_at.timestamp() <= clock.now() + LEASE_S + 1


async def find_nothing(record: Letter, key: str) -> dict[str, Any] | None:
    return None
