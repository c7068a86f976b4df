"""Audit of refused calls: the caller, the route and the reason codes, with nothing of the request.

`RefusalAudit.watch` is a dependency: it sees every error of the route and of the dependencies after it, and
the library answers the error as on any route. The rate limit of their tenant bounds authenticated callers.
Unauthenticated calls have no such bound, so each process writes at most `MAX_UNAUTHENTICATED` a minute,
and the next one written says how many were left out. Calls over the rate limit (429), repeats of a call in
progress (409) and server errors are not refusals.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import Depends
from starlette.requests import Request

from holdfast import Stores
from holdfast.core.errors import CallerRefused, HoldfastError, InProgress, error_label
from holdfast.web.problems import ErrorReport, build_report, get_route_path
from holdfast.web.tokens import Caller, get_caller
from pagw.api.routes.errors import build_issues
from pagw.model.audit import Actor, AuditEvent, record_event
from pagw.workers.related_requests import PAGW_ID

SERVICE: Final = "pasorchestrator"
MAX_ACTOR_CHARS: Final = 100
MAX_CODES: Final = 20
UNAUTHENTICATED: Final = 401
FORBIDDEN: Final = 403
TOO_MANY: Final = 429
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

    def watch(self, subject: str | None = None) -> Any:
        """Return a dependency that audits the refusals of a route; put it first.

        Every refusal is audited if `subject` names the subject of the route; unauthenticated and forbidden
        calls are audited in any case.
        """

        async def audit_refusals(request: Request) -> AsyncIterator[None]:
            request.state.audited_subject = subject
            try:
                yield
            except Exception as error:
                await self._record(request, build_report(request, error))
                raise

        return Depends(audit_refusals)

    async def _record(self, request: Request, report: ErrorReport) -> None:
        """Record the refusal of an authenticated caller, or that of an unauthenticated one. A call over the
        rate limit, a repeat of a call in progress and a server error are not refusals.
        """
        status, subject = report.problem.status, request.state.audited_subject
        if status >= 500 or status == TOO_MANY or isinstance(report.error, InProgress):
            return
        if get_caller(request) is not None:
            if subject is not None or status == FORBIDDEN:
                await self._write(request, report, subject)
        elif status == UNAUTHENTICATED:
            await self._write_unauthenticated(request, report, subject)

    async def _write_unauthenticated(
        self, request: Request, report: ErrorReport, subject: str | None
    ) -> None:
        """Write the event of an unauthenticated call, within the limit per minute."""
        minute = int(self._stores.clock.now() // MINUTE_S)
        if minute != self._minute:
            self._minute, self._written = minute, 0
        if self._written >= MAX_UNAUTHENTICATED:
            self._left_out += 1
            return
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        await self._write(request, report, subject, **({"leftOut": left_out} if left_out else {}))

    async def _write(
        self, request: Request, report: ErrorReport, subject: str | None, **details: Any
    ) -> None:
        """Write the event. A failure to write is only logged."""
        caller = get_caller(request)
        event = AuditEvent(
            type="REFUSED",
            actor=UNKNOWN if caller is None else build_actor(caller),
            service=SERVICE,
            tenant=None if caller is None else caller.tenant,
            resource_type=subject or "call",
            resource_id=_get_resource_id(request),
            details={**_build_details(request, report), **details},
        )
        try:
            await record_event(self._stores, event)
        except HoldfastError as error:
            log.error("Auditing a refused call failed: %s", error_label(error))


def build_actor(caller: Caller) -> Actor:
    """Return the caller as an actor of the audit."""
    return Actor("user", caller.subject[:MAX_ACTOR_CHARS])


def stop_auditing(request: Request) -> None:
    """Leave the refusal of this call out of the audit, unless it is forbidden."""
    request.state.audited_subject = None


def _build_details(request: Request, report: ErrorReport) -> dict[str, Any]:
    """Return the audit details of a refusal: status, issue codes, route, method and reason code."""
    codes = [issue.code for issue in build_issues(report) if issue.is_error][:MAX_CODES]
    details = {
        "status": report.problem.status,
        "codes": codes,
        "path": get_route_path(request),
        "method": request.method,
    }
    error = report.error
    return {**details, "reason": error.code} if isinstance(error, CallerRefused) else details


def _get_resource_id(request: Request) -> str | None:
    """Return the payer or the request in the path, or None if it does not have the form of one."""
    named = str(request.path_params.get("pagw_id", ""))
    return named if PAGW_ID.fullmatch(named) else request.path_params.get("payer_id")
