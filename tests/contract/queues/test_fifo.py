"""FIFO queues: order within a group, one in flight per group, no copies within the window."""

from __future__ import annotations

import pytest

from holdfast.core.errors import ReceiptLost

from .store import Store, bodies, grouped


@pytest.mark.proves("RP-25")
def test_messages_of_a_group_come_in_the_order_they_were_sent(store: Store) -> None:
    queue = store.create(fifo=True)
    for start in range(0, 30, 10):
        store.send(queue, *(grouped(f"{number:02}", f"g{number % 3}") for number in range(start, start + 10)))

    seen = store.drained(queue)
    for remainder in range(3):
        assert [body for body in seen if int(body) % 3 == remainder] == [
            f"{number:02}" for number in range(remainder, 30, 3)
        ]


@pytest.mark.proves("RP-25")
@pytest.mark.proves("RP-42")
def test_while_a_message_is_in_flight_its_group_waits_and_others_do_not(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, grouped("a1", "a"), grouped("a2", "a"), grouped("b1", "b"))

    (first,) = store.receive(queue, 1)
    assert first.body == "a1"
    assert bodies(store.receive(queue)) == ["b1"]
    assert store.receive(queue) == ()
    store.delete(queue, first)
    assert bodies(store.receive(queue)) == ["a2"]


def test_a_message_given_back_comes_before_those_behind_it(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, grouped("1"), grouped("2"))
    (first,) = store.receive(queue, 1)
    store.release(queue, first)

    (again,) = store.receive(queue, 1)
    assert (again.body, again.receives) == ("1", 2)


def test_a_message_whose_time_is_over_comes_before_those_behind_it(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, grouped("1"), grouped("2"))
    store.receive(queue, 1, visibility_s=1)

    assert bodies(store.awaited(queue, 1)) == ["1"]


def test_a_message_carries_group_id_and_sequence(store: Store) -> None:
    queue = store.create(fifo=True)
    first, second = store.send(
        queue, grouped("1", "conv:42/x", deduplication="evt:1"), grouped("2", deduplication="evt:2")
    )
    received = next(each for each in store.receive(queue) if each.body == "1")

    assert (received.group, received.deduplication) == ("conv:42/x", "evt:1")
    assert received.sequence == first.sequence
    assert first.sequence is not None and second.sequence is not None


def test_sequences_grow(store: Store) -> None:
    queue = store.create(fifo=True)
    sequences = [store.send(queue, grouped(str(number)))[0].sequence or 0 for number in range(15)]

    assert sequences == sorted(set(sequences))


@pytest.mark.proves("RP-X14")
def test_a_copy_within_the_window_is_not_taken_again(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, grouped("first", deduplication="evt:1"))
    store.send(
        queue, grouped("copy", "another", deduplication="evt:1"), grouped("new", deduplication="evt:2")
    )

    assert store.drained(queue) == ["first", "new"]


def test_a_copy_is_answered_with_the_id_and_sequence_of_the_first(store: Store) -> None:
    queue = store.create(fifo=True)
    first = store.send(queue, grouped("first", deduplication="evt:1"))

    assert store.send(queue, grouped("copy", deduplication="evt:1")) == first


def test_a_copy_in_the_same_batch_is_one_message(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, grouped("x", deduplication="evt:1"), grouped("x", deduplication="evt:1"))

    assert store.describe(queue).backlog == 1


def test_a_copy_is_known_also_after_the_first_was_deleted(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, grouped("first", deduplication="evt:1"))
    store.delete(queue, *store.receive(queue))
    store.send(queue, grouped("copy", deduplication="evt:1"))

    assert store.describe(queue).backlog == 0


def test_each_queue_has_its_own_window(store: Store) -> None:
    one, other = store.create(fifo=True), store.create(fifo=True)
    store.send(one, grouped("x", deduplication="evt:1"))
    store.send(other, grouped("x", deduplication="evt:1"))

    assert store.drained(other) == ["x"]


def test_by_content_equal_bodies_are_copies(store: Store) -> None:
    queue = store.create(fifo=True, content_deduplication=True)
    store.send(queue, grouped("same", deduplication=None), grouped("other", deduplication=None))
    store.send(queue, grouped("same", deduplication=None))

    assert store.drained(queue) == ["same", "other"]


def test_an_id_is_stronger_than_the_content(store: Store) -> None:
    queue = store.create(fifo=True, content_deduplication=True)
    store.send(queue, grouped("same"), grouped("same"))

    assert store.drained(queue) == ["same", "same"]


def test_the_delay_of_the_queue_keeps_every_message_back(store: Store) -> None:
    queue = store.create(fifo=True, delay_s=2)
    store.send(queue, grouped("1", "a"), grouped("2", "b"))

    described = store.describe(queue)
    assert (described.visible, described.delayed) == (0, 2)
    assert store.receive(queue) == ()
    assert store.awaited(queue)[0].body in "12"


def test_a_blocked_message_counts_as_visible(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, grouped("1"), grouped("2"), grouped("3"))
    store.receive(queue, 1)

    described = store.describe(queue)
    assert (described.visible, described.in_flight) == (2, 1)


def test_a_late_receiver_cannot_delete_what_another_has(store: Store) -> None:
    queue = store.create(fifo=True)
    store.send(queue, grouped("1"))
    (late,) = store.receive(queue, visibility_s=1)
    (now,) = store.awaited(queue, visibility_s=60)

    with pytest.raises(ReceiptLost):
        store.delete(queue, late)
    assert store.describe(queue).in_flight == 1
    store.delete(queue, now)
