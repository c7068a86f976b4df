"""Dependencies of a booking's steps: the embedding, the planner, the portal, the settings.

Opened once per process (`open_dependencies`); each step gets them as `context.tools`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter

from holdfast import Stores
from holdfast.core.errors import SettingsError
from holdfast.flows import StepContext
from tripcortex.directory.approvers import find_employee_level as find_employee_level_in_directory
from tripcortex.domain.planner.ports import Planner
from tripcortex.integrations.ai_models import open_embedding, open_planner
from tripcortex.integrations.portal.circuit import GuardedPortal, build_breaker
from tripcortex.integrations.portal.client import open_portal
from tripcortex.integrations.portal.ports import Portal
from tripcortex.model.entities import Booking, EmployeeId
from tripcortex.policies.embedding import Embedding
from tripcortex.settings import TripCortexSettings

# Returns the employee's level in the policy's words, or None if it is unknown.
LevelLookup = Callable[[Stores, EmployeeId], Awaitable[str | None]]


async def find_no_level(stores: Stores, employee_id: EmployeeId) -> str | None:
    """Return None: without a directory of employees no level is known."""
    return None


@dataclass(frozen=True)
class Dependencies:
    """The dependencies of the steps."""

    settings: TripCortexSettings
    embedding: Embedding
    planner: Planner
    # The circuit breaker admits every call and records its outcome.
    portal: Portal
    find_level: LevelLookup = find_no_level


@dataclass(frozen=True)
class Stopwatch:
    """The elapsed time of a step, for its audit entry."""

    started_at: float

    @property
    def ms(self) -> int:
        """Return the milliseconds since the start."""
        return round(1000 * (perf_counter() - self.started_at))


def start_stopwatch() -> Stopwatch:
    """Start a stopwatch."""
    return Stopwatch(perf_counter())


def get_dependencies(context: StepContext[Booking]) -> Dependencies:
    """Return the dependencies of a step. Raise `SettingsError` if the worker did not open them."""
    tools = context.tools
    if not isinstance(tools, Dependencies):
        raise SettingsError(
            "The steps of a booking need their dependencies: run them in the component `workflow`."
        )
    return tools


async def find_employee_level(context: StepContext[Booking]) -> str | None:
    """Return the level of the booking's employee in the policy's words, or None if it is unknown."""
    return await get_dependencies(context).find_level(context.stores, context.item.employee_id)


@asynccontextmanager
async def open_dependencies(stores: Stores) -> AsyncIterator[Dependencies]:
    """Open the dependencies from the settings; close the portal's client on exit."""
    settings = TripCortexSettings.load()
    breaker = build_breaker(failures=settings.circuit_threshold, recovery_s=settings.circuit_recovery_s)
    async with open_portal(stores.clock) as portal:
        yield Dependencies(
            settings=settings,
            embedding=open_embedding(settings),
            planner=open_planner(settings),
            portal=GuardedPortal(stores, portal, breaker),
            find_level=find_employee_level_in_directory,
        )
