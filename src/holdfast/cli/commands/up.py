"""`holdfast up`: everything that can be served from here, each in a process of its own.

The endpoint and the APIs are children of this process: `holdfast serve` and `holdfast run SYSTEM`. Each says where
it answers. They live and end together.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.extras import require
from holdfast.cli.supervision import Child, supervise
from holdfast.errors import HoldfastError, SettingsError
from holdfast.settings import PORT_MAX, Settings

if TYPE_CHECKING:
    from holdfast.model.system import System


def up(
    sample: Annotated[
        bool, typer.Option("--sample", help="Write the systems' sample data first, to have something to ask.")
    ] = False,
) -> None:
    """Start the DynamoDB endpoint and the API of every installed system."""
    require("up", "serve", "api")
    from holdfast.model.system import installed_systems

    settings = Settings.load()
    installed = installed_systems().values()
    children = _children(settings, [each for each in installed if each.routes is not None], sample)
    if not children:
        raise SettingsError(
            f"There is nothing to start: the tables are at {settings.tables}, and no installed system has an API."
        )
    if settings.tables_in_memory:
        typer.echo("The tables are in memory: each process has its own, gone when it stops.")
    for system in installed:
        if system.routes is None:
            typer.echo(f"{system.title or system.name} has no API to start.")
    ended = asyncio.run(supervise(children))
    if ended is not None:
        raise HoldfastError(f"{ended} The others were stopped too.")


def _children(settings: Settings, systems: list[System], sample: bool = False) -> list[Child]:
    command = (sys.executable, "-m", "holdfast")
    children = []
    if settings.tables_embedded:
        children.append(Child("The DynamoDB endpoint", (*command, "serve")))
    for place, system in enumerate(systems):
        port = settings.api_port + place if settings.api_port else 0
        if port > PORT_MAX:
            raise SettingsError(
                f"api_port = {settings.api_port} leaves no port for {system.name}, which is number {place + 1}: "
                "choose a lower one."
            )
        words = (*command, "run", system.name, "--port", str(port), *(["--sample"] if sample else []))
        children.append(Child(f"The API of {system.title or system.name}", words))
    return children
