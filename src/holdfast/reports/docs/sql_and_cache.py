"""Render the SQL schemas and the cache of a system, from the statements and keys of its patterns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.model.cache import CachedValue, CacheOperation, WindowCounter
from holdfast.model.patterns import Pattern
from holdfast.model.sql import Schema, SqlOperation
from holdfast.model.system import System
from holdfast.reports.docs.markdown import Row, format_table
from holdfast.reports.examples import list_examples
from holdfast.reports.sql_statements import get_table_privileges


def render_schemas(system: System) -> Iterator[str]:
    """Yield the Markdown sections of all SQL schemas."""
    if system.schemas:
        yield "## SQL schemas"
    for schema in system.schemas:
        yield f"### {schema.name}"
        if schema.purpose:
            yield schema.purpose
        yield f"Created by the migrations in `{schema.migrations}`."
        statements = list(find_statements(system, schema))
        if statements:
            yield format_table(("table", "privileges used by patterns"), build_sql_table_rows(statements))
            yield format_table(("id", "statement", "returns"), map(_build_statement_row, statements))


def render_cache(system: System) -> Iterator[str]:
    """Yield the Markdown section of the cache."""
    kept = list_cache_kinds(system)
    if kept:
        yield "## Cache"
        yield "A cache can lose any entry at any time."
        yield format_table(("key", "value", "lifetime", "purpose"), map(build_cache_row, kept))


def list_cache_kinds(system: System) -> list[CachedValue[Any] | WindowCounter]:
    """Return the kinds of cache entries that the system's patterns use, each once."""
    found: dict[str, CachedValue[Any] | WindowCounter] = {}
    for example in list_examples(system):
        for part in example.parts:
            if isinstance(part, CacheOperation):
                found.setdefault(part.declaration.template, part.declaration)
    return list(found.values())


def find_statements(system: System, schema: Schema) -> Iterator[tuple[Pattern[..., Any], SqlOperation[Any]]]:
    """Yield each SQL statement on the schema, with its pattern."""
    for example in list_examples(system):
        for part in example.parts:
            if isinstance(part, SqlOperation) and part.schema is schema:
                yield example.pattern, part


def build_sql_table_rows(statements: list[tuple[Pattern[..., Any], SqlOperation[Any]]]) -> Iterator[Row]:
    """Yield a row per SQL table: its name, and each privilege with the ids of the patterns that need it."""
    uses: dict[str, dict[str, list[str]]] = {}
    for pattern, operation in statements:
        for table, privileges in get_table_privileges(operation).items():
            for privilege in privileges:
                uses.setdefault(table, {}).setdefault(privilege, []).append(pattern.id)
    for table in sorted(uses):
        texts = (f"{verb}: {', '.join(dict.fromkeys(uses[table][verb]))}" for verb in sorted(uses[table]))
        yield f"`{table}`", "; ".join(texts)


def _build_statement_row(statement: tuple[Pattern[..., Any], SqlOperation[Any]]) -> Row:
    """Return the row of a statement: pattern id, text, and its row class or "number of rows"."""
    pattern, operation = statement
    row = getattr(operation, "row", None)
    returns = "number of rows" if row is None else row.__name__
    return pattern.id, f"`{' '.join(operation.text.split())}`", returns


def build_cache_row(kind: CachedValue[Any] | WindowCounter) -> Row:
    """Return the row of a kind of cache entry: key template, value, lifetime and purpose."""
    if isinstance(kind, WindowCounter):
        return f"`{kind.template}`", "a count", format_period(kind.window_s), kind.purpose
    return (
        f"`{kind.template}`",
        kind.value_type.__name__,
        f"{format_period(kind.lifetime_s)} at most",
        kind.purpose,
    )


def format_period(seconds: float) -> str:
    """Format seconds in the largest unit of which there are at least two whole ones, else in seconds."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
