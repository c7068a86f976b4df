"""Guarantees of an earlier version hold with the current code: once, delays, leases, erasure, moves."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import transact
from holdfast.core.errors import (
    CircuitOpen,
    ExternalServiceRefused,
    IdempotencyMismatch,
    InProgress,
    LeaseLost,
    NotPending,
    RateLimited,
    TransactionCancelled,
)
from holdfast.guarantees import Claim, Completion, HeldLease, OnceStatus, erase, fence, is_proof_intact
from holdfast.guarantees.table_migration import Phase, get_status, migrate, remove_source

from . import effects, guards, histories, moves
from .conftest import Library
from .effects import (
    ACT_S,
    LEASE_S,
    LETTERS,
    ONCE,
    FakeService,
    letter,
    read_effect,
    read_letter,
    read_tally,
    record,
)

pytestmark = pytest.mark.anyio


# --- idempotency --------------------------------------------------------------------------------------------


async def test_a_repeat_gets_the_stored_result(library: Library) -> None:
    done = await ONCE.do(library.stores, record("done"), effects.complete_with_tally)

    assert done.replayed
    assert done.result == {"id": "done", "seat": "7A"}
    assert await read_tally(library.stores, "done") == 1


async def test_repeat_without_a_result_is_known_as_done(library: Library) -> None:
    done = await ONCE.do(library.stores, record("done without a result"), effects.complete_with_tally)

    assert (done.replayed, done.result) == (True, None)


async def test_rejects_the_same_key_with_another_payload(library: Library) -> None:
    other = record("done").model_copy(update={"payload_sha256": "0" * 64})

    with pytest.raises(IdempotencyMismatch):
        await ONCE.claim(library.stores, other)


async def test_a_dead_worker_keeps_its_claim_until_its_lease_ends(library: Library) -> None:
    with pytest.raises(InProgress) as refused:
        await ONCE.claim(library.stores, record("claimed"))
    library.clock.advance(LEASE_S)
    done = await ONCE.do(library.stores, record("claimed"), effects.complete_with_tally)

    assert refused.value.retry_after_s == LEASE_S
    assert not done.replayed
    assert done.record.attempts == 2
    assert await read_tally(library.stores, "claimed") == 1


async def test_revived_worker_has_lost_its_claim(library: Library) -> None:
    seen = await read_effect(library.stores, "claimed")
    late = Claim(ONCE, library.stores, seen, library.clock.time() + timedelta(days=1))
    library.clock.advance(LEASE_S)
    await ONCE.do(library.stores, record("claimed"), effects.complete_with_tally)

    with pytest.raises(LeaseLost):
        await late.complete(result="late")


async def test_stored_failures_keep_the_name_of_their_error(library: Library) -> None:
    noted = library.notes["effects"]["records"]

    for id, error in effects.FAILURES.items():
        stored = await read_effect(library.stores, id)
        assert (stored.status, stored.error) == (OnceStatus.FAILED, noted[id]["error"])
        with pytest.raises(type(error())):
            await ONCE.do(library.stores, record(id), effects.build_failing_effect(error()))
        again = await read_effect(library.stores, id)
        assert again.attempts == 2
        assert not library.is_latest or again.error == noted[id]["error"]


async def test_failed_effect_can_run_again(library: Library) -> None:
    done = await ONCE.do(library.stores, record("failed: invalid"), effects.complete_with_tally)

    assert (done.replayed, done.record.error, done.record.attempts) == (False, None, 2)


async def test_released_record_continues_with_its_saved_decision(library: Library) -> None:
    claim = await ONCE.claim(library.stores, record("given back"))

    assert isinstance(claim, Claim)
    assert claim.record.decision == "by train"
    assert claim.record.attempts == 2


async def test_forgets_an_expired_record(library: Library) -> None:
    claim = await ONCE.claim(library.stores, record("ended"))

    assert isinstance(claim, Claim)
    assert (claim.record.attempts, claim.record.revision) == (1, 1)


async def test_does_not_repeat_an_external_call_that_was_done(library: Library) -> None:
    service = FakeService()

    done = await _call_external(library, "outside: done", service)

    assert (done.replayed, done.result) == (True, {"done": "outside: done"})
    assert service.acted == service.looked == []


async def test_permanent_refusal_is_raised_again(library: Library) -> None:
    service = FakeService()

    with pytest.raises(ExternalServiceRefused) as refused:
        await _call_external(library, "outside: refused", service)
    await ONCE.reopen(library.stores, record("outside: refused"))
    done = await _call_external(library, "outside: refused", service)

    assert refused.value.code == "no_seat"
    assert done.result == {"done": "outside: refused"}


async def test_temporary_refusal_is_retried(library: Library) -> None:
    service = FakeService()

    done = await _call_external(library, "outside: failed", service)

    assert done.result == {"done": "outside: failed"}
    assert (service.acted, service.looked) == (["outside: failed"], [])


async def test_looks_up_an_open_outcome_before_a_repeat(library: Library) -> None:
    done_before = ["outside: unknown, was done", "outside: intended, was done"]
    not_done = ["outside: unknown, was not done", "outside: intended, was not done"]
    service = FakeService(knows={id: {"found": True} for id in done_before})
    for id in (*done_before, *not_done):
        with pytest.raises(InProgress):
            await _call_external(library, id, service)
    library.clock.advance(LEASE_S)

    found = [(await _call_external(library, id, service)).result for id in done_before]
    acted = [(await _call_external(library, id, service)).result for id in not_done]

    assert found == [{"found": True}, {"found": True}]
    assert acted == [{"done": id} for id in not_done]
    assert service.looked == [*done_before, *not_done]
    assert service.acted == not_done


async def _call_external(library: Library, id: str, service: FakeService) -> Completion[Any]:
    """Make the external call with this id, as a caller that can look up earlier outcomes."""
    return await ONCE.call_external(
        library.stores, record(id), act=service.act, look_up=service.look_up, act_s=ACT_S
    )


# --- delayed actions ----------------------------------------------------------------------------------------


async def test_sends_a_due_letter_once(library: Library) -> None:
    service = FakeService()
    due = await library.stores.all(LETTERS.pattern_set.due(library.clock.time()))

    for each in due:
        await _send(library, each.id, service)

    assert sorted(service.acted) == sorted(f"DESK%23d-1#LETTER%23{each.id}" for each in due)
    assert not await library.stores.all(LETTERS.pattern_set.due(library.clock.time()))
    again = await _send(library, "due 1", service)
    assert (again.replayed, len(service.acted)) == (True, len(due))


async def test_delayed_letter_is_not_due_before_its_time(library: Library) -> None:
    with pytest.raises(InProgress):
        await _send(library, "waiting", FakeService())
    library.clock.advance(1801)

    assert (await _send(library, "waiting", FakeService())).record.executed


async def test_delayed_letter_can_still_be_reviewed(library: Library) -> None:
    stores = library.stores
    await LETTERS.edit(stores, await read_letter(stores, "waiting"), by="bo", text="Dear Bo")
    await LETTERS.cancel(stores, await read_letter(stores, "edited"), by="bo")

    assert (await read_letter(stores, "waiting")).text == "Dear Bo"
    assert (await read_letter(stores, "edited")).status is OnceStatus.CANCELLED


async def test_does_not_send_a_cancelled_letter(library: Library) -> None:
    with pytest.raises(NotPending) as refused:
        await _send(library, "cancelled", FakeService())

    assert refused.value.state == "cancelled"


async def test_looks_up_a_letter_with_an_open_outcome(library: Library) -> None:
    keys = {id: f"DESK%23d-1#LETTER%23{id}" for id in ("broken off", "taken")}
    service = FakeService(knows={key: {"found": True} for key in keys.values()})
    for id in keys:
        with pytest.raises(InProgress):
            await _send(library, id, service)
    library.clock.advance(LEASE_S)

    sent = [(await _send(library, id, service)).result for id in keys]

    assert sent == [{"found": True}, {"found": True}]
    assert (service.looked, service.acted) == (list(keys.values()), [])


async def test_refused_letter_is_refused_again_until_it_is_reopened(library: Library) -> None:
    stores = library.stores
    with pytest.raises(ExternalServiceRefused) as refused:
        await _send(library, "refused", FakeService())
    await LETTERS.reopen(stores, await read_letter(stores, "refused"), by="bo")

    assert refused.value.code == "no_address"
    assert (await _send(library, "refused", FakeService())).record.executed


async def test_leaves_a_letter_with_an_unknown_outcome_to_a_person(library: Library) -> None:
    stores, service = library.stores, FakeService()
    with pytest.raises(ExternalServiceRefused) as refused:
        await _send(library, "unknown", service)
    reopened = await LETTERS.reopen(stores, await read_letter(stores, "unknown"), by="bo")

    assert refused.value.code == "OutcomeUnknown"
    # The person says that it was not sent, so that no lookup is made.
    assert (reopened.status, reopened.asked_since) == (OnceStatus.HELD, None)
    await _send(library, "unknown", service)
    assert (len(service.acted), service.looked) == (1, [])


async def _send(library: Library, id: str, service: FakeService) -> Completion[Any]:
    """Execute the letter with this id, as an executor that can look up earlier outcomes."""
    return await LETTERS.execute(
        library.stores, letter(id), act=service.send, look_up=service.find, act_s=ACT_S
    )


# --- leases, circuits and limits ----------------------------------------------------------------------------


async def test_lease_of_a_dead_holder_ends_and_its_token_grows(library: Library) -> None:
    stores, noted = library.stores, library.notes["guards"]
    seen = await stores.run(guards.SWEEPS.pattern_set.read("held"))
    assert seen is not None
    with pytest.raises(InProgress):
        await guards.SWEEPS.take(stores, "held")
    library.clock.advance(30)
    taken = await guards.SWEEPS.take(stores, "held")

    assert (seen.holder, seen.token) == (noted["holder"], noted["token"])
    assert taken.token == noted["token"] + 1
    with pytest.raises(LeaseLost):
        await HeldLease(guards.SWEEPS, stores, seen, lease_s=30).renew()
    with pytest.raises(TransactionCancelled):
        await stores.transact(guards.SWEEPS.pattern_set.check(seen), effects.count("late"))


async def test_token_of_a_released_lease_continues_to_grow(library: Library) -> None:
    assert (await guards.SWEEPS.take(library.stores, "given back")).token == 4


async def test_circuit_opens_at_the_next_failure_after_the_counted_ones(library: Library) -> None:
    assert await guards.SHOPS.call(library.stores, "failed twice", guards.succeed) == "an answer"
    with pytest.raises(Exception, match="It is down"):
        await guards.SHOPS.call(library.stores, "failed twice", guards.fail)

    with pytest.raises(CircuitOpen):
        await guards.SHOPS.call(library.stores, "failed twice", guards.succeed)


async def test_open_circuit_admits_one_probe(library: Library) -> None:
    # A killed caller already holds the probe of the second circuit.
    for shop, closed_for_s in (("open", 30), ("half open", 51)):
        library.clock.moment = library.notes["written_at"] + closed_for_s - 1
        with pytest.raises(CircuitOpen):
            await guards.SHOPS.call(library.stores, shop, guards.succeed)
        library.clock.advance(1)

        assert await guards.SHOPS.call(library.stores, shop, guards.succeed) == "an answer"
        circuit = await library.stores.run(guards.SHOPS.pattern_set.state(shop))
        assert circuit is not None
        assert circuit.retry_at is None


async def test_limit_counts_earlier_takes(library: Library) -> None:
    for limit in (guards.CALLS, guards.SLIDING_CALLS):
        library.clock.moment = library.notes["written_at"]
        for _ in range(library.notes["guards"]["left"][limit.name]):
            await limit.take(library.stores, "tenant")

        with pytest.raises(RateLimited):
            await limit.take(library.stores, "tenant")

        library.clock.advance(70)
        assert await limit.take(library.stores, "tenant") == limit.limit - 1


# --- histories, retention and erasure -----------------------------------------------------------------------


async def test_history_continues_after_its_stored_entries(library: Library) -> None:
    noted = library.notes["histories"]["entries"]
    library.clock.advance(60)
    entry = histories.DEEDS.record(
        library.stores, {"note": "call +44 20 7946 0006 about it"}, subject=histories.SUBJECT, action="return"
    )
    await library.stores.transact(entry)

    history = (await library.stores.all(histories.DEEDS.pattern_set.history(histories.SUBJECT))).items

    assert [(each.place, each.payload) for each in history[:-1]] == [
        (each["place"], each["payload"]) for each in noted
    ]
    assert history[-1].parsed_payload == {"note": "call ***-***-0006 about it"}
    assert [each.result and each.result.reason for each in history[:3]] == [
        "reason 0",
        "reason 1",
        "reason 2",
    ]


async def test_an_erased_subject_stays_erased_and_its_proof_intact(library: Library) -> None:
    system = library.stores.system
    assert system is not None

    again = await erase(system, library.stores, histories.ERASED, kind=histories.KIND, compact=False)

    assert is_proof_intact(library.notes["histories"]["proof"])
    assert again.deleted == again.log_records == again.backup_items == {}


async def test_erases_a_subject_from_the_log_and_the_backup_too(library: Library) -> None:
    system = library.stores.system
    assert system is not None

    done = await erase(system, library.stores, histories.SUBJECT, kind=histories.KIND)

    assert done.deleted == {"Readers": histories.ENTRIES, "Trail": histories.ENTRIES}
    assert done.log_records == {"Readers": 2 * histories.ENTRIES}
    assert done.backup_items == {"Readers: before-the-erasure": histories.ENTRIES}


# --- migrations ---------------------------------------------------------------------------------------------


async def test_finishes_a_migration_that_was_killed_in_its_copy(library: Library) -> None:
    stores = library.stores
    before = await get_status(moves.CARDS, stores)
    library.clock.advance(moves.PACE.lease_s)

    report = await migrate(moves.CARDS, stores, pace=moves.PACE)

    assert before.phase is Phase.PREPARED
    assert report.phase is Phase.SWITCHED
    moved = {each.number: each for each in await stores.all(moves.CardOfReader.scan(reason="all of it"))}
    assert moved.keys() == {f"c-{n:02}" for n in range(moves.ROWS - 1)} | {"c-new"}
    assert moved["c-00"].version == 2


async def test_lifts_the_hold_of_a_killed_migration_and_finishes_it(library: Library) -> None:
    stores = library.stores
    seat = await stores.run(moves.Seat.of("s-00").get())
    assert seat is not None
    library.clock.advance(moves.PACE.hold_s + 1)

    await moves.SEATS.write(
        stores,
        transact(fence(moves.SEATS.name), moves.Seat.of("s-00").update().add(moves.Seat.version, 1)),
        moves.SeatOfRow.of(seat.row).update("s-00").add(moves.SeatOfRow.version, 1),
    )
    report = await migrate(moves.SEATS, stores, pace=moves.PACE)

    assert report.phase is Phase.SWITCHED
    moved = await stores.all(moves.SeatOfRow.scan(reason="all of it"))
    assert len(moved) == moves.ROWS
    assert {each.version for each in moved if each.number == "s-00"} == {2}
    assert (await remove_source(moves.SEATS, stores, pace=moves.PACE)).phase is Phase.REMOVED
