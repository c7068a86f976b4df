"""Reads: get, query, count, scan, batch get and parallel queries, as frozen values.

Each builds the request that an engine runs, and decodes the engine's result into entities.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast, overload

from holdfast.core.concurrency import gather_or_cancel
from holdfast.core.errors import DeclarationError, InvalidRequest, ItemUnreadable, RetryLater
from holdfast.core.limits import MAX_BATCH_ATTEMPTS, MAX_BATCH_READS, MAX_PARALLEL_REQUESTS
from holdfast.model.entities.conditions import Condition, combine_all
from holdfast.model.entities.cursors import decode_cursor, encode_cursor
from holdfast.model.entities.unreadable import skip_or_raise
from holdfast.model.operations import Count, EntityOperation, Operation, Page, PhysicalName, Requester
from holdfast.operations import tables as requests
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.key_conditions import KeyCondition
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from holdfast.model.entities.attributes import OptionalRef, Ref
    from holdfast.model.entities.declaration import Declaration
    from holdfast.model.entities.entity import Entity
    from holdfast.model.tables import Index, Table

E = TypeVar("E", bound="Entity")
T = TypeVar("T")
P = TypeVar("P")

# DynamoDB's limit.
MAX_PAGE_SIZE: Final = 2**31 - 1

KeyValues = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Get(EntityOperation["E | None"], Generic[E]):
    """Read one item by its key. Expired items count as absent."""

    key: KeyValues
    is_consistent: bool = False

    kind = "GetItem"

    def consistent(self) -> Get[E]:
        """Read strongly consistently: see every acknowledged write. Costs twice."""
        return replace(self, is_consistent=True)

    def build_request(self, physical: PhysicalName) -> requests.GetItem:
        return requests.GetItem(
            physical(self.table),
            dict(self.key),
            consistent=self.is_consistent,
            hide_expired=self.table.ttl is not None,
            capacity="INDEXES",
            pattern=self.pattern,
        )

    def decode_result(self, result: requests.GetItemResult) -> E | None:
        """Return the entity, or None if there is no item; raise `ItemUnreadable` if it cannot be decoded."""
        return None if result.item is None else cast(E, self.declaration.from_item(result.item))

    async def execute(self, requester: Requester) -> E | None:
        return self.decode_result(
            await requester.request_tables(self, self.build_request(requester.physical_name))
        )


@dataclass(frozen=True)
class PagedRead(EntityOperation["Page[P]"], Generic[E, P]):
    """The base of query and scan: a filter, a page size, a cursor. Running it returns one page."""

    read_index: Index | None = field(default=None, kw_only=True)
    filter: nodes.Condition | None = field(default=None, kw_only=True)
    limit: int | None = field(default=None, kw_only=True)
    cursor: str | None = field(default=None, kw_only=True)
    is_consistent: bool = field(default=False, kw_only=True)
    selected: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def index(self) -> Index | None:
        return self.read_index

    def where(self, *conditions: Condition[E]) -> Self:
        """Keep only items that meet these conditions, in addition to earlier ones.

        Filtered items are still read and paid for.
        """
        return replace(self, filter=combine_all(self.filter, conditions))

    def page(self, limit: int, after: str | None = None) -> Self:
        """Read at most `limit` items, starting after the cursor of the previous page; raise for a limit below
        1.
        """
        if type(limit) is not int or not 1 <= limit <= MAX_PAGE_SIZE:
            raise InvalidRequest(f"Invalid page size {limit}: expected an integer from 1 to {MAX_PAGE_SIZE}.")
        return replace(self, limit=limit, cursor=after)

    def after(self, cursor: str | None) -> Self:
        """Start after the cursor of the previous page."""
        return replace(self, cursor=cursor)

    def consistent(self) -> Self:
        """Read strongly consistently: see every acknowledged write. Costs twice.

        Raise `InvalidRequest` on a global index, which does not support it.
        """
        if self.read_index is not None and self.read_index.scope == "global":
            raise InvalidRequest(
                f"Invalid consistent read of {self.read_index!r}: global indexes are eventually consistent. "
                "Read the table by its primary key if the newest state matters."
            )
        return replace(self, is_consistent=True)

    @abstractmethod
    def build_request(
        self, physical: PhysicalName, *, counting: bool = False
    ) -> requests.Query | requests.Scan:
        """Return the engine's request; with `counting`, one that only counts."""

    def decode_result(self, result: requests.PageResult) -> Page[P]:
        """Return the page's items as entities or rows, with the cursor of the next page."""
        return Page(
            self._decode_items(result.items or ()),
            None if result.last_key is None else encode_cursor(result.last_key, self._cursor_scope),
            result.capacity.total.read if result.capacity else 0.0,
            result.scanned_count,
        )

    async def execute(self, requester: Requester) -> Page[P]:
        """Read one page."""
        return self.decode_result(
            await requester.request_tables(self, self.build_request(requester.physical_name))
        )

    async def iterate_pages(self, requester: Requester) -> AsyncIterator[Page[P]]:
        """Yield this page and the following ones to the last."""
        query = self
        while True:
            page = await query.execute(requester)
            yield page
            if page.cursor is None:
                return
            query = query.after(page.cursor)

    async def read_all_pages(self, requester: Requester) -> Page[P]:
        """Return this page and the following ones as one."""
        pages = [page async for page in self.iterate_pages(requester)]
        if len(pages) == 1:
            return pages[0]
        return Page(
            tuple(item for page in pages for item in page),
            None,
            sum(page.units for page in pages),
            sum(page.examined for page in pages),
        )

    def _decode_items(self, items: Sequence[Item]) -> tuple[P, ...]:
        """Decode the items. Unreadable ones raise, or are skipped inside `skip_unreadable`."""
        found: list[P] = []
        for item in items:
            try:
                found.append(self._decode_item(item))
            except ItemUnreadable as error:
                skip_or_raise(item, error)
        return tuple(found)

    def _decode_item(self, item: Item) -> P:
        """Return the item as an entity, or as a row of the selected attributes."""
        if self.selected:
            return cast(P, Row(self.declaration, item, self.selected))
        return cast(P, self.declaration.from_item(item))

    @property
    def _cursor_scope(self) -> tuple[object, ...]:
        """The values that a cursor is bound to."""
        return (self.table.name, self.index and self.index.name, self.filter)

    def _build_common_fields(self, physical: PhysicalName, counting: bool) -> dict[str, Any]:
        """Return the fields that query and scan requests share."""
        return {
            "table": physical(self.table),
            "index": None if self.index is None else self.index.name,
            "filter": self.filter,
            "projection": tuple(map(nodes.Path, self.selected)) or None if not counting else None,
            "select": "COUNT" if counting else None,
            "limit": self.limit,
            "start_key": None if self.cursor is None else decode_cursor(self.cursor, self._cursor_scope),
            "consistent": self.is_consistent,
            "hide_expired": self._can_hide_expired,
            "capacity": "INDEXES",
            "pattern": self.pattern,
        }

    @property
    def _can_hide_expired(self) -> bool:
        """True if the read can hide expired items: the index must project the expiry."""
        ttl = self.table.ttl
        return ttl is not None and (self.index is None or self.index.has_attribute(ttl))


