"""Units that share a transaction share what they know of a queue, and no more than still holds."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.errors import NotFound
from holdfast.operations.queues import (
    CreateQueue,
    DeleteQueue,
    DescribeQueue,
    Outgoing,
    PurgeQueue,
    QueueDefinition,
    SendMessages,
    UpdateQueue,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues

QUEUE = QueueDefinition(name="one")


def _send() -> SendMessages:
    return SendMessages("one", (Outgoing(body="words"),))


def _opened(folder: Path) -> EmbeddedQueues:
    queues = open_queues(folder / "queues.db")
    queues.run_blocking(CreateQueue(QUEUE))
    return queues


def test_a_message_sent_in_the_transaction_of_a_purge_and_after_it_stays(tmp_path: Path) -> None:
    async def both(queues: EmbeddedQueues) -> None:
        await asyncio.gather(queues.run(_send()), queues.run(PurgeQueue("one")), queues.run(_send()))

    with _opened(tmp_path) as queues:
        asyncio.run(both(queues))
        assert queues.run_blocking(DescribeQueue("one")).visible == 1


def test_a_message_sent_in_the_transaction_of_a_deletion_and_after_it_is_refused(tmp_path: Path) -> None:
    async def both(queues: EmbeddedQueues) -> tuple[object, ...]:
        sent, deleted = queues.run(_send()), queues.run(DeleteQueue("one"))
        return await asyncio.gather(sent, deleted, queues.run(_send()), return_exceptions=True)

    with _opened(tmp_path) as queues:
        outcomes = asyncio.run(both(queues))
        assert isinstance(outcomes[2], NotFound)
        with pytest.raises(NotFound):
            queues.run_blocking(DescribeQueue("one"))


def test_a_message_sent_in_the_transaction_of_a_new_definition_and_after_it_follows_it(
    tmp_path: Path,
) -> None:
    slower = QueueDefinition(name="one", delay_s=60)

    async def both(queues: EmbeddedQueues) -> None:
        await asyncio.gather(queues.run(_send()), queues.run(UpdateQueue(slower)), queues.run(_send()))

    with _opened(tmp_path) as queues:
        asyncio.run(both(queues))
        found = queues.run_blocking(DescribeQueue("one"))
        assert (found.visible, found.delayed) == (1, 1)
