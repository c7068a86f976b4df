"""Schemas of SQL and what the cache keeps, in a system's documentation: as the statements and keys of its patterns say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.model.cache import Cached, CacheOperation, Windows
from holdfast.model.patterns import Pattern
from holdfast.model.sql import Schema, SqlOperation
from holdfast.model.system import System
from holdfast.reports.examples import examples_of
from holdfast.reports.markdown import Row, markdown_table
from holdfast.reports.statements import tables_of


def schema_sections(system: System) -> Iterator[str]:
    if system.schemas:
        yield "## Schemas of SQL"
    for schema in system.schemas:
        yield f"### {schema.name}"
        if schema.purpose:
            yield schema.purpose
        yield f"Made by the migrations in `{schema.migrations}`."
        statements = list(_statements(system, schema))
        if statements:
            yield markdown_table(("table", "what patterns do with it"), _table_rows(statements))
            yield markdown_table(("id", "statement", "gives"), map(_statement_row, statements))


def cache_sections(system: System) -> Iterator[str]:
    kept = caches_of(system)
    if kept:
        yield "## Cache"
        yield "Whatever is kept here may be lost at any time."
        yield markdown_table(("key", "what is kept", "for", "purpose"), map(_cache_row, kept))


def caches_of(system: System) -> list[Cached[Any] | Windows]:
    """What the system's patterns keep in the cache, each kind once."""
    found: dict[str, Cached[Any] | Windows] = {}
    for example in examples_of(system):
        for part in example.parts:
            if isinstance(part, CacheOperation):
                found.setdefault(part.of.template, part.of)
    return list(found.values())


def _statements(system: System, schema: Schema) -> Iterator[tuple[Pattern[..., Any], SqlOperation[Any]]]:
    for example in examples_of(system):
        for part in example.parts:
            if isinstance(part, SqlOperation) and part.schema is schema:
                yield example.pattern, part


def _table_rows(statements: list[tuple[Pattern[..., Any], SqlOperation[Any]]]) -> Iterator[Row]:
    uses: dict[str, dict[str, list[str]]] = {}
    for pattern, operation in statements:
        for table, privileges in tables_of(operation).items():
            for privilege in privileges:
                uses.setdefault(table, {}).setdefault(privilege, []).append(pattern.id)
    for table in sorted(uses):
        told = (f"{verb}: {', '.join(dict.fromkeys(uses[table][verb]))}" for verb in sorted(uses[table]))
        yield f"`{table}`", "; ".join(told)


def _statement_row(statement: tuple[Pattern[..., Any], SqlOperation[Any]]) -> Row:
    pattern, operation = statement
    row = getattr(operation, "row", None)
    gives = "how many rows" if row is None else row.__name__
    return pattern.id, f"`{' '.join(operation.text.split())}`", gives


def _cache_row(kept: Cached[Any] | Windows) -> Row:
    if isinstance(kept, Windows):
        return f"`{kept.template}`", "a count", _duration(kept.window_s), kept.purpose
    return f"`{kept.template}`", kept.value.__name__, f"{_duration(kept.lifetime_s)} at most", kept.purpose


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
