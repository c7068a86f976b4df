"""`holdfast run`: one system's HTTP API, on the tables that the settings name."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast import __version__
from holdfast.cli.commands.serve import parsed_port
from holdfast.cli.extras import engine_extras, require
from holdfast.errors import SettingsError
from holdfast.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from holdfast.model.system import System
    from holdfast.runtime.stores import Stores

# As which component the routes run, where the system declares it and nobody names another.
API_COMPONENT: Final = "api"


def run(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Which system.")],
    component: Annotated[
        str | None, typer.Option("--component", metavar="C", help="Run as this component of the system.")
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", parser=parsed_port, metavar="PORT", help="The port to listen on; 0 takes a free one."
        ),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Write the system's sample data first, to have something to ask.")
    ] = False,
) -> None:
    """Serve a system's HTTP API; its tables are made if they are not there."""
    settings = Settings.load()
    require("run", "api", *engine_extras(settings))
    from rich.console import Console

    from holdfast.cli.stories.systems import fill
    from holdfast.model.system import installed_system
    from holdfast.runtime import open_stores
    from holdfast.web import serve

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    found = installed_system(system)
    named = _component(found, component)
    _routes_of(found)
    title = found.title or found.name
    stores = open_stores(found, settings)
    try:
        if sample:
            asyncio.run(fill(found, stores, Console(stderr=True, highlight=False)))
        serve(
            system_app(found, stores, component=named, token=settings.api_token),
            host=settings.api_host if host is None else host,
            port=settings.api_port if port is None else port,
            on_ready=lambda url: typer.echo(f"{title} answers at {url}"),
            may_be_remote=bool(settings.api_token),
        )
    finally:
        asyncio.run(stores.close())


def system_app(system: System, stores: Stores, *, component: str | None = None, token: str = "") -> FastAPI:
    """The app of a system. Its tables are made before the first request; the stores stay open."""
    from fastapi import APIRouter

    from holdfast.operations.tables import ListTables
    from holdfast.runtime import create_tables
    from holdfast.runtime.metrics import open_metrics
    from holdfast.web import make_app

    metrics = open_metrics(stores)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        await create_tables(stores, system.tables)
        metrics.follow(asyncio.get_running_loop())
        yield

    async def check() -> None:
        await stores.tables.run(ListTables(limit=1))

    routers = _routes_of(system)(stores if component is None else stores.for_component(component))
    return make_app(
        system.title or system.name,
        __version__,
        [routers] if isinstance(routers, APIRouter) else list(routers),
        lifespan=lifespan,
        check=check,
        metrics=metrics.text,
        token=token or None,
    )


def _routes_of(system: System) -> Callable[..., Any]:
    if system.routes is None:
        raise SettingsError(f"{system.name} has no HTTP API: its System names no `routes`.")
    return system.routes


def _component(system: System, named: str | None) -> str | None:
    """The one that is named, else `api` where it is declared, else the system as a whole."""
    if named is not None:
        return system.component(named).name
    return API_COMPONENT if any(each.name == API_COMPONENT for each in system.components) else None
