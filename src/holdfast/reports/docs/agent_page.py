"""Render what an agent may know about a system: the patterns that it may run, their cost, and their items.

Pure, as `system_page.py`: a `System` in, Markdown out. It names no data and no place where data is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.model.components import Component
from holdfast.model.entities.entity import get_declaration
from holdfast.model.operations import Operation
from holdfast.model.patterns import Pattern
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.reports.docs.declaration_text import format_type
from holdfast.reports.docs.markdown import Row, format_table
from holdfast.reports.iac.infrastructure import build_example_operation
from holdfast.reports.pattern_list import compute_calls_per_month
from holdfast.reports.resources import list_touched

_PATTERN_COLUMNS = ("id", "name", "purpose", "operation", "on", "rate", "calls per month", "cost of a call")
_WRITE_COST = "1 unit per KB, and as much for each index that it changes"
_SQL_COST = "no units: the database is paid by the hour"


def render_agent_page(system: System, component: Component) -> str:
    """Return the page about what this component may run."""
    operations = {pattern: build_example_operation(pattern) for pattern in component.patterns}
    used = {table.name for each in operations.values() for table in _list_tables(each)}
    tables = [table for table in system.tables if table.name in used]
    parts = [
        f"# {system.title or system.name}",
        f"{system.purpose.rstrip('.')}.",
        "## Access patterns",
        "An agent may run these, and no others. A unit is a capacity unit of DynamoDB.",
        format_table(_PATTERN_COLUMNS, (_build_row(system, each, made) for each, made in operations.items())),
        *(["## Tables and entities"] if tables else []),
        *(part for table in tables for part in _render_table(table)),
    ]
    return "\n\n".join(parts) + "\n"


def _list_tables(operation: Operation[Any]) -> Iterator[Table]:
    for resource, _ in list_touched(operation):
        if isinstance(resource, Table):
            yield resource


def _build_row(system: System, pattern: Pattern[..., Any], operation: Operation[Any]) -> Row:
    places = dict.fromkeys(list_touched(operation))
    calls = compute_calls_per_month(system, pattern)
    return (
        pattern.id,
        f"`{pattern.name}`",
        pattern.purpose,
        operation.kind,
        ", ".join(f"{resource.name}{f' by `{index.name}`' if index else ''}" for resource, index in places),
        str(pattern.rate),
        "" if calls is None else f"{calls:,.0f}",
        _describe_cost(operation),
    )


def _describe_cost(operation: Operation[Any]) -> str:
    """Return how a call of the operation is billed, in words."""
    if operation.store == "tables":
        if operation.writes:
            return _WRITE_COST
        return "1 unit per 4 KB read" if _is_consistent(operation) else "half a unit per 4 KB read"
    return _SQL_COST if operation.store == "sql" else "one request"


def _is_consistent(operation: Operation[Any]) -> bool:
    """Return whether a read, or a part of it, is strongly consistent."""
    return getattr(operation, "is_consistent", False) or any(map(_is_consistent, operation.parts or ()))


def _render_table(table: Table) -> Iterator[str]:
    """Yield the sections of a table: its purpose and key, and each entity with its attributes."""
    keys = " and ".join(f"`{key}`" for key in (table.partition, table.sort) if key is not None)
    yield f"### {table.name}"
    yield " ".join([*([table.purpose.rstrip(".") + "."] if table.purpose else []), f"Its key is {keys}."])
    for entity in table.entities:
        yield f"#### {entity.__name__}"
        if doc := (entity.__dict__.get("__doc__") or "").strip():
            yield " ".join(doc.split())
        yield format_table(
            ("attribute", "type", "optional"),
            (
                (
                    f"`{each.stored_name}`",
                    f"`{format_type(each.annotation)}`",
                    "yes" if each.is_optional else "",
                )
                for each in get_declaration(entity).attributes.values()
            ),
        )
