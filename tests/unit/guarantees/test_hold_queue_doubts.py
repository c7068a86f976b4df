"""What may have been done though nobody knows: a repeat that is refused, a record that a restore has brought back, and
when the record of it ends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import Stores
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, NotPending
from holdfast.guarantees import OUTCOME_UNKNOWN, Completion, OnceStatus
from tests.sweeping import rest
from tests.unit.guarantees.held_records import (
    ACT_S,
    KEY_KEPT_S,
    LEASE_S,
    LIFETIME_S,
    NO_ANSWER,
    NOT_NOW,
    Letter,
    PostOffice,
    due,
    execute,
    execute_by_key,
    hold,
    letter,
    played,
    queue,
    read,
)
from tests.unit.guarantees.once_records import HandClock, counted

CHANGED = ExternalServiceRefused("invalid_idempotent_request", "The content is another.")


async def refused_repeat(stores: Stores, clock: HandClock, office: PostOffice) -> Letter:
    """Sent, the answer lost; and the repeat refused."""
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
    return await read(stores)


async def restored(stores: Stores, before: Letter) -> None:
    """The record as it was, as a restore in place would write it."""
    await stores.run(Letter.put(before))


# --- a repeat that is refused -------------------------------------------------------------------------------


def test_a_refusal_of_a_repeat_leaves_open_what_the_first_attempt_did() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        began = clock.now()
        seen = await refused_repeat(stores, clock, office)
        assert (seen.refused, seen.executed, seen.queue) == (CHANGED.code, False, None)
        assert seen.asked_since == pytest.approx(began, abs=0.01)
        assert seen.error is not None and seen.error.endswith("outcome of an attempt before unknown")
        assert await counted(stores, f"refused {CHANGED.code}") == 1
        with pytest.raises(ExternalServiceRefused, match="its outcome is unknown"):
            await execute_by_key(stores, office)

    played(story)


def test_what_is_reopened_after_a_refused_repeat_is_asked_again_under_its_key_alone() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        again = await queue.reopen(stores, await refused_repeat(stores, clock, office), by="ann")
        assert await due(stores) == ["l-1"]
        for late in (
            queue.cancel(stores, again, by="ann"),
            queue.edit(stores, again, by="ann", text="other"),
        ):
            with pytest.raises(NotPending, match="may have been"):
                await late
        assert not (await execute_by_key(stores, office)).replayed
        assert office.ledger == [("l-1", "hello")]

    played(story)


def test_what_is_reopened_after_the_key_was_forgotten_is_not_done_until_somebody_says_that_it_was_not() -> (
    None
):
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        seen = await refused_repeat(stores, clock, office)
        clock.advance(KEY_KEPT_S)
        office.keys = set()
        await queue.reopen(stores, seen, by="ann")
        with pytest.raises(ExternalServiceRefused, match="The outcome of .* is unknown") as refused:
            await execute_by_key(stores, office)
        assert (refused.value.code, len(office.ledger)) == (OUTCOME_UNKNOWN, 1)
        again = await queue.reopen(stores, await read(stores), by="ann")
        assert (again.status, again.asked_since) == (OnceStatus.HELD, None)
        await execute_by_key(stores, office)
        assert len(office.ledger) == 2

    played(story)


def test_what_is_reopened_after_a_refused_repeat_is_looked_up_where_that_can_be() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        await queue.reopen(stores, await refused_repeat(stores, clock, office), by="ann")
        await execute(stores, office)
        assert (len(office.looked_up), len(office.ledger)) == (1, 1)

    played(story)


def test_a_refusal_after_a_look_up_that_found_nothing_leaves_nothing_open() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        await hold(stores, for_s=0)
        office.refuses = NO_ANSWER
        with pytest.raises(ExternalServiceFailed):
            await execute(stores, office)
        clock.advance(LEASE_S)
        office.refuses = CHANGED
        with pytest.raises(ExternalServiceRefused) as refused:
            await execute(stores, office)
        assert "An earlier attempt" not in refused.value.message
        assert (await read(stores)).asked_since is None

    played(story)


def test_what_is_past_its_life_is_not_reopened() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        rest(stores.tables)
        await hold(stores, for_s=0)
        office.refuses = CHANGED
        with pytest.raises(ExternalServiceRefused):
            await execute(stores, office)
        seen = await read(stores)
        clock.advance(LIFETIME_S + 2)
        with pytest.raises(NotPending) as refused:
            await queue.reopen(stores, seen, by="ann")
        assert refused.value.state == "gone"
        assert await due(stores) == []

    played(story)


# --- a record that came back --------------------------------------------------------------------------------


def test_what_a_restore_brought_back_is_looked_up_before_it_is_done_and_so_done_once() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        before = await hold(stores, for_s=0)
        await execute(stores, office)
        clock.advance(LEASE_S + 1)
        await restored(stores, before)
        assert await due(stores) == ["l-1"]
        done = await execute(stores, office)
        assert (done.result, done.record.executed) == ({"sent": "hello"}, True)
        assert (len(office.looked_up), office.ledger) == (1, [("l-1", "hello")])

    played(story)


def test_what_is_done_when_it_is_due_is_not_looked_up() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        await hold(stores, for_s=0)
        clock.advance(LEASE_S - 1)
        await execute(stores, office)
        assert (office.looked_up, len(office.ledger)) == ([], 1)

    played(story)


def test_what_is_overdue_and_not_found_is_done_with_an_intent_of_its_own() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        await hold(stores, for_s=0)
        clock.advance(LEASE_S + 1)
        intents = list[Any]()

        async def send(record: Letter, key: str) -> dict[str, Any]:
            stored = await read(stores)
            intents.append((stored.asked_since, stored.act_until))
            return await office.send(record, key)

        await queue.execute(stores, letter(), act=send, look_up=office.find, act_s=ACT_S)
        assert intents == [
            (pytest.approx(clock.now(), abs=0.01), pytest.approx(clock.now() + ACT_S, abs=0.01))
        ]
        assert (len(office.looked_up), len(office.ledger)) == (1, 1)

    played(story)


@pytest.mark.parametrize("failure", [NO_ANSWER, CHANGED, RuntimeError("nobody thought of it")], ids=repr)
def test_what_is_overdue_and_could_not_be_looked_up_waits_and_can_be_cancelled(failure: Exception) -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        await hold(stores, for_s=0)
        clock.advance(LEASE_S + 1)

        async def find(record: Letter, key: str) -> dict[str, Any] | None:
            raise failure

        with pytest.raises(type(failure)):
            await queue.execute(stores, letter(), act=office.send, look_up=find, act_s=ACT_S)
        assert (office.ledger, await due(stores)) == ([], ["l-1"])
        assert (await queue.cancel(stores, await read(stores), by="ann")).status is OnceStatus.CANCELLED

    played(story)


def test_what_a_restore_brought_back_is_asked_for_under_the_key_that_the_party_still_knows() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        office.keys = set()
        before = await hold(stores, for_s=0)
        await execute_by_key(stores, office)
        clock.advance(KEY_KEPT_S - ACT_S - 0.1)
        await restored(stores, before)
        assert not (await execute_by_key(stores, office)).replayed
        assert office.ledger == [("l-1", "hello")]

    played(story)


def test_what_is_overdue_for_longer_than_the_party_keeps_its_key_is_left_to_a_person() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        before = await hold(stores, for_s=0)
        await execute_by_key(stores, office)
        clock.advance(KEY_KEPT_S - ACT_S + 0.1)
        await restored(stores, before)
        with pytest.raises(
            ExternalServiceRefused, match=r"overdue by 21590 s .* restored .* call reopen"
        ) as refused:
            await execute_by_key(stores, office)
        assert (refused.value.code, len(office.ledger)) == (OUTCOME_UNKNOWN, 1)
        seen = await read(stores)
        assert (seen.refused, seen.error, seen.queue) == (
            OUTCOME_UNKNOWN,
            "long overdue, outcome unknown",
            None,
        )
        assert (await due(stores), await counted(stores, f"refused {OUTCOME_UNKNOWN}")) == ([], 1)

        await queue.reopen(stores, seen, by="ann")
        await execute_by_key(stores, office)
        assert len(office.ledger) == 2

    played(story)


def test_what_a_restore_brought_back_is_repeated_only_as_long_as_the_party_knows_its_first_key() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        before = await hold(stores, for_s=0)
        office.keys = set()
        await execute_by_key(stores, office)
        clock.advance(KEY_KEPT_S / 2)
        await restored(stores, before)
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

    played(story)


def test_what_came_to_nothing_for_long_for_certain_is_done_when_the_party_is_back() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        await hold(stores, for_s=0)

        async def attempt() -> Completion[Letter]:
            clock.advance(LEASE_S - 1)
            return await queue.execute(
                stores, letter(), act=office.send, takes_key=True, key_kept_s=3 * LEASE_S, act_s=ACT_S
            )

        office.refuses = NOT_NOW
        for _ in range(10):
            with pytest.raises(ExternalServiceFailed):
                await attempt()
        office.refuses = None
        await attempt()
        assert office.ledger == [("l-1", "hello")]

    played(story)


# --- when the record of it ends -----------------------------------------------------------------------------


def test_what_was_done_after_a_lost_answer_ends_when_it_was_to() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        ends = datetime.fromtimestamp(int(clock.now() + LIFETIME_S), UTC)
        await hold(stores, letter(expires_at=ends), 0)
        office.fails = NO_ANSWER
        for _ in range(3):
            clock.advance(3600)
            with pytest.raises(ExternalServiceFailed):
                await queue.execute(
                    stores, letter(), act=office.send, takes_key=True, look_up=nothing_found, act_s=ACT_S
                )
        lasting = (await read(stores)).expires_at
        assert lasting is not None and lasting > ends
        office.fails = None
        clock.advance(3600)
        done: Completion[Letter] = await execute(stores, office)
        assert (done.record.expires_at, done.record.ends_at) == (ends, None)

    played(story)


def test_what_may_have_been_done_is_kept_for_who_has_to_look() -> None:
    async def story(stores: Stores, clock: HandClock, office: PostOffice) -> None:
        rest(stores.tables)
        ends = datetime.fromtimestamp(int(clock.now()) + 120, UTC)
        await hold(stores, letter(expires_at=ends), 0)
        office.fails = NO_ANSWER
        with pytest.raises(ExternalServiceFailed):
            await execute_by_key(stores, office)
        clock.advance(KEY_KEPT_S)
        with pytest.raises(ExternalServiceRefused):
            await execute_by_key(stores, office)
        clock.advance(LIFETIME_S - 10)
        office.fails = None
        await queue.reopen(stores, await read(stores), by="ann")
        done = await execute_by_key(stores, office)
        assert len(office.ledger) == 2
        assert done.record.expires_at is not None
        assert done.record.expires_at.timestamp() <= clock.now() + LEASE_S + 1

    played(story)


async def nothing_found(record: Letter, key: str) -> dict[str, Any] | None:
    return None
