"""Messages and outbox items that an earlier version left are received and relayed with the current code."""

from __future__ import annotations

import pytest

from holdfast import Queue, ReceivedMessage
from holdfast.core.errors import ReceiptLost
from holdfast.guarantees import OutboxStatus
from holdfast.model.queues import DeleteMessages
from holdfast.operations.queues import DescribeQueue, QueueDescription, Redrive

from . import news
from .conftest import Library
from .news import News, announced, announced_in_order, ordered, papers
from .process import RefusingQueues, replace_engines

pytestmark = pytest.mark.anyio


async def test_queue_reports_visible_in_flight_and_delayed_messages(library: Library) -> None:
    standard, fifo = await _describe(library, papers), await _describe(library, ordered)

    assert (standard.visible, standard.in_flight, standard.delayed) == (4, 2, 1)
    assert (fifo.visible, fifo.in_flight) == (5, 1)
    assert standard.definition in papers.definitions(library.stores.environment)
    assert fifo.definition in ordered.definitions(library.stores.environment)


async def test_receipt_deletes_a_message_in_flight(library: Library) -> None:
    done, left = library.notes["news"]["standard"]["in_flight"]
    await library.stores.run(DeleteMessages(papers, (done["receipt"],)))
    library.clock.advance(news.VISIBILITY_S)
    received = await _receive_all(library, papers)

    assert done["id"] not in {each.id for each in received}
    assert {each.id: each.receive_count for each in received}[left["id"]] == 2
    with pytest.raises(ReceiptLost):
        await library.stores.run(DeleteMessages(papers, (left["receipt"],)))


async def test_receives_visible_messages_and_delayed_ones_later(library: Library) -> None:
    noted = library.notes["news"]["standard"]
    received = {each.id: each for each in await _receive_all(library, papers)}
    library.clock.advance(600)
    later = await _receive_all(library, papers)

    assert received.keys() == set(noted["sent"][2:])
    assert received[noted["given_back"]["id"]].receive_count == 2
    assert "delayed" in {each.message.topic for each in later}


async def test_a_group_waits_for_its_head(library: Library) -> None:
    noted = library.notes["news"]["fifo"]
    free = [each.message for each in await _receive_all(library, ordered)]
    await library.stores.run(DeleteMessages(ordered, (noted["head"]["receipt"],)))
    blocked = [each.message for each in await _receive_all(library, ordered)]

    assert free == [news.make_news("free", number) for number in range(3)]
    assert blocked == [news.make_news("blocked", number) for number in (1, 2)]


async def test_recognizes_a_duplicate_within_its_window(library: Library) -> None:
    first = library.notes["news"]["fifo"]["sent"][0]
    before = await _describe(library, ordered)

    copy = await library.stores.run(ordered.send(news.make_news("blocked", 0)))

    assert copy.id == first["id"]
    assert (await _describe(library, ordered)).backlog == before.backlog


@pytest.mark.parametrize(
    ("queue", "topic"), [(papers, "dead"), (ordered, "doomed")], ids=["standard", "fifo"]
)
async def test_redrives_dead_letters(library: Library, queue: Queue[News], topic: str) -> None:
    environment = library.stores.environment
    dead, live = queue.physical_name(environment, dead_letter=True), queue.physical_name(environment)

    moved = await library.stores.engines.get("queues").run(Redrive(dead, live))

    assert moved == 1
    received = await _receive_all(library, queue)
    assert [each.receive_count for each in received if each.message.topic == topic] == [1]


# --- outboxes -----------------------------------------------------------------------------------------------


async def test_outboxes_list_their_unsent_items_as_before(library: Library) -> None:
    noted = library.notes["news"]["outbox"]["waiting"]

    found = [each for outbox in news.OUTBOXES for each in await outbox.list_unsent(library.stores)]

    assert [
        [each.outbox, each.aggregate, each.sequence, each.part, each.id, each.status, each.reason]
        for each in found
    ] == noted


