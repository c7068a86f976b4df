"""Fixtures of the bookings' contract tests: a bench with stores on each engine of tables and queues.

Each test has its own employees and a manual clock, far enough in the future that no engine takes an item for
expired.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import Stores
from holdfast.flows import Execution, Next
from holdfast.flows.transition import commit
from holdfast.flows.worker import StepWorker
from holdfast.operations.values import Item
from holdfast.runtime import create_queues, create_tables
from holdfast.runtime.engines import Engines
from holdfast.web.demo_env import patch_environ
from tests.contract.flows.conftest import engines
from tests.systems.tripcortex.unit.policy_rules.trips import make_option
from tests.systems.tripcortex.unit.steps.booking_bench import get_booking_item
from tripcortex.model import patterns
from tripcortex.model.entities import ActiveBooking, Booking, EmployeeId, FlightOption
from tripcortex.system import SYSTEM
from tripcortex.workers.booking_requests import Requester, request_booking
from tripcortex.workers.flow import BOOKING_FLOW

__all__ = ["Bench", "bench", "engines"]

BEGAN = datetime(2126, 3, 10, 14, 30, tzinfo=UTC)
EMPLOYEE = EmployeeId("emp-42")
SENTENCE = "Book me a flight to Chicago next Tuesday returning Thursday, prefer United"
SECRET = {"HOLDFAST_SECRET_TRIPCORTEX_FLOW_TOKEN": "a-secret-of-the-tests"}
_NUMBERS = itertools.count(100)
_PREPARED_TABLES: list[Any] = []


class HandClock:
    """A manual clock."""

    def __init__(self) -> None:
        self.at = BEGAN.timestamp()

    def now(self) -> float:
        return self.at

    def move(self, seconds: float) -> None:
        self.at += seconds

    @property
    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


@dataclass
class Bench:
    """Stores and clock of one test.

    An engine's tests share tables: `employee`, and ids with that prefix, belong to this test.
    """

    stores: Stores
    clock: HandClock
    employee: EmployeeId = EMPLOYEE

    def another(self, number: int = 1) -> EmployeeId:
        """Return another employee that belongs to this test."""
        return EmployeeId(f"{self.employee}-{number}")

    async def ask(self, employee_id: EmployeeId | None = None) -> Booking:
        """Request a trip for the employee, by default the test's own."""
        return await request_booking(self.stores, Requester(employee_id or self.employee), SENTENCE)

    async def make_offered_booking(self) -> Booking:
        """Create a booking with options to choose from, through the flow's own transitions."""
        booking = await self.ask()
        for state in ("retrieved", "planned", "validated", "options_presented"):
            changes = {"flight_options": make_options()} if state == "options_presented" else {}
            booking = await commit(BOOKING_FLOW, self.stores, booking, Next(state, changes), (state,))
        return booking

    async def work(self) -> int:
        """Handle the messages now in the queue; return how many.

        There are no dependencies, so a step that needs them fails.
        """
        received = await self.stores.run(BOOKING_FLOW.pattern_set.consumer.receive(10, 0.0))
        for each in received:
            await StepWorker(BOOKING_FLOW, self.stores).handle(each)
            await self.stores.run(BOOKING_FLOW.pattern_set.consumer.delete(each))
        return len(received)

    async def sweep(self) -> None:
        """Sweep the flow's deadlines once, then work until the queue is empty."""
        await BOOKING_FLOW.sweep(self.stores)
        while await self.work():
            pass

    async def choose(self, booking: Booking, option_id: str = "1", token: str | None = None) -> Booking:
        """Choose an option with the current wait's token, or with `token`."""
        meant = BOOKING_FLOW.make_token(booking) if token is None else token
        return await BOOKING_FLOW.answer(
            self.stores, booking, "choose", token=meant, given={"optionId": option_id}
        )

    async def booking(self, seen: Booking) -> Booking:
        """Read the booking again."""
        found = await self.stores.run(patterns.booking(seen.employee_id, seen.booking_id))
        assert found is not None
        return found

    async def get_item(self, seen: Booking) -> Item:
        """Return the booking's item as stored."""
        return await get_booking_item(self.stores, seen)

    async def marker(self) -> ActiveBooking | None:
        """Return the marker of the test employee's active booking, or None."""
        return await self.stores.run(patterns.place_of(self.employee))

    async def list_executions(self) -> list[Execution]:
        """List the executions of this test's employees."""
        return [
            each
            for each in await BOOKING_FLOW.list_executions(self.stores)
            if each.key.startswith(self.employee)
        ]


@pytest.fixture
async def bench(engines: Any) -> AsyncIterator[Bench]:
    tables, queues = engines
    clock = HandClock()
    stores = Stores(
        tables,
        system=SYSTEM,
        environment=f"tb{os.getpid()}",
        clock=clock,
        engines=Engines({"queues": lambda: queues}),
    )
    if tables not in _PREPARED_TABLES:
        await create_tables(stores, SYSTEM.tables)
        await create_queues(stores, SYSTEM.queues)
        _PREPARED_TABLES.append(tables)
    with patch_environ(SECRET):
        yield Bench(stores, clock, EmployeeId(f"emp{next(_NUMBERS)}"))


def make_options(count: int = 3) -> list[FlightOption]:
    """Build options numbered from 1, whose offers are valid for a day."""
    held = {"offer_expires_at": BEGAN + timedelta(days=1)}
    return [make_option(str(number)).model_copy(update=held) for number in range(1, count + 1)]
