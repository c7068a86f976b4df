"""The SQS queues engine: checks each operation and passes it to its handler.

Results and errors are the same as the embedded engine's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from holdfast.config.aws_clients import ServiceAddress, Timeouts, make_clients, require_sdk
from holdfast.core.errors import HoldfastError, InternalError, UnknownOperation
from holdfast.core.limits import MAX_RECEIVE_WAIT_S
from holdfast.operations import queues as ops
from holdfast.operations.queues import Operation
from holdfast.stores.queues import checks
from holdfast.stores.queues.sqs.errors import map_error
from holdfast.stores.queues.sqs.handlers import messages, queues, redrive
from holdfast.stores.queues.sqs.service import Service
from holdfast.stores.retries import Backoff, RetryTiming

R = TypeVar("R")
Handler = Callable[[Any, Service], Awaitable[Any]]

# The most receives that may wait at once, and the most other requests in flight.
THREADS: Final = 32
# The response to a receive may take as long as the receive waits.
TIMEOUTS: Final = Timeouts(read_s=MAX_RECEIVE_WAIT_S + 10.0)

HANDLERS: Final[dict[type[Operation[Any]], Handler]] = {
    ops.CreateQueue: queues.create_queue,
    ops.UpdateQueue: queues.update_queue,
    ops.DeleteQueue: queues.delete_queue,
    ops.PurgeQueue: queues.purge_queue,
    ops.ListQueues: queues.list_queues,
    ops.DescribeQueue: queues.describe_queue,
    ops.SendMessages: messages.send_messages,
    ops.ReceiveMessages: messages.receive_messages,
    ops.DeleteMessages: messages.delete_messages,
    ops.ChangeVisibility: messages.change_visibility,
    ops.Browse: messages.browse,
    ops.Redrive: redrive.redrive,
    ops.DiscardMessages: redrive.discard_messages,
}


def open_sqs(
    address: str,
    *,
    backoff: Backoff | None = None,
    timeouts: Timeouts = TIMEOUTS,
    threads: int = THREADS,
    timing: RetryTiming | None = None,
) -> SQSQueues:
    """Open queues at AWS (`sqs://us-east-1`) or at an endpoint (`sqs+http://127.0.0.1:5000`).

    Sends nothing yet. `threads` is the most receives that may wait at once, and also the most other requests
    in flight.
    """
    require_sdk("The SQS engine")
    parsed = ServiceAddress.parse(address)
    try:
        (client,) = make_clients(("sqs",), parsed, timeouts, 2 * threads)
    except Exception as cause:
        raise map_error(cause, "opening", parsed.display_name).error from cause
    return SQSQueues(
        Service(client, parsed.display_name, threads, backoff or Backoff(), timing or RetryTiming())
    )


class SQSQueues:
    """The SQS queues engine, opened by `open_sqs`. Any event loop may use it, also several."""

    can_peek = False

    def __init__(self, service: Service) -> None:
        self._service = service

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation. Every error it raises is a `HoldfastError`.

        A cancelled operation may still be done.
        """
        handler = HANDLERS.get(type(operation))
        if handler is None:
            raise UnknownOperation(f"{type(operation).__name__} is not an operation of a queues store")
        checks.check(operation)
        try:
            return cast(R, await handler(operation, self._service))
        except HoldfastError:
            raise
        except Exception as error:
            # Most likely a response lacks a member that the service always sends.
            raise InternalError(f"{type(operation).__name__} failed: {error!r}") from error

    def close(self) -> None:
        """Wait for the responses to requests in flight, then refuse new ones."""
        self._service.close()
