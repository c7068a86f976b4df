"""`holdfast outbox`: announcements that are not with their queue yet; those that were given up, sent again or never."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.errors import InvalidRequest, NotFound
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.guarantees.outbox import Outbox, Waiting
    from holdfast.guarantees.sql_outbox import SqlOutbox
    from holdfast.model.system import System
    from holdfast.runtime import Stores

    AnyOutbox = Outbox[Any] | SqlOutbox


class Action(StrEnum):
    LIST = "list"
    REDRIVE = "redrive"
    DISCARD = "discard"


@dataclass(frozen=True)
class Choice:
    """Which announcements are meant: those for which all holds that is said."""

    aggregate: str | None
    queue: str | None
    ids: frozenset[str]

    def has(self, each: Waiting) -> bool:
        return (
            self.aggregate in (None, each.aggregate)
            and self.queue in (None, each.queue)
            and (not self.ids or each.id in self.ids)
        )


def outbox(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="list, redrive or discard.")],
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Whose outboxes.")],
    name: Annotated[str | None, typer.Option("--outbox", metavar="NAME", help="Only this outbox.")] = None,
    aggregate: Annotated[
        str | None, typer.Option("--aggregate", metavar="ID", help="Only of this aggregate.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="QUEUE", help="Only for this queue.")
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="Only this one, as list --json tells it; may repeat."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Show what waits to be announced and what was given up; let what was given up go out again, or never."""
    from holdfast.model.system import installed_system

    found, choice = installed_system(system), Choice(aggregate, queue, frozenset(ids or ()))
    chosen = _chosen(found, name)
    if action is Action.LIST:
        _show(found, asyncio.run(_listed(found, chosen, choice)), as_json)
        return
    if action is Action.DISCARD and not choice.ids:
        raise InvalidRequest(
            "What is discarded is never sent: say which by --id, as `list --json` tells them."
        )
    _tell(found, action, asyncio.run(_done(found, chosen, action, choice)), as_json)


def _chosen(system: System, name: str | None) -> list[AnyOutbox]:
    several: list[AnyOutbox] = list(system.outboxes)
    if name is None:
        return several
    if named := [each for each in several if each.name == name]:
        return named
    known = ", ".join(each.name for each in several)
    raise NotFound(f"{system.name} has no outbox {name!r}: it has {known or 'none'}.")


async def _listed(system: System, chosen: Sequence[AnyOutbox], choice: Choice) -> list[tuple[Waiting, float]]:
    """What waits, each with its age in seconds."""
    from holdfast.runtime import open_stores

    async with open_stores(system, Settings.load()) as stores:
        now = stores.clock.now()
        waiting = [each for outbox in chosen for each in await outbox.waiting(stores)]
        return [(each, max(0.0, now - each.created_at.timestamp())) for each in waiting if choice.has(each)]


async def _done(
    system: System, chosen: Sequence[AnyOutbox], action: Action, choice: Choice
) -> list[tuple[str, int]]:
    from holdfast.runtime import open_stores

    act = _redriven if action is Action.REDRIVE else _discarded
    async with open_stores(system, Settings.load()) as stores:
        return [(each.name, await act(each, stores, choice)) for each in chosen]


async def _redriven(outbox: AnyOutbox, stores: Stores, choice: Choice) -> int:
    from holdfast.guarantees.outbox import OutboxStatus
    from holdfast.guarantees.sql_outbox import SqlOutbox

    if isinstance(outbox, SqlOutbox):
        ids = _numbers(choice.ids) if choice.ids else None
        return await outbox.redrive(stores, choice.aggregate, ids=ids, queue=choice.queue)
    # In tables an aggregate has one that is dead at most: those behind it wait.
    dead = [each for each in await outbox.waiting(stores, OutboxStatus.DEAD) if choice.has(each)]
    return sum([await outbox.redrive(stores, each) for each in sorted({each.aggregate for each in dead})])


async def _discarded(outbox: AnyOutbox, stores: Stores, choice: Choice) -> int:
    from holdfast.guarantees.outbox import OutboxStatus
    from holdfast.guarantees.sql_outbox import SqlOutbox

    dead = [each for each in await outbox.waiting(stores, OutboxStatus.DEAD) if choice.has(each)]
    if not isinstance(outbox, SqlOutbox):
        if dead:
            raise InvalidRequest(
                f"{outbox.name} is in tables, where nothing is discarded: redrive it once its queue takes it."
            )
        return 0
    return await outbox.discard(stores, _numbers(each.id for each in dead))


def _numbers(ids: Iterable[str]) -> list[int]:
    """Of rows in SQL; an id of tables is none of theirs."""
    return [int(each) for each in ids if each.isascii() and each.isdigit()]


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


def _tell(system: System, action: Action, done: Sequence[tuple[str, int]], as_json: bool) -> None:
    from holdfast.cli.showing import print_json

    word = "redriven" if action is Action.REDRIVE else "discarded"
    if as_json:
        print_json([{"system": system.name, "outbox": name, word: count} for name, count in done])
        return
    follows = "whoever sends for it does so next" if action is Action.REDRIVE else "what is behind goes on"
    for name, count in done:
        typer.echo(f"{name}: {count} {word}{f'; {follows}' if count else ''}.")
    if not done:
        typer.echo(f"{system.name} has no outbox.")
