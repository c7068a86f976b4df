"""Routes: an employee's audit entries in a time range (D12), and CSV exports of audit entries and bookings.

The default is the caller's own data; admins may name any employee.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Response

from holdfast import Page
from tripcortex.api.identity import Employee
from tripcortex.api.routes.auth import Gate
from tripcortex.api.routes.csv_export import Csv, build_csv_response
from tripcortex.api.routes.parameters import (
    OfEmployee,
    RequestedPage,
    Since,
    Until,
    build_range,
    choose_employee,
)
from tripcortex.api.routes.schemas import AuditPage, build_audit_view
from tripcortex.model import patterns
from tripcortex.model.entities import AuditRecord, Booking

PAGE_SIZE: Final = 100
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


def build_audit_routes(gate: Gate) -> APIRouter:
    """Return the router of `/audit`, `/audit.csv` and `/bookings.csv`."""
    router = APIRouter(tags=["audit"])
    stores = gate.stores

    @router.get(
        "/audit",
        operation_id="listAudit",
        summary="List an employee's audit entries in a time range, oldest first",
    )
    async def entries(
        employee: Annotated[Employee, Depends(gate.employee)],
        asked: RequestedPage,
        since: Since = None,
        until: Until = None,
        of_employee: OfEmployee = None,
    ) -> AuditPage:
        employee_id = choose_employee(of_employee, employee)
        time_range = build_range(since, until, stores.clock)
        page = await stores.run(patterns.employee_audit(employee_id, *time_range, asked.limit, asked.cursor))
        return AuditPage(items=[build_audit_view(each) for each in page.items], cursor=page.cursor)

    @router.get(
        "/audit.csv",
        operation_id="exportAudit",
        summary="Export all audit entries in a time range as CSV",
        response_class=Csv,
    )
    async def audit_csv(
        employee: Annotated[Employee, Depends(gate.employee)],
        since: Since = None,
        until: Until = None,
        of_employee: OfEmployee = None,
    ) -> Response:
        employee_id = choose_employee(of_employee, employee)
        time_range = build_range(since, until, stores.clock)

        async def read(cursor: str | None) -> Page[AuditRecord]:
            return await stores.run(patterns.employee_audit(employee_id, *time_range, PAGE_SIZE, cursor))

        return await build_csv_response("audit.csv", AUDIT_COLUMNS, read, build_audit_row)

    @router.get(
        "/bookings.csv",
        operation_id="exportBookings",
        summary="Export bookings as CSV, newest first",
        response_class=Csv,
    )
    async def bookings_csv(
        employee: Annotated[Employee, Depends(gate.employee)], of_employee: OfEmployee = None
    ) -> Response:
        employee_id = choose_employee(of_employee, employee)

        async def read(cursor: str | None) -> Page[Booking]:
            return await stores.run(patterns.history(employee_id, PAGE_SIZE, cursor))

        return await build_csv_response("bookings.csv", BOOKING_COLUMNS, read, build_booking_row)

    return router


def build_audit_row(entry: AuditRecord) -> Mapping[str, Any]:
    """Return an audit entry as a CSV row: the fields of its API view, by their camel-case names."""
    return build_audit_view(entry).model_dump(by_alias=True)


def build_booking_row(booking: Booking) -> Mapping[str, Any]:
    """Return a booking as a CSV row for reports: trip, option, prices, days ahead, breaches and end."""
    plan, option = booking.booking_plan, booking.selected_option
    trip = None if plan is None else plan.parameters
    return {
        "bookingId": booking.booking_id,
        "employeeId": booking.employee_id,
        "status": booking.status,
        "userRequest": booking.user_request,
        "origin": trip and trip.origin,
        "destination": trip and trip.destination,
        "departureDate": trip and trip.departure_date.isoformat(),
        "returnDate": trip and trip.return_date and trip.return_date.isoformat(),
        "cabin": option and option.cabin.value,
        "carrier": option and option.carrier,
        "priceUsd": option and option.price_usd,
        "paidUsd": booking.paid_usd,
        "maxBudgetUsd": plan and plan.policy_constraints.max_budget_usd,
        "daysAhead": trip and (trip.departure_date - booking.created_at.date()).days,
        "outOfPolicy": option and ",".join(each.code for each in option.breaches),
        "confirmationNumber": booking.confirmation_number,
        "failure": booking.failure and booking.failure.code,
        "createdAt": booking.created_at,
        "updatedAt": booking.updated_at,
    }
