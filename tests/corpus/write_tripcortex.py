"""Generator of the Trip Cortex archive: bookings in every waiting state, copied while a worker waits.

    python -m tests.corpus.write_tripcortex tests/corpus/v0_2

The service runs in this process, with the sandboxes of the travel portal and the token issuer. Hanging calls
produce the state that a killed process leaves behind: the folder is copied while they hang.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from holdfast import Query, Stores, open_stores, provision
from holdfast.core.errors import ExternalServiceFailed
from holdfast.flows import Execution
from holdfast.model.ulids import Ulid
from holdfast.operations.queues import DeleteQueue
from holdfast.runtime.system_provisioner import get_queue_reports
from holdfast.web.demo_env import wait_until
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.tripcortex.demo_processes import DemoProcesses, open_demo
from holdfast_demo.tripcortex.sample.policy_document import build_policy_rules
from tests.corpus.archive import SUFFIX, pack, save_notes
from tests.corpus.snapshot import ENVIRONMENT, SERVICES, build_settings, copy_folder, open_clock, read_secrets
from tests.postgres import create_database
from tripcortex.integrations.portal.circuit import BREAKER, PORTAL_CIRCUIT
from tripcortex.model import patterns
from tripcortex.model.entities import Booking, EmployeeId
from tripcortex.model.notices import NOTICES
from tripcortex.model.policies.schema import tripcortex
from tripcortex.policies.embedding import BOUNDS, LOCAL, Embedding
from tripcortex.policies.ingestion import Upload, ingest, ingest_pending, upload
from tripcortex.system import SYSTEM
from tripcortex.workers.flow import BOOKING_FLOW, TOKEN_SECRET

NAME: Final = "tripcortex"
START: Final = datetime(2026, 11, 9, 7, tzinfo=UTC)
ADMIN: Final = "emp-1"
APPROVER: Final = "emp-7"
# Far enough away for the lowest fares, on a Tuesday.
LEAVES: Final = date(2026, 12, 8)
OTHERS: Final = ("sender", "ingester")
# Longer than the time from the call to the copy.
SILENCE_S: Final = 20.0
DAY_S: Final = 86_400.0
PAGE: Final = 2
# The number of failures that opens the circuit.
RETRIED: Final = tuple(f"retried-{number}" for number in range(5))
QUESTION: Final = "May I fly business class on a short flight?"

POLICY: Final = """# Air travel

## Cabins

Flights of up to 6 hours are booked in economy class. Business class on a short flight is never paid for.
Flights of more than 10 hours may be booked in business class.

## Fares

A domestic fare booked 14 days ahead is at most 500 dollars. A higher fare needs the approval of the line manager.

## Carriers

