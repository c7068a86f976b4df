"""The cost of embedded queue operations does not grow with stored messages: query plans and counted steps."""

from __future__ import annotations

import pytest

from holdfast.operations.queues import (
    CreateQueue,
    DeleteMessages,
    DescribeQueue,
    Operation,
    OutgoingMessage,
    QueueDefinition,
    ReceiveMessages,
    SendMessages,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues
from holdfast.stores.queues.embedded.storage import messages
from holdfast.stores.sqlite import Connection

QUEUE = "q.fifo"


def _fill(groups: int, per_group: int) -> EmbeddedQueues:
    """Return queues in memory with a FIFO queue of `groups` groups that hold `per_group` messages each."""
    queues = open_queues()
    queues.run_blocking(CreateQueue(QueueDefinition(name=QUEUE, fifo=True, visibility_s=3600)))
    every = [(group, number) for number in range(per_group) for group in range(groups)]
    for start in range(0, len(every), 10):
        _send(queues, every[start : start + 10])
    return queues


def _send(queues: EmbeddedQueues, which: list[tuple[int, int]]) -> None:
    """Send one message per pair of group and number."""
    batch = tuple(
        OutgoingMessage(body="b", group=f"g{group}", deduplication=f"{group}-{number}")
        for group, number in which
    )
    queues.run_blocking(SendMessages(QUEUE, batch))


def _count_steps(queues: EmbeddedQueues, operation: Operation[object]) -> int:
    """Count the instructions of SQLite's virtual machine for the operation."""
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 1
        return False

    queues.database.write(lambda connection: connection.set_progress_handler(count, 1))
    queues.run_blocking(operation)
    queues.database.write(lambda connection: connection.set_progress_handler(None))
    return taken


@pytest.mark.parametrize(
    "operation",
    [
        SendMessages(QUEUE, (OutgoingMessage(body="b", group="g1", deduplication="new"),)),
        ReceiveMessages(QUEUE, 10),
        DescribeQueue(QUEUE),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_a_hundred_times_as_many_messages_cost_no_more_steps(operation: Operation[object]) -> None:
    with _fill(20, 5) as few, _fill(200, 50) as many:
        assert _count_steps(few, operation) * 1.2 >= _count_steps(many, operation)


def test_receive_costs_no_more_with_ten_thousand_locked_groups() -> None:
    costs = []
    for groups in (10, 10_000):
        with _fill(groups, 2) as queues:
            for _ in range(groups // 10):
                assert len(queues.run_blocking(ReceiveMessages(QUEUE, 10))) == 10
            _send(queues, [(-1, 0)])
            costs.append(_count_steps(queues, ReceiveMessages(QUEUE, 10)))

    assert costs[1] <= costs[0] * 1.2


def test_deleting_the_head_of_a_group_costs_the_same_in_a_long_group() -> None:
    costs = []
    for length in (10, 5_000):
        with _fill(1, length) as queues:
            (held,) = queues.run_blocking(ReceiveMessages(QUEUE, 1))
            costs.append(_count_steps(queues, DeleteMessages(QUEUE, (held.receipt,))))

    assert costs[1] <= costs[0] * 1.2


@pytest.mark.parametrize(
    ("statement", "bindings", "index"),
    [
        (messages.DUE, (1, 0.0, 10), "messages_due"),
        (messages.NEXT_DUE, (1,), "messages_due"),
        (messages.HEAD, (1, "g"), "messages_group"),
        (messages.OLDEST, (1, 0.0, 0, 10), "messages_age"),
    ],
    ids=["due", "next due", "head", "oldest"],
)
def test_each_query_uses_its_index_without_scan_or_sort(
    statement: str, bindings: tuple[object, ...], index: str
) -> None:
    def plan(connection: Connection) -> str:
        return " | ".join(row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + statement, bindings))

    with open_queues() as queues:
        query_plan = queues.database.write(plan)

    assert f"INDEX {index} (" in query_plan
    assert "SCAN" not in query_plan
    assert "B-TREE" not in query_plan
