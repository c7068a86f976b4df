"""A request brought on again by an operator: the stage that has it is told once more.

One that stands is told to its stage under a new occasion, which the inbox does not know; where the stage had done its step
meanwhile, nothing happens. One that FAILED is put back to where it failed first; if a payer had refused it for good, that
is forgotten too, so that the payer is asked again (a payer that knows the reference answers as before). One that waits for
its payer goes on by the last callback that was kept, if there is one.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import ListObjects, Pattern, Rate, SqlChange, SqlWrite, Stores, Ulids, pattern
from holdfast.errors import InvalidRequest, NotFound
from pagw import files, patterns
from pagw.auditing import Actor, AuditEvent, audited
from pagw.model import QUEUES, IdempotencyRecord, StageMessage, Tracked, callback, pagw
from pagw.monitoring import any_request
from pagw.statuses import Stage, Status

SERVICE: Final = "operator"
# Who has a request that stands so.
STAGE_OF: Final = {
    Status.VALIDATED: Stage.request_enricher,
    Status.ENRICHED: Stage.attachment_handler,
    Status.ATTACHMENTS_PROCESSED: Stage.request_converter,
    Status.CONVERTED: Stage.api_connector,
    Status.SUBMITTED: Stage.response_builder,
    Status.PENDED: Stage.response_builder,
    Status.RESPONSE_BUILT: Stage.callback_handler,
    Status.CALLBACK_SENT: Stage.subscription_handler,
}


_NOW: Final = datetime(2026, 11, 2, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"


@pattern(
    "M20",
    "Put a failed request back to where it failed",
    rate=Rate(per="change by an operator"),
    example=(_ID, Status.CONVERTED, _NOW),
)
def reopen(pagw_id: str, status: Status, at: datetime) -> SqlChange:
    return pagw.change(
        """UPDATE pagw.request_tracker
           SET status = %(status)s, stage = %(stage)s, updated_at = %(at)s, completed_at = NULL, error_code = NULL,
               error_message = NULL, metadata = metadata - 'failedAt'
           WHERE pagw_id = %(pagw_id)s AND status = 'FAILED' AND metadata ->> 'failedAt' = %(status)s""",
        pagw_id=pagw_id,
        status=status,
        stage=STAGE_OF[status],
        at=at,
    )


@pattern(
    "M21", "The callbacks that a payer made", rate=Rate(per="change by an operator"), example=(_NOW, _ID)
)
def callbacks_of(created_at: datetime, pagw_id: str) -> ListObjects:
    return callback.listing(created_at=created_at, pagw_id=pagw_id)


READS: Final[tuple[Pattern[..., Any], ...]] = (any_request, callbacks_of, files.payer_request)
WRITES: Final = (reopen,)


async def replay(stores: Stores, pagw_id: str, actor: Actor) -> Stage:
    """Gives the stage that was told. Raises `InvalidRequest` for one that has ended otherwise than by a failure, or that
    waits for its payer."""
    request = await stores.run(any_request(pagw_id))
    if request is None:
        raise NotFound(f"There is no request {pagw_id}.")
    status = _status(request)
    number = await _callback(stores, request) if _waits_for_payer(request) else None
    stage = STAGE_OF[status] if number is None else Stage.callback_handler
    at = datetime.fromtimestamp(stores.clock.now(), UTC)
    writes: list[SqlWrite[Any]] = []
    if request.status is Status.FAILED:
        if status is Status.CONVERTED:
            await _forget_refusal(stores, request)
        writes.append(reopen(pagw_id, status, at).expecting(1))
    message = StageMessage(
        pagw_id=pagw_id,
        tenant=request.tenant,
        stage=stage,
        occasion=f"replay-{Ulids(stores.clock).new()}",
        callback_key=number,
    )
    writes += audited(stores, _event(request, actor, stage))
    writes.append(patterns.OUTBOX.message(stores, pagw_id, QUEUES[stage], message))
    await stores.transact(*writes)
    return stage


def _status(request: Tracked) -> Status:
    """Where it goes on from."""
    status = request.status
    if status is Status.FAILED and (failed_at := request.metadata.get("failedAt")):
        status = Status(str(failed_at))
    if status not in STAGE_OF:
        raise InvalidRequest(f"{request.pagw_id} is {request.status}: there is nothing to replay.")
    return status


def _waits_for_payer(request: Tracked) -> bool:
    return request.status is Status.PENDED and request.stage is Stage.payer


async def _callback(stores: Stores, request: Tracked) -> str:
    """The number of the last callback: `callback_002.json` has 002."""
    found = await stores.run(callbacks_of(request.created_at, request.pagw_id))
    if not found.objects:
        raise InvalidRequest(
            f"{request.pagw_id} waits for its payer, which has not called back: there is nothing to replay. "
            f"Ask {request.payer_id}; its decision is due {request.due_at:%Y-%m-%d %H:%M}."
        )
    return found.objects[-1].key.rsplit("_", 1)[1].removesuffix(".json")


async def _forget_refusal(stores: Stores, request: Tracked) -> None:
    sent = (await stores.run(files.payer_request(request.created_at, request.pagw_id))).body
    record = IdempotencyRecord(
        idempotency_key=f"{request.tenant}:{request.pagw_id}#payer",
        pagw_id=request.pagw_id,
        payload_sha256=hashlib.sha256(sent).hexdigest(),
    )
    await patterns.CALLS.reopen(stores, record)


def _event(request: Tracked, actor: Actor, stage: Stage) -> AuditEvent:
    return AuditEvent(
        type="REPLAY",
        subtype=stage,
        actor=actor,
        service=SERVICE,
        tenant=request.tenant,
        pagw_id=request.pagw_id,
        resource_type="request",
        resource_id=request.pagw_id,
        details={"from": request.status},
    )