United and Delta are preferred where their fare is within 15 percent of the lowest.
"""  # noqa: E501
HOTELS: Final = "# Hotels\n\nA night in a hotel costs at most 180 dollars, breakfast included.\n"
TRAINS: Final = "# Trains\n\nA train is taken for every journey of less than 3 hours, in second class.\n"
CARS: Final = "# Cars\n\nA rental car is of the compact class, and is returned with a full tank.\n"


@dataclass
class Writer:
    """Service while it is filled, and the notes for the test."""

    stage: DemoProcesses
    data: Path
    url: str
    # By the name of the employee.
    ids: dict[str, str] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def stores(self) -> Stores:
        return self.stage.stores

    # --- employees ------------------------------------------------------------------------------------------

    async def post(self, employee: str, path: str, body: dict[str, Any], status: int = 200) -> dict[str, Any]:
        """Post to the API as the employee and return the JSON; fail on another status."""
        answer = await self.stage.request(employee, "POST", path, json=body)
        assert answer.status_code == status, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def get(self, employee: str, path: str, *, is_admin: bool = False) -> dict[str, Any]:
        answer = await self.stage.request(employee, "GET", path, is_admin=is_admin)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def request(self, employee: str, to: str = "Chicago") -> str:
        """Request a booking for the employee and return its id."""
        answer = await self.post(employee, "/bookings", {"text": build_request_text(to)}, 202)
        self.ids[employee] = str(answer["bookingId"])
        return self.ids[employee]

    async def get_booking(self, employee: str) -> Booking:
        found = await self.stores.run(patterns.booking(EmployeeId(employee), Ulid(self.ids[employee])))
        assert found is not None
        return found

    async def wait_until_in(self, employee: str, state: str) -> Booking:
        """Wait until the employee's booking is in this flow state, and return it."""

        async def is_there() -> Booking | None:
            found = await self.get_booking(employee)
            return found if found.flow_state == state else None

        found: Booking = await wait_until(is_there, f"{employee} in {state}")
        return found

    async def choose(self, employee: str) -> None:
        """Choose the first option."""
        found = await self.wait_until_in(employee, "options_presented")
        chosen = {"optionId": found.flight_options[0].option_id}
        await self.post(employee, f"/bookings/{self.ids[employee]}/choice", chosen)

    async def wait_for_execution(self, employee: str, is_so: Callable[[Execution], bool]) -> Execution:
        """Wait until the execution of the employee's booking meets the condition, and return it."""

        async def find() -> Execution | None:
            place = await self.stores.run(
                BOOKING_FLOW.pattern_set.execution(BOOKING_FLOW.key_text((employee, self.ids[employee])))
            )
            return place if place is not None and is_so(place) else None

        place: Execution = await wait_until(find, f"the place of {employee}")
        return place

    # --- workers --------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def run_workflow(self) -> AsyncIterator[Any]:
        """Run the workflow's worker, without the other workers, while the block runs."""
        async with self.stage.run_workers(without=OTHERS) as work:
            yield work


def build_request_text(to: str) -> str:
    back = LEAVES + timedelta(days=2)
    return f"Book me a flight to {to} on {LEAVES:%B} {LEAVES.day} returning {back:%B} {back.day}"


def main(folder: Path) -> None:
    """Fill a service, and pack a copy of its data folder and the notes for the test into `folder`."""
    url = create_database(tripcortex)
    with tempfile.TemporaryDirectory() as made:
        data, copy = Path(made) / "data", Path(made) / "copy"
        data.mkdir()
        notes = asyncio.run(_write(data, url, copy))
        pack(copy, folder / f"{NAME}{SUFFIX}")
        save_notes(folder, NAME, notes)


async def _write(data: Path, url: str, copy: Path) -> dict[str, Any]:
    """Fill a service on a new data folder, copy it to `copy`, and return the notes."""
    clock = open_clock(data, start=START.timestamp())
    async with open_stores(SYSTEM, build_settings(data, url)) as stores:
        await provision(stores, SYSTEM)
        async with open_demo(stores, SYSTEM, clock, data / SERVICES, {}) as stage:
            writer = Writer(stage, data, url)
            await _begin(writer)
        # Another service, because day-old keys of the issuer are not accepted.
        async with open_demo(stores, SYSTEM, clock, data / SERVICES, {}) as stage:
            writer.stage = stage
            await _fill(writer, copy)
        return writer.notes


async def _begin(writer: Writer) -> None:
    """Do what takes hours by the clock: read the policy, bury a step, park a booking."""
    await _upload_policy(writer)
    await _bury_step(writer)
    await _park(writer)


async def _fill(writer: Writer, copy: Path) -> None:
    """Bring bookings into every state, and copy the folder while calls to the portal and a model hang."""
    await _cancel_several(writer)
    await _fail_to_send(writer)
    async with writer.stage.open_phone("confirmed"), _hang_ingestion(writer):
        async with writer.run_workflow():
            await _confirm(writer)
            await _ask(writer)
            await NOTICES.send_unsent(writer.stores.for_component("sender"))
            await _offer(writer)
            await _await_approval(writer)
            await _lose_answer(writer)
        await _note_cursors(writer)
        async with _silence_portal(writer) as worker:
            await _open_circuit(writer)
            # It receives no further message, and is still busy with the purchase.
            worker.stop()
            await _leave_queued(writer)
            await _note(writer)
            copy_folder(writer.data, copy, url=writer.url, schema=tripcortex.name)


