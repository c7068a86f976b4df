"""`holdfast why`: why something happened, told by the system itself from what it has written down."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast.cli.choosing import chosen_systems
from holdfast.cli.extras import engine_extras, require
from holdfast.errors import NotFound, SettingsError
from holdfast.settings import Settings
from holdfast.terminal import harmless

if TYPE_CHECKING:
    from holdfast.model.system import Explanation, System

# As which component it is asked where nobody names one: the first of these that the system declares.
COMPONENTS: Final = ("support", "operator", "api")


def why(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Which system.")],
    id: Annotated[str, typer.Argument(metavar="ID", help="What it is about: an event, a conversation …")],
    component: Annotated[
        str | None, typer.Option("--component", metavar="C", help="Ask as this component of the system.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
) -> None:
    """Say why something happened; exit 1 if nothing is known of it."""
    settings = Settings.load()
    require("why", *engine_extras(settings))
    (found,) = chosen_systems(system)
    declared = [each.name for each in found.components]
    named = component or next((name for name in COMPONENTS if name in declared), None)
    explained = asyncio.run(_asked(found, id, named, settings))
    if as_json:
        told = json.dumps(explained.data, indent=2, ensure_ascii=False, default=_plain)
        typer.echo(told.encode("utf-8", "backslashreplace").decode())
        return
    for line in explained.lines:
        typer.echo(harmless(line))


async def _asked(system: System, id: str, component: str | None, settings: Settings) -> Explanation:
    from holdfast.runtime import open_stores

    if system.why is None:
        raise SettingsError(f"{system.name} does not say why: its System names no `why`.")
    async with open_stores(system, settings) as stores:
        view = stores if component is None else stores.for_component(component)
        explained = await system.why(view, id)
    if not explained.lines:
        raise NotFound(f"{system.name} knows nothing of {id!r}.")
    return explained


def _plain(value: Any) -> Any:
    """Documents and entities as their data; anything else as text."""
    return value.model_dump(mode="json", by_alias=True) if hasattr(value, "model_dump") else str(value)
