"""Keys of an entity: `Key`, `IndexKey` and `Lifetime` in the class body; partitions that build operations.

    of = Key(employee_id, booking_id)                        the primary key
    by_status = IndexKey(gsi1, "STATUS#" + status, id)       the key of an index

`Booking.of("emp-42")` is a partition, from which reads and writes are built; the type checker knows the
argument types of the partition and sort keys. An item that lacks an attribute of an index key is not in that
index.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Never, Protocol, TypeVar, TypeVarTuple, cast, overload

from holdfast.core.errors import DeclarationError, InvalidRequest
from holdfast.model.entities.encoders import encode_key_text
from holdfast.model.entities.key_templates import HIGHEST_CHARACTER, IndexFilter, KeyPart, Template
from holdfast.model.entities.reads import Get, Query
from holdfast.model.entities.writes import ConditionCheck, Delete, Update
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables.schema import KeyTag
from holdfast.operations.values import Item, Value

if TYPE_CHECKING:
    from holdfast.model.entities.attributes import Attr
    from holdfast.model.entities.declaration import Declaration, KeyDeclaration
    from holdfast.model.entities.entity import Entity
    from holdfast.model.tables import Index

E = TypeVar("E", bound="Entity")
E_co = TypeVar("E_co", bound="Entity", covariant=True)
U = TypeVar("U")
V = TypeVar("V")
Ts = TypeVarTuple("Ts")
Us = TypeVarTuple("Us")
PartT = TypeVar("PartT", bound="KeyPart[*tuple[Any, ...]]")
SortT = TypeVar("SortT", bound="KeyPart[*tuple[Any, ...]]")

_TAG_NAMES: Final = {"S": "text", "N": "a number", "B": "binary"}


class Key(Generic[PartT, SortT]):
    """The primary key, in the class body."""

    @overload
    def __init__(self: Key[KeyPart[*Ts], KeyPart[()]], partition: KeyPart[*Ts], sort: str = ...) -> None: ...
    @overload
    def __init__(
        self: Key[KeyPart[*Ts], KeyPart[*Us]], partition: KeyPart[*Ts], sort: KeyPart[*Us]
    ) -> None: ...
    @overload
    def __init__(self: Key[KeyPart[()], KeyPart[*Us]], partition: str, sort: KeyPart[*Us]) -> None: ...
    @overload
    def __init__(self: Key[KeyPart[()], KeyPart[()]], partition: str, sort: str = ...) -> None: ...
    def __init__(self, partition: Any, sort: Any = None) -> None:
        self.partition, self.sort = partition, sort

    if TYPE_CHECKING:

        def __get__(self, instance: None, owner: type[E]) -> BoundKey[E, PartT, SortT]: ...


class IndexKey(Generic[PartT, SortT]):
    """The key of an index, in the class body.

    `only` limits which items are in it: `only=status.one_of(OPEN)`.
    """

    @overload
    def __init__(
        self: IndexKey[KeyPart[*Ts], KeyPart[()]],
        index: Index,
        partition: KeyPart[*Ts],
        sort: str = ...,
        *,
        only: IndexFilter | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: IndexKey[KeyPart[*Ts], KeyPart[*Us]],
        index: Index,
        partition: KeyPart[*Ts],
        sort: KeyPart[*Us],
        *,
        only: IndexFilter | None = ...,
    ) -> None: ...
    @overload
    def __init__(
        self: IndexKey[KeyPart[()], KeyPart[*Us]],
        index: Index,
        partition: str,
        sort: KeyPart[*Us],
        *,
        only: IndexFilter | None = ...,
    ) -> None: ...
    def __init__(
        self, index: Index, partition: Any, sort: Any = None, *, only: IndexFilter | None = None
    ) -> None:
        self.index, self.partition, self.sort, self.only = index, partition, sort, only

    if TYPE_CHECKING:
        # Items that lack an attribute are not in the index, so callers never pass None.
        @overload
        def __get__(
            self: IndexKey[KeyPart[U | None], KeyPart[V | None]], instance: None, owner: type[E]
        ) -> BoundIndex[E, KeyPart[U], KeyPart[V]]: ...
        @overload
        def __get__(
            self: IndexKey[KeyPart[U | None], SortT], instance: None, owner: type[E]
        ) -> BoundIndex[E, KeyPart[U], SortT]: ...
        @overload
        def __get__(
            self: IndexKey[PartT, KeyPart[V | None]], instance: None, owner: type[E]
        ) -> BoundIndex[E, PartT, KeyPart[V]]: ...
        @overload
        def __get__(self, instance: None, owner: type[E]) -> BoundIndex[E, PartT, SortT]: ...
        def __get__(self, instance: None, owner: Any) -> Any: ...


class Lifetime:
    """The lifetime of an item, in the class body: `lives = Lifetime(created_at, timedelta(days=90))`.

    The expiry is written, in epoch seconds, under the table's time-to-live attribute. An item whose attribute
    is absent does not expire.
    """

    def __init__(
        self, attribute: Attr[datetime] | Attr[datetime | None], after: timedelta = timedelta()
    ) -> None:
        self.attribute, self.after = attribute, after


@dataclass(frozen=True)
class BoundIndex(Generic[E, PartT, SortT]):
    """An index key in use, such as `Booking.by_passenger`: call it with the values of the partition key."""

    declaration: Declaration
    key: KeyDeclaration

    def __call__(self: BoundIndex[E, KeyPart[*Ts], SortT], *partition: *Ts) -> IndexPartition[E, SortT]:
        return IndexPartition(
            self.declaration, self.key, _check_arguments(self.key.partition, partition, "partition")
        )


@dataclass(frozen=True)
class BoundKey(Generic[E, PartT, SortT]):
    """The primary key in use, such as `Booking.of`: call it with the values of the partition key."""

    declaration: Declaration
    key: KeyDeclaration

    def __call__(self: BoundKey[E, KeyPart[*Ts], SortT], *partition: *Ts) -> Partition[E, SortT]:
        return Partition(
            self.declaration, self.key, _check_arguments(self.key.partition, partition, "partition")
        )


class TextSortKey(Protocol[E_co]):
    """A partition whose sort key begins with a text attribute."""

    def _owner(self) -> E_co: ...
    def _first_value(self) -> str: ...


@dataclass(frozen=True)
class IndexPartition(Generic[E, SortT]):
    """The items under one partition key, read in sort key order, whole or as a range."""

    declaration: Declaration
    key: KeyDeclaration
    values: tuple[Any, ...]

    def query(self) -> Query[E]:
        """Build the query of all items of this entity in the partition."""
        if self.key.sort is None or not self.key.sort.constant_prefix:
            return self._build_query()
        if not self.key.sort.slots:
            return self._build_query(KeyTest(self._sort_name, "=", (self.key.sort.constant_prefix,)))
        return self._build_query(KeyTest(self._sort_name, "begins_with", (self.key.sort.constant_prefix,)))

    def at(self: IndexPartition[E, KeyPart[U, *tuple[Any, ...]]], first: U, *more: Never) -> Query[E]:
        """Build the query of the items whose sort key begins with this value of its first attribute."""
        if more:
            raise InvalidRequest(
                "Too many arguments for at(…): expected only the first attribute of the sort key "
                f"{self._sort_name}. Use get(…) for the item under the whole sort key."
            )
        if self._is_raw:
            return self._build_query(KeyTest(self._sort_name, "=", (self._encode_first(first),)))
        text, is_whole = self._sort_template.build_prefix([first])
        return self._build_query(KeyTest(self._sort_name, "=" if is_whole else "begins_with", (text,)))

    def begins_with(self: TextSortKey[E], prefix: str) -> Query[E]:
        """Build the query of the items whose first sort key attribute begins with this text."""
        return cast("IndexPartition[E, Any]", self)._build_prefix_query(prefix)

    def between(self: IndexPartition[E, KeyPart[U, *tuple[Any, ...]]], low: U, high: U) -> Query[E]:
        """Build the query of the items whose first sort key attribute is from `low` to `high`, both
        included.
        """
        self._refuse_unsorted_numbers()
        return self._build_query(
            KeyTest(self._sort_name, "between", (self._encode_low(low), self._encode_high(high)))
        )

    def since(self: IndexPartition[E, KeyPart[U, *tuple[Any, ...]]], low: U) -> Query[E]:
        """Build the query of the items whose first sort key attribute is `low` or greater."""
        self._refuse_unsorted_numbers()
        if self._sort_template.constant_prefix:
            return self._build_query(
                KeyTest(
                    self._sort_name,
                    "between",
                    (self._encode_low(low), self._sort_template.constant_prefix + HIGHEST_CHARACTER),
                )
            )
        return self._build_query(KeyTest(self._sort_name, ">=", (self._encode_low(low),)))

    def until(self: IndexPartition[E, KeyPart[U, *tuple[Any, ...]]], high: U) -> Query[E]:
        """Build the query of the items whose first sort key attribute is `high` or less."""
        self._refuse_unsorted_numbers()
        if self._sort_template.constant_prefix:
            return self._build_query(
                KeyTest(
                    self._sort_name, "between", (self._sort_template.constant_prefix, self._encode_high(high))
                )
            )
        return self._build_query(KeyTest(self._sort_name, "<=", (self._encode_high(high),)))

    def before(self: IndexPartition[E, KeyPart[U, *tuple[Any, ...]]], high: U) -> Query[E]:
        """Build the query of the items whose first sort key attribute is less than `high`.

        Raise `InvalidRequest` if the sort key begins with a constant.
        """
        self._refuse_unsorted_numbers()
        if self._sort_template.constant_prefix:
            raise InvalidRequest(
                f"before(…) does not work on the sort key {self._sort_name}, which begins with the constant "
                f"{self._sort_template.constant_prefix!r}. Use until(…) with the last value to include."
            )
        return self._build_query(KeyTest(self._sort_name, "<", (self._encode_low(high),)))

    if TYPE_CHECKING:
        # A type checker matches these against `TextSortKey`.
        def _owner(self) -> E: ...
        def _first_value(self: IndexPartition[E, KeyPart[U, *tuple[Any, ...]]]) -> U: ...

    def _build_prefix_query(self, prefix: str) -> Query[E]:
        """Build the query of sort keys that begin with this text, after the key's own constant."""
        if not isinstance(prefix, str):
            raise InvalidRequest(
                f"Invalid prefix {prefix!r} of a sort key: expected a string. Use at(…) for a value."
            )
        text = (
            prefix
            if self._is_raw
            else self._sort_template.constant_prefix + self._sort_template.escape(prefix)
        )
        return self._build_query(KeyTest(self._sort_name, "begins_with", (text,)))

    def _build_query(self, *tests: KeyTest) -> Query[E]:
        """Build the query of this partition with these tests of the sort key."""
        partition = KeyTest(
            self.key.partition_name, "=", (self.key.partition.build_from_arguments(self.values),)
        )
        return Query(self.declaration, read_index=self.key.index, key_condition=(partition, *tests))

    @property
    def _sort_template(self) -> Template:
        """The template of the sort key; raises `InvalidRequest` if there is none."""
        if self.key.sort is None:
            raise InvalidRequest(f"{self.declaration.entity.__name__} has no sort key: use query().")
        return self.key.sort

    @property
    def _sort_name(self) -> str:
        assert self.key.sort_name is not None
        return self.key.sort_name

    @property
    def _is_raw(self) -> bool:
        """True if the sort key is a single attribute: nothing is joined or escaped."""
        return len(self._sort_template.pieces) == 1 and bool(self._sort_template.slots)

    def _refuse_unsorted_numbers(self) -> None:
        """Raise `InvalidRequest` for numbers inside text, which do not sort as numbers: 10 would come before
        9.
        """
        first = self._sort_template.slots[0] if self._sort_template.slots else None
        if (
            not self._is_raw
            and first is not None
            and first.function is None
            and first.attribute.key_tag == "N"
        ):
            name = first.attribute.name
            raise InvalidRequest(
                f"No range query on {name}: it is a number inside the text of {self._sort_name}, and text "
                f"does not sort as numbers do. Declare the key with {name}.zero_pad(…), or use at(…)."
            )

    def _encode_first(self, value: Any) -> Value:
        """Return the stored form of a value of the first sort key attribute."""
        return self._sort_template.slots[0].encode_argument(value)

    def _encode_low(self, value: Any) -> Value:
        """Return the lowest sort key that begins with the value."""
        if self._is_raw:
            return self._encode_first(value)
        return self._sort_template.constant_prefix + self._sort_template.escape(
            encode_key_text(self._encode_first(value))
        )

    def _encode_high(self, value: Any) -> Value:
        """Return a bound above every key that begins with the value: later attributes do not count in a
        range.
        """
        if self._is_raw:
            return self._encode_first(value)
        text, is_whole = self._sort_template.build_prefix([value])
        return text if is_whole else text + HIGHEST_CHARACTER


