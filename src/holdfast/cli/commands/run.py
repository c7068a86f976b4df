"""`holdfast run`: one system, or some components of it, on the stores that the settings name: its HTTP API, its consumers
and its schedules. With `--sandbox`, the stand-in for an outside party instead.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import __version__
from holdfast.cli.commands.serve import parsed_port
from holdfast.cli.extras import engine_extras, require
from holdfast.errors import AccessRefused, NotFound
from holdfast.logs import log_as, setup_logs
from holdfast.settings import Settings

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

    from holdfast.cli.parts import Part
    from holdfast.model.system import System
    from holdfast.model.tables import Table
    from holdfast.runtime.stores import Stores

log = logging.getLogger(__name__)


def run(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="Which system.")],
    component: Annotated[
        list[str] | None,
        typer.Option(
            "--component",
            metavar="C",
            help="Run this component of the system alone; may be given several times.",
        ),
    ] = None,
    sandbox: Annotated[
        str | None, typer.Option("--sandbox", metavar="NAME", help="Serve the stand-in for an outside party.")
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
    """Run a system: its HTTP API, consumers and schedules; what they need is made if it is not there."""
    from holdfast.cli.choosing import chosen_systems
    from holdfast.cli.parts import part_of

    settings = Settings.load()
    require("run", *engine_extras(settings))
    (found,) = chosen_systems(system)
    require("run", *engine_extras(settings, found))
    named = component or []
    setup_logs(
        sys.stderr,
        redact=found.redact_logs,
        system=found.name,
        component=named[0] if len(named) == 1 else None,
        clock=settings.clock,
    )
    if sandbox is not None:
        _serve_sandbox(found, sandbox, settings, settings.api_port if port is None else port)
        return
    part = part_of(found, *named)
    # Without routes there is something to ask only for who says where: health and metrics.
    serves = bool(part.routes) or port is not None
    if serves:
        require("run", "api")
    from holdfast.runtime import open_stores

    stores = open_stores(found, settings)
    try:
        if sample:
            _write_sample(found, stores)
        if serves:
            _serve(found, stores, part, settings, host, settings.api_port if port is None else port)
        else:
            asyncio.run(_work(found, stores, part))
    finally:
        asyncio.run(stores.close())


# --- with an address ----------------------------------------------------------------------------------------


def _serve(
    system: System, stores: Stores, part: Part, settings: Settings, host: str | None, port: int
) -> None:
    from holdfast.cli.parts import told_work
    from holdfast.web import serve

    def ready(url: str) -> None:
        title = system.title or system.name
        lines = [f"{title} answers at {url} as {_told_components(part)}"] if part.routes else []
        beside = "" if part.routes else f"; health and metrics at {url}"
        lines += [told_work(system, worker) + beside for worker in part.workers]
        # In one piece: what is said first is taken for a sign that it is ready.
        typer.echo("\n".join(lines))

    serve(
        app_of(
            system,
            stores,
            part,
            token=settings.api_token,
            # The server ends as by a signal from outside, and then the failure is told.
            on_work_ended=lambda: signal.raise_signal(signal.SIGTERM),
        ),
        host=settings.api_host if host is None else host,
        port=port,
        on_ready=ready,
        may_be_remote=bool(settings.api_token) or all(each.is_signed for each in part.routes),
    )


def system_app(system: System, stores: Stores, *, component: str | None = None, token: str = "") -> FastAPI:
    """The app of a system, or of one of its components. What it needs is made before the first request."""
    from holdfast.cli.parts import part_of

    named = () if component is None else (component,)
    return app_of(system, stores, part_of(system, *named), token=token)


def app_of(
    system: System,
    stores: Stores,
    part: Part,
    *,
    token: str = "",
    on_work_ended: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The app of a part; it works for as long as the app lives. The stores stay open."""
    from holdfast.runtime.metrics import open_metrics
    from holdfast.web import make_app

    metrics = open_metrics(stores)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        await _prepare(system, stores)
        metrics.follow(asyncio.get_running_loop())
        async with _working(stores, part, on_work_ended):
            yield

    app = make_app(
        system.title or system.name,
        _version(system),
        _routers(stores, part, signed=False),
        signed=_routers(stores, part, signed=True),
        lifespan=lifespan,
        check=_health_check(stores, _own_tables(system, part)),
        metrics=metrics.text,
        token=token or None,
        body_bytes_max=system.body_bytes_max,
    )
    if system.manners is not None:
        system.manners(app)
    return app


def _routers(stores: Stores, part: Part, *, signed: bool) -> list[APIRouter]:
    """Those whose callers sign, or those whose callers do not."""
    from fastapi import APIRouter

    made: list[APIRouter] = []
    for routes in [each for each in part.routes if each.is_signed is signed]:
        view = stores if routes.component is None else stores.for_component(routes.component)
        routers = routes.make(view)
        for router in [routers] if isinstance(routers, APIRouter) else routers:
            if routes.component is not None:
                _log_requests_as(routes.component, router)
            made.append(router)
    return made


