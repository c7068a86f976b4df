"""`holdfast run`: run a system's HTTP API, consumers and schedules, or only some of its components.

With `--sandbox`, it serves the sandbox of an external service instead.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import __version__
from holdfast.cli.commands.serve import parse_port
from holdfast.cli.extras import describe_missing_demo, get_engine_extras, require_extras
from holdfast.cli.usage_error import UsageError
from holdfast.config.settings import Settings
from holdfast.core.disk import make_private_folder
from holdfast.core.errors import NotFound
from holdfast.core.logs import set_component, setup_logs
from holdfast.core.readiness import DEFAULT_TIMEOUT_S, Readiness

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

    from holdfast.cli.processes.workload import Workload
    from holdfast.model.components import Component
    from holdfast.model.system import System
    from holdfast.runtime.stores import Stores


def run(
    system: Annotated[str, typer.Argument(metavar="SYSTEM", help="The system to run.")],
    component: Annotated[
        list[str] | None,
        typer.Option(
            "--component",
            metavar="C",
            help="Run only this component; repeatable.",
        ),
    ] = None,
    sandbox: Annotated[
        str | None,
        typer.Option("--sandbox", metavar="NAME", help="Serve this sandbox of an external service instead."),
    ] = None,
    host: Annotated[str | None, typer.Option("--host", help="The address to listen on.")] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", parser=parse_port, metavar="PORT", help="The port to listen on; 0 for a free one."
        ),
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Write the system's sample data first.")] = False,
    processes: Annotated[
        int,
        typer.Option("--processes", metavar="N", min=1, help="Run this many processes on one port."),
    ] = 1,
    shares_port: Annotated[
        bool,
        typer.Option("--shares-port", help="Let other processes of this user listen on the same port."),
    ] = False,
) -> None:
    """Run a system: its HTTP API, consumers and schedules. It creates missing tables, queues and buckets."""
    from holdfast.cli.arguments.system_names import select_systems
    from holdfast.cli.processes.production import (
        list_demo_problems,
        list_system_problems,
        require_production_settings,
    )
    from holdfast.cli.processes.workload import build_workload

    settings = Settings.load()
    require_extras("run", *get_engine_extras(settings))
    (found,) = select_systems(system)
    require_extras("run", *get_engine_extras(settings, found))
    named = component or []
    setup_logs(
        sys.stderr,
        redact=found.privacy.redact_logs,
        system=found.name,
        component=named[0] if len(named) == 1 else None,
        clock=settings.clock,
    )
    if processes > 1 and sandbox is not None:
        raise UsageError("--processes and --sandbox exclude each other: a sandbox is one process.")
    if sandbox is not None:
        require_production_settings(settings, list_demo_problems("--sandbox"))
        _serve_sandbox(found, sandbox, settings, settings.api_port if port is None else port)
        return
    workload = build_workload(found, *named)
    # Without routes, --port serves health and metrics.
    serves = bool(workload.routes) or port is not None
    listens_on = (settings.api_host if host is None else host) if serves else None
    require_production_settings(
        settings,
        [
            *list_system_problems(settings, found, workload, host=listens_on),
            *(list_demo_problems("--sample") if sample else ()),
        ],
    )
    if serves:
        require_extras("run", "api")
    if processes > 1:
        _run_processes(found, settings, named, processes, host, port, sample=sample)
        return
    from holdfast.runtime import open_stores

    stores = open_stores(found, settings)
    try:
        if sample:
            _write_sample(found, stores)
        if serves:
            number = settings.api_port if port is None else port
            _serve(found, stores, workload, settings, host, number, shares_port=shares_port)
        else:
            asyncio.run(_work_until_signal(found, stores, workload))
    finally:
        asyncio.run(stores.close())


def _run_processes(
    system: System,
    settings: Settings,
    components: list[str],
    processes: int,
    host: str | None,
    port: int | None,
    *,
    sample: bool,
) -> None:
    """Run several processes of the same components on one port."""
    from holdfast.cli.processes.shared_port import run_on_one_port

    options = [word for each in components for word in ("--component", each)]
    options += [] if host is None else ["--host", host]
    run_on_one_port(
        system,
        settings,
        processes=processes,
        options=options,
        first_options=("--sample",) if sample else (),
        host=host,
        port=settings.api_port if port is None else port,
    )


# --- with an HTTP server ------------------------------------------------------------------------------------


def _serve(
    system: System,
    stores: Stores,
    workload: Workload,
    settings: Settings,
    host: str | None,
    port: int,
    *,
    shares_port: bool = False,
) -> None:
    """Serve the workload over HTTP and run its workers in the same process, until a signal."""
    from holdfast.cli.processes.workload import describe_worker
    from holdfast.web import serve
    from holdfast.web.server import REMOTE_NEEDS

    def ready(url: str) -> None:
        title = system.title or system.name
        lines = [f"{title} answers at {url} as {_describe_components(workload)}"] if workload.routes else []
        suffix = "" if workload.routes else f"; health and metrics at {url}"
        lines += [describe_worker(system, worker) + suffix for worker in workload.workers]
        # In one write: `holdfast up` takes the first output as the sign that the process is ready.
        typer.echo("\n".join(lines))

    # Health and metrics of workers need the token too.
    is_authenticated = bool(settings.api_token) or (
        bool(workload.routes) and all(each.has_own_authentication for each in workload.routes)
    )
    app = build_app(
        system,
        stores,
        workload,
        token=settings.api_token,
        health_timeout_s=settings.health_timeout_s,
        # The server shuts down as after a signal; the failure is raised afterwards.
        on_workers_ended=lambda: signal.raise_signal(signal.SIGTERM),
    )
    # Where a person who opens the API in a browser is sent (`web/problems.py`).
    app.state.console_url = settings.console_url
    serve(
        app,
        host=settings.api_host if host is None else host,
        port=port,
        on_ready=ready,
        remote_needs="" if is_authenticated else REMOTE_NEEDS,
        allowed_hosts=settings.host_names,
        allowed_origins=(*settings.origins, *_list_origins(system)),
        shares_port=shares_port,
    )


def _list_origins(system: System) -> Sequence[str]:
    """Return the origins of web pages that may call the system's API, as the system itself declares."""
    return () if system.http.allowed_origins is None else system.http.allowed_origins()


