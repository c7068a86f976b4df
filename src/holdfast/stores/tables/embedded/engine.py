"""The embedded tables engine: checks each operation and passes it to its handler.

Reads run in the calling thread, on that thread's own connection. Writes go to the committer, which groups the
writes of all callers into shared transactions; a write is acknowledged when its transaction is on disk. The
core is synchronous: `run` (for asyncio) and `run_blocking` (for threads and scripts) differ only in how they
wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from types import TracebackType
from typing import Any, Final, TypeVar, cast

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import InvalidRequest, RowsDropped, StoreFileError, UnknownOperation
from holdfast.operations import tables as ops
from holdfast.operations.tables import Operation
from holdfast.operations.values import Item
from holdfast.stores.sqlite import Batch, CommitFuture, Connection, Database, Tuning
from holdfast.stores.tables.checks import requests
from holdfast.stores.tables.embedded.faults import EngineFaults
from holdfast.stores.tables.embedded.handlers import (
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
from holdfast.stores.tables.embedded.handlers.update_table import update_table
from holdfast.stores.tables.embedded.index_lag import IndexLag
from holdfast.stores.tables.embedded.jobs.erasure import ErasureReport, erase_traces
from holdfast.stores.tables.embedded.jobs.worker import Worker
from holdfast.stores.tables.embedded.storage.catalog import CatalogCache
from holdfast.stores.tables.embedded.storage.reader import KeyedReader, Reader, SalvageReader
from holdfast.stores.tables.embedded.storage.schema import SCHEMA
from holdfast.stores.tables.embedded.storage.writer import Writer

R = TypeVar("R")
ReadHandler = Callable[[Any, Any], Any]
WriteHandler = Callable[[Any, Writer], Any]

READ_HANDLERS: Final[dict[type[Operation[Any]], ReadHandler]] = {
    ops.GetItem: items.get_item,
    ops.Query: pages.query,
    ops.Scan: pages.scan,
    ops.BatchGetItem: batches.batch_get_item,
    ops.TransactGetItems: transactions.transact_get_items,
    ops.DescribeTable: tables.describe_table,
    ops.ListTables: tables.list_tables,
    ops.DescribeLimits: tables.describe_limits,
    ops.DescribeTimeToLive: time_to_live.describe_time_to_live,
    ops.ListStreams: streams.list_streams,
    ops.DescribeStream: streams.describe_stream,
    ops.GetShardIterator: streams.get_shard_iterator,
    ops.GetRecords: streams.get_records,
    ops.DescribeContinuousBackups: recovery.describe_continuous_backups,
    ops.DescribeBackup: recovery.describe_backup,
    ops.ListBackups: recovery.list_backups,
    ops.GetItemAt: item_history.get_item_at,
    ops.ListItemChanges: item_history.list_item_changes,
}

# These get a `KeyedReader`, all others a `Reader`.
KEYED_HANDLERS: Final = frozenset({items.get_item, batches.batch_get_item})

WRITE_HANDLERS: Final[dict[type[Operation[Any]], WriteHandler]] = {
    ops.PutItem: items.put_item,
    ops.UpdateItem: items.update_item,
    ops.DeleteItem: items.delete_item,
    ops.BatchWriteItem: batches.batch_write_item,
    ops.TransactWriteItems: transactions.transact_write_items,
    ops.CreateTable: tables.create_table,
    ops.UpdateTable: update_table,
    ops.DeleteTable: tables.delete_table,
    ops.UpdateTimeToLive: time_to_live.update_time_to_live,
    ops.UpdateContinuousBackups: recovery.update_continuous_backups,
    ops.RestoreTableToPointInTime: recovery.restore_table_to_point_in_time,
    ops.CreateBackup: recovery.create_backup,
    ops.DeleteBackup: recovery.delete_backup,
    ops.RestoreTableFromBackup: recovery.restore_table_from_backup,
}

# Their handlers make every check before the first write, so these operations need no savepoint.
CHECKED_BEFORE_WRITING: Final = frozenset({ops.PutItem, ops.UpdateItem, ops.DeleteItem})
# Reads that may take milliseconds to read and decode: async code runs them outside the event loop.
LONG_READS: Final = frozenset(
    {
        ops.Query, ops.Scan, ops.BatchGetItem, ops.TransactGetItems, ops.GetRecords,
        ops.GetItemAt, ops.ListItemChanges,
    }
)  # fmt: skip
SHORT_PAGE_ITEMS: Final = 25
READ_THREADS: Final = 4
STALE_RETRIES: Final = 3
# Python's errors for values that the wire would have refused.
UNSTORABLE_ERRORS: Final = (UnicodeEncodeError, RecursionError)


def open_tables(
    path: str | PathLike[str] | None = None,
    *,
    clock: Clock = SYSTEM_CLOCK,
    faults: EngineFaults | None = None,
    tuning: Tuning | None = None,
) -> EmbeddedTables:
    """Open a database file, creating it if it does not exist.

    Without a path, open tables in memory that last until `close`.
    """
    database = Database.open(":memory:" if path is None else path, SCHEMA, tuning or Tuning())
    return EmbeddedTables(database, clock, faults)


class EmbeddedTables:
    """The embedded engine, created by `open_tables`. Any thread may use it."""

    def __init__(
        self, database: Database, clock: Clock = SYSTEM_CLOCK, faults: EngineFaults | None = None
    ) -> None:
        self.database = database
        self._clock = clock
        self._faults = faults
        self._cache = CatalogCache()
        self._make_reader: Callable[[Connection, CatalogCache, Clock, Database], Reader] = Reader
        self._make_writer: Callable[[Connection, Batch, CatalogCache, float], Writer] = Writer
        if faults is not None and faults.index_lag_s:
            lag = IndexLag(faults.index_lag_s, clock)
            self._make_reader, self._make_writer = lag.make_reader, lag.make_writer
        self._threads = ThreadPoolExecutor(READ_THREADS, "holdfast-tables-read")
        self._worker = Worker(database, self._cache, clock)
        self._worker.start()

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation from an event loop.

        Long reads run in a thread, short ones in the loop's own thread.
        """
        kind = type(operation)
        if kind in WRITE_HANDLERS:
            return await self._submit(operation)
        if kind in LONG_READS and _is_long_read(operation):
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._read, operation)
        return self._read(operation)

    def run_blocking(self, operation: Operation[R]) -> R:
        """Run one operation from a thread or a script and wait for it."""
        if type(operation) in WRITE_HANDLERS:
            return self._submit(operation).result()
        return self._read(operation)

    def sweep(self) -> None:
        """Run all background work that is due, instead of waiting up to a second for the worker."""
        self._worker.sweep()

    def erase_traces(self, table: str, keys: Iterable[Item], texts: Iterable[str] = ()) -> ErasureReport:
        """Remove the traces of deleted items from the table's change log and backups.

        Return when that is done. `texts` find traces of items that were deleted earlier. Call `compact`
        afterwards to remove them from the file too.
        """
        return erase_traces(self._run_unit, table, keys, texts)

    def compact(self, *, rewrite: bool = True) -> bool:
        """Truncate the write-ahead log and, with `rewrite`, rewrite the file without deleted data.

        Return False if other readers or writers prevented it.
        """
        return self.database.compact(rewrite=rewrite)

    def close(self) -> None:
        """Finish the accepted work, then refuse every operation."""
        self._worker.close()
        self._threads.shutdown()
        self.database.close()

    def __enter__(self) -> EmbeddedTables:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run_unit(self, work: Callable[[Writer], object]) -> object:
        """Run work with a writer in one unit of work, and wait until it is on disk."""

        def unit(connection: Connection) -> object:
            writer = Writer(connection, self.database.batch(), self._cache, self._clock.now())
            result = work(writer)
            writer.finish()
            return result

        return self.database.write(unit)

    def _read(self, operation: Operation[R]) -> R:
        """Check and run a read in this thread.

        If a table was dropped meanwhile, read the catalog again and retry.
        """
        handler = READ_HANDLERS.get(type(operation))
        if handler is None:
            raise UnknownOperation(f"{type(operation).__name__} is not an operation of a tables store")
        requests.check(operation)
        if self._faults is not None:
            self._faults.raise_for(operation)
        run = self._read_keys if handler in KEYED_HANDLERS else self._read_snapshot
        for _ in range(STALE_RETRIES):
            try:
                return cast(R, run(operation, handler))
            except RowsDropped:
                # This process or another has just deleted the table or index.
                self._cache.invalidate()
            except StoreFileError:
                # An item may have been changed between two statements. The page of another may be damaged.
                run = run if handler in KEYED_HANDLERS else self._salvage
            except UNSTORABLE_ERRORS as error:
                raise _to_invalid_request(error) from error
        return cast(R, run(operation, handler))

    def _read_keys(self, operation: Operation[Any], handler: ReadHandler) -> Any:
        """Run a read of items by their keys. Each is read by one statement, which is already a snapshot."""
        with self.database.read_unverified() as connection:
            return handler(operation, KeyedReader(connection, self._cache, self._clock, self.database))

    def _read_snapshot(self, operation: Operation[Any], handler: ReadHandler) -> Any:
        """Run a read whose statements all see one state of the database."""
        with self.database.snapshot() as connection:
            return handler(operation, self._make_reader(connection, self._cache, self._clock, self.database))

    def _salvage(self, operation: Operation[Any], handler: ReadHandler) -> Any:
        """Run a read that has met a damaged page, so that it fails only if one of its own rows is damaged."""
        with self.database.snapshot() as connection, self.database.read_unverified() as unverified:
            reader = SalvageReader(connection, unverified, self._cache, self._clock, self.database)
            return handler(operation, reader)

    def _submit(self, operation: Operation[R]) -> CommitFuture[R]:
        """Check a write and submit it as a unit of work. A catalog change also wakes the worker."""
        requests.check(operation)
        if self._faults is not None:
            self._faults.raise_for(operation)
        handler = WRITE_HANDLERS[type(operation)]
        changes_catalog = not isinstance(operation, ops.ItemOperation)

        def unit(connection: Connection) -> R:
            writer = self._make_writer(connection, self.database.batch(), self._cache, self._clock.now())
            try:
                result = handler(operation, writer)
            except UNSTORABLE_ERRORS as error:
                raise _to_invalid_request(error) from error
            finally:
                if changes_catalog:
                    writer.invalidate_catalog()
            writer.finish()
            if changes_catalog:
                self.database.after_commit(self._worker.wake)
            return cast(R, result)

        return self.database.submit(unit, savepoint=type(operation) not in CHECKED_BEFORE_WRITING)


def _to_invalid_request(error: Exception) -> InvalidRequest:
    """Return the error for an item that is nested too deeply or has text that is not valid Unicode."""
    if isinstance(error, RecursionError):
        return InvalidRequest("Nesting Levels have exceeded supported limits")
    return InvalidRequest(
        "One or more parameter values were invalid: text must be valid Unicode, without lone surrogates"
    )


def _is_long_read(operation: Operation[Any]) -> bool:
    """Return whether a read may be long. A query for a few items without a filter is short."""
    if isinstance(operation, ops.Query):
        return operation.limit is None or operation.limit > SHORT_PAGE_ITEMS or operation.filter is not None
    return True
