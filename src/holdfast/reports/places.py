"""What an operation touches: a table or one of its indexes, a queue, a bucket, a table of SQL, keys of the cache.

Every report that tells where a pattern goes asks here, so that none has to know the operations of every store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.model.cache import CacheOperation
from holdfast.model.objects import Bucket, ShelfOperation
from holdfast.model.operations import Operation
from holdfast.model.queues import Queue, QueueOperation
from holdfast.model.sql import SqlOperation
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.reports.statements import tables_of


@dataclass(frozen=True)
class SqlTable:
    """A table of a schema: `pagw.request_tracker`. The migrations make it; statements name it."""

    name: str


@dataclass(frozen=True)
class CacheKeys:
    """The keys of one kind in the cache, by their template."""

    name: str


Resource: TypeAlias = Table | Queue[Any] | Bucket | SqlTable | CacheKeys
# An index only where it is one of a table.
Place: TypeAlias = tuple[Resource, Index | None]


def resource_of(operation: Operation[Any]) -> Resource | None:
    """What one operation is on; None where it is on several, or on nothing."""
    if isinstance(operation, QueueOperation):
        return operation.queue
    if isinstance(operation, ShelfOperation):
        return operation.shelf.bucket
    if isinstance(operation, SqlOperation):
        return SqlTable(operation.resource)
    if isinstance(operation, CacheOperation):
        return CacheKeys(operation.resource)
    return operation.table


def places_of(operation: Operation[Any]) -> list[Place]:
    """Everything that an operation touches, in its order: the parts of a transaction each for itself."""
    if isinstance(operation, SqlOperation):
        return [(SqlTable(name), None) for name in tables_of(operation)]
    resource = resource_of(operation)
    if resource is not None:
        return [(resource, operation.index)]
    return [place for part in operation.parts or () for place in places_of(part)]


def places_in(system: System) -> list[Place]:
    """Everything that a system declares: tables with their indexes, then queues, then buckets.

    Tables of SQL and keys of the cache are known by the patterns that name them.
    """
    tables: list[Place] = [(table, index) for table in system.tables for index in (None, *table.indexes)]
    return [*tables, *((each, None) for each in system.queues), *((each, None) for each in system.buckets)]


def place_name(place: Place) -> str:
    resource, index = place
    return resource.name if index is None else f"{resource.name} / {index.name}"
