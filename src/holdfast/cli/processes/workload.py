"""Decide which routes and workers of a system each process of `holdfast run` and `holdfast up` runs.

`build_workload` serves `holdfast run`. `plan_processes` serves `holdfast up`: one process for each component
that has routes or works, and one for all components that name the same process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import SettingsError

if TYPE_CHECKING:
    from holdfast.model.components import Component
    from holdfast.model.system import System

# The system's own routes run as this component, if the system declares it.
API_COMPONENT: Final = "api"


@dataclass(frozen=True)
class ComponentRoutes:
    """A factory of routes and the component they run as; None is the whole system.

    If `has_own_authentication`, the routes authenticate their callers themselves and need no token.
    """

    component: str | None
    build: Callable[..., Any]
    has_own_authentication: bool = False


@dataclass(frozen=True)
class Workload:
    """The routes and workers that one process runs."""

    routes: tuple[ComponentRoutes, ...] = ()
    workers: tuple[Component, ...] = ()

    @property
    def components(self) -> tuple[str | None, ...]:
        """The names of the components of the routes and workers, each once; None means the whole system."""
        return tuple(
            dict.fromkeys([*(each.component for each in self.routes), *(each.name for each in self.workers)])
        )


@dataclass(frozen=True)
class ProcessSpec:
    """A process that `holdfast up` starts: some components, or the whole system if there are none."""

    components: tuple[str, ...] = ()
    # The shared process name, if there are several components.
    name: str = ""


def build_workload(system: System, *components: str) -> Workload:
    """Return the routes and workers of these components, or of the whole system if there are none.

    Raise `SettingsError` if there is nothing to run.
    """
    if not components:
        return _build_system_workload(system)
    workloads = [
        _build_component_workload(system, system.get_component(each)) for each in dict.fromkeys(components)
    ]
    return Workload(
        tuple(routes for workload in workloads for routes in workload.routes),
        tuple(worker for workload in workloads for worker in workload.workers),
    )


def plan_processes(system: System) -> list[ProcessSpec]:
    """Return the processes of a system: its API first, then in the order of its components.

    The list is empty if nothing runs, and has one process for the whole system if its parts cannot be
    separated.
    """
    own = [each for each in system.components if each.routes is not None or each.has_work]
    named = {each.name: each.process or each.name for each in own}
    if system.http.routes is not None and API_COMPONENT not in named:
        named = {API_COMPONENT: API_COMPONENT, **named}
    shared: dict[str, list[str]] = {}
    for component, process in named.items():
        shared.setdefault(process, []).append(component)
    if not shared:
        return []
    # Routes that run as the whole system cannot be separated from its components.
    if len(shared) == 1 or (system.http.routes is not None and not _declares_api(system)):
        return [ProcessSpec()]
    return [
        ProcessSpec(tuple(components), process if len(components) > 1 else "")
        for process, components in shared.items()
    ]


def describe_worker(system: System, component: Component) -> str:
    """Describe a worker in a line: `richpanel worker consumes rp_mw_events and runs sweep every 60 s`."""
    tasks = []
    if component.consumers:
        tasks.append(f"consumes {', '.join(each.name for each in component.consumers)}")
    if component.schedules:
        tasks.append(
            f"runs {', '.join(f'{each.name} every {each.every_s:g} s' for each in component.schedules)}"
        )
    return f"{system.name} {component.name} {' and '.join(tasks)}"


def get_address_variable(system: System, sandbox: str) -> str:
    """Return the environment variable with the address of an external service: `RICHPANEL_HELPDESK_URL`."""
    return re.sub(r"[^A-Z0-9]+", "_", f"{system.name}_{sandbox}_url".upper())


def list_needed_sandboxes(system: System) -> list[str]:
    """Return the sandboxes to start: those of the external services whose address is not set."""
    from holdfast.model.demo import find_working_demo

    sandboxes = find_working_demo(system).sandboxes
    return [name for name in sandboxes if not os.environ.get(get_address_variable(system, name))]


def _build_component_workload(system: System, component: Component) -> Workload:
    """Return the component's own routes and work.

    The component `api`, and one without routes and work, runs the system's routes. Raise `SettingsError` if
    there is nothing to run.
    """
    make = component.routes
    if make is None and (component.name == API_COMPONENT or not component.has_work):
        make = system.http.routes
    if make is None and not component.has_work:
        raise SettingsError(
            f"The component {component.name} of {system.name} has nothing to run: it declares no routes, "
            "no consumers and no schedules."
        )
    routes = (
        () if make is None else (ComponentRoutes(component.name, make, component.has_own_authentication),)
    )
    return Workload(routes, (component,) if component.has_work else ())


def _build_system_workload(system: System) -> Workload:
    """Return all routes and workers of the system. Raise `SettingsError` if there are none.

    The system's own routes run as the component `api` if the system declares it.
    """
    routes = [
        ComponentRoutes(each.name, each.routes, each.has_own_authentication)
        for each in system.components
        if each.routes is not None
    ]
    if system.http.routes is not None and API_COMPONENT not in [each.component for each in routes]:
        routes.insert(
            0, ComponentRoutes(API_COMPONENT if _declares_api(system) else None, system.http.routes)
        )
    workers = tuple(each for each in system.components if each.has_work)
    if not routes and not workers:
        raise SettingsError(
            f"{system.name} has nothing to run: neither the System nor a component declares routes, and no "
            "component declares consumers or schedules."
        )
    return Workload(tuple(routes), workers)


def _declares_api(system: System) -> bool:
    return any(each.name == API_COMPONENT for each in system.components)
