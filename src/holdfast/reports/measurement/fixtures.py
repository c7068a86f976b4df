"""Set up the messages and objects that an operation needs before it is measured on scratch stores.

An example cannot contain a receipt, which only a receive returns, and there is no message for every example
that receives. So each run gets a new queue with as many messages as the operation takes, and the received
receipts replace those of the example. An object that an example reads is created if missing, and one that it
creates is removed first; afterwards the earlier state is restored. Cache entries are left: a cache may gain
and lose entries at any time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from holdfast.core.errors import NotFound
from holdfast.model.objects import GetOrPutObject, ListObjects, ObjectOperation, PutObject, SetLegalHold
from holdfast.model.operations import Operation
from holdfast.model.queues import ChangeVisibility, DeleteMessages, QueueOperation, Receive
from holdfast.operations import objects, queues
from holdfast.runtime import Stores
from holdfast.runtime.engines import Engine

# The content does not matter: nothing decodes it.
PLACEHOLDER_BODY = "{}"


@asynccontextmanager
async def prepare_operation(stores: Stores, operation: Operation[Any]) -> AsyncIterator[Operation[Any]]:
    """Prepare the stores and yield the operation to run. An operation on tables is unchanged."""
    if isinstance(operation, QueueOperation):
        yield await _prepare_queue(stores, operation)
    elif isinstance(operation, ObjectOperation) and not isinstance(operation, ListObjects):
        async with _prepare_object(stores, operation):
            yield operation
    else:
        yield operation


async def _prepare_queue(stores: Stores, operation: Any) -> Any:
    """Recreate the queue with the messages that the operation needs; return it with valid receipts."""
    await _recreate_queue(stores, operation)
    match operation:
        case Receive():
            await _send_messages(stores, operation, operation.count)
        case DeleteMessages() | ChangeVisibility():
            count = max(1, len(operation.receipts))
            await _send_messages(stores, operation, count)
            return replace(operation, receipts=await _receive_receipts(stores, operation, count))
    return operation


async def _recreate_queue(stores: Stores, operation: QueueOperation[Any, Any]) -> None:
    """Delete the operation's queue and create it again, empty."""
    engine = stores.engines.get("queues")
    *_, own = operation.queue.definitions(stores.environment)
    await engine.run(queues.DeleteQueue(queue=own.name))
    await engine.run(queues.CreateQueue(definition=own))


async def _send_messages(stores: Stores, operation: QueueOperation[Any, Any], count: int) -> None:
    """Send placeholder messages, each in its own group, so that one receive returns them all."""
    is_fifo = operation.queue.fifo
    messages = tuple(
        queues.OutgoingMessage(
            body=PLACEHOLDER_BODY,
            group=f"group-{number}" if is_fifo else None,
            deduplication=f"message-{number}" if is_fifo else None,
            delay_s=None if is_fifo else 0,
        )
        for number in range(count)
    )
    name = operation.queue.physical_name(stores.environment)
    await stores.engines.get("queues").run(queues.SendMessages(queue=name, messages=messages))


async def _receive_receipts(
    stores: Stores, operation: QueueOperation[Any, Any], count: int
) -> tuple[str, ...]:
    """Receive messages from the operation's queue and return their receipts."""
    name = operation.queue.physical_name(stores.environment)
    received = await stores.engines.get("queues").run(queues.ReceiveMessages(queue=name, count=count))
    return tuple(each.receipt for each in received)


@asynccontextmanager
async def _prepare_object(stores: Stores, operation: Any) -> AsyncIterator[None]:
    """Create or remove the object as the operation needs, and restore the earlier state afterwards."""
    engine, bucket = (
        stores.engines.get("objects"),
        operation.object_kind.bucket.physical_name(stores.environment),
    )
    place: dict[str, Any] = {"bucket": bucket, "key": operation.key}
    before = await _find_object(engine, place)
    creates = isinstance(operation, GetOrPutObject) or (
        isinstance(operation, PutObject) and operation.create_only
    )
    if creates and before is not None:
        await engine.run(objects.DeleteObject(**place))
    if not isinstance(operation, PutObject | GetOrPutObject) and before is None:
        await engine.run(objects.PutObject(**place, body=PLACEHOLDER_BODY.encode()))
    try:
        yield
    finally:
        await _restore_object(engine, place, before, operation)


async def _find_object(engine: Engine, location: dict[str, Any]) -> objects.StoredObject | None:
    """Return the object at the location, or None if there is none."""
    try:
        found: objects.StoredObject = await engine.run(objects.GetObject(**location))
    except NotFound:
        return None
    return found


async def _restore_object(
    engine: Engine, location: dict[str, Any], before: objects.StoredObject | None, operation: Operation[Any]
) -> None:
    """Restore the object and its legal hold as they were before the operation."""
    if isinstance(operation, SetLegalHold):
        held = before is not None and before.info.held
        await engine.run(objects.SetLegalHold(**location, held=held))
    elif before is not None and operation.writes and not before.info.held:
        info = before.info
        again = objects.PutObject(
            **location, body=before.body, content_type=info.content_type, metadata=info.metadata
        )
        await engine.run(again)
    if before is None:
        await engine.run(objects.DeleteObject(**location))