class Partition(IndexPartition[E, SortT]):
    """The items under one partition key of the table itself; with a sort key, one item."""

    def get(self: Partition[E, KeyPart[*Us]], *sort: *Us) -> Get[E]:
        """Build the read of the item under this sort key."""
        return Get(self.declaration, self._build_key(sort))

    def update(self: Partition[E, KeyPart[*Us]], *sort: *Us) -> Update[E]:
        """Build an update of the item under this sort key; its `set`, `remove` and `when` say what it
        does.
        """
        return Update(self.declaration, self._build_key(sort), known=self._get_known_values(sort))

    def delete(self: Partition[E, KeyPart[*Us]], *sort: *Us) -> Delete[E]:
        """Build the deletion of the item under this sort key."""
        return Delete(self.declaration, self._build_key(sort))

    def check(self: Partition[E, KeyPart[*Us]], *sort: *Us) -> ConditionCheck[E]:
        """Build a condition check for a transaction: the item exists and meets the conditions of `when`."""
        return ConditionCheck(self.declaration, self._build_key(sort))

    def _build_key(self, sort: tuple[Any, ...]) -> tuple[tuple[str, Value], ...]:
        """Return the key attributes of the item; raise `InvalidRequest` for the wrong number of values."""
        address: Item = {self.key.partition_name: self.key.partition.build_from_arguments(self.values)}
        if self.key.sort is not None:
            address[self._sort_name] = self.key.sort.build_from_arguments(
                _check_arguments(self.key.sort, sort, "sort")
            )
        elif sort:
            raise InvalidRequest(
                f"Unexpected argument {sort[0]!r}: {self.declaration.entity.__name__} has no sort key."
            )
        return tuple(address.items())

    def _get_known_values(self, sort: tuple[Any, ...]) -> tuple[tuple[str, Any], ...]:
        """Return the attribute values that the key arguments determine."""
        slots = (*self.key.partition.slots, *(self.key.sort.slots if self.key.sort else ()))
        pairs = zip(slots, (*self.values, *sort), strict=True)
        return tuple((slot.attribute.name, value) for slot, value in pairs if slot.is_attribute_value)


