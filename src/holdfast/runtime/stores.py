"""`Stores`: a system's stores bound to engines. It checks, runs and meters operations and decodes results.

For each operation the component is checked, the operation builds its request, the engine runs it, the usage
is recorded, and the operation decodes the result. An operation that needs several requests (a count over
pages, a large batch, parallel queries) sends them through `request_tables`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final, TypeVar, cast, overload

from holdfast.core.clock import Clock, SystemClock
from holdfast.core.deadlines import DeadlineWatch
from holdfast.core.errors import (
    ComponentRefused,
    CrossStoreTransaction,
    HoldfastError,
    InvalidRequest,
    NotFound,
    error_label,
)
from holdfast.model.components import Component
from holdfast.model.entities.reads import PagedRead
from holdfast.model.entities.writes import transact
from holdfast.model.operations import EngineOperation, Operation, Page, Write
from holdfast.model.sql import SqlOperation, SqlTransact, SqlWrite
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.operations import tables as requests
from holdfast.runtime.engines import Engines
from holdfast.runtime.telemetry.measurements import Measurement, Measurements
from holdfast.runtime.telemetry.usage import Meter, Usage, get_active_meters, meter_usage
from holdfast.stores.sql.port import Sql, SqlNotifications, SqlTransaction
from holdfast.stores.tables.port import Tables
from holdfast.stores.tables.throttle_counts import Throttles, collect_throttles

R = TypeVar("R")
P = TypeVar("P")

# Every engine uses this text; there is no separate error type.
NO_INDEX_MESSAGE: Final = "does not have the specified index"

Observer = Callable[[Usage], None]
"""Is called with the usage of each operation."""


class Stores:
    """The stores of a system. `run` runs one operation; `for_component` returns the view of one component."""

    def __init__(
        self,
        tables: Tables | None = None,
        *,
        system: System | None = None,
        environment: str = "",
        clock: Clock | None = None,
        engines: Engines | None = None,
    ) -> None:
        self.system, self.environment = system, environment
        self.clock = clock or SystemClock()
        # Bounds the deadlines that processes with another clock wrote.
        self.deadlines = DeadlineWatch(self.clock)
        # Opened on first use, and closed with these stores. An engine given as `tables` stays open.
        self.engines = engines or Engines()
        self._tables = tables
        self._is_view = False
        self._component: Component | None = None
        # The ids of all the component's patterns, and of its writes.
        self._declared, self._writes = frozenset[str](), frozenset[str]()
        self._observers: list[Observer] = []
        self.measurements = Measurements()

    @property
    def tables(self) -> Tables:
        """The engine of the tables, opened on first use."""
        if self._tables is None:
            self._tables = cast(Tables, self.engines.get("tables"))
        return self._tables

    @tables.setter
    def tables(self, engine: Tables) -> None:
        self._tables = engine

    def for_component(self, name: str) -> Stores:
        """Return a view of these stores that may run only the patterns which the component declares.

        Raise `NotFound` if the system has no such component.
        """
        if self.system is None:
            raise InvalidRequest("These stores have no system, and so no components: pass Stores(system=…).")
        component = self.system.get_component(name)
        view = self.for_system(self.system)
        view._component = component
        view._declared = frozenset(pattern.id for pattern in component.patterns)
        view._writes = frozenset(pattern.id for pattern in component.writes)
        view._observers, view.measurements = self._observers, self.measurements
        return view

    def for_system(self, system: System, *, environment: str | None = None) -> Stores:
        """Return a view of these stores for a system, or for its data in another environment: it has the same
        engines, and no observers yet.
        """
        view = Stores(
            self._tables,
            system=system,
            environment=self.environment if environment is None else environment,
            clock=self.clock,
            engines=self.engines,
        )
        view._is_view = True
        view.deadlines = self.deadlines
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
        return await operation.execute(self)

    async def all(self, query: PagedRead[Any, P]) -> Page[P]:
        """Return all pages of a query or scan as one."""
        self._check_component(query)
        return await query.read_all_pages(self)

    async def each(self, query: PagedRead[Any, P]) -> AsyncIterator[P]:
        """Yield item after item of a query or scan, reading the next page when needed."""
        self._check_component(query)
        async for page in query.iterate_pages(self):
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

    def now(self) -> datetime:
        """Return the time of the stores' clock, in UTC."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    def physical_name(self, table: Table) -> str:
        """Return the table's name in the environment of these stores."""
        return table.physical_name(self.environment)

    async def close(self) -> None:
        """Close the engines. A view leaves that to the stores it was made from."""
        if not self._is_view:
            self.engines.close()

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

    # --- one request ----------------------------------------------------------------------------------------

    async def request_tables(self, operation: Operation[Any], request: requests.Operation[R]) -> R:
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

    async def request_engine(self, operation: EngineOperation[Any]) -> Any:
        """Send one request to an engine other than the tables'."""
        if isinstance(operation, SqlTransact):
            return await self._send_request(operation, self._get_sql().run_all)
        return await self._send_request(operation, self.engines.get(operation.store).run)

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
        read, returned = (0, 0) if result is None else _count_items(result)
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
