"""Bookings played by hand: requests, steps, answers and deadlines one after the other, each under its own component.

What is real: the tables, queues and the portal over HTTP (embedded, and in memory), a PostgreSQL with a small policy that was
ingested, the planner that reads sentences, the circuit. The clock stands until a test moves it; so nothing waits.
"""

from __future__ import annotations

import asyncio
import atexit
import dataclasses
import ssl
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any, TypeVar

import httpx2
from starlette.applications import Starlette
from starlette.routing import Mount

from holdfast import Stores, create_queues, create_tables, open_stores, provision
from holdfast.flows.worker import StepWorker
from holdfast.operations.tables import GetItem
from holdfast.operations.values import Item
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.web import serve_in_thread
from holdfast.web.demo_env import patch_environ
from tests.postgres import fresh_database
from tripcortex.demo.sandbox.portal import PortalSandbox, build_portal_app
from tripcortex.documents import ContentType, ParsedEntity
from tripcortex.domain.planner.ports import Planner
from tripcortex.domain.planner.sentence_planner import SentencePlanner
from tripcortex.integrations.portal.circuit import GuardedPortal, PortalCircuit
from tripcortex.integrations.portal.client import HttpPortal
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
from tripcortex.workers.booking_requests import Traveller, request_booking
from tripcortex.workers.dependencies import Dependencies
from tripcortex.workers.flow import BOOKING_FLOW

T = TypeVar("T")

# A Tuesday, as in the document's example.
BEGAN = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
EMPLOYEE = EmployeeId("emp-42")
APPROVER = EmployeeId("emp-7")
HOME = Traveller(EMPLOYEE, "America/New_York", "BOS")
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
    (4, "Booking in advance", "Flights must be booked at least 14 days in advance; later bookings need approval."),
    (5, "Airlines", "Preferred airlines are United and Delta."),
)  # fmt: skip
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

# Two that serve: the first as above, with an older cap in its rules and nothing that is stopped hard; and one for a region.
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
COMPANIES: dict[str, tuple[tuple[str, tuple[tuple[int, str, str], ...], dict[str, Any]], ...]] = {
    "one policy": ((POLICY_FILE, PASSAGES, RULES),),
    "two policies": (
        (POLICY_FILE, PASSAGES, RULES | {"hard_stops": []}),
        (REGION_FILE, REGION_PASSAGES, REGION_RULES),
    ),
}


class HandClock:
    def __init__(self, at: datetime = BEGAN) -> None:
        self.at = at.timestamp()

    def now(self) -> float:
        return self.at

    def move(self, seconds: float) -> None:
        self.at += seconds


@dataclass
class Play:
    """One workplace. `api` and `workflow` are the stores as those components have them."""

    stores: Stores
    clock: HandClock
    sandbox: PortalSandbox
    workshop: Dependencies

    @property
    def api(self) -> Stores:
        return self.stores.for_component("api")

    @property
    def workflow(self) -> Stores:
        return self.stores.for_component("workflow")

    async def ask(self, sentence: str = EARLY, traveller: Traveller = HOME) -> Booking:
        return await request_booking(self.api, traveller, sentence)

    async def step(self) -> int:
        """What is in the queue now is handled, and no more; how many messages."""
        stores = self.workflow
        driver = StepWorker(BOOKING_FLOW, stores, self.workshop)
        received = await stores.run(BOOKING_FLOW.pattern_set.receive(10, 0.0))
        for each in received:
            await driver.handle(each)
            await stores.run(BOOKING_FLOW.pattern_set.delete(each))
        return len(received)

    async def work(self) -> None:
        """Until nothing is left to do before a person acts or time passes."""
        while await self.step():
            pass

    async def pass_time(self, seconds: float) -> None:
        """The clock moves, and what is due is swept and done."""
        self.clock.move(seconds)
        await BOOKING_FLOW.sweep(self.workflow)
        await self.work()

    async def offered(self, sentence: str = EARLY, traveller: Traveller = HOME) -> Booking:
        booking = await self.ask(sentence, traveller)
        await self.work()
        return await self.booking(booking)

    async def choose(self, booking: Booking, option_id: str = "1", token: str | None = None) -> Booking:
        booking = await self.booking(booking)
        return await self.answer(booking, "choose", {"optionId": option_id}, token)

    async def answer(
        self, booking: Booking, name: str, given: Mapping[str, Any], token: str | None = None
    ) -> Booking:
        meant = BOOKING_FLOW.make_token(await self.booking(booking)) if token is None else token
        return await BOOKING_FLOW.answer(self.api, booking, name, token=meant, given=given)

    async def cancel(self, booking: Booking, reason: str = "changed my mind") -> Booking:
        return await BOOKING_FLOW.cancel(self.api, booking, reason)

    # --- from behind ----------------------------------------------------------------------------------------

    async def booking(self, seen: Booking) -> Booking:
        found = await self.stores.run(patterns.booking(seen.employee_id, seen.booking_id))
        assert found is not None
        return found

    async def raw(self, seen: Booking) -> Item:
        return await raw_booking(self.stores, seen)

    async def trail(self, seen: Booking) -> tuple[AuditRecord, ...]:
        return tuple(await self.stores.all(patterns.trail(seen.booking_id)))

    async def told(self, employee_id: EmployeeId = EMPLOYEE) -> list[Message]:
        return list(await self.stores.all(patterns.unacknowledged(employee_id)))

    async def marker(self, employee_id: EmployeeId = EMPLOYEE) -> ActiveBooking | None:
        return await self.stores.run(patterns.place_of(employee_id))

    async def circuit(self) -> Circuit:
        return await PortalCircuit().get_circuit(self.stores)

    def with_workshop(self, **changes: Any) -> Play:
        return dataclasses.replace(self, workshop=dataclasses.replace(self.workshop, **changes))


