"""`Console`: what every page of the console works with, and how a request finds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, cast

from holdfast.config.settings import Settings
from holdfast.console.accounts import Accounts
from holdfast.console.costs.measurements import Measurements
from holdfast.console.live import LiveUpdates
from holdfast.console.overview.history import SampleHistory
from holdfast.console.rendering import Renderer
from holdfast.console.system_pages import OpenQuestions, SystemPages
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import NotFound
from holdfast.model.system import System
from holdfast.runtime.stores import Stores

with explain_missing(__name__, "console"):
    from fastapi import Depends
    from starlette.requests import Request

__all__ = ["Console", "CurrentConsole", "build_missing_system", "get_console"]


@dataclass(frozen=True, eq=False)
class Console:
    """The systems that the console shows, their stores, and its own.

    `own` are the stores of the console's own data (`console/model.py`), `stores` those of each system by its
    name, without the limits of a component. A page that acts for a system uses a component of it.
    """

    settings: Settings
    own: Stores
    stores: Mapping[str, Stores]
    pages: Mapping[str, SystemPages]
    renderer: Renderer
    live: LiveUpdates
    accounts: Accounts
    # The installed systems that did not load, each with the reason in words.
    broken: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def history(self) -> SampleHistory:
        """The last hour of every system."""
        return SampleHistory(self.own)

    @cached_property
    def measurements(self) -> Measurements:
        """What the patterns of every system use, for the cost pages."""
        return Measurements(self.stores)

    @property
    def questions(self) -> Mapping[str, OpenQuestions]:
        """What the pages of systems ask people, by the system's name."""
        return {name: each.questions for name, each in self.pages.items() if each.questions is not None}

    @property
    def is_https(self) -> bool:
        """Whether users reach the console by TLS."""
        return self.settings.console_url.startswith("https://")

    @property
    def systems(self) -> tuple[System, ...]:
        """The shown systems."""
        return tuple(cast(System, each.system) for each in self.stores.values())

    def get_system(self, name: str) -> System:
        """Return a system by name. Raise `NotFound` if the console does not show it."""
        return cast(System, self.get_stores(name).system)

    def get_stores(self, name: str) -> Stores:
        """Return the stores of a system. Raise `NotFound` if the console does not show it."""
        if name not in self.stores:
            raise build_missing_system(name)
        return self.stores[name]


def build_missing_system(name: str) -> NotFound:
    """Return the error of a system that is not installed, and of one that the user may not see: both say the
    same.
    """
    return NotFound(f"No system {name!r} here. The overview lists the systems that you may see.")


def get_console(request: Request) -> Console:
    """Return the console of a request: a dependency of its routes."""
    state: Any = request.app.state
    return cast(Console, state.console)


CurrentConsole = Annotated[Console, Depends(get_console)]
"""A parameter of a route: the console of the request."""
