"""`holdfast up`: start the DynamoDB endpoint, the systems and the console, each part in its own process.

For every system (or the named ones) it starts the API and each further component with routes or work, one
process for all components that name the same; and a sandbox for each external service whose address is not
set. All are children of this process: `holdfast serve`, `holdfast run SYSTEM` and `holdfast console`. Each
prints its address. They run and stop together; one that dies is restarted. A line says when all are ready. A
system with a missing extra is skipped before anything starts. There is no console without its extra, over
tables in memory, or in production without users.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.arguments.credentials import read_credentials
from holdfast.cli.arguments.system_names import select_systems
from holdfast.cli.extras import get_all_extras, has_extras, require_extras
from holdfast.cli.processes.production import (
    list_console_problems,
    list_demo_problems,
    list_endpoint_problems,
    list_system_problems,
    require_production_settings,
)
from holdfast.cli.processes.supervisor import ChildProcess, supervise
from holdfast.cli.processes.workload import (
    API_COMPONENT,
    ProcessSpec,
    Workload,
    build_workload,
    get_address_variable,
    list_needed_sandboxes,
    plan_processes,
)
from holdfast.config.settings import Settings, get_variable_name
from holdfast.core.errors import HoldfastError, SettingsError
from holdfast.core.http.addresses import find_free_port
from holdfast.core.limits import MAX_PORT

if TYPE_CHECKING:
    from holdfast.model.system import System

COMMAND = (sys.executable, "-m", "holdfast")
# For systems that need an environment, if the settings have none: `holdfast up` is for trying things out.
DEFAULT_ENVIRONMENT = "dev"
API_NAME_PREFIX = "The API of "
CONSOLE_NAME = "The console"


def up(
    systems: Annotated[
        list[str] | None,
        typer.Argument(metavar="SYSTEM", help="The systems to start. Default: every installed system."),
    ] = None,
    sample: Annotated[bool, typer.Option("--sample", help="Write the systems' sample data first.")] = False,
    no_console: Annotated[bool, typer.Option("--no-console", help="Leave the web console out.")] = False,
) -> None:
    """Start the DynamoDB endpoint, every installed system and the console, with all workers and sandboxes."""
    require_extras("up", "serve", "api")
    settings = Settings.load()
    selected = _select_systems(systems or [], settings)
    with_console = not no_console and _can_start_console(settings)
    require_production_settings(
        settings, _list_problems(settings, selected, sample=sample, with_console=with_console)
    )
    children = _build_children(settings, selected, sample, with_console=with_console)
    if not children:
        raise SettingsError(
            f"There is nothing to start: the tables are at {settings.tables}, and no installed system has an "
            "API or workers."
        )
    if settings.has_memory_tables:
        typer.echo("The tables are in memory: each process has its own, until it stops.")
    for system in selected:
        if _should_set_environment(system, settings):
            typer.echo(
                f"{system.title or system.name} runs in the environment {DEFAULT_ENVIRONMENT}. "
                "For its commands, in another terminal: "
                f"export {get_variable_name('environment')}={DEFAULT_ENVIRONMENT}"
            )
        if not plan_processes(system):
            typer.echo(f"{system.title or system.name} has no API and no workers to start.")
    if not sample:
        _suggest_sample(settings, selected)
    ended = asyncio.run(
        supervise(
            children,
            report=lambda line: typer.echo(line, err=True),
            on_ready=lambda: typer.echo(_format_ready(children)),
        )
    )
    if ended is not None:
        raise HoldfastError(f"{ended} The other processes were stopped too.")


def _can_start_console(settings: Settings) -> bool:
    """Return whether there is a console to start: its extra is installed, it would see the same tables as the
    systems, and production has users for it.
    """
    if settings.has_memory_tables or (settings.is_production and settings.has_console_demo):
        return False
    return has_extras("console")


def _list_problems(
    settings: Settings, systems: Sequence[System], *, sample: bool, with_console: bool
) -> Iterator[str]:
    """Yield what the processes lack for production: the endpoint, every part of every system, the console."""
    if settings.has_embedded_tables:
        has_credentials = read_credentials(settings.credentials_file) is not None
        yield from list_endpoint_problems(
            settings, has_credentials=has_credentials, in_memory=settings.has_memory_tables
        )
    for system in systems:
        workload = build_workload(system) if plan_processes(system) else Workload()
        yield from list_system_problems(settings, system, workload, host=settings.api_host)
    if with_console:
        yield from list_console_problems(settings, systems)
    if sample:
        yield from list_demo_problems("--sample")


def _suggest_sample(settings: Settings, systems: Sequence[System]) -> None:
    """Print how to get sample data if the file of the tables is not created yet and a demo has a sample."""
    from holdfast.model.demo import find_working_demo

    if not settings.has_embedded_tables or settings.has_memory_tables or settings.tables_file.exists():
        return
    if names := [each.name for each in systems if find_working_demo(each).sample is not None]:
        typer.echo(f"No data yet? `holdfast up {' '.join(names)} --sample` writes sample data.")


def _format_ready(children: Sequence[ChildProcess]) -> str:
    """Return the line that says that all processes are up, with the address of each API and the console."""
    shown = [each for each in children if each.url]
    names = ["the console" if each.name == CONSOLE_NAME else each.name for each in shown]
    addresses = [
        f", {name.removeprefix(API_NAME_PREFIX)} at {each.url}"
        for name, each in zip(names, shown, strict=True)
    ]
    return f"Ready: {len(children)} processes are up{''.join(addresses)}. Press Ctrl-C to stop."


def _select_systems(names: Sequence[str], settings: Settings) -> list[System]:
    """Return the named systems, each once, or every installed system whose extras are installed."""
    unique_names = dict.fromkeys(names) if names else (None,)
    return [each for name in unique_names for each in select_systems(name, partial(get_all_extras, settings))]


def _build_children(
    settings: Settings, systems: Sequence[System], sample: bool = False, *, with_console: bool = False
) -> list[ChildProcess]:
    """Build the processes to start.

    Ports are assigned in order: the first process of each system, which is its API, then the other
    processes, then the sandboxes.
    """
    ports = _PortAllocator(settings.api_port)
    # The sort is stable: the systems keep their order.
    runs = sorted(
        (
            (position, system, each)
            for system in systems
            for position, each in enumerate(plan_processes(system))
        ),
        key=lambda run: min(run[0], 1),
    )
    numbers = [ports.next(system) for _, system, _ in runs]
    sandboxes = [
        (system, name, ports.next(system))
        for system in systems
        for name in list_needed_sandboxes(system)
        if not settings.is_production
    ]
    children = [_build_endpoint(settings, ports)] if settings.has_embedded_tables else []
    children += [_build_sandbox(system, name, port) for system, name, port in sandboxes]
    own_urls = {
        system.name: _format_url(port)
        for (position, system, _), port in zip(runs, numbers, strict=True)
        if position == 0
    }
    targets = [
        f"{system.name}={_format_url(port)}" for (_, system, _), port in zip(runs, numbers, strict=True)
    ]
    console = [_build_console(settings, ports, targets)] if with_console else []
    # Each API says where the console is.
    shared = {get_variable_name("console_url"): each.url for each in console if not settings.console_url}
    for (position, system, spec), port in zip(runs, numbers, strict=True):
        sandbox_urls = {name: _format_url(at) for each, name, at in sandboxes if each is system}
        variables = shared | _build_sandbox_variables(system, sandbox_urls, own_urls[system.name])
        if _should_set_environment(system, settings):
            variables[get_variable_name("environment")] = DEFAULT_ENVIRONMENT
        options = ("--sample",) if sample and position == 0 else ()
        # A restart keeps what the first start has written, unless that ended with the process.
        always, first = (options, ()) if settings.has_memory_tables else ((), options)
        children.append(_build_process(system, spec, port, variables, always, first))
    return children + console if children else []


def _build_endpoint(settings: Settings, ports: _PortAllocator) -> ChildProcess:
    """Return the process of the DynamoDB endpoint, which keeps its port over a restart."""
    port = () if settings.serve_port else ("--port", str(ports.find_free()))
    return ChildProcess("The DynamoDB endpoint", (*COMMAND, "serve", *port))


def _build_console(settings: Settings, ports: _PortAllocator, targets: Sequence[str]) -> ChildProcess:
    """Return the process of the console, which watches the processes at these targets (`system=url`)."""
    port = settings.console_port or ports.find_free()
    watched = {get_variable_name("console_targets"): ",".join(targets)}
    return ChildProcess(
        CONSOLE_NAME,
        (*COMMAND, "console", "--port", str(port)),
        {} if settings.console_targets else watched,
        url=settings.console_url or _format_url(port),
    )


def _build_sandbox_variables(system: System, sandbox_urls: Mapping[str, str], own_url: str) -> dict[str, str]:
    """Return the variables that point a system at its sandboxes: addresses and secrets.

    Variables that are already set are left out.
    """
    variables = {get_address_variable(system, name): url for name, url in sandbox_urls.items()}
    from holdfast.model.demo import find_working_demo

    build_more = find_working_demo(system).sandbox_variables
    if sandbox_urls and build_more is not None:
        variables |= build_more(sandbox_urls, own_url)
    return {name: value for name, value in variables.items() if not os.environ.get(name)}


def _should_set_environment(system: System, settings: Settings) -> bool:
    """Return True if the system needs an environment, the settings have none, and the tables are not in
    memory.
    """
    return system.deployment.needs_environment and not settings.environment and not settings.has_memory_tables


def _build_process(
    system: System,
    spec: ProcessSpec,
    port: int,
    variables: dict[str, str],
    options: tuple[str, ...],
    first_options: tuple[str, ...],
) -> ChildProcess:
    """Return the `holdfast run` process of some components, with these options on every or the first
    start.
    """
    has_routes = bool(build_workload(system, *spec.components).routes)
    components = [word for each in spec.components for word in ("--component", each)]
    name = _name_process(system, spec, has_routes)
    return ChildProcess(
        name,
        (*COMMAND, "run", system.name, *components, "--port", str(port), *options),
        variables,
        first_options=first_options,
        url=_format_url(port) if name.startswith(API_NAME_PREFIX) else "",
    )


def _name_process(system: System, spec: ProcessSpec, has_routes: bool) -> str:
    """Return the process's name for people: the API, the worker, a shared process, or a component."""
    title = system.title or system.name
    if has_routes and (not spec.components or API_COMPONENT in spec.components):
        return f"{API_NAME_PREFIX}{title}"
    if not spec.components:
        return f"The worker of {title}"
    if spec.name:
        return f"The process {spec.name} of {title} ({', '.join(spec.components)})"
    return f"The component {spec.components[0]} of {title}"


def _build_sandbox(system: System, name: str, port: int) -> ChildProcess:
    words = (*COMMAND, "run", system.name, "--sandbox", name, "--port", str(port))
    return ChildProcess(f"The sandbox {name} of {system.title or system.name}", words)


def _format_url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


class _PortAllocator:
    """Ports in order from the setting `api_port`, or free ones if that is 0.

    Each is known before its process starts: others are given it, and a restart takes it again.
    """

    def __init__(self, first: int) -> None:
        self._first, self._count = first, 0
        self._found: set[int] = set()

    def next(self, system: System) -> int:
        """Return the port of the next process. Raise `SettingsError` if there is none left."""
        self._count += 1
        if not self._first:
            return self.find_free()
        port = self._first + self._count - 1
        if port > MAX_PORT:
            raise SettingsError(
                f"Invalid api_port={self._first}: there is no port left for process {self._count}, of "
                f"{system.name}. Set a lower one."
            )
        return port

    def find_free(self) -> int:
        """Return a free port that it has not returned before."""
        while (port := find_free_port()) in self._found:
            pass
        self._found.add(port)
        return port
