"""Audit of refused calls: the caller, the route and the reason codes, with nothing of the request.

The rate limit of their tenant bounds authenticated callers. Unauthenticated calls have no such bound, so each
process writes only `MAX_UNAUTHENTICATED` of them per minute, and the next one written says how many were left
out. Calls over the rate limit (429), repeats of a call in progress (409) and server errors are not refusals.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from starlette.requests import Request

from holdfast import Stores
from holdfast.core.errors import HoldfastError, error_label
from holdfast.web.tokens import Caller
from pagw.api.routes.errors import Refusal, get_route
from pagw.model.audit import Actor, AuditEvent, record_event
from pagw.workers.related_requests import PAGW_ID

SERVICE: Final = "pasorchestrator"
MAX_ACTOR_CHARS: Final = 100
MAX_CODES: Final = 20
TOO_MANY: Final = 429
FORBIDDEN: Final = 403
# Audit events about unauthenticated calls, per minute and process.
MAX_UNAUTHENTICATED: Final = 60
MINUTE_S: Final = 60.0
UNKNOWN: Final = Actor("user", "unknown")

log = logging.getLogger(__name__)


class RefusalAudit:
    """Writes the audit; one per process and component."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._minute, self._written, self._left_out = -1, 0, 0

    async def record(
        self, request: Request, refusal: Refusal, caller: Caller, resource_type: str | None
    ) -> None:
        """Record the refusal of an authenticated caller. Without `resource_type` record only a 403. Errors of
        5xx and 429 are not recorded.
        """
        if resource_type is None and refusal.status != FORBIDDEN:
            return
        event = AuditEvent(
            type="REFUSED",
            actor=build_actor(caller),
            service=SERVICE,
            tenant=caller.tenant,
            resource_type=resource_type or "call",
            resource_id=_get_pagw_id(request),
            details=_build_details(request, refusal),
        )
        await self._write(refusal, event)

    async def record_unauthenticated(
        self, request: Request, refusal: Refusal, resource_type: str, id: str | None = None
    ) -> None:
        """Record the refusal of an unauthenticated call, within the limit per minute. `id` is that of the
        resource.
        """
        minute = int(self._stores.clock.now() // MINUTE_S)
        if minute != self._minute:
            self._minute, self._written = minute, 0
        if self._written >= MAX_UNAUTHENTICATED:
            self._left_out += 1
            return
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        details = {**_build_details(request, refusal), **({"leftOut": left_out} if left_out else {})}
        event = AuditEvent(
            type="REFUSED",
            actor=UNKNOWN,
            service=SERVICE,
            resource_type=resource_type,
            resource_id=id,
            details=details,
        )
        await self._write(refusal, event)

    async def _write(self, refusal: Refusal, event: AuditEvent) -> None:
        """Write the event, unless the refusal is a 429, a 5xx or not audited. A failure to write is only
        logged.
        """
        if refusal.status >= 500 or refusal.status == TOO_MANY or not refusal.is_audited:
            return
        try:
            await record_event(self._stores, event)
        except HoldfastError as error:
            log.error("Auditing a refused call failed: %s", error_label(error))


def build_actor(caller: Caller) -> Actor:
    """Return the caller as an actor of the audit."""
    return Actor("user", caller.subject[:MAX_ACTOR_CHARS])


def _build_details(request: Request, refusal: Refusal) -> dict[str, Any]:
    """Return the audit details of a refusal: status, issue codes, route, method and reason code."""
    codes = [issue.code for issue in refusal.issues if issue.is_error][:MAX_CODES]
    details = {"status": refusal.status, "codes": codes, "path": get_route(request), "method": request.method}
    return details if refusal.reason is None else {**details, "reason": refusal.reason}


def _get_pagw_id(request: Request) -> str | None:
    """Return the request id in the path, or None if it does not have the form of one."""
    named = str(request.path_params.get("pagw_id", ""))
    return named if PAGW_ID.fullmatch(named) else None
