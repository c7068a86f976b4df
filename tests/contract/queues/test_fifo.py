"""FIFO queues on every engine: order in a group, one message in flight per group, deduplication."""

from __future__ import annotations

import pytest

from holdfast.core.errors import ReceiptLost

from .store import Store, bodies, fifo_message


@pytest.mark.proves("RP-25")
def test_messages_of_a_group_come_in_the_order_they_were_sent(store: Store) -> None:
    queue = store.create(fifo=True)
    for start in range(0, 30, 10):
        store.send(
            queue, *(fifo_message(f"{number:02}", f"g{number % 3}") for number in range(start, start + 10))
        )

    seen = store.drain(queue)
    for remainder in range(3):
        assert [body for body in seen if int(body) % 3 == remainder] == [
            f"{number:02}" for number in range(remainder, 30, 3)
        ]


@pytest.mark.proves("RP-25")
@pytest.mark.proves("RP-42")
def test_message_in_flight_blocks_only_its_group(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, fifo_message("a1", "a"), fifo_message("a2", "a"), fifo_message("b1", "b"))

    (first,) = store.receive(queue, 1)
    assert first.body == "a1"
    assert bodies(store.receive(queue)) == ["b1"]
    assert store.receive(queue) == ()
    store.delete(queue, first)
    assert bodies(store.receive(queue)) == ["a2"]


def test_released_message_keeps_its_place(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, fifo_message("1"), fifo_message("2"))
    (first,) = store.receive(queue, 1)
    store.release(queue, first)

    (again,) = store.receive(queue, 1)
    assert (again.body, again.receives) == ("1", 2)


def test_timed_out_message_keeps_its_place(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, fifo_message("1"), fifo_message("2"))
    store.receive(queue, 1, visibility_s=1)

    assert bodies(store.receive_waiting(queue, 1)) == ["1"]


def test_a_message_carries_group_id_and_sequence(store: Store) -> None:
    queue = store.create(fifo=True)
    first, second = store.send(
        queue, fifo_message("1", "conv:42/x", deduplication="evt:1"), fifo_message("2", deduplication="evt:2")
    )
    received = next(each for each in store.receive(queue) if each.body == "1")

    assert (received.group, received.deduplication) == ("conv:42/x", "evt:1")
    assert received.sequence == first.sequence
    assert first.sequence is not None and second.sequence is not None


def test_sequences_grow(store: Store) -> None:
    queue = store.create(fifo=True)
    sequences = [store.send(queue, fifo_message(str(number)))[0].sequence or 0 for number in range(15)]

    assert sequences == sorted(set(sequences))


@pytest.mark.proves("RP-X14")
def test_duplicate_within_the_window_is_dropped(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, fifo_message("first", deduplication="evt:1"))
    store.send(
        queue,
        fifo_message("copy", "another", deduplication="evt:1"),
        fifo_message("new", deduplication="evt:2"),
    )

    assert store.drain(queue) == ["first", "new"]


def test_duplicate_gets_the_id_and_sequence_of_the_original(store: Store) -> None:
    queue = store.create(fifo=True)
    first = store.send(queue, fifo_message("first", deduplication="evt:1"))

    assert store.send(queue, fifo_message("copy", deduplication="evt:1")) == first


def test_duplicates_in_one_batch_are_one_message(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, fifo_message("x", deduplication="evt:1"), fifo_message("x", deduplication="evt:1"))

    assert store.describe(queue).backlog == 1


def test_duplicate_is_recognized_after_the_original_was_deleted(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, fifo_message("first", deduplication="evt:1"))
    store.delete(queue, *store.receive(queue))
    store.send(queue, fifo_message("copy", deduplication="evt:1"))

    assert store.describe(queue).backlog == 0


def test_each_queue_has_its_own_window(store: Store) -> None:
    one, other = store.create(fifo=True), store.create(fifo=True)
    store.send(one, fifo_message("x", deduplication="evt:1"))
    store.send(other, fifo_message("x", deduplication="evt:1"))

    assert store.drain(other) == ["x"]


def test_content_deduplication_drops_equal_bodies(store: Store) -> None:
    queue = store.create(fifo=True, content_deduplication=True)
    store.send(queue, fifo_message("same", deduplication=None), fifo_message("other", deduplication=None))
    store.send(queue, fifo_message("same", deduplication=None))

    assert store.drain(queue) == ["same", "other"]


def test_deduplication_id_overrides_the_content(store: Store) -> None:
    queue = store.create(fifo=True, content_deduplication=True)
    store.send(queue, fifo_message("same"), fifo_message("same"))

    assert store.drain(queue) == ["same", "same"]


def test_queue_delay_applies_to_every_message(store: Store) -> None:
    queue = store.create(fifo=True, delay_s=2)
    store.send(queue, fifo_message("1", "a"), fifo_message("2", "b"))

    described = store.describe(queue)
    assert (described.visible, described.delayed) == (0, 2)
    assert store.receive(queue) == ()
    assert store.receive_waiting(queue)[0].body in "12"


def test_a_blocked_message_counts_as_visible(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, fifo_message("1"), fifo_message("2"), fifo_message("3"))
    store.receive(queue, 1)

    described = store.describe(queue)
    assert (described.visible, described.in_flight) == (2, 1)


def test_late_receiver_cannot_delete_a_message_of_another(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, fifo_message("1"))
    (late,) = store.receive(queue, visibility_s=1)
    (now,) = store.receive_waiting(queue, visibility_s=60)

    with pytest.raises(ReceiptLost):
        store.delete(queue, late)
    assert store.describe(queue).in_flight == 1
    store.delete(queue, now)
