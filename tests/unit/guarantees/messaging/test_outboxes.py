"""The promises of every outbox, in tables and in SQL: atomic with the change, in order, at least once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import Queue, Rate, Stores
from holdfast.core.correlation import bind_correlation_id
from holdfast.core.errors import (
    ComponentRefused,
    Conflict,
    DeclarationError,
    InvalidRequest,
    StoreUnreachable,
)
from holdfast.core.limits import MAX_MESSAGE_BYTES
from holdfast.guarantees import Outbox, OutboxStatus, SqlOutbox
from holdfast.guarantees.messaging.declaration import BaseOutbox
from holdfast.guarantees.messaging.relay import RelayReport
from holdfast.operations.queues import SendMessages
from tests.postgres import create_database
from tests.unit.guarantees.messaging import order_outbox, sql_shop
from tests.unit.guarantees.messaging.order_outbox import (
    ManualClock,
    OrderChanged,
    WatchedQueues,
    receive_all,
    watch_queues,
)


@dataclass
class Shop:
    """An order system with an outbox, in tables or in SQL."""

    outbox: BaseOutbox
    queue: Queue[OrderChanged]
    build_change: Callable[..., tuple[Any, ...]]
    enqueue: Callable[..., Any]
    stores: Stores
    clock: ManualClock
    queues: WatchedQueues

    async def change(self, order_id: str, *seen: int) -> None:
        """Commit changes of an order with their messages; `seen` is the version that each was based on."""
        for each in seen:
            await self.stores.transact(*self.build_change(self.stores, order_id, each))

    async def send(self) -> RelayReport:
        return await self.outbox.send_unsent(self.stores)

    async def send_all(self) -> int:
        """Send until nothing is left to claim, and return how many messages were sent."""
        sent, more = 0, True
        while more:
            report = await self.send()
            sent, more = sent + report.sent, report.more
        return sent

    async def receive_versions(self) -> list[tuple[str, int]]:
        """Receive and delete all messages; return order and version of each."""
        found = await receive_all(self.stores, self.queue)
        return [(each.message.order_id, each.message.version) for each in found]

    async def list_unsent(self, *statuses: OutboxStatus) -> list[tuple[str, int, str, int]]:
        """Return aggregate, sequence, status and attempts of the unsent messages, sorted."""
        found = await self.outbox.list_unsent(self.stores, *statuses)
        return sorted((each.aggregate, each.sequence, each.status, each.attempts) for each in found)

    async def claim_and_die(self, *, after_sending: bool = False) -> None:
        """Leave what a relay leaves that is killed after its claims, or after sending the first messages."""
        async for claim in self.outbox.open_storage(self.stores).claim(RelayReport()):
            for lane in claim.lanes if after_sending else ():
                await self.stores.run(self.outbox.pattern_set.sends[self.queue.name]((lane[0],)))


@asynccontextmanager
async def open_in_tables() -> AsyncIterator[Shop]:
    clock = ManualClock()

    def enqueue(stores: Stores, aggregate: str, message: Any) -> Any:
        return outbox.enqueue(stores, aggregate, message, sequence=1)

    outbox, build_change = order_outbox.OUTBOX_OF_ORDERS, order_outbox.build_change
    async with await order_outbox.open_order_stores(clock) as stores:
        queues = watch_queues(stores)
        yield Shop(outbox, order_outbox.changes, build_change, enqueue, stores, clock, queues)


@asynccontextmanager
async def open_in_sql() -> AsyncIterator[Shop]:
    url, clock = await asyncio.to_thread(create_database, sql_shop.SHOP), ManualClock()

    def enqueue(stores: Stores, aggregate: str, message: Any) -> Any:
        return outbox.enqueue(stores, aggregate, message, queue=sql_shop.changes)

    outbox, build_change = sql_shop.OUTBOX, sql_shop.build_change
    async with sql_shop.open_shop_stores(url, clock=clock) as stores:
        await sql_shop.create_shop_queues(stores)
        queues = watch_queues(stores)
        yield Shop(outbox, sql_shop.changes, build_change, enqueue, stores, clock, queues)


@pytest.fixture(params=[open_in_tables, open_in_sql], ids=["tables", "sql"])
async def shop(request: pytest.FixtureRequest) -> AsyncIterator[Shop]:
    """An empty shop."""
    async with request.param() as shop:
        yield shop


async def test_message_exists_exactly_if_the_change_does(shop: Shop) -> None:
    await shop.change("o-1", 0)
    with pytest.raises(Conflict):
        await shop.change("o-1", 7)
    assert await shop.send_all() == 1
    assert await shop.receive_versions() == [("o-1", 1)]


async def test_rejects_a_message_that_its_queue_would_refuse_before_the_change(shop: Shop) -> None:
    with pytest.raises(InvalidRequest, match="too many"):
        shop.enqueue(shop.stores, "o-1", OrderChanged(order_id="x" * (MAX_MESSAGE_BYTES + 1), version=1))
    with pytest.raises(InvalidRequest):
        shop.enqueue(shop.stores, "o-1", OrderChanged(order_id="\ufffe", version=1))
    with pytest.raises(InvalidRequest, match="OrderChanged"):
        shop.enqueue(shop.stores, "o-1", shop.queue)


async def test_component_can_enqueue_or_relay_as_declared(shop: Shop) -> None:
    api, relay = shop.stores.for_component("api"), shop.stores.for_component("relay")
    await api.transact(*shop.build_change(api, "o-1", 0))
    with pytest.raises(ComponentRefused):
        await shop.outbox.send_unsent(api)
    with pytest.raises(ComponentRefused):
        await shop.outbox.list_unsent(api)
    with pytest.raises(ComponentRefused):
        await relay.transact(*shop.build_change(relay, "o-1", 1))
    assert (await shop.outbox.send_unsent(relay)).sent == 1


async def test_sends_all_messages_in_the_order_of_their_changes(shop: Shop) -> None:
    await shop.change("o-1", *range(30))
    for number in range(2, 40):
        await shop.change(f"o-{number}", 0)
    assert await shop.send_all() == 68
    found = await shop.receive_versions()
    assert [version for order, version in found if order == "o-1"] == list(range(1, 31))
    assert len({order for order, _ in found}) == 39
    assert await shop.list_unsent() == []
    assert await shop.send() == RelayReport()


async def test_sends_a_message_in_the_group_of_its_aggregate_with_id_and_correlation(shop: Shop) -> None:
    with bind_correlation_id("e-7"):
        await shop.change("o-1", 0)
    await shop.send()
    [message] = await receive_all(shop.stores, shop.queue)
    assert (message.group, message.correlation_id) == ("o-1", "e-7")
    assert message.announcement_id == message.incoming.deduplication


async def test_no_request_has_two_messages_of_one_aggregate(shop: Shop) -> None:
    requests: list[list[str]] = []

    async def before(send: SendMessages) -> None:
        requests.append([str(each.group) for each in send.messages])

    for order in ("o-1", "o-2", "o-3"):
        await shop.change(order, 0, 1, 2)
    shop.queues.before = before
    assert await shop.send_all() == 9
    assert all(len(set(groups)) == len(groups) for groups in requests)


@pytest.mark.parametrize("order_id", ["Bestellung 7", "käse-1", "日本", "x" * 129, "a#b", "o-1"])
async def test_every_valid_aggregate_id_has_its_own_message_group(order_id: str) -> None:
    async with open_in_tables() as shop:
        await shop.change(order_id, 0, 1)
        await shop.change("another", 0)
        assert await shop.send_all() == 3
        found = await receive_all(shop.stores, shop.queue)
        mine = [each for each in found if each.message.order_id == order_id]
        assert [each.message.version for each in mine] == [1, 2]
        assert len({each.group for each in mine}) == 1
        assert len({each.group for each in found}) == 2


async def test_resends_after_a_crash_and_the_queue_drops_the_duplicate(shop: Shop) -> None:
    await shop.change("o-1", 0, 1)
    await shop.claim_and_die(after_sending=True)
    shop.clock.moment += shop.outbox.lease_s
    assert await shop.send_all() == 2
    assert await shop.receive_versions() == [("o-1", 1), ("o-1", 2)]


async def test_claimed_messages_are_not_claimed_again_until_the_claim_expires(shop: Shop) -> None:
    await shop.change("o-1", 0)
    await shop.claim_and_die()
    await shop.change("o-1", 1)
    await shop.change("o-2", 0)
    assert await shop.send_all() == 1
    shop.clock.moment += shop.outbox.lease_s
    assert await shop.send_all() == 2
    assert await shop.receive_versions() == [("o-2", 1), ("o-1", 1), ("o-1", 2)]


async def test_relay_that_lost_its_claim_during_a_send_stops_sending(shop: Shop) -> None:
    others: list[int] = []

    async def before(send: SendMessages) -> None:
        """Let the first send outlast the claim while another relay sends everything."""
        if not others:
            others.append(0)
            shop.clock.moment += shop.outbox.lease_s + 1
            others.append(await shop.send_all())

    await shop.change("o-1", 0, 1, 2)
    shop.queues.before = before
    late = await shop.send()
    assert (others, late.sent, late.more) == ([0, 3], 1, True)  # the one it was about to send, again
    assert await shop.receive_versions() == [("o-1", 1), ("o-1", 2), ("o-1", 3)]


async def test_cancelled_relay_releases_its_claim(shop: Shop) -> None:
    is_sending = asyncio.Event()

    async def before(send: SendMessages) -> None:
        is_sending.set()
        await asyncio.Event().wait()

    await shop.change("o-1", 0, 1)
    shop.queues.before = before
    sending = asyncio.create_task(shop.send())
    await is_sending.wait()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    shop.queues.recover()
    assert await shop.send_all() == 2


@pytest.mark.proves("PG-X6")
async def test_concurrent_relays_send_nothing_twice_and_keep_the_order(shop: Shop) -> None:
    sent: list[tuple[str, int]] = []

    async def before(send: SendMessages) -> None:
        read = [OrderChanged.model_validate_json(each.body) for each in send.messages]
        sent.extend((each.order_id, each.version) for each in read)
        await asyncio.sleep(0)

    async def relay() -> None:
        while await shop.outbox.backlog(shop.stores):
            await shop.send()

    for number in range(8):
        await shop.change(f"o-{number}", *range(6))
    shop.queues.before = before
    await asyncio.gather(*[relay() for _ in range(6)])
    assert len(sent) == len(set(sent)) == 48
    for number in range(8):
        assert [version for each, version in sent if each == f"o-{number}"] == [1, 2, 3, 4, 5, 6]


@pytest.mark.proves("PG-26")
@pytest.mark.proves("PG-X8")
async def test_retries_a_failed_send_with_growing_backoff_and_then_gives_up(shop: Shop) -> None:
    shop.queues.fail(StoreUnreachable("no route to the queue"), "o-1")
    await shop.change("o-1", 0, 1)
    for pause_s, is_last in ((1, False), (2, False), (4, True)):
        report = await shop.send()
        assert (report.sent, report.failed, report.died) == (0, 1, is_last)
        shop.clock.moment += pause_s - 0.5
        assert (await shop.send()).claimed == 0
        shop.clock.moment += 0.5
    shop.clock.moment += 3600
    assert (await shop.send()).claimed == 0
    assert await shop.list_unsent() == [("o-1", 1, "dead", 3), ("o-1", 2, "pending", 0)]
    [dead] = await shop.outbox.list_unsent(shop.stores, OutboxStatus.DEAD)
    assert dead.reason == "StoreUnreachable: no route to the queue"


@pytest.mark.proves("PG-X8")
async def test_permanently_refused_message_dies_at_once_and_the_rest_is_sent(shop: Shop) -> None:
    shop.queues.fail(InvalidRequest("no such character"), "o-3")
    for number in range(6):
        await shop.change(f"o-{number}", 0)
    report = await shop.send()
    assert (report.claimed, report.sent, report.failed, report.died) == (6, 5, 1, 1)
    [dead] = await shop.outbox.list_unsent(shop.stores)
    assert (dead.aggregate, dead.queue, dead.status) == ("o-3", shop.queue.name, OutboxStatus.DEAD)
    assert (dead.attempts, dead.reason) == (1, "InvalidRequest: no such character")


async def test_dead_message_blocks_only_its_aggregate_and_goes_first_when_redriven(shop: Shop) -> None:
    shop.queues.fail(InvalidRequest("too large"))
    await shop.change("o-1", 0)
    assert (await shop.send()).died == 1
    shop.queues.recover()
    await shop.change("o-1", 1)
    await shop.change("o-2", 0)
    assert await shop.send_all() == 1
    assert await shop.receive_versions() == [("o-2", 1)]
    assert await shop.outbox.redrive(shop.stores) == 1
    assert await shop.send_all() == 2
    assert await shop.receive_versions() == [("o-1", 1), ("o-1", 2)]


async def test_redrive_leaves_messages_dead_that_do_not_match(shop: Shop) -> None:
    shop.queues.fail(InvalidRequest("too large"))
    for order in ("o-1", "o-2", "o-3"):
        await shop.change(order, 0)
        await shop.send()
        shop.clock.moment += 1
    first, *_ = await shop.outbox.list_unsent(shop.stores)
    assert await shop.outbox.redrive(shop.stores, queue="another") == 0
    assert await shop.outbox.redrive(shop.stores, "o-2", ids=[first.id]) == 0
    assert await shop.outbox.redrive(shop.stores, ids=[first.id]) == 1
    assert await shop.outbox.redrive(shop.stores, "o-2", queue=shop.queue.name) == 1
    assert await shop.list_unsent(OutboxStatus.DEAD) == [("o-3", 1, "dead", 1)]


async def test_discarded_message_unblocks_those_behind_it(shop: Shop) -> None:
    shop.queues.fail(InvalidRequest("no such character"))
    await shop.change("o-1", 0, 1)
    await shop.send()
    shop.queues.recover()
    [dead] = await shop.outbox.list_unsent(shop.stores, OutboxStatus.DEAD)
    [pending] = await shop.outbox.list_unsent(shop.stores, OutboxStatus.PENDING)
    assert await shop.outbox.discard(shop.stores, [pending.id]) == 0  # it may be in flight
    assert await shop.outbox.discard(shop.stores, [dead.id]) == 1
    assert await shop.send_all() == 1
    assert await shop.receive_versions() == [("o-1", 2)]


async def test_rejects_a_component_without_send_permission_and_kills_no_message(shop: Shop) -> None:
    await shop.change("o-1", 0)
    shop.queues.fail(ComponentRefused("relay", "OB6", ["OB2"]))
    with pytest.raises(ComponentRefused):
        await shop.send()
    assert await shop.list_unsent() == [("o-1", 1, "pending", 0)]


async def test_backlog_reports_count_and_age(shop: Shop) -> None:
    assert await shop.outbox.backlog(shop.stores) == ()
    shop.queues.fail(InvalidRequest("too large"))
    await shop.change("o-1", 0, 1)
    await shop.send()
    shop.clock.moment += 60
    await shop.change("o-2", 0)
    [backlog] = await shop.outbox.backlog(shop.stores)
    assert (backlog.queue_name, backlog.pending, backlog.dead) == (shop.queue.name, 2, 1)
    assert backlog.oldest_age_s(shop.clock.now()) == 60.0


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"batch_size": 0}, "must be at least 1"),
        ({"max_attempts": 0}, "must be at least 1"),
        ({"lease_s": 0.0}, "must be above 0"),
        ({"poll_s": 0.0}, "must be above 0"),
        ({"retry_delay_s": 10.0, "max_retry_delay_s": 1.0}, "must be above 0"),
    ],
)
def test_rejects_invalid_limits(limits: dict[str, Any], why: str) -> None:
    rate = Rate("order")
    with pytest.raises(DeclarationError, match=why):
        Outbox(order_outbox.changes, prefix="OB", rate=rate, **limits)
    with pytest.raises(DeclarationError, match=why):
        SqlOutbox(sql_shop.SHOP, queues=(sql_shop.changes,), prefix="OB", rate=rate, **limits)