@dataclass(frozen=True)
class BaseQuery(PagedRead[E, P], Generic[E, P]):
    """The base of queries: items of one partition, in sort key order."""

    key_condition: KeyCondition = field(default=(), kw_only=True)
    forward: bool = field(default=True, kw_only=True)

    kind = "Query"

    def descending(self) -> Self:
        """Read from the highest sort key down."""
        return replace(self, forward=False)

    def count(self) -> CountQuery[E]:
        """Return an operation that counts the items over all pages.

        It reads, and costs, as much as the items themselves.
        """
        return CountQuery(self.declaration, query=self, pattern=self.pattern)

    def build_request(self, physical: PhysicalName, *, counting: bool = False) -> requests.Query:
        return requests.Query(
            **self._build_common_fields(physical, counting),
            key_condition=self.key_condition,
            forward=self.forward,
        )

    @property
    def _cursor_scope(self) -> tuple[object, ...]:
        return (*super()._cursor_scope, self.key_condition, self.forward)


@dataclass(frozen=True)
class Query(BaseQuery[E, E], Generic[E]):
    """Entities of one partition, in sort key order."""

    def build_request(self, physical: PhysicalName, *, counting: bool = False) -> requests.Query:
        """Return the engine's request; raise `InvalidRequest` if the index does not project every
        attribute.
        """
        if not counting and self.index is not None:
            self._refuse_partial_index(self.index)
        return super().build_request(physical, counting=counting)

    def _refuse_partial_index(self, index: Index) -> None:
        """Raise `InvalidRequest` if the index projects only some attributes: the rest would silently be
        defaults.
        """
        if missing := [
            each for each in self.declaration.attributes.values() if not index.has_attribute(each.stored_name)
        ]:
            raise InvalidRequest(
                f"The index {index!r} does not project {', '.join(each.name for each in missing)}, which "
                f"{self.declaration.entity.__name__} needs. Use select(…) with projected attributes, or read "
                "the items by their primary key."
            )

    def select(self, *attributes: Ref[E, Any]) -> SelectQuery[E]:
        """Return a query that reads only these attributes of each item, such as those that an index
        projects.
        """
        return SelectQuery(**_get_fields(self) | {"selected": _get_stored_names(attributes)})