def _log_requests_as(component: str, router: APIRouter) -> None:
    """What an endpoint logs, and what is logged of its failure, is its component's."""
    from fastapi.routing import APIRoute

    for route in router.routes:
        if isinstance(route, APIRoute):
            route.endpoint = _logging_as(component, route.endpoint)


def _logging_as(component: str, endpoint: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(endpoint)
    async def answer(*given: Any, **named: Any) -> Any:
        log_as(component)
        return await endpoint(*given, **named)

    @functools.wraps(endpoint)
    def answer_in_thread(*given: Any, **named: Any) -> Any:
        log_as(component)
        return endpoint(*given, **named)

    return answer if inspect.iscoroutinefunction(endpoint) else answer_in_thread


async def _prepare(system: System, stores: Stores) -> None:
    from holdfast.runtime import prepare

    for name, refused in (await prepare(stores, system)).items():
        log.warning("The %s is taken as it is: %s", name, refused)
    if system.at_start is not None:
        await system.at_start(stores)


@asynccontextmanager
async def _working(stores: Stores, part: Part, on_ended: Callable[[], None]) -> AsyncIterator[None]:
    """The part's work around what runs inside. `on_ended` is called if it ends before that does."""
    from holdfast.runtime import Work

    async with Work(stores, part.workers) as work:
        if not await work.ready():
            # Leaving raises what kept it from beginning.
            return

        async def watch() -> None:
            await work.ended()
            on_ended()

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()


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


def _own_tables(system: System, part: Part) -> Sequence[Table]:
    """The tables that the components' patterns use; those of the system where it runs as a whole."""
    from holdfast.reports.examples import example_of

    if None in part.components:
        return system.tables
    patterns = [each for name in part.components if name for each in system.component(name).patterns]
    used = {name for each in patterns for name in example_of(each).tables}
    return [table for table in system.tables if table.name in used]


def _version(system: System) -> str:
    """That of the distribution which announces the system; ours where none does."""
    from holdfast.model.system import ENTRY_POINTS

    found = [point.dist for point in entry_points(group=ENTRY_POINTS, name=system.name)]
    return found[0].version if found and found[0] is not None else __version__


def _told_components(part: Part) -> str:
    from holdfast.cli.parts import API_COMPONENT

    names = [each.component for each in part.routes]
    if None in names:
        return f"the whole system (it declares no component {API_COMPONENT})"
    return f"the component{'s' if len(names) > 1 else ''} {', '.join(str(name) for name in names)}"


# --- without one --------------------------------------------------------------------------------------------


async def _work(system: System, stores: Stores, part: Part) -> None:
    """Works until a signal, and then to the end of what is in hand. A second signal breaks that off."""
    from holdfast.cli.parts import told_work
    from holdfast.runtime import Work
    from holdfast.runtime.settling import settle

    work, loop = Work(stores, part.workers), asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for each in signals:
        loop.add_signal_handler(each, work.stop)
    try:
        await _prepare(system, stores)
        async with work:
            is_ready = await work.ready()
            settle()
            for worker in part.workers if is_ready else ():
                typer.echo(told_work(system, worker))
            await work.ended()
    finally:
        for each in signals:
            loop.remove_signal_handler(each)


def _write_sample(system: System, stores: Stores) -> None:
    from holdfast.cli.showing import Screen
    from holdfast.cli.stories.systems import fill

    async def write() -> None:
        await fill(system, stores, Screen(stderr=True, highlight=False))

    asyncio.run(write())


# --- outside parties ----------------------------------------------------------------------------------------


def _serve_sandbox(system: System, name: str, settings: Settings, port: int) -> None:
    """A stand-in listens on this machine alone: nobody is meant to take it for the party itself."""
    if name not in system.sandboxes:
        known = ", ".join(system.sandboxes) or "none"
        raise NotFound(f"{system.name} has no sandbox {name!r}: it has {known}.")
    require("run", "api")
    from holdfast.web import serve
    from holdfast.web.serving import LOOPBACK

    serve(
        sandbox_app(system, name, settings),
        host=LOOPBACK,
        port=port,
        on_ready=lambda url: typer.echo(
            f"{name} of {system.title or system.name} is stood in for at {url}: a sandbox, not the party itself"
        ),
    )


def sandbox_app(system: System, name: str, settings: Settings) -> Any:
    """The app of a stand-in, given what its maker asks for: the `clock`, a `folder` to keep its ledger in."""
    make = system.sandboxes[name]
    asked = inspect.signature(make).parameters
    given: dict[str, Any] = {}
    if "clock" in asked:
        given["clock"] = settings.clock
    if "folder" in asked:
        given["folder"] = settings.queues_file.parent / "sandboxes" / system.name
        given["folder"].mkdir(parents=True, exist_ok=True)
    return make(**given)
