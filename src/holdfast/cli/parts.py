"""What one process runs of a system: routes, each as a component, and components that work off queues and schedules.

`part_of` answers `holdfast run`, `processes_of` tells `holdfast up` into which processes a system falls: one for each
component that answers or works, and one for all that name the same process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from holdfast.errors import SettingsError
from holdfast.model.system import Component, System

# As which component the system's own routes run, where it is declared.
API_COMPONENT: Final = "api"


@dataclass(frozen=True)
class Routes:
    """What makes routes, and as which component they run; None is the whole system.

    Where `is_signed`, every call proves who makes it, and no token is asked for.
    """

    component: str | None
    make: Callable[..., Any]
    is_signed: bool = False


@dataclass(frozen=True)
class Part:
    """What a process runs."""

    routes: tuple[Routes, ...] = ()
    workers: tuple[Component, ...] = ()

    @property
    def components(self) -> tuple[str | None, ...]:
        return tuple(
            dict.fromkeys([*(each.component for each in self.routes), *(each.name for each in self.workers)])
        )


@dataclass(frozen=True)
class Process:
    """What `holdfast up` starts as one: these components, or without any the whole system."""

    components: tuple[str, ...] = ()
    # What those are called together, where it is not one alone.
    name: str = ""


def part_of(system: System, *named: str) -> Part:
    """Of components: their routes and their work. Of none: everything that the system has."""
    if not named:
        return _whole(system)
    parts = [_of_component(system, system.component(each)) for each in dict.fromkeys(named)]
    return Part(
        tuple(routes for part in parts for routes in part.routes),
        tuple(worker for part in parts for worker in part.workers),
    )


def processes_of(system: System) -> list[Process]:
    """Those that a system falls into: its API first, then by the order of its components."""
    own = [each for each in system.components if each.routes is not None or each.works]
    named = {each.name: each.process or each.name for each in own}
    if system.routes is not None and API_COMPONENT not in named:
        named = {API_COMPONENT: API_COMPONENT, **named}
    shared: dict[str, list[str]] = {}
    for component, process in named.items():
        shared.setdefault(process, []).append(component)
    if not shared:
        return []
    # Routes that run as the whole system cannot be told from the rest of it.
    if len(shared) == 1 or (system.routes is not None and not _declares_api(system)):
        return [Process()]
    return [
        Process(tuple(components), process if len(components) > 1 else "")
        for process, components in shared.items()
    ]


def told_work(system: System, component: Component) -> str:
    """`richpanel worker works off rp_mw_events, and does sweep every 60 s`."""
    does = []
    if component.consumers:
        does.append(f"works off {', '.join(each.name for each in component.consumers)}")
    if component.schedules:
        does.append(
            f"does {', '.join(f'{each.name} every {each.every_s:g} s' for each in component.schedules)}"
        )
    return f"{system.name} {component.name} {', and '.join(does)}"


def party_variable(system: System, sandbox: str) -> str:
    """The variable that has the address of an outside party: `RICHPANEL_HELPDESK_URL`."""
    return re.sub(r"[^A-Z0-9]+", "_", f"{system.name}_{sandbox}_url".upper())


def sandboxes_wanted(system: System) -> list[str]:
    """The outside parties that must be stood in for, because nobody says where they are."""
    return [name for name in system.sandboxes if not os.environ.get(party_variable(system, name))]


def _of_component(system: System, component: Component) -> Part:
    """Where a component has nothing of its own to run, it is one to run the system's routes as."""
    make = component.routes
    if make is None and (component.name == API_COMPONENT or not component.works):
        make = system.routes
    if make is None and not component.works:
        raise SettingsError(
            f"The component {component.name} of {system.name} has nothing to run: it declares no routes, no consumers and "
            "no schedules."
        )
    routes = () if make is None else (Routes(component.name, make, component.is_signed),)
    return Part(routes, (component,) if component.works else ())


def _whole(system: System) -> Part:
    routes = [
        Routes(each.name, each.routes, each.is_signed)
        for each in system.components
        if each.routes is not None
    ]
    if system.routes is not None and API_COMPONENT not in [each.component for each in routes]:
        routes.insert(0, Routes(API_COMPONENT if _declares_api(system) else None, system.routes))
    workers = tuple(each for each in system.components if each.works)
    if not routes and not workers:
        raise SettingsError(
            f"{system.name} has no HTTP API: its System names no `routes`, and none of its components has routes, "
            "consumers or schedules."
        )
    return Part(tuple(routes), workers)


def _declares_api(system: System) -> bool:
    return any(each.name == API_COMPONENT for each in system.components)
