"""MCP tools: the gateway's status, late requests and the trail of a request. Read-only, without PHI.

They do not serve request contents and change nothing: replay, legal holds and registries are for operators.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from holdfast import Stores
from pagw.api import explain
from pagw.model.entities import RequestRow
from pagw.ops import monitoring
from pagw.ops.annual_report import build_annual_report
from pagw.settings import PagwSettings

MAX_SHOWN: Final = 20


async def standing(stores: Stores) -> dict[str, Any]:
    """Return the gateway's status: requests by status, outbox backlog, durations, numbers of stuck and
    overdue requests.
    """
    return (await monitoring.get_status(stores, PagwSettings.load().stuck_minutes)).model_dump(mode="json")


async def request_status(stores: Stores, pagw_id: str) -> dict[str, Any]:
    """Return a request's status, stage, payer, decision, due time, errors and retries."""
    return explain.to_pointers(await explain.get_request(stores, pagw_id))


async def why(stores: Stores, pagw_id: str) -> dict[str, Any]:
    """Return a request's trail across the stores: idempotency keys, audit events in order, files by name and
    size, deliveries to clients, unsent outbox messages. File contents are left out.
    """
    found = await explain.explain_request(stores, pagw_id, hashes=False)
    return {"pagw_id": pagw_id, "lines": list(found.lines), "data": found.data}


async def stuck(stores: Stores, minutes: int | None = None) -> dict[str, Any]:
    """Return up to twenty requests without progress, longest first, with their stage and the minutes since
    their last change.
    """
    threshold = PagwSettings.load().stuck_minutes if minutes is None else minutes
    now = stores.now()
    found = await stores.run(monitoring.stuck_since(now - timedelta(minutes=threshold), MAX_SHOWN))
    return {"minutes": threshold, "requests": [describe_stuck(each, now) for each in found]}


async def overdue(stores: Stores, hours: int = 0) -> dict[str, Any]:
    """Return up to twenty undecided requests that are past their due time (72 hours expedited, 7 days
    standard), or will be within `hours`.
    """
    now = stores.now()
    found = await stores.run(monitoring.due_before(now + timedelta(hours=hours), MAX_SHOWN))
    return {"hours": hours, "requests": [describe_due(each, now) for each in found]}


async def yearly_metrics(stores: Stores, year: int, payer_id: str | None = None) -> dict[str, Any]:
    """Return the annual figures of CMS-0057-F: approvals, denials and durations, for standard and expedited
    requests.
    """
    return (await build_annual_report(stores, year, payer_id)).model_dump(mode="json")


TOOLS: Final = (standing, request_status, why, stuck, overdue, yearly_metrics)


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