Story = Callable[[Play], Awaitable[T]]


def play(
    story: Story[T],
    *,
    variables: Mapping[str, str] | None = None,
    company: str = "one policy",
    **sandbox: Any,
) -> T:
    """What a story gives. `variables` are those of the environment; `sandbox` says what portal there is."""
    clock = HandClock()
    portal = PortalSandbox(**{"clock": clock, "price_step_s": 0, "offer_life_s": 86_400.0, **sandbox})
    settings = dataclasses.replace(MEMORY_SETTINGS, sql=_database(company))

    async def told(url: str) -> T:
        http = httpx2.AsyncClient(base_url=url, verify=_no_tls(), timeout=10.0)
        async with open_stores(SYSTEM, settings, clock=clock) as stores, http:
            await create_tables(stores, SYSTEM.tables)
            await create_queues(stores, SYSTEM.queues)
            guarded = GuardedPortal(
                stores.for_component("workflow"), HttpPortal(http, clock, 5.0), PortalCircuit()
            )
            planner: Planner = SentencePlanner()
            workshop = Dependencies(TripCortexSettings.load(), _embedding(), planner, guarded)
            return await story(Play(stores, clock, portal, workshop))

    front, url = _server()
    front.app = build_portal_app(portal)
    with patch_environ({**VARIABLES, **(variables or {})}):
        return asyncio.run(told(url))


class _Front:
    """Stands before the portal of the play that goes on."""

    app: Any = None

    async def __call__(self, *given: Any) -> None:
        await self.app(*given)


@cache
def _server() -> tuple[_Front, str]:
    """One for all plays of a process."""
    front, stack = _Front(), ExitStack()
    url = stack.enter_context(serve_in_thread(Starlette(routes=[Mount("/", front)])))
    atexit.register(stack.close)
    return front, url


@cache
def _no_tls() -> ssl.SSLContext:
    """The portal is of this machine; to load the world's certificates for each play takes longer than most plays."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


async def raw_booking(stores: Stores, seen: Booking) -> Item:
    """As it is stored."""
    key: Item = {"employeeId": seen.employee_id, "bookingId": seen.booking_id}
    result = await stores.tables.run(
        GetItem(table=bookings.physical_name(stores.environment), key=key, consistent=True)
    )
    assert result.item is not None
    return result.item


@cache
def _embedding() -> Embedding:
    return build_local_embedding()


@cache
def _database(company: str) -> str:
    """One for all plays of a process and company: what they keep in SQL, they read only."""
    url = fresh_database(tripcortex)

    async def filled() -> None:
        settings = dataclasses.replace(MEMORY_SETTINGS, sql=url)
        async with open_stores(SYSTEM, settings, clock=HandClock()) as stores:
            await provision(stores, SYSTEM)
            ingester = stores.for_component("ingester")
            for file_name, passages, rules in COMPANIES[company]:
                policy = await upload(ingester, Upload(file_name, b"%PDF-", "emp-1", rules))
                read = await ingest(ingester, policy.id, _Parsed(passages), _embedding())
                assert read.status is PolicyStatus.ready, read.error_message

    asyncio.run(filled())
    return url


class _Parsed:
    """The policy as a parser gives it: a paragraph under each heading, each on a page."""

    def __init__(self, passages: tuple[tuple[int, str, str], ...]) -> None:
        self._passages = passages

    def parse(self, body: bytes, file_name: str, *, progress: Any = None) -> Any:
        for number, (page, section, text) in enumerate(self._passages, 1):
            yield ParsedEntity(ContentType.text, text, page, section, number, f"e-{number}", "PARAGRAPH", ())
