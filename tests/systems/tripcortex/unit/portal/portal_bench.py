"""Test bench: the sandbox portal over real HTTP with its client, a manual clock, and an example trip."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from typing import Any, TypeVar

from holdfast import Stores, Table, open_memory_stores
from holdfast.runtime import create_tables
from holdfast.web import serve_in_thread
from holdfast_demo.tripcortex.sandbox.portal import PortalSandbox, build_portal_app
from tripcortex.integrations.portal.client import HttpPortal, make_client
from tripcortex.integrations.portal.ports import Traveller
from tripcortex.model.entities import EmployeeId, Preferences, TripParameters, circuits, portal_calls

T = TypeVar("T")

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
KEY = "k3y-of-the-test"
EMPLOYEE = EmployeeId("emp-42")
TRAVELLER = Traveller(traveller_id="emp-42")
REFERENCE = "01KKBW6R00EXAMPLE000000000"
TO_CHICAGO = TripParameters(
    origin="HYD", destination="ORD", departure_date=date(2026, 3, 17), return_date=date(2026, 3, 19)
)
TABLES: tuple[Table, ...] = (circuits, portal_calls)


class HandClock:
    """A manual clock."""

    def __init__(self, at: datetime = NOON) -> None:
        self.at = at.timestamp()

    def now(self) -> float:
        return self.at

    def wait(self, seconds: float) -> None:
        self.at += seconds


def make_sandbox(**settings: Any) -> PortalSandbox:
    """Build a sandbox portal with a manual clock and the test's API key; `settings` override them."""
    return PortalSandbox(**{"clock": HandClock(), "api_key": KEY, **settings})


Story = Callable[[Stores, HttpPortal, HandClock], Awaitable[T]]


async def run_story(sandbox: PortalSandbox, story: Story[T], *, key: str = KEY, answer_s: float = 5.0) -> T:
    """Run a story with the portal over real HTTP and stores on the same clock; return its result."""
    clock = sandbox.clock
    assert isinstance(clock, HandClock)

    with serve_in_thread(build_portal_app(sandbox)) as url:
        async with make_client(url, key) as http, open_memory_stores(clock=clock) as stores:
            await create_tables(stores, TABLES)
            return await story(stores, HttpPortal(http, clock, answer_s), clock)


async def find_cheapest(portal: HttpPortal, parameters: TripParameters = TO_CHICAGO) -> Any:
    return (await portal.search(parameters, Preferences()))[0]


def list_sold(sandbox: PortalSandbox) -> list[str]:
    """List the references of the orders, in order."""
    return [each["reference"] for each in sandbox.ledger if each["what"] == "order"]
