"""The checksum of a message does not depend on how its values were given, nor on the release of a library."""

from __future__ import annotations

from enum import Enum

from holdfast.operations.queues import (
    ChangeVisibility,
    CreateQueue,
    OutgoingMessage,
    QueueDefinition,
    ReceiveMessages,
    SendMessages,
)
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.queues.embedded.storage.messages import compute_sum
from tests.unit.stores.queues.fake_clock import FakeClock


class Name(str):
    """A text of a subclass of `str`."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"Name({super().__str__()})"


class Topic(str, Enum):  # noqa: UP042
    """An enumeration whose texts are formatted as names of members."""

    news = "topic-news"


def test_sum_of_a_stored_message_never_changes() -> None:
    columns = (
        7,
        "id-1",
        "g",
        None,
        1_800_000_000.25,
        1_800_000_030.0,
        None,
        30.0,
        2,
        "ab",
        "q",
        b"{}",
        "bödy",
    )
    assert compute_sum(columns) == 2267797205
    assert len({compute_sum((*columns[:at], "other", *columns[at + 1 :])) for at in range(13)}) == 13


def test_texts_of_subclasses_are_received() -> None:
    with open_queues() as queues:
        queues.run_blocking(CreateQueue(QueueDefinition(name="steps.fifo", fifo=True)))
        for body, group in ((Name("one"), Name("g")), ("two", Topic.news)):
            message = OutgoingMessage(body=body, group=group, deduplication=Name(body))
            queues.run_blocking(SendMessages("steps.fifo", (message,)))
        received = queues.run_blocking(ReceiveMessages("steps.fifo", 10))
    assert [(each.body, each.group) for each in received] == [("one", "g"), ("two", "topic-news")]


def test_whole_numbers_of_seconds_are_stored_as_times() -> None:
    clock = FakeClock(1_800_000_000)
    with open_queues(clock=clock) as queues:
        queues.run_blocking(CreateQueue(QueueDefinition(name="jobs", visibility_s=10, delay_s=5)))
        queues.run_blocking(SendMessages("jobs", (OutgoingMessage(body="one"),)))
        for _ in range(2):
            clock.advance(5)
            (held,) = queues.run_blocking(ReceiveMessages("jobs"))
            queues.run_blocking(ChangeVisibility("jobs", (held.receipt,), 5))
