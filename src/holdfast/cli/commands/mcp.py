"""`holdfast mcp`: serve access patterns as MCP tools for agents, over standard input and output."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.arguments.system_names import select_systems
from holdfast.cli.extras import get_engine_extras, require_extras
from holdfast.config.settings import Settings
from holdfast.core.errors import NotFound, SettingsError

if TYPE_CHECKING:
    from holdfast.model.system import System


def mcp(
    system: Annotated[
        str | None,
        typer.Argument(metavar="SYSTEM", help="A system. Default: every system with a component `agent`."),
    ] = None,
) -> None:
    """Serve the patterns of the component `agent` as MCP tools over stdio."""
    settings = Settings.load()
    require_extras("mcp", "mcp", *get_engine_extras(settings))

    # Standard output carries the protocol.
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    systems = select_systems(system) if system else _select_agent_systems()
    asyncio.run(_serve(systems, settings))


def _select_agent_systems() -> list[System]:
    """Return the installed systems that declare a component `agent`. Raise `NotFound` if there is none."""
    from holdfast.mcp import AGENT

    installed = select_systems(None)
    with_agents = [
        each for each in installed if any(component.name == AGENT for component in each.components)
    ]
    if not with_agents:
        names = ", ".join(each.name for each in installed) or "none"
        raise NotFound(f"No installed system declares a component {AGENT!r}. Installed systems: {names}.")
    return with_agents


async def _serve(systems: list[System], settings: Settings) -> None:
    """Serve the systems on the configured tables until standard input ends or a signal arrives.

    Raise `SettingsError` if the tables are in memory.
    """
    from holdfast.mcp import serve_stdio
    from holdfast.runtime import open_systems

    if settings.has_memory_tables:
        raise SettingsError(
            "The setting `tables` keeps the tables in memory, where this process cannot see those of others: "
            "set a file or an endpoint."
        )
    async with open_systems(systems, settings) as several:
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, _exit_now, several[0].engines.close)
        await serve_stdio(several)


def _exit_now(close: Callable[[], object]) -> None:
    """Exit at once: a thread is blocked on the next line of input, and only that line would wake it."""
    close()
    os._exit(0)
