"""What an agent is offered of the gateway: how it stands, what is late, what became of a request. It reads, and sees no PHI.

Contents of requests cannot be asked for here, nor can anything be changed: replaying, holds and registries are a person's.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Stores
from pagw import explaining, monitoring
from pagw.model import Tracked
from pagw.settings import PagwSettings
from pagw.yearly_report import yearly_report

SHOWN: Final = 20


async def standing(stores: Stores) -> dict[str, Any]:
    """How the gateway stands: requests by status, what waits in the outbox, how long requests take, how many are stuck and
    how many decisions are overdue."""
    return (await monitoring.standing(stores, PagwSettings.load().stuck_minutes)).model_dump(mode="json")


async def request_status(stores: Stores, pagw_id: str) -> dict[str, Any]:
    """Where a request stands: status, stage, payer, decision and when it is due, errors and retries."""
    return explaining.pointers(await explaining.known(stores, pagw_id))


async def why(stores: Stores, pagw_id: str) -> dict[str, Any]:
    """The trail of a request across the stores: its keys, its audit in order, its files by name and size, what clients were
    told, what waits in the outbox. Nothing of what is in a file."""
    found = await explaining.trail(stores, pagw_id, hashes=False)
    return {"pagw_id": pagw_id, "lines": list(found.lines), "data": found.data}


async def stuck(stores: Stores, minutes: int | None = None) -> dict[str, Any]:
    """Requests that should move and do not, longest first: for how long, and which stage has them. The first twenty."""
    wanted = PagwSettings.load().stuck_minutes if minutes is None else minutes
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    found = await stores.run(monitoring.stuck_since(now - timedelta(minutes=wanted), SHOWN))
    return {"minutes": wanted, "requests": [waits(each, now) for each in found]}


async def overdue(stores: Stores, hours: int = 0) -> dict[str, Any]:
    """Requests without a decision whose time is over (72 hours expedited, 7 days standard), or will be in so many hours."""
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    found = await stores.run(monitoring.due_before(now + timedelta(hours=hours), SHOWN))
    return {"hours": hours, "requests": [due(each, now) for each in found]}


async def yearly_metrics(stores: Stores, year: int, payer_id: str | None = None) -> dict[str, Any]:
    """What CMS-0057-F wants reported of a year: approved and denied, standard and expedited apart, and how long it took."""
    return (await yearly_report(stores, year, payer_id)).model_dump(mode="json")


TOOLS: Final = (standing, request_status, why, stuck, overdue, yearly_metrics)


def waits(request: Tracked, now: datetime) -> dict[str, Any]:
    return {
        "pagw_id": request.pagw_id,
        "tenant": request.tenant,
        "status": request.status,
        "stage": request.stage,
        "minutes": round((now - request.updated_at).total_seconds() / 60),
        "retries": request.retry_count,
        "error": request.error_code,
    }


def due(request: Tracked, now: datetime) -> dict[str, Any]:
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
