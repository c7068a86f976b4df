"""Dead letters and redrive on every queues engine."""

from __future__ import annotations

import pytest

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.operations.queues import Browse, DiscardMessages, Redrive

from .store import Store, bodies, fifo_message, plain_message


def test_moves_a_message_to_dead_letters_after_too_many_receives(store: Store) -> None:
    queue, dead = store.create_with_dead(max_receives=2)
    store.send(queue, plain_message("m", attributes={"k": "v"}))
    for _ in range(2):
        store.release(queue, *store.receive(queue))
    assert store.describe(dead).backlog == 0

    assert store.receive(queue) == ()

    (died,) = store.receive(dead)
    assert (died.body, died.attributes) == ("m", {"k": "v"})
    assert store.describe(queue).backlog == 0


def test_dead_letter_keeps_its_id_and_send_time(store: Store) -> None:
    queue, dead = store.create_with_dead()
    (sent,) = store.send(queue, plain_message("m"))
    (received,) = store.receive(queue)
    store.release(queue, received)
    store.receive(queue)

    (died,) = store.receive(dead)
    assert (died.id, died.sent_at) == (sent.id, received.sent_at)


def test_dead_letter_names_its_source_queue(store: Store) -> None:
    queue, dead = store.create_with_dead()
    store.send(queue, plain_message("m"))
    store.release(queue, *store.receive(queue))
    store.receive(queue)

    assert [each.died_in for each in store.receive(dead)] == [queue]


def test_dead_letter_reports_its_receive_count(store: Store) -> None:
    queue, dead = store.create_with_dead(max_receives=2)
    store.send(queue, plain_message("m"))
    for _ in range(2):
        store.release(queue, *store.receive(queue))
    store.receive(queue)

    assert [each.receives for each in store.receive(dead)] == [3]


def test_receives_other_messages_past_a_dead_one(store: Store) -> None:
    queue, _ = store.create_with_dead()
    store.send(queue, plain_message("dies"))
    store.release(queue, *store.receive(queue))
    store.send(queue, plain_message("lives"))

    assert bodies(store.receive(queue)) == ["lives"]


