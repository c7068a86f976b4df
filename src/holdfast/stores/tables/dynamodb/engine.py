"""The DynamoDB tables engine: checks each operation and passes it to its handler.

In place of the embedded engine's `storage`, this one has `service.py`. The handlers build requests from
operations, send them, and build results from the responses. Results and errors are those of the embedded
engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from holdfast.config.aws_clients import Timeouts
from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import HoldfastError, InternalError, InvalidRequest, SettingsError, UnknownOperation
from holdfast.operations import tables as ops
from holdfast.operations.tables import Operation
from holdfast.stores.retries import Backoff, RetryTiming
from holdfast.stores.tables.checks import requests
from holdfast.stores.tables.dynamodb.clients import open_clients
from holdfast.stores.tables.dynamodb.handlers import (
    batches,
    item_history,
    items,
    pages,
    recovery,
    streams,
    tables,
    time_to_live,
    transactions,
)
from holdfast.stores.tables.dynamodb.service import Service

R = TypeVar("R")
Handler = Callable[[Any, Service], Awaitable[Any]]

THREADS: Final = 32
INVALID_TEXT: Final = (
    "One or more parameter values were invalid: text must be valid Unicode, without lone surrogates"
)
# The service's sequence numbers have more than 64 bits, which the checks would refuse.
UNCHECKED_OPERATIONS: Final = frozenset({ops.GetShardIterator, ops.GetRecords})

HANDLERS: Final[dict[type[Operation[Any]], Handler]] = {
    ops.GetItem: items.get_item,
    ops.PutItem: items.put_item,
    ops.UpdateItem: items.update_item,
    ops.DeleteItem: items.delete_item,
    ops.Query: pages.query,
    ops.Scan: pages.scan,
    ops.BatchGetItem: batches.batch_get_item,
    ops.BatchWriteItem: batches.batch_write_item,
    ops.TransactGetItems: transactions.transact_get_items,
    ops.TransactWriteItems: transactions.transact_write_items,
    ops.CreateTable: tables.create_table,
    ops.DescribeTable: tables.describe_table,
    ops.UpdateTable: tables.update_table,
    ops.DeleteTable: tables.delete_table,
    ops.ListTables: tables.list_tables,
    ops.DescribeLimits: tables.describe_limits,
    ops.UpdateTimeToLive: time_to_live.update_time_to_live,
    ops.DescribeTimeToLive: time_to_live.describe_time_to_live,
    ops.ListStreams: streams.list_streams,
    ops.DescribeStream: streams.describe_stream,
    ops.GetShardIterator: streams.get_shard_iterator,
    ops.GetRecords: streams.get_records,
    ops.DescribeContinuousBackups: recovery.describe_continuous_backups,
    ops.UpdateContinuousBackups: recovery.update_continuous_backups,
    ops.RestoreTableToPointInTime: recovery.restore_table_to_point_in_time,
    ops.CreateBackup: recovery.create_backup,
    ops.DescribeBackup: recovery.describe_backup,
    ops.DeleteBackup: recovery.delete_backup,
    ops.ListBackups: recovery.list_backups,
    ops.RestoreTableFromBackup: recovery.restore_table_from_backup,
    ops.GetItemAt: item_history.refuse_item_history,
    ops.ListItemChanges: item_history.refuse_item_history,
}


def open_dynamodb(
    *,
    region: str | None = None,
    endpoint: str | None = None,
    backoff: Backoff | None = None,
    timeouts: Timeouts | None = None,
    threads: int = THREADS,
    clock: Clock = SYSTEM_CLOCK,
    timing: RetryTiming | None = None,
) -> DynamoDBTables:
    """Open tables at AWS in a region, or at an endpoint (`http://127.0.0.1:8000`).

    Credentials, and the region if none is given, come from the SDK's standard chain. At most `threads`
    requests run at a time; further ones wait. Unusable settings raise `SettingsError`. No request is sent
    yet.
    """
    if threads < 1:
        raise SettingsError(f"Invalid threads={threads}: expected at least one")
    clients = open_clients(region, endpoint, timeouts or Timeouts(), threads)
    service = Service(clients, threads, backoff or Backoff(), timing or RetryTiming(), clock)
    return DynamoDBTables(service)


class DynamoDBTables:
    """The DynamoDB engine, created by `open_dynamodb`. One or several event loops may use it."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation. Every error it raises is a `HoldfastError`.

        A cancelled operation may still complete.
        """
        handler = HANDLERS.get(type(operation))
        if handler is None:
            raise UnknownOperation(f"{type(operation).__name__} is not an operation of a tables store")
        if type(operation) not in UNCHECKED_OPERATIONS:
            requests.check(operation)
        try:
            return cast(R, await handler(operation, self._service))
        except HoldfastError:
            raise
        except RecursionError as error:
            raise InvalidRequest("Nesting Levels have exceeded supported limits") from error
        except UnicodeEncodeError as error:
            raise InvalidRequest(INVALID_TEXT) from error
        except Exception as error:
            # Most likely a response without a member that the service always returns.
            raise InternalError(f"{type(operation).__name__} failed: {error!r}") from error

    def close(self) -> None:
        """Wait for the responses to sent requests, then refuse every operation."""
        self._service.close()

    async def __aenter__(self) -> DynamoDBTables:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)
