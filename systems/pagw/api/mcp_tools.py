"""MCP tools: the gateway's status, late requests and the trail of a request. Read-only, without PHI.

They do not serve request contents and change nothing: replay, legal holds and registries are for operators.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from pydantic import BaseModel

from holdfast import Stores
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.model.agents import ToolFunction
from pagw.api import explain
from pagw.model.entities import RequestRow
from pagw.ops import monitoring
from pagw.ops.annual_report import AnnualReport, build_annual_report
from pagw.settings import PagwSettings

MAX_SHOWN: Final = 20


async def standing(stores: Stores) -> monitoring.GatewayStatus:
    """Return the gateway's status: requests by status, outbox backlog, durations, numbers of stuck and
    overdue requests.
    """
    return await monitoring.get_status(stores, PagwSettings.load().stuck_minutes)


async def request_status(stores: Stores, pagw_id: str) -> dict[str, Any]:
    """Return a request's status, stage, payer, decision, due time, errors and retries."""
    return explain.to_pointers(await explain.get_request(stores, pagw_id))


class Trail(BaseModel):
    """A request's trail across the stores, in lines and as data."""

    pagw_id: str
    lines: list[str]
    data: dict[str, Any]


async def why(stores: Stores, pagw_id: str) -> Trail:
    """Return a request's trail: idempotency keys, audit events in order, files by name and
    size, deliveries to clients, unsent outbox messages. File contents are left out.
    """
    found = await explain.explain_request(stores, pagw_id, hashes=False)
    return Trail(pagw_id=pagw_id, lines=list(found.lines), data=found.data)


class StuckRequests(BaseModel):
    """Requests without progress for this many minutes."""

    minutes: int
    requests: list[dict[str, Any]]


async def stuck(stores: Stores, minutes: int | None = None) -> StuckRequests:
    """Return up to twenty requests without progress, longest first, with their stage and the minutes since
    their last change.
    """
    threshold = PagwSettings.load().stuck_minutes if minutes is None else minutes
    now = stores.now()
    found = await stores.run(monitoring.stuck_since(now - timedelta(minutes=threshold), MAX_SHOWN))
    return StuckRequests(minutes=threshold, requests=[describe_stuck(each, now) for each in found])


class OverdueRequests(BaseModel):
    """Undecided requests that are due within this many hours."""

    hours: int
    requests: list[dict[str, Any]]


async def overdue(stores: Stores, hours: int = 0) -> OverdueRequests:
    """Return up to twenty undecided requests that are past their due time (72 hours expedited, 7 days
    standard), or will be within `hours`.
    """
    now = stores.now()
    found = await stores.run(monitoring.due_before(now + timedelta(hours=hours), MAX_SHOWN))
    return OverdueRequests(hours=hours, requests=[describe_due(each, now) for each in found])


async def yearly_metrics(stores: Stores, year: int, payer_id: str | None = None) -> AnnualReport:
    """Return the annual figures of CMS-0057-F: approvals, denials and durations, for standard and expedited
    requests.
    """
    return await build_annual_report(stores, year, payer_id)


ARGUMENTS: Final = {
    "pagw_id": "The id of a request: PAGW- and 26 letters and digits",
    "minutes": "How long a request has made no progress, in minutes; the gateway's own limit if omitted",
    "hours": "Also the requests that are due within this many hours",
    "year": "A calendar year in UTC",
    "payer_id": "The id of a payer; all payers if omitted",
    "since": "The start of the period, with a time zone",
    "until": "The end of the period, with a time zone",
}

_REQUEST: Final = {"pagw_id": "PAGW-01JBEXAMPLE000000000000000"}
_NO_REQUEST: Final[dict[type[HoldfastError], str]] = {
    NotFound: "no request has this id, or its retention is over"
}

TOOLS: Final = (
    ToolFunction(standing),
    ToolFunction(request_status, example=_REQUEST, errors=_NO_REQUEST),
    ToolFunction(why, example=_REQUEST, errors=_NO_REQUEST),
    ToolFunction(stuck, example={"minutes": 30}),
    ToolFunction(overdue, example={"hours": 24}),
    ToolFunction(yearly_metrics, example={"year": 2026}),
)


def describe_stuck(request: RequestRow, now: datetime) -> dict[str, Any]:
    """Return a stuck request as JSON, with the minutes since its last change."""
    return {
        "pagw_id": request.pagw_id,
        "tenant": request.tenant,
        "status": request.status,
        "stage": request.stage,
        "minutes": round((now - request.updated_at).total_seconds() / 60),
        "retries": request.retry_count,
        "error": request.error_code,
    }


def describe_due(request: RequestRow, now: datetime) -> dict[str, Any]:
    """Return an undecided request as JSON, with the hours left until it is due."""
    left = (request.due_at - now).total_seconds() / 3600
    return {
        "pagw_id": request.pagw_id,
        "tenant": request.tenant,
        "payer": request.payer_id,
        "urgency": request.urgency,
        "status": request.status,
        "due_at": request.due_at.isoformat(),
        "late": left < 0,
        "hours_left": round(left, 1),
    }