# --- policies -----------------------------------------------------------------------------------------------


async def _upload_policy(writer: Writer) -> None:
    """Upload the active policy, and wait until the ingester has read it."""
    form = {"file": ("air-travel.md", POLICY.encode(), "text/markdown")}
    answer = await writer.stage.request(
        ADMIN,
        "POST",
        "/policies",
        is_admin=True,
        files=form,
        data={"rules": json.dumps(build_policy_rules())},
    )
    assert answer.status_code == 202, answer.text
    path = f"/policies/{answer.json()['id']}"

    async def is_read() -> bool:
        return bool((await writer.get(ADMIN, path, is_admin=True))["serves"])

    async with writer.stage.run_workers():
        await wait_until(is_read, "the policy to be read")
    writer.notes["policies"] = {"ready": answer.json()["id"]}


class UnreachableModel:
    """Embedding model that does not answer."""

    dimensions: Final = 256

    def embed(self, texts: Sequence[str]) -> Any:
        raise ExternalServiceFailed("The model does not answer.", may_be_done=False)


@dataclass
class SilentModel:
    """Embedding model that answers nothing until it is released."""

    dimensions: Final = 256
    asked: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def embed(self, texts: Sequence[str]) -> Any:
        self.asked.set()
        self.released.wait()
        raise ExternalServiceFailed("The model is gone.", may_be_done=False)


class BrokenParser:
    """Parser that fails on every document."""

    def parse(self, body: bytes, file_name: str, *, progress: Any = None) -> Any:
        raise ValueError(file_name)


@asynccontextmanager
async def _hang_ingestion(writer: Writer) -> AsyncIterator[None]:
    """Keep one policy in ingestion, one waiting after a model failure and one failed, during the block."""
    ingester, model = writer.stores.for_component("ingester"), SilentModel()
    kept = writer.notes["policies"]
    failed = await upload(writer.stores, Upload("cars.md", CARS.encode(), ADMIN))
    await ingest(ingester, failed.id, BrokenParser(), _build_embedding(UnreachableModel()))
    pending = await upload(writer.stores, Upload("hotels.md", HOTELS.encode(), ADMIN))
    await ingest_pending(ingester, _build_embedding(UnreachableModel()))
    processing = await upload(writer.stores, Upload("trains.md", TRAINS.encode(), ADMIN))
    task = asyncio.create_task(ingest(ingester, processing.id, None, _build_embedding(model)))
    await wait_until(model.asked.is_set, "the model to be asked")
    kept |= {"failed": str(failed.id), "pending": str(pending.id), "processing": str(processing.id)}
    try:
        yield
    finally:
        model.released.set()
        await task


def _build_embedding(model: Any) -> Embedding:
    return Embedding(model, LOCAL, BOUNDS[LOCAL])


# --- unsent and parked work ---------------------------------------------------------------------------------


async def _bury_step(writer: Writer) -> None:
    """Make the relay give up the first step of a booking: its queue is missing."""
    await writer.stores.engines.get("queues").run(DeleteQueue(queue=_get_steps_queue_name()))
    await writer.request("buried")
    workflow = writer.stores.for_component("workflow")
    for _ in range(BOOKING_FLOW.outbox.max_attempts):
        writer.stage.clock.advance(BOOKING_FLOW.outbox.max_retry_delay_s)
        await BOOKING_FLOW.outbox.send_unsent(workflow)
    await provision(writer.stores, SYSTEM)
    [dead] = await BOOKING_FLOW.outbox.list_unsent(writer.stores)
    assert dead.status == "dead", dead


