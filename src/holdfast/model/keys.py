"""Keys, in the class body and in use.

    of = Key(employee_id, booking_id)                        the primary key
    by_status = IndexKey(gsi1, "STATUS#" + status, id)       the key of an index

`Booking.of("emp-42")` is a partition, from which reads and writes are built; the checker knows which values the
partition and the sort key take. An item that lacks an attribute of an index key is not in that index.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Never, Protocol, TypeVar, TypeVarTuple, cast, overload

from holdfast.errors import DeclarationError, InvalidRequest
from holdfast.model.encoding import key_text
from holdfast.model.reads import Get, Query
from holdfast.model.templates import ABOVE_ALL, Only, Part, Template
from holdfast.model.writes import Check, Delete, Update
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables.schema import KeyTag
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from holdfast.model.attributes import Attr
    from holdfast.model.declaration import Declaration, KeyDeclaration
    from holdfast.model.entity import Entity
    from holdfast.model.tables import Index

E = TypeVar("E", bound="Entity")
E_co = TypeVar("E_co", bound="Entity", covariant=True)
U = TypeVar("U")
V = TypeVar("V")
Ts = TypeVarTuple("Ts")
Us = TypeVarTuple("Us")
PartT = TypeVar("PartT", bound="Part[*tuple[Any, ...]]")
SortT = TypeVar("SortT", bound="Part[*tuple[Any, ...]]")

_KINDS: Final = {"S": "text", "N": "a number", "B": "binary"}


class Key(Generic[PartT, SortT]):
    """The primary key, in the class body."""

    @overload
    def __init__(self: Key[Part[*Ts], Part[()]], partition: Part[*Ts], sort: str = ...) -> None: ...
    @overload
    def __init__(self: Key[Part[*Ts], Part[*Us]], partition: Part[*Ts], sort: Part[*Us]) -> None: ...
    @overload
    def __init__(self: Key[Part[()], Part[*Us]], partition: str, sort: Part[*Us]) -> None: ...
    @overload
    def __init__(self: Key[Part[()], Part[()]], partition: str, sort: str = ...) -> None: ...
    def __init__(self, partition: Any, sort: Any = None) -> None:
        self.partition, self.sort = partition, sort

    if TYPE_CHECKING:

        def __get__(self, instance: None, owner: type[E]) -> BoundKey[E, PartT, SortT]: ...


class IndexKey(Generic[PartT, SortT]):
    """The key of an index, in the class body. `only` keeps items out of the index: `only=status.one_of(OPEN)`."""

    @overload
    def __init__(
        self: IndexKey[Part[*Ts], Part[()]],
        index: Index,
        partition: Part[*Ts],
        sort: str = ...,
        *,
        only: Only | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: IndexKey[Part[*Ts], Part[*Us]],
        index: Index,
        partition: Part[*Ts],
        sort: Part[*Us],
        *,
        only: Only | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: IndexKey[Part[()], Part[*Us]],
        index: Index,
        partition: str,
        sort: Part[*Us],
        *,
        only: Only | None = ...,
    ) -> None: ...
    def __init__(self, index: Index, partition: Any, sort: Any = None, *, only: Only | None = None) -> None:
        self.index, self.partition, self.sort, self.only = index, partition, sort, only

    if TYPE_CHECKING:
        # An attribute that may be absent keeps items out of the index; nobody asks for them by None.
        @overload
        def __get__(
            self: IndexKey[Part[U | None], Part[V | None]], instance: None, owner: type[E]
        ) -> BoundIndex[E, Part[U], Part[V]]: ...
        @overload
        def __get__(
            self: IndexKey[Part[U | None], SortT], instance: None, owner: type[E]
        ) -> BoundIndex[E, Part[U], SortT]: ...
        @overload
        def __get__(
            self: IndexKey[PartT, Part[V | None]], instance: None, owner: type[E]
        ) -> BoundIndex[E, PartT, Part[V]]: ...
        @overload
        def __get__(self, instance: None, owner: type[E]) -> BoundIndex[E, PartT, SortT]: ...
        def __get__(self, instance: None, owner: Any) -> Any: ...


class Lifetime:
    """How long an item lives, in the class body: `lives = Lifetime(created_at, timedelta(days=90))`.

    The end is written, in epoch seconds, under the table's time-to-live attribute. An item whose attribute is
    absent lives on.
    """

    def __init__(
        self, attribute: Attr[datetime] | Attr[datetime | None], after: timedelta = timedelta()
    ) -> None:
        self.attribute, self.after = attribute, after


@dataclass(frozen=True)
class BoundIndex(Generic[E, PartT, SortT]):
    """`Booking.by_passenger`: call it with the values of the partition key."""

    declaration: Declaration
    key: KeyDeclaration

    def __call__(self: BoundIndex[E, Part[*Ts], SortT], *partition: *Ts) -> IndexPartition[E, SortT]:
        return IndexPartition(
            self.declaration, self.key, _arguments(self.key.partition, partition, "partition")
        )


@dataclass(frozen=True)
class BoundKey(Generic[E, PartT, SortT]):
    """`Booking.of`: call it with the values of the partition key."""

    declaration: Declaration
    key: KeyDeclaration

    def __call__(self: BoundKey[E, Part[*Ts], SortT], *partition: *Ts) -> Partition[E, SortT]:
        return Partition(self.declaration, self.key, _arguments(self.key.partition, partition, "partition"))


class SortedByText(Protocol[E_co]):
    """A partition whose sort key begins with a text, of whichever kind."""

    def _owner(self) -> E_co: ...
    def _first(self) -> str: ...


@dataclass(frozen=True)
class IndexPartition(Generic[E, SortT]):
    """The items under one partition key. It can be read in the order of its sort key, whole or a range."""

    declaration: Declaration
    key: KeyDeclaration
    values: tuple[Any, ...]

    def query(self) -> Query[E]:
        """All of it."""
        if self.key.sort is None or not self.key.sort.start:
            return self._query()
        if not self.key.sort.slots:
            return self._query(KeyTest(self._sort_name, "=", (self.key.sort.start,)))
        return self._query(KeyTest(self._sort_name, "begins_with", (self.key.sort.start,)))

    def at(self: IndexPartition[E, Part[U, *tuple[Any, ...]]], first: U, *more: Never) -> Query[E]:
        """Those whose sort key begins with this value of its first attribute."""
        if more:
            raise InvalidRequest(
                f"at(…) takes the first attribute of the sort key {self._sort_name} and no more: the item under all of "
                "them is get(…)."
            )
        if self._is_raw:
            return self._query(KeyTest(self._sort_name, "=", (self._raw(first),)))
        text, is_whole = self._sort.beginning([first])
        return self._query(KeyTest(self._sort_name, "=" if is_whole else "begins_with", (text,)))

    def begins_with(self: SortedByText[E], prefix: str) -> Query[E]:
        """Those whose first attribute of the sort key begins with this text."""
        return cast("IndexPartition[E, Any]", self)._beginning_with(prefix)

    def between(self: IndexPartition[E, Part[U, *tuple[Any, ...]]], low: U, high: U) -> Query[E]:
        """Those whose first attribute of the sort key is from `low` to `high`, both included."""
        self._refuse_unsorted()
        return self._query(KeyTest(self._sort_name, "between", (self._low(low), self._high(high))))

    def since(self: IndexPartition[E, Part[U, *tuple[Any, ...]]], low: U) -> Query[E]:
        """Those whose first attribute of the sort key is `low` or more."""
        self._refuse_unsorted()
        if self._sort.start:
            return self._query(
                KeyTest(self._sort_name, "between", (self._low(low), self._sort.start + ABOVE_ALL))
            )
        return self._query(KeyTest(self._sort_name, ">=", (self._low(low),)))

    def until(self: IndexPartition[E, Part[U, *tuple[Any, ...]]], high: U) -> Query[E]:
        """Those whose first attribute of the sort key is `high` or less."""
        self._refuse_unsorted()
        if self._sort.start:
            return self._query(KeyTest(self._sort_name, "between", (self._sort.start, self._high(high))))
        return self._query(KeyTest(self._sort_name, "<=", (self._high(high),)))

    def before(self: IndexPartition[E, Part[U, *tuple[Any, ...]]], high: U) -> Query[E]:
        """Those whose first attribute of the sort key is less than `high`."""
        self._refuse_unsorted()
        if self._sort.start:
            raise InvalidRequest(
                f"The sort key {self._sort_name} begins with the constant {self._sort.start!r}, and a query has room "
                "for one bound beside it: use until(…) with the last value that is wanted."
            )
        return self._query(KeyTest(self._sort_name, "<", (self._low(high),)))

    if TYPE_CHECKING:
        # By these a type checker finds out whether it is `SortedByText`.
        def _owner(self) -> E: ...
        def _first(self: IndexPartition[E, Part[U, *tuple[Any, ...]]]) -> U: ...

    def _beginning_with(self, prefix: str) -> Query[E]:
        if not isinstance(prefix, str):
            raise InvalidRequest(
                f"A sort key begins with a text, and {prefix!r} is none: give the text, or use at(…) with a value."
            )
        text = prefix if self._is_raw else self._sort.start + self._sort.escaped(prefix)
        return self._query(KeyTest(self._sort_name, "begins_with", (text,)))

    def _query(self, *tests: KeyTest) -> Query[E]:
        partition = KeyTest(self.key.partition_name, "=", (self.key.partition.of_arguments(self.values),))
        return Query(self.declaration, read_index=self.key.index, key_condition=(partition, *tests))

    @property
    def _sort(self) -> Template:
        if self.key.sort is None:
            raise InvalidRequest(f"{self.declaration.entity.__name__} has no sort key here: use query().")
        return self.key.sort

    @property
    def _sort_name(self) -> str:
        assert self.key.sort_name is not None
        return self.key.sort_name

    @property
    def _is_raw(self) -> bool:
        """Whether the sort key is one attribute as it is: nothing is joined, nothing escaped."""
        return len(self._sort.pieces) == 1 and bool(self._sort.slots)

    def _refuse_unsorted(self) -> None:
        """Numbers as texts do not sort as numbers: 10 would come before 9."""
        first = self._sort.slots[0] if self._sort.slots else None
        if not self._is_raw and first is not None and first.function is None and first.attribute.tag == "N":
            name = first.attribute.name
            raise InvalidRequest(
                f"{name} is a number inside the text of {self._sort_name}, and texts do not sort as numbers do: "
                f"declare the key with {name}.padded(…), or use at(…)."
            )

    def _raw(self, value: Any) -> Value:
        return self._sort.slots[0].argument(value)

    def _low(self, value: Any) -> Value:
        if self._is_raw:
            return self._raw(value)
        return self._sort.start + self._sort.escaped(key_text(self._raw(value)))

    def _high(self, value: Any) -> Value:
        """Above every continuation of the value: what follows the first attribute does not count in a range."""
        if self._is_raw:
            return self._raw(value)
        text, is_whole = self._sort.beginning([value])
        return text if is_whole else text + ABOVE_ALL


class Partition(IndexPartition[E, SortT]):
    """The items under one partition key of the table itself: with the sort key, one item."""

    def get(self: Partition[E, Part[*Us]], *sort: *Us) -> Get[E]:
        return Get(self.declaration, self._address(sort))

    def update(self: Partition[E, Part[*Us]], *sort: *Us) -> Update[E]:
        """A change of the attributes named, and of the index keys that are made of them."""
        return Update(self.declaration, self._address(sort), known=self._known(sort))

    def delete(self: Partition[E, Part[*Us]], *sort: *Us) -> Delete[E]:
        return Delete(self.declaration, self._address(sort))

    def check(self: Partition[E, Part[*Us]], *sort: *Us) -> Check[E]:
        """In a transaction: that the item is there, and as `when` says, for the others to happen."""
        return Check(self.declaration, self._address(sort))

    def _address(self, sort: tuple[Any, ...]) -> tuple[tuple[str, Value], ...]:
        address: Item = {self.key.partition_name: self.key.partition.of_arguments(self.values)}
        if self.key.sort is not None:
            address[self._sort_name] = self.key.sort.of_arguments(_arguments(self.key.sort, sort, "sort"))
        elif sort:
            raise InvalidRequest(
                f"{self.declaration.entity.__name__} has no sort key: leave out {sort[0]!r}."
            )
        return tuple(address.items())

    def _known(self, sort: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
        """The attributes whose values the key itself tells."""
        slots = (*self.key.partition.slots, *(self.key.sort.slots if self.key.sort else ()))
        pairs = zip(slots, (*self.values, *sort), strict=True)
        return tuple((slot.attribute.name, value) for slot, value in pairs if slot.tells_attribute)


def _arguments(template: Template, values: tuple[Any, ...], which: str) -> tuple[Any, ...]:
    names = [slot.attribute.name for slot in template.slots]
    if len(values) != len(names):
        raise InvalidRequest(
            f"The {which} key takes {', '.join(names) or 'nothing'}, and {len(values)} values were given."
        )
    return values


def check_fits(key: KeyDeclaration, where: str, tags: tuple[KeyTag, KeyTag]) -> None:
    """A key that its table or index has no place for, or that would leave a place empty."""
    if key.sort_name is None and key.sort is not None and key.sort.pieces:
        raise DeclarationError(f"{where} has no sort key: take the second part away.")
    if key.sort_name is not None and (key.sort is None or not key.sort.pieces):
        raise DeclarationError(f"{where} has the sort key {key.sort_name}: say what it is made of.")
    if not key.partition.pieces:
        raise DeclarationError(f"{where}: the partition key {key.partition_name} must be made of something.")
    for name, template, tag in zip(
        (key.partition_name, key.sort_name), (key.partition, key.sort), tags, strict=True
    ):
        made = _tag_of(template)
        if made not in (None, tag):
            raise DeclarationError(
                f"{where}: the key {name} is declared as {_KINDS[tag]}, and is made of {_KINDS[made]}: declare its "
                f"type as {made!r} on the table or index, or make it of something else."
            )
    if key.only is not None and not key.computed:
        raise DeclarationError(
            f"{where}: `only` needs a key attribute of its own that can be left out, and this key is made of "
            "attributes as they are: name other attributes for the index, or drop `only`."
        )


def _tag_of(template: Template | None) -> KeyTag | None:
    """What a template makes: text, unless it is one attribute as it is. None where that cannot be told."""
    if template is None or not template.pieces:
        return None
    if len(template.pieces) > 1 or not template.slots:
        return "S"
    return template.slots[0].attribute.tag if template.slots[0].function is None else None
