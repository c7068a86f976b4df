"""What an operation on a queue or an object needs to meet, put there before it is measured on scratch stores.

An example cannot have a receipt, which only a receive gives; nor is there a message for every example that receives.
So the queue is made anew for each run with as many messages as the operation takes, and what was received in the
operation's place. An object that an example reads is put where none is, and one that it creates is taken away;
afterwards everything is as it was. What the cache keeps is left: it may lose and gain entries at any time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from holdfast.errors import NotFound
from holdfast.model.objects import AdoptObject, HoldObject, ListObjects, PutObject, ShelfOperation
from holdfast.model.operations import Operation
from holdfast.model.queues import ChangeVisibility, DeleteReceived, QueueOperation, Receive
from holdfast.operations import objects, queues
from holdfast.runtime import Stores
from holdfast.runtime.engines import Engine

# Nobody reads it: what is received is handed on as it is.
STAND_IN = "{}"


@asynccontextmanager
async def staged(stores: Stores, operation: Operation[Any]) -> AsyncIterator[Operation[Any]]:
    """The operation as it can run now; one on tables is left as it is."""
    if isinstance(operation, QueueOperation):
        yield await _staged_queue(stores, operation)
    elif isinstance(operation, ShelfOperation) and not isinstance(operation, ListObjects):
        async with _staged_object(stores, operation):
            yield operation
    else:
        yield operation


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


@asynccontextmanager
async def _staged_object(stores: Stores, operation: Any) -> AsyncIterator[None]:
    engine, bucket = stores.engines.of("objects"), operation.shelf.bucket.physical_name(stores.environment)
    place: dict[str, Any] = {"bucket": bucket, "key": operation.key}
    before = await _object_at(engine, place)
    creates = isinstance(operation, AdoptObject) or (
        isinstance(operation, PutObject) and operation.create_only
    )
    if creates and before is not None:
        await engine.run(objects.DeleteObject(**place))
    if not isinstance(operation, PutObject | AdoptObject) and before is None:
        await engine.run(objects.PutObject(**place, body=STAND_IN.encode()))
    try:
        yield
    finally:
        await _restore(engine, place, before, operation)


async def _object_at(engine: Engine, place: dict[str, Any]) -> objects.StoredObject | None:
    try:
        found: objects.StoredObject = await engine.run(objects.GetObject(**place))
    except NotFound:
        return None
    return found


async def _restore(
    engine: Engine, place: dict[str, Any], before: objects.StoredObject | None, operation: Operation[Any]
) -> None:
    if isinstance(operation, HoldObject):
        held = before is not None and before.info.held
        await engine.run(objects.SetLegalHold(**place, held=held))
    elif before is not None and operation.writes and not before.info.held:
        info = before.info
        again = objects.PutObject(
            **place, body=before.body, content_type=info.content_type, metadata=info.metadata
        )
        await engine.run(again)
    if before is None:
        await engine.run(objects.DeleteObject(**place))
