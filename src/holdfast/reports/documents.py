"""A system's documentation in Markdown, with Mermaid diagrams: what is declared, and nothing that could differ.

Pure: a `System` in, text out.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from holdfast.model.declaration import Declaration, KeyDeclaration
from holdfast.model.entity import declaration_of
from holdfast.model.patterns import Pattern
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.operations.tables.schema import IndexProjection
from holdfast.reports.flow_documents import flow_sections
from holdfast.reports.infrastructure import GENERATED, hyphenated, operation_of
from holdfast.reports.markdown import Row, fenced, markdown_table
from holdfast.reports.mermaid import entity_diagram, flow_diagram
from holdfast.reports.places import places_of
from holdfast.reports.spelling import duration_text, key_text, named_types, signature_text, type_name
from holdfast.reports.sql_documents import cache_sections, schema_sections
from holdfast.reports.store_documents import MEMBER_COLUMNS, bucket_sections, member_row, queue_sections


def documents(system: System) -> str:
    """The whole page."""
    parts = [
        f"<!-- {GENERATED}: `holdfast docs {system.name}` makes it anew. -->",
        f"# {system.title or system.name}",
        system.purpose,
        *(["## Tables and entities", fenced(entity_diagram(system))] if system.tables else []),
        *(part for table in system.tables for part in _table(table)),
        *_types(system),
        *queue_sections(system),
        *bucket_sections(system),
        *schema_sections(system),
        *cache_sections(system),
        *flow_sections(system),
        "## Access patterns",
        "These are the only ways to the data.",
        markdown_table(_PATTERN_COLUMNS, (_pattern_row(system, each) for each in system.patterns)),
        f"### {_ways(system)}",
        fenced(flow_diagram(system)),
        "## Components",
        markdown_table(_component_columns(system), _component_rows(system)),
    ]
    return "\n\n".join(parts) + "\n"


def _ways(system: System) -> str:
    has_others = system.queues or system.buckets or system.schemas
    return (
        "From components to stores, and from queues to components"
        if has_others
        else "From components to tables"
    )


def document_file(system: System) -> str:
    return f"{hyphenated(system.name)}.md"


def _table(table: Table) -> Iterator[str]:
    yield f"### {table.name}"
    if table.purpose:
        yield table.purpose
    yield markdown_table(("property", "value"), _table_rows(table))
    if table.indexes:
        columns = ("index", "kind", "partition key", "sort key", "projection", "made", "purpose")
        yield markdown_table(columns, map(_index_row, table.indexes))
    for entity in table.entities:
        yield from _entity(declaration_of(entity))


def _table_rows(table: Table) -> Iterator[Row]:
    yield "partition key", f"`{table.partition}` ({table.partition_type})"
    yield "sort key", "none" if table.sort is None else f"`{table.sort}` ({table.sort_type})"
    yield "end of life (TTL)", "none" if table.ttl is None else f"`{table.ttl}`"
    yield "stream", table.stream or "none"
    yield "point-in-time recovery", "on" if table.recovery else "off"
    yield "deletion protection", "on" if table.deletion_protection else "off"
    yield "name in an environment", f"`{table.physical_name('{environment}')}`"


def _index_row(index: Index) -> Row:
    return (
        f"`{index.name}`",
        index.scope,
        f"`{index.partition}` ({index.partition_type})",
        "none" if index.sort is None else f"`{index.sort}` ({index.sort_type})",
        _projection(index.projection),
        "by default" if index.default else "when asked for",
        index.purpose,
    )


def _projection(projection: IndexProjection) -> str:
    names = ", ".join(f"`{name}`" for name in projection.attributes)
    return f"{projection.kind} {names}".strip()


def _entity(declaration: Declaration) -> Iterator[str]:
    yield f"#### {declaration.entity.__name__}"
    if told := (declaration.entity.__dict__.get("__doc__") or "").strip():
        yield " ".join(told.split())
    yield "\n".join(_key_lines(declaration))
    columns = ("attribute", "stored as", "type", "optional")
    yield markdown_table(
        columns,
        (
            (
                f"`{attribute.name}`",
                f"`{attribute.stored}`",
                f"`{type_name(attribute.annotation)}`",
                "yes" if attribute.is_optional else "",
            )
            for attribute in declaration.attributes.values()
        ),
    )


def _key_lines(declaration: Declaration) -> Iterator[str]:
    yield f"- key: {key_text(declaration.primary)}"
    for key in declaration.indexes:
        assert key.index is not None
        yield f"- in `{key.index.name}`: {key_text(key)}{_when(declaration, key)}"
    if (life := declaration.lifetime) is not None:
        after = f"{duration_text(life.after)} after" if life.after else "at"
        yield f"- its life ends {after} `{life.attribute.name}`; the end is kept in `{life.stored}`"


def _when(declaration: Declaration, key: KeyDeclaration) -> str:
    """When an item is not in an index."""
    conditions = []
    if key.only is not None:
        values = ", ".join(f"`{getattr(value, 'value', value)}`" for value in key.only[1])
        conditions.append(f"only while `{key.only[0].name}` is {values}")
    absent = [name for name in sorted(key.uses_of_key) if declaration.attributes[name].is_optional]
    if absent:
        conditions.append(f"only with {' and '.join(f'`{name}`' for name in absent)}")
    return f" ({'; '.join(conditions)})" if conditions else ""


def _types(system: System) -> Iterator[str]:
    """What the types of attributes are made of, where their name does not say it."""
    annotations = [
        attribute.annotation
        for table in system.tables
        for entity in table.entities
        for attribute in declaration_of(entity).attributes.values()
    ]
    annotations += [
        info.annotation for queue in system.queues for info in queue.message.model_fields.values()
    ]
    found = dict.fromkeys(each for annotation in annotations for each in named_types(annotation))
    if found:
        yield "## Types of attributes"
    for kind in sorted(found, key=lambda each: each.__name__):
        yield f"### {kind.__name__}"
        if issubclass(kind, Enum):
            yield "One of " + ", ".join(f"`{member.value}`" for member in kind) + "."
        else:
            yield markdown_table(MEMBER_COLUMNS, map(member_row, kind.model_fields.items()))


_PATTERN_COLUMNS = ("id", "purpose", "call", "operation", "on", "rate", "components")


def _pattern_row(system: System, pattern: Pattern[..., Any]) -> Row:
    operation = operation_of(pattern)
    places = dict.fromkeys(places_of(operation))
    return (
        pattern.id,
        pattern.purpose,
        f"`{signature_text(pattern)}`",
        operation.kind,
        ", ".join(f"{resource.name}{f' / `{index.name}`' if index else ''}" for resource, index in places),
        str(pattern.rate),
        ", ".join(component.name for component in system.components_of(pattern)),
    )


def _component_columns(system: System) -> Row:
    works = ("works off", "does again and again") if _has_workers(system) else ()
    return ("component", "what it does", "reads", "writes", *works)


def _component_rows(system: System) -> Iterator[Row]:
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
    return any(component.works for component in system.components)
