"""`holdfast run`: run a system's HTTP API, consumers and schedules, or only some of its components.

With `--sandbox`, it serves the sandbox of an external service instead.
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
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast import __version__
from holdfast.cli.commands.serve import parse_port
from holdfast.cli.extras import describe_missing_demo, get_engine_extras, require_extras
from holdfast.config.settings import Settings
from holdfast.core.disk import make_private_folder
from holdfast.core.errors import AccessRefused, NotFound
from holdfast.core.logs import set_component, setup_logs

if TYPE_CHECKING:
    from fastapi import APIRouter, FastAPI

    from holdfast.cli.processes.workload import Workload
    from holdfast.model.system import System
    from holdfast.model.tables import Table
    from holdfast.runtime.stores import Stores

log = logging.getLogger(__name__)


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
) -> None:
    """Run a system: its HTTP API, consumers and schedules. It creates missing tables, queues and buckets."""
    from holdfast.cli.arguments.system_names import select_systems
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
    if sandbox is not None:
        _serve_sandbox(found, sandbox, settings, settings.api_port if port is None else port)
        return
    workload = build_workload(found, *named)
    # Without routes, --port serves health and metrics.
    serves = bool(workload.routes) or port is not None
    if serves:
        require_extras("run", "api")
    from holdfast.runtime import open_stores

    stores = open_stores(found, settings)
    try:
        if sample:
            _write_sample(found, stores)
        if serves:
            _serve(found, stores, workload, settings, host, settings.api_port if port is None else port)
        else:
            asyncio.run(_work_until_signal(found, stores, workload))
    finally:
        asyncio.run(stores.close())


# --- with an HTTP server ------------------------------------------------------------------------------------


def _serve(
    system: System, stores: Stores, workload: Workload, settings: Settings, host: str | None, port: int
) -> None:
    """Serve the workload over HTTP and run its workers in the same process, until a signal."""
    from holdfast.cli.processes.workload import describe_worker
    from holdfast.web import serve

    def ready(url: str) -> None:
        title = system.title or system.name
        lines = [f"{title} answers at {url} as {_describe_components(workload)}"] if workload.routes else []
        suffix = "" if workload.routes else f"; health and metrics at {url}"
        lines += [describe_worker(system, worker) + suffix for worker in workload.workers]
        # In one write: `holdfast up` takes the first output as the sign that the process is ready.
        typer.echo("\n".join(lines))

    serve(
        build_app(
            system,
            stores,
            workload,
            token=settings.api_token,
            # The server shuts down as after a signal; the failure is raised afterwards.
            on_workers_ended=lambda: signal.raise_signal(signal.SIGTERM),
        ),
        host=settings.api_host if host is None else host,
        port=port,
        on_ready=ready,
        may_be_remote=bool(settings.api_token)
        or all(each.has_own_authentication for each in workload.routes),
    )


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
    on_workers_ended: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Build the app of a workload. Its workers run as long as the app lives. The stores stay open.

    `on_workers_ended` is called if the workers end before the app does.
    """
    from holdfast.runtime.telemetry.metrics import open_metrics
    from holdfast.web import make_app

    metrics = open_metrics(stores)

    @asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        await _provision(system, stores)
        metrics.attach_loop(asyncio.get_running_loop())
        async with _run_workers(stores, workload, on_workers_ended):
            yield

    app = make_app(
        system.title or system.name,
        _get_version(system),
        _build_routers(stores, workload, self_authenticated=False),
        self_authenticated=_build_routers(stores, workload, self_authenticated=True),
        lifespan=lifespan,
        check=_build_health_check(stores, _list_own_tables(system, workload)),
        metrics=metrics.render,
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


async def _provision(system: System, stores: Stores) -> None:
    """Create missing resources, log a warning for each that could not be changed and for each missing index,
    and run the `on_startup` of the system and of its demo.
    """
    from holdfast.model.demo import find_working_demo
    from holdfast.runtime import provision

    for name, refused in (await provision(stores, system)).items():
        log.warning("The %s is used unchanged: %s", name, refused)
    await _warn_of_missing_indexes(system, stores)
    for on_startup in (system.deployment.on_startup, find_working_demo(system).on_startup):
        if on_startup is not None:
            await on_startup(stores)


async def _warn_of_missing_indexes(system: System, stores: Stores) -> None:
    """Log a warning for each declared index that an older table lacks, unless it is optional."""
    from holdfast.runtime import get_index_reports

    for table in system.tables:
        try:
            reports = await get_index_reports(stores, [table])
        except AccessRefused:
            continue  # `provision` has reported it
        wanted = {index.name for index in table.global_indexes if index.default}
        for report in reports:
            if report.status == "ABSENT" and report.index in wanted:
                log.warning(
                    "The table %s lacks the index %s: `holdfast indexes add %s` adds it.",
                    stores.physical_name(table),
                    report.index,
                    system.name,
                )


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


def _build_health_check(stores: Stores, tables: Sequence[Table]) -> Callable[[], Awaitable[None]]:
    """Build a check that describes the first of these tables: every component may do so.

    It raises if the table is gone or the store does not answer; a refused permission is healthy.
    """
    from holdfast.core.errors import DeclarationError
    from holdfast.runtime import describe_table
    from holdfast.runtime.table_provisioner import ACCESS_DENIED

    async def check() -> None:
        for table in tables[:1]:
            try:
                found = await describe_table(stores, table)
            except AccessRefused as refused:
                # The service answers and knows the caller: healthy, although it may not describe tables.
                if refused.code != ACCESS_DENIED:
                    raise
            else:
                if found is None:
                    raise DeclarationError(f"The table {stores.physical_name(table)} no longer exists.")

    return check


def _list_own_tables(system: System, workload: Workload) -> Sequence[Table]:
    """Return the tables that the components' patterns use, or all tables if the whole system runs."""
    from holdfast.reports.examples import build_example

    if None in workload.components:
        return system.tables
    patterns = [each for name in workload.components if name for each in system.get_component(name).patterns]
    used = {name for each in patterns for name in build_example(each).tables}
    return [table for table in system.tables if table.name in used]


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
    from holdfast.runtime import WorkerGroup

    work, loop = WorkerGroup(stores, workload.workers), asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for each in signals:
        loop.add_signal_handler(each, work.stop)
    try:
        await _provision(system, stores)
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
    from holdfast.web import serve

    serve(
        build_sandbox_app(system, name, settings),
        host=LOOPBACK,
        port=port,
        on_ready=lambda url: typer.echo(
            f"The sandbox {name} of {system.title or system.name} answers at {url}; it is not the real "
            "service"
        ),
    )


def build_sandbox_app(system: System, name: str, settings: Settings) -> Any:
    """Build the app of a sandbox.

    Its factory may have parameters `clock`, and `folder` to keep its ledger in; the folder is created.
    """
    from holdfast.model.demo import find_demo

    make = find_demo(system).sandboxes[name]
    parameters = inspect.signature(make).parameters
    arguments: dict[str, Any] = {}
    if "clock" in parameters:
        arguments["clock"] = settings.clock
    if "folder" in parameters:
        arguments["folder"] = settings.queues_file.parent / "sandboxes" / system.name
        make_private_folder(arguments["folder"])
    return make(**arguments)
