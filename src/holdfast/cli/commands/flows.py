"""`holdfast flows`: list executions, draw flows, resume parked executions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.system_rows import read_rows
from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import Settings
from holdfast.core.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from holdfast.flows import Execution, Flow
    from holdfast.model.system import System


class Subcommand(StrEnum):
    LIST = "list"
    DIAGRAM = "diagram"
    ASL = "asl"
    RESUME = "resume"


@dataclass(frozen=True)
class ListedExecution:
    """An execution of a system, and the seconds that it has been in its state."""

    system: str
    execution: Execution
    age_s: float


def flows(
    action: Annotated[
        Subcommand,
        typer.Argument(metavar="ACTION", help="What to do; asl is Amazon States Language."),
    ] = Subcommand.LIST,
    system: Annotated[
        str | None,
        typer.Argument(metavar="SYSTEM", help="The system. Default for list: every installed system."),
    ] = None,
    name: Annotated[str | None, typer.Option("--flow", metavar="NAME", help="Only this flow.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Only the item with this key, as in list.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List executions, draw flows, or resume parked executions.

    An execution is parked when its workers have given it up.
    """
    from holdfast.model.system import load_system

    if system is None and (action is not Subcommand.LIST or name is not None):
        option = " --flow" if action is Subcommand.LIST else ""
        raise UsageError(f"`holdfast flows {action.value}{option}` needs SYSTEM.")
    if action is Subcommand.LIST:
        _print_executions(read_rows(system, lambda each: _list_executions(each, name, key)), as_json)
        return
    assert system is not None
    found = load_system(system)
    selected = _select_flows(found, name)
    if action is Subcommand.RESUME:
        _print_resumed(found, asyncio.run(_resume(found, selected, key)), as_json)
    else:
        _print_drawings(found, selected, action, as_json)


def _select_flows(system: System, name: str | None) -> list[Flow[Any]]:
    """Return the flow of this name, or all flows if `name` is None. Raise `NotFound` for an unknown name."""
    declared: list[Flow[Any]] = list(system.flows)
    if name is None:
        return declared
    if named := [each for each in declared if each.name == name]:
        return named
    known = ", ".join(each.name for each in declared)
    raise NotFound(f"{system.name} has no flow {name!r}: it has {known or 'none'}.")


async def _list_executions(system: System, name: str | None, key: str | None) -> list[ListedExecution]:
    """Return the system's executions, or only those of this flow and with this key.

    The stores of a system without flows are not opened.
    """
    from holdfast.runtime import open_stores

    selected = _select_flows(system, name)
    if not selected:
        return []
    async with open_stores(system, Settings.load()) as stores:
        now = stores.clock.now()
        every = [each for flow in selected for each in await flow.list_executions(stores)]
        return [
            ListedExecution(system.name, each, max(0.0, now - each.since.timestamp()))
            for each in every
            if key in (None, each.key)
        ]


async def _resume(system: System, selected: Sequence[Flow[Any]], key: str | None) -> list[tuple[str, int]]:
    """Resume the parked executions, or only the one with this key; return the count for each flow."""
    from holdfast.runtime import open_stores

    if key is not None and len(selected) > 1:
        raise InvalidRequest(f"{system.name} has several flows: with --key, also give --flow.")
    async with open_stores(system, Settings.load()) as stores:
        return [(each.name, await each.resume(stores, key)) for each in selected]


def _print_executions(listed: Sequence[ListedExecution], as_json: bool) -> None:
    """Print the executions with their ages, as a table or JSON, and how many run and are parked."""
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console, number_column, print_json

    if as_json:
        print_json([_to_json(each) for each in listed])
        return
    table = build_table(
        "system", "flow", "key", "state", "step", number_column("for"), "due", number_column("attempts"),
        "parked",
    )  # fmt: skip
    for row in listed:
        table.add_row(*map(escape, _format_row(row)))
    if listed:
        get_console().print(table)
    parked = sum(row.execution.is_parked for row in listed)
    get_console().print(f"{len(listed) - parked} running, {parked} parked.")


def _format_row(row: ListedExecution) -> tuple[str, ...]:
    each = row.execution
    due = "" if each.due is None or each.is_parked else each.due.isoformat(timespec="seconds")
    return (
        *(row.system, each.flow, each.key, each.state, each.step or "", f"{row.age_s:,.0f} s", due),
        *(str(each.attempts), _format_parked(each)),
    )


def _format_parked(execution: Execution) -> str:
    """Return why the execution is parked and its error; empty if it is not parked."""
    return f"{execution.parked_for}: {execution.parked}" if execution.is_parked else ""


def _to_json(row: ListedExecution) -> dict[str, Any]:
    execution = row.execution
    return {
        "system": row.system,
        "flow": execution.flow,
        "key": execution.key,
        "state": execution.state,
        "does": execution.step,
        "since": execution.since.isoformat(),
        "age_s": round(row.age_s, 3),
        "due": None if execution.due is None or execution.is_parked else execution.due.isoformat(),
        "attempts": execution.attempts,
        "error": execution.error,
        "parked_for": execution.parked_for,
        "parked": execution.parked,
    }


def _print_resumed(system: System, counts: Sequence[tuple[str, int]], as_json: bool) -> None:
    from holdfast.cli.output.console import print_json

    if as_json:
        print_json([{"system": system.name, "flow": name, "resumed": count} for name, count in counts])
        return
    for name, count in counts:
        typer.echo(f"{name}: {count} resumed{'; a worker continues them' if count else ''}.")
    if not counts:
        typer.echo(f"{system.name} has no flows.")


def _print_drawings(system: System, selected: Sequence[Flow[Any]], action: Subcommand, as_json: bool) -> None:
    """Print each flow's diagram or States Language. With `as_json`, add the system and the flow to each."""
    from holdfast.cli.output.console import print_json

    if not selected:
        raise NotFound(f"{system.name} has no flows.")
    if as_json:
        drawn = [
            {"system": system.name, "flow": each.name, action.value: _render(each, action)}
            for each in selected
        ]
        print_json(drawn)
    elif action is Subcommand.DIAGRAM:
        typer.echo("\n".join(each.draw_diagram() for each in selected), nl=False)
    elif len(selected) > 1:
        raise InvalidRequest(f"{system.name} has several flows: choose one with --flow, or use --json.")
    else:
        print_json(selected[0].to_states_language())


def _render(flow: Flow[Any], action: Subcommand) -> Any:
    """Return the Mermaid diagram, or the States Language document as a dictionary."""
    return flow.draw_diagram() if action is Subcommand.DIAGRAM else flow.to_states_language()
