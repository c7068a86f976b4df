"""Cancellation of a request that its payer does not have yet.

Later, only the payer can cancel, on a Claim that asks it to.
"""

from __future__ import annotations

from typing import Any, Final

from holdfast import Pattern, Stores
from holdfast.core.errors import ConditionFailed, NotFound
from holdfast.model.sql import SqlWrite
from pagw.domain.fhir.outcomes import FhirRefused, build_error
from pagw.domain.statuses import BEFORE_PAYER, Stage, Status
from pagw.model import delivery_patterns, patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import QUEUES, RequestRow, RequestUpdate, StageMessage
from pagw.workers.stages.base_stage import Ending, build_client_delivery

SERVICE: Final = "pasorchestrator"
CONFLICT: Final = 409

PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    patterns.request,
    patterns.advance,
    patterns.tell_answered,
    delivery_patterns.create_delivery,
)


async def cancel(stores: Stores, tenant: str, pagw_id: str, actor: Actor) -> RequestRow:
    """Cancel a request and return it. A cancelled request is returned unchanged.

    If a stage advances the request at the same moment, the request is read again, at most once for each
    status. Raise `NotFound` for an unknown id, `FhirRefused` (409) if the payer may have the request.
    """
    while True:
        request = await stores.run(patterns.request(tenant, pagw_id))
        if request is None:
            raise NotFound("Request not found: this tenant has no request with this id.")
        if request.status is Status.CANCELLED:
            return request
        if request.status not in BEFORE_PAYER:
            raise _build_conflict_error(request)
        try:
            await stores.transact(*_build_writes(stores, request, actor))
        except ConditionFailed:
            continue


def _build_writes(stores: Stores, request: RequestRow, actor: Actor) -> list[SqlWrite[Any]]:
    """Build the writes of a cancellation: status, audit event, and the messages to client and subscribers."""
    at = stores.now()
    event = AuditEvent(
        type="STATUS",
        subtype=Status.CANCELLED,
        actor=actor,
        service=SERVICE,
        tenant=request.tenant,
        pagw_id=request.pagw_id,
        resource_type="request",
        resource_id=request.pagw_id,
        details={"from": request.status},
    )
    update = RequestUpdate(completed_at=at)
    message = StageMessage(
        pagw_id=request.pagw_id,
        tenant=request.tenant,
        stage=Stage.subscription_handler,
        occasion="cancelled",
    )
    return [
        patterns.advance(request.pagw_id, request.status, Status.CANCELLED, Stage.done, at, update),
        *build_audit_writes(stores, event),
        patterns.tell_answered(request.pagw_id),
        *build_client_delivery(stores, request, at, Ending(Status.CANCELLED)),
        # Subscribers are notified too.
        patterns.OUTBOX.enqueue(stores, request.pagw_id, message, queue=QUEUES[Stage.subscription_handler]),
    ]


def _build_conflict_error(request: RequestRow) -> FhirRefused:
    """Build the 409 for a request that its payer may already have."""
    wrong = (
        f"The request is {request.status}, and its payer may already have it. To cancel it, $submit a Claim "
        "that names it in Claim.related, with certificationType 3."
    )
    return FhirRefused([build_error("conflict", wrong)], CONFLICT)