def build_system_app(
    system: System, stores: Stores, *, component: str | None = None, token: str = ""
) -> FastAPI:
    """Build the app of a system, or of one of its components.

    When it starts, it provisions what is missing and runs the workers.
    """
    from holdfast.cli.processes.workload import build_workload

    named = () if component is None else (component,)
    return build_app(system, stores, build_workload(system, *named), token=token)


def build_app(
    system: System,
    stores: Stores,
    workload: Workload,
    *,
    token: str = "",
    health_timeout_s: float = DEFAULT_TIMEOUT_S,
    on_workers_ended: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Build the app of a workload. Its workers run as long as the app lives. The stores stay open.

    `health_timeout_s` limits how long /health/ready and /metrics wait for a store. `on_workers_ended` is
    called if the workers end before the app does.
    """
    from holdfast.reports.used_stores import find_used_stores
    from holdfast.runtime import start_system
    from holdfast.runtime.store_probes import build_store_probes
    from holdfast.runtime.telemetry.metrics import open_metrics
    from holdfast.web import make_app

    probes = build_store_probes(stores, find_used_stores(system, workload.components))

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        await start_system(system, stores)
        async with _run_workers(stores, workload, on_workers_ended):
            yield

    app = make_app(
        system.title or system.name,
        _get_version(system),
        _build_routers(stores, workload, self_authenticated=False),
        self_authenticated=_build_routers(stores, workload, self_authenticated=True),
        lifespan=lifespan,
        readiness=Readiness(probes, timeout_s=health_timeout_s),
        metrics=open_metrics(stores, _list_components(system, workload), timeout_s=health_timeout_s),
        token=token or None,
        max_body_bytes=system.http.max_body_bytes,
    )
    if system.http.configure_app is not None:
        system.http.configure_app(app)
    return app


def _build_routers(stores: Stores, workload: Workload, *, self_authenticated: bool) -> list[APIRouter]:
    """Build the routers whose callers sign their requests, or those whose callers do not."""
    from fastapi import APIRouter

    built: list[APIRouter] = []
    for routes in [each for each in workload.routes if each.has_own_authentication is self_authenticated]:
        view = stores if routes.component is None else stores.for_component(routes.component)
        routers = routes.build(view)
        for router in [routers] if isinstance(routers, APIRouter) else routers:
            if routes.component is not None:
                _log_requests_as(routes.component, router)
            built.append(router)
    return built


def _log_requests_as(component: str, router: APIRouter) -> None:
    """Make the routes of a router log as the component: their dependencies, endpoints and failures."""
    from fastapi.routing import APIRoute

    for route in router.routes:
        if isinstance(route, APIRoute):
            route.handle = functools.partial(_handle_as, component, route.handle)  # type: ignore[method-assign]


async def _handle_as(component: str, handle: Callable[..., Awaitable[None]], *call: Any) -> None:
    set_component(component)
    await handle(*call)


@asynccontextmanager
async def _run_workers(
    stores: Stores, workload: Workload, on_ended: Callable[[], None]
) -> AsyncIterator[None]:
    """Run the workers while the block runs. Call `on_ended` if they end before the block does."""
    from holdfast.runtime import WorkerGroup

    async with WorkerGroup(stores, workload.workers) as work:
        if not await work.wait_until_ready():
            # Leaving the block raises the error that prevented the start.
            return

        async def watch() -> None:
            await work.wait_until_stopped()
            on_ended()

        watching = asyncio.create_task(watch())
        try:
            yield
        finally:
            watching.cancel()


def _list_components(system: System, workload: Workload) -> list[Component]:
    """Return the components that the workload runs; all if it runs the whole system."""
    if None in workload.components:
        return list(system.components)
    return [system.get_component(name) for name in workload.components if name is not None]


def _get_version(system: System) -> str:
    """Return the version of the distribution that provides the system, or Holdfast's if none does."""
    from holdfast.model.system import find_distribution

    found = find_distribution(system.name)
    return found.version if found is not None else __version__


def _describe_components(workload: Workload) -> str:
    """Return the components that serve the routes, in words."""
    from holdfast.cli.processes.workload import API_COMPONENT

    names = [each.component for each in workload.routes]
    if None in names:
        return f"the whole system (it declares no component {API_COMPONENT})"
    return f"the component{'s' if len(names) > 1 else ''} {', '.join(str(name) for name in names)}"


# --- without an HTTP server ---------------------------------------------------------------------------------


async def _work_until_signal(system: System, stores: Stores, workload: Workload) -> None:
    """Run the workers until a signal, then finish the current messages. A second signal aborts them."""
    from holdfast.cli.processes.workload import describe_worker
    from holdfast.core.gc_freeze import freeze_gc
    from holdfast.runtime import WorkerGroup, start_system

    work, loop = WorkerGroup(stores, workload.workers), asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for each in signals:
        loop.add_signal_handler(each, work.stop)
    try:
        await start_system(system, stores)
        async with work:
            is_ready = await work.wait_until_ready()
            freeze_gc()
            for worker in workload.workers if is_ready else ():
                typer.echo(describe_worker(system, worker))
            await work.wait_until_stopped()
    finally:
        for each in signals:
            loop.remove_signal_handler(each)


def _write_sample(system: System, stores: Stores) -> None:
    """Write the system's sample data, with a progress bar on standard error."""
    from holdfast.cli.output.console import SafeConsole
    from holdfast.cli.stories.system_stories import write_sample

    async def write() -> None:
        await write_sample(system, stores, SafeConsole(stderr=True, highlight=False))

    asyncio.run(write())


# --- sandboxes ----------------------------------------------------------------------------------------------


def _serve_sandbox(system: System, name: str, settings: Settings, port: int) -> None:
    """Serve a sandbox on loopback only, so that it is not mistaken for the external service.

    Raise `NotFound` if the system has no sandbox of this name.
    """
    from holdfast.model.demo import find_demo

    sandboxes = find_demo(system).sandboxes
    if name not in sandboxes:
        known = f"it has {', '.join(sandboxes)}." if sandboxes else describe_missing_demo(system)
        raise NotFound(f"{system.name} has no sandbox {name!r}: {known}")
    require_extras("run", "api")
    from holdfast.core.http.server import LOOPBACK
    from holdfast.runtime.telemetry.metrics import open_process_metrics
    from holdfast.web import serve
    from holdfast.web.operation_routes import add_operation_routes

    app = build_sandbox_app(system, name, settings)
    add_operation_routes(app, open_process_metrics())
    serve(
        app,
        host=LOOPBACK,
        port=port,
        on_ready=lambda url: typer.echo(
            f"The sandbox {name} of {system.title or system.name} answers at {url}; it is not the real "
            "service"
        ),
        allowed_hosts=settings.host_names,
        allowed_origins=settings.origins,
    )


def build_sandbox_app(system: System, name: str, settings: Settings) -> Any:
    """Build the app of a sandbox.

    Its factory may have parameters `clock`, and `folder` to keep its ledger in; the folder is created. Bodies
    have the limits of an API, with room for what the system adds to them.
    """
    from holdfast.model.demo import find_demo
    from holdfast.web.app import MAX_BODY_BYTES
    from holdfast.web.middleware import BodyLimit

    make = find_demo(system).sandboxes[name]
    parameters = inspect.signature(make).parameters
    arguments: dict[str, Any] = {}
    if "clock" in parameters:
        arguments["clock"] = settings.clock
    if "folder" in parameters:
        arguments["folder"] = settings.queues_file.parent / "sandboxes" / system.name
        make_private_folder(arguments["folder"])
    app = make(**arguments)
    app.add_middleware(BodyLimit, max_bytes=2 * (system.http.max_body_bytes or MAX_BODY_BYTES))
    return app
