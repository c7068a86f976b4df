"""Test bench that drives bookings by hand: requests, steps, answers and deadlines, one after the other.

Each runs under its own component. The tables, the queues and the portal over HTTP are real (embedded, in
memory), as are PostgreSQL with a small ingested policy, the sentence planner and the circuit breaker. Tests
move the clock, so nothing waits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

from holdfast import Stores, open_stores, provision
from holdfast.flows.worker import StepWorker
from holdfast.operations.tables import GetItem
from holdfast.operations.values import Item
from holdfast.runtime import create_queues, create_tables
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.web.demo_env import patch_environ
from holdfast_demo.tripcortex.sandbox.portal import PortalSandbox
from tests.postgres import create_database
from tests.systems.tripcortex.unit.portal.portal_bench import serve
from tripcortex.documents import ContentType, ParsedEntity
from tripcortex.domain.planner.ports import Planner
from tripcortex.domain.planner.sentence_planner import SentencePlanner
from tripcortex.integrations.portal.circuit import BREAKER, PORTAL_CIRCUIT, GuardedPortal
from tripcortex.integrations.portal.client import HttpPortal, make_client
from tripcortex.model import patterns
from tripcortex.model.entities import (
    ActiveBooking,
    AuditRecord,
    Booking,
    Circuit,
    EmployeeId,
    Message,
    bookings,
)
from tripcortex.model.policies.schema import PolicyStatus, tripcortex
from tripcortex.policies.embedding import Embedding, build_local_embedding
from tripcortex.policies.ingestion import ingest
from tripcortex.policies.uploads import Upload, upload
from tripcortex.settings import TripCortexSettings
from tripcortex.system import SYSTEM
from tripcortex.workers.booking_requests import Requester, request_booking
from tripcortex.workers.dependencies import Dependencies
from tripcortex.workers.flow import BOOKING_FLOW

# A Tuesday, as in the document's example.
BEGAN = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
EMPLOYEE = EmployeeId("emp-42")
APPROVER = EmployeeId("emp-7")
HOME = Requester(EMPLOYEE, "America/New_York", "BOS")
SENTENCE = "Book me a flight to Chicago next Tuesday returning Thursday, prefer United"
EARLY = "Book me a flight to Chicago on 14 April returning 16 April, prefer United"
WEB = "https://portal.example"
VARIABLES = {
    "HOLDFAST_SECRET_TRIPCORTEX_FLOW_TOKEN": "a-secret-of-the-tests",
    "TRIPCORTEX_APPROVERS": f"line-manager={APPROVER}",
    "TRIPCORTEX_PORTAL_WEB_URL": WEB,
}
POLICY_FILE = "northwind.pdf"
PASSAGES = (
    (2, "Cabin class", "Economy class is required on flights of less than 6 hours."),
    (3, "Fare caps", "The highest fare allowed for a domestic flight is $900 for a round trip."),
    (
        4,
        "Booking in advance",
        "Flights must be booked at least 14 days in advance; later bookings need approval.",
    ),
    (5, "Airlines", "Preferred airlines are United and Delta."),
)
RULES: dict[str, Any] = {
    "version": "2026-03",
    "cabins": [{"max_duration_hours": 6, "cabin": "economy"}, {"cabin": "business"}],
    "caps": [{"route": "domestic", "max_usd": 900}, {"route": "long_haul", "max_usd": 4000}],
    "preferred_carriers": {"carriers": ["UA", "DL"], "within_percent": 10},
    "advance_purchase_days": {"hard": 1, "soft": 14},
    "approval": {
        "approver": "line-manager",
        "soft_deadline_hours": 1,
        "hard_deadline_hours": 1,
        "at_deadline": "approve",
    },
    "hard_stops": ["cabin_above_policy"],
}

# Two active policies: the first as above without hard stops, and one for a region.
REGION_FILE = "region.pdf"
REGION_PASSAGES = (
    (7, "Cabins that are excluded", "First class is never booked, whatever the duration and whoever pays."),
    (8, "Destinations", "Travel to Russia is prohibited until further notice."),
    (9, "Safety", "Spirit is prohibited for all employees."),
)
REGION_RULES: dict[str, Any] = {
    "version": "region-1",
    "caps": [{"route": "domestic", "max_usd": 700}],
    "prohibited": {"carriers": ["NK"], "destinations": ["RU"]},
}
LEVEL_PASSAGES = (
    *PASSAGES,
    (9, "Levels", "Business class is allowed on all flights for employees at level Director."),
)
# The rules of "under review" and "levels under review" are decided by the one test that uses each.
COMPANIES: dict[str, tuple[tuple[str, tuple[tuple[int, str, str], ...], dict[str, Any] | None], ...]] = {
    "one policy": ((POLICY_FILE, PASSAGES, RULES),),
    "two policies": (
        (POLICY_FILE, PASSAGES, RULES | {"hard_stops": []}),
        (REGION_FILE, REGION_PASSAGES, REGION_RULES),
    ),
    "under review": (
        (POLICY_FILE, PASSAGES, RULES | {"hard_stops": []}),
        (REGION_FILE, REGION_PASSAGES, REGION_RULES),
    ),
    "levels under review": ((POLICY_FILE, LEVEL_PASSAGES, None),),
    "text only": ((POLICY_FILE, PASSAGES, None),),
}


_DATABASES: dict[str, str] = {}


class HandClock:
    """A manual clock."""

    def __init__(self) -> None:
        self.at = BEGAN.timestamp()

    def now(self) -> float:
        return self.at

    def move(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class Bench:
    """Stores, clock, portal and dependencies of one test.

    `api` and `workflow` are the stores as those components see them.
    """

    stores: Stores
    clock: HandClock
    sandbox: PortalSandbox
    dependencies: Dependencies

    @property
    def api(self) -> Stores:
        return self.stores.for_component("api")

    @property
    def workflow(self) -> Stores:
        return self.stores.for_component("workflow")

    async def ask(self, sentence: str = EARLY, traveller: Requester = HOME) -> Booking:
        """Request a trip; no step runs yet."""
        return await request_booking(self.api, traveller, sentence)

    async def step(self) -> int:
        """Handle the messages now in the queue; return their number."""
        stores = self.workflow
        driver = StepWorker(BOOKING_FLOW, stores, self.dependencies)
        received = await stores.run(BOOKING_FLOW.pattern_set.consumer.receive(10, 0.0))
        for each in received:
            await driver.handle(each)
            await stores.run(BOOKING_FLOW.pattern_set.consumer.delete(each))
        return len(received)

    async def work(self) -> None:
        """Work until only a person or the clock can continue."""
        while await self.step():
            pass

    async def pass_time(self, seconds: float) -> None:
        """Move the clock, sweep, and work."""
        self.clock.move(seconds)
        await BOOKING_FLOW.sweep(self.workflow)
        await self.work()

    async def request_options(self, sentence: str = EARLY, traveller: Requester = HOME) -> Booking:
        """Request a trip, work until it waits or ends, and return the booking."""
        booking = await self.ask(sentence, traveller)
        await self.work()
        return await self.booking(booking)

    async def choose(self, booking: Booking, option_id: str = "1", token: str | None = None) -> Booking:
        """Choose an option with the current wait's token, or with `token`."""
        booking = await self.booking(booking)
        return await self.answer(booking, "choose", {"optionId": option_id}, token)

    async def answer(
        self, booking: Booking, name: str, given: Mapping[str, Any], token: str | None = None
    ) -> Booking:
        """Answer the current wait by the answer's name, with its token or with `token`."""
        meant = BOOKING_FLOW.make_token(await self.booking(booking)) if token is None else token
        return await BOOKING_FLOW.answer(self.api, booking, name, token=meant, given=given)

    async def cancel(self, booking: Booking, reason: str = "changed my mind") -> Booking:
        return await BOOKING_FLOW.cancel(self.api, booking, reason)

    # --- inspection -----------------------------------------------------------------------------------------

    async def booking(self, seen: Booking) -> Booking:
        """Read the booking again."""
        found = await self.stores.run(patterns.booking(seen.employee_id, seen.booking_id))
        assert found is not None
        return found

    async def get_item(self, seen: Booking) -> Item:
        """Return the booking's item as stored."""
        return await get_booking_item(self.stores, seen)

    async def trail(self, seen: Booking) -> tuple[AuditRecord, ...]:
        return tuple(await self.stores.all(patterns.trail(seen.booking_id)))

    async def list_messages(self, employee_id: EmployeeId = EMPLOYEE) -> list[Message]:
        """Return the employee's unacknowledged messages."""
        return list(await self.stores.all(patterns.unacknowledged(employee_id)))

    async def marker(self, employee_id: EmployeeId = EMPLOYEE) -> ActiveBooking | None:
        """Return the marker of the employee's active booking, or None."""
        return await self.stores.run(patterns.place_of(employee_id))

    async def circuit(self) -> Circuit:
        return await BREAKER.get_circuit(self.stores, PORTAL_CIRCUIT)

    def with_dependencies(self, **changes: Any) -> Bench:
        """Return the same bench with some dependencies replaced."""
        return dataclasses.replace(self, dependencies=dataclasses.replace(self.dependencies, **changes))


