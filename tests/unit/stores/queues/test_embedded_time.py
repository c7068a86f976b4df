"""The embedded queues with a clock moved by hand: deduplication window, retention, delays and ages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.core.errors import ReceiptLost
from holdfast.core.limits import QUEUE_SWEEP_EVERY, QUEUE_SWEEP_ROWS
from holdfast.operations.queues import (
    Browse,
    ChangeVisibility,
    CreateQueue,
    DeleteMessages,
    DescribeQueue,
    IncomingMessage,
    OutgoingMessage,
    QueueDefinition,
    QueueDescription,
    ReceiveMessages,
    Redrive,
    SendMessages,
    SentMessage,
    UpdateQueue,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues
from holdfast.stores.queues.embedded.storage import sweeper

from .fake_clock import FakeClock

FIFO, PLAIN, DEAD = "orders.fifo", "orders", "dead"
DAY_S = 86_400.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queues(clock: FakeClock) -> Iterator[EmbeddedQueues]:
    """Yield a FIFO queue, a standard queue that allows one receive, and its dead-letter queue."""
    with open_queues(clock=clock) as opened:
        opened.run_blocking(CreateQueue(QueueDefinition(name=FIFO, fifo=True, retention_s=3600)))
        opened.run_blocking(CreateQueue(QueueDefinition(name=DEAD)))
        opened.run_blocking(
            CreateQueue(
                QueueDefinition(
                    name=PLAIN, retention_s=3600, dead_letters=DEAD, max_receives=1, visibility_s=30
                )
            )
        )
        yield opened


def _send(queues: EmbeddedQueues, body: str, group: str = "g", deduplication: str = "") -> SentMessage:
    """Send a message to the FIFO queue; its deduplication id is its body unless one is given."""
    message = OutgoingMessage(body=body, group=group, deduplication=deduplication or body)
    return queues.run_blocking(SendMessages(FIFO, (message,)))[0]


def _send_plain(queues: EmbeddedQueues, *bodies: str, delay_s: int | None = None) -> None:
    """Send messages to the standard queue."""
    queues.run_blocking(
        SendMessages(PLAIN, tuple(OutgoingMessage(body=body, delay_s=delay_s) for body in bodies))
    )


def _make_dead_letter(queues: EmbeddedQueues, clock: FakeClock, body: str) -> None:
    """Send a message and let its only receive time out, so that it becomes a dead letter."""
    _send_plain(queues, body)
    _receive(queues, PLAIN)
    clock.advance(31)
    assert _receive(queues, PLAIN) == ()


def _receive(queues: EmbeddedQueues, queue: str, count: int = 10) -> tuple[IncomingMessage, ...]:
    return queues.run_blocking(ReceiveMessages(queue, count))


def _bodies(received: tuple[IncomingMessage, ...]) -> list[str]:
    return [each.body for each in received]


def _describe(queues: EmbeddedQueues, queue: str) -> QueueDescription:
    return queues.run_blocking(DescribeQueue(queue))


def _rows(queues: EmbeddedQueues, table: str) -> int:
    """Count the rows of a table in the file."""
    with queues.database.read_connection() as connection:
        return int(connection.execute(f"SELECT count(*) FROM {table}").get)


def test_recognizes_duplicates_for_five_minutes_after_the_original(
    queues: EmbeddedQueues, clock: FakeClock
) -> None:
    first = _send(queues, "first", deduplication="evt")
    queues.run_blocking(DeleteMessages(FIFO, (_receive(queues, FIFO)[0].receipt,)))
    clock.advance(299)
    assert _send(queues, "copy", deduplication="evt") == first

    # The duplicate has not restarted the window.
    clock.advance(2)
    again = _send(queues, "again", deduplication="evt")
    assert again.id != first.id
    assert _bodies(_receive(queues, FIFO)) == ["again"]


def test_sending_removes_expired_deduplication_ids(queues: EmbeddedQueues, clock: FakeClock) -> None:
    for number in range(50):
        _send(queues, f"m{number}")
    clock.advance(301)
    for number in range(QUEUE_SWEEP_EVERY):
        _send(queues, f"n{number}")

    assert _rows(queues, "deduplications") == QUEUE_SWEEP_EVERY


def test_a_message_past_retention_is_neither_received_nor_counted_nor_shown(
    queues: EmbeddedQueues, clock: FakeClock
) -> None:
    _send_plain(queues, "old")
    clock.advance(3000)
    _send_plain(queues, "new")
    clock.advance(601)

    described = _describe(queues, PLAIN)
    assert (described.visible, described.oldest_age_s) == (1, 601)
    assert _bodies(queues.run_blocking(Browse(PLAIN))) == ["new"]
    assert _bodies(_receive(queues, PLAIN)) == ["new"]


def test_group_continues_when_its_head_is_past_retention(queues: EmbeddedQueues, clock: FakeClock) -> None:
    _send(queues, "old")
    _receive(queues, FIFO)
    clock.advance(3000)
    _send(queues, "new")
    clock.advance(700)

    assert _bodies(_receive(queues, FIFO)) == ["new"]


def test_sending_removes_messages_past_retention(queues: EmbeddedQueues, clock: FakeClock) -> None:
    for number in range(60):
        _send(queues, f"m{number}", group=f"g{number % 7}")
    clock.advance(3601)
    for number in range(QUEUE_SWEEP_EVERY):
        _send(queues, f"n{number}")

    assert _rows(queues, "messages") == QUEUE_SWEEP_EVERY
    assert _bodies(_receive(queues, FIFO)) == ["n0"]


@pytest.mark.proves("RP-2")
def test_activity_on_other_queues_removes_dead_letters_past_retention(
    queues: EmbeddedQueues, clock: FakeClock
) -> None:
    _make_dead_letter(queues, clock, "dies")
    clock.advance(5 * 86400)
    for number in range(QUEUE_SWEEP_EVERY):
        _send(queues, f"n{number}")

    assert _rows(queues, "messages") == QUEUE_SWEEP_EVERY


@pytest.mark.proves("RP-2")
def test_dead_letter_past_retention_is_not_redriven(queues: EmbeddedQueues, clock: FakeClock) -> None:
    _make_dead_letter(queues, clock, "old")
    clock.advance(2 * 86400)
    _make_dead_letter(queues, clock, "new")
    clock.advance(2 * 86400 + 60)

    assert queues.run_blocking(Redrive(DEAD, PLAIN)) == 1
    assert _bodies(_receive(queues, PLAIN)) == ["new"]
    assert _rows(queues, "messages") == 1


@pytest.mark.proves("RP-2")
def test_waiting_receiver_removes_expired_messages(queues: EmbeddedQueues, clock: FakeClock) -> None:
    for number in range(QUEUE_SWEEP_ROWS + 20):
        _send(queues, f"m{number}", group=f"g{number}")
    _make_dead_letter(queues, clock, "dies")
    clock.advance(5 * 86400)

    assert queues.run_blocking(ReceiveMessages(PLAIN, 1, wait_s=0.2)) == ()
    assert _rows(queues, "messages") == 0


def test_waiting_receiver_checks_for_expired_messages_once_a_minute(
    queues: EmbeddedQueues, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def is_due(_: object, now: float) -> bool:
        looks.append(now)
        return False

    monkeypatch.setattr(sweeper, "is_sweep_due", is_due)
    for _ in range(3):
        queues.run_blocking(ReceiveMessages(PLAIN, 1, wait_s=0.01))
    assert len(looks) == 1
    clock.advance(61)
    queues.run_blocking(ReceiveMessages(PLAIN, 1, wait_s=0.01))
    assert len(looks) == 2


def test_compacting_removes_all_expired_rows(queues: EmbeddedQueues, clock: FakeClock) -> None:
    for number in range(2 * QUEUE_SWEEP_ROWS):
        _send(queues, f"m{number}")
    clock.advance(3601)
    _send_plain(queues, "lives")

    assert queues.compact()
    assert _rows(queues, "messages") == 1
    assert _rows(queues, "deduplications") == 0


def test_shorter_retention_applies_to_existing_messages(queues: EmbeddedQueues, clock: FakeClock) -> None:
    _send_plain(queues, "m")
    clock.advance(100)
    queues.run_blocking(UpdateQueue(QueueDefinition(name=PLAIN, retention_s=60)))

    assert _receive(queues, PLAIN) == ()


def test_a_message_can_be_held_for_twelve_hours(queues: EmbeddedQueues, clock: FakeClock) -> None:
    queues.run_blocking(UpdateQueue(QueueDefinition(name=PLAIN, retention_s=14 * 86400)))
    _send_plain(queues, "m")
    (held,) = _receive(queues, PLAIN)
    queues.run_blocking(ChangeVisibility(PLAIN, (held.receipt,), 12 * 3600))
    clock.advance(12 * 3600 - 1)
    assert _receive(queues, PLAIN) == ()

    clock.advance(1)
    assert _bodies(_receive(queues, PLAIN)) == ["m"]


def test_honours_a_delay_of_fifteen_minutes(queues: EmbeddedQueues, clock: FakeClock) -> None:
    _send_plain(queues, "m", delay_s=900)
    clock.advance(899)
    assert (_describe(queues, PLAIN).delayed, _receive(queues, PLAIN)) == (1, ())

    clock.advance(1)
    assert _bodies(_receive(queues, PLAIN)) == ["m"]


def test_describes_the_age_of_the_oldest_message(queues: EmbeddedQueues, clock: FakeClock) -> None:
    assert _describe(queues, PLAIN).oldest_age_s is None
    _send_plain(queues, "a")
    clock.advance(40)
    _send_plain(queues, "b")
    clock.advance(2)

    assert _describe(queues, PLAIN).oldest_age_s == 42


def test_redriven_message_has_a_full_retention_period(queues: EmbeddedQueues, clock: FakeClock) -> None:
    _send_plain(queues, "m")
    _receive(queues, PLAIN)
    clock.advance(31)
    assert _receive(queues, PLAIN) == ()
    # Longer than the retention period of its source queue.
    clock.advance(3600)
    assert queues.run_blocking(Redrive(DEAD, PLAIN)) == 1

    clock.advance(3599)
    assert [(each.body, each.receives) for each in _receive(queues, PLAIN)] == [("m", 1)]


def test_dead_letter_in_flight_blocks_the_redrive_of_its_group(clock: FakeClock) -> None:
    with open_queues(clock=clock) as queues:
        for name in ("dead.fifo", "live.fifo"):
            queues.run_blocking(CreateQueue(QueueDefinition(name=name, fifo=True)))
        messages = tuple(
            OutgoingMessage(body=body, group=body[0], deduplication=body) for body in ("a1", "a2", "b1")
        )
        queues.run_blocking(SendMessages("dead.fifo", messages))
        (held,) = queues.run_blocking(ReceiveMessages("dead.fifo"))
        assert held.body == "a1"

        assert queues.run_blocking(Redrive("dead.fifo", "live.fifo")) == 1
        assert _bodies(queues.run_blocking(ReceiveMessages("live.fifo", 10))) == ["b1"]


def test_a_clock_that_was_set_back_does_not_change_the_order(
    queues: EmbeddedQueues, clock: FakeClock
) -> None:
    _send(queues, "1")
    clock.advance(-100)
    _send(queues, "2")

    assert _bodies(queues.run_blocking(Browse(FIFO))) == ["1", "2"]


# --- wrong clocks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [FIFO, PLAIN])
def test_message_received_a_day_ahead_is_visible_after_its_visibility_timeout(
    name: str, queues: EmbeddedQueues, clock: FakeClock
) -> None:
    queues.run_blocking(UpdateQueue(QueueDefinition(name=name, fifo=name == FIFO, visibility_s=30)))
    _send(queues, "m") if name == FIFO else _send_plain(queues, "m")
    clock.advance(DAY_S)
    (held,) = _receive(queues, name)
    clock.advance(-DAY_S)
    assert _receive(queues, name) == ()
    clock.advance(29)
    assert _receive(queues, name) == ()
    clock.advance(1)
    assert [(each.body, each.receives) for each in _receive(queues, name)] == [("m", 2)]
    with pytest.raises(ReceiptLost):
        queues.run_blocking(DeleteMessages(name, (held.receipt,)))


def test_visibility_timeout_extended_a_day_ahead_lasts_as_long_as_it_was_extended(
    queues: EmbeddedQueues, clock: FakeClock
) -> None:
    queues.run_blocking(UpdateQueue(QueueDefinition(name=PLAIN)))
    _send_plain(queues, "m")
    (held,) = _receive(queues, PLAIN)
    clock.advance(DAY_S)
    (held,) = _receive(queues, PLAIN)
    queues.run_blocking(ChangeVisibility(PLAIN, (held.receipt,), 600))
    clock.advance(-DAY_S)
    for _ in range(2):
        assert _receive(queues, PLAIN) == ()
        clock.advance(300)
    assert _bodies(_receive(queues, PLAIN)) == ["m"]


def test_messages_sent_a_day_ahead_are_received_in_order(queues: EmbeddedQueues, clock: FakeClock) -> None:
    clock.advance(DAY_S)
    for body in "123":
        _send(queues, body)
    clock.advance(-DAY_S)
    for body in "123":
        (found,) = _receive(queues, FIFO)
        assert found.body == body
        queues.run_blocking(DeleteMessages(FIFO, (found.receipt,)))


def test_message_delayed_a_day_ahead_is_due_after_its_delay(queues: EmbeddedQueues, clock: FakeClock) -> None:
    clock.advance(DAY_S)
    _send_plain(queues, "m", delay_s=60)
    clock.advance(-DAY_S)
    assert _receive(queues, PLAIN) == ()
    clock.advance(59)
    assert _receive(queues, PLAIN) == ()
    clock.advance(1)
    assert _bodies(_receive(queues, PLAIN)) == ["m"]


def test_messages_hidden_a_day_ahead_are_found_while_others_are_due(
    queues: EmbeddedQueues, clock: FakeClock
) -> None:
    queues.run_blocking(UpdateQueue(QueueDefinition(name=PLAIN, visibility_s=30)))
    _send_plain(queues, "lost")
    clock.advance(DAY_S)
    _receive(queues, PLAIN)
    clock.advance(-DAY_S)
    seen: list[str] = []
    for number in range(6 * QUEUE_SWEEP_EVERY):
        _send_plain(queues, str(number))
        (found,) = queues.run_blocking(ReceiveMessages(PLAIN, 1))
        queues.run_blocking(DeleteMessages(PLAIN, (found.receipt,)))
        seen.append(found.body)
        clock.advance(1)
    assert "lost" in seen


def test_deduplication_id_of_a_day_ahead_is_remembered_for_the_window(
    queues: EmbeddedQueues, clock: FakeClock
) -> None:
    clock.advance(DAY_S)
    first = _send(queues, "1", deduplication="d")
    clock.advance(-DAY_S)
    assert _send(queues, "2", deduplication="d").id == first.id
    clock.advance(299)
    assert _send(queues, "3", deduplication="d").id == first.id
    clock.advance(1)
    assert _send(queues, "4", deduplication="d").id != first.id


def test_process_a_day_behind_does_not_receive_a_message_whose_receiver_is_alive(tmp_path: Path) -> None:
    clock, late = FakeClock(), FakeClock()
    late.advance(-DAY_S)
    with (
        open_queues(tmp_path / "q.db", clock=clock) as queues,
        open_queues(tmp_path / "q.db", clock=late) as behind,
    ):
        queues.run_blocking(CreateQueue(QueueDefinition(name=PLAIN, visibility_s=30)))
        _send_plain(queues, "m")
        (held,) = _receive(queues, PLAIN)
        for _ in range(6):
            assert _receive(behind, PLAIN) == ()
            clock.advance(20)
            late.advance(20)
            queues.run_blocking(ChangeVisibility(PLAIN, (held.receipt,), 30))
        queues.run_blocking(DeleteMessages(PLAIN, (held.receipt,)))


def test_without_its_dead_letter_queue_a_message_is_not_lost(
    queues: EmbeddedQueues, clock: FakeClock
) -> None:
    from holdfast.operations.queues import DeleteQueue

    _send_plain(queues, "m")
    _receive(queues, PLAIN)
    queues.run_blocking(DeleteQueue(DEAD))
    clock.advance(31)

    assert [each.receives for each in _receive(queues, PLAIN)] == [2]


def test_many_dead_messages_are_moved_past_in_one_receive(queues: EmbeddedQueues, clock: FakeClock) -> None:
    for _ in range(30):
        _send_plain(queues, *(f"m{number}" for number in range(10)))
    for _ in range(30):
        assert len(_receive(queues, PLAIN)) == 10
    clock.advance(31)
    _send_plain(queues, "alive")

    assert _bodies(_receive(queues, PLAIN, 1)) == ["alive"]
    assert _describe(queues, DEAD).visible == 300