async def test_relays_items_in_order_with_their_ids(library: Library) -> None:
    outbox, queue, stores = news.ORDERED, announced_in_order, library.stores
    ids = {
        (aggregate, sequence, part): id
        for name, aggregate, sequence, part, id, *_ in library.notes["news"]["outbox"]["waiting"]
        if name == outbox.name
    }
    first = await outbox.send_unsent(stores)
    assert first.blocked == 1
    library.clock.advance(61)
    await outbox.send_unsent(stores)

    received = await _receive_all(library, queue)

    by_topic: dict[str, list[int]] = {}
    for each in received:
        by_topic.setdefault(each.message.topic, []).append(each.message.number)
    in_order = [1, 2, 3]
    # The queue recognizes the killed relay's message as a duplicate.
    assert by_topic == {
        "pending": in_order,
        "paused": in_order,
        "sent and not removed": in_order,
        "counted": [1, 2],
    }
    announced_ids = {each.announcement_id for each in received}
    assert announced_ids == {id for (aggregate, _, _), id in ids.items() if aggregate != "dead"}


async def test_duplicate_on_a_standard_queue_has_the_id_of_the_first(library: Library) -> None:
    library.clock.advance(61)
    await news.ANNOUNCEMENTS.send_unsent(library.stores, "sent and not removed")

    received = await _receive_all(library, announced)

    assert sorted(each.message.number for each in received) == [1, 1, 2, 3]
    assert len({each.announcement_id for each in received}) == 3


async def test_redrives_a_dead_item(library: Library) -> None:
    for outbox in news.OUTBOXES:
        assert await outbox.redrive(library.stores, "dead") == 1

        assert (await outbox.send_unsent(library.stores, "dead")).sent == 3

        assert await outbox.list_unsent(library.stores, OutboxStatus.DEAD) == []


async def test_numbering_of_an_aggregate_continues(library: Library) -> None:
    for outbox in news.OUTBOXES:
        await library.stores.transact(
            *await outbox.enqueue_numbered(library.stores, "counted", news.make_news("counted", 3))
        )

        waiting = await outbox.list_unsent(library.stores)

        assert max(each.sequence for each in waiting if each.aggregate == "counted") == 2


async def test_refusals_are_still_stored_under_the_name_of_their_error(library: Library) -> None:
    if not library.is_latest:
        pytest.skip("only for the latest archive: an older version may have stored another error label")
    stored = {
        aggregate: reason
        for _, aggregate, _, _, _, _, reason in library.notes["news"]["outbox"]["waiting"]
        if reason is not None
    }
    for topic, error in news.REFUSALS.items():
        aggregate = f"again {topic}"
        item = news.ANNOUNCEMENTS.enqueue(library.stores, aggregate, news.make_news(aggregate, 1), sequence=1)
        await library.stores.transact(item)
        await news.ANNOUNCEMENTS.send_unsent(
            replace_engines(library.stores, queues=RefusingQueues(error)), aggregate
        )

    found = {each.aggregate: each.reason for each in await news.ANNOUNCEMENTS.list_unsent(library.stores)}

    assert {topic: found[f"again {topic}"] for topic in news.REFUSALS} == stored


# --- helpers ------------------------------------------------------------------------------------------------


async def _receive_all(library: Library, queue: Queue[News]) -> list[ReceivedMessage[News]]:
    """Receive all receivable messages; delete those of a FIFO queue, so that its groups continue."""
    found: list[ReceivedMessage[News]] = []
    while received := await library.stores.run(queue.receive(10)):
        found += received
        if queue.fifo:
            await library.stores.run(queue.delete(*received))
    return found


async def _describe(library: Library, queue: Queue[News]) -> QueueDescription:
    name = queue.physical_name(library.stores.environment)
    described: QueueDescription = await library.stores.engines.get("queues").run(DescribeQueue(name))
    return described
