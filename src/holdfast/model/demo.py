"""`Demo`: the sample data, the story and the sandboxes of a system, and how hosts find them.

A demo is not part of its system, so that an installation for production need not have it. Hosts find it by
the entry point group `holdfast.demos`, under the system's name. A system that is distributed with its demo
may declare it directly: `System(demo=Demo(…))`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, Final

from holdfast.core import installed_systems
from holdfast.core.errors import DeclarationError

if TYPE_CHECKING:
    from holdfast.model.system import System

__all__ = [
    "Demo",
    "find_demo",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Demo:
    """The sample data, the story and the sandboxes that show a system without real data or real services."""

    # Writes the sample data and returns the number of rows: called with stores, scale= and progress=, a
    # callback that takes a label, the rows written and the total.
    sample: Callable[..., Awaitable[Any]] | None = None
    # Runs the story: called with stores and a console to print to.
    story: Callable[..., Awaitable[Any]] | None = None
    # Local stand-ins for external services, by service name: each builds an HTTP app. A parameter `clock`
    # receives the clock of the settings, a parameter `folder` a directory for the ledger.
    sandboxes: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    # Environment variables for the system's processes while sandboxes run, unless already set: called with
    # each sandbox's address by service name, and with the system's own address.
    sandbox_variables: Callable[[Mapping[str, str], str], Mapping[str, str]] | None = None
    # Runs in each process after the system's own `on_startup`. Must be idempotent, safe to run concurrently,
    # and do nothing where no sandbox is used.
    on_startup: Callable[..., Awaitable[None]] | None = None


NO_DEMO: Final = Demo()


def find_demo(system: System) -> Demo:
    """Return the demo that the system declares or that is registered for it; an empty one if there is none.

    Raise `DeclarationError` if a registered demo fails to load.
    """
    if system.demo is not None:
        return system.demo
    point = installed_systems.find_entry_points(installed_systems.DEMO_ENTRY_POINT_GROUP).get(system.name)
    return _load_entry_point(point) if point is not None else NO_DEMO


def find_working_demo(system: System) -> Demo:
    """Return the system's demo; log a warning and return an empty one if it fails to load.

    For hosts that do their work without a demo too: a broken one must not stop them.
    """
    try:
        return find_demo(system)
    except DeclarationError as error:
        log.warning("Continuing without the demo of %s. %s", system.name, error.message)
        return NO_DEMO


def _load_entry_point(point: EntryPoint) -> Demo:
    """Load the demo of an entry point; raise `DeclarationError` if that fails or it is not a `Demo`."""
    try:
        demo = point.load()
    except (Exception, SystemExit) as error:
        raise DeclarationError(
            f"Loading the demo of {point.name} ({point.value}) failed: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(demo, Demo):
        raise DeclarationError(f"Invalid entry point {point.name} ({point.value}): expected a Demo.")
    return demo
