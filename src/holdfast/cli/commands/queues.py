"""`holdfast queues`: what waits, what died, and how what died comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli.misuse import CalledWrongly
from holdfast.errors import DeclarationError, NotFound
from holdfast.operations.queues import Browse, DescribeQueue, Incoming, Redrive
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.model.queues import Queue
    from holdfast.model.system import System
    from holdfast.runtime import Stores

SHOWN: Final = 10


class Action(StrEnum):
    LIST = "list"
    SHOW = "show"
    REDRIVE = "redrive"


@dataclass(frozen=True)
class QueueState:
    """One queue of a system, or its dead letters, as it stands in the store; without figures where it is not made yet."""

    system: str
    queue: str
    physical_name: str
    fifo: bool
    dead_letters: bool
    exists: bool
    visible: int | None = None
    in_flight: int | None = None
    delayed: int | None = None
    oldest_age_s: float | None = None


def queues(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="list, show or redrive.")],
    system: Annotated[
        str | None, typer.Argument(metavar="[SYSTEM]", help="Whose queues; for list, all if none is named.")
    ] = None,
    queue: Annotated[
        str | None, typer.Argument(metavar="[QUEUE]", help="Which queue, as the system declares it.")
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Only so many messages.")] = None,
    dead: Annotated[bool, typer.Option("--dead", help="Show the dead letters of the queue.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """List queues with their backlog; show the messages of one; move its dead letters back."""
    from holdfast.cli.choosing import chosen_systems

    if action is Action.LIST:
        _show_states(_listed(chosen_systems(system), is_named=system is not None), as_json)
        return
    if system is None or queue is None:
        raise CalledWrongly(f"`holdfast queues {action.value}` needs a system and one of its queues.")
    (found,) = chosen_systems(system)
    chosen = found.queue(queue)
    if action is Action.SHOW:
        name, messages = asyncio.run(_seen(found, chosen, count or SHOWN, dead=dead))
        _show_messages(name, messages, as_json, dead=dead)
    else:
        _show_redriven(*asyncio.run(_redriven(found, chosen, count)), as_json)


# --- list ---------------------------------------------------------------------------------------------------


def _listed(systems: Sequence[System], *, is_named: bool) -> list[QueueState]:
    """Where all are asked for, one that is not set up here is told in a line, and the others are listed."""
    states: list[QueueState] = []
    for each in systems:
        try:
            states += asyncio.run(_states(each))
        except DeclarationError as error:
            if is_named:
                raise
            typer.echo(f"{each.name} is left out: {error.message}", err=True)
    return states


async def _states(system: System) -> list[QueueState]:
    from holdfast.runtime import open_stores

    if not system.queues:
        return []
    async with open_stores(system, Settings.load()) as stores:
        return [
            await _state(system, each, stores, dead=dead)
            for each in system.queues
            for dead in ((False, True) if each.receives_max is not None else (False,))
        ]


async def _state(system: System, queue: Queue[Any], stores: Stores, *, dead: bool) -> QueueState:
    name = queue.physical_name(stores.environment, dead=dead)
    try:
        told = await stores.engines.of("queues").run(DescribeQueue(name))
    except NotFound:
        return QueueState(system.name, queue.name, name, queue.fifo, dead, exists=False)
    return QueueState(
        system.name,
        queue.name,
        name,
        queue.fifo,
        dead,
        True,
        told.visible,
        told.in_flight,
        told.delayed,
        told.oldest_age_s,
    )


def _show_states(states: list[QueueState], as_json: bool) -> None:
    from dataclasses import asdict

    from rich.table import Column

    from holdfast.cli.showing import console, number, plain_table, print_json

    if as_json:
        print_json([asdict(each) for each in states])
        return
    if not states:
        console().print("There is no queue to list.")
        return
    shown = plain_table(
        "system", Column("queue", no_wrap=True), number("visible"), number("in flight"), number("delayed"), number("oldest"), ""
    )  # fmt: skip
    for each in states:
        figures = [_figure(value) for value in (each.visible, each.in_flight, each.delayed)]
        notes = ["dead letters"] * each.dead_letters + ["not made yet"] * (not each.exists)
        shown.add_row(each.system, each.physical_name, *figures, _age(each.oldest_age_s), ", ".join(notes))
    console().print(shown)


def _figure(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _age(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:,.0f} s"


# --- show ---------------------------------------------------------------------------------------------------


async def _seen(
    system: System, queue: Queue[Any], count: int, *, dead: bool
) -> tuple[str, tuple[Incoming, ...]]:
    from holdfast.runtime import open_stores

    async with open_stores(system, Settings.load()) as stores:
        name = queue.physical_name(stores.environment, dead=dead)
        return name, await stores.engines.of("queues").run(Browse(name, count))


def _show_messages(name: str, messages: tuple[Incoming, ...], as_json: bool, *, dead: bool) -> None:
    import msgspec
    from rich.markup import escape

    from holdfast.cli.showing import console, number, plain_table, print_json

    if as_json:
        print_json([{"queue": name, **_without_receipt(msgspec.to_builtins(each))} for each in messages])
        return
    shown = plain_table("id", "group", number("receives"), *(["died in"] * dead), "attributes", "body")
    for each in messages:
        attributes = " ".join(f"{key}={value}" for key, value in each.attributes.items())
        died_in = [each.died_in or ""] * dead
        row = (each.id, each.group or "", str(each.receives), *died_in, attributes, each.body)
        shown.add_row(*map(escape, row))
    console().print(shown)
    console().print(f"{len(messages)} of {name}, oldest first.")
    if dead and messages:
        console().print("Why one died is in the worker's log: look for its id.")


def _without_receipt(message: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in message.items() if name != "receipt"}


# --- redrive ------------------------------------------------------------------------------------------------


async def _redriven(system: System, queue: Queue[Any], count: int | None) -> tuple[str, str, int]:
    from holdfast.runtime import open_stores

    if queue.receives_max is None:
        raise CalledWrongly(f"The queue {queue.name} has no dead letters: its messages are tried for ever.")
    async with open_stores(system, Settings.load()) as stores:
        source = queue.physical_name(stores.environment, dead=True)
        target = queue.physical_name(stores.environment)
        return source, target, await stores.engines.of("queues").run(Redrive(source, target, count))


def _show_redriven(source: str, target: str, moved: int, as_json: bool) -> None:
    from holdfast.cli.showing import console, print_json

    if as_json:
        print_json({"source": source, "target": target, "moved": moved})
        return
    console().print(f"{moved:,} moved from {source} to {target}.")
