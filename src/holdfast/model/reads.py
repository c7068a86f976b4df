"""Reading: get, query, count, scan, batch get and several queries at once, as frozen values.

Each turns itself into the request an engine understands, and an engine's answer into entities.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar, cast, overload

from holdfast.errors import DeclarationError, InvalidRequest, ItemUnreadable
from holdfast.model.conditions import Condition, all_of
from holdfast.model.cursors import read_cursor, write_cursor
from holdfast.model.operations import Count, EntityOperation, Operation, Page, PhysicalName
from holdfast.model.unreadable import leave_out
from holdfast.operations import tables as requests
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.key_conditions import KeyCondition
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from holdfast.model.attributes import OptionalRef, Ref
    from holdfast.model.declaration import Declaration
    from holdfast.model.entity import Entity
    from holdfast.model.tables import Index, Table

E = TypeVar("E", bound="Entity")
T = TypeVar("T")
P = TypeVar("P")

# The largest number that the service takes for it.
PAGE_MAX: Final = 2**31 - 1

Address = tuple[tuple[str, Value], ...]


@dataclass(frozen=True)
class Get(EntityOperation["E | None"], Generic[E]):
    """One item by its key."""

    address: Address
    is_consistent: bool = False

    kind = "GetItem"

    def consistent(self) -> Get[E]:
        """Sees every write that was acknowledged before; costs twice."""
        return replace(self, is_consistent=True)

    def request(self, physical: PhysicalName) -> requests.GetItem:
        return requests.GetItem(
            physical(self.table),
            dict(self.address),
            consistent=self.is_consistent,
            hide_expired=self.table.ttl is not None,
            capacity="INDEXES",
            pattern=self.pattern,
        )

    def answer(self, result: requests.GetItemResult) -> E | None:
        return None if result.item is None else cast(E, self.declaration.from_item(result.item))


@dataclass(frozen=True)
class Paged(EntityOperation["Page[P]"], Generic[E, P]):
    """What a query and a scan share: a filter, a page size, a cursor. Running one gives one page."""

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
        """Keeps only the items for which these hold. What is left out has still been read, and paid for."""
        return replace(self, filter=all_of(self.filter, conditions))

    def page(self, limit: int, after: str | None = None) -> Self:
        """At most so many items read, from where the cursor of the page before says."""
        if type(limit) is not int or not 1 <= limit <= PAGE_MAX:
            raise InvalidRequest(
                f"A page of {limit} items cannot be read: ask for one at least, and {PAGE_MAX} at most."
            )
        return replace(self, limit=limit, cursor=after)

    def after(self, cursor: str | None) -> Self:
        """From where the cursor of the page before says."""
        return replace(self, cursor=cursor)

    def consistent(self) -> Self:
        """Sees every write that was acknowledged before; costs twice, and no global index can do it."""
        if self.read_index is not None and self.read_index.scope == "global":
            raise InvalidRequest(
                f"{self.read_index!r} is a global index, and those are read eventually only: where the newest state "
                "matters, read the table by its own key."
            )
        return replace(self, is_consistent=True)

    @abstractmethod
    def request(self, physical: PhysicalName, *, counting: bool = False) -> requests.Query | requests.Scan:
        """What an engine is asked; with `counting`, only how many there are."""

    def answer(self, result: requests.PageResult) -> Page[P]:
        return Page(
            self._readable(result.items or ()),
            None if result.last_key is None else write_cursor(result.last_key, self._question),
            result.capacity.total.read if result.capacity else 0.0,
            result.scanned_count,
        )

    def _readable(self, items: Sequence[Item]) -> tuple[P, ...]:
        """The items, less those that cannot be read where the caller is prepared for that."""
        found: list[P] = []
        for item in items:
            try:
                found.append(self._decoded(item))
            except ItemUnreadable as error:
                leave_out(item, error)
        return tuple(found)

    def _decoded(self, item: Item) -> P:
        if self.selected:
            return cast(P, Row(self.declaration, item, self.selected))
        return cast(P, self.declaration.from_item(item))

    @property
    def _question(self) -> tuple[object, ...]:
        """What a cursor is bound to."""
        return (self.table.name, self.index and self.index.name, self.filter)

    def _members(self, physical: PhysicalName, counting: bool) -> dict[str, Any]:
        """What both requests have."""
        return {
            "table": physical(self.table),
            "index": None if self.index is None else self.index.name,
            "filter": self.filter,
            "projection": tuple(map(nodes.Path, self.selected)) or None if not counting else None,
            "select": "COUNT" if counting else None,
            "limit": self.limit,
            "start_key": None if self.cursor is None else read_cursor(self.cursor, self._question),
            "consistent": self.is_consistent,
            "hide_expired": self._tells_lifetime,
            "capacity": "INDEXES",
            "pattern": self.pattern,
        }

    @property
    def _tells_lifetime(self) -> bool:
        """An index that does not hold the end of life cannot tell whose life is over."""
        ttl = self.table.ttl
        return ttl is not None and (self.index is None or self.index.holds(ttl))


@dataclass(frozen=True)
class AnyQuery(Paged[E, P], Generic[E, P]):
    """Items of one partition, in the order of the sort key."""

    key_condition: KeyCondition = field(default=(), kw_only=True)
    forward: bool = field(default=True, kw_only=True)

    kind = "Query"

    def newest_first(self) -> Self:
        """From the highest sort key down."""
        return replace(self, forward=False)

    def count(self) -> CountOf[E]:
        """Only how many there are, over all pages. It reads, and costs, as much as the items themselves."""
        return CountOf(self.declaration, query=self, pattern=self.pattern)

    def request(self, physical: PhysicalName, *, counting: bool = False) -> requests.Query:
        return requests.Query(
            **self._members(physical, counting), key_condition=self.key_condition, forward=self.forward
        )

    @property
    def _question(self) -> tuple[object, ...]:
        return (*super()._question, self.key_condition, self.forward)


@dataclass(frozen=True)
class Query(AnyQuery[E, E], Generic[E]):
    """Entities of one partition, in the order of the sort key."""

    def request(self, physical: PhysicalName, *, counting: bool = False) -> requests.Query:
        if not counting and self.index is not None:
            self._refuse_parts(self.index)
        return super().request(physical, counting=counting)

    def _refuse_parts(self, index: Index) -> None:
        """An entity read in part would be taken for a whole one, with defaults where the rest is."""
        if missing := [each for each in self.declaration.attributes.values() if not index.holds(each.stored)]:
            raise InvalidRequest(
                f"The index {index!r} does not hold {', '.join(each.name for each in missing)}, and a "
                f"{self.declaration.entity.__name__} has them: select(…) the attributes it holds, or read the items "
                "by their own key."
            )

    def select(self, *attributes: Ref[E, Any]) -> Rows[E]:
        """Only these attributes of each item: for an index that holds no more, or a reader that needs no more."""
        return Rows(**_fields(self) | {"selected": _stored_names(attributes)})


@dataclass(frozen=True)
class Rows(AnyQuery[E, "Row[E]"], Generic[E]):
    """Some attributes of the items of one partition."""

    def request(self, physical: PhysicalName, *, counting: bool = False) -> requests.Query:
        if not counting and self.index is not None and self.index.scope == "global":
            self._refuse_strangers(self.index)
        return super().request(physical, counting=counting)

    def _refuse_strangers(self, index: Index) -> None:
        """A local index fetches from the table what it does not hold; a global one cannot."""
        if missing := [stored for stored in self.selected if not index.holds(stored)]:
            raise InvalidRequest(
                f"The index {index!r} does not hold {', '.join(missing)}: add what is needed to its projection, or "
                "read the items by their own key."
            )


class Row(Generic[E]):
    """The attributes selected of one item: `row[Booking.seat]`, typed as the attribute is."""

    __slots__ = ("_declaration", "_selected", "_values")

    def __init__(self, declaration: Declaration, values: Item, selected: tuple[str, ...]) -> None:
        self._declaration, self._values, self._selected = declaration, values, selected

    @overload
    def __getitem__(self, attribute: OptionalRef[E, T]) -> T | None: ...
    @overload
    def __getitem__(self, attribute: Ref[E, T]) -> T: ...
    def __getitem__(self, attribute: Ref[E, T]) -> T | None:
        (stored,) = _stored_names((attribute,))
        if stored not in self._selected:
            raise InvalidRequest(f"{attribute!r} was not selected: name it in select(…).")
        if stored in self._values:
            return cast(T, attribute.attribute.decode(self._values[stored]))
        return cast(T, self._declaration.default_of(attribute.attribute))

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
class Scan(Paged[E, E], Generic[E]):
    """Every item of a table, in no order. It reads all there is: it must say why that is right."""

    reason: str = field(default="", kw_only=True)
    segment: int | None = field(default=None, kw_only=True)
    segments: int | None = field(default=None, kw_only=True)

    kind = "Scan"

    def part(self, segment: int, of: int) -> Scan[E]:
        """One of several parts that can be read at the same time."""
        if not 0 <= segment < of:
            raise InvalidRequest(f"Part {segment} of {of} cannot be read: parts count from 0 to {of - 1}.")
        return replace(self, segment=segment, segments=of)

    def count(self) -> CountOf[E]:
        return CountOf(self.declaration, query=self, pattern=self.pattern)

    def request(self, physical: PhysicalName, *, counting: bool = False) -> requests.Scan:
        return requests.Scan(
            **self._members(physical, counting), segment=self.segment, segments=self.segments
        )

    @property
    def _question(self) -> tuple[object, ...]:
        return (*super()._question, "scan", self.segment, self.segments)


@dataclass(frozen=True)
class CountOf(EntityOperation[Count], Generic[E]):
    """How many items a query or scan finds, over all pages."""

    query: AnyQuery[E, Any] | Scan[E] = field(kw_only=True)

    @property
    def kind(self) -> str:
        return self.query.kind

    @property
    def index(self) -> Index | None:
        return self.query.index


@dataclass(frozen=True)
class BatchGet(Operation["tuple[E | None, ...]"], Generic[E]):
    """Many items by their keys. The answers stand in the order of the questions."""

    gets: tuple[Get[E], ...] = ()

    kind = "BatchGetItem"

    @property
    def table(self) -> Table | None:
        return self.gets[0].table if self.gets else None

    @property
    def parts(self) -> tuple[Operation[Any], ...]:
        return self.gets


def batch(gets: Iterable[Get[E]]) -> BatchGet[E]:
    """Many items of one table in as few requests as there can be."""
    several = tuple(gets)
    if len({get.table for get in several}) > 1:
        raise DeclarationError("A batch reads one table: make one batch per table.")
    return BatchGet(several)


@dataclass(frozen=True)
class Parallel(Operation["tuple[Page[P], ...]"], Generic[P]):
    """Several queries at the same time, each followed to its end. The answers stand in their order."""

    queries: tuple[AnyQuery[Any, P], ...] = ()

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


def parallel(queries: Iterable[AnyQuery[E, P]]) -> Parallel[P]:
    """Several queries of one table and index at the same time: what a batch cannot do on an index."""
    several = tuple(queries)
    if len({(query.table, query.index) for query in several}) > 1:
        raise DeclarationError("Parallel queries ask one table and one index: make one operation for each.")
    return Parallel(several)


def _stored_names(attributes: Sequence[Ref[Any, Any]]) -> tuple[str, ...]:
    if inside := [repr(attribute) for attribute in attributes if attribute.steps]:
        raise InvalidRequest(
            f"{', '.join(inside)} is a place inside an attribute: select the attribute as a whole."
        )
    names = tuple(dict.fromkeys(attribute.attribute.stored for attribute in attributes))
    if not names:
        raise InvalidRequest("Nothing is selected: name an attribute at least, or leave select(…) out.")
    return names


def _fields(query: AnyQuery[Any, Any]) -> dict[str, Any]:
    return {each.name: getattr(query, each.name) for each in fields(query)}