async def _fail_to_send(writer: Writer) -> None:
    """Let the relay fail once on the first step of a booking, so that it retries."""
    await writer.stores.engines.get("queues").run(DeleteQueue(queue=_get_steps_queue_name()))
    await writer.request("not-sent")
    await provision(writer.stores, SYSTEM)


def _get_steps_queue_name() -> str:
    return BOOKING_FLOW.step_queue.physical_name(ENVIRONMENT)


async def _park(writer: Writer) -> None:
    """Park a booking: the portal has sold it, and for a day its outcome could not be found out."""
    stage = writer.stage
    async with writer.run_workflow():
        await writer.request("parked")
        await writer.wait_until_in("parked", "options_presented")
        stage.portal.faults = Faults(failed_after=1.0)
        await writer.choose("parked")
        await writer.wait_for_execution(
            "parked", lambda place: place.state == "booking" and place.attempts > 0
        )
        stage.portal.faults, stage.portal.is_down = Faults(), True
        stage.clock.advance(DAY_S + 1)
        await writer.wait_for_execution("parked", lambda place: place.is_parked)
        stage.portal.is_down = False


# --- waiting bookings ---------------------------------------------------------------------------------------


async def _cancel_several(writer: Writer) -> None:
    """Give an employee a history of immediately cancelled bookings."""
    for _ in range(2 * PAGE + 1):
        booking_id = await writer.request("historian")
        await writer.post("historian", f"/bookings/{booking_id}/cancel", {"reason": "The meeting is off."})
        writer.stage.clock.advance(1.0)


async def _confirm(writer: Writer) -> None:
    """Bring a booking to its confirmation."""
    await writer.request("confirmed")
    await writer.choose("confirmed")
    await writer.wait_until_in("confirmed", "confirmed")


async def _ask(writer: Writer) -> None:
    """Bring a booking to a question to its employee."""
    await writer.request("asked", "Portland")
    await writer.wait_until_in("asked", "asking")


async def _offer(writer: Writer) -> None:
    """Bring a booking to the choice among options."""
    await writer.request("offered")
    await writer.wait_until_in("offered", "options_presented")


async def _await_approval(writer: Writer) -> None:
    """Choose a fare above the cap: the line manager has to approve it."""
    await writer.request("awaiting", "Denver")
    await writer.choose("awaiting")
    await writer.wait_until_in("awaiting", "approving")


# --- interrupted work ---------------------------------------------------------------------------------------


async def _lose_answer(writer: Writer) -> None:
    """Let the portal fail after it has sold a trip: the next attempt looks up the purchase."""
    await writer.request("unsure")
    await writer.wait_until_in("unsure", "options_presented")
    writer.stage.portal.faults = Faults(failed_after=1.0)
    await writer.choose("unsure")
    await writer.wait_for_execution("unsure", lambda place: place.state == "booking" and place.attempts > 0)
    writer.stage.portal.faults = Faults()


@asynccontextmanager
async def _silence_portal(writer: Writer) -> AsyncIterator[Any]:
    """Keep a worker waiting for a portal that has sold a trip, while the context is open."""
    stage = writer.stage
    async with writer.run_workflow() as worker:
        await writer.request("broken-off")
        await writer.wait_until_in("broken-off", "options_presented")
        stage.portal.faults = Faults(silent_after=1.0, silence_s=SILENCE_S)
        await writer.choose("broken-off")
        await wait_until(lambda: stage.count_orders(writer.ids["broken-off"]), "the portal to have sold it")
        yield worker
        worker.stop()


async def _open_circuit(writer: Writer) -> None:
    """Let searches fail until the circuit of the portal opens: each is retried."""
    writer.stage.portal.is_down = True
    for employee in RETRIED:
        await writer.request(employee)
    for employee in RETRIED:
        await writer.wait_for_execution(employee, lambda place: place.attempts > 0)
    assert (await BREAKER.get_circuit(writer.stores, PORTAL_CIRCUIT)).state == "open"


