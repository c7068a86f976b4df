"""Taking a request back before its payer has it. After that only the payer can cancel: by a Claim that asks it to."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from holdfast import SqlWrite, Stores
from holdfast.errors import ConditionFailed, NotFound
from pagw import patterns
from pagw.auditing import Actor, AuditEvent, audited
from pagw.fhir.outcomes import FhirRefused, error
from pagw.model import QUEUES, Learnt, StageMessage, Tracked
from pagw.pipeline.staging import Ending, told_client
from pagw.statuses import Stage, Status

SERVICE: Final = "pasorchestrator"
# What is converted may be on its way to the payer already.
CANCELLABLE: Final = frozenset(
    {Status.RECEIVED, Status.PARSED, Status.VALIDATED, Status.ENRICHED, Status.ATTACHMENTS_PROCESSED}
)
CONFLICT: Final = 409


async def cancel(stores: Stores, tenant: str, pagw_id: str, actor: Actor) -> Tracked:
    """The request as it stands cancelled; one that was cancelled before stays so.

    A stage may bring it on at the same moment: then it is looked at again, at most once for each status.
    """
    while True:
        request = await stores.run(patterns.request(tenant, pagw_id))
        if request is None:
            raise NotFound("There is no request of this id.")
        if request.status is Status.CANCELLED:
            return request
        if request.status not in CANCELLABLE:
            raise _too_late(request)
        try:
            await stores.transact(*_writes(stores, request, actor))
        except ConditionFailed:
            continue


def _writes(stores: Stores, request: Tracked, actor: Actor) -> list[SqlWrite[Any]]:
    at = datetime.fromtimestamp(stores.clock.now(), UTC)
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
    learnt = Learnt(completed_at=at)
    told = StageMessage(
        pagw_id=request.pagw_id,
        tenant=request.tenant,
        stage=Stage.subscription_handler,
        occasion="cancelled",
    )
    return [
        patterns.advance(request.pagw_id, request.status, Status.CANCELLED, Stage.done, at, learnt),
        *audited(stores, event),
        patterns.tell_answered(request.pagw_id),
        *told_client(stores, request, at, Ending(Status.CANCELLED)),
        # Who subscribed is told too.
        patterns.OUTBOX.message(stores, request.pagw_id, QUEUES[Stage.subscription_handler], told),
    ]


def _too_late(request: Tracked) -> FhirRefused:
    wrong = (
        f"The request stands at {request.status}, and its payer has it or may have it: send a Claim that cancels it "
        "(Claim.related, certificationType 3) by $submit."
    )
    return FhirRefused([error("conflict", wrong)], CONFLICT)
