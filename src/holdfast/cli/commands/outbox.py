"""`holdfast outbox`: list unsent messages, send dead (given up) ones again, or discard them."""

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
    from holdfast.guarantees.messaging.declaration import BaseOutbox
    from holdfast.guarantees.messaging.messages import UnsentMessage
    from holdfast.model.system import System


class Subcommand(StrEnum):
    LIST = "list"
    REDRIVE = "redrive"
    DISCARD = "discard"


@dataclass(frozen=True)
class MessageFilter:
    """A filter of outbox messages. All given conditions must hold."""

    aggregate: str | None
    queue: str | None
    ids: frozenset[str]

    def matches(self, message: UnsentMessage) -> bool:
        """Return True if the message meets every given condition."""
        return (
            self.aggregate in (None, message.aggregate)
            and self.queue in (None, message.queue)
            and (not self.ids or message.id in self.ids)
        )


@dataclass(frozen=True)
class ListedMessage:
    """An unsent message of a system, and its age in seconds."""

    system: str
    message: UnsentMessage
    age_s: float


def outbox(
    action: Annotated[Subcommand, typer.Argument(metavar="ACTION", help="What to do.")] = Subcommand.LIST,
    system: Annotated[
        str | None,
        typer.Argument(metavar="SYSTEM", help="The system. Default for list: every installed system."),
    ] = None,
    name: Annotated[str | None, typer.Option("--outbox", metavar="NAME", help="Only this outbox.")] = None,
    aggregate: Annotated[
        str | None, typer.Option("--aggregate", metavar="ID", help="Only messages of this aggregate.")
    ] = None,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="QUEUE", help="Only messages for this queue.")
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="ID", help="Only the message with this id of list --json; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List unsent messages; send dead ones again, or discard them.

    A message is dead when its relay has given it up.
    """
    from holdfast.model.system import load_system

    message_filter = MessageFilter(aggregate, queue, frozenset(ids or ()))
    if system is None and (action is not Subcommand.LIST or name is not None):
        option = " --outbox" if action is Subcommand.LIST else ""
        raise UsageError(f"`holdfast outbox {action.value}{option}` needs SYSTEM.")
    if action is Subcommand.LIST:
        _print_waiting(read_rows(system, lambda each: _list_waiting(each, name, message_filter)), as_json)
        return
    assert system is not None
    found = load_system(system)
    selected = _select_outboxes(found, name)
    if action is Subcommand.DISCARD and not message_filter.ids:
        raise InvalidRequest(
            "A discarded message is never sent: give each one with --id, as printed by `list --json`."
        )
    _print_counts(found, action, asyncio.run(_apply_action(found, selected, action, message_filter)), as_json)


def _select_outboxes(system: System, name: str | None) -> list[BaseOutbox]:
    """Return the outbox of this name, or all outboxes if `name` is None. Raise `NotFound` for an unknown
    name.
    """
    declared: list[BaseOutbox] = list(system.outboxes)
    if name is None:
        return declared
    if named := [each for each in declared if each.name == name]:
        return named
    known = ", ".join(each.name for each in declared)
    raise NotFound(f"{system.name} has no outbox {name!r}: it has {known or 'none'}.")


async def _list_waiting(
    system: System, name: str | None, message_filter: MessageFilter
) -> list[ListedMessage]:
    """Return the matching unsent messages, pending and dead, of all outboxes or of the one of this name.

    The stores are opened only if an outbox may have messages.
    """
    from holdfast.reports.work.outboxes import may_have_messages
    from holdfast.runtime import open_stores

    settings = Settings.load()
    selected = [each for each in _select_outboxes(system, name) if may_have_messages(each, settings)]
    if not selected:
        return []
    async with open_stores(system, settings) as stores:
        now = stores.clock.now()
        waiting = [each for outbox in selected for each in await outbox.list_unsent(stores)]
        return [
            ListedMessage(system.name, each, max(0.0, now - each.created_at.timestamp()))
            for each in waiting
            if message_filter.matches(each)
        ]


async def _apply_action(
    system: System, selected: Sequence[BaseOutbox], action: Subcommand, message_filter: MessageFilter
) -> list[tuple[str, int]]:
    """Redrive or discard the matching dead messages; return the count for each outbox."""
    from holdfast.guarantees.messaging.messages import OutboxStatus
    from holdfast.runtime import open_stores

    counts: list[tuple[str, int]] = []
    async with open_stores(system, Settings.load()) as stores:
        for outbox in selected:
            dead = await outbox.list_unsent(stores, OutboxStatus.DEAD)
            ids = [each.id for each in dead if message_filter.matches(each)]
            if action is Subcommand.REDRIVE:
                counts.append((outbox.name, await outbox.redrive(stores, ids=ids)))
            else:
                counts.append((outbox.name, await outbox.discard(stores, ids)))
    return counts


def _print_waiting(listed: Sequence[ListedMessage], as_json: bool) -> None:
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console, number_column, print_json

    if as_json:
        print_json([_to_json(each) for each in listed])
        return
    table = build_table(
        "system",
        "outbox",
        "queue",
        "aggregate",
        number_column("sequence"),
        "status",
        number_column("age"),
        number_column("attempts"),
        "reason",
    )
    for row in listed:
        table.add_row(*map(escape, _format_row(row)))
    if listed:
        get_console().print(table)
    dead = sum(row.message.status == "dead" for row in listed)
    get_console().print(f"{len(listed) - dead} pending, {dead} dead.")


def _format_row(row: ListedMessage) -> tuple[str, ...]:
    each = row.message
    sequence = f"{each.sequence}.{each.part}" if each.part else str(each.sequence)
    return (
        *(row.system, each.outbox, each.queue, each.aggregate, sequence, each.status),
        *(f"{row.age_s:,.0f} s", str(each.attempts), each.reason or ""),
    )


def _to_json(row: ListedMessage) -> dict[str, Any]:
    message = row.message
    times = {"created_at": message.created_at.isoformat(), "age_s": round(row.age_s, 3)}
    return {"system": row.system, **message.model_dump(), **times}


def _print_counts(
    system: System, action: Subcommand, counts: Sequence[tuple[str, int]], as_json: bool
) -> None:
    """Print how many messages of each outbox were redriven or discarded."""
    from holdfast.cli.output.console import print_json

    word = "redriven" if action is Subcommand.REDRIVE else "discarded"
    if as_json:
        print_json([{"system": system.name, "outbox": name, word: count} for name, count in counts])
        return
    follows = (
        "the relay sends them next" if action is Subcommand.REDRIVE else "the messages after them go out"
    )
    for name, count in counts:
        typer.echo(f"{name}: {count} {word}{f'; {follows}' if count else ''}.")
    if not counts:
        typer.echo(f"{system.name} has no outboxes.")
