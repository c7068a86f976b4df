"""What one process runs of a system: routes, each as a component, and components that work off queues and schedules.

`part_of` answers `holdfast run`, `processes_of` tells `holdfast up` into which processes a system falls.
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


def part_of(system: System, named: str | None) -> Part:
    """Of one component: its routes and its work. Of none: everything that the system has."""
    return _whole(system) if named is None else _of_component(system, system.component(named))


def processes_of(system: System) -> list[str | None]:
    """The components that have a process of their own; None is the whole system in one."""
    own = [each.name for each in system.components if each.routes is not None or each.works]
    if system.routes is not None and API_COMPONENT not in own:
        own.insert(0, API_COMPONENT)
    if not own:
        return []
    # Routes that run as the whole system cannot be told from the rest of it.
    is_one = len(own) == 1 or (system.routes is not None and not _declares_api(system))
    return [None] if is_one else list(own)


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
