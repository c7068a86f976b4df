"""A small company for tests of approvals: a bench with a directory, and people who decide."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.systems.tripcortex.unit.steps.booking_bench import SENTENCE, Bench, open_bench
from tripcortex.api.identity import Employee
from tripcortex.api.trips import Trips
from tripcortex.directory.changes import delete_employee
from tripcortex.directory.csv_import import import_csv
from tripcortex.model import directory
from tripcortex.model.entities import Booking, Breach, EmployeeId

# emp-42 travels; emp-7 is the manager, emp-3 the VP, emp-1 the CEO.
COMPANY = """id,manager_id,level,department,roles,delegate_id
emp-1,,C-level,Board,board,
emp-3,emp-1,VP,Sales,,
emp-7,emp-3,manager,Sales,,
emp-42,emp-7,L0,Sales,,
emp-20,emp-1,manager,Finance,finance,
emp-21,emp-20,,Finance,finance,
emp-9,emp-1,manager,Travel,travel desk,
emp-8,emp-7,,Sales,,
"""
FLIGHT_OPTIONS: Any = Booking.flight_options


@asynccontextmanager
async def open_company(
    *, changes: Sequence[tuple[str, str]] = (), variables: dict[str, str] | None = None, **more: Any
) -> AsyncIterator[Bench]:
    """Open a bench whose database has the company's directory, with text replacements in its file.

    The database is shared, so the directory is emptied at the end.
    """
    text = COMPANY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    async with open_bench(variables={"TRIPCORTEX_APPROVERS": "", **(variables or {})}, **more) as trip:
        await import_csv(trip.api, text.encode())
        try:
            yield trip
        finally:
            for each in await trip.api.run(directory.whole_directory()):
                await delete_employee(trip.api, each.id)


async def reach_approval(trip: Bench, *words: str, more: Sequence[Breach] = ()) -> Booking:
    """Choose the first flight, which is late; return the booking that waits.

    With words, its breach names these approvers instead of those that the policy has for it.
    """
    booking = await trip.request_options(SENTENCE)
    if words or more:
        await _mark_options(trip, booking, words, more)
    await trip.choose(booking)
    booking = await trip.booking(booking)
    assert booking.flow_state == "approving"
    return booking


async def _mark_options(trip: Bench, booking: Booking, words: Sequence[str], more: Sequence[Breach]) -> None:
    """Store the offered flights with a late booking by these words, and with more breaches."""
    late = Breach(
        code="late_booking", severity="soft", text="Late.", remedy="Leave later.", approvers=list(words)
    )
    breaches = [late, *more]
    options = [each.model_copy(update={"breaches": breaches}) for each in booking.flight_options]
    marked = Booking.of(booking.employee_id).update(booking.booking_id).set(FLIGHT_OPTIONS, options)
    await trip.stores.run(marked)


async def decide(trip: Bench, booking: Booking, by: str, decision: str = "approve", **more: Any) -> Booking:
    """Decide as this person, as the API does."""
    employee = Employee(EmployeeId(by))
    return await Trips(trip.api).decide(employee, booking.employee_id, booking.booking_id, decision, **more)


async def list_pending(trip: Bench, by: str) -> list[str]:
    """Return the bookings that the API shows this person as waiting for them."""
    return [each.booking_id for each in await Trips(trip.api).list_approvals(Employee(EmployeeId(by)))]


async def list_kinds(trip: Bench, employee_id: str) -> list[str]:
    """Return the kinds of an employee's messages."""
    return [each.kind for each in await trip.list_messages(EmployeeId(employee_id))]
