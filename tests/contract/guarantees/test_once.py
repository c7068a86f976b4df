"""Once, over every engine: who may claim, who is fenced out, what is replayed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from holdfast import Stores
from holdfast.core.errors import (
    ExternalServiceRefused,
    IdempotencyMismatch,
    InProgress,
    LeaseLost,
    TransactionCancelled,
)
from holdfast.guarantees import Claim, Completion, OnceStatus
from holdfast.operations.tables import GetItem
from tests.unit.guarantees.once_records import (
    LEASE_S,
    LIFETIME_S,
    OTHER_PAYLOAD,
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
    replayed,
)

from .conftest import Played

WORKERS = 8


def test_the_first_claim_is_granted_and_written_down(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores, event(note="mine"))

        found = await stores.run(EventRecord.of("evt-1").get().consistent())
        assert found == claim.record
        assert (found.status, found.attempts, found.note) == (OnceStatus.PROCESSING, 1, "mine")
        assert found.in_progress_expires_at == pytest.approx(clock.now() + LEASE_S, abs=0.001)
        assert found.expires_at is not None and found.created_at is not None
        assert found.expires_at.timestamp() == int(clock.now() + LIFETIME_S)
        assert found.created_at.timestamp() == int(clock.now())

    played(story, events)


@pytest.mark.proves("RP-41")
def test_of_many_who_claim_at_the_same_time_one_is_granted_it(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        answers = await asyncio.gather(
            *(once.claim(stores, event()) for _ in range(WORKERS)), return_exceptions=True
        )
        assert sum(isinstance(each, Claim) for each in answers) == 1
        assert sum(isinstance(each, InProgress) for each in answers) == WORKERS - 1

    played(story, events)


def test_while_another_works_on_it_one_is_told_when_to_come_again(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        clock.advance(LEASE_S - 5)
        with pytest.raises(InProgress) as refused:
            await once.claim(stores, event())
        assert refused.value.retry_after_s == pytest.approx(5, abs=0.01)
        assert await stores.run(EventRecord.of("evt-1").get().consistent()) == claim.record

    played(story, events)


@pytest.mark.proves("RP-X3")
def test_when_the_lease_is_over_another_takes_it_and_the_late_worker_writes_nothing(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        late = await claimed(stores)
        clock.advance(LEASE_S)
        taker = await claimed(stores)
        assert taker.record.attempts == 2
        assert taker.record.created_at == late.record.created_at
        assert taker.record.owner != late.record.owner

        with pytest.raises(LeaseLost):
            await late.complete(count("hits"), result="late")
        with pytest.raises(LeaseLost):
            await late.renew()
        assert await counted(stores) == 0

        await taker.complete(count("hits"), result="in time")
        with pytest.raises(LeaseLost):
            await late.complete(count("hits"), result="late")
        assert await counted(stores) == 1
        assert (await replayed(stores)).result == "in time"

    played(story, events, counters)


def test_a_late_worker_without_writes_is_fenced_out_as_well(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        late = await claimed(stores)
        clock.advance(LEASE_S)
        await claimed(stores)
        for act in (late.complete(result=1), late.release(), late.fail("late"), late.record_intent(1)):
            with pytest.raises(LeaseLost):
                await act

    played(story, events)


def test_of_many_who_retake_at_the_same_time_one_is_granted_it(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await claimed(stores)
        clock.advance(LEASE_S)
        answers = await asyncio.gather(
            *(once.claim(stores, event()) for _ in range(WORKERS)), return_exceptions=True
        )
        assert sum(isinstance(each, Claim) for each in answers) == 1
        assert sum(isinstance(each, InProgress) for each in answers) == WORKERS - 1

    played(story, events)


def test_a_lease_that_was_renewed_is_not_over(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        clock.advance(LEASE_S - 1)
        await claim.renew()
        clock.advance(LEASE_S - 1)
        with pytest.raises(InProgress):
            await once.claim(stores, event())
        await claim.complete()

    played(story, events)


def test_the_effect_and_the_completion_are_one(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        impossible = Counter.of("other").update().add(Counter.value, 1)
        with pytest.raises(TransactionCancelled) as cancelled:
            await claim.complete(count("hits"), impossible)
        assert [each.code for each in cancelled.value.reasons] == ["None", "ConditionalCheckFailed", "None"]
        assert await counted(stores) == 0

        done = await claim.complete(count("hits"), result={"sent": ["a", 1]}, note="counted")
        assert (done.replayed, done.result, done.record.note) == (False, {"sent": ["a", 1]}, "counted")
        assert await counted(stores) == 1
        again = await replayed(stores)
        assert (again.result, again.record) == (done.result, done.record)
        assert [
            each.event_id for each in await stores.run(EventRecord.listed(OnceStatus.PROCESSED).query())
        ] == ["evt-1"]

    played(story, events, counters)


def test_what_was_kept_with_the_record_is_there_for_who_takes_over(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        late = await claimed(stores)
        await late.save(note="to the team for refunds")
        clock.advance(LEASE_S)
        assert (await claimed(stores)).record.note == "to the team for refunds"
        with pytest.raises(LeaseLost):
            await late.save(note="elsewhere")

    played(story, events)


def test_other_writes_can_check_the_claim(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        await stores.transact(claim.check(), count("hits"))
        clock.advance(LEASE_S)
        await claimed(stores)
        with pytest.raises(TransactionCancelled):
            await stores.transact(claim.check(), count("hits"))
        assert await counted(stores) == 1

    played(story, events, counters)


@pytest.mark.parametrize("ended", ["processing", "processed", "failed"])
def test_the_same_key_with_another_payload_is_refused(played: Played, ended: str) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        if ended == "processed":
            await claim.complete()
        elif ended == "failed":
            await claim.fail("no reason")
        clock.advance(LEASE_S)
        with pytest.raises(IdempotencyMismatch):
            await once.claim(stores, event(payload=OTHER_PAYLOAD))

    played(story, events)


@pytest.mark.proves("RP-X4")
@pytest.mark.parametrize("payload", [event().payload_sha256, OTHER_PAYLOAD], ids=["same", "other"])
def test_an_expired_record_that_is_still_there_does_not_block(played: Played, payload: str) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await (await claimed(stores)).complete(result="old")
        clock.advance(LIFETIME_S + 1)
        there = await stores.tables.run(GetItem(stores.physical_name(events), {"event_id": "evt-1"}))
        assert there.item is not None

        claim = await claimed(stores, event(payload=payload))
        assert (claim.record.attempts, claim.record.result) == (1, None)

    played(story, events)


def test_a_record_that_was_read_can_be_claimed_anew_and_outlives_its_lease(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        done = await (await claimed(stores)).complete(result="old")
        clock.advance(LIFETIME_S + 1)
        claim = await claimed(stores, done.record)
        assert (claim.record.result, claim.record.last_processed_at) == (None, None)
        clock.advance(LEASE_S - 1)
        with pytest.raises(InProgress):
            await once.claim(stores, event())

    played(story, events)


def test_the_caller_may_say_when_a_record_ends(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        ends = datetime.fromtimestamp(int(clock.now()) + 10 * LIFETIME_S, UTC)
        assert (await claimed(stores, event(expires_at=ends))).record.expires_at == ends

    played(story, events)


def test_a_record_that_has_not_expired_yet_is_replayed(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await (await claimed(stores)).complete(result="old")
        clock.advance(LIFETIME_S - 1)
        assert (await replayed(stores)).result == "old"

    played(story, events)


def test_what_failed_may_be_claimed_again_at_once(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await (await claimed(stores)).fail("the shop was closed")
        found = await stores.run(EventRecord.of("evt-1").get().consistent())
        assert found is not None and (found.status, found.error) == ("failed", "the shop was closed")

        again = await claimed(stores)
        assert again.record.attempts == 2
        assert isinstance(await again.complete(), Completion)
        assert (await replayed(stores)).record.error is None

    played(story, events)


def test_what_a_party_refused_for_good_is_claimed_again_only_when_it_is_reopened(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await (await claimed(stores)).refuse("card_declined", "PartyRefused (card_declined)")
        for _ in range(2):
            clock.advance(LEASE_S)
            with pytest.raises(ExternalServiceRefused) as refused:
                await once.claim(stores, event())
            assert refused.value.code == "card_declined"
        with pytest.raises(IdempotencyMismatch):
            await once.reopen(stores, event(payload=OTHER_PAYLOAD))
        await once.reopen(stores, event())
        await (await claimed(stores)).complete(result="charged")
        assert (await replayed(stores)).record.refused is None

    played(story, events)


def test_a_record_with_an_open_intent_is_never_claimed_as_if_it_were_new(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        await claim.record_intent(5)
        intended = claim.record.act_until
        clock.advance(LIFETIME_S + LEASE_S)
        again = await once.claim(stores, event(), act_s=5)
        assert isinstance(again, Claim) and not again.has_intent
        assert (again.record.attempts, again.record.act_until) == (2, intended)

    played(story, events)


def test_what_a_person_marks_as_failed_is_taken_from_its_worker(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        claim = await claimed(stores)
        await stores.run(EventRecord.of("evt-1").update().set(EventRecord.status, OnceStatus.FAILED))
        with pytest.raises(LeaseLost):
            await claim.complete(count("hits"))
        assert (await claimed(stores)).record.attempts == 2
        assert await counted(stores) == 0

    played(story, events, counters)


def test_what_was_given_back_may_be_claimed_at_once(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await (await claimed(stores)).release()
        assert (await claimed(stores)).record.attempts == 2

    played(story, events)
