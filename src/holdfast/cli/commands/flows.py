"""`holdfast flows`: where each flow stands and what is parked; its diagram; what is parked, taken up again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.errors import InvalidRequest, NotFound
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.flows import Flow, Place
    from holdfast.model.system import System


class Action(StrEnum):
    LIST = "list"
    DIAGRAM = "diagram"
    ASL = "asl"
    RESUME = "resume"


def flows(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="list, diagram, asl or resume.")],
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Whose flows.")],
    name: Annotated[str | None, typer.Option("--flow", metavar="NAME", help="Only this flow.")] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEY", help="Only of this item, as list tells it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Show where flows stand and what is parked; draw them; let what is parked go on."""
    from holdfast.model.system import installed_system

    found = installed_system(system)
    chosen = _chosen(found, name)
    if action is Action.LIST:
        _show(found, asyncio.run(_standing(found, chosen, key)), as_json)
    elif action is Action.RESUME:
        _tell(found, asyncio.run(_resumed(found, chosen, key)), as_json)
    else:
        _draw(found, chosen, action, as_json)


def _chosen(system: System, name: str | None) -> list[Flow[Any]]:
    several: list[Flow[Any]] = list(system.flows)
    if name is None:
        return several
    if named := [each for each in several if each.name == name]:
        return named
    known = ", ".join(each.name for each in several)
    raise NotFound(f"{system.name} has no flow {name!r}: it has {known or 'none'}.")


async def _standing(
    system: System, chosen: Sequence[Flow[Any]], key: str | None
) -> list[tuple[Place, float]]:
    """Where each stands, with how long it has been there in seconds."""
    from holdfast.runtime import open_stores

    async with open_stores(system, Settings.load()) as stores:
        now = stores.clock.now()
        places = [each for flow in chosen for each in await flow.standing(stores)]
        return [(each, max(0.0, now - each.since.timestamp())) for each in places if key in (None, each.key)]


async def _resumed(system: System, chosen: Sequence[Flow[Any]], key: str | None) -> list[tuple[str, int]]:
    from holdfast.runtime import open_stores

    if key is not None and len(chosen) > 1:
        raise InvalidRequest(f"{system.name} has several flows: say by --flow whose key it is.")
    async with open_stores(system, Settings.load()) as stores:
        return [(each.name, await each.resume(stores, key)) for each in chosen]


def _show(system: System, standing: Sequence[tuple[Place, float]], as_json: bool) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, number, plain_table, print_json

    if as_json:
        print_json([_plain(system, each, age_s) for each, age_s in standing])
        return
    shown = plain_table("flow", "key", "state", "does", number("since"), "due", number("attempts"), "parked")
    for each, age_s in standing:
        due = "" if each.due is None or each.is_parked else each.due.isoformat(timespec="seconds")
        row = (each.flow, each.key, each.state, each.step or "", f"{age_s:,.0f} s", due, str(each.attempts))
        shown.add_row(*map(escape, (*row, _parked(each))))
    console().print(shown)
    parked = sum(each.is_parked for each, _ in standing)
    console().print(f"{len(standing) - parked} running, {parked} parked.")


def _parked(place: Place) -> str:
    return f"{place.parked_for}: {place.parked}" if place.is_parked else ""


def _plain(system: System, place: Place, age_s: float) -> dict[str, Any]:
    return {
        "system": system.name,
        "flow": place.flow,
        "key": place.key,
        "state": place.state,
        "does": place.step,
        "since": place.since.isoformat(),
        "age_s": round(age_s, 3),
        "due": None if place.due is None or place.is_parked else place.due.isoformat(),
        "attempts": place.attempts,
        "error": place.error,
        "parked_for": place.parked_for,
        "parked": place.parked,
    }


def _tell(system: System, done: Sequence[tuple[str, int]], as_json: bool) -> None:
    from holdfast.cli.showing import print_json

    if as_json:
        print_json([{"system": system.name, "flow": name, "resumed": count} for name, count in done])
        return
    for name, count in done:
        typer.echo(f"{name}: {count} resumed{'; a worker takes them next' if count else ''}.")
    if not done:
        typer.echo(f"{system.name} has no flow.")


def _draw(system: System, chosen: Sequence[Flow[Any]], action: Action, as_json: bool) -> None:
    """A machine of States Language is JSON anyway; with --json it is told whose it is."""
    from holdfast.cli.showing import print_json

    if not chosen:
        raise NotFound(f"{system.name} has no flow.")
    if as_json:
        drawn = [
            {"system": system.name, "flow": each.name, action.value: _drawing(each, action)}
            for each in chosen
        ]
        print_json(drawn)
    elif action is Action.DIAGRAM:
        typer.echo("\n".join(each.diagram() for each in chosen), nl=False)
    elif len(chosen) > 1:
        raise InvalidRequest(f"{system.name} has several flows: say by --flow which, or ask for --json.")
    else:
        print_json(chosen[0].states_language())


def _drawing(flow: Flow[Any], action: Action) -> Any:
    return flow.diagram() if action is Action.DIAGRAM else flow.states_language()
