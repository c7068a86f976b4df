"""Messages on every queues engine: send, receive, visibility timeouts, delays, delete and browse."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRequest, ReceiptLost
from holdfast.operations.queues import (
    Browse,
    ChangeVisibility,
    DeleteMessages,
    OutgoingMessage,
    ReceiveMessages,
    SendMessages,
)

from .store import LONG_S, Store, bodies, fifo_message, plain_message


def test_message_arrives_as_sent(store: Store) -> None:
    queue = store.create()
    body = 'Grüße, {"n": 1}\n\t✓ 😀 <&>'
    (sent,) = store.send(queue, plain_message(body, attributes={"correlation": "c-1", "kind.of_it": "ä <b>"}))

    (received,) = store.receive(queue)
    assert (received.id, received.body, received.receives) == (sent.id, body, 1)
    assert received.attributes == {"correlation": "c-1", "kind.of_it": "ä <b>"}
    assert received.group is None and received.sequence is None and sent.sequence is None
    assert received.sent_at > 1_700_000_000


def test_every_message_of_a_batch_arrives_once(store: Store) -> None:
    queue = store.create()
    sent = store.send(queue, *(plain_message(f"m{number}") for number in range(10)))

    received = store.receive(queue)
    assert sorted(each.id for each in received) == sorted(each.id for each in sent)
    assert len({each.receipt for each in received}) == 10
    assert store.receive(queue) == ()


def test_receive_returns_at_most_the_requested_count(store: Store) -> None:
    queue = store.create()
    store.send(queue, *(plain_message(f"m{number}") for number in range(5)))

    assert len(store.receive(queue, 3)) == 3
    assert len(store.receive(queue, 3)) == 2


def test_received_message_is_invisible_until_its_visibility_timeout(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("m"))
    (first,) = store.receive(queue, visibility_s=1)

    assert store.receive(queue) == ()
    (again,) = store.receive_waiting(queue)
    assert (again.id, again.receives) == (first.id, 2)
    assert again.receipt != first.receipt


def test_visibility_timeout_defaults_to_that_of_the_queue(store: Store) -> None:
    queue = store.create(visibility_s=1)
    store.send(queue, plain_message("m"))
    store.receive(queue)

    assert [each.receives for each in store.receive_waiting(queue, visibility_s=60)] == [2]
    assert store.receive(queue) == ()


def test_extended_message_stays_invisible(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("held"), plain_message("other"))
    held, other = sorted(store.receive(queue, visibility_s=1), key=lambda each: each.body)
    store.hold(queue, 60, held)

    # When the other one is visible again, the first would be too.
    assert bodies(store.receive_waiting(queue)) == [other.body]
    assert store.receive(queue) == ()
    store.delete(queue, held)


def test_fractional_visibility_timeout_is_accepted(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("m"))
    (held,) = store.receive(queue)
    store.hold(queue, 0.4, held)

    assert bodies(store.receive_waiting(queue)) == ["m"]


def test_released_message_is_visible_at_once(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("m"))
    store.release(queue, *store.receive(queue))

    assert [each.receives for each in store.receive(queue)] == [2]


def test_deleted_message_is_not_received_again(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("a"), plain_message("b"))
    received = store.receive(queue, visibility_s=1)
    store.delete(queue, next(each for each in received if each.body == "a"))

    assert bodies(store.receive_waiting(queue)) == ["b"]


def test_timed_out_message_can_be_deleted_until_received_again(store: Store) -> None:
    """A receipt stays valid after its message was released, until the next receive."""
    queue = store.create()
    store.send(queue, plain_message("m"))
    (received,) = store.receive(queue)
    store.release(queue, received)
    store.delete(queue, received)

    assert store.describe(queue).backlog == 0


def test_receipt_expires_when_the_message_is_received_again(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("m"))
    (first,) = store.receive(queue)
    store.release(queue, first)
    (second,) = store.receive(queue)

    with pytest.raises(ReceiptLost):
        store.delete(queue, first)
    with pytest.raises(ReceiptLost):
        store.hold(queue, 0, first)
    assert store.describe(queue).in_flight == 1
    store.delete(queue, second)


def test_lost_receipt_does_not_stop_other_deletes_of_a_batch(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("a"), plain_message("b"))
    a, b = store.receive(queue)

    with pytest.raises(ReceiptLost):
        store.run(DeleteMessages(queue, (a.receipt, "no-receipt-of-ours", b.receipt)))

    assert store.describe(queue).backlog == 0


def test_lost_receipt_does_not_stop_other_extensions_of_a_batch(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("a"))
    (a,) = store.receive(queue)

    with pytest.raises(ReceiptLost):
        store.run(ChangeVisibility(queue, ("no-receipt-of-ours", a.receipt), 0))

    assert bodies(store.receive(queue)) == ["a"]


def test_only_a_message_in_flight_can_be_held_longer(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("m"))
    (received,) = store.receive(queue)
    store.release(queue, received)

    with pytest.raises(ReceiptLost):
        store.hold(queue, 60, received)


def test_delayed_message_arrives_after_its_delay(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("later", delay_s=2), plain_message("now", delay_s=0))

    described = store.describe(queue)
    assert (described.visible, described.delayed) == (1, 1)
    assert bodies(store.receive(queue)) == ["now"]
    assert bodies(store.receive_waiting(queue)) == ["later"]


def test_message_delay_may_be_shorter_than_the_queue_delay(store: Store) -> None:
    queue = store.create(delay_s=2)
    store.send(queue, plain_message("delayed"), plain_message("at once", delay_s=0))

    assert bodies(store.receive(queue)) == ["at once"]
    assert bodies(store.receive_waiting(queue)) == ["delayed"]


def test_describes_the_backlog_by_visibility(store: Store) -> None:
    queue = store.create()
    store.send(
        queue, plain_message("a"), plain_message("b"), plain_message("c"), plain_message("d", delay_s=600)
    )
    (held,) = store.receive(queue, 1)

    described = store.describe(queue)
    assert (described.visible, described.in_flight, described.delayed) == (2, 1, 1)
    assert described.backlog == 4
    store.delete(queue, held)
    assert store.describe(queue).in_flight == 0


def test_browsing_shows_messages_and_leaves_them(store: Store) -> None:
    queue = store.create()
    store.send(queue, plain_message("a", attributes={"k": "v"}), plain_message("b"))

    seen = store.run(Browse(queue, 5))
    assert sorted(bodies(seen)) == ["a", "b"]
    assert {each.receipt for each in seen} == {""}
    assert {each.body: dict(each.attributes) for each in seen} == {"a": {"k": "v"}, "b": {}}
    assert len(store.run(Browse(queue, 1))) == 1
    assert store.describe(queue).visible == 2


@pytest.mark.parametrize(
    ("fifo", "message"),
    [
        (False, OutgoingMessage(body="")),
        (False, OutgoingMessage(body="a\x00b")),
        (False, OutgoingMessage(body="\ud800")),
        (False, OutgoingMessage(body="\ufffe")),
        (False, OutgoingMessage(body="x" * (1024 * 1024 + 1))),
        (False, OutgoingMessage(body="x" * (1024 * 1024 - 5), attributes={"a": "b"})),
        (False, OutgoingMessage(body="x", delay_s=901)),
        (False, OutgoingMessage(body="x", delay_s=-1)),
        (False, OutgoingMessage(body="x", group="g")),
        (False, OutgoingMessage(body="x", deduplication="d")),
        (False, OutgoingMessage(body="x", attributes={"a b": "c"})),
        (False, OutgoingMessage(body="x", attributes={"aws.x": "c"})),
        (False, OutgoingMessage(body="x", attributes={"a": ""})),
        (False, OutgoingMessage(body="x", attributes={f"a{number}": "v" for number in range(10)})),
        (True, OutgoingMessage(body="x", deduplication="d")),
        (True, OutgoingMessage(body="x", group="g")),
        (True, OutgoingMessage(body="x", group="g", deduplication="d", delay_s=1)),
        (True, OutgoingMessage(body="x", group="with space", deduplication="d")),
        (True, OutgoingMessage(body="x", group="g" * 129, deduplication="d")),
        (True, OutgoingMessage(body="x", group="g", deduplication="d" * 129)),
        (True, OutgoingMessage(body="x", group="", deduplication="d")),
        (True, OutgoingMessage(body="x", group="ü", deduplication="d")),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_message_that_sqs_refuses_fails_the_whole_batch(
    store: Store, fifo: bool, message: OutgoingMessage
) -> None:
    queue = store.create(fifo=fifo)
    good = fifo_message("good") if fifo else plain_message("good")

    with pytest.raises(InvalidRequest):
        store.send(queue, good, message)

    assert store.describe(queue).backlog == 0


def test_accepts_the_largest_message(store: Store) -> None:
    queue = store.create()
    body = "x" * (1024 * 1024)
    store.send(queue, plain_message(body))

    assert bodies(store.receive(queue)) == [body]


@pytest.mark.parametrize(
    "operation",
    [
        SendMessages("q", ()),
        SendMessages("q", (plain_message("x"),) * 11),
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


def test_waiting_receive_ends_empty_without_messages(store: Store) -> None:
    assert store.receive(store.create(), wait_s=0.2) == ()
    assert LONG_S <= 20