@pytest.mark.proves("RP-40")
def test_group_continues_after_its_first_message_dies(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    store.send(queue, fifo_message("1"), fifo_message("2"), fifo_message("3"))
    for expected in ("1", "2"):
        (first,) = store.receive(queue, 1)
        assert first.body == expected
        store.release(queue, first)

    assert bodies(store.receive(queue, 1)) == ["3"]
    assert store.drain(dead) == ["1", "2"]


def test_dead_letter_keeps_its_group_and_deduplication_id(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    store.send(queue, fifo_message("m", "conv-1", deduplication="evt:1"))
    store.release(queue, *store.receive(queue))
    store.receive(queue)

    (died,) = store.receive(dead)
    assert (died.group, died.deduplication) == ("conv-1", "evt:1")


def _make_dead_letters(store: Store, queue: str, *, fifo: bool, count: int) -> None:
    """Send `count` messages and receive them until all are dead letters (the queue allows one receive)."""
    message = fifo_message if fifo else plain_message
    store.send(queue, *(message(f"m{number}") for number in range(count)))
    for _ in range(count + 1):
        received = store.receive(queue, 10)
        if received:
            store.release(queue, *received)


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_redrive_returns_all_messages_and_resets_their_receive_counts(store: Store, fifo: bool) -> None:
    queue, dead = store.create_with_dead(fifo=fifo)
    _make_dead_letters(store, queue, fifo=fifo, count=5)
    assert store.describe(dead).visible == 5

    assert store.run(Redrive(dead, queue)) == 5

    assert store.describe(dead).backlog == 0
    received = store.receive(queue, 1)
    assert [each.receives for each in received] == [1]
    store.delete(queue, *received)
    rest = store.drain(queue)
    assert sorted([*bodies(received), *rest]) == ["m0", "m1", "m2", "m3", "m4"]


def test_a_redrive_keeps_order_group_id_and_attributes(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    for number in range(3):
        store.send(
            queue,
            fifo_message(f"{number}", "g", deduplication=f"evt:{number}", attributes={"n": f"{number}"}),
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


def test_redrive_moves_the_requested_number_oldest_first(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    _make_dead_letters(store, queue, fifo=True, count=4)

    assert store.run(Redrive(dead, queue, 2)) == 2

    assert store.drain(queue) == ["m0", "m1"]
    assert store.drain(dead) == ["m2", "m3"]


def test_redriven_message_can_die_and_be_redriven_again(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    store.send(queue, fifo_message("m", deduplication="evt:1"))
    for _ in range(3):
        store.release(queue, *store.receive(queue))
        assert store.receive(queue) == ()
        assert store.run(Redrive(dead, queue)) == 1

    (received,) = store.receive(queue)
    assert (received.body, received.deduplication) == ("m", "evt:1")


def test_redrive_of_an_empty_queue_moves_nothing(store: Store) -> None:
    queue, dead = store.create_with_dead()

    assert store.run(Redrive(dead, queue)) == 0


def test_redrive_without_a_target_moves_nothing(store: Store) -> None:
    queue, dead = store.create_with_dead()
    _make_dead_letters(store, queue, fifo=False, count=1)

    with pytest.raises(NotFound):
        store.run(Redrive(dead, store.name()))
    assert bodies(store.run(Browse(dead))) == ["m0"]


@pytest.mark.parametrize("target", ["same", "other.fifo"])
def test_rejects_an_invalid_redrive(store: Store, target: str) -> None:
    with pytest.raises(InvalidRequest):
        store.run(Redrive("same", target))


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_redrives_only_the_selected_messages(store: Store, fifo: bool) -> None:
    queue, dead = store.create_with_dead(fifo=fifo)
    _make_dead_letters(store, queue, fifo=fifo, count=4)
    ids = {each.body: each.id for each in store.run(Browse(dead))}

    assert store.run(Redrive(dead, queue, ids=(ids["m2"], "unknown"))) == 1

    assert store.drain(queue) == ["m2"]
    assert sorted(store.drain(dead)) == ["m0", "m1", "m3"]


def test_redrives_only_the_selected_group(store: Store) -> None:
    queue, dead = store.create_with_dead(fifo=True)
    store.send(queue, *(fifo_message(f"{group}{number}", group) for number in range(2) for group in "ab"))
    for _ in range(5):
        if received := store.receive(queue, 10):
            store.release(queue, *received)

    assert store.run(Redrive(dead, queue, group="b")) == 2

    assert store.drain(queue) == ["b0", "b1"]
    assert store.drain(dead) == ["a0", "a1"]


@pytest.mark.parametrize("fifo", [False, True], ids=["standard", "fifo"])
def test_discards_only_the_selected_messages(store: Store, fifo: bool) -> None:
    queue, dead = store.create_with_dead(fifo=fifo)
    _make_dead_letters(store, queue, fifo=fifo, count=3)
    ids = {each.body: each.id for each in store.run(Browse(dead))}

    assert store.run(DiscardMessages(dead, (ids["m0"], "unknown"))) == 1

    assert store.run(DiscardMessages(dead, (ids["m0"],))) == 0
    assert sorted(store.drain(dead)) == ["m1", "m2"]


def test_does_not_discard_a_message_that_a_receiver_holds(store: Store) -> None:
    queue, dead = store.create_with_dead()
    _make_dead_letters(store, queue, fifo=False, count=1)
    (held,) = store.receive(dead)

    assert store.run(DiscardMessages(dead, (held.id,))) == 0

    store.release(dead, held)
    assert store.drain(dead) == ["m0"]


@pytest.mark.parametrize("ids", [(), (1,)])
def test_rejects_invalid_message_ids(store: Store, ids: tuple[str, ...]) -> None:
    with pytest.raises(InvalidRequest, match="expected at least one"):
        store.run(DiscardMessages("dead", ids))
    with pytest.raises(InvalidRequest, match="expected at least one"):
        store.run(Redrive("dead", "live", ids=ids))
