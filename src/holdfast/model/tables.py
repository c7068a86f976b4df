"""Declarations of tables and their indexes, and the definitions that engines create them from.

`bookings = Table("Bookings", partition="booking_id")` names the logical table; the physical name includes the
environment. Indexes are declared on their table. Nothing here touches a store: `definition` is what an engine
creates.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from pydantic.alias_generators import to_camel

from holdfast.core.errors import DeclarationError
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
    from holdfast.model.entities.entity import Entity

__all__ = [
    "ALL",
    "KEYS_ONLY",
    "Index",
    "Table",
    "include",
    "keep_names",
]

# DynamoDB's rule for table and index names.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")

ALL: Final = IndexProjection("ALL")
"""Projection of an index: all attributes of the item."""
KEYS_ONLY: Final = IndexProjection("KEYS_ONLY")
"""Projection of an index: the keys of the table and of the index."""

IndexScope = Literal["global", "local"]


def include(*attributes: str) -> IndexProjection:
    """Return a projection of the keys and these attributes, by their stored names."""
    return IndexProjection("INCLUDE", attributes)


def keep_names(name: str) -> str:
    """Return the name unchanged: `Table(…, naming=keep_names)` stores attributes under their Python names."""
    return name


@dataclass(frozen=True, eq=False, kw_only=True)
class Index:
    """A secondary index of a table. One with `default=False` is optional: it is created only on request."""

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
        _check_name(f"the index {self!r}", self.name)
        if not isinstance(self.projection, IndexProjection):
            raise DeclarationError(
                f"Invalid projection {self.projection!r} of the index {self!r}: expected ALL, KEYS_ONLY or "
                "include('…') from holdfast."
            )

    @property
    def definition(self) -> IndexDefinition:
        return IndexDefinition(self.name, KeySchema(self.partition, self.sort), self.projection)

    @property
    def key_attributes(self) -> tuple[KeyAttribute, ...]:
        """The index's key attributes with their types."""
        return _build_key_attributes(self.partition, self.partition_type, self.sort, self.sort_type)

    def has_attribute(self, attribute: str) -> bool:
        """Return True if readers of this index see the attribute."""
        if self.projection.kind == "ALL" or attribute in self.projection.attributes:
            return True
        return attribute in (self.partition, self.sort, self.table.partition, self.table.sort)

    def __repr__(self) -> str:
        return f"{self.table.name}.{self.name}"


@dataclass(frozen=True, eq=False)
class Table:
    """A table.

    `naming` converts Python names to stored names; `ttl` is the attribute that holds an item's expiry.
    """

    name: str
    partition: str
    sort: str | None = None
    partition_type: KeyTag = field(default="S", kw_only=True)
    sort_type: KeyTag = field(default="S", kw_only=True)
    ttl: str | None = field(default=None, kw_only=True)
    stream: StreamView | None = field(default=None, kw_only=True)
    point_in_time_recovery: bool = field(default=False, kw_only=True)
    deletion_protection: bool = field(default=False, kw_only=True)
    separator: str = field(default="#", kw_only=True)
    naming: Callable[[str], str] = field(default=to_camel, kw_only=True)
    physical: str = field(default="", kw_only=True)
    purpose: str = field(default="", kw_only=True)
    indexes: list[Index] = field(default_factory=list, init=False, repr=False)
    entities: list[type[Entity]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        _check_name(f"the table {self.name!r}", self.name)
        if len(self.separator) != 1 or self.separator.isalnum() or self.separator == "%":
            raise DeclarationError(
                f"Invalid separator {self.separator!r} of table {self.name}: expected one character other "
                "than a letter, a digit or %. The default is '#'."
            )

    def global_index(
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
        """Declare a global secondary index, with its own partition and sort key, and add it to the table.

        One with `default=False` is created only on request.
        """
        return self._add_index(
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
        """Declare a local secondary index, another order within each partition, and add it to the table.

        It can only be created with its table.
        """
        return self._add_index(
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

    def _add_index(self, index: Index) -> Index:
        """Add the index; raise `DeclarationError` if its name is taken."""
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
        """Return `Bookings-prod` in the environment `prod`, `Bookings` without one, or by the table's
        `physical` format.
        """
        if self.physical:
            return self.physical.format(name=self.name, environment=environment)
        return f"{self.name}-{environment}" if environment else self.name

    def definition(self, physical: str, *, indexes: tuple[Index, ...] | None = None) -> TableDefinition:
        """Return the definition that an engine creates: with the default global indexes, or with exactly the
        given ones.

        `physical` is the table's physical name. Local indexes are always included.
        """
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
        """The table's key attributes with their types."""
        return _build_key_attributes(self.partition, self.partition_type, self.sort, self.sort_type)


def _check_name(what: str, name: str) -> None:
    """Raise `DeclarationError` unless DynamoDB accepts the name.

    `what` names the table or index in the error.
    """
    if not _NAME.fullmatch(name):
        raise DeclarationError(
            f"Invalid name of {what}: expected 3 to 255 letters (a to z), digits, hyphens, dots and "
            "underscores."
        )


def _build_key_attributes(
    partition: str, partition_type: KeyTag, sort: str | None, sort_type: KeyTag
) -> tuple[KeyAttribute, ...]:
    """Return the partition key and, if there is one, the sort key with their types."""
    keys = (KeyAttribute(partition, partition_type),)
    return keys if sort is None else (*keys, KeyAttribute(sort, sort_type))