async def _leave_queued(writer: Writer) -> None:
    """Leave two messages in the queue of steps: one of a cancelled booking, one of a new booking."""
    cancelled = await writer.request("queued")
    await writer.post("queued", f"/bookings/{cancelled}/cancel", {})
    await writer.request("queued")


# --- the notes ----------------------------------------------------------------------------------------------


async def _note(writer: Writer) -> None:
    """Note what people have now: ids, tokens, messages; and the state of everything."""
    stores = writer.stores
    writer.notes |= {
        "now": writer.stage.clock.now(),
        "ids": writer.ids,
        "secrets": read_secrets(TOKEN_SECRET),
        "tokens": {
            name: BOOKING_FLOW.make_token(await writer.get_booking(name))
            for name in ("asked", "offered", "awaiting")
        },
        "places": await list_executions(stores),
        "unsent": await list_unsent(stores),
        "queues": await count_queue_messages(stores),
        "messages": [
            each.message_id for each in await stores.all(patterns.unacknowledged(EmployeeId("offered")))
        ],
    }


async def list_executions(stores: Stores) -> dict[str, list[Any]]:
    """Return for each open booking its state, failed attempts, last failure and why it is parked."""
    return {
        each.key: [each.state, each.attempts, each.error, each.parked_for, each.parked]
        for each in await BOOKING_FLOW.list_executions(stores)
    }


async def list_unsent(stores: Stores) -> list[list[Any]]:
    """Return the outbox items that are not sent: their subject and their last failure."""
    found = [*await BOOKING_FLOW.outbox.list_unsent(stores), *await NOTICES.list_unsent(stores)]
    return [[each.outbox, each.aggregate, str(each.status), each.attempts, each.reason] for each in found]


async def count_queue_messages(stores: Stores) -> dict[str, list[int]]:
    """Return the number of messages and dead letters of each queue."""
    reports = await get_queue_reports(stores, SYSTEM.queues)
    return {each.queue: [each.waiting.backlog, each.dead or 0] for each in reports}


async def _note_cursors(writer: Writer) -> None:
    """Note for each list the caller, the path, the first cursor, and the ids that follow it."""
    now = datetime.fromtimestamp(writer.stage.clock.now(), UTC)
    between = f"since={START:%Y-%m-%dT%H:%M:%SZ}&until={now:%Y-%m-%dT%H:%M:%SZ}"
    asked = {
        "bookings": ("historian", f"/bookings?limit={PAGE}", "bookingId"),
        "audit": ("historian", f"/audit?{between}&limit={PAGE}", "auditId"),
        "trail": ("confirmed", f"/bookings/{writer.ids['confirmed']}/audit?limit={PAGE}", "auditId"),
    }
    writer.notes["cursors"] = {name: await _note_rest(writer, *each) for name, each in asked.items()}
    writer.notes["active_cursor"] = (await writer.stores.run(active_bookings(None))).cursor
    tried = await writer.stage.request(
        ADMIN, "POST", "/policies/try", is_admin=True, json={"question": QUESTION}
    )
    writer.notes["passages"] = [each["citation"]["chunk_id"] for each in tried.json()["passages"]]


def active_bookings(cursor: str | None) -> Query[Booking]:
    """Return a page of a query whose filter matches none of the employee's bookings."""
    return patterns.active_bookings_of(EmployeeId("historian")).page(PAGE, cursor)


async def _note_rest(writer: Writer, employee: str, path: str, id: str) -> dict[str, Any]:
    """Return the caller, the path, the first cursor, and the ids of the following pages; `id` names the
    member.
    """
    page = await writer.get(employee, path)
    cursor, rest = page["cursor"], list[str]()
    while page["cursor"] is not None:
        page = await writer.get(employee, f"{path}&cursor={page['cursor']}")
        rest += [each[id] for each in page["items"]]
    assert cursor and rest, path
    return {"employee": employee, "path": path, "id": id, "cursor": cursor, "rest": rest}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
