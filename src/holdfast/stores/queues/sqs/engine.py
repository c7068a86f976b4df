"""The SQS engine: passes each operation to its function. Results and errors are the same as the embedded
engine's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar, cast

from holdfast.config.aws_clients import ServiceAddress, Timeouts, make_clients, require_sdk
from holdfast.core.errors import HoldfastError, InternalError, UnknownOperation
from holdfast.core.limits import RECEIVE_WAIT_S_MAX
from holdfast.operations import queues as ops
from holdfast.operations.queues import Operation
from holdfast.stores.queues import checks
from holdfast.stores.queues.sqs.act import messages, queues, redriving
from holdfast.stores.queues.sqs.failures import failure_of
from holdfast.stores.queues.sqs.service import Service
from holdfast.stores.retrying import Backoff, Waiting

R = TypeVar("R")
Act = Callable[[Any, Service], Awaitable[Any]]

# The most receives that may wait at once, and the most other requests in flight.
THREADS: Final = 32
# The response to a receive may take as long as the receive waits.
TIMEOUTS: Final = Timeouts(read_s=RECEIVE_WAIT_S_MAX + 10.0)

ACTS: Final[dict[type[Operation[Any]], Act]] = {
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
    ops.Redrive: redriving.redrive,
}


def open_sqs(
    address: str,
    *,
    backoff: Backoff | None = None,
    timeouts: Timeouts = TIMEOUTS,
    threads: int = THREADS,
    waiting: Waiting | None = None,
) -> SQSQueues:
    """Open queues at AWS (`sqs://us-east-1`) or at an endpoint (`sqs+http://127.0.0.1:5000`). Sends nothing
    yet.
    """
    require_sdk("The SQS engine")
    place = ServiceAddress.parse(address)
    try:
        (client,) = make_clients(("sqs",), place, timeouts, 2 * threads)
    except Exception as cause:
        raise failure_of(cause, "opening", place.display_name).error from cause
    return SQSQueues(Service(client, place.display_name, threads, backoff or Backoff(), waiting or Waiting()))


class SQSQueues:
    """The SQS queues engine, opened by `open_sqs`. Any event loop may use it, also several."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation. Every error it raises is a `HoldfastError`. A cancelled operation may still be
        done.
        """
        act = ACTS.get(type(operation))
        if act is None:
            raise UnknownOperation(f"{type(operation).__name__} is not an operation of a queues store")
        checks.check(operation)
        try:
            return cast(R, await act(operation, self._service))
        except HoldfastError:
            raise
        except Exception as error:
            # Most likely a response lacks a member that the service always sends.
            raise InternalError(f"{type(operation).__name__} could not be done: {error!r}") from error

    def close(self) -> None:
        """Wait for the responses to requests in flight, then refuse new ones."""
        self._service.close()