@dataclass(frozen=True)
class SelectQuery(BaseQuery[E, "Row[E]"], Generic[E]):
    """Selected attributes of the items of one partition."""

    def build_request(self, physical: PhysicalName, *, counting: bool = False) -> requests.Query:
        """Return the engine's request; raise `InvalidRequest` if a global index lacks a selected
        attribute.
        """
        if not counting and self.index is not None and self.index.scope == "global":
            self._refuse_unprojected(self.index)
        return super().build_request(physical, counting=counting)

    def _refuse_unprojected(self, index: Index) -> None:
        """Raise `InvalidRequest` if a global index lacks an attribute.

        A local index fetches it from the table.
        """
        if missing := [stored for stored in self.selected if not index.has_attribute(stored)]:
            raise InvalidRequest(
                f"The index {index!r} does not project {', '.join(missing)}. Add them to its projection, or "
                "read the items by their primary key."
            )


class Row(Generic[E]):
    """The selected attributes of one item: `row[Booking.seat]`, typed like the attribute."""

    __slots__ = ("_declaration", "_selected", "_values")

    def __init__(self, declaration: Declaration, values: Item, selected: tuple[str, ...]) -> None:
        self._declaration, self._values, self._selected = declaration, values, selected

    @overload
    def __getitem__(self, attribute: OptionalRef[E, T]) -> T | None: ...
    @overload
    def __getitem__(self, attribute: Ref[E, T]) -> T: ...
    def __getitem__(self, attribute: Ref[E, T]) -> T | None:
        (stored,) = _get_stored_names((attribute,))
        if stored not in self._selected:
            raise InvalidRequest(f"{attribute!r} was not selected: add it to select(…).")
        if stored in self._values:
            return cast(T, attribute.attribute.decode(self._values[stored]))
        return cast(T, self._declaration.get_default(attribute.attribute))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Row)
            and other._values == self._values
            and other._selected == self._selected
            and other._declaration is self._declaration
        )

    def __hash__(self) -> int:
        return hash((self._declaration, self._selected, len(self._values)))

    def __repr__(self) -> str:
        return f"Row({self._values})"


@dataclass(frozen=True)
class Scan(PagedRead[E, E], Generic[E]):
    """Every item of a table, in no order. `reason` explains why reading everything is right."""

    reason: str = field(default="", kw_only=True)
    segment: int | None = field(default=None, kw_only=True)
    segments: int | None = field(default=None, kw_only=True)

    kind = "Scan"

    def with_segment(self, segment: int, of: int) -> Scan[E]:
        """Read segment number `segment` (from 0) of `of`; segments can be read at the same time."""
        if not 0 <= segment < of:
            raise InvalidRequest(f"Invalid segment {segment} of {of}: expected 0 to {of - 1}.")
        return replace(self, segment=segment, segments=of)

    def count(self) -> CountQuery[E]:
        """Return an operation that counts the items over all pages.

        It reads, and costs, as much as the items themselves.
        """
        return CountQuery(self.declaration, query=self, pattern=self.pattern)

    def build_request(self, physical: PhysicalName, *, counting: bool = False) -> requests.Scan:
        return requests.Scan(
            **self._build_common_fields(physical, counting), segment=self.segment, segments=self.segments
        )

    @property
    def _cursor_scope(self) -> tuple[object, ...]:
        return (*super()._cursor_scope, "scan", self.segment, self.segments)


@dataclass(frozen=True)
class CountQuery(EntityOperation[Count], Generic[E]):
    """The number of items that a query or scan finds, over all pages."""

    query: BaseQuery[E, Any] | Scan[E] = field(kw_only=True)

    @property
    def kind(self) -> str:
        return self.query.kind

    @property
    def index(self) -> Index | None:
        return self.query.index

    async def execute(self, requester: Requester) -> Count:
        """Count page after page."""
        query: PagedRead[Any, Any] = self.query
        found = Count(0, 0, 0.0)
        while True:
            request = replace(query, pattern=self.pattern).build_request(
                requester.physical_name, counting=True
            )
            result = await requester.request_tables(self, request)
            page = query.decode_result(result)
            found = Count(
                found.count + result.count, found.examined + page.examined, found.units + page.units
            )
            if page.cursor is None:
                return found
            query = query.after(page.cursor)


