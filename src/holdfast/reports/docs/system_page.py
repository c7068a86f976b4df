"""Render a system's documentation in Markdown with Mermaid diagrams, from its declaration alone.

Pure: a `System` in, text out.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from holdfast.model.entities.declaration import Declaration, KeyDeclaration
from holdfast.model.entities.entity import get_declaration
from holdfast.model.patterns import Pattern
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.operations.tables.schema import IndexProjection
from holdfast.reports.docs.declaration_text import (
    format_duration,
    format_key,
    format_signature,
    format_type,
    iter_named_types,
)
from holdfast.reports.docs.flows import render_flows
from holdfast.reports.docs.markdown import Row, fence_diagram, format_table
from holdfast.reports.docs.mermaid import draw_access, draw_entities
from holdfast.reports.docs.queues_and_buckets import (
    MEMBER_COLUMNS,
    build_member_row,
    render_buckets,
    render_queues,
)
from holdfast.reports.docs.sql_and_cache import render_cache, render_schemas
from holdfast.reports.iac.infrastructure import GENERATED_NOTICE, build_example_operation, to_file_name
from holdfast.reports.resources import list_touched


def render_system_page(system: System) -> str:
    """Return the whole page."""
    parts = [
        f"<!-- {GENERATED_NOTICE}: `holdfast docs {system.name}` regenerates it. -->",
        f"# {system.title or system.name}",
        system.purpose,
        *(["## Tables and entities", fence_diagram(draw_entities(system))] if system.tables else []),
        *(part for table in system.tables for part in _render_table(table)),
        *_render_types(system),
        *render_queues(system),
        *render_buckets(system),
        *render_schemas(system),
        *render_cache(system),
        *render_flows(system),
        "## Access patterns",
        "All access to the data uses these patterns.",
        format_table(_PATTERN_COLUMNS, (_build_pattern_row(system, each) for each in system.patterns)),
        f"### {_get_diagram_title(system)}",
        fence_diagram(draw_access(system)),
        "## Components",
        format_table(_get_component_columns(system), _build_component_rows(system)),
    ]
    return "\n\n".join(parts) + "\n"


def _get_diagram_title(system: System) -> str:
    has_others = system.queues or system.buckets or system.schemas
    return (
        "From components to stores, and from queues to components"
        if has_others
        else "From components to tables"
    )


def get_document_file_name(system: System) -> str:
    """Return the file name of the page."""
    return f"{to_file_name(system.name)}.md"


def _render_table(table: Table) -> Iterator[str]:
    """Yield the sections of a table: properties, indexes, and each entity."""
    yield f"### {table.name}"
    if table.purpose:
        yield table.purpose
    yield format_table(("property", "value"), build_table_rows(table))
    if table.indexes:
        columns = ("index", "kind", "partition key", "sort key", "projection", "created", "purpose")
        yield format_table(columns, map(build_index_row, table.indexes))
    for entity in table.entities:
        yield from _render_entity(get_declaration(entity))


def build_table_rows(table: Table) -> Iterator[Row]:
    yield "partition key", f"`{table.partition}` ({table.partition_type})"
    yield "sort key", "none" if table.sort is None else f"`{table.sort}` ({table.sort_type})"
    yield "TTL attribute", "none" if table.ttl is None else f"`{table.ttl}`"
    yield "stream", table.stream or "none"
    yield "point-in-time recovery", "on" if table.point_in_time_recovery else "off"
    yield "deletion protection", "on" if table.deletion_protection else "off"
    yield "name in an environment", f"`{table.physical_name('{environment}')}`"


def build_index_row(index: Index) -> Row:
    return (
        f"`{index.name}`",
        index.scope,
        f"`{index.partition}` ({index.partition_type})",
        "none" if index.sort is None else f"`{index.sort}` ({index.sort_type})",
        format_projection(index.projection),
        "by default" if index.default else "on request",
        index.purpose,
    )


def format_projection(projection: IndexProjection) -> str:
    names = ", ".join(f"`{name}`" for name in projection.attributes)
    return f"{projection.kind} {names}".strip()


def _render_entity(declaration: Declaration) -> Iterator[str]:
    """Yield the sections of an entity: its docstring, its keys, and its attributes."""
    yield f"#### {declaration.entity.__name__}"
    if doc := (declaration.entity.__dict__.get("__doc__") or "").strip():
        yield " ".join(doc.split())
    yield "\n".join(format_keys(declaration))
    columns = ("attribute", "stored as", "type", "optional")
    yield format_table(
        columns,
        (
            (
                f"`{attribute.name}`",
                f"`{attribute.stored_name}`",
                f"`{format_type(attribute.annotation)}`",
                "yes" if attribute.is_optional else "",
            )
            for attribute in declaration.attributes.values()
        ),
    )


def format_keys(declaration: Declaration) -> Iterator[str]:
    """Yield a list line for the primary key, each index key, and the lifetime."""
    yield f"- key: {format_key(declaration.primary)}"
    for key in declaration.indexes:
        assert key.index is not None
        yield f"- in `{key.index.name}`: {format_key(key)}{format_index_condition(declaration, key)}"
    if (life := declaration.lifetime) is not None:
        after = f"{format_duration(life.after)} after" if life.after else "at"
        yield f"- expires {after} `{life.attribute.name}`; the time is stored in `{life.stored_name}`"


def format_index_condition(declaration: Declaration, key: KeyDeclaration) -> str:
    """Describe when an item is in the index; empty if always."""
    conditions = []
    if key.only is not None:
        values = ", ".join(f"`{getattr(value, 'value', value)}`" for value in key.only[1])
        conditions.append(f"only while `{key.only[0].name}` is {values}")
    absent = [name for name in sorted(key.attribute_names) if declaration.attributes[name].is_optional]
    if absent:
        conditions.append(f"only with {' and '.join(f'`{name}`' for name in absent)}")
    return f" ({'; '.join(conditions)})" if conditions else ""


def _render_types(system: System) -> Iterator[str]:
    """Render the enums and documents that the types of attributes and message fields refer to."""
    annotations = [
        attribute.annotation
        for table in system.tables
        for entity in table.entities
        for attribute in get_declaration(entity).attributes.values()
    ]
    annotations += [
        info.annotation for queue in system.queues for info in queue.message_type.model_fields.values()
    ]
    found = dict.fromkeys(each for annotation in annotations for each in iter_named_types(annotation))
    if found:
        yield "## Types of attributes"
    for kind in sorted(found, key=lambda each: each.__name__):
        yield f"### {kind.__name__}"
        if issubclass(kind, Enum):
            yield "One of " + ", ".join(f"`{member.value}`" for member in kind) + "."
        else:
            yield format_table(MEMBER_COLUMNS, map(build_member_row, kind.model_fields.items()))


_PATTERN_COLUMNS = ("id", "purpose", "call", "operation", "on", "rate", "components")


def _build_pattern_row(system: System, pattern: Pattern[..., Any]) -> Row:
    operation = build_example_operation(pattern)
    places = dict.fromkeys(list_touched(operation))
    return (
        pattern.id,
        pattern.purpose,
        f"`{format_signature(pattern)}`",
        operation.kind,
        ", ".join(f"{resource.name}{f' / `{index.name}`' if index else ''}" for resource, index in places),
        str(pattern.rate),
        ", ".join(component.name for component in system.find_components(pattern)),
    )


def _get_component_columns(system: System) -> Row:
    """Return the columns of the table of components; consumers and schedules only if there are any."""
    works = ("consumes", "schedules") if _has_workers(system) else ()
    return ("component", "purpose", "reads", "writes", *works)


def _build_component_rows(system: System) -> Iterator[Row]:
    for component in system.components:
        works = (
            ", ".join(each.queue.name for each in component.consumers),
            ", ".join(f"{each.name} (every {each.every_s:g} s)" for each in component.schedules),
        )
        yield (
            component.name,
            component.purpose,
            ", ".join(each.id for each in component.reads),
            ", ".join(each.id for each in component.writes),
            *(works if _has_workers(system) else ()),
        )


def _has_workers(system: System) -> bool:
    return any(component.has_work for component in system.components)
