"""A table and its indexes, as a system declares them once.

`bookings = Table("Bookings", partition="booking_id")` names the logical table; the physical name has the
environment in it. Indexes are declared on their table and are the only way to a second key. Nothing here
touches a store: `definition` is what an engine is asked to create.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from pydantic.alias_generators import to_camel

from holdfast.errors import DeclarationError
from holdfast.operations.tables.schema import (
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    KeyTag,
    StreamView,
    TableDefinition,
)

if TYPE_CHECKING:
    from holdfast.model.entity import Entity

# What the service takes for the name of a table or an index.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")

ALL: Final = IndexProjection("ALL")
KEYS_ONLY: Final = IndexProjection("KEYS_ONLY")

IndexScope = Literal["global", "local"]


def include(*attributes: str) -> IndexProjection:
    """A projection of the keys and these attributes, by their stored names."""
    return IndexProjection("INCLUDE", attributes)


def as_written(name: str) -> str:
    """Attributes stored under their Python names."""
    return name


@dataclass(frozen=True, eq=False, kw_only=True)
class Index:
    """A second key of a table. One with `default=False` is created only when it is asked for."""

    table: Table
    name: str
    partition: str
    sort: str | None = None
    partition_type: KeyTag = "S"
    sort_type: KeyTag = "S"
    projection: IndexProjection = ALL
    scope: IndexScope = "global"
    default: bool = True
    purpose: str = ""

    def __post_init__(self) -> None:
        _refuse_name(f"The index {self!r}", self.name)
        if not isinstance(self.projection, IndexProjection):
            raise DeclarationError(
                f"The index {self!r} has the projection {self.projection!r}, which is none: give ALL, KEYS_ONLY or "
                "include('…'), of holdfast."
            )

    @property
    def definition(self) -> IndexDefinition:
        return IndexDefinition(self.name, KeySchema(self.partition, self.sort), self.projection)

    @property
    def key_attributes(self) -> tuple[KeyAttribute, ...]:
        return _key_attributes(self.partition, self.partition_type, self.sort, self.sort_type)

    def holds(self, attribute: str) -> bool:
        """Whether a reader of this index finds the attribute."""
        if self.projection.kind == "ALL" or attribute in self.projection.attributes:
            return True
        return attribute in (self.partition, self.sort, self.table.partition, self.table.sort)

    def __repr__(self) -> str:
        return f"{self.table.name}.{self.name}"


@dataclass(frozen=True, eq=False)
class Table:
    """`names` makes a stored name of a Python one. `ttl` is the attribute that holds the end of an item's life."""

    name: str
    partition: str
    sort: str | None = None
    partition_type: KeyTag = field(default="S", kw_only=True)
    sort_type: KeyTag = field(default="S", kw_only=True)
    ttl: str | None = field(default=None, kw_only=True)
    stream: StreamView | None = field(default=None, kw_only=True)
    recovery: bool = field(default=False, kw_only=True)
    deletion_protection: bool = field(default=False, kw_only=True)
    separator: str = field(default="#", kw_only=True)
    names: Callable[[str], str] = field(default=to_camel, kw_only=True)
    physical: str = field(default="", kw_only=True)
    purpose: str = field(default="", kw_only=True)
    indexes: list[Index] = field(default_factory=list, init=False, repr=False)
    entities: list[type[Entity]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        _refuse_name(f"The table {self.name!r}", self.name)
        if len(self.separator) != 1 or self.separator.isalnum() or self.separator == "%":
            raise DeclarationError(
                f"Table {self.name}: the separator of key templates is one character that is no letter, no digit "
                f"and not %, and {self.separator!r} is not: leave it at '#'."
            )

    def index(
        self,
        name: str,
        partition: str,
        sort: str | None = None,
        *,
        projection: IndexProjection = ALL,
        default: bool = True,
        partition_type: KeyTag = "S",
        sort_type: KeyTag = "S",
        purpose: str = "",
    ) -> Index:
        """A global index: its own partition and sort key over the whole table."""
        return self._add(
            Index(
                table=self,
                name=name,
                partition=partition,
                sort=sort,
                partition_type=partition_type,
                sort_type=sort_type,
                projection=projection,
                default=default,
                purpose=purpose,
            )
        )

    def local_index(
        self,
        name: str,
        sort: str,
        *,
        projection: IndexProjection = ALL,
        sort_type: KeyTag = "S",
        purpose: str = "",
    ) -> Index:
        """A local index: another order within each partition. It can only be made with its table."""
        return self._add(
            Index(
                table=self,
                name=name,
                partition=self.partition,
                sort=sort,
                partition_type=self.partition_type,
                sort_type=sort_type,
                projection=projection,
                scope="local",
                purpose=purpose,
            )
        )

    def _add(self, index: Index) -> Index:
        if any(index.name == known.name for known in self.indexes):
            raise DeclarationError(f"Table {self.name} has two indexes named {index.name}: rename one.")
        self.indexes.append(index)
        return index

    @property
    def global_indexes(self) -> tuple[Index, ...]:
        return tuple(index for index in self.indexes if index.scope == "global")

    @property
    def local_indexes(self) -> tuple[Index, ...]:
        return tuple(index for index in self.indexes if index.scope == "local")

    def physical_name(self, environment: str) -> str:
        """`Bookings-prod` in the environment `prod`, `Bookings` where there is none, unless the table says how."""
        if self.physical:
            return self.physical.format(name=self.name, environment=environment)
        return f"{self.name}-{environment}" if environment else self.name

    def definition(self, physical: str, *, indexes: tuple[Index, ...] | None = None) -> TableDefinition:
        """What an engine is asked to create: with the default indexes, or with exactly those given."""
        chosen = (
            [index for index in self.global_indexes if index.default] if indexes is None else list(indexes)
        )
        attributes = {key.name: key for key in self.key_attributes}
        for index in (*self.local_indexes, *chosen):
            attributes |= {key.name: key for key in index.key_attributes}
        return TableDefinition(
            physical,
            tuple(attributes.values()),
            KeySchema(self.partition, self.sort),
            local_indexes=tuple(index.definition for index in self.local_indexes),
            global_indexes=tuple(index.definition for index in chosen),
            stream_view=self.stream,
            deletion_protection=self.deletion_protection,
        )

    @property
    def key_attributes(self) -> tuple[KeyAttribute, ...]:
        return _key_attributes(self.partition, self.partition_type, self.sort, self.sort_type)


def _refuse_name(what: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise DeclarationError(
            f"{what} cannot be called so: a name has 3 to 255 letters (a to z), digits, hyphens, dots and underscores."
        )


def _key_attributes(
    partition: str, partition_type: KeyTag, sort: str | None, sort_type: KeyTag
) -> tuple[KeyAttribute, ...]:
    keys = (KeyAttribute(partition, partition_type),)
    return keys if sort is None else (*keys, KeyAttribute(sort, sort_type))
