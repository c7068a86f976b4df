"""The audit of what was refused: who asked for what, and why not; with nothing of what was sent.

Callers that are known are bounded by their tenant's limit. Those who proved nothing are not, so that of them only so many are
written in a minute by each process, and the next one that is written says how many were not. Neither a call over the limit
(429), nor a repeat while the first is under way (409), nor a failure of ours is a refusal.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from starlette.requests import Request

from holdfast import Stores
from holdfast.errors import HoldfastError, error_label
from holdfast.web.tokens import Caller
from pagw.auditing import Actor, AuditEvent, record
from pagw.formers import PAGW_ID
from pagw.routes.refusals import Refusal, route_of

SERVICE: Final = "pasorchestrator"
ACTOR_CHARS_MAX: Final = 100
CODES_TOLD_MAX: Final = 20
TOO_MANY: Final = 429
FORBIDDEN: Final = 403
# Of callers that proved nothing, in a minute, of one process.
UNPROVED_MAX: Final = 60
MINUTE_S: Final = 60.0
UNKNOWN: Final = Actor("user", "unknown")

log = logging.getLogger(__name__)


class RefusedCalls:
    """One per process and component."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._minute, self._written, self._left_out = -1, 0, 0

    async def told(self, request: Request, refusal: Refusal, caller: Caller, what: str | None) -> None:
        """`what` names what a route is about whose refusals are all written; of others only that it was forbidden."""
        if what is None and refusal.status != FORBIDDEN:
            return
        event = AuditEvent(
            type="REFUSED",
            actor=actor_of(caller),
            service=SERVICE,
            tenant=caller.tenant,
            resource_type=what or "call",
            resource_id=_named(request),
            details=_details(request, refusal),
        )
        await self._written_down(refusal, event)

    async def unproved(self, request: Request, refusal: Refusal, what: str, id: str | None = None) -> None:
        minute = int(self._stores.clock.now() // MINUTE_S)
        if minute != self._minute:
            self._minute, self._written = minute, 0
        if self._written >= UNPROVED_MAX:
            self._left_out += 1
            return
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        details = {**_details(request, refusal), **({"leftOut": left_out} if left_out else {})}
        event = AuditEvent(
            type="REFUSED",
            actor=UNKNOWN,
            service=SERVICE,
            resource_type=what,
            resource_id=id,
            details=details,
        )
        await self._written_down(refusal, event)

    async def _written_down(self, refusal: Refusal, event: AuditEvent) -> None:
        """An audit that cannot be written leaves the answer as it is."""
        if refusal.status >= 500 or refusal.status == TOO_MANY or not refusal.is_audited:
            return
        try:
            await record(self._stores, event)
        except HoldfastError as error:
            log.error("The refusal of a call could not be audited: %s", error_label(error))


def actor_of(caller: Caller) -> Actor:
    return Actor("user", caller.subject[:ACTOR_CHARS_MAX])


def _details(request: Request, refusal: Refusal) -> dict[str, Any]:
    codes = [issue.code for issue in refusal.issues if issue.is_error][:CODES_TOLD_MAX]
    told = {"status": refusal.status, "codes": codes, "path": route_of(request), "method": request.method}
    return told if refusal.reason is None else {**told, "reason": refusal.reason}


def _named(request: Request) -> str | None:
    """The request that was asked for, in the words of who asked."""
    named = str(request.path_params.get("pagw_id", ""))
    return named if PAGW_ID.fullmatch(named) else None
