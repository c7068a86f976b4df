"""`Stores`: a system's stores bound to engines. It checks, runs and meters operations and decodes results.

For each operation the component is checked, the operation builds its request, the engine runs it, the usage
is recorded, and the operation decodes the result. Operations that need several requests (a count over pages,
a large batch, parallel queries) are assembled here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar, cast, overload

import msgspec

from holdfast.core.clock import Clock, SystemClock
from holdfast.core.errors import (
    ComponentRefused,
    CrossStoreTransaction,
    HoldfastError,
    InvalidRequest,
    ItemUnreadable,
    NotFound,
    RetryLater,
    error_label,
)
from holdfast.core.limits import MAX_BATCH_READS, MAX_BATCH_WRITES
from holdfast.model.components import Component
from holdfast.model.entities.reads import BaseQuery, BatchGet, CountQuery, Get, PagedRead, ParallelQuery
from holdfast.model.entities.unreadable import skip_or_raise
from holdfast.model.entities.writes import BatchPut, ConditionalWrite, Transact, transact
from holdfast.model.operations import Count, EngineOperation, Operation, Page, Write
from holdfast.model.sql import SqlOperation, SqlTransact, SqlWrite
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.operations import tables as requests
from holdfast.operations.values import Item
from holdfast.runtime.engines import Engines
from holdfast.runtime.telemetry.measurements import Measurement, Measurements
from holdfast.runtime.telemetry.usage import Meter, Usage, get_active_meters, meter_usage
from holdfast.stores.sql.port import Sql, SqlNotifications, SqlTransaction
from holdfast.stores.tables.port import Tables
from holdfast.stores.tables.throttle_counts import Throttles, collect_throttles

R = TypeVar("R")
P = TypeVar("P")

MAX_PARALLEL_REQUESTS: Final = 16
MAX_BATCH_ATTEMPTS: Final = 10

# Every engine uses this text; there is no separate error type.
NO_INDEX_MESSAGE: Final = "does not have the specified index"

Observer = Callable[[Usage], None]
"""Is called with the usage of each operation."""


class Stores:
    """The stores of a system. `run` runs one operation; `for_component` returns the view of one component."""

    def __init__(
        self,
        tables: Tables,
        *,
        system: System | None = None,
        environment: str = "",
        clock: Clock | None = None,
        engines: Engines | None = None,
        close: Callable[[], Any] | None = None,
    ) -> None:
        self.tables, self.system, self.environment = tables, system, environment
        self.clock = clock or SystemClock()
        # The engines of the other stores, opened on first use.
        self.engines = engines or Engines()
        self._close = close
        self._component: Component | None = None
        # The ids of all the component's patterns, and of its writes.
        self._declared, self._writes = frozenset[str](), frozenset[str]()
        self._observers: list[Observer] = []
        self.measurements = Measurements()

    def for_component(self, name: str) -> Stores:
        """Return a view of these stores that may run only the patterns which the component declares.

        Raise `NotFound` if the system has no such component.
        """
        if self.system is None:
            raise InvalidRequest("These stores have no system, and so no components: pass Stores(system=…).")
        view = Stores(
            self.tables,
            system=self.system,
            environment=self.environment,
            clock=self.clock,
            engines=self.engines,
        )
        component = view._component = self.system.get_component(name)
        view._declared = frozenset(pattern.id for pattern in component.patterns)
        view._writes = frozenset(pattern.id for pattern in component.writes)
        view._observers, view.measurements = self._observers, self.measurements
        return view

    @property
    def component(self) -> str | None:
        """The name of the component whose view this is, or None."""
        return None if self._component is None else self._component.name

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation and return its result.

        A query or scan returns one page: `all` and `each` follow its cursor. Raise `ComponentRefused` if
        these are a component's stores and it does not declare the pattern.
        """
        if not isinstance(operation, Operation):
            raise InvalidRequest(
                f"Invalid operation {operation!r}: call a pattern, or build one from an entity."
            )
        self._check_component(operation)
        return cast(R, await self._run(operation))

    async def all(self, query: PagedRead[Any, P]) -> Page[P]:
        """Return all pages of a query or scan as one."""
        self._check_component(query)
        items: list[P] = []
        units, examined = 0.0, 0
        async for page in self._iterate_pages(query):
            items += page.items
            units, examined = units + page.units, examined + page.examined
        return Page(tuple(items), None, units, examined)

    async def each(self, query: PagedRead[Any, P]) -> AsyncIterator[P]:
        """Yield item after item of a query or scan, reading the next page when needed."""
        self._check_component(query)
        async for page in self._iterate_pages(query):
            for item in page:
                yield item

    @overload
    async def transact(self, *writes: Write[Any], token: str | None = None) -> None: ...
    @overload
    async def transact(self, *writes: SqlWrite[Any]) -> None: ...
    async def transact(self, *writes: Any, token: str | None = None) -> None:
        """Run several writes of one store, all or nothing.

        With a `token`, repeating them has no further effect.
        """
        await self.run(transact(*writes, token=token))

    @asynccontextmanager
    async def sql_transaction(self) -> AsyncIterator[SqlSession]:
        """Open a SQL transaction whose statements may depend on earlier ones: it commits at the end, or rolls
        back on an error.
        """
        async with self._get_sql().transaction() as transaction:
            yield SqlSession(self, transaction)

    def listen(self, channel: str) -> AbstractAsyncContextManager[SqlNotifications]:
        """Listen to the notifications on a channel of the SQL store. Some may be missed: poll as well."""
        return self._get_sql().listen(channel)

    def meter_usage(self) -> AbstractContextManager[Meter]:
        """Collect the usages of operations inside the `with`."""
        return meter_usage()

    def observe(self, observer: Observer) -> None:
        """Call `observer` with every usage of these stores and of every view made from them."""
        self._observers.append(observer)

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Add to a counter of the system, shown at `/metrics`. Raise `InvalidRequest` for an invalid name."""
        self.measurements.publish(Measurement(name, value, labels))

    def measure(self, name: str, value: float, **labels: str) -> None:
        """Add to a distribution of the system, such as a duration."""
        self.measurements.publish(Measurement(name, value, labels, "measure"))

    def physical_name(self, table: Table) -> str:
        """Return the table's name in the environment of these stores."""
        return table.physical_name(self.environment)

    async def close(self) -> None:
        """Close the engines. A component's view leaves that to the stores it was made from."""
        if self._component is not None:
            return
        self.engines.close()
        if self._close is not None:
            closing = self._close()
            if asyncio.iscoroutine(closing):
                await closing

    async def __aenter__(self) -> Stores:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- one operation --------------------------------------------------------------------------------------

    def _check_component(self, operation: Operation[Any]) -> None:
        """Raise `ComponentRefused` unless the component declares the pattern, and as one that writes if the
        operation writes.
        """
        if self._component is None:
            return
        parts = operation.parts if operation.pattern is None else None
        for part in (operation,) if parts is None else parts:
            if part.pattern not in (self._writes if part.writes else self._declared):
                declared = [pattern.id for pattern in self._component.patterns]
                refused = ComponentRefused(self._component.name, part.pattern, declared)
                if part.pattern in declared:
                    refused.add_note(
                        f"{part.pattern} writes, but its annotation names an operation that reads: fix it."
                    )
                raise refused

    async def _run(self, operation: Operation[Any]) -> Any:
        """Run the operation by its type, with as many requests as it needs."""
        match operation:
            case SqlTransact():
                return await self._sql_transact(operation)
            case EngineOperation():
                return operation.decode_result(await self._request_engine(operation))
            case Get() | ConditionalWrite():
                return await self._run_single(operation)
            case PagedRead():
                return await self._read_page(operation)
            case CountQuery():
                return await self._count(operation)
            case BatchGet():
                return await self._batch_get(operation)
            case BatchPut():
                return await self._batch_put(operation)
            case ParallelQuery():
                return await self._run_parallel(operation)
            case Transact():
                return await self._transact(operation)
        raise InvalidRequest(f"Invalid operation {type(operation).__name__}: these stores cannot run it.")

    async def _run_single(self, operation: Get[Any] | ConditionalWrite[Any, Any]) -> Any:
        """Run a get or a single write; raise `InvalidRequest` for a condition check."""
        request = operation.build_request(self.physical_name)
        if isinstance(request, requests.ConditionCheck):
            raise InvalidRequest(
                "A check runs only inside a transaction: pass it to transact(…) together with writes."
            )
        request_of_any: requests.Operation[Any] = request
        return operation.decode_result(await self._request_tables(operation, request_of_any))

    async def _read_page(self, query: PagedRead[Any, P]) -> Page[P]:
        """Read one page of a query or scan."""
        return query.decode_result(await self._request_tables(query, query.build_request(self.physical_name)))

    async def _iterate_pages(self, query: PagedRead[Any, P]) -> AsyncIterator[Page[P]]:
        """Yield the pages of a query or scan to the last."""
        while True:
            page = await self._read_page(query)
            yield page
            if page.cursor is None:
                return
            query = query.after(page.cursor)

    async def _count(self, operation: CountQuery[Any]) -> Count:
        """Count over all pages."""
        query: PagedRead[Any, Any] = operation.query
        found = Count(0, 0, 0.0)
        while True:
            request = replace(query, pattern=operation.pattern).build_request(
                self.physical_name, counting=True
            )
            result = await self._request_tables(operation, request)
            page = query.decode_result(result)
            found = Count(
                found.count + result.count, found.examined + page.examined, found.units + page.units
            )
            if page.cursor is None:
                return found
            query = query.after(page.cursor)

    async def _run_parallel(self, operation: ParallelQuery[P]) -> tuple[Page[P], ...]:
        """Run the queries, up to sixteen at a time, and return each one's pages as one."""
        turns = asyncio.Semaphore(MAX_PARALLEL_REQUESTS)

        async def one(query: BaseQuery[Any, P]) -> Page[P]:
            async with turns:
                return await self._read_all_pages(replace(query, pattern=operation.pattern or query.pattern))

        return tuple(await gather_or_cancel(one(query) for query in operation.queries))

    async def _read_all_pages(self, query: BaseQuery[Any, P]) -> Page[P]:
        """Return all pages of a query as one."""
        first = await self._read_page(query)
        if first.cursor is None:
            return first
        pages = [first] + [page async for page in self._iterate_pages(query.after(first.cursor))]
        return Page(
            tuple(item for page in pages for item in page),
            None,
            sum(page.units for page in pages),
            sum(page.examined for page in pages),
        )

    async def _batch_get(self, operation: BatchGet[Any]) -> tuple[Any, ...]:
        """Read the keys, each once, a hundred per request; return the items in the order of the gets, None if
        missing.
        """
        if not operation.gets:
            return ()
        first = operation.gets[0]
        wanted = list(dict.fromkeys(get.key for get in operation.gets))
        found: dict[Any, Item] = {}
        for start in range(0, len(wanted), MAX_BATCH_READS):
            keys = [dict(address) for address in wanted[start : start + MAX_BATCH_READS]]
            consistent = any(get.is_consistent for get in operation.gets)
            for item in await self._batch_get_items(operation, first, keys, consistent):
                found[tuple(first.declaration.extract_key(item).items())] = item
        return tuple(
            None if get.key not in found else _decode_or_skip(get, found[get.key]) for get in operation.gets
        )

    async def _batch_get_items(
        self, operation: BatchGet[Any], first: Get[Any], keys: list[Item], consistent: bool
    ) -> list[Item]:
        """Return the items of up to a hundred keys, requesting unprocessed ones again; raise `RetryLater`
        after ten attempts.
        """
        items: list[Item] = []
        table = self.physical_name(first.table)
        for _ in range(MAX_BATCH_ATTEMPTS):
            request = requests.BatchGetItem(
                (requests.KeysAndAttributes(table, tuple(keys), consistent),),
                hide_expired=first.table.ttl is not None,
                capacity="INDEXES",
                pattern=operation.metered_pattern,
            )
            result = await self._request_tables(operation, request)
            items += result.items.get(table, [])
            keys = [key for rest in result.unprocessed for key in rest.keys]
            if not keys:
                return items
        raise RetryLater(
            f"{len(keys)} keys of {table} stayed unprocessed after {MAX_BATCH_ATTEMPTS} attempts. Retry "
            "later, with fewer keys."
        )

    async def _batch_put(self, operation: BatchPut[Any]) -> int:
        """Write the items 25 per request and return their number; raise `InvalidRequest` for duplicate
        keys.
        """
        table = self.physical_name(operation.table) if operation.table else ""
        puts = [requests.Put(table, put.build_item()) for put in operation.puts]
        _refuse_duplicate_keys(operation, puts)
        for start in range(0, len(puts), MAX_BATCH_WRITES):
            await self._batch_write(operation, tuple(puts[start : start + MAX_BATCH_WRITES]))
        return len(puts)

    async def _batch_write(self, operation: BatchPut[Any], writes: tuple[requests.BatchWrite, ...]) -> None:
        """Write up to 25 items, sending unprocessed ones again; raise `RetryLater` after ten attempts."""
        for _ in range(MAX_BATCH_ATTEMPTS):
            request = requests.BatchWriteItem(writes, capacity="INDEXES", pattern=operation.metered_pattern)
            writes = (await self._request_tables(operation, request)).unprocessed
            if not writes:
                return
        raise RetryLater(
            f"{len(writes)} writes stayed unprocessed after {MAX_BATCH_ATTEMPTS} attempts. Retry later, with "
            "fewer."
        )

    async def _transact(self, operation: Transact) -> None:
        """Send the writes in one TransactWriteItems request."""
        actions = tuple(
            cast(ConditionalWrite[Any, Any], action).build_request(self.physical_name)
            for action in operation.actions
        )
        # Transactions return no items, and DynamoDB refuses requests that ask for them.
        actions = tuple(
            action if isinstance(action, requests.ConditionCheck) else _drop_returns(action)
            for action in actions
        )
        request = requests.TransactWriteItems(
            actions, operation.token, capacity="INDEXES", pattern=operation.metered_pattern
        )
        await self._request_tables(operation, request)

    # --- one request ----------------------------------------------------------------------------------------

    async def _request_tables(self, operation: Operation[Any], request: requests.Operation[R]) -> R:
        """Send one request to the tables engine and record its usage.

        A missing table or index adds a hint to the error.
        """
        began = time.perf_counter()
        throttles = Throttles()
        try:
            with collect_throttles() as throttles:
                result = await self.tables.run(request)
        except HoldfastError as error:
            self._record_usage(operation, began, None, error_label(error), throttles)
            if isinstance(error, NotFound) and operation.table is not None:
                error.is_for_operator = True
                error.add_note(_format_create_hint(self, operation))
            elif operation.index is not None and NO_INDEX_MESSAGE in error.message:
                error.is_for_operator = True
                error.add_note(_format_add_hint(self, operation.index))
            raise
        self._record_usage(operation, began, result, None, throttles)
        return result

    async def _request_engine(self, operation: EngineOperation[Any]) -> Any:
        """Send one request to an engine other than the tables'."""
        return await self._send_request(operation, self.engines.get(operation.store).run)

    async def _sql_transact(self, operation: SqlTransact) -> None:
        """Run the statements in one SQL transaction."""
        await self._send_request(operation, self._get_sql().run_all)

    def _get_sql(self) -> Sql:
        return cast(Sql, self.engines.get("sql"))

    async def run_in_transaction(self, transaction: SqlTransaction, operation: SqlOperation[R]) -> R:
        """Run one statement of an open transaction, checked and metered like any other."""
        self._check_component(operation)
        return operation.decode_result(await self._send_request(operation, transaction.run))

    async def _send_request(
        self, operation: EngineOperation[Any], send: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Build the operation's request, send it, and record its usage."""
        request = operation.build_request(self.environment)
        began = time.perf_counter()
        error: str | None = None
        try:
            return await send(request)
        except HoldfastError as failure:
            error = error_label(failure)
            raise
        finally:
            self._record_usage(operation, began, None, error, Throttles())

    def _record_usage(
        self, operation: Operation[Any], began: float, result: Any, error: str | None, throttles: Throttles
    ) -> None:
        """Pass the request's usage to the active meters and observers.

        `began` is from `time.perf_counter`.
        """
        meters = get_active_meters()
        if not meters and not self._observers:
            return
        read, returned = _count_items(result)
        capacity = getattr(result, "capacity", None)
        usage = Usage(
            pattern=operation.metered_pattern,
            component=self.component,
            operation=operation.kind,
            table=_get_resource_name(operation),
            index=None if operation.index is None else operation.index.name,
            items_read=read,
            items_returned=returned,
            ms=(time.perf_counter() - began) * 1000,
            capacity=capacity if isinstance(capacity, tuple) else () if capacity is None else (capacity,),
            error=error,
            throttle_events=throttles.events,
            throttled_requests=throttles.requests,
            store=operation.store,
        )
        for meter in meters:
            meter.usages.append(usage)
        for observer in self._observers:
            observer(usage)


class SqlSession:
    """An open SQL transaction that runs the statements of patterns."""

    def __init__(self, stores: Stores, transaction: SqlTransaction) -> None:
        self._stores, self._transaction = stores, transaction

    async def run(self, operation: SqlOperation[R]) -> R:
        """Run one statement in the transaction.

        Raise `CrossStoreTransaction` for an operation of another store.
        """
        if not isinstance(operation, SqlOperation):
            raise CrossStoreTransaction(["sql", getattr(operation, "store", type(operation).__name__)])
        return await self._stores.run_in_transaction(self._transaction, operation)


async def gather_or_cancel(coroutines: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """Run coroutines concurrently and return their results; the first failure cancels the others and is
    raised unchanged.

    Not a TaskGroup: it would raise an exception group, and in Python 3.11 it leaves the caller's task half
    cancelled.
    """
    tasks = [asyncio.create_task(each) for each in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _decode_or_skip(get: Get[Any], item: Item) -> Any:
    """Return the entity, or None if it is unreadable and the caller skips unreadable items."""
    try:
        return get.declaration.from_item(item)
    except ItemUnreadable as error:
        skip_or_raise(item, error)
        return None


def _refuse_duplicate_keys(operation: BatchPut[Any], puts: Sequence[requests.Put]) -> None:
    """Raise `InvalidRequest` for duplicate keys: DynamoDB only detects them within one request of a split
    batch.
    """
    seen: set[Any] = set()
    for put, written in zip(operation.puts, puts, strict=True):
        key = put.declaration.extract_key(written.item)
        if tuple(key.items()) in seen:
            raise InvalidRequest(f"Duplicate key {key} in one batch: put it once, or use two batches.")
        seen.add(tuple(key.items()))


def _get_resource_name(operation: Operation[Any]) -> str:
    """Return the logical name of the table, queue or bucket."""
    if isinstance(operation, EngineOperation):
        return operation.resource
    return "" if operation.table is None else operation.table.name


def _count_items(result: Any) -> tuple[int, int]:
    """Return the number of items read and returned; 0 for results other than of reads."""
    if isinstance(result, requests.PageResult):
        return result.scanned_count, result.count
    if isinstance(result, requests.GetItemResult):
        found = int(result.item is not None)
        return found, found
    if isinstance(result, requests.BatchGetItemResult):
        found = sum(map(len, result.items.values()))
        return found, found
    return 0, 0


def _drop_returns(action: Any) -> Any:
    """Return the write without the request for its old or new item and its capacity."""
    return msgspec.structs.replace(action, returns="NONE", capacity="NONE")


def _format_create_hint(stores: Stores, operation: Operation[Any]) -> str:
    """Return the command that creates the missing table, or shows the indexes."""
    assert operation.table is not None
    name = stores.physical_name(operation.table)
    system = "SYSTEM" if stores.system is None else stores.system.name
    if operation.index is not None:
        index = operation.index.name
        return f"Table {name}, index {index}: `holdfast indexes status {system}` shows what exists."
    return f"Table {name}: `holdfast tables {system} --create` creates what is missing."


def _format_add_hint(stores: Stores, index: Index) -> str:
    """Return how to add an index. Optional indexes are created on request, so they may be missing."""
    system = "SYSTEM" if stores.system is None else stores.system.name
    kind = "is optional" if not index.default else "is declared"
    return (
        f"The index {index.name} of {stores.physical_name(index.table)} {kind} but was not created: "
        f"`holdfast indexes add {system} --index {index.name}` adds it."
    )