@asynccontextmanager
async def open_bench(
    *, variables: Mapping[str, str] | None = None, company: str = "one policy", **sandbox: Any
) -> AsyncIterator[Bench]:
    """Open a bench; `company` names its policies in `COMPANIES`.

    `variables` are environment variables; `sandbox` configures the portal.
    """
    clock = HandClock()
    portal = PortalSandbox(**{"clock": clock, "price_step_s": 0, "offer_life_s": 86_400.0, **sandbox})
    settings = dataclasses.replace(MEMORY_SETTINGS, sql=await _get_database(company))
    with patch_environ({**VARIABLES, **(variables or {})}):
        async with (
            open_stores(SYSTEM, settings, clock=clock) as stores,
            make_client(serve(portal), "") as http,
        ):
            await create_tables(stores, SYSTEM.tables)
            await create_queues(stores, SYSTEM.queues)
            guarded = GuardedPortal(stores.for_component("workflow"), HttpPortal(http, clock, 5.0), BREAKER)
            planner: Planner = SentencePlanner()
            workshop = Dependencies(TripCortexSettings.load(), _load_embedding(), planner, guarded)
            yield Bench(stores, clock, portal, workshop)


async def get_booking_item(stores: Stores, seen: Booking) -> Item:
    """Return the booking's item as stored."""
    key: Item = {"employeeId": seen.employee_id, "bookingId": seen.booking_id}
    result = await stores.tables.run(
        GetItem(table=bookings.physical_name(stores.environment), key=key, consistent=True)
    )
    assert result.item is not None
    return result.item


