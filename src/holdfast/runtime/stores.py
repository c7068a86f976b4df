"""Stores: a model bound to engines. It runs operations and gives back entities.

One way through: the component is checked, the operation makes its request, the engine runs it, the usage is
written down, the operation reads the answer. What spans several requests (a count over pages, a large batch,
several queries at once) is put together here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from dataclasses import replace
from typing import Any, Final, TypeVar, cast, overload

import msgspec

from holdfast.clock import Clock, SystemClock
from holdfast.errors import (
    ComponentRefused,
    HoldfastError,
    InvalidRequest,
    ItemUnreadable,
    NotFound,
    RetryLater,
    StoresMixed,
    error_label,
)
from holdfast.limits import BATCH_READS_MAX, BATCH_WRITES_MAX
from holdfast.model.operations import Count, EngineOperation, Operation, Page, Write
from holdfast.model.reads import AnyQuery, BatchGet, CountOf, Get, Paged, Parallel
from holdfast.model.sql import SqlOperation, SqlTransact, SqlWrite
from holdfast.model.system import Component, System
from holdfast.model.tables import Index, Table
from holdfast.model.unreadable import leave_out
from holdfast.model.writes import BatchPut, ConditionalWrite, Transact, transact
from holdfast.operations import tables as requests
from holdfast.operations.values import Item
from holdfast.runtime.counting import Counted, Counting
from holdfast.runtime.engines import Engines
from holdfast.runtime.usage import Meter, Usage, metered, meters_running
from holdfast.stores.sql.port import Sql, SqlNotices, SqlTransaction
from holdfast.stores.tables.port import Tables
from holdfast.stores.tables.throttling import Throttles, hearing_throttles

R = TypeVar("R")
P = TypeVar("P")

PARALLEL_REQUESTS_MAX: Final = 16
BATCH_ROUNDS_MAX: Final = 10

# How every engine says it: a kind of its own it is not.
NO_INDEX: Final = "does not have the specified index"

Observer = Callable[[Usage], None]


class Stores:
    """Where a system's data is. `run` does one operation; `for_component` gives the view of one component."""

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
        # The engines beside tables, opened when they are first wanted.
        self.engines = engines or Engines()
        self._close = close
        self._component: Component | None = None
        # The ids of the component's patterns, and of those among its writes.
        self._declared, self._writes = frozenset[str](), frozenset[str]()
        self._observers: list[Observer] = []
        self.counting = Counting()

    def for_component(self, name: str) -> Stores:
        """These stores as one component has them: with the patterns it declares and no other."""
        if self.system is None:
            raise InvalidRequest(
                "These stores belong to no system, and so have no components: give Stores a system."
            )
        view = Stores(
            self.tables,
            system=self.system,
            environment=self.environment,
            clock=self.clock,
            engines=self.engines,
        )
        component = view._component = self.system.component(name)
        view._declared = frozenset(pattern.id for pattern in component.patterns)
        view._writes = frozenset(pattern.id for pattern in component.writes)
        view._observers, view.counting = self._observers, self.counting
        return view

    @property
    def component(self) -> str | None:
        return None if self._component is None else self._component.name

    async def run(self, operation: Operation[R]) -> R:
        """Does one operation. A query or scan gives one page: `all` and `each` follow its cursor."""
        if not isinstance(operation, Operation):
            raise InvalidRequest(
                f"{operation!r} is no operation: call a pattern, or build one from an entity."
            )
        self._check_component(operation)
        return cast(R, await self._run(operation))

    async def all(self, query: Paged[Any, P]) -> Page[P]:
        """Every page of a query or scan, as one."""
        self._check_component(query)
        items: list[P] = []
        units, examined = 0.0, 0
        async for page in self._pages(query):
            items += page.items
            units, examined = units + page.units, examined + page.examined
        return Page(tuple(items), None, units, examined)

    async def each(self, query: Paged[Any, P]) -> AsyncIterator[P]:
        """Item after item, reading the next page when it is reached."""
        self._check_component(query)
        async for page in self._pages(query):
            for item in page:
                yield item

    @overload
    async def transact(self, *writes: Write[Any], token: str | None = None) -> None: ...
    @overload
    async def transact(self, *writes: SqlWrite[Any]) -> None: ...
    async def transact(self, *writes: Any, token: str | None = None) -> None:
        """Several writes of one store, all or nothing."""
        await self.run(transact(*writes, token=token))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqlWork]:
        """Statements of SQL of which each may depend on the one before: committed at the end, or undone by an error."""
        async with self._sql().transaction() as transaction:
            yield SqlWork(self, transaction)

    def notices(self, channel: str) -> AbstractAsyncContextManager[SqlNotices]:
        """What statements announce on a channel of the SQL store. Some may be missed: keep a poll beside it."""
        return self._sql().notices(channel)

    def metered(self) -> AbstractContextManager[Meter]:
        """Collects the usages of what runs inside the `with`."""
        return metered()

    def observe(self, observer: Observer) -> None:
        """Calls `observer` with every usage, of these stores and of every view of them."""
        self._observers.append(observer)

    def count(self, name: str, value: float = 1, **labels: str) -> None:
        """Adds to a counter of the system's own; it is shown at `/metrics`."""
        self.counting.tell(Counted(name, value, labels))

    def measure(self, name: str, value: float, **labels: str) -> None:
        """Adds to a distribution of the system's own, such as how long something took."""
        self.counting.tell(Counted(name, value, labels, "measure"))

    def physical_name(self, table: Table) -> str:
        return table.physical_name(self.environment)

    async def close(self) -> None:
        """Closes the engines; a view of a component leaves that to the stores it was made of."""
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
        """A component runs what it declares; what writes, only if it is declared among the writes."""
        if self._component is None:
            return
        parts = operation.parts if operation.pattern is None else None
        for part in (operation,) if parts is None else parts:
            if part.pattern not in (self._writes if part.writes else self._declared):
                declared = [pattern.id for pattern in self._component.patterns]
                refused = ComponentRefused(self._component.name, part.pattern, declared)
                if part.pattern in declared:
                    refused.add_note(f"{part.pattern} writes, and the component declares it among its reads.")
                raise refused

    async def _run(self, operation: Operation[Any]) -> Any:
        match operation:
            case SqlTransact():
                return await self._sql_transact(operation)
            case EngineOperation():
                return operation.answer(await self._ask_engine(operation))
            case Get() | ConditionalWrite():
                return await self._one(operation)
            case Paged():
                return await self._page(operation)
            case CountOf():
                return await self._count(operation)
            case BatchGet():
                return await self._batch(operation)
            case BatchPut():
                return await self._batch_put(operation)
            case Parallel():
                return await self._parallel(operation)
            case Transact():
                return await self._transact(operation)
        raise InvalidRequest(f"{type(operation).__name__} is no operation that these stores can run.")

    async def _one(self, operation: Get[Any] | ConditionalWrite[Any, Any]) -> Any:
        request = operation.request(self.physical_name)
        if isinstance(request, requests.ConditionCheck):
            raise InvalidRequest(
                "A check has a meaning only beside writes: give it to transact(…) with them."
            )
        request_of_any: requests.Operation[Any] = request
        return operation.answer(await self._ask(operation, request_of_any))

    async def _page(self, query: Paged[Any, P]) -> Page[P]:
        return query.answer(await self._ask(query, query.request(self.physical_name)))

    async def _pages(self, query: Paged[Any, P]) -> AsyncIterator[Page[P]]:
        while True:
            page = await self._page(query)
            yield page
            if page.cursor is None:
                return
            query = query.after(page.cursor)

    async def _count(self, operation: CountOf[Any]) -> Count:
        query: Paged[Any, Any] = operation.query
        found = Count(0, 0, 0.0)
        while True:
            request = replace(query, pattern=operation.pattern).request(self.physical_name, counting=True)
            result = await self._ask(operation, request)
            page = query.answer(result)
            found = Count(
                found.count + result.count, found.examined + page.examined, found.units + page.units
            )
            if page.cursor is None:
                return found
            query = query.after(page.cursor)

    async def _parallel(self, operation: Parallel[P]) -> tuple[Page[P], ...]:
        turns = asyncio.Semaphore(PARALLEL_REQUESTS_MAX)

        async def one(query: AnyQuery[Any, P]) -> Page[P]:
            async with turns:
                return await self._followed(replace(query, pattern=operation.pattern or query.pattern))

        return tuple(await together(one(query) for query in operation.queries))

    async def _followed(self, query: AnyQuery[Any, P]) -> Page[P]:
        first = await self._page(query)
        if first.cursor is None:
            return first
        pages = [first] + [page async for page in self._pages(query.after(first.cursor))]
        return Page(
            tuple(item for page in pages for item in page),
            None,
            sum(page.units for page in pages),
            sum(page.examined for page in pages),
        )

    async def _batch(self, operation: BatchGet[Any]) -> tuple[Any, ...]:
        if not operation.gets:
            return ()
        first = operation.gets[0]
        wanted = list(dict.fromkeys(get.address for get in operation.gets))
        found: dict[Any, Item] = {}
        for start in range(0, len(wanted), BATCH_READS_MAX):
            keys = [dict(address) for address in wanted[start : start + BATCH_READS_MAX]]
            consistent = any(get.is_consistent for get in operation.gets)
            for item in await self._batch_items(operation, first, keys, consistent):
                found[tuple(first.declaration.key_of(item).items())] = item
        return tuple(
            None if get.address not in found else _readable(get, found[get.address]) for get in operation.gets
        )

    async def _batch_items(
        self, operation: BatchGet[Any], first: Get[Any], keys: list[Item], consistent: bool
    ) -> list[Item]:
        """The items of up to a hundred keys; those not processed are asked for again."""
        items: list[Item] = []
        table = self.physical_name(first.table)
        for _ in range(BATCH_ROUNDS_MAX):
            request = requests.BatchGetItem(
                (requests.KeysOfTable(table, tuple(keys), consistent),),
                hide_expired=first.table.ttl is not None,
                capacity="INDEXES",
                pattern=operation.made_by,
            )
            result = await self._ask(operation, request)
            items += result.items.get(table, [])
            keys = [key for rest in result.unprocessed for key in rest.keys]
            if not keys:
                return items
        raise RetryLater(
            f"{len(keys)} keys of {table} were left unprocessed again and again: ask for fewer, later."
        )

    async def _batch_put(self, operation: BatchPut[Any]) -> int:
        table = self.physical_name(operation.table) if operation.table else ""
        puts = [requests.Put(table, put.item()) for put in operation.puts]
        _refuse_one_key_twice(operation, puts)
        for start in range(0, len(puts), BATCH_WRITES_MAX):
            await self._batch_written(operation, tuple(puts[start : start + BATCH_WRITES_MAX]))
        return len(puts)

    async def _batch_written(self, operation: BatchPut[Any], writes: tuple[requests.BatchWrite, ...]) -> None:
        for _ in range(BATCH_ROUNDS_MAX):
            request = requests.BatchWriteItem(writes, capacity="INDEXES", pattern=operation.made_by)
            writes = (await self._ask(operation, request)).unprocessed
            if not writes:
                return
        raise RetryLater(f"{len(writes)} writes were left unprocessed again and again: write fewer, later.")

    async def _transact(self, operation: Transact) -> None:
        actions = tuple(
            cast(ConditionalWrite[Any, Any], action).request(self.physical_name)
            for action in operation.actions
        )
        # Nothing comes back of a transaction's items, and asking for it is refused.
        actions = tuple(
            action if isinstance(action, requests.ConditionCheck) else _without_returns(action)
            for action in actions
        )
        request = requests.TransactWriteItems(
            actions, operation.token, capacity="INDEXES", pattern=operation.made_by
        )
        await self._ask(operation, request)

    # --- one request ----------------------------------------------------------------------------------------

    async def _ask(self, operation: Operation[Any], request: requests.Operation[R]) -> R:
        began = time.perf_counter()
        throttles = Throttles()
        try:
            with hearing_throttles() as throttles:
                result = await self.tables.run(request)
        except HoldfastError as error:
            self._write_down(operation, began, None, error_label(error), throttles)
            if isinstance(error, NotFound) and operation.table is not None:
                error.add_note(_how_to_create(self, operation))
            elif operation.index is not None and NO_INDEX in error.message:
                error.add_note(_how_to_add(self, operation.index))
            raise
        self._write_down(operation, began, result, None, throttles)
        return result

    async def _ask_engine(self, operation: EngineOperation[Any]) -> Any:
        """One request to an engine other than the tables'."""
        return await self._asked(operation, self.engines.of(operation.store).run)

    async def _sql_transact(self, operation: SqlTransact) -> None:
        await self._asked(operation, self._sql().run_all)

    def _sql(self) -> Sql:
        return cast(Sql, self.engines.of("sql"))

    async def in_transaction(self, transaction: SqlTransaction, operation: SqlOperation[R]) -> R:
        """One statement of a transaction that is open, checked and metered as any other."""
        self._check_component(operation)
        return operation.answer(await self._asked(operation, transaction.run))

    async def _asked(self, operation: EngineOperation[Any], ask: Callable[[Any], Awaitable[Any]]) -> Any:
        request = operation.request(self.environment)
        began = time.perf_counter()
        error: str | None = None
        try:
            return await ask(request)
        except HoldfastError as failure:
            error = error_label(failure)
            raise
        finally:
            self._write_down(operation, began, None, error, Throttles())

    def _write_down(
        self, operation: Operation[Any], began: float, result: Any, error: str | None, throttles: Throttles
    ) -> None:
        meters = meters_running()
        if not meters and not self._observers:
            return
        read, returned = _items(result)
        capacity = getattr(result, "capacity", None)
        usage = Usage(
            pattern=operation.made_by,
            component=self.component,
            operation=operation.kind,
            table=_place(operation),
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


class SqlWork:
    """The statements of one transaction, each of a pattern."""

    def __init__(self, stores: Stores, transaction: SqlTransaction) -> None:
        self._stores, self._transaction = stores, transaction

    async def run(self, operation: SqlOperation[R]) -> R:
        if not isinstance(operation, SqlOperation):
            raise StoresMixed(["sql", getattr(operation, "store", type(operation).__name__)])
        return await self._stores.in_transaction(self._transaction, operation)


async def together(work: Iterable[Coroutine[Any, Any, R]]) -> list[R]:
    """All at the same time. The first that fails ends the others, and its error is raised as it is.

    Not a TaskGroup: its error would be a group, and in Python 3.11 it leaves the caller's task half cancelled.
    """
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return list(await asyncio.gather(*tasks))
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def _readable(get: Get[Any], item: Item) -> Any:
    """The entity, or None where it cannot be read and the caller is prepared for that."""
    try:
        return get.declaration.from_item(item)
    except ItemUnreadable as error:
        leave_out(item, error)
        return None


def _refuse_one_key_twice(operation: BatchPut[Any], puts: Sequence[requests.Put]) -> None:
    """The service refuses it within one request only, and requests are cut where it happens to fit."""
    seen: set[Any] = set()
    for put, written in zip(operation.puts, puts, strict=True):
        key = put.declaration.key_of(written.item)
        if tuple(key.items()) in seen:
            raise InvalidRequest(f"{key} is put twice in one batch: put it once, or in two batches.")
        seen.add(tuple(key.items()))


def _place(operation: Operation[Any]) -> str:
    """The logical name of the table, queue or bucket."""
    if isinstance(operation, EngineOperation):
        return operation.resource
    return "" if operation.table is None else operation.table.name


def _items(result: Any) -> tuple[int, int]:
    """Items read and items returned, by the kind of answer."""
    if isinstance(result, requests.PageResult):
        return result.scanned_count, result.count
    if isinstance(result, requests.GetItemResult):
        found = int(result.item is not None)
        return found, found
    if isinstance(result, requests.BatchGetItemResult):
        found = sum(map(len, result.items.values()))
        return found, found
    return 0, 0


def _without_returns(action: Any) -> Any:
    return msgspec.structs.replace(action, returns="NONE", capacity="NONE")


def _how_to_create(stores: Stores, operation: Operation[Any]) -> str:
    assert operation.table is not None
    name = stores.physical_name(operation.table)
    system = "SYSTEM" if stores.system is None else stores.system.name
    if operation.index is not None:
        return f"Table {name}, index {operation.index.name}: `holdfast indexes status {system}` tells what is there."
    return f"Table {name}: `holdfast tables {system} --create` makes what is missing."


def _how_to_add(stores: Stores, index: Index) -> str:
    """Optional indexes are made when somebody asks for them, and so may be missing in a sound table."""
    system = "SYSTEM" if stores.system is None else stores.system.name
    kind = "is optional" if not index.default else "is declared"
    return (
        f"The index {index.name} of {stores.physical_name(index.table)} {kind} and was not made here: "
        f"`holdfast indexes add {system} --index {index.name}` adds it."
    )
