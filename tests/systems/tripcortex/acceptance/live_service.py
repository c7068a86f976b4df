"""The API, WebSocket, sender and token issuer of Trip Cortex in one process over real HTTP, for tests.

The flow is a small one over the same item, with the same kinds of waits: the tests are about access and
delivery. Time comes from a run clock.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect

from holdfast import Component, Rate, Stores, System, open_stores
from holdfast.cli.commands.run import build_app
from holdfast.cli.processes.workload import build_workload
from holdfast.core.clock import RunClock
from holdfast.core.errors import InvalidRequest
from holdfast.flows import FLOWS, Answer, Cancel, Flow, Next, State, Step, StepContext, Wait
from holdfast.guarantees import OUTBOX
from holdfast.model.system import Http, collect_patterns
from holdfast.model.ulids import Ulid
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.web import serve_in_thread
from holdfast.web.demo_env import patch_environ
from holdfast_demo.tripcortex.sandbox.issuer import IssuerSandbox, build_issuer_app
from holdfast_demo.tripcortex.sandbox.issuer import build_issuer_variables as issuer_variables
from tests.postgres import create_database
from tripcortex.api import trips
from tripcortex.api.routes import build_api_routes, configure_errors
from tripcortex.model import directory, pattern_sets, patterns
from tripcortex.model.entities import (
    TABLES,
    Approval,
    AuditEvent,
    Booking,
    BookingPlan,
    BookingStatus,
    Breach,
    Cabin,
    Citation,
    EmployeeId,
    FlightOption,
    OpenQuestion,
    Segment,
    TripParameters,
    policy_files,
)
from tripcortex.model.notices import build_message, build_notice_writes
from tripcortex.model.policies import files, rules_patterns
from tripcortex.model.policies import patterns as knowledge
from tripcortex.model.policies.schema import tripcortex
from tripcortex.workers import booking_requests, message_sender
from tripcortex.workers.audit_entries import build_audit_entry

START: Final = 1_773_151_200.0  # 2026-03-10T14:00:00Z, the document's
SECRETS: Final = {
    "HOLDFAST_SECRET_TRIPCORTEX_CONNECTIONS": "a secret that our processes share",
    "HOLDFAST_SECRET_TRIPCORTEX_FLOW_TOKEN": "a secret that makes tokens of waits",
}
# Less than the service's body limit.
BOUNDS: Final = {"TRIPCORTEX_POLICY_BYTES_MAX": "1000000"}
APPROVER: Final = "emp-boss"
PATIENCE_S: Final = 20.0

T = TypeVar("T")

BREACH: Final = Breach(
    code="fare_above_cap",
    severity="soft",
    text="The fare is above its cap.",
    remedy="Another day",
    citation=Citation(chunk_id="c-1", policy_id="p-1", file_name="air.md", section_title="Caps"),
)


# --- a small flow over the same item ------------------------------------------------------------------------


def make_option(option_id: str) -> FlightOption:
    leaves = datetime.fromisoformat("2026-03-17T08:00:00-04:00")
    flight = Segment(
        carrier="UA",
        flight_number="UA 512",
        origin="BOS",
        destination="ORD",
        departs_at=leaves,
        arrives_at=leaves + timedelta(hours=3),
        duration_minutes=180,
    )
    return FlightOption(
        option_id=option_id,
        offer_id=f"offer-{option_id}",
        offer_expires_at=leaves - timedelta(days=6),
        carrier="UA",
        carrier_name="United",
        cabin=Cabin.economy,
        price_usd=Decimal("312.40"),
        outbound=[flight],
        duration_minutes=180,
    )


async def present_options(run: StepContext[Booking]) -> Next:
    """Offer two options; first ask a question if the request contains "somewhere"."""
    audit = build_audit_entry(
        run.stores, run.item, AuditEvent.flight_search, "ExecuteSearch", outputs={"options": 2}
    )
    if "somewhere" in run.item.user_request and not run.item.answers:
        asked = OpenQuestion(text="Where to?", missing=["destination"])
        return Next(
            "asking", {"question": asked}, writes=(audit, *notify(run, "question", {"text": asked.text}))
        )
    options = [make_option("opt-1"), make_option("opt-2")]
    shown = {"options": [each.model_dump(mode="json") for each in options]}
    plan = BookingPlan(
        confidence=0.9,
        parameters=TripParameters(
            origin="BOS", destination="ORD", departure_date=datetime.fromisoformat("2026-03-17").date()
        ),
    )
    changes = {
        "flight_options": options,
        "booking_plan": plan,
        "question": None,
        "notes": ["Chicago was read as ORD."],
    }
    return Next("options_presented", changes, writes=(audit, *notify(run, "options", shown)))


def choose(run: StepContext[Booking], given: Any) -> Next:
    """Confirm `opt-1` at once; `opt-2` breaches the policy and waits for the approver."""
    chosen = next((each for each in run.item.flight_options if each.option_id == given["optionId"]), None)
    if chosen is None:
        raise InvalidRequest("This option was not offered: choose one of those that were.")
    if chosen.option_id == "opt-2":
        asked = Approval(asked_of=APPROVER, due_at=run.now + timedelta(hours=1))
        message = build_message(run.stores, EmployeeId(APPROVER), "approval", {}, run.item.booking_id)
        breaching = chosen.model_copy(update={"breaches": [BREACH]})
        return Next(
            "approving",
            {"selected_option": breaching, "approval": asked},
            writes=build_notice_writes(run.stores, message),
        )
    return _confirm(run, chosen)


def answer(run: StepContext[Booking], given: Any) -> Next:
    """Store the answer and start again."""
    return Next("initiated", {"answers": [*run.item.answers, given["text"]], "question": None})


def decide(run: StepContext[Booking], given: Any) -> Next:
    """Confirm the booking if approved, else cancel it."""
    assert run.item.selected_option is not None
    if given["decision"] == "approve":
        return _confirm(run, run.item.selected_option)
    return Next("cancelled", writes=(patterns.leave_place(run.item.employee_id, run.item.booking_id),))


def cancel(run: StepContext[Booking], reason: str) -> Next:
    """Cancel the booking, delete the marker and send the employee a message."""
    leaves = patterns.leave_place(run.item.employee_id, run.item.booking_id)
    return Next("cancelled", writes=(leaves, *notify(run, "cancelled", {"reason": reason})))


def _confirm(run: StepContext[Booking], chosen: FlightOption) -> Next:
    """Confirm the booking with a fixed number, delete the marker and send the employee a message."""
    leaves = patterns.leave_place(run.item.employee_id, run.item.booking_id)
    changes = {"selected_option": chosen, "confirmation_number": "QX7T2M", "paid_usd": chosen.price_usd}
    return Next("confirmed", changes, writes=(leaves, *notify(run, "confirmation", {"number": "QX7T2M"})))


def notify(run: StepContext[Booking], about: str, body: dict[str, Any]) -> Any:
    """Return the writes of a message to the employee."""
    return build_notice_writes(
        run.stores, build_message(run.stores, run.item.employee_id, about, body, run.item.booking_id)
    )


def make_example() -> Booking:
    """Return the booking with which the small flow's access patterns are measured."""
    at = datetime.fromisoformat("2026-03-10T14:00:00+00:00")
    return Booking(
        employee_id=EmployeeId("emp-1"),
        booking_id=Ulid("01KKBW6R000000000000000000"),
        user_request="Boston to Chicago",
        created_at=at,
        updated_at=at,
    )


