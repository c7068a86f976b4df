"""Delayed actions on every tables engine: pending records, reviews, and execution exactly once when due."""

from __future__ import annotations

import asyncio
from itertools import chain

import pytest

from holdfast import Stores
from holdfast.core.errors import (
    ConditionFailed,
    ExternalServiceFailed,
    ExternalServiceRefused,
    InProgress,
    NotPending,
)
from holdfast.guarantees import Completion, OnceStatus
from tests.unit.guarantees.delayed_actions.delayed_letters import (
    ACT_S,
    HOLD_S,
    NO_ANSWER,
    NOT_NOW,
    RETENTION_S,
    FakePostOffice,
    Letter,
    execute,
    hold,
    letters,
    list_due,
    make_letter,
    queue,
    read_letter,
)
from tests.unit.guarantees.idempotency.once_records import ManualClock, count, counters, read_counter

from .conftest import RunStory

AT_ONCE = 8


@pytest.mark.proves("AP-23")
@pytest.mark.proves("AP-X7")
def test_executes_a_delayed_record_when_it_is_due_and_not_before(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office = FakePostOffice()
        await hold(stores)
        clock.advance(HOLD_S - 5)
        assert await list_due(stores) == []
        with pytest.raises(InProgress) as early:
            await execute(stores, office)
        assert early.value.retry_after_s == pytest.approx(5, abs=0.01)
        assert office.ledger == []

        clock.advance(5)
        assert await list_due(stores) == ["l-1"]
        done = await execute(stores, office)
        assert (done.result, done.replayed) == ({"sent": "hello"}, False)
        record = await read_letter(stores)
        assert record == done.record
        assert (record.executed, record.queue, record.status) == (True, None, OnceStatus.PROCESSED)
        assert record.executed_at is not None
        assert record.executed_at.timestamp() == pytest.approx(clock.now(), abs=0.001)
        assert await list_due(stores) == []
        assert (await execute(stores, office)).replayed
        assert (office.ledger, await read_counter(stores, "sent")) == ([("l-1", "hello")], 1)

    run_story(story, letters, counters)


def test_lists_due_records_oldest_first_page_by_page(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        for number, seconds in enumerate((50, 10, 40, 20, 0, 30)):
            await hold(stores, make_letter(f"l-{number}"), seconds)
        clock.advance(40)
        assert await list_due(stores) == ["l-4", "l-1", "l-3", "l-5", "l-2"]

    run_story(story, letters)


def test_approved_record_is_due_at_once(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office = FakePostOffice()
        approved = await queue.approve(stores, await hold(stores), count("approved"), by="ann")
        assert (approved.reviewed_by, approved.review) == ("ann", "approved")
        assert await list_due(stores) == ["l-1"]
        assert not (await execute(stores, office)).replayed
        assert (office.ledger, await read_counter(stores, "approved")) == ([("l-1", "hello")], 1)

    run_story(story, letters, counters)


def test_edited_record_is_sent_with_its_new_text_at_its_original_time(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office, seen = FakePostOffice(), await hold(stores)
        edited = await queue.edit(stores, seen, count("edited"), by="ann", text="good day")
        assert edited.payload_sha256 != seen.payload_sha256
        assert edited == await read_letter(stores)
        with pytest.raises(InProgress):
            await execute(stores, office, seen)
        clock.advance(HOLD_S)
        await execute(stores, office, seen)
        assert (office.ledger, await read_counter(stores, "edited")) == ([("l-1", "good day")], 1)

    run_story(story, letters, counters)


@pytest.mark.proves("AP-23")
def test_cancelled_record_is_never_executed(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office, seen = FakePostOffice(), await hold(stores)
        cancelled = await queue.cancel(stores, seen, count("cancelled"), by="ann", reason="not to him")
        assert (cancelled.status, cancelled.queue) == (OnceStatus.CANCELLED, None)
        assert (cancelled.reviewed_by, cancelled.review) == ("ann", "not to him")
        clock.advance(HOLD_S)
        assert await list_due(stores) == []
        with pytest.raises(NotPending, match="cancelled by ann") as refused:
            await execute(stores, office, seen)
        assert refused.value.state == "cancelled"
        assert (office.ledger, await read_counter(stores, "cancelled")) == ([], 1)

    run_story(story, letters, counters)


def test_second_of_two_reviewers_of_the_same_version_must_read_again(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        seen = await hold(stores)
        await queue.edit(stores, seen, by="ann", text="good day")
        with pytest.raises(ConditionFailed, match="was changed since it was read, by ann"):
            await queue.approve(stores, seen, count("approved"), by="bob")
        assert (await read_letter(stores)).text == "good day"
        assert await read_counter(stores, "approved") == 0

    run_story(story, letters, counters)


def test_one_of_many_concurrent_cancels_and_executions_wins(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office = FakePostOffice()
        for number in range(5):
            seen = await hold(stores, make_letter(f"l-{number}"), 0)

            async def cancel(seen: Letter = seen) -> Letter:
                return await queue.cancel(stores, seen, count("cancelled"), by="ann")

            both = [(cancel(), execute(stores, office, seen)) for _ in range(AT_ONCE)]
            answers = await asyncio.gather(*chain.from_iterable(both), return_exceptions=True)
            cancelled = sum(isinstance(each, Letter) for each in answers)
            done = sum(isinstance(each, Completion) and not each.replayed for each in answers)
            assert cancelled + done == 1
            others = [each for each in answers if not isinstance(each, Letter | Completion)]
            assert all(isinstance(each, NotPending | InProgress) for each in others), others
            assert [id for id, _ in office.ledger].count(seen.id) == done
        assert await read_counter(stores, "cancelled") + await read_counter(stores, "sent") == 5

    run_story(story, letters, counters)


def test_review_during_execution_is_too_late(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office, seen = FakePostOffice(), await hold(stores, for_s=0)
        office.may_go_on.clear()
        executing = asyncio.ensure_future(execute(stores, office))
        await office.is_asked.wait()
        assert await list_due(stores) == []
        for review in (
            queue.cancel(stores, seen, by="ann"),
            queue.approve(stores, seen, by="ann"),
            queue.edit(stores, seen, by="ann", text="good day"),
        ):
            with pytest.raises(NotPending, match="being executed") as refused:
                await review
            assert refused.value.state == "executing"
        office.may_go_on.set()
        await executing
        with pytest.raises(NotPending, match="was executed") as late:
            await queue.cancel(stores, seen, by="ann")
        assert late.value.state == "executed"

    run_story(story, letters, counters)


def test_looks_up_an_unknown_outcome_and_does_not_repeat(run_story: RunStory) -> None:
    """After a lost response, the next execution finds the effect by a lookup."""

    async def story(stores: Stores, clock: ManualClock) -> None:
        office, seen = FakePostOffice(), await hold(stores, for_s=0)
        office.fails = NO_ANSWER
        with pytest.raises(ExternalServiceFailed):
            await execute(stores, office)
        assert await list_due(stores) == []
        with pytest.raises(NotPending):
            await queue.cancel(stores, await read_letter(stores), by="ann")
        clock.advance(ACT_S)
        assert await list_due(stores) == ["l-1"]
        assert (await execute(stores, office, seen)).result == {"sent": "hello"}
        assert (office.ledger, len(office.looked_up)) == ([("l-1", "hello")], 1)
        assert await list_due(stores) == []

    run_story(story, letters, counters)


def test_failed_record_waits_again_and_can_be_cancelled(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office = FakePostOffice()
        await hold(stores, for_s=0)
        office.refuses = NOT_NOW
        with pytest.raises(ExternalServiceFailed):
            await execute(stores, office)
        assert await list_due(stores) == ["l-1"]
        seen = await read_letter(stores)
        assert (seen.status, seen.attempts) == (OnceStatus.HELD, 1)
        await queue.cancel(stores, seen, by="ann")
        office.refuses = None
        with pytest.raises(NotPending):
            await execute(stores, office)
        assert office.ledger == []

    run_story(story, letters, counters)


def test_permanently_refused_record_leaves_the_queue_with_its_writes(run_story: RunStory) -> None:
    """The refusal's own write is committed once; only `reopen` makes the record due again."""

    async def story(stores: Stores, clock: ManualClock) -> None:
        office = FakePostOffice()
        await hold(stores, for_s=0)
        office.refuses = ExternalServiceRefused("no_such_address", "The office does not know it.")
        for _ in range(2):
            with pytest.raises(ExternalServiceRefused) as refused:
                await execute(stores, office)
            assert refused.value.code == "no_such_address"
        seen = await read_letter(stores)
        assert (seen.status, seen.refused, seen.queue) == (OnceStatus.FAILED, "no_such_address", None)
        assert (await list_due(stores), await read_counter(stores, "refused no_such_address")) == ([], 1)

        with pytest.raises(NotPending, match="refused permanently"):
            await queue.cancel(stores, seen, by="ann")
        office.refuses = None
        again = await queue.reopen(stores, seen, by="ann")
        assert again.status is OnceStatus.HELD and await list_due(stores) == ["l-1"]
        await execute(stores, office)
        assert office.ledger == [("l-1", "hello")]

    run_story(story, letters, counters)


def test_expired_record_is_not_due_although_the_store_still_has_it(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        office = FakePostOffice()
        await hold(stores, for_s=0)
        clock.advance(RETENTION_S + 2)
        assert await list_due(stores) == []
        with pytest.raises(NotPending) as refused:
            await execute(stores, office)
        assert (refused.value.state, office.ledger) == ("gone", [])

    run_story(story, letters, counters)
