"""Who is to be forgotten is found: when the state is gone, by a former address, half done, in the archive, under a hold."""

from __future__ import annotations

import pytest

from holdfast.core.errors import ExternalServiceFailed
from holdfast.guarantees import Erasure, erase
from richpanel.domain.orders import hash_email
from richpanel.integrations.clients import HelpDeskClient
from richpanel.model import patterns, replay_archive
from richpanel.system import SYSTEM
from tests.acceptance.richpanel.stage import EMAIL, STATUS, Stage, run, staged

DAY_S = 86400
ARCHIVE = "rp-mw-replay-archive"


class Untagged(HelpDeskClient):
    """Fails when an event is half done."""

    async def add_tag(self, *_: object) -> dict[str, object]:
        raise ExternalServiceFailed("no tags today", may_be_done=False)


async def erased(stage: Stage, subject: str, kind: str = "customer") -> Erasure:
    return await erase(SYSTEM, stage.stores, subject, kind=kind)


async def die(stage: Stage) -> None:
    """Until what is in the queue is a dead letter."""
    worker = stage.worker(Untagged(stage.desk_http))
    while (await stage.queue()).waiting.backlog:
        await stage.attempt(worker)
        stage.clock.advance(100)
    assert (await stage.queue()).dead == 1


async def links(stage: Stage, conversation: str = "c-1") -> list[str]:
    found = await stage.stores.all(patterns.customers_of_conversation(conversation))
    return [each.customer_hash for each in found.items]


def test_a_customer_is_found_when_the_state_has_ended_before_the_audit() -> None:
    async def test() -> None:
        async with staged(state_days=1) as stage:
            await stage.says(STATUS)
            await stage.work_off()
            stage.clock.advance(3 * DAY_S)
            assert await stage.state() is None
            kept = len(await stage.audit())
            assert kept > 0

            done = await erased(stage, EMAIL)
            assert done.deleted["rp_mw_audit_actions"] == kept
            assert await stage.audit() == () and await stage.record("evt:rp:c-1:m-1") is None
            assert await links(stage) == []

    run(test())


@pytest.mark.parametrize("address", [EMAIL, "new@address.example"])
def test_a_conversation_is_found_by_every_address_that_wrote_in_it(address: str) -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.says(STATUS)
            await stage.work_off()
            ticket = stage.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            ticket.customer["email"] = "new@address.example"
            await stage.says("thanks")
            await stage.work_off()
            assert sorted(await links(stage)) == sorted(map(hash_email, (EMAIL, "new@address.example")))

            done = await erased(stage, address)
            assert done.deleted["rp_mw_conversation_state"] == 1 and done.deleted["rp_mw_customers"] == 2
            assert await stage.state() is None and await stage.audit() == ()

    run(test())


def test_a_customer_is_found_whose_only_event_died_half_done() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.says(STATUS)
            await die(stage)
            assert await stage.state() is None
            assert len(await stage.audit()) > 0

            await erased(stage, EMAIL)
            assert await stage.audit() == () and await stage.record("evt:rp:c-1:m-1") is None

    run(test())


# --- the archive --------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-44")
def test_a_copy_of_another_day_is_archived_under_the_same_key_and_erased_with_it() -> None:
    async def test() -> None:
        async with staged(archive=True) as stage:
            payload = stage.write(STATUS)
            await stage.deliver(payload)
            # It is archived and dies half done; the event is sent again the day after.
            await die(stage)
            assert len((await stage.stores.run(replay_archive.of_conversation("c-1"))).objects) == 1
            stage.clock.advance(DAY_S)
            await stage.deliver(payload)
            await stage.work_off()
            assert len((await stage.stores.run(replay_archive.of_conversation("c-1"))).objects) == 1

            done = await erased(stage, "c-1", "conversation")
            assert done.deleted[ARCHIVE] == 1
            assert (await stage.stores.run(replay_archive.replays.list_objects())).objects == ()

    run(test())


def test_a_proof_counts_nothing_that_was_never_archived() -> None:
    async def test() -> None:
        async with staged() as stage:
            await stage.says(STATUS)
            await stage.work_off()
            assert ARCHIVE not in (await erased(stage, EMAIL)).deleted

    run(test())


def test_what_a_legal_hold_keeps_is_found_by_its_customer_when_the_hold_is_lifted() -> None:
    async def test() -> None:
        async with staged(archive=True) as stage:
            key = {"conversation_id": "c-1", "event_id": await stage.says(STATUS)}
            await stage.work_off()
            await stage.stores.run(replay_archive.replays.set_legal_hold(True, **key))
            held = await erased(stage, EMAIL)
            assert ARCHIVE not in held.deleted and await stage.audit() == ()
            assert any("legal hold" in each.what for each in held.remains)

            await stage.stores.run(replay_archive.replays.set_legal_hold(False, **key))
            freed = await erased(stage, EMAIL)
            assert freed.deleted == {ARCHIVE: 1, "rp_mw_customers": 1}
            assert not (await erased(stage, EMAIL)).deleted

    run(test())
