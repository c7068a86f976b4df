"""Trip Cortex on the data of each released version: employees and workers continue where they were.

The database is a PostgreSQL of the tests; the sandboxes are fresh.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import httpx2
import pytest

from holdfast import Stores, open_stores, provision
from holdfast.core.errors import CircuitOpen
from holdfast.guarantees import OnceStatus
from holdfast_demo.tripcortex import sandbox
from holdfast_demo.tripcortex.demo_processes import DemoProcesses, open_demo
from holdfast_demo.tripcortex.sandbox.portal_ledger import ORDER
from tests.corpus import database
from tests.corpus.archive import SUFFIX, list_releases_with, load_notes, unpack
from tests.corpus.idle_workers import settle
from tests.corpus.snapshot import SERVICES, SQL, build_settings, open_clock, use_secrets
from tests.corpus.write_tripcortex import (
    ADMIN,
    APPROVER,
    NAME,
    QUESTION,
    active_bookings,
    count_queue_messages,
    list_executions,
    list_unsent,
)
from tripcortex.api import explain
from tripcortex.integrations.portal.circuit import BREAKER, PORTAL_CIRCUIT
from tripcortex.integrations.portal.purchases import LEASE_S
from tripcortex.model import patterns
from tripcortex.model.entities import Booking, EmployeeId, PortalCall
from tripcortex.model.notices import NOTICES
from tripcortex.model.policies import patterns as policies
from tripcortex.model.policies.schema import Policy, tripcortex
from tripcortex.policies.embedding import LOCAL, build_local_embedding
from tripcortex.policies.ingestion import STALE_S, ingest
from tripcortex.system import SYSTEM
from tripcortex.workers.flow import BOOKING_FLOW

WORKFLOW: Final = "workflow"
# Trips that were sold and not recorded when the data was written.
SOLD: Final = ("parked", "unsure", "broken-off")
CANCELLED: Final = ("historian",)
FAILURES: Final = {
    "pending": ("pending", "PartyFailed: The model does not answer."),
    "processing": ("processing", None),
    "ready": ("ready", None),
}


@dataclass
class Service:
    """Service on the unpacked data, with fresh sandboxes. The portal remembers its sales."""

    stage: DemoProcesses
    notes: dict[str, Any]

    @property
    def stores(self) -> Stores:
        return self.stage.stores

    def id(self, employee: str) -> str:
        return str(self.notes["ids"][employee])

    async def get_booking(self, employee: str) -> Booking:
        """Return the booking of the employee with this name in the notes."""
        return await self.stage.get_booking(employee, self.id(employee))

    async def get_policy(self, name: str) -> Policy:
        found = await self.stores.run(policies.policy(UUID(self.notes["policies"][name])))
        assert found is not None, name
        return found

    async def post(self, who: str, path: str, body: dict[str, Any]) -> httpx2.Response:
        """Post to the API as the employee `who`."""
        return await self.stage.request(who, "POST", path, json=body)

    async def answer(self, who: str, employee: str, what: str, **body: Any) -> None:
        """Answer a wait of the employee's booking as `who`; fail if it is refused. `what` is the path's last
        word.
        """
        answer = await self.post(who, f"/bookings/{self.id(employee)}/{what}", body)
        assert answer.status_code == 200, answer.text


@asynccontextmanager
async def open_service(folder: Path, url: str, notes: dict[str, Any]) -> AsyncIterator[Service]:
    """Open the stores on the data and start the sandboxes."""
    clock = open_clock(folder)
    assert clock.now() == notes["now"]
    async with open_stores(SYSTEM, build_settings(folder, url)) as stores:
        await provision(stores, SYSTEM)
        async with open_demo(stores, SYSTEM, clock, folder / SERVICES, {}) as stage:
            yield Service(stage, notes)


@pytest.fixture(params=list_releases_with(NAME), ids=lambda release: release.name)
def data(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, str, dict[str, Any]]]:
    """Unpack a data folder, and return it with the URL of its database and its notes."""
    folder, notes = tmp_path / "data", load_notes(request.param, NAME)
    unpack(request.param / f"{NAME}{SUFFIX}", folder)
    use_secrets(monkeypatch, sandbox, notes["secrets"])
    # The flow caches the first secrets it opens: those of an earlier test would not match these tokens.
    vars(BOOKING_FLOW).pop("_open_secrets", None)
    yield folder, database.load(folder / SQL, tripcortex), notes
    vars(BOOKING_FLOW).pop("_open_secrets", None)


async def test_employees_cursors_messages_and_tokens_continue(data: tuple[Path, str, dict[str, Any]]) -> None:
    async with open_service(*data) as opened:
        await _check_cursors(opened)
        await _check_passages(opened)
        await _check_messages(opened)
        await _check_tokens(opened)


async def test_workers_finish_all_open_work_and_sell_no_trip_twice(
    data: tuple[Path, str, dict[str, Any]],
) -> None:
    async with open_service(*data) as opened:
        await _check_stored_failures(opened)
        await _close_circuit(opened)
        await _resume_work(opened)
        async with opened.stage.run_workers():
            await settle(opened.stage.clock, lambda: _answer_and_list_open_work(opened))
        await _check_bookings(opened)
        await _check_portal(opened)
        await _check_policies(opened)


# --- employees ----------------------------------------------------------------------------------------------


async def _check_cursors(opened: Service) -> None:
    """Check that each cursor leads to what followed it, and that the first page gives the same cursor."""
    for kept in opened.notes["cursors"].values():
        first = (await opened.stage.request(kept["employee"], "GET", kept["path"])).json()
        assert first["cursor"] == kept["cursor"]
        cursor, rest = kept["cursor"], list[str]()
        while cursor is not None:
            answer = await opened.stage.request(kept["employee"], "GET", f"{kept['path']}&cursor={cursor}")
            page = answer.json()
            rest += [each[kept["id"]] for each in page["items"]]
            cursor = page["cursor"]
        assert rest == kept["rest"]
    cursor = opened.notes["active_cursor"]
    assert (await opened.stores.run(active_bookings(None))).cursor == cursor
    assert not (await opened.stores.all(active_bookings(cursor))).items


async def _check_passages(opened: Service) -> None:
    """Check that a question finds the same passages by the stored vectors, and none by another model's."""
    tried = await opened.stage.request(
        ADMIN, "POST", "/policies/try", is_admin=True, json={"question": QUESTION}
    )
    serving = [each for each in await opened.stores.run(policies.policies()) if each.serves]
    expected = opened.notes["passages"] if {each.embedding_model for each in serving} == {LOCAL} else []
    assert [each["citation"]["chunk_id"] for each in tried.json()["passages"]] == expected


