"""`holdfast mcp`: serve a system to agents over MCP, on standard input and output or over HTTP."""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.arguments.system_names import select_systems
from holdfast.cli.commands.serve import parse_port
from holdfast.cli.extras import get_all_extras, get_engine_extras, require_extras
from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import Settings
from holdfast.core.errors import NotFound, SettingsError
from holdfast.core.logs import setup_logs

if TYPE_CHECKING:
    from holdfast.mcp.http_app import AgentGuard
    from holdfast.model.system import System


def mcp(
    system: Annotated[
        str | None,
        typer.Argument(metavar="SYSTEM", help="A system. Default: every system with a component `agent`."),
    ] = None,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP instead of stdio.")] = False,
    host: Annotated[str | None, typer.Option("--host", help="With --http: the address to listen on.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", parser=parse_port, metavar="PORT", help="With --http: the port; 0 for a free one."
        ),
    ] = None,
) -> None:
    """Serve a system to agents over MCP, on stdio or over HTTP."""
    if not http and (host is not None or port is not None):
        raise UsageError("--host and --port need --http: give all, or none of them.")
    settings = Settings.load()
    require_extras("mcp", "mcp", *get_engine_extras(settings))
    if http:
        require_extras("mcp", "api")
    if settings.has_memory_tables:
        raise SettingsError(
            "The setting `tables` keeps the tables in memory, where this process cannot see those of others: "
            "set a file or an endpoint."
        )
    systems = _select_systems(system, settings)
    _require_production_settings(systems, settings)
    _setup_logs(systems, settings, logging.INFO if http else logging.WARNING)
    if http:
        _serve_http(
            systems,
            settings,
            settings.api_host if host is None else host,
            settings.mcp_port if port is None else port,
        )
    else:
        asyncio.run(_serve_stdio(systems, settings))


def _select_systems(name: str | None, settings: Settings) -> list[System]:
    """Return the named system, or every installed one with a component `agent`. Raise `NotFound` if there is
    none.
    """
    from holdfast.mcp import AGENT

    installed = select_systems(name, functools.partial(get_all_extras, settings))
    selected = [
        each
        for each in installed
        if name is not None or any(component.name == AGENT for component in each.components)
    ]
    if not selected:
        names = ", ".join(each.name for each in installed) or "none"
        raise NotFound(f"No installed system declares a component {AGENT!r}. Installed systems: {names}.")
    return selected


def _require_production_settings(systems: Sequence[System], settings: Settings) -> None:
    """Raise `SettingsError` if the environment is production and a setting of the component is missing."""
    from holdfast.cli.processes.production import list_component_problems, require_production_settings
    from holdfast.mcp import AGENT

    problems = (problem for each in systems for problem in list_component_problems(settings, each, AGENT))
    require_production_settings(settings, problems)


def _setup_logs(systems: Sequence[System], settings: Settings, level: int) -> None:
    """Send the log to standard error, without what any of the systems redacts: standard output carries the
    protocol.
    """
    from holdfast.mcp import AGENT

    redactions = [each.privacy.redact_logs for each in systems if each.privacy.redact_logs is not None]
    setup_logs(
        sys.stderr,
        level=level,
        redact=lambda text: functools.reduce(lambda said, redact: redact(said), redactions, text),
        system=systems[0].name if len(systems) == 1 else None,
        component=AGENT,
        clock=settings.clock,
    )


async def _serve_stdio(systems: Sequence[System], settings: Settings) -> None:
    """Serve the systems until standard input ends or a signal arrives."""
    from holdfast.mcp import serve_stdio
    from holdfast.runtime import open_systems

    async with open_systems(systems, settings) as stores:
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(each, _exit_now, stores[0].engines.close)
        await serve_stdio(stores)


def _exit_now(close: Callable[[], object]) -> None:
    """Exit at once: a thread is blocked on the next line of input, and only that line would wake it."""
    close()
    os._exit(0)


def _serve_http(systems: Sequence[System], settings: Settings, host: str, port: int) -> None:
    """Serve the systems over HTTP until a signal, and let running calls finish."""
    from holdfast.mcp.http_app import PATH, build_http_app
    from holdfast.runtime import open_systems
    from holdfast.web import serve
    from holdfast.web.server import REMOTE_NEEDS

    guard = _build_guard(systems, settings)
    titles = ", ".join(each.title or each.name for each in systems)
    serve(
        build_http_app(
            titles,
            functools.partial(open_systems, systems, settings),
            guard,
            health_timeout_s=settings.health_timeout_s,
        ),
        host=host,
        port=port,
        on_ready=lambda url: typer.echo(f"{titles} answers agents at {url}{PATH} as the component agent"),
        remote_needs=REMOTE_NEEDS if guard.is_open else "",
        allowed_hosts=settings.host_names,
        allowed_origins=settings.origins,
    )


def _build_guard(systems: Sequence[System], settings: Settings) -> AgentGuard:
    """Return the guard that the settings name: tokens of an issuer, the shared token, or none."""
    from holdfast.mcp import AGENT
    from holdfast.mcp.http_app import AgentGuard
    from holdfast.mcp.scopes import list_scopes
    from holdfast.web.tokens import open_token_verifier

    if not settings.mcp_token_issuer:
        return AgentGuard(token=settings.api_token)
    require_extras("mcp", "tokens")
    verifier = open_token_verifier(
        settings.mcp_keys_source,
        issuer=settings.mcp_token_issuer,
        audience=settings.mcp_url,
        clock=settings.clock,
    )
    writing = [each.name for each in systems if each.get_component(AGENT).writes]
    return AgentGuard(
        token=settings.api_token,
        verifier=verifier,
        issuer=settings.mcp_token_issuer,
        url=settings.mcp_url,
        scopes=list_scopes([each.name for each in systems], writes=writing),
    )