@cache
def _load_embedding() -> Embedding:
    return build_local_embedding()


async def _get_database(company: str) -> str:
    """Return the database that all tests of a process and company share; they only read it."""
    if company not in _DATABASES:
        url = create_database(tripcortex)
        settings = dataclasses.replace(MEMORY_SETTINGS, sql=url)
        async with open_stores(SYSTEM, settings, clock=HandClock()) as stores:
            await provision(stores, SYSTEM)
            ingester = stores.for_component("ingester")
            for file_name, passages, rules in COMPANIES[company]:
                policy = await upload(ingester, Upload(file_name, b"%PDF-", "emp-1", rules))
                read = await ingest(ingester, policy.id, _FakeParser(passages), _load_embedding())
                assert read.status is PolicyStatus.ready, read.error_message
        _DATABASES[company] = url
    return _DATABASES[company]


class _FakeParser:
    """Fake parser that returns the policy's passages: a paragraph under each heading, each on a page."""

    def __init__(self, passages: tuple[tuple[int, str, str], ...]) -> None:
        self._passages = passages

    def parse(self, body: bytes, file_name: str, *, progress: Any = None) -> Any:
        for number, (page, section, text) in enumerate(self._passages, 1):
            yield ParsedEntity(ContentType.text, text, page, section, number, f"e-{number}", "PARAGRAPH", ())
