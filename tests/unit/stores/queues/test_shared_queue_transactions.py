"""Embedded queues: units that share a transaction share cached rows, and see changes of the catalog."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.operations.queues import (
    ChangeVisibility,
    CreateQueue,
    DeleteMessages,
    DeleteQueue,
    DescribeQueue,
    Operation,
    OutgoingMessage,
    PurgeQueue,
    QueueDefinition,
    ReceiveMessages,
    SendMessages,
    UpdateQueue,
)
from holdfast.stores.queues.embedded import EmbeddedQueues, open_queues
from holdfast.stores.queues.embedded.storage import messages

QUEUE = QueueDefinition(name="one")


def _send() -> SendMessages:
    return SendMessages("one", (OutgoingMessage(body="words"),))


def _open(folder: Path) -> EmbeddedQueues:
    """Open queues in the folder, with one queue."""
    queues = open_queues(folder / "queues.db")
    queues.run_blocking(CreateQueue(QUEUE))
    return queues


async def test_message_sent_after_a_purge_in_its_transaction_stays(tmp_path: Path) -> None:
    with _open(tmp_path) as queues:
        await asyncio.gather(queues.run(_send()), queues.run(PurgeQueue("one")), queues.run(_send()))
        assert queues.run_blocking(DescribeQueue("one")).visible == 1


async def test_message_sent_after_a_deletion_in_its_transaction_is_refused(tmp_path: Path) -> None:
    with _open(tmp_path) as queues:
        sent, deleted = queues.run(_send()), queues.run(DeleteQueue("one"))
        outcomes = await asyncio.gather(sent, deleted, queues.run(_send()), return_exceptions=True)
        assert isinstance(outcomes[2], NotFound)
        with pytest.raises(NotFound):
            queues.run_blocking(DescribeQueue("one"))


async def test_message_sent_after_a_redefinition_in_its_transaction_follows_it(
    tmp_path: Path,
) -> None:
    slower = QueueDefinition(name="one", delay_s=60)

    with _open(tmp_path) as queues:
        await asyncio.gather(queues.run(_send()), queues.run(UpdateQueue(slower)), queues.run(_send()))
        found = queues.run_blocking(DescribeQueue("one"))
        assert (found.visible, found.delayed) == (1, 1)


def test_attributes_of_any_mapping_are_sent(tmp_path: Path) -> None:
    message = OutgoingMessage(body="words", attributes=MappingProxyType({"k": "v"}))
    with _open(tmp_path) as queues:
        queues.run_blocking(SendMessages("one", (message,)))
        (received,) = queues.run_blocking(ReceiveMessages("one"))
        assert received.attributes == {"k": "v"}


@pytest.mark.parametrize(
    "odd",
    [
        SendMessages("one", (OutgoingMessage(body="a"), OutgoingMessage(body="b", attributes=5))),  # type: ignore[arg-type]
        SendMessages("one", (OutgoingMessage(body="a"), "b")),  # type: ignore[arg-type]
        DeleteMessages("one", ("1-x", 5)),  # type: ignore[arg-type]
        ChangeVisibility("one", (None,), 3),  # type: ignore[arg-type]
    ],
    ids=["attributes", "message", "deleted receipt", "held receipt"],
)
async def test_invalid_request_fails_alone(tmp_path: Path, odd: Operation[Any]) -> None:
    with _open(tmp_path) as queues:
        outcomes: tuple[Any, ...] = await asyncio.gather(
            queues.run(_send()), queues.run(odd), queues.run(_send()), return_exceptions=True
        )
        before, refused, after = outcomes
        assert isinstance(refused, InvalidRequest)
        assert isinstance(before, tuple)
        assert isinstance(after, tuple)
        assert queues.run_blocking(DescribeQueue("one")).visible == 2


async def test_invalid_messages_are_found_before_the_first_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(attributes: Mapping[str, str]) -> bytes:
        if attributes:
            raise InvalidRequest("These attributes cannot be written.")
        return b"{}"

    monkeypatch.setattr(messages, "encode_attributes", refuse)
    with _open(tmp_path) as queues:
        odd = SendMessages(
            "one", (OutgoingMessage(body="a"), OutgoingMessage(body="b", attributes={"k": "v"}))
        )
        before, refused = await asyncio.gather(queues.run(_send()), queues.run(odd), return_exceptions=True)
        assert isinstance(refused, InvalidRequest)
        assert isinstance(before, tuple)
        assert queues.run_blocking(DescribeQueue("one")).visible == 1
