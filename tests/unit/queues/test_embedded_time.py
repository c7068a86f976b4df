"""The embedded engine by a clock that is moved by hand: windows, retention, long visibility, ages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.core.limits import QUEUE_SWEEP_EVERY, QUEUE_SWEEP_ROWS
from holdfast.operations.queues import (
    Browse,
    ChangeVisibility,
    CreateQueue,
    DeleteMessages,
    DescribeQueue,
    Incoming,
    Outgoing,
    QueueDefinition,
    QueueDescription,
    ReceiveMessages,
    Redrive,
    SendMessages,
    Sent,
    UpdateQueue,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues
from holdfast.stores.queues.embedded.storage import sweeping

from .hand_clock import HandClock

FIFO, PLAIN, DEAD = "orders.fifo", "orders", "dead"


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def queues(clock: HandClock) -> Iterator[EmbeddedQueues]:
    with open_queues(clock=clock) as opened:
        opened.run_blocking(CreateQueue(QueueDefinition(name=FIFO, fifo=True, retention_s=3600)))
        opened.run_blocking(CreateQueue(QueueDefinition(name=DEAD)))
        opened.run_blocking(
            CreateQueue(
                QueueDefinition(
                    name=PLAIN, retention_s=3600, dead_letters=DEAD, receives_max=1, visibility_s=30
                )
            )
        )
        yield opened


def _send(queues: EmbeddedQueues, body: str, group: str = "g", deduplication: str = "") -> Sent:
    message = Outgoing(body=body, group=group, deduplication=deduplication or body)
    return queues.run_blocking(SendMessages(FIFO, (message,)))[0]


def _send_plain(queues: EmbeddedQueues, *bodies: str, delay_s: int | None = None) -> None:
    queues.run_blocking(SendMessages(PLAIN, tuple(Outgoing(body=body, delay_s=delay_s) for body in bodies)))


def _let_die(queues: EmbeddedQueues, clock: HandClock, body: str) -> None:
    _send_plain(queues, body)
    _receive(queues, PLAIN)
    clock.move(31)
    assert _receive(queues, PLAIN) == ()


def _receive(queues: EmbeddedQueues, queue: str, count: int = 10) -> tuple[Incoming, ...]:
    return queues.run_blocking(ReceiveMessages(queue, count))


def _bodies(received: tuple[Incoming, ...]) -> list[str]:
    return [each.body for each in received]


def _described(queues: EmbeddedQueues, queue: str) -> QueueDescription:
    return queues.run_blocking(DescribeQueue(queue))


def _rows(queues: EmbeddedQueues, table: str) -> int:
    with queues.database.reading() as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").get)


def test_a_copy_is_known_for_five_minutes_from_the_first(queues: EmbeddedQueues, clock: HandClock) -> None:
    first = _send(queues, "first", deduplication="evt")
    queues.run_blocking(DeleteMessages(FIFO, (_receive(queues, FIFO)[0].receipt,)))
    clock.move(299)
    assert _send(queues, "copy", deduplication="evt") == first

    # The copy has not begun the window anew.
    clock.move(2)
    again = _send(queues, "again", deduplication="evt")
    assert again.id != first.id
    assert _bodies(_receive(queues, FIFO)) == ["again"]


def test_ids_that_are_over_are_removed_as_others_are_sent(queues: EmbeddedQueues, clock: HandClock) -> None:
    for number in range(50):
        _send(queues, f"m{number}")
    clock.move(301)
    for number in range(QUEUE_SWEEP_EVERY):
        _send(queues, f"n{number}")

    assert _rows(queues, "deduplications") == QUEUE_SWEEP_EVERY


def test_a_message_past_retention_is_neither_received_nor_counted_nor_shown(
    queues: EmbeddedQueues, clock: HandClock
) -> None:
    _send_plain(queues, "old")
    clock.move(3000)
    _send_plain(queues, "new")
    clock.move(601)

    described = _described(queues, PLAIN)
    assert (described.visible, described.oldest_age_s) == (1, 601)
    assert _bodies(queues.run_blocking(Browse(PLAIN))) == ["new"]
    assert _bodies(_receive(queues, PLAIN)) == ["new"]


def test_a_group_goes_on_when_its_head_is_past_retention(queues: EmbeddedQueues, clock: HandClock) -> None:
    _send(queues, "old")
    _receive(queues, FIFO)
    clock.move(3000)
    _send(queues, "new")
    clock.move(700)

    assert _bodies(_receive(queues, FIFO)) == ["new"]


def test_messages_past_retention_are_removed_as_others_are_sent(
    queues: EmbeddedQueues, clock: HandClock
) -> None:
    for number in range(60):
        _send(queues, f"m{number}", group=f"g{number % 7}")
    clock.move(3601)
    for number in range(QUEUE_SWEEP_EVERY):
        _send(queues, f"n{number}")

    assert _rows(queues, "messages") == QUEUE_SWEEP_EVERY
    assert _bodies(_receive(queues, FIFO)) == ["n0"]


@pytest.mark.proves("RP-2")
def test_dead_letters_past_retention_go_though_only_other_queues_are_used(
    queues: EmbeddedQueues, clock: HandClock
) -> None:
    _let_die(queues, clock, "dies")
    clock.move(5 * 86400)
    for number in range(QUEUE_SWEEP_EVERY):
        _send(queues, f"n{number}")

    assert _rows(queues, "messages") == QUEUE_SWEEP_EVERY


@pytest.mark.proves("RP-2")
def test_a_dead_letter_past_retention_does_not_come_back(queues: EmbeddedQueues, clock: HandClock) -> None:
    _let_die(queues, clock, "old")
    clock.move(2 * 86400)
    _let_die(queues, clock, "new")
    clock.move(2 * 86400 + 60)

    assert queues.run_blocking(Redrive(DEAD, PLAIN)) == 1
    assert _bodies(_receive(queues, PLAIN)) == ["new"]
    assert _rows(queues, "messages") == 1


@pytest.mark.proves("RP-2")
def test_who_waits_removes_what_is_over_though_nothing_is_sent(
    queues: EmbeddedQueues, clock: HandClock
) -> None:
    for number in range(QUEUE_SWEEP_ROWS + 20):
        _send(queues, f"m{number}", group=f"g{number}")
    _let_die(queues, clock, "dies")
    clock.move(5 * 86400)

    assert queues.run_blocking(ReceiveMessages(PLAIN, 1, wait_s=0.2)) == ()
    assert _rows(queues, "messages") == 0


def test_who_waits_where_nothing_is_over_looks_once_a_minute(
    queues: EmbeddedQueues, clock: HandClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def is_due(_: object, now: float) -> bool:
        looks.append(now)
        return False

    monkeypatch.setattr(sweeping, "is_due", is_due)
    for _ in range(3):
        queues.run_blocking(ReceiveMessages(PLAIN, 1, wait_s=0.01))
    assert len(looks) == 1
    clock.move(61)
    queues.run_blocking(ReceiveMessages(PLAIN, 1, wait_s=0.01))
    assert len(looks) == 2


def test_compacting_removes_all_that_is_over(queues: EmbeddedQueues, clock: HandClock) -> None:
    for number in range(2 * QUEUE_SWEEP_ROWS):
        _send(queues, f"m{number}")
    clock.move(3601)
    _send_plain(queues, "lives")

    assert queues.compact()
    assert _rows(queues, "messages") == 1
    assert _rows(queues, "deduplications") == 0


def test_a_shorter_retention_holds_for_what_is_there(queues: EmbeddedQueues, clock: HandClock) -> None:
    _send_plain(queues, "m")
    clock.move(100)
    queues.run_blocking(UpdateQueue(QueueDefinition(name=PLAIN, retention_s=60)))

    assert _receive(queues, PLAIN) == ()


def test_a_message_can_be_held_for_twelve_hours(queues: EmbeddedQueues, clock: HandClock) -> None:
    queues.run_blocking(UpdateQueue(QueueDefinition(name=PLAIN, retention_s=14 * 86400)))
    _send_plain(queues, "m")
    (held,) = _receive(queues, PLAIN)
    queues.run_blocking(ChangeVisibility(PLAIN, (held.receipt,), 12 * 3600))
    clock.move(12 * 3600 - 1)
    assert _receive(queues, PLAIN) == ()

    clock.move(1)
    assert _bodies(_receive(queues, PLAIN)) == ["m"]


def test_a_delay_of_fifteen_minutes_is_kept(queues: EmbeddedQueues, clock: HandClock) -> None:
    _send_plain(queues, "m", delay_s=900)
    clock.move(899)
    assert (_described(queues, PLAIN).delayed, _receive(queues, PLAIN)) == (1, ())

    clock.move(1)
    assert _bodies(_receive(queues, PLAIN)) == ["m"]


def test_the_age_of_the_oldest_is_told(queues: EmbeddedQueues, clock: HandClock) -> None:
    assert _described(queues, PLAIN).oldest_age_s is None
    _send_plain(queues, "a")
    clock.move(40)
    _send_plain(queues, "b")
    clock.move(2)

    assert _described(queues, PLAIN).oldest_age_s == 42


def test_what_is_redriven_lives_as_long_as_a_new_message(queues: EmbeddedQueues, clock: HandClock) -> None:
    _send_plain(queues, "m")
    _receive(queues, PLAIN)
    clock.move(31)
    assert _receive(queues, PLAIN) == ()
    # Longer than the queue it came from keeps a message.
    clock.move(3600)
    assert queues.run_blocking(Redrive(DEAD, PLAIN)) == 1

    clock.move(3599)
    assert [(each.body, each.receives) for each in _receive(queues, PLAIN)] == [("m", 1)]


def test_a_dead_letter_that_somebody_holds_is_not_redriven_nor_what_is_behind_it(clock: HandClock) -> None:
    with open_queues(clock=clock) as queues:
        for name in ("dead.fifo", "live.fifo"):
            queues.run_blocking(CreateQueue(QueueDefinition(name=name, fifo=True)))
        messages = tuple(
            Outgoing(body=body, group=body[0], deduplication=body) for body in ("a1", "a2", "b1")
        )
        queues.run_blocking(SendMessages("dead.fifo", messages))
        (held,) = queues.run_blocking(ReceiveMessages("dead.fifo"))
        assert held.body == "a1"

        assert queues.run_blocking(Redrive("dead.fifo", "live.fifo")) == 1
        assert _bodies(queues.run_blocking(ReceiveMessages("live.fifo", 10))) == ["b1"]


def test_a_clock_that_was_set_back_does_not_change_the_order(
    queues: EmbeddedQueues, clock: HandClock
) -> None:
    _send(queues, "1")
    clock.move(-100)
    _send(queues, "2")

    assert _bodies(queues.run_blocking(Browse(FIFO))) == ["1", "2"]


def test_without_its_dead_letter_queue_a_message_is_not_lost(
    queues: EmbeddedQueues, clock: HandClock
) -> None:
    from holdfast.operations.queues import DeleteQueue

    _send_plain(queues, "m")
    _receive(queues, PLAIN)
    queues.run_blocking(DeleteQueue(DEAD))
    clock.move(31)

    assert [each.receives for each in _receive(queues, PLAIN)] == [2]


def test_many_dead_messages_are_moved_past_in_one_receive(queues: EmbeddedQueues, clock: HandClock) -> None:
    for _ in range(30):
        _send_plain(queues, *(f"m{number}" for number in range(10)))
    for _ in range(30):
        assert len(_receive(queues, PLAIN)) == 10
    clock.move(31)
    _send_plain(queues, "alive")

    assert _bodies(_receive(queues, PLAIN, 1)) == ["alive"]
    assert _described(queues, DEAD).visible == 300