def _check_arguments(template: Template, values: tuple[Any, ...], which: str) -> tuple[Any, ...]:
    """Return the values; raise `InvalidRequest` unless there is one per attribute.

    `which` is `partition` or `sort`.
    """
    names = [slot.attribute.name for slot in template.slots]
    if len(values) != len(names):
        raise InvalidRequest(
            f"Invalid arguments for the {which} key: expected {', '.join(names) or 'none'}, got "
            f"{len(values)}."
        )
    return values


def check_key_fits(key: KeyDeclaration, where: str, tags: tuple[KeyTag, KeyTag]) -> None:
    """Raise `DeclarationError` if the key does not match the key attributes of its table or index.

    `where` names the entity in the error; `tags` are the declared types of the partition and sort keys.
    """
    if key.sort_name is None and key.sort is not None and key.sort.pieces:
        raise DeclarationError(f"{where} has no sort key: remove the second argument.")
    if key.sort_name is not None and (key.sort is None or not key.sort.pieces):
        raise DeclarationError(f"{where}: missing sort key {key.sort_name}. Add it as the second argument.")
    if not key.partition.pieces:
        raise DeclarationError(
            f"{where}: the partition key {key.partition_name} is empty. Add an attribute or text."
        )
    for name, template, tag in zip(
        (key.partition_name, key.sort_name), (key.partition, key.sort), tags, strict=True
    ):
        built = _get_key_tag(template)
        if built not in (None, tag):
            raise DeclarationError(
                f"{where}: the key {name} is declared as {_TAG_NAMES[tag]}, but its value is "
                f"{_TAG_NAMES[built]}. "
                f"Declare its type as {built!r} on the table or index, or use other attributes."
            )
    if key.only is not None and not key.computed:
        raise DeclarationError(
            f"{where}: `only` needs a computed key attribute that can be left out, but this key uses plain "
            "entity attributes. Use other key attributes for the index, or drop `only`."
        )


def _get_key_tag(template: Template | None) -> KeyTag | None:
    """Return the key type that a template produces: S, unless it is a single attribute; None if that is
    unknown.
    """
    if template is None or not template.pieces:
        return None
    if len(template.pieces) > 1 or not template.slots:
        return "S"
    return template.slots[0].attribute.key_tag if template.slots[0].function is None else None
