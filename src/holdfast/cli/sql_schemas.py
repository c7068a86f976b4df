"""The SQL part of `holdfast migrate`: migrate schemas, report states, print pending SQL, check statements."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holdfast.cli.output.console import get_console, print_json, print_text, progress_bar
from holdfast.core.errors import NotFound, SchemaMismatch

if TYPE_CHECKING:
    from holdfast.model.sql import Schema
    from holdfast.model.system import System
    from holdfast.operations.sql.descriptions import SchemaState
    from holdfast.runtime import StatementMismatch, Stores


async def apply_migrations(stores: Stores, system: System, *, as_json: bool) -> list[dict[str, Any]]:
    """Migrate every schema to its newest revision and print it unless `as_json`. Return a JSON row per
    schema.
    """
    from holdfast.runtime import migrate_schemas

    states = await _read_states(stores, system)
    rows = []
    with progress_bar(enabled=not as_json) as progress:
        done = await migrate_schemas(stores, system.schemas, progress)
    for state in states:
        rows.append(_to_json(state) | {"done": done[state.schema]})
        if not as_json:
            _print_applied(state, done[state.schema])
    return rows


async def report_states(stores: Stores, system: System, *, as_json: bool) -> list[dict[str, Any]]:
    """Return the current and pending revisions of every schema, for JSON. Print them unless `as_json`."""
    states = await _read_states(stores, system)
    for state in [] if as_json else states:
        _print_state(state)
    return [_to_json(state) | {"pending": list(state.pending)} for state in states]


def print_pending_sql(system: System, *, as_json: bool) -> None:
    """Print the SQL of the pending migrations without running it, for a person who may change the schema."""
    found = asyncio.run(_render_pending_sql(system))
    if as_json:
        print_json([_to_json(state) | {"sql": statements} for state, statements in found])
        return
    for state, statements in found:
        print_text(f"-- {_format_revisions(state)}")
        for statement in statements:
            print_text(statement)


def find_misfits(system: System) -> list[StatementMismatch]:
    """Return the statements that do not match their rows.

    Raise `SchemaMismatch` if a schema is not up to date, `NotFound` if the system has no schema.
    """
    if not system.schemas:
        raise NotFound(f"{system.name} has no SQL schema: there is no statement to check.")
    return asyncio.run(_find_misfits(system))


def print_misfits(found: list[StatementMismatch], *, as_json: bool) -> None:
    """Print each statement that does not match its row, or that all match."""
    if as_json:
        print_json([asdict(each) for each in found])
        return
    for each in found:
        print_text(f"{each.pattern}{f', {each.column}' if each.column else ''}: {each.message}")
    if not found:
        print_text("The schemas are up to date, and every statement matches its row.")


async def _render_pending_sql(system: System) -> list[tuple[SchemaState, list[str]]]:
    """Return the state of each schema with its pending SQL statements."""
    from holdfast.runtime import open_stores
    from holdfast.runtime.system_provisioner import get_sql_engine

    async def statements(stores: Stores, schema: Schema) -> list[str]:
        return await get_sql_engine(stores).migrate(schema.name, schema.migrations, dry_run=True)

    async with open_stores(system) as stores:
        states = await _read_states(stores, system)
        return [
            (state, await statements(stores, schema))
            for state, schema in zip(states, system.schemas, strict=True)
        ]


async def _find_misfits(system: System) -> list[StatementMismatch]:
    """Check every statement against the migrated schema. Raise `SchemaMismatch` if a migration is pending."""
    from holdfast.runtime import check_statements, open_stores

    async with open_stores(system) as stores:
        for state in await _read_states(stores, system):
            if state.pending:
                raise SchemaMismatch(
                    state.schema,
                    state.current,
                    f"The schema {state.schema} is out of date ({_format_revisions(state)}): "
                    f"run `holdfast migrate {system.name}` first.",
                )
        return await check_statements(stores, system.patterns)


async def _read_states(stores: Stores, system: System) -> list[SchemaState]:
    from holdfast.runtime import get_schema_states

    return await get_schema_states(stores, system.schemas)


def _to_json(state: SchemaState) -> dict[str, Any]:
    return {"schema": state.schema, "current": state.current, "target": state.target}


def _format_revisions(state: SchemaState) -> str:
    return f"{state.schema}: {state.current or 'nothing'} → {state.target}"


def _print_applied(state: SchemaState, applied: list[str]) -> None:
    """Print the revisions that were applied to a schema, or that it was up to date."""
    out = get_console()
    if not applied:
        out.print(f"[bold]{state.schema}[/]: up to date at {state.target}")
        return
    out.print(f"[bold]{_format_revisions(state)}[/]")
    for revision in applied:
        out.print(f"  {revision}", markup=False)


def _print_state(state: SchemaState) -> None:
    out = get_console()
    if not state.pending:
        out.print(f"[bold]{state.schema}[/]: up to date at {state.target}")
        return
    out.print(f"[bold]{_format_revisions(state)}[/], {len(state.pending)} pending")
    for revision in state.pending:
        out.print(f"  {revision}", markup=False)
