"""Table definitions (the input of CreateTable) and table descriptions (the result of DescribeTable)."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

KeyTag: TypeAlias = Literal["S", "N", "B"]
"""The type of a key attribute: text, number or binary."""
ProjectionKind: TypeAlias = Literal["ALL", "KEYS_ONLY", "INCLUDE"]
BillingMode: TypeAlias = Literal["PROVISIONED", "PAY_PER_REQUEST"]
"""How the capacity of a table is paid."""
TableClass: TypeAlias = Literal["STANDARD", "STANDARD_INFREQUENT_ACCESS"]
"""The storage class of a table."""
TableStatus: TypeAlias = Literal["CREATING", "UPDATING", "DELETING", "ACTIVE"]
"""What the service is doing with a table or an index."""
StreamView: TypeAlias = Literal["KEYS_ONLY", "NEW_IMAGE", "OLD_IMAGE", "NEW_AND_OLD_IMAGES"]
"""What a stream record contains."""


class KeyAttribute(msgspec.Struct, frozen=True):
    """A key attribute and the type that the table requires for it."""

    name: str
    type: KeyTag


class KeySchema(msgspec.Struct, frozen=True):
    """The names of the partition key and, if there is one, the sort key."""

    partition: str
    sort: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The partition key and, if there is one, the sort key."""
        return (self.partition,) if self.sort is None else (self.partition, self.sort)


class IndexProjection(msgspec.Struct, frozen=True):
    """The attributes that an index has; `attributes` names them for the kind INCLUDE."""

    kind: ProjectionKind = "ALL"
    attributes: tuple[str, ...] = ()


class Throughput(msgspec.Struct, frozen=True):
    """Provisioned units per second. DynamoDB shows zeros for an on-demand table."""

    read: int = 0
    write: int = 0


class IndexDefinition(msgspec.Struct, frozen=True):
    """An index: its name, its keys and its attributes."""

    name: str
    keys: KeySchema
    projection: IndexProjection
    throughput: Throughput | None = None


class TableDefinition(msgspec.Struct, frozen=True):
    """The input of CreateTable. `attributes` keeps the caller's order."""

    name: str
    attributes: tuple[KeyAttribute, ...]
    keys: KeySchema
    local_indexes: tuple[IndexDefinition, ...] = ()
    global_indexes: tuple[IndexDefinition, ...] = ()
    billing_mode: BillingMode = "PAY_PER_REQUEST"
    throughput: Throughput = Throughput()
    table_class: TableClass | None = None
    deletion_protection: bool = False
    stream_view: StreamView | None = None

    def get_attribute_type(self, attribute: str) -> KeyTag:
        """Return the declared type of a key attribute of the table or of one of its indexes."""
        return next(known.type for known in self.attributes if known.name == attribute)


class IndexState(msgspec.Struct, frozen=True):
    """The build progress and the contents of an index."""

    status: TableStatus = "ACTIVE"
    backfilling: bool = False
    item_count: int = 0
    size_bytes: int = 0


class RestoreOrigin(msgspec.Struct, frozen=True):
    """The backup or table that a table was restored from."""

    source_table: str
    source_table_id: str
    restored_to: float
    backup_id: str | None = None
    in_progress: bool = True


class TableDescription(msgspec.Struct, frozen=True):
    """A table as DescribeTable returns it. Times are epoch seconds."""

    definition: TableDefinition
    id: str
    status: TableStatus
    created_at: float
    item_count: int = 0
    size_bytes: int = 0
    global_indexes: dict[str, IndexState] = {}
    local_indexes: dict[str, IndexState] = {}
    stream_label: str | None = None
    stream_view: StreamView | None = None
    billing_changed_at: float | None = None
    table_class_changed_at: float | None = None
    throughput_raised_at: float | None = None
    throughput_lowered_at: float | None = None
    restore: RestoreOrigin | None = None
    throughput_decreases_today: int = 0