@dataclass(frozen=True)
class BatchGet(Operation["tuple[E | None, ...]"], Generic[E]):
    """Many items by their keys. Results are in the order of the gets; None for a missing item."""

    gets: tuple[Get[E], ...] = ()

    kind = "BatchGetItem"

    @property
    def table(self) -> Table | None:
        return self.gets[0].table if self.gets else None

    @property
    def parts(self) -> tuple[Operation[Any], ...]:
        return self.gets

    async def execute(self, requester: Requester) -> tuple[E | None, ...]:
        """Read the keys, each once, a hundred per request."""
        wanted = list(dict.fromkeys(get.key for get in self.gets))
        found: dict[Any, Item] = {}
        for start in range(0, len(wanted), MAX_BATCH_READS):
            keys = [dict(key) for key in wanted[start : start + MAX_BATCH_READS]]
            for item in await self._read_keys(requester, keys):
                found[tuple(self.gets[0].declaration.extract_key(item).items())] = item
        return tuple(
            None if get.key not in found else _decode_or_skip(get, found[get.key]) for get in self.gets
        )

    async def _read_keys(self, requester: Requester, keys: list[Item]) -> list[Item]:
        """Return the items of up to a hundred keys, requesting unprocessed ones again; raise `RetryLater`
        after ten attempts.
        """
        items: list[Item] = []
        table = requester.physical_name(self.gets[0].table)
        for _ in range(MAX_BATCH_ATTEMPTS):
            request = requests.BatchGetItem(
                (
                    requests.KeysAndAttributes(
                        table, tuple(keys), any(get.is_consistent for get in self.gets)
                    ),
                ),
                hide_expired=self.gets[0].table.ttl is not None,
                capacity="INDEXES",
                pattern=self.metered_pattern,
            )
            result = await requester.request_tables(self, request)
            items += result.items.get(table, [])
            keys = [key for rest in result.unprocessed for key in rest.keys]
            if not keys:
                return items
        raise RetryLater(
            f"{len(keys)} keys of {table} stayed unprocessed after {MAX_BATCH_ATTEMPTS} attempts. Retry "
            "later, with fewer keys."
        )


def batch_get(gets: Iterable[Get[E]]) -> BatchGet[E]:
    """Combine gets of one table into an operation with as few requests as possible; raise if they span
    tables.
    """
    several = tuple(gets)
    if len({get.table for get in several}) > 1:
        raise DeclarationError("A batch reads one table: use one batch per table.")
    return BatchGet(several)


@dataclass(frozen=True)
class ParallelQuery(Operation["tuple[Page[P], ...]"], Generic[P]):
    """Several queries run concurrently, each to its last page. Results are in the order of the queries."""

    queries: tuple[BaseQuery[Any, P], ...] = ()

    kind = "Query"

    @property
    def table(self) -> Table | None:
        return self.queries[0].table if self.queries else None

    @property
    def index(self) -> Index | None:
        return self.queries[0].index if self.queries else None

    @property
    def parts(self) -> tuple[Operation[Any], ...]:
        return self.queries

    async def execute(self, requester: Requester) -> tuple[Page[P], ...]:
        """Run the queries, up to sixteen at a time, and return each one's pages as one."""
        turns = asyncio.Semaphore(MAX_PARALLEL_REQUESTS)

        async def read(query: BaseQuery[Any, P]) -> Page[P]:
            async with turns:
                own = replace(query, pattern=self.pattern or query.pattern)
                return await own.read_all_pages(requester)

        return tuple(await gather_or_cancel(read(query) for query in self.queries))


def parallel_query(queries: Iterable[BaseQuery[E, P]]) -> ParallelQuery[P]:
    """Combine queries of one table and index into an operation that runs them concurrently, each to its last
    page.
    """
    several = tuple(queries)
    if len({(query.table, query.index) for query in several}) > 1:
        raise DeclarationError("Parallel queries read one table and one index: use one operation for each.")
    return ParallelQuery(several)


def _decode_or_skip(get: Get[E], item: Item) -> E | None:
    """Return the entity, or None if it is unreadable and the caller skips unreadable items."""
    try:
        return cast(E, get.declaration.from_item(item))
    except ItemUnreadable as error:
        skip_or_raise(item, error)
        return None


def _get_stored_names(attributes: Sequence[Ref[Any, Any]]) -> tuple[str, ...]:
    """Return the stored names of the attributes, each once; raise `InvalidRequest` for none, or for paths."""
    if inside := [repr(attribute) for attribute in attributes if attribute.steps]:
        raise InvalidRequest(
            f"Invalid selection {', '.join(inside)}: expected whole attributes, not paths inside them."
        )
    names = tuple(dict.fromkeys(attribute.attribute.stored_name for attribute in attributes))
    if not names:
        raise InvalidRequest("Empty select(…): name at least one attribute, or leave select(…) out.")
    return names


def _get_fields(query: BaseQuery[Any, Any]) -> dict[str, Any]:
    """Return the query's dataclass fields by name."""
    return {each.name: getattr(query, each.name) for each in fields(query)}
