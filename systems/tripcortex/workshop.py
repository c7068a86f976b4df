"""What the steps of a booking work with: the embedding, the planner, the portal behind its circuit, the settings.

Opened once in a process (`working`) and found by each step as `run.tools`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter

from holdfast import Stores
from holdfast.errors import SettingsError
from holdfast.flows import Run
from tripcortex.knowledge.embedding import Embedding
from tripcortex.model import Booking
from tripcortex.models import open_embedding, open_planner
from tripcortex.planning.ports import Planner
from tripcortex.portal.circuit import GuardedPortal, PortalCircuit
from tripcortex.portal.client import open_portal
from tripcortex.portal.ports import Portal
from tripcortex.settings import TripCortexSettings


@dataclass(frozen=True)
class Workshop:
    settings: TripCortexSettings
    embedding: Embedding
    planner: Planner
    # Every call of it is admitted by the circuit, and tells it how it ended.
    portal: Portal


@dataclass(frozen=True)
class Stopwatch:
    """How long a step has taken so far, for its audit."""

    began: float

    @property
    def ms(self) -> int:
        return round(1000 * (perf_counter() - self.began))


def stopwatch() -> Stopwatch:
    return Stopwatch(perf_counter())


def workshop_of(run: Run[Booking]) -> Workshop:
    tools = run.tools
    if not isinstance(tools, Workshop):
        raise SettingsError(
            "The steps of a booking need their workshop: run them by the component `workflow`."
        )
    return tools


@asynccontextmanager
async def working(stores: Stores) -> AsyncIterator[Workshop]:
    """For as long as a worker works."""
    settings = TripCortexSettings.load()
    circuit = PortalCircuit(threshold=settings.circuit_threshold, recovery_s=settings.circuit_recovery_s)
    async with open_portal(stores.clock) as portal:
        yield Workshop(
            settings=settings,
            embedding=open_embedding(settings),
            planner=open_planner(settings),
            portal=GuardedPortal(stores, portal, circuit),
        )
