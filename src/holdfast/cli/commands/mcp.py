"""`holdfast mcp`: access patterns as tools for agents, over standard input and output."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.choosing import chosen_systems
from holdfast.cli.extras import engine_extras, require
from holdfast.errors import NotFound, SettingsError
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.model.system import System


def mcp(
    system: Annotated[
        str | None,
        typer.Argument(metavar="[SYSTEM]", help="Whose patterns; those of every system otherwise."),
    ] = None,
) -> None:
    """Offer the patterns of the component `agent` as MCP tools over stdio."""
    settings = Settings.load()
    require("mcp", "mcp", *engine_extras(settings))

    # Standard output is the protocol's.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    systems = chosen_systems(system) if system else _systems_with_agents()
    asyncio.run(_served(systems, settings))


def _systems_with_agents() -> list[System]:
    from holdfast.mcp import AGENT

    found = chosen_systems(None)
    with_agents = [each for each in found if any(part.name == AGENT for part in each.components)]
    if not with_agents:
        names = ", ".join(each.name for each in found) or "none"
        verb = "are" if len(found) > 1 else "is"
        raise NotFound(f"No installed system declares a component {AGENT!r}: {names} {verb} installed.")
    return with_agents


async def _served(systems: list[System], settings: Settings) -> None:
    from holdfast.clock import SystemClock
    from holdfast.mcp import serve_stdio
    from holdfast.runtime import Stores, open_tables_engine

    if settings.tables_in_memory:
        raise SettingsError(
            "The tables are in memory, and a process of its own for agents would find none: name a file or an "
            "endpoint in the setting `tables`."
        )
    clock = SystemClock()
    tables = open_tables_engine(settings, clock)
    close = getattr(tables, "close", lambda: None)
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, _end_at_once, close)
    several = [Stores(tables, system=each, environment=settings.environment, clock=clock) for each in systems]
    try:
        await serve_stdio(several)
    finally:
        close()


def _end_at_once(close: Callable[[], object]) -> None:
    """A thread waits for the next line of input, and nothing but the line wakes it: the process ends without it."""
    close()
    os._exit(0)