async def _check_messages(opened: Service) -> None:
    """Check that a connecting client gets the unacknowledged messages under their ids, and nothing twice."""
    async with (
        opened.stage.run_workers(without=(WORKFLOW, "ingester")),
        opened.stage.open_phone("offered") as phone,
    ):
        await phone.wait_for_message("options", opened.id("offered"))
        await settle(opened.stage.clock, lambda: NOTICES.list_unsent(opened.stores))
    assert [each["messageId"] for each in phone.messages] == opened.notes["messages"]
    assert not (await opened.stores.all(patterns.unacknowledged(EmployeeId("offered")))).items


async def _check_tokens(opened: Service) -> None:
    """Check that only the issued token answers each wait."""
    tokens = opened.notes["tokens"]
    asked, offered = await opened.get_booking("asked"), await opened.get_booking("offered")
    option = offered.flight_options[0].option_id
    wrong = {"optionId": option, "token": tokens["asked"]}
    assert (
        await opened.post("offered", f"/bookings/{opened.id('offered')}/choice", wrong)
    ).status_code == 403
    assert asked.question is not None
    await opened.answer("asked", "asked", "answer", text=asked.question.choices[0], token=tokens["asked"])
    await opened.answer("offered", "offered", "choice", optionId=option, token=tokens["offered"])
    decision = {"employeeId": "awaiting", "decision": "approve", "reason": "The customer pays."}
    await opened.answer(APPROVER, "awaiting", "approval", **decision, token=tokens["awaiting"])
    states = [(await opened.get_booking(each)).flow_state for each in ("asked", "offered", "awaiting")]
    assert states == ["retrieved", "user_selected", "user_selected"]


# --- workers ------------------------------------------------------------------------------------------------


async def _check_stored_failures(opened: Service) -> None:
    """Check that stored failures of the earlier version are shown unchanged."""
    assert await list_executions(opened.stores) == opened.notes["places"]
    assert await list_unsent(opened.stores) == opened.notes["unsent"]
    assert await count_queue_messages(opened.stores) == opened.notes["queues"]
    for name, (status, failure) in FAILURES.items():
        policy = await opened.get_policy(name)
        assert (policy.status, policy.error_message) == (status, failure)
    failed = await opened.get_policy("failed")
    assert failed.error_message is not None and "(ValueError)" in failed.error_message
    support = opened.stores.for_component("support")
    for employee in (*SOLD, "confirmed", "retried-0"):
        await explain.explain_booking(support, opened.id(employee))


