"""Parameters that routes share: ids in the path, pages, and the time range and employee of an audit."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple

from fastapi import Depends, Path, Query
from pydantic import BeforeValidator

from holdfast.core.clock import Clock
from holdfast.core.errors import InvalidRequest
from holdfast.web import PageRequest, build_page_request
from tripcortex.api.identity import EMPLOYEE_FORM, Employee
from tripcortex.model.entities import EmployeeId

# The document's default: the last 30 days.
RANGE_DAYS: Final = 30


class Range(NamedTuple):
    """A time range in UTC, both ends inclusive."""

    since: datetime
    until: datetime


def build_range(since: datetime | None, until: datetime | None, clock: Clock) -> Range:
    """Return the range. `until` defaults to now, `since` to 30 days before it.

    Raise `InvalidRequest` if `since` is later than `until`.
    """
    until = until or datetime.fromtimestamp(clock.now(), UTC)
    try:
        since = since or until - timedelta(days=RANGE_DAYS)
    except OverflowError:
        raise InvalidRequest("Invalid until: 30 days before it is out of range. Send since too.") from None
    if since > until:
        raise InvalidRequest("Invalid range: since is after until.")
    return Range(since, until)


def choose_employee(named: str | None, caller: Employee) -> EmployeeId:
    """Return the employee whose entries are requested: the named one, by default the caller.

    Raise `CallerForbidden` if a caller who is not an admin names another employee.
    """
    if named is None or named == caller.employee_id:
        return caller.employee_id
    caller.require_admin()
    if not EMPLOYEE_FORM.fullmatch(named):
        raise InvalidRequest("Invalid employeeId: expected the id of an employee.")
    return EmployeeId(named)


def _parse_time(given: Any) -> datetime:
    """Return a time in UTC. Raise `ValueError` without a time zone."""
    try:
        # A plus sign that was not escaped arrives as a space.
        moment = datetime.fromisoformat(given.replace(" ", "+") if "T" in given else given)
        if moment.tzinfo is None:
            raise ValueError
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("Expected a time with its zone, such as 2026-11-15T00:00:00Z.") from None


Time = Annotated[datetime, BeforeValidator(_parse_time)]
Since = Annotated[
    Time | None, Query(description="Start of the range, inclusive; default: 30 days before `until`.")
]
Until = Annotated[Time | None, Query(description="End of the range, inclusive; default: now.")]
OfEmployee = Annotated[
    str | None,
    Query(
        alias="employeeId",
        description="The employee whose entries to return; only for admins. Default: the caller.",
    ),
]
RequestedPage = Annotated[PageRequest, Depends(build_page_request(20, 200))]
# An id of another form is one of no booking or policy (404), so the form is only described.
BookingId = Annotated[
    str,
    Path(
        description="The id of a booking, a ULID.",
        json_schema_extra={"pattern": "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"},
    ),
]
PolicyId = Annotated[
    str, Path(description="The id of an edition of a policy.", json_schema_extra={"format": "uuid"})
]
EditionId = Annotated[
    str,
    Path(
        description="The id of a policy document, or of any of its editions.",
        json_schema_extra={"format": "uuid"},
    ),
]
