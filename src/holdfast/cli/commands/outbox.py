"""`holdfast outbox`: announcements that are not with their queue yet, and those that were given up, sent again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.errors import NotFound
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.guarantees.outbox import Outbox, Waiting
    from holdfast.guarantees.sql_outbox import SqlOutbox
    from holdfast.model.system import System

    AnyOutbox = Outbox[Any] | SqlOutbox


class Action(StrEnum):
    LIST = "list"
    REDRIVE = "redrive"


def outbox(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="list or redrive.")],
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Whose outboxes.")],
    name: Annotated[str | None, typer.Option("--outbox", metavar="NAME", help="Only this outbox.")] = None,
    aggregate: Annotated[
        str | None, typer.Option("--aggregate", metavar="ID", help="Only of this aggregate.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Show what waits to be announced and what was given up; or let what was given up go out again."""
    from holdfast.model.system import installed_system

    found = installed_system(system)
    chosen = _chosen(found, name)
    if action is Action.LIST:
        _show(found, asyncio.run(_listed(found, chosen, aggregate)), as_json)
    else:
        _tell(found, asyncio.run(_redriven(found, chosen, aggregate)), as_json)


def _chosen(system: System, name: str | None) -> list[AnyOutbox]:
    several: list[AnyOutbox] = list(system.outboxes)
    if name is None:
        return several
    if named := [each for each in several if each.name == name]:
        return named
    known = ", ".join(each.name for each in several)
    raise NotFound(f"{system.name} has no outbox {name!r}: it has {known or 'none'}.")


async def _listed(
    system: System, chosen: Sequence[AnyOutbox], aggregate: str | None
) -> list[tuple[Waiting, float]]:
    """What waits, each with its age in seconds."""
    from holdfast.runtime import open_stores

    async with open_stores(system, Settings.load()) as stores:
        now = stores.clock.now()
        waiting = [each for outbox in chosen for each in await outbox.waiting(stores)]
        return [
            (each, max(0.0, now - each.created_at.timestamp()))
            for each in waiting
            if aggregate in (None, each.aggregate)
        ]


async def _redriven(
    system: System, chosen: Sequence[AnyOutbox], aggregate: str | None
) -> list[tuple[str, int]]:
    from holdfast.runtime import open_stores

    async with open_stores(system, Settings.load()) as stores:
        return [(each.name, await each.redrive(stores, aggregate)) for each in chosen]


def _show(system: System, waiting: Sequence[tuple[Waiting, float]], as_json: bool) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, number, plain_table, print_json

    if as_json:
        print_json([_plain(system, each, age_s) for each, age_s in waiting])
        return
    shown = plain_table(
        "outbox",
        "queue",
        "aggregate",
        number("sequence"),
        "status",
        number("age"),
        number("attempts"),
        "reason",
    )
    for each, age_s in waiting:
        place = f"{each.sequence}.{each.part}" if each.part else str(each.sequence)
        row = (
            each.outbox,
            each.queue,
            each.aggregate,
            place,
            each.status,
            f"{age_s:,.0f} s",
            str(each.attempts),
        )
        shown.add_row(*map(escape, (*row, each.reason or "")))
    dead = sum(each.status == "dead" for each, _ in waiting)
    console().print(shown)
    console().print(f"{len(waiting) - dead} pending, {dead} dead.")


def _plain(system: System, each: Waiting, age_s: float) -> dict[str, Any]:
    return {
        "system": system.name,
        "outbox": each.outbox,
        "queue": each.queue,
        "aggregate": each.aggregate,
        "sequence": each.sequence,
        "part": each.part,
        "id": each.id,
        "status": each.status,
        "created_at": each.created_at.isoformat(),
        "age_s": round(age_s, 3),
        "attempts": each.attempts,
        "reason": each.reason,
    }


def _tell(system: System, redriven: Sequence[tuple[str, int]], as_json: bool) -> None:
    from holdfast.cli.showing import print_json

    if as_json:
        print_json([{"system": system.name, "outbox": name, "redriven": count} for name, count in redriven])
        return
    for name, count in redriven:
        typer.echo(f"{name}: {count} redriven{'; whoever sends for it does so next' if count else ''}.")
    if not redriven:
        typer.echo(f"{system.name} has no outbox.")
