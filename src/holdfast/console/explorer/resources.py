"""Tables, queues, buckets, SQL schemas and the cache, with the texts of the system's documentation. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.console.explorer.accesses import Access, describe_resource, find_components_of, list_accesses
from holdfast.console.explorer.diagrams.model import is_sparse
from holdfast.model.entities.declaration import Attribute, Declaration
from holdfast.model.entities.entity import get_declaration
from holdfast.model.queues import Queue
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.reports.docs.declaration_text import format_type
from holdfast.reports.docs.markdown import Row
from holdfast.reports.docs.queues_and_buckets import (
    build_bucket_rows,
    build_member_row,
    build_object_kind_row,
    build_queue_rows,
)
from holdfast.reports.docs.sql_and_cache import (
    build_cache_row,
    build_sql_table_rows,
    find_statements,
    list_cache_kinds,
)
from holdfast.reports.docs.system_page import (
    build_table_rows,
    format_index_condition,
    format_keys,
    format_projection,
)


@dataclass(frozen=True)
class IndexView:
    """An index with what is in it. `conditions` say of each entity when its items are in it."""

    index: Index
    keys: str
    projection: str
    is_sparse: bool
    conditions: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class EntityView:
    """An entity of a table: its keys and lifetime as lines, its attributes."""

    name: str
    doc: str
    keys: Sequence[str]
    attributes: Sequence[tuple[Attribute, str]]


@dataclass(frozen=True)
class ResourceView:
    """A queue, bucket, SQL schema or the cache: properties, a table of its parts, and who uses it."""

    anchor: str
    name: str
    purpose: str
    kind: str
    properties: Sequence[Row]
    columns: Sequence[str]
    rows: Sequence[Row]
    used_by: Sequence[Access] = ()


def list_table_properties(table: Table) -> list[Row]:
    """Return the properties of a table: keys, TTL, stream, recovery, names."""
    return list(build_table_rows(table))


def list_indexes(table: Table) -> list[IndexView]:
    """Return the indexes of a table."""
    declarations = [get_declaration(each) for each in table.entities]
    return [_build_index(each, declarations) for each in table.indexes]


def list_entities(table: Table) -> list[EntityView]:
    """Return the entities of a table."""
    return [_build_entity(get_declaration(each)) for each in table.entities]


def list_resources_besides_tables(system: System) -> list[ResourceView]:
    """Return the queues, buckets and SQL schemas of a system, and its cache."""
    accesses = list_accesses(system)
    return [
        *_list_queues(system, accesses),
        *_list_buckets(system, accesses),
        *_list_schemas(system, accesses),
        *_list_cache(system, accesses),
    ]


def _build_index(index: Index, declarations: Sequence[Declaration]) -> IndexView:
    keys = ", ".join(
        f"`{name}` ({kind})"
        for name, kind in ((index.partition, index.partition_type), (index.sort, index.sort_type))
        if name is not None
    )
    conditions = [
        (each.entity.__name__, format_index_condition(each, key).strip(" ()"))
        for each in declarations
        for key in each.indexes
        if key.index is index
    ]
    return IndexView(
        index, keys, format_projection(index.projection), is_sparse(index, declarations), conditions
    )


def _build_entity(declaration: Declaration) -> EntityView:
    doc = " ".join((declaration.entity.__dict__.get("__doc__") or "").split())
    return EntityView(
        declaration.entity.__name__,
        doc,
        [line.removeprefix("- ") for line in format_keys(declaration)],
        [(each, format_type(each.annotation)) for each in declaration.attributes.values()],
    )


def _list_queues(system: System, accesses: Sequence[Access]) -> Iterable[ResourceView]:
    for queue in system.queues:
        yield ResourceView(
            f"queue-{queue.name}",
            queue.name,
            queue.purpose,
            "queue",
            [*build_queue_rows(queue), ("message", f"a `{queue.message_type.__name__}`")],
            ("member", "stored as", "type", "optional"),
            _list_members(queue),
            find_components_of(queue, accesses),
        )


def _list_members(queue: Queue[Any]) -> list[Row]:
    return [build_member_row(each) for each in queue.message_type.model_fields.items()]


def _list_buckets(system: System, accesses: Sequence[Access]) -> Iterable[ResourceView]:
    for bucket in system.buckets:
        yield ResourceView(
            f"bucket-{bucket.name}",
            bucket.name,
            bucket.purpose,
            "bucket",
            list(build_bucket_rows(system, bucket)),
            ("object key", "content", "lifetime"),
            [build_object_kind_row(each) for each in bucket.object_kinds],
            find_components_of(bucket, accesses),
        )


def _list_schemas(system: System, accesses: Sequence[Access]) -> Iterable[ResourceView]:
    for schema in system.schemas:
        prefix = f"{schema.name}."
        yield ResourceView(
            f"schema-{schema.name}",
            schema.name,
            schema.purpose,
            "schema",
            [("migrations", f"`{schema.migrations}`")],
            ("table", "privileges used by patterns"),
            list(build_sql_table_rows(list(find_statements(system, schema)))),
            _merge(
                each
                for each in accesses
                if describe_resource(each.resource) == "SQL table" and each.resource.name.startswith(prefix)
            ),
        )


def _list_cache(system: System, accesses: Sequence[Access]) -> Iterable[ResourceView]:
    if kinds := list_cache_kinds(system):
        yield ResourceView(
            "cache",
            "Cache",
            "A cache can lose any entry at any time.",
            "cache",
            [],
            ("key", "value", "lifetime", "purpose"),
            [build_cache_row(each) for each in kinds],
            _merge(each for each in accesses if describe_resource(each.resource) == "cache"),
        )


def _merge(accesses: Iterable[Access]) -> list[Access]:
    """Return one access for each component, with the patterns of all."""
    found: dict[str, Access] = {}
    for each in accesses:
        merged = found.setdefault(each.component, Access(each.component, each.resource))
        merged.reads += [id for id in each.reads if id not in merged.reads]
        merged.writes += [id for id in each.writes if id not in merged.writes]
    return list(found.values())
