"""The hold queue, over every engine: what waits, who decides about it, and that it is done once when it is due."""

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
from tests.unit.guarantees.held_records import (
    ACT_S,
    HOLD_S,
    LIFETIME_S,
    NO_ANSWER,
    NOT_NOW,
    Letter,
    PostOffice,
    due,
    execute,
    hold,
    letter,
    letters,
    queue,
    read,
)
from tests.unit.guarantees.once_records import HandClock, count, counted, counters

from .conftest import Played

AT_ONCE = 8


@pytest.mark.proves("AP-23")
@pytest.mark.proves("AP-X7")
def test_what_is_held_is_found_and_done_when_it_is_due_and_not_before(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        office = PostOffice()
        await hold(stores)
        clock.advance(HOLD_S - 5)
        assert await due(stores) == []
        with pytest.raises(InProgress) as early:
            await execute(stores, office)
        assert early.value.retry_after_s == pytest.approx(5, abs=0.01)
        assert office.ledger == []

        clock.advance(5)
        assert await due(stores) == ["l-1"]
        done = await execute(stores, office)
        assert (done.result, done.replayed) == ({"sent": "hello"}, False)
        record = await read(stores)
        assert record == done.record
        assert (record.executed, record.queue, record.status) == (True, None, OnceStatus.PROCESSED)
        assert record.executed_at is not None
        assert record.executed_at.timestamp() == pytest.approx(clock.now(), abs=0.001)
        assert await due(stores) == []
        assert (await execute(stores, office)).replayed
        assert (office.ledger, await counted(stores, "sent")) == ([("l-1", "hello")], 1)

    played(story, letters, counters)


def test_what_is_due_comes_oldest_first_and_page_by_page(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        for number, seconds in enumerate((50, 10, 40, 20, 0, 30)):
            await hold(stores, letter(f"l-{number}"), seconds)
        clock.advance(40)
        assert await due(stores) == ["l-4", "l-1", "l-3", "l-5", "l-2"]

    played(story, letters)


def test_what_is_approved_is_due_at_once(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        office = PostOffice()
        approved = await queue.approve(stores, await hold(stores), count("approved"), by="ann")
        assert (approved.reviewed_by, approved.review) == ("ann", "approved")
        assert await due(stores) == ["l-1"]
        assert not (await execute(stores, office)).replayed
        assert (office.ledger, await counted(stores, "approved")) == ([("l-1", "hello")], 1)

    played(story, letters, counters)


def test_what_is_edited_goes_out_as_it_is_now_and_when_it_was_to(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        office, seen = PostOffice(), await hold(stores)
        edited = await queue.edit(stores, seen, count("edited"), by="ann", text="good day")
        assert edited.payload_sha256 != seen.payload_sha256
        assert edited == await read(stores)
        with pytest.raises(InProgress):
            await execute(stores, office, seen)
        clock.advance(HOLD_S)
        await execute(stores, office, seen)
        assert (office.ledger, await counted(stores, "edited")) == ([("l-1", "good day")], 1)

    played(story, letters, counters)


@pytest.mark.proves("AP-23")
def test_what_is_cancelled_is_never_done(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        office, seen = PostOffice(), await hold(stores)
        cancelled = await queue.cancel(stores, seen, count("cancelled"), by="ann", reason="not to him")
        assert (cancelled.status, cancelled.queue) == (OnceStatus.CANCELLED, None)
        assert (cancelled.reviewed_by, cancelled.review) == ("ann", "not to him")
        clock.advance(HOLD_S)
        assert await due(stores) == []
        with pytest.raises(NotPending, match="cancelled by ann") as refused:
            await execute(stores, office, seen)
        assert refused.value.state == "cancelled"
        assert (office.ledger, await counted(stores, "cancelled")) == ([], 1)

    played(story, letters, counters)


def test_of_two_who_decide_on_what_both_have_seen_one_is_told_to_read_again(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        seen = await hold(stores)
        await queue.edit(stores, seen, by="ann", text="good day")
        with pytest.raises(ConditionFailed, match="was changed since it was read, by ann"):
            await queue.approve(stores, seen, count("approved"), by="bob")
        assert (await read(stores)).text == "good day"
        assert await counted(stores, "approved") == 0

    played(story, letters, counters)


def test_of_many_who_cancel_and_execute_at_once_one_wins(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        office = PostOffice()
        for number in range(5):
            seen = await hold(stores, letter(f"l-{number}"), 0)

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
        assert await counted(stores, "cancelled") + await counted(stores, "sent") == 5

    played(story, letters, counters)


def test_a_review_while_it_is_being_done_is_too_late(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        office, seen = PostOffice(), await hold(stores, for_s=0)
        office.may_go_on.clear()
        executing = asyncio.ensure_future(execute(stores, office))
        await office.is_asked.wait()
        assert await due(stores) == []
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

    played(story, letters, counters)


def test_what_may_have_been_done_is_looked_up_and_not_repeated(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        office, seen = PostOffice(), await hold(stores, for_s=0)
        office.fails = NO_ANSWER
        with pytest.raises(ExternalServiceFailed):
            await execute(stores, office)
        assert await due(stores) == []
        with pytest.raises(NotPending):
            await queue.cancel(stores, await read(stores), by="ann")
        clock.advance(ACT_S)
        assert await due(stores) == ["l-1"]
        assert (await execute(stores, office, seen)).result == {"sent": "hello"}
        assert (office.ledger, len(office.looked_up)) == ([("l-1", "hello")], 1)
        assert await due(stores) == []

    played(story, letters, counters)


def test_what_was_not_done_waits_again_and_can_be_cancelled(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        office = PostOffice()
        await hold(stores, for_s=0)
        office.refuses = NOT_NOW
        with pytest.raises(ExternalServiceFailed):
            await execute(stores, office)
        assert await due(stores) == ["l-1"]
        seen = await read(stores)
        assert (seen.status, seen.attempts) == (OnceStatus.HELD, 1)
        await queue.cancel(stores, seen, by="ann")
        office.refuses = None
        with pytest.raises(NotPending):
            await execute(stores, office)
        assert office.ledger == []

    played(story, letters, counters)


def test_what_a_party_refuses_for_good_leaves_the_queue_with_what_is_written_of_it(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        office = PostOffice()
        await hold(stores, for_s=0)
        office.refuses = ExternalServiceRefused("no_such_address", "The office does not know it.")
        for _ in range(2):
            with pytest.raises(ExternalServiceRefused) as refused:
                await execute(stores, office)
            assert refused.value.code == "no_such_address"
        seen = await read(stores)
        assert (seen.status, seen.refused, seen.queue) == (OnceStatus.FAILED, "no_such_address", None)
        assert (await due(stores), await counted(stores, "refused no_such_address")) == ([], 1)

        with pytest.raises(NotPending, match="refused permanently"):
            await queue.cancel(stores, seen, by="ann")
        office.refuses = None
        again = await queue.reopen(stores, seen, by="ann")
        assert again.status is OnceStatus.HELD and await due(stores) == ["l-1"]
        await execute(stores, office)
        assert office.ledger == [("l-1", "hello")]

    played(story, letters, counters)


def test_what_is_past_its_life_is_not_due_though_the_store_still_has_it(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        office = PostOffice()
        await hold(stores, for_s=0)
        clock.advance(LIFETIME_S + 2)
        assert await due(stores) == []
        with pytest.raises(NotPending) as refused:
            await execute(stores, office)
        assert (refused.value.state, office.ledger) == ("gone", [])

    played(story, letters, counters)
