"""`Once` on every tables engine: claims, takeovers, fencing of late workers, replays and expiry."""

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
from tests.unit.guarantees.idempotency.once_records import (
    LEASE_S,
    OTHER_PAYLOAD,
    RETENTION_S,
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
    replay_event,
)

from .conftest import RunStory

WORKERS = 8


def test_grants_and_stores_the_first_claim(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        claim = await claim_event(stores, make_event(note="mine"))

        found = await stores.run(EventRecord.of("evt-1").get().consistent())
        assert found == claim.record
        assert (found.status, found.attempts, found.note) == (OnceStatus.PROCESSING, 1, "mine")
        assert found.in_progress_expires_at == pytest.approx(clock.now() + LEASE_S, abs=0.001)
        assert found.expires_at is not None and found.created_at is not None
        assert found.expires_at.timestamp() == int(clock.now() + RETENTION_S)
        assert found.created_at.timestamp() == int(clock.now())

    run_story(story, events)


@pytest.mark.proves("RP-41")
def test_grants_one_of_many_concurrent_claims(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        answers = await asyncio.gather(
            *(once.claim(stores, make_event()) for _ in range(WORKERS)), return_exceptions=True
        )
        assert sum(isinstance(each, Claim) for each in answers) == 1
        assert sum(isinstance(each, InProgress) for each in answers) == WORKERS - 1

    run_story(story, events)


def test_refusal_of_a_second_worker_says_when_to_retry(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        claim = await claim_event(stores)
        clock.advance(LEASE_S - 5)
        with pytest.raises(InProgress) as refused:
            await once.claim(stores, make_event())
        assert refused.value.retry_after_s == pytest.approx(5, abs=0.01)
        assert await stores.run(EventRecord.of("evt-1").get().consistent()) == claim.record

    run_story(story, events)


@pytest.mark.proves("RP-X3")
def test_late_worker_writes_nothing_after_another_took_over_its_claim(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        late = await claim_event(stores)
        clock.advance(LEASE_S)
        taker = await claim_event(stores)
        assert taker.record.attempts == 2
        assert taker.record.created_at == late.record.created_at
        assert taker.record.owner != late.record.owner

        with pytest.raises(LeaseLost):
            await late.complete(count("hits"), result="late")
        with pytest.raises(LeaseLost):
            await late.renew()
        assert await read_counter(stores) == 0

        await taker.complete(count("hits"), result="in time")
        with pytest.raises(LeaseLost):
            await late.complete(count("hits"), result="late")
        assert await read_counter(stores) == 1
        assert (await replay_event(stores)).result == "in time"

    run_story(story, events, counters)


def test_late_worker_without_writes_is_fenced_too(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        late = await claim_event(stores)
        clock.advance(LEASE_S)
        await claim_event(stores)
        for act in (late.complete(result=1), late.release(), late.fail("late"), late.record_intent(1)):
            with pytest.raises(LeaseLost):
                await act

    run_story(story, events)


def test_grants_one_of_many_concurrent_takeovers(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await claim_event(stores)
        clock.advance(LEASE_S)
        answers = await asyncio.gather(
            *(once.claim(stores, make_event()) for _ in range(WORKERS)), return_exceptions=True
        )
        assert sum(isinstance(each, Claim) for each in answers) == 1
        assert sum(isinstance(each, InProgress) for each in answers) == WORKERS - 1

    run_story(story, events)


def test_renewed_lease_is_not_expired(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        claim = await claim_event(stores)
        clock.advance(LEASE_S - 1)
        await claim.renew()
        clock.advance(LEASE_S - 1)
        with pytest.raises(InProgress):
            await once.claim(stores, make_event())
        await claim.complete()

    run_story(story, events)


def test_commits_the_effect_and_the_completion_together(run_story: RunStory) -> None:
    """If another write of the transaction fails, neither is committed."""

    async def story(stores: Stores, clock: ManualClock) -> None:
        claim = await claim_event(stores)
        impossible = Counter.of("other").update().add(Counter.value, 1)
        with pytest.raises(TransactionCancelled) as cancelled:
            await claim.complete(count("hits"), impossible)
        assert [each.code for each in cancelled.value.reasons] == ["None", "ConditionalCheckFailed", "None"]
        assert await read_counter(stores) == 0

        done = await claim.complete(count("hits"), result={"sent": ["a", 1]}, note="counted")
        assert (done.replayed, done.result, done.record.note) == (False, {"sent": ["a", 1]}, "counted")
        assert await read_counter(stores) == 1
        again = await replay_event(stores)
        assert (again.result, again.record) == (done.result, done.record)
        assert [
            each.event_id for each in await stores.run(EventRecord.listed(OnceStatus.PROCESSED).query())
        ] == ["evt-1"]

    run_story(story, events, counters)


def test_next_worker_finds_what_the_last_one_saved(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        late = await claim_event(stores)
        await late.save(note="to the team for refunds")
        clock.advance(LEASE_S)
        assert (await claim_event(stores)).record.note == "to the team for refunds"
        with pytest.raises(LeaseLost):
            await late.save(note="elsewhere")

    run_story(story, events)


def test_other_writes_can_check_the_claim(run_story: RunStory) -> None:
    """A transaction with `claim.check()` fails once another worker has taken the claim over."""

    async def story(stores: Stores, clock: ManualClock) -> None:
        claim = await claim_event(stores)
        await stores.transact(claim.check(), count("hits"))
        clock.advance(LEASE_S)
        await claim_event(stores)
        with pytest.raises(TransactionCancelled):
            await stores.transact(claim.check(), count("hits"))
        assert await read_counter(stores) == 1

    run_story(story, events, counters)


@pytest.mark.parametrize("ended", ["processing", "processed", "failed"])
def test_rejects_the_same_key_with_another_payload(run_story: RunStory, ended: str) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        claim = await claim_event(stores)
        if ended == "processed":
            await claim.complete()
        elif ended == "failed":
            await claim.fail("no reason")
        clock.advance(LEASE_S)
        with pytest.raises(IdempotencyMismatch):
            await once.claim(stores, make_event(payload=OTHER_PAYLOAD))

    run_story(story, events)


@pytest.mark.proves("RP-X4")
@pytest.mark.parametrize("payload", [make_event().payload_sha256, OTHER_PAYLOAD], ids=["same", "other"])
def test_expired_record_that_still_exists_does_not_block(run_story: RunStory, payload: str) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await (await claim_event(stores)).complete(result="old")
        clock.advance(RETENTION_S + 1)
        there = await stores.tables.run(GetItem(stores.physical_name(events), {"event_id": "evt-1"}))
        assert there.item is not None

        claim = await claim_event(stores, make_event(payload=payload))
        assert (claim.record.attempts, claim.record.result) == (1, None)

    run_story(story, events)


def test_expired_record_claimed_again_blocks_a_second_claim(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        done = await (await claim_event(stores)).complete(result="old")
        clock.advance(RETENTION_S + 1)
        claim = await claim_event(stores, done.record)
        assert (claim.record.result, claim.record.last_processed_at) == (None, None)
        clock.advance(LEASE_S - 1)
        with pytest.raises(InProgress):
            await once.claim(stores, make_event())

    run_story(story, events)


def test_caller_can_set_the_expiry_of_a_record(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        ends = datetime.fromtimestamp(int(clock.now()) + 10 * RETENTION_S, UTC)
        assert (await claim_event(stores, make_event(expires_at=ends))).record.expires_at == ends

    run_story(story, events)


def test_replays_an_unexpired_record(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await (await claim_event(stores)).complete(result="old")
        clock.advance(RETENTION_S - 1)
        assert (await replay_event(stores)).result == "old"

    run_story(story, events)


def test_failed_record_can_be_claimed_again_at_once(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await (await claim_event(stores)).fail("the shop was closed")
        found = await stores.run(EventRecord.of("evt-1").get().consistent())
        assert found is not None and (found.status, found.error) == ("failed", "the shop was closed")

        again = await claim_event(stores)
        assert again.record.attempts == 2
        assert isinstance(await again.complete(), Completion)
        assert (await replay_event(stores)).record.error is None

    run_story(story, events)


def test_permanently_refused_record_is_claimed_again_only_after_reopen(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await (await claim_event(stores)).refuse("card_declined", "PartyRefused (card_declined)")
        for _ in range(2):
            clock.advance(LEASE_S)
            with pytest.raises(ExternalServiceRefused) as refused:
                await once.claim(stores, make_event())
            assert refused.value.code == "card_declined"
        with pytest.raises(IdempotencyMismatch):
            await once.reopen(stores, make_event(payload=OTHER_PAYLOAD))
        await once.reopen(stores, make_event())
        await (await claim_event(stores)).complete(result="charged")
        assert (await replay_event(stores)).record.refused is None

    run_story(story, events)


def test_record_with_an_open_intent_is_never_claimed_as_new(run_story: RunStory) -> None:
    """Even an expired record keeps its attempts and its intent when it is claimed again."""

    async def story(stores: Stores, clock: ManualClock) -> None:
        claim = await claim_event(stores)
        await claim.record_intent(5)
        intended = claim.record.act_until
        clock.advance(RETENTION_S + LEASE_S)
        again = await once.claim(stores, make_event(), act_s=5)
        assert isinstance(again, Claim) and not again.has_intent
        assert (again.record.attempts, again.record.act_until) == (2, intended)

    run_story(story, events)


def test_record_marked_as_failed_by_a_person_is_taken_from_its_worker(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        claim = await claim_event(stores)
        await stores.run(EventRecord.of("evt-1").update().set(EventRecord.status, OnceStatus.FAILED))
        with pytest.raises(LeaseLost):
            await claim.complete(count("hits"))
        assert (await claim_event(stores)).record.attempts == 2
        assert await read_counter(stores) == 0

    run_story(story, events, counters)


def test_released_record_can_be_claimed_at_once(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: ManualClock) -> None:
        await (await claim_event(stores)).release()
        assert (await claim_event(stores)).record.attempts == 2

    run_story(story, events)