S = BookingStatus
SMALL: Final[Flow[Booking]] = Flow(
    "small",
    Booking,
    queue=Flow.queue("small-steps"),
    prefix="SM",
    rate=Rate(per="step of a booking"),
    example=make_example,
    shown_attribute=Booking.status,
    changed_attribute=Booking.updated_at,
    initial_state="initiated",
    token_secret="tripcortex/flow-token",
    states=(
        State(
            "initiated",
            Step("Offer", present_options, to=("asking", "options_presented")),
            shown_as=S.initiated,
        ),
        State("asking", Wait({"answer": Answer(answer, to=("initiated",))}), shown_as=S.searching),
        State(
            "options_presented",
            Wait(
                {"choose": Answer(choose, to=("approving", "confirmed"))},
                deadline_s=1800,
                on_deadline=lambda run: cancel(run, "nobody chose"),
                deadline_to="cancelled",
            ),
            shown_as=S.options_presented,
        ),
        State(
            "approving",
            Wait({"decide": Answer(decide, to=("confirmed", "cancelled"))}),
            shown_as=S.user_selected,
        ),
        State("confirmed", shown_as=S.confirmed),
        State("cancelled", shown_as=S.cancelled),
    ),
    cancel=Cancel(cancel, from_states=("initiated", "asking", "options_presented"), to="cancelled"),
)


KNOWLEDGE: Final = (
    *collect_patterns(knowledge),
    *collect_patterns(rules_patterns),
    *collect_patterns(files),
    *directory.PATTERNS,
)
API: Final = Component(
    "api",
    uses=(
        pattern_sets.API,
        pattern_sets.MESSAGES,
        patterns.append_audit,
        SMALL.pattern_set.executions,
        SMALL.starter,
        SMALL.answerer,
        KNOWLEDGE,
    ),
    routes=build_api_routes,
    has_own_authentication=True,
)
SENDER: Final = Component(
    "sender",
    uses=(pattern_sets.SENDER,),
    consumers=(message_sender.CONSUMER,),
    schedules=message_sender.SCHEDULES,
)
WORKER: Final = Component(
    "worker",
    uses=(SMALL, pattern_sets.MESSAGES, patterns.append_audit, patterns.leave_place),
    consumers=(SMALL.consumer(),),
    schedules=SMALL.schedules,
)
SYSTEM: Final = System(
    "tripcortex",
    "The live side of Trip Cortex",
    tables=(*TABLES, FLOWS, OUTBOX),
    components=(API, SENDER, WORKER),
    patterns=collect_patterns(patterns),
    http=Http(configure_app=configure_errors, max_body_bytes=2_000_000),
)
WITH_POLICIES: Final = replace(SYSTEM, schemas=(tripcortex,), buckets=(policy_files,))


