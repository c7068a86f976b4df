"""`holdfast up`: everything that can be run from here, each in a process of its own.

The DynamoDB endpoint, of every system (or of those that are named) its API and each further component that answers or
works (one process for all that name the same), and a sandbox for each outside party whose address nobody has set. All are children of this process: `holdfast
serve` and `holdfast run SYSTEM`. Each says where it answers. They live and end together; a worker that dies is started
again. When all have begun, a line says so. A system that lacks an extra is found out before anything starts, and left out.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.cli.choosing import chosen_systems
from holdfast.cli.extras import all_extras, require
from holdfast.cli.parts import (
    API_COMPONENT,
    Process,
    part_of,
    party_variable,
    processes_of,
    sandboxes_wanted,
)
from holdfast.cli.supervision import Child, supervise
from holdfast.errors import HoldfastError, SettingsError
from holdfast.settings import PORT_MAX, Settings, variable_of

if TYPE_CHECKING:
    from holdfast.model.system import System

COMMAND = (sys.executable, "-m", "holdfast")
# Of systems that keep nothing without one, where the settings name none: what is started here is for trying things out.
ENVIRONMENT = "dev"
API_OF = "The API of "


def up(
    systems: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SYSTEM]...", help="Only these; all that are installed if none is named."),
    ] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Write the systems' sample data first, to have something to ask.")
    ] = False,
) -> None:
    """Start the DynamoDB endpoint, and the API, the workers and the sandboxes of every installed system."""
    require("up", "serve", "api")
    settings = Settings.load()
    chosen = _chosen(systems or [], settings)
    children = _children(settings, chosen, sample)
    if not children:
        raise SettingsError(
            f"There is nothing to start: the tables are at {settings.tables}, and no installed system has an API or works."
        )
    if settings.tables_in_memory:
        typer.echo("The tables are in memory: each process has its own, gone when it stops.")
    for system in chosen:
        if _wants_environment(system, settings):
            typer.echo(
                f"{system.title or system.name} runs in the environment {ENVIRONMENT}. For its commands, in another terminal: "
                f"export {variable_of('environment')}={ENVIRONMENT}"
            )
        if not processes_of(system):
            typer.echo(f"{system.title or system.name} has no API to start, and nothing to work on.")
    ended = asyncio.run(
        supervise(
            children,
            tell=lambda line: typer.echo(line, err=True),
            on_ready=lambda: typer.echo(_ready(children)),
        )
    )
    if ended is not None:
        raise HoldfastError(f"{ended} The others were stopped too.")


def _ready(children: Sequence[Child]) -> str:
    apis = [f", {each.name.removeprefix(API_OF)} at {each.url}" for each in children if each.url]
    return f"Ready: {len(children)} processes are up{''.join(apis)}. Ctrl-C ends them."


def _chosen(names: Sequence[str], settings: Settings) -> list[System]:
    """Those that are named, each once; all that have what they need, if none is."""
    wanted = dict.fromkeys(names) if names else (None,)
    return [each for name in wanted for each in chosen_systems(name, partial(all_extras, settings))]


def _children(settings: Settings, systems: Sequence[System], sample: bool = False) -> list[Child]:
    """Ports are counted up over the first processes of all systems, which are their APIs, then over the others, then
    over the sandboxes.
    """
    ports = _Ports(settings.api_port)
    # Stable: within a place, the order is that of the systems.
    runs = sorted(
        ((place, system, each) for system in systems for place, each in enumerate(processes_of(system))),
        key=lambda run: min(run[0], 1),
    )
    numbers = [_port(ports, system, place) for place, system, _ in runs]
    stood_in = [
        (system, name, ports.next_known(system)) for system in systems for name in sandboxes_wanted(system)
    ]
    children = [Child("The DynamoDB endpoint", (*COMMAND, "serve"))] if settings.tables_embedded else []
    children += [_sandbox(system, name, port) for system, name, port in stood_in]
    own = {
        system.name: _url(port) for (place, system, _), port in zip(runs, numbers, strict=True) if place == 0
    }
    for (place, system, process), port in zip(runs, numbers, strict=True):
        parties = {name: _url(at) for each, name, at in stood_in if each is system}
        known = _sandbox_variables(system, parties, own[system.name])
        if _wants_environment(system, settings):
            known[variable_of("environment")] = ENVIRONMENT
        children.append(_process(system, process, port, known, sample and place == 0))
    return children


def _port(ports: _Ports, system: System, place: int) -> int:
    """That of its first process is known beforehand where stand-ins are to be told it."""
    return ports.next_known(system) if place == 0 and system.sandbox_variables else ports.next(system)


def _sandbox_variables(system: System, parties: Mapping[str, str], own: str) -> dict[str, str]:
    """Where the stand-ins are, and what the system needs to go with them; what is set stays as it is."""
    known = {party_variable(system, name): url for name, url in parties.items()}
    if parties and system.sandbox_variables is not None:
        known |= system.sandbox_variables(parties, own)
    return {name: value for name, value in known.items() if not os.environ.get(name)}


def _wants_environment(system: System, settings: Settings) -> bool:
    return system.needs_environment and not settings.environment and not settings.tables_in_memory


def _process(system: System, process: Process, port: int, variables: dict[str, str], sample: bool) -> Child:
    answers = bool(part_of(system, *process.components).routes)
    chosen = [word for each in process.components for word in ("--component", each)]
    told = _told(system, process, answers)
    return Child(
        told,
        (*COMMAND, "run", system.name, *chosen, "--port", str(port), *(["--sample"] if sample else [])),
        variables,
        restarts=not answers,
        url=_url(port) if port and told.startswith(API_OF) else "",
    )


def _told(system: System, process: Process, answers: bool) -> str:
    title = system.title or system.name
    if answers and (not process.components or API_COMPONENT in process.components):
        return f"{API_OF}{title}"
    if not process.components:
        return f"The work of {title}"
    if process.name:
        return f"The process {process.name} of {title} ({', '.join(process.components)})"
    return f"The component {process.components[0]} of {title}"


def _sandbox(system: System, name: str, port: int) -> Child:
    words = (*COMMAND, "run", system.name, "--sandbox", name, "--port", str(port))
    return Child(f"The sandbox {name} of {system.title or system.name}", words)


def _url(port: int) -> str:
    return f"http://127.0.0.1:{port}"


class _Ports:
    """One after the other from the setting on; where that is 0, free ones."""

    def __init__(self, first: int) -> None:
        self._first, self._given = first, 0

    def next(self, system: System) -> int:
        """0 leaves the choice to the process itself."""
        port = self._first + self._given if self._first else 0
        self._given += 1
        if port > PORT_MAX:
            raise SettingsError(
                f"api_port = {self._first} leaves no port for {system.name}, which is number {self._given}: "
                "choose a lower one."
            )
        return port

    def next_known(self, system: System) -> int:
        """One that others can be told before the process is there."""
        port = self.next(system)
        if port:
            return port
        with socket.create_server(("127.0.0.1", 0)) as free:
            found: int = free.getsockname()[1]
        return found
