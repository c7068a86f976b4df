"""The schemas of SQL that a system has, for `holdfast migrate`: brought to their newest, told, shown as SQL, checked."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holdfast.cli.showing import console, print_json, progress_bar, say
from holdfast.errors import NotFound, SchemaMismatch

if TYPE_CHECKING:
    from holdfast.model.sql import Schema
    from holdfast.model.system import System
    from holdfast.operations.sql.descriptions import SchemaState
    from holdfast.runtime import Misfit, Stores


async def migrated(stores: Stores, system: System, *, as_json: bool) -> list[dict[str, Any]]:
    """Each brought to its newest; gives, for a program, what was done."""
    from holdfast.runtime import migrate_schemas

    states = await _states(stores, system)
    answers = []
    with progress_bar(shown=not as_json) as progress:
        done = await migrate_schemas(stores, system.schemas, progress)
    for state in states:
        answers.append(_as_json(state) | {"done": done[state.schema]})
        if not as_json:
            _print_done(state, done[state.schema])
    return answers


async def told(stores: Stores, system: System, *, as_json: bool) -> list[dict[str, Any]]:
    """How far each is, and what it lacks."""
    states = await _states(stores, system)
    for state in [] if as_json else states:
        _print_state(state)
    return [_as_json(state) | {"pending": list(state.pending)} for state in states]


def show_sql(system: System, *, as_json: bool) -> None:
    """What would be run, as SQL that whoever may change the schema can run."""
    found = asyncio.run(_sql_of(system))
    if as_json:
        print_json([_as_json(state) | {"sql": statements} for state, statements in found])
        return
    for state, statements in found:
        say(f"-- {_ways(state)}")
        for statement in statements:
            say(statement)


def misfits(system: System) -> list[Misfit]:
    """Statements that do not fit their rows. A schema that is behind has to be migrated first."""
    if not system.schemas:
        raise NotFound(f"{system.name} has no schema of SQL, and so no statement that could be checked.")
    return asyncio.run(_misfits(system))


def show_misfits(found: list[Misfit], *, as_json: bool) -> None:
    if as_json:
        print_json([asdict(each) for each in found])
        return
    for each in found:
        say(f"{each.pattern}{f', {each.column}' if each.column else ''}: {each.message}")
    if not found:
        say("The schemas are at their newest, and every statement gives what its row takes.")


async def _sql_of(system: System) -> list[tuple[SchemaState, list[str]]]:
    from holdfast.runtime import open_stores
    from holdfast.runtime.preparation import sql_engine

    async def statements(stores: Stores, schema: Schema) -> list[str]:
        return await sql_engine(stores).migrate(schema.name, schema.migrations, dry_run=True)

    async with open_stores(system) as stores:
        states = await _states(stores, system)
        return [
            (state, await statements(stores, schema))
            for state, schema in zip(states, system.schemas, strict=True)
        ]


async def _misfits(system: System) -> list[Misfit]:
    from holdfast.runtime import check_statements, open_stores

    async with open_stores(system) as stores:
        for state in await _states(stores, system):
            if state.pending:
                raise SchemaMismatch(
                    state.schema,
                    state.current,
                    f"The schema {state.schema} is behind ({_ways(state)}): `holdfast migrate {system.name}` first.",
                )
        return await check_statements(stores, system.patterns)


async def _states(stores: Stores, system: System) -> list[SchemaState]:
    from holdfast.runtime import schema_states

    return await schema_states(stores, system.schemas)


def _as_json(state: SchemaState) -> dict[str, Any]:
    return {"schema": state.schema, "current": state.current, "target": state.target}


def _ways(state: SchemaState) -> str:
    return f"{state.schema}: {state.current or 'nothing'} → {state.target}"


def _print_done(state: SchemaState, done: list[str]) -> None:
    out = console()
    if not done:
        out.print(f"[bold]{state.schema}[/]: at {state.target}, the newest")
        return
    out.print(f"[bold]{_ways(state)}[/]")
    for revision in done:
        out.print(f"  {revision}", markup=False)


def _print_state(state: SchemaState) -> None:
    out = console()
    if not state.pending:
        out.print(f"[bold]{state.schema}[/]: at {state.target}, the newest")
        return
    out.print(f"[bold]{_ways(state)}[/], {len(state.pending)} yet to be run")
    for revision in state.pending:
        out.print(f"  {revision}", markup=False)
