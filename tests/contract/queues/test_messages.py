"""Messages of any queue: sent, received by one at a time, held, given back, deleted."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRequest, ReceiptLost
from holdfast.operations.queues import (
    Browse,
    ChangeVisibility,
    DeleteMessages,
    Outgoing,
    ReceiveMessages,
    SendMessages,
)

from .store import LONG_S, Store, bodies, grouped, plain


def test_a_message_comes_as_it_was_sent(store: Store) -> None:
    queue = store.create()
    body = 'Grüße, {"n": 1}\n\t✓ 😀 <&>'
    (sent,) = store.send(queue, plain(body, attributes={"correlation": "c-1", "kind.of_it": "ä <b>"}))

    (received,) = store.receive(queue)
    assert (received.id, received.body, received.receives) == (sent.id, body, 1)
    assert received.attributes == {"correlation": "c-1", "kind.of_it": "ä <b>"}
    assert received.group is None and received.sequence is None and sent.sequence is None
    assert received.sent_at > 1_700_000_000


def test_all_messages_of_a_batch_come_once(store: Store) -> None:
    queue = store.create()
    sent = store.send(queue, *(plain(f"m{number}") for number in range(10)))

    received = store.receive(queue)
    assert sorted(each.id for each in received) == sorted(each.id for each in sent)
    assert len({each.receipt for each in received}) == 10
    assert store.receive(queue) == ()


def test_a_receive_gives_no_more_than_was_asked_for(store: Store) -> None:
    queue = store.create()
    store.send(queue, *(plain(f"m{number}") for number in range(5)))

    assert len(store.receive(queue, 3)) == 3
    assert len(store.receive(queue, 3)) == 2


def test_a_received_message_is_seen_by_nobody_until_its_time_is_over(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("m"))
    (first,) = store.receive(queue, visibility_s=1)

    assert store.receive(queue) == ()
    (again,) = store.awaited(queue)
    assert (again.id, again.receives) == (first.id, 2)
    assert again.receipt != first.receipt


def test_the_visibility_time_of_the_queue_holds_where_none_is_asked_for(store: Store) -> None:
    queue = store.create(visibility_s=1)
    store.send(queue, plain("m"))
    store.receive(queue)

    assert [each.receives for each in store.awaited(queue, visibility_s=60)] == [2]
    assert store.receive(queue) == ()


def test_a_message_held_for_longer_stays_out_of_sight(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("held"), plain("other"))
    held, other = sorted(store.receive(queue, visibility_s=1), key=lambda each: each.body)
    store.hold(queue, 60, held)

    # When the other one is back, the first would be too.
    assert bodies(store.awaited(queue)) == [other.body]
    assert store.receive(queue) == ()
    store.delete(queue, held)


def test_a_part_of_a_second_is_held_for_at_least_that(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("m"))
    (held,) = store.receive(queue)
    store.hold(queue, 0.4, held)

    assert bodies(store.awaited(queue)) == ["m"]


def test_a_message_given_back_is_there_at_once(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("m"))
    store.release(queue, *store.receive(queue))

    assert [each.receives for each in store.receive(queue)] == [2]


def test_a_deleted_message_does_not_come_again(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("a"), plain("b"))
    received = store.receive(queue, visibility_s=1)
    store.delete(queue, next(each for each in received if each.body == "a"))

    assert bodies(store.awaited(queue)) == ["b"]


def test_a_message_whose_time_is_over_can_still_be_deleted_while_nobody_else_has_it(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("m"))
    (received,) = store.receive(queue)
    store.release(queue, received)
    store.delete(queue, received)

    assert store.describe(queue).backlog == 0


def test_a_receipt_that_another_receive_has_replaced_is_lost(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("m"))
    (first,) = store.receive(queue)
    store.release(queue, first)
    (second,) = store.receive(queue)

    with pytest.raises(ReceiptLost):
        store.delete(queue, first)
    with pytest.raises(ReceiptLost):
        store.hold(queue, 0, first)
    assert store.describe(queue).in_flight == 1
    store.delete(queue, second)


def test_of_a_batch_with_a_lost_receipt_the_others_are_done(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("a"), plain("b"))
    a, b = store.receive(queue)

    with pytest.raises(ReceiptLost):
        store.run(DeleteMessages(queue, (a.receipt, "no-receipt-of-ours", b.receipt)))

    assert store.describe(queue).backlog == 0


def test_of_a_batch_with_a_lost_receipt_the_others_are_held(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("a"))
    (a,) = store.receive(queue)

    with pytest.raises(ReceiptLost):
        store.run(ChangeVisibility(queue, ("no-receipt-of-ours", a.receipt), 0))

    assert bodies(store.receive(queue)) == ["a"]


def test_only_a_message_in_flight_can_be_held_longer(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("m"))
    (received,) = store.receive(queue)
    store.release(queue, received)

    with pytest.raises(ReceiptLost):
        store.hold(queue, 60, received)


def test_a_delayed_message_comes_after_its_delay(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("later", delay_s=2), plain("now", delay_s=0))

    described = store.describe(queue)
    assert (described.visible, described.delayed) == (1, 1)
    assert bodies(store.receive(queue)) == ["now"]
    assert bodies(store.awaited(queue)) == ["later"]


def test_a_message_may_come_before_the_delay_of_its_queue(store: Store) -> None:
    queue = store.create(delay_s=2)
    store.send(queue, plain("delayed"), plain("at once", delay_s=0))

    assert bodies(store.receive(queue)) == ["at once"]
    assert bodies(store.awaited(queue)) == ["delayed"]


def test_the_backlog_is_told_by_what_can_be_done_with_it(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("a"), plain("b"), plain("c"), plain("d", delay_s=600))
    (held,) = store.receive(queue, 1)

    described = store.describe(queue)
    assert (described.visible, described.in_flight, described.delayed) == (2, 1, 1)
    assert described.backlog == 4
    store.delete(queue, held)
    assert store.describe(queue).in_flight == 0


def test_browsing_shows_messages_and_leaves_them(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain("a", attributes={"k": "v"}), plain("b"))

    seen = store.run(Browse(queue, 5))
    assert sorted(bodies(seen)) == ["a", "b"]
    assert {each.receipt for each in seen} == {""}
    assert {each.body: dict(each.attributes) for each in seen} == {"a": {"k": "v"}, "b": {}}
    assert len(store.run(Browse(queue, 1))) == 1
    assert store.describe(queue).visible == 2


@pytest.mark.parametrize(
    ("fifo", "message"),
    [
        (False, Outgoing(body="")),
        (False, Outgoing(body="a\x00b")),
        (False, Outgoing(body="\ud800")),
        (False, Outgoing(body="\ufffe")),
        (False, Outgoing(body="x" * (1024 * 1024 + 1))),
        (False, Outgoing(body="x" * (1024 * 1024 - 5), attributes={"a": "b"})),
        (False, Outgoing(body="x", delay_s=901)),
        (False, Outgoing(body="x", delay_s=-1)),
        (False, Outgoing(body="x", group="g")),
        (False, Outgoing(body="x", deduplication="d")),
        (False, Outgoing(body="x", attributes={"a b": "c"})),
        (False, Outgoing(body="x", attributes={"aws.x": "c"})),
        (False, Outgoing(body="x", attributes={"a": ""})),
        (False, Outgoing(body="x", attributes={f"a{number}": "v" for number in range(10)})),
        (True, Outgoing(body="x", deduplication="d")),
        (True, Outgoing(body="x", group="g")),
        (True, Outgoing(body="x", group="g", deduplication="d", delay_s=1)),
        (True, Outgoing(body="x", group="with space", deduplication="d")),
        (True, Outgoing(body="x", group="g" * 129, deduplication="d")),
        (True, Outgoing(body="x", group="g", deduplication="d" * 129)),
        (True, Outgoing(body="x", group="", deduplication="d")),
        (True, Outgoing(body="x", group="ü", deduplication="d")),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_message_that_sqs_would_not_take_is_refused_with_its_whole_batch(
    store: Store, fifo: bool, message: Outgoing
) -> None:
    queue = store.create(fifo=fifo)
    good = grouped("good") if fifo else plain("good")

    with pytest.raises(InvalidRequest):
        store.send(queue, good, message)

    assert store.describe(queue).backlog == 0


def test_the_largest_message_is_taken(store: Store) -> None:
    queue = store.create()
    body = "x" * (1024 * 1024)
    store.send(queue, plain(body))

    assert bodies(store.receive(queue)) == [body]


@pytest.mark.parametrize(
    "operation",
    [
        SendMessages("q", ()),
        SendMessages("q", (plain("x"),) * 11),
        ReceiveMessages("q", 0),
        ReceiveMessages("q", 11),
        ReceiveMessages("q", wait_s=20.5),
        ReceiveMessages("q", wait_s=-1),
        ReceiveMessages("q", visibility_s=43201),
        ReceiveMessages("q", visibility_s=float("nan")),
        DeleteMessages("q", ()),
        DeleteMessages("q", ("r",) * 11),
        ChangeVisibility("q", ("r",), 43201),
        ChangeVisibility("q", ("r",), -1),
        Browse("q", 0),
    ],
    ids=lambda operation: repr(operation)[:50],
)
def test_a_request_out_of_bounds_is_refused(store: Store, operation: SendMessages) -> None:
    with pytest.raises(InvalidRequest):
        store.run(operation)


def test_a_receive_that_waits_ends_with_nothing_where_nothing_comes(store: Store) -> None:
    assert store.receive(store.create(), wait_s=0.2) == ()
    assert LONG_S <= 20
