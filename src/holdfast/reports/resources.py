"""Find the resources that an operation touches: tables and indexes, queues, buckets, SQL tables, cache keys.

Every report uses this module, so that no report needs to know the operations of every store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from holdfast.model.cache import CacheOperation
from holdfast.model.objects import Bucket, ObjectOperation
from holdfast.model.operations import Operation
from holdfast.model.queues import Queue, QueueOperation
from holdfast.model.sql import SqlOperation
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.reports.sql_statements import get_table_privileges


@dataclass(frozen=True)
class SqlTable:
    """A SQL table with its schema, such as `pagw.request_tracker`. Migrations create it."""

    name: str


@dataclass(frozen=True)
class CacheKeys:
    """The cache keys of one kind, by their template."""

    name: str


Resource: TypeAlias = Table | Queue[Any] | Bucket | SqlTable | CacheKeys
# A resource, and the index if the resource is a table.
ResourcePath: TypeAlias = tuple[Resource, Index | None]


def get_resource(operation: Operation[Any]) -> Resource | None:
    """Return the resource of a single operation; None for an operation on several resources or on none."""
    if isinstance(operation, QueueOperation):
        return operation.queue
    if isinstance(operation, ObjectOperation):
        return operation.object_kind.bucket
    if isinstance(operation, SqlOperation):
        return SqlTable(operation.resource)
    if isinstance(operation, CacheOperation):
        return CacheKeys(operation.resource)
    return operation.table


def list_touched(operation: Operation[Any]) -> list[ResourcePath]:
    """Return every resource that an operation and its parts touch, in order."""
    if isinstance(operation, SqlOperation):
        return [(SqlTable(name), None) for name in get_table_privileges(operation)]
    resource = get_resource(operation)
    if resource is not None:
        return [(resource, operation.index)]
    return [place for part in operation.parts or () for place in list_touched(part)]


def list_declared(system: System) -> list[ResourcePath]:
    """Return every resource that a system declares: tables with their indexes, then queues, then buckets.

    SQL tables and cache keys are not declared; they are known from the patterns.
    """
    tables: list[ResourcePath] = [
        (table, index) for table in system.tables for index in (None, *table.indexes)
    ]
    return [*tables, *((each, None) for each in system.queues), *((each, None) for each in system.buckets)]


def format_path(path: ResourcePath) -> str:
    """Return the name of a resource, with the index if there is one."""
    resource, index = path
    return resource.name if index is None else f"{resource.name} / {index.name}"
