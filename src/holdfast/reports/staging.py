"""What an operation on a queue or an object needs to meet, put there before it is measured on scratch stores.

An example cannot have a receipt, which only a receive gives; nor is there a message for every example that receives.
So the queue is made anew for each run with as many messages as the operation takes, and what was received in the
operation's place. An object that an example reads is put where none is, and one that it creates is taken away.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from holdfast.errors import NotFound
from holdfast.model.objects import GetObject, HeadObject, HoldObject, PutObject, ShelfOperation
from holdfast.model.operations import Operation
from holdfast.model.queues import ChangeVisibility, DeleteReceived, QueueOperation, Receive
from holdfast.operations import objects, queues
from holdfast.runtime import Stores

O = TypeVar("O", bound=Operation[Any])  # noqa: E741 - an operation

# Nobody reads it: what is received is handed on as it is.
STAND_IN = "{}"


async def staged(stores: Stores, operation: O) -> O:
    """The operation as it can run now; one on tables is left as it is."""
    if isinstance(operation, QueueOperation):
        return await _staged_queue(stores, operation)
    if isinstance(operation, ShelfOperation):
        await _stage_object(stores, operation)
    return operation


async def _staged_queue(stores: Stores, operation: Any) -> Any:
    await _make_anew(stores, operation)
    match operation:
        case Receive():
            await _send(stores, operation, operation.count)
        case DeleteReceived() | ChangeVisibility():
            count = max(1, len(operation.receipts))
            await _send(stores, operation, count)
            return replace(operation, receipts=await _receipts(stores, operation, count))
    return operation


async def _make_anew(stores: Stores, operation: QueueOperation[Any, Any]) -> None:
    engine = stores.engines.of("queues")
    *_, own = operation.queue.definitions(stores.environment)
    await engine.run(queues.DeleteQueue(queue=own.name))
    await engine.run(queues.CreateQueue(definition=own))


async def _send(stores: Stores, operation: QueueOperation[Any, Any], count: int) -> None:
    """Each in a group of its own, so that one receive gives them all."""
    is_fifo = operation.queue.fifo
    messages = tuple(
        queues.Outgoing(
            body=STAND_IN,
            group=f"group-{number}" if is_fifo else None,
            deduplication=f"message-{number}" if is_fifo else None,
            delay_s=None if is_fifo else 0,
        )
        for number in range(count)
    )
    name = operation.queue.physical_name(stores.environment)
    await stores.engines.of("queues").run(queues.SendMessages(queue=name, messages=messages))


async def _receipts(stores: Stores, operation: QueueOperation[Any, Any], count: int) -> tuple[str, ...]:
    name = operation.queue.physical_name(stores.environment)
    received = await stores.engines.of("queues").run(queues.ReceiveMessages(queue=name, count=count))
    return tuple(each.receipt for each in received)


async def _stage_object(stores: Stores, operation: ShelfOperation[Any]) -> None:
    engine, bucket = stores.engines.of("objects"), operation.shelf.bucket.physical_name(stores.environment)
    match operation:
        case PutObject(create_only=True):
            await engine.run(objects.DeleteObject(bucket=bucket, key=operation.key))
        case GetObject() | HeadObject() | HoldObject():
            try:
                await engine.run(objects.HeadObject(bucket=bucket, key=operation.key))
            except NotFound:
                await engine.run(objects.PutObject(bucket=bucket, key=operation.key, body=STAND_IN.encode()))