@dataclass
class Service:
    """The running service with its stores, clock and issuer, and calls to it as an employee."""

    url: str
    stores: Stores
    clock: RunClock
    issuer: IssuerSandbox
    http: httpx2.Client
    # Employees whose connection rows are left after shutdown.
    remaining: list[str]

    def headers(self, employee: str = "emp-1", **token: Any) -> dict[str, str]:
        """Return the authorization header of an employee; `token` are options of `mint_token`."""
        return {"authorization": f"Bearer {self.issuer.mint_token(employee, **token)}"}

    def call(self, method: str, path: str, employee: str = "emp-1", **more: Any) -> httpx2.Response:
        """Send an HTTP request as an employee. `token` in `more` has options of `mint_token`."""
        token = more.pop("token", {})
        headers = {**self.headers(employee, **token), **more.pop("headers", {})}
        return self.http.request(method, path, headers=headers, **more)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run(work)

    def request_trip(self, employee: str = "emp-1", text: str = "Boston to Chicago next Tuesday") -> str:
        """Request a trip and return its booking's id once the first step is done."""
        answer = self.call("POST", "/bookings", employee, json={"text": text})
        assert answer.status_code == 202, answer.text
        booking_id = str(answer.json()["bookingId"])
        self.wait_until(lambda: self.booking(employee, booking_id)["status"] != "initiated")
        return booking_id

    def booking(self, employee: str, booking_id: str) -> dict[str, Any]:
        """Return the booking as the API shows it to its owner."""
        found: dict[str, Any] = self.call("GET", f"/bookings/{booking_id}", employee).json()
        return found

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Poll until the condition is true; fail after 20 seconds. Other threads signal no event here."""
        ends = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < ends
            time.sleep(0.02)

    @asynccontextmanager
    async def connect(self, employee: str = "emp-1", **token: Any) -> AsyncIterator[Client]:
        """Connect as a browser does, with the token as a subprotocol."""
        offered = ["tripcortex.v1", f"bearer.{self.issuer.mint_token(employee, **token)}"]
        async with connect(self.url.replace("http://", "ws://") + "/ws", subprotocols=offered) as socket:  # type: ignore[arg-type]
            assert socket.subprotocol == "tripcortex.v1"
            yield Client(socket)

    async def connections(self, employee: str = "emp-1") -> list[str]:
        """Return the ids of the employee's connections."""
        found = await self.stores.all(patterns.connections_of(EmployeeId(employee)))
        return [each.connection_id for each in found]

    async def list_unacknowledged(self, employee: str = "emp-1") -> list[str]:
        found = await self.stores.all(patterns.unacknowledged(EmployeeId(employee)))
        return [each.message_id for each in found]


@dataclass
class Client:
    """A WebSocket client of the service."""

    socket: ClientConnection

    async def ask(self, **action: Any) -> dict[str, Any]:
        """Send an action and return its answer or problem, skipping messages."""
        await self.socket.send(json.dumps(action))
        return await self.next("answer", "problem")

    async def next(self, *kinds: str) -> dict[str, Any]:
        """Return the next frame of these kinds, by default the next message; skip others."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                frame: dict[str, Any] = json.loads(await self.socket.recv())
                if frame["kind"] in (kinds or ("message",)):
                    return frame


@contextmanager
def start_service(folder: Path, *, with_policies: bool = True) -> Iterator[Service]:
    """Start the service with stores in memory, and with PostgreSQL if `with_policies`; stop it on exit."""
    clock = RunClock(folder / "clock", start=START)
    system = WITH_POLICIES if with_policies else SYSTEM
    settings = MEMORY_SETTINGS
    if with_policies:
        settings = replace(settings, sql=create_database(tripcortex))
    issuer = IssuerSandbox(clock=clock)
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(trips, "BOOKING_FLOW", SMALL)
        patched.setattr(booking_requests, "BOOKING_FLOW", SMALL)
        stack.enter_context(patch_environ(SECRETS, without=("TRIPCORTEX_",)))
        issuer_url = stack.enter_context(serve_in_thread(build_issuer_app(issuer)))
        stores = open_stores(system, settings, clock=clock)
        stack.callback(lambda: asyncio.run(stores.close()))
        left: list[str] = []
        stack.callback(lambda: left.extend(asyncio.run(_list_connected(stores))))
        with patch_environ(issuer_variables(issuer_url) | BOUNDS):
            app = build_app(system, stores, build_workload(system))
            url = stack.enter_context(serve_in_thread(app))
        http = stack.enter_context(httpx2.Client(base_url=url, timeout=30))
        yield Service(url, stores, clock, issuer, http, left)


async def _list_connected(stores: Stores) -> list[str]:
    """Return the employees whose connections are still stored."""
    return [each.employee_id for each in await stores.all(patterns.all_connections())]
