"""`holdfast why`: print why something happened, as the system explains it from what it stored."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.arguments.system_names import select_systems
from holdfast.cli.extras import get_engine_extras, require_extras
from holdfast.config.settings import Settings
from holdfast.core.terminal import escape_control_chars

if TYPE_CHECKING:
    from holdfast.model.system import Explanation, System


def why(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The system.")],
    id: Annotated[str, typer.Argument(metavar="ID", help="The id to explain: of an event, a conversation …")],
    component: Annotated[
        str | None, typer.Option("--component", metavar="C", help="Read as this component of the system.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain why something happened; exit 1 if nothing is known about it."""
    settings = Settings.load()
    require_extras("why", *get_engine_extras(settings))
    (found,) = select_systems(system)
    explanation = asyncio.run(_explain(found, id, component, settings))
    if as_json:
        text = json.dumps(explanation.data, indent=2, ensure_ascii=False, default=_to_json)
        typer.echo(text.encode("utf-8", "backslashreplace").decode())
        return
    for line in explanation.lines:
        typer.echo(escape_control_chars(line))


async def _explain(system: System, id: str, component: str | None, settings: Settings) -> Explanation:
    """Open the stores and return the system's explanation."""
    from holdfast.reports.work.explanations import explain
    from holdfast.runtime import open_stores

    async with open_stores(system, settings) as stores:
        return await explain(stores, id, component)


def _to_json(value: Any) -> Any:
    """Return a document's or entity's data, anything else as text: the fallback of the JSON encoder."""
    return value.model_dump(mode="json", by_alias=True) if hasattr(value, "model_dump") else str(value)
