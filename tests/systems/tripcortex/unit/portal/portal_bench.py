"""Test bench: the sandbox portal over real HTTP with its client, a manual clock, and an example trip."""

from __future__ import annotations

import atexit
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from holdfast import Stores, Table, open_memory_stores
from holdfast.runtime import create_tables
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.tripcortex.sandbox.portal import PortalSandbox, build_portal_app
from tripcortex.integrations.portal.client import HttpPortal, make_client
from tripcortex.integrations.portal.ports import Traveller
from tripcortex.model.entities import EmployeeId, Preferences, TripParameters, circuits, portal_calls

NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)
# The time that a client waits for an answer that never comes.
HASTE_S = 0.2
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


@asynccontextmanager
async def open_bench(
    sandbox: PortalSandbox, *, key: str = KEY, answer_s: float = 5.0
) -> AsyncIterator[tuple[Stores, HttpPortal, HandClock]]:
    """Open stores on the portal's clock, and its client over real HTTP."""
    clock = sandbox.clock
    assert isinstance(clock, HandClock)
    async with make_client(serve(sandbox), key) as http, open_memory_stores(clock=clock) as stores:
        await create_tables(stores, TABLES)
        yield stores, HttpPortal(http, clock, answer_s), clock


class _Front:
    """ASGI app that forwards to the current test's portal."""

    app: Any = None

    async def __call__(self, *given: Any) -> None:
        await self.app(*given)


@contextmanager
def fail(sandbox: PortalSandbox, faults: Faults | None) -> Iterator[None]:
    """Apply the faults inside the block. Without any, the portal acts and waits until the client hangs up."""
    front, acted = _start_server()[0], threading.Event()
    app = front.app

    async def act_silently(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, discard)
        acted.set()
        while (await receive())["type"] != "http.disconnect":
            pass

    if faults is None:
        front.app = act_silently
    else:
        sandbox.faults = faults
    yield
    sandbox.faults, front.app = Faults(), app
    assert faults is not None or acted.wait(60)


async def discard(message: Any) -> None:
    """Send nothing."""


def serve(sandbox: PortalSandbox) -> str:
    """Serve the portal at the address that all tests of a process share; return it."""
    front, url = _start_server()
    front.app = build_portal_app(sandbox)
    return url


@cache
def _start_server() -> tuple[_Front, str]:
    front, stack = _Front(), ExitStack()
    url = stack.enter_context(serve_in_thread(Starlette(routes=[Mount("/", front)])))
    atexit.register(stack.close)
    return front, url


async def find_cheapest(portal: HttpPortal, parameters: TripParameters = TO_CHICAGO) -> Any:
    return (await portal.search(parameters, Preferences()))[0]


def list_sold(sandbox: PortalSandbox) -> list[str]:
    """List the references of the orders, in order."""
    return [each["reference"] for each in sandbox.ledger if each["what"] == "order"]
