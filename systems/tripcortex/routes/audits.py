"""The audit of an employee by time (D12), and both it and the bookings as CSV. One's own; for admins, anybody's audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from holdfast import Page
from tripcortex import patterns
from tripcortex.live.identity import Employee
from tripcortex.model import AuditRecord, Booking
from tripcortex.routes.asking import cursor_of, limit_of, range_of, subject_of
from tripcortex.routes.describing import CSV, CURSOR, EMPLOYEE, LIMIT, SINCE, UNTIL, described
from tripcortex.routes.exporting import csv_answer
from tripcortex.routes.guarding import Gate
from tripcortex.routes.views import AuditPage, answer_of, audit_view

PAGE: Final = 100
AUDIT_COLUMNS: Final = (
    "timestamp",
    "employeeId",
    "bookingId",
    "auditId",
    "event",
    "step",
    "modelId",
    "latencyMs",
    "errorCode",
    "errorMessage",
    "input",
    "output",
)
BOOKING_COLUMNS: Final = (
    "bookingId",
    "employeeId",
    "status",
    "userRequest",
    "origin",
    "destination",
    "departureDate",
    "returnDate",
    "cabin",
    "carrier",
    "priceUsd",
    "paidUsd",
    "maxBudgetUsd",
    "daysAhead",
    "outOfPolicy",
    "confirmationNumber",
    "failure",
    "createdAt",
    "updatedAt",
)


def audit_routes(gate: Gate) -> APIRouter:
    router = APIRouter(tags=["audit"])
    stores = gate.stores

    @router.get(
        "/audit",
        **described(
            "listAudit",
            "An employee's audit entries in a time range, oldest first",
            parameters=[SINCE, UNTIL, EMPLOYEE, LIMIT, CURSOR],
            gives=AuditPage,
        ),
    )
    @gate.serves()
    async def entries(request: Request, employee: Employee) -> Response:
        whose, between = subject_of(request, employee), range_of(request, stores.clock)
        asked = patterns.employee_audit(
            whose, between.since, between.until, limit_of(request), cursor_of(request)
        )
        page = await stores.run(asked)
        return answer_of(AuditPage(items=[audit_view(each) for each in page.items], cursor=page.cursor))

    @router.get(
        "/audit.csv",
        **described("exportAudit", "The same as CSV, whole", parameters=[SINCE, UNTIL, EMPLOYEE], gives=CSV),
    )
    @gate.serves()
    async def audit_csv(request: Request, employee: Employee) -> Response:
        whose, between = subject_of(request, employee), range_of(request, stores.clock)

        async def read(cursor: str | None) -> Page[AuditRecord]:
            return await stores.run(
                patterns.employee_audit(whose, between.since, between.until, PAGE, cursor)
            )

        return await csv_answer("audit.csv", AUDIT_COLUMNS, read, audit_row)

    @router.get(
        "/bookings.csv",
        **described("exportBookings", "Bookings as CSV, newest first", parameters=[EMPLOYEE], gives=CSV),
    )
    @gate.serves()
    async def bookings_csv(request: Request, employee: Employee) -> Response:
        whose = subject_of(request, employee)

        async def read(cursor: str | None) -> Page[Booking]:
            return await stores.run(patterns.history(whose, PAGE, cursor))

        return await csv_answer("bookings.csv", BOOKING_COLUMNS, read, booking_row)

    return router


def audit_row(entry: AuditRecord) -> Mapping[str, Any]:
    return audit_view(entry).model_dump(by_alias=True)


def booking_row(booking: Booking) -> Mapping[str, Any]:
    """What reports are made of: what it cost beside its cap, how long before, whether inside the policy."""
    plan, option = booking.booking_plan, booking.selected_option
    asked = None if plan is None else plan.parameters
    return {
        "bookingId": booking.booking_id,
        "employeeId": booking.employee_id,
        "status": booking.status,
        "userRequest": booking.user_request,
        "origin": asked and asked.origin,
        "destination": asked and asked.destination,
        "departureDate": asked and asked.departure_date.isoformat(),
        "returnDate": asked and asked.return_date and asked.return_date.isoformat(),
        "cabin": option and option.cabin.value,
        "carrier": option and option.carrier,
        "priceUsd": option and option.price_usd,
        "paidUsd": booking.paid_usd,
        "maxBudgetUsd": plan and plan.policy_constraints.max_budget_usd,
        "daysAhead": asked and (asked.departure_date - booking.created_at.date()).days,
        "outOfPolicy": option and ",".join(each.code for each in option.breaches),
        "confirmationNumber": booking.confirmation_number,
        "failure": booking.failure and booking.failure.code,
        "createdAt": booking.created_at,
        "updatedAt": booking.updated_at,
    }
