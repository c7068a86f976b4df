"""`holdfast queues`: list backlogs, show messages and dead letters, and move dead letters back."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli.system_rows import read_rows
from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import Settings

if TYPE_CHECKING:
    from holdfast.model.queues import Queue
    from holdfast.model.system import System
    from holdfast.operations.queues import IncomingMessage
    from holdfast.reports.work.queue_states import QueueState

MESSAGES_SHOWN: Final = 10


class Subcommand(StrEnum):
    LIST = "list"
    SHOW = "show"
    REDRIVE = "redrive"


def queues(
    action: Annotated[Subcommand, typer.Argument(metavar="ACTION", help="What to do.")] = Subcommand.LIST,
    system: Annotated[
        str | None,
        typer.Argument(metavar="SYSTEM", help="The system. Default for list: every installed system."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Argument(metavar="QUEUE", help="The queue, by its declared name. Needed by show and redrive."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Show or redrive at most this many messages.")
    ] = None,
    dead: Annotated[bool, typer.Option("--dead", help="Show the queue's dead letters.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List queues, show messages, or move dead letters back."""
    from holdfast.cli.arguments.system_names import select_systems

    if action is Subcommand.LIST:
        _print_states(read_rows(system, _read_states), as_json)
        return
    if system is None or queue is None:
        raise UsageError(f"`holdfast queues {action.value}` needs SYSTEM and QUEUE.")
    (found,) = select_systems(system)
    selected = found.get_queue(queue)
    if action is Subcommand.SHOW:
        name, messages = asyncio.run(_browse(found, selected, count or MESSAGES_SHOWN, dead=dead))
        _print_messages(name, messages, as_json, dead=dead)
    else:
        _print_redriven(*asyncio.run(_redrive(found, selected, count)), as_json)


# --- list ---------------------------------------------------------------------------------------------------


async def _read_states(system: System) -> list[QueueState]:
    """Open the configured stores and return the state of each queue; without queues, no store is opened."""
    from holdfast.reports.work.queue_states import read_queue_states
    from holdfast.runtime import open_stores

    if not system.queues:
        return []
    async with open_stores(system, Settings.load()) as stores:
        return await read_queue_states(stores)


def _print_states(states: list[QueueState], as_json: bool) -> None:
    from dataclasses import asdict

    from rich.table import Column

    from holdfast.cli.output.console import build_table, get_console, number_column, print_json

    if as_json:
        print_json([asdict(each) for each in states])
        return
    if not states:
        get_console().print("There are no queues.")
        return
    table = build_table(
        "system", Column("queue", no_wrap=True), number_column("visible"), number_column("in flight"),
        number_column("delayed"), number_column("oldest"), "",
    )  # fmt: skip
    for each in states:
        figures = [_format_count(value) for value in (each.visible, each.in_flight, each.delayed)]
        notes = ["dead-letter queue"] * each.dead_letters + ["not created yet"] * (not each.exists)
        table.add_row(
            each.system, each.physical_name, *figures, _format_age(each.oldest_age_s), ", ".join(notes)
        )
    get_console().print(table)


def _format_count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _format_age(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:,.0f} s"


# --- show ---------------------------------------------------------------------------------------------------


async def _browse(
    system: System, queue: Queue[Any], count: int, *, dead: bool
) -> tuple[str, tuple[IncomingMessage, ...]]:
    """Return the queue's physical name and its oldest messages, at most `count`, without receiving them."""
    from holdfast.operations.queues import Browse
    from holdfast.runtime import open_stores

    async with open_stores(system, Settings.load()) as stores:
        name = queue.physical_name(stores.environment, dead_letter=dead)
        return name, await stores.engines.get("queues").run(Browse(name, count))


def _print_messages(name: str, messages: tuple[IncomingMessage, ...], as_json: bool, *, dead: bool) -> None:
    """Print messages as a table or JSON without receipts; `dead` adds the queue in which each died."""
    import msgspec
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console, number_column, print_json

    if as_json:
        print_json([{"queue": name, **_remove_receipt(msgspec.to_builtins(each))} for each in messages])
        return
    table = build_table(
        "id", "group", number_column("receives"), *(["from queue"] * dead), "attributes", "body"
    )
    for each in messages:
        attributes = " ".join(f"{key}={value}" for key, value in each.attributes.items())
        died_in = [each.died_in or ""] * dead
        row = (each.id, each.group or "", str(each.receives), *died_in, attributes, each.body)
        table.add_row(*map(escape, row))
    get_console().print(table)
    get_console().print(f"{name}: {len(messages)} shown, oldest first.")
    if dead and messages:
        get_console().print("The worker's log says why each failed: search it for the id.")


def _remove_receipt(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "receipt"}


# --- redrive ------------------------------------------------------------------------------------------------


async def _redrive(system: System, queue: Queue[Any], count: int | None) -> tuple[str, str, int]:
    """Move dead letters back to their queue, at most `count`. Return source, target and how many were moved.

    Raise `UsageError` if the queue has no dead-letter queue.
    """
    from holdfast.operations.queues import Redrive
    from holdfast.runtime import open_stores

    if queue.max_receives is None:
        raise UsageError(
            f"The queue {queue.name} has no dead-letter queue: its messages are retried forever."
        )
    async with open_stores(system, Settings.load()) as stores:
        source = queue.physical_name(stores.environment, dead_letter=True)
        target = queue.physical_name(stores.environment)
        return source, target, await stores.engines.get("queues").run(Redrive(source, target, count))


def _print_redriven(source: str, target: str, moved: int, as_json: bool) -> None:
    from holdfast.cli.output.console import get_console, print_json

    if as_json:
        print_json({"source": source, "target": target, "moved": moved})
        return
    get_console().print(f"{moved:,} moved from {source} to {target}.")
