"""Erasure of conversations and customers in every state, on in-memory stores and a sandbox help desk."""

from __future__ import annotations

import pytest

from holdfast.core.errors import ExternalServiceFailed
from holdfast.guarantees import Erasure, erase
from richpanel.domain.orders import hash_email
from richpanel.integrations.clients import HelpDeskClient
from richpanel.model import patterns, replay_archive
from richpanel.system import SYSTEM
from tests.systems.richpanel.acceptance.middleware import EMAIL, STATUS, Middleware, run, start_middleware

DAY_S = 86400
ARCHIVE = "rp-mw-replay-archive"


class FailingTagClient(HelpDeskClient):
    """Help desk client whose tags fail, so that events stop after their assignment."""

    async def add_tag(self, *_: object) -> dict[str, object]:
        raise ExternalServiceFailed("no tags today", may_be_done=False)


async def erase_subject(middleware: Middleware, subject: str, kind: str = "customer") -> Erasure:
    """Erase a customer, or a conversation if `kind` says so."""
    return await erase(SYSTEM, middleware.stores, subject, kind=kind)


async def exhaust_retries(middleware: Middleware) -> None:
    """Retry until the message in the queue is a dead letter."""
    worker = middleware.build_worker(FailingTagClient(middleware.desk_http))
    while (await middleware.get_queue_report()).waiting.backlog:
        await middleware.attempt(worker)
        middleware.clock.advance(100)
    assert (await middleware.get_queue_report()).dead == 1


async def list_customer_hashes(middleware: Middleware, conversation: str = "c-1") -> list[str]:
    """Return the hashes of the customers linked to a conversation."""
    found = await middleware.stores.all(patterns.customers_of_conversation(conversation))
    return [each.customer_hash for each in found.items]


def test_erases_a_customer_after_the_state_expired() -> None:
    async def test() -> None:
        async with start_middleware(state_days=1) as middleware:
            await middleware.send(STATUS)
            await middleware.drain_queue()
            middleware.clock.advance(3 * DAY_S)
            assert await middleware.get_state() is None
            kept = len(await middleware.list_audit())
            assert kept > 0

            done = await erase_subject(middleware, EMAIL)
            assert done.deleted["rp_mw_audit_actions"] == kept
            assert (
                await middleware.list_audit() == () and await middleware.get_record("evt:rp:c-1:m-1") is None
            )
            assert await list_customer_hashes(middleware) == []

    run(test())


@pytest.mark.parametrize("address", [EMAIL, "new@address.example"])
def test_erases_a_conversation_by_any_address_that_wrote_in_it(address: str) -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.send(STATUS)
            await middleware.drain_queue()
            ticket = middleware.sandbox.desk.find_ticket("c-1")
            assert ticket is not None
            ticket.customer["email"] = "new@address.example"
            await middleware.send("thanks")
            await middleware.drain_queue()
            assert sorted(await list_customer_hashes(middleware)) == sorted(
                map(hash_email, (EMAIL, "new@address.example"))
            )

            done = await erase_subject(middleware, address)
            assert done.deleted["rp_mw_conversation_state"] == 1 and done.deleted["rp_mw_customers"] == 2
            assert await middleware.get_state() is None and await middleware.list_audit() == ()

    run(test())


def test_erases_a_customer_whose_only_event_is_a_dead_letter() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.send(STATUS)
            await exhaust_retries(middleware)
            assert await middleware.get_state() is None
            assert len(await middleware.list_audit()) > 0

            await erase_subject(middleware, EMAIL)
            assert (
                await middleware.list_audit() == () and await middleware.get_record("evt:rp:c-1:m-1") is None
            )

    run(test())


# --- the archive --------------------------------------------------------------------------------------------


@pytest.mark.proves("RP-44")
def test_copy_on_another_day_is_archived_and_erased_under_one_key() -> None:
    async def test() -> None:
        async with start_middleware(archive=True) as middleware:
            payload = middleware.write(STATUS)
            await middleware.deliver(payload)
            # The event is archived and becomes a dead letter; its copy arrives the next day.
            await exhaust_retries(middleware)
            assert len((await middleware.stores.run(replay_archive.of_conversation("c-1"))).objects) == 1
            middleware.clock.advance(DAY_S)
            await middleware.deliver(payload)
            await middleware.drain_queue()
            assert len((await middleware.stores.run(replay_archive.of_conversation("c-1"))).objects) == 1

            done = await erase_subject(middleware, "c-1", "conversation")
            assert done.deleted[ARCHIVE] == 1
            assert (await middleware.stores.run(replay_archive.replays.list_objects())).objects == ()

    run(test())


def test_erasure_counts_no_archived_event_if_none_was_archived() -> None:
    async def test() -> None:
        async with start_middleware() as middleware:
            await middleware.send(STATUS)
            await middleware.drain_queue()
            assert ARCHIVE not in (await erase_subject(middleware, EMAIL)).deleted

    run(test())


def test_archived_event_under_a_legal_hold_is_erased_after_the_hold_is_lifted() -> None:
    async def test() -> None:
        async with start_middleware(archive=True) as middleware:
            key = {"conversation_id": "c-1", "event_id": await middleware.send(STATUS)}
            await middleware.drain_queue()
            await middleware.stores.run(replay_archive.replays.set_legal_hold(True, **key))
            held = await erase_subject(middleware, EMAIL)
            assert ARCHIVE not in held.deleted and await middleware.list_audit() == ()
            assert any("legal hold" in each.what for each in held.remains)

            await middleware.stores.run(replay_archive.replays.set_legal_hold(False, **key))
            freed = await erase_subject(middleware, EMAIL)
            assert freed.deleted == {ARCHIVE: 1, "rp_mw_customers": 1}
            assert not (await erase_subject(middleware, EMAIL)).deleted

    run(test())
