"""`holdfast run`: one system's HTTP API, on the tables that the settings name."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from holdfast import __version__
from holdfast.cli.commands.serve import parsed_port
from holdfast.cli.extras import engine_extras, require
from holdfast.errors import AccessRefused, SettingsError
from holdfast.settings import Settings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from holdfast.model.system import System
    from holdfast.model.tables import Table
    from holdfast.runtime.stores import Stores

# As which component the routes run, where the system declares it and nobody names another.
API_COMPONENT: Final = "api"

log = logging.getLogger(__name__)


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
            on_ready=lambda url: typer.echo(f"{title} answers at {url} as {_told_component(named)}"),
            may_be_remote=bool(settings.api_token),
        )
    finally:
        asyncio.run(stores.close())


def system_app(system: System, stores: Stores, *, component: str | None = None, token: str = "") -> FastAPI:
    """The app of a system. Its tables are made before the first request; the stores stay open."""
    from fastapi import APIRouter

    from holdfast.runtime import prepare_tables
    from holdfast.runtime.metrics import open_metrics
    from holdfast.web import make_app

    metrics = open_metrics(stores)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        for name, refused in (await prepare_tables(stores, system.tables)).items():
            log.warning("The table %s is taken as it is: %s", name, refused)
        metrics.follow(asyncio.get_running_loop())
        yield

    routers = _routes_of(system)(stores if component is None else stores.for_component(component))
    return make_app(
        system.title or system.name,
        _version(system),
        [routers] if isinstance(routers, APIRouter) else list(routers),
        lifespan=lifespan,
        check=_health_check(stores, _own_tables(system, component)),
        metrics=metrics.text,
        token=token or None,
    )


def _health_check(stores: Stores, tables: Sequence[Table]) -> Callable[[], Awaitable[None]]:
    """Asks for what every component may know: the description of a table that it uses."""
    from holdfast.errors import DeclarationError
    from holdfast.runtime import describe
    from holdfast.runtime.provisioning import NOT_ALLOWED

    async def check() -> None:
        for table in tables[:1]:
            try:
                found = await describe(stores, table)
            except AccessRefused as refused:
                # It answers and knows who asks: that is health enough, where descriptions are not allowed.
                if refused.code != NOT_ALLOWED:
                    raise
            else:
                if found is None:
                    raise DeclarationError(f"The table {stores.physical_name(table)} is gone.")

    return check


def _own_tables(system: System, component: str | None) -> Sequence[Table]:
    """The tables that a component's patterns use; those of the system where it runs as a whole."""
    from holdfast.reports.examples import example_of

    if component is None:
        return system.tables
    used = {name for each in system.component(component).patterns for name in example_of(each).tables}
    return [table for table in system.tables if table.name in used]


def _version(system: System) -> str:
    """That of the distribution which announces the system; ours where none does."""
    from holdfast.model.system import ENTRY_POINTS

    found = [point.dist for point in entry_points(group=ENTRY_POINTS, name=system.name)]
    return found[0].version if found and found[0] is not None else __version__


def _routes_of(system: System) -> Callable[..., Any]:
    if system.routes is None:
        raise SettingsError(f"{system.name} has no HTTP API: its System names no `routes`.")
    return system.routes


def _told_component(named: str | None) -> str:
    return (
        f"the component {named}" if named else f"the whole system (it declares no component {API_COMPONENT})"
    )


def _component(system: System, named: str | None) -> str | None:
    """The one that is named, else `api` where it is declared, else the system as a whole."""
    if named is not None:
        return system.component(named).name
    return API_COMPONENT if any(each.name == API_COMPONENT for each in system.components) else None