async def _close_circuit(opened: Service) -> None:
    """Check that the open circuit rejects calls until its recovery time; then close it with one call."""
    workflow, calls = opened.stores.for_component(WORKFLOW), list[str]()

    async def call() -> None:
        calls.append("called")

    assert (await BREAKER.get_circuit(workflow, PORTAL_CIRCUIT)).state == "open"
    with pytest.raises(CircuitOpen):
        await BREAKER.call(workflow, PORTAL_CIRCUIT, call)
    opened.stage.clock.advance(max(BREAKER.limits.recovery_s, LEASE_S, STALE_S) + 1)
    await BREAKER.call(workflow, PORTAL_CIRCUIT, call)
    assert ((await BREAKER.get_circuit(workflow, PORTAL_CIRCUIT)).state, calls) == ("closed", ["called"])


async def _resume_work(opened: Service) -> None:
    """Do what operators do: redrive, resume, read a policy again. No employee buys anything meanwhile."""
    assert _count_orders(opened) == Counter(opened.id(employee) for employee in (*SOLD, "confirmed"))
    assert await BOOKING_FLOW.outbox.redrive(opened.stores) == 1
    assert await BOOKING_FLOW.resume(opened.stores, ("parked", opened.id("parked"))) == 1
    failed = await opened.get_policy("failed")
    await ingest(opened.stores, failed.id, None, build_local_embedding())


async def _answer_and_list_open_work(opened: Service) -> Any:
    """Answer the waits for people and return the work that is still open; nothing when all is done."""
    left = await BOOKING_FLOW.list_executions(opened.stores)
    for place in left:
        employee, _, booking_id = place.key.partition("#")
        booking = await opened.stage.get_booking(employee, booking_id)
        await _answer(opened, employee, booking)
    waiting = [name for name in opened.notes["policies"] if (await opened.get_policy(name)).status != "ready"]
    queues = [name for name, counts in (await count_queue_messages(opened.stores)).items() if any(counts)]
    found = {(each.key, each.state, each.attempts, each.sends) for each in left}
    work = (found, waiting, queues, await list_unsent(opened.stores))
    return work if any(work) else None


async def _answer(opened: Service, employee: str, booking: Booking) -> None:
    """Answer the booking's current wait, if it waits for a person."""
    match booking.flow_state:
        case "asking":
            assert booking.question is not None
            await opened.answer(employee, employee, "answer", text=booking.question.choices[0])
        case "options_presented":
            option = booking.flight_options[0].option_id
            await opened.answer(employee, employee, "choice", optionId=option)
        case "approving":
            decision = {"employeeId": employee, "decision": "approve"}
            await opened.answer(APPROVER, employee, "approval", **decision)


async def _check_bookings(opened: Service) -> None:
    """Check that every booking is confirmed, or cancelled, and holds no slot; and that nothing is unsent."""
    for employee in opened.notes["ids"]:
        booking = await opened.get_booking(employee)
        assert booking.status == ("cancelled" if employee in CANCELLED else "confirmed"), employee
        assert await opened.stores.run(patterns.place_of(EmployeeId(employee))) is None
    assert await list_unsent(opened.stores) == []


async def _check_portal(opened: Service) -> None:
    """Check that every trip was sold once: earlier sales were looked up, not bought again."""
    travellers = [each for each in opened.notes["ids"] if each not in CANCELLED]
    assert _count_orders(opened) == Counter(opened.id(employee) for employee in travellers)
    assert {each["what"] for each in opened.stage.portal.ledger} == {ORDER}
    for employee in travellers:
        call = await opened.stores.run(PortalCall.of(opened.id(employee)).get())
        assert call is not None and call.status is OnceStatus.PROCESSED
        assert call.attempts > 1 or employee not in SOLD, employee


def _count_orders(opened: Service) -> Counter[str]:
    """Return how often the portal sold each booking."""
    return Counter(each["reference"] for each in opened.stage.portal.ledger if each["what"] == ORDER)


async def _check_policies(opened: Service) -> None:
    """Check that every policy is read and in use."""
    for name in opened.notes["policies"]:
        policy = await opened.get_policy(name)
        assert (policy.status, policy.serves, policy.error_message) == ("ready", True, None), name
        assert policy.total_chunks
