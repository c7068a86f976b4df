"""What cannot be done goes to the dead letters, and comes back by a redrive."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.operations.queues import Browse, Redrive

from .store import Store, bodies, grouped, plain


def test_a_message_goes_to_the_dead_letters_at_the_receive_that_would_be_one_too_many(store: Store) -> None:
    queue, dead = store.create_with_dead(receives_max=2)
    store.send(queue, plain("m", attributes={"k": "v"}))
    for _ in range(2):
        store.release(queue, *store.receive(queue))
    assert store.describe(dead).backlog == 0

    assert store.receive(queue) == ()

    (died,) = store.receive(dead)
    assert (died.body, died.attributes) == ("m", {"k": "v"})
    assert store.describe(queue).backlog == 0


def test_a_dead_letter_keeps_its_id_and_when_it_was_sent(store: Store) -> None:
    queue, dead = store.create_with_dead()
    (sent,) = store.send(queue, plain("m"))
    (received,) = store.receive(queue)
    store.release(queue, received)
    store.receive(queue)

    (died,) = store.receive(dead)
    assert (died.id, died.sent_at) == (sent.id, received.sent_at)


def test_a_dead_letter_tells_where_it_died(store: Store) -> None:
    queue, dead = store.create_with_dead()
    store.send(queue, plain("m"))
    store.release(queue, *store.receive(queue))
    store.receive(queue)

    assert [each.died_in for each in store.receive(dead)] == [queue]


def test_a_dead_letter_tells_how_often_it_was_received(store: Store) -> None:
    queue, dead = store.create_with_dead(receives_max=2)
    store.send(queue, plain("m"))
    for _ in range(2):
        store.release(queue, *store.receive(queue))
    store.receive(queue)

    assert [each.receives for each in store.receive(dead)] == [3]


def test_others_are_received_past_one_that_dies(store: Store) -> None:
    queue, _ = store.create_with_dead()
    store.send(queue, plain("dies"))
    store.release(queue, *store.receive(queue))
    store.send(queue, plain("lives"))

    assert bodies(store.receive(queue)) == ["lives"]


@pytest.mark.proves("RP-40")
def test_a_group_goes_on_when_its_first_message_has_died(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    store.send(queue, grouped("1"), grouped("2"), grouped("3"))
    for expected in ("1", "2"):
        (first,) = store.receive(queue, 1)
        assert first.body == expected
        store.release(queue, first)

    assert bodies(store.receive(queue, 1)) == ["3"]
    assert store.drained(dead) == ["1", "2"]


def test_a_dead_letter_keeps_its_group_and_its_id_against_copies(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    store.send(queue, grouped("m", "conv-1", deduplication="evt:1"))
    store.release(queue, *store.receive(queue))
    store.receive(queue)

    (died,) = store.receive(dead)
    assert (died.group, died.deduplication) == ("conv-1", "evt:1")


def _died(store: Store, queue: str, *, fifo: bool, count: int) -> None:
    message = grouped if fifo else plain
    store.send(queue, *(message(f"m{number}") for number in range(count)))
    for _ in range(count + 1):
        received = store.receive(queue, 10)
        if received:
            store.release(queue, *received)


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_a_redrive_brings_all_back_and_counts_anew(store: Store, fifo: bool) -> None:
    queue, dead = store.create_with_dead(fifo=fifo)
    _died(store, queue, fifo=fifo, count=5)
    assert store.describe(dead).visible == 5

    assert store.run(Redrive(dead, queue)) == 5

    assert store.describe(dead).backlog == 0
    received = store.receive(queue, 1)
    assert [each.receives for each in received] == [1]
    store.delete(queue, *received)
    rest = store.drained(queue)
    assert sorted([*bodies(received), *rest]) == ["m0", "m1", "m2", "m3", "m4"]


def test_a_redrive_keeps_order_group_id_and_attributes(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    for number in range(3):
        store.send(
            queue, grouped(f"{number}", "g", deduplication=f"evt:{number}", attributes={"n": f"{number}"})
        )
    for _ in range(4):
        for each in store.receive(queue, 1):
            store.release(queue, each)
    assert store.run(Redrive(dead, queue)) == 3

    for number in range(3):
        (each,) = store.receive(queue, 1)
        assert (each.body, each.group, each.deduplication) == (f"{number}", "g", f"evt:{number}")
        assert each.attributes == {"n": f"{number}"}
        store.delete(queue, each)


def test_a_redrive_moves_as_many_as_are_asked_for_oldest_first(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    _died(store, queue, fifo=True, count=4)

    assert store.run(Redrive(dead, queue, 2)) == 2

    assert store.drained(queue) == ["m0", "m1"]
    assert store.drained(dead) == ["m2", "m3"]


def test_what_was_redriven_dies_again_and_can_be_redriven_again(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    store.send(queue, grouped("m", deduplication="evt:1"))
    for _ in range(3):
        store.release(queue, *store.receive(queue))
        assert store.receive(queue) == ()
        assert store.run(Redrive(dead, queue)) == 1

    (received,) = store.receive(queue)
    assert (received.body, received.deduplication) == ("m", "evt:1")


def test_a_redrive_of_nothing_moves_nothing(store: Store) -> None:
    queue, dead = store.create_with_dead()

    assert store.run(Redrive(dead, queue)) == 0


def test_a_redrive_to_nowhere_moves_nothing(store: Store) -> None:
    queue, dead = store.create_with_dead()
    _died(store, queue, fifo=False, count=1)

    with pytest.raises(NotFound):
        store.run(Redrive(dead, store.name()))
    assert bodies(store.run(Browse(dead))) == ["m0"]


@pytest.mark.parametrize("target", ["same", "other.fifo"])
def test_a_redrive_that_makes_no_sense_is_refused(store: Store, target: str) -> None:
    with pytest.raises(InvalidRequest):
        store.run(Redrive("same", target))
