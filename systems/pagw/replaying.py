"""A request brought on again by an operator: the stage that has it is told once more.

One that stands is told to its stage under a new occasion, which the inbox does not know; where the stage had done its step
meanwhile, nothing happens. One that FAILED is put back to where it failed first; if a payer had refused it for good, that
is forgotten too, so that the payer is asked again (a payer that knows the reference answers as before). One that waits for
its payer goes on by the newest callback that nobody has taken up, or else the payer is asked what became of it; so does one
that FAILED because what the payer said made no sense.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Pattern, Rate, SqlChange, SqlWrite, Stores, Ulids, pattern
from holdfast.errors import InvalidRequest, NotFound
from pagw import files, patterns
from pagw.auditing import Actor, AuditEvent, audited
from pagw.following_up import first_inquiry, told_to_ask
from pagw.model import QUEUES, IdempotencyRecord, StageMessage, Tracked, pagw
from pagw.monitoring import any_request
from pagw.payer_callbacks import told_of_callback
from pagw.pipeline.calling_back import was_payers_fault
from pagw.pipeline.payer_answers import newest_callback
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
    example=(_ID, Status.CONVERTED, Status.CONVERTED, Stage.api_connector, _NOW),
)
def reopen(
    pagw_id: str,
    failed_at: Status,
    status: Status,
    stage: Stage,
    at: datetime,
    inquire_at: datetime | None = None,
) -> SqlChange:
    """Of what failed at a payer's words, to where it waits for the payer."""
    return pagw.change(
        """UPDATE pagw.request_tracker
           SET status = %(status)s, stage = %(stage)s, updated_at = %(at)s, completed_at = NULL, error_code = NULL,
               error_message = NULL, inquire_at = coalesce(%(inquire_at)s::timestamptz, inquire_at),
               metadata = metadata - 'failedAt'
           WHERE pagw_id = %(pagw_id)s AND status = 'FAILED' AND metadata ->> 'failedAt' = %(failed_at)s""",
        pagw_id=pagw_id,
        failed_at=failed_at,
        status=status,
        stage=stage,
        at=at,
        inquire_at=inquire_at,
    )


READS: Final[tuple[Pattern[..., Any], ...]] = (any_request, files.payer_request)
WRITES: Final = (reopen,)


async def replay(stores: Stores, pagw_id: str, actor: Actor) -> Stage:
    """Gives the stage that was told. Raises `InvalidRequest` for one that has ended otherwise than by a failure."""
    request = await stores.run(any_request(pagw_id))
    if request is None:
        raise NotFound(f"There is no request {pagw_id}.")
    occasion = f"replay-{Ulids(stores.clock).new()}"
    if _waits_for_payer(request) or was_payers_fault(request):
        stage, writes = _by_payer(stores, request, occasion)
    else:
        stage, writes = await _by_stage(stores, request, occasion)
    await stores.transact(*writes, *audited(stores, _event(request, actor, stage)))
    return stage


def _by_payer(stores: Stores, request: Tracked, occasion: str) -> tuple[Stage, list[SqlWrite[Any]]]:
    """By the newest callback, unless it is the one at which it stands; else the payer is asked."""
    writes: list[SqlWrite[Any]] = []
    if request.status is Status.FAILED:
        at = datetime.fromtimestamp(stores.clock.now(), UTC)
        failed_at, asked = Status(request.metadata["failedAt"]), first_inquiry(at, request.due_at)
        reopened = reopen(request.pagw_id, failed_at, Status.PENDED, Stage.payer, at, asked)
        writes.append(reopened.expecting(1))
    number = newest_callback(request)
    if number is None or number in (request.metadata.get("interim"), request.metadata.get("callback")):
        return Stage.api_connector, [*writes, told_to_ask(stores, request, occasion)]
    return Stage.callback_handler, [*writes, told_of_callback(stores, request, number, occasion)]


async def _by_stage(stores: Stores, request: Tracked, occasion: str) -> tuple[Stage, list[SqlWrite[Any]]]:
    status = _status(request)
    stage = STAGE_OF[status]
    writes: list[SqlWrite[Any]] = []
    if request.status is Status.FAILED:
        if status is Status.CONVERTED:
            await _forget_refusal(stores, request)
        at = datetime.fromtimestamp(stores.clock.now(), UTC)
        writes.append(reopen(request.pagw_id, status, status, stage, at).expecting(1))
    message = StageMessage(pagw_id=request.pagw_id, tenant=request.tenant, stage=stage, occasion=occasion)
    return stage, [*writes, patterns.OUTBOX.message(stores, request.pagw_id, QUEUES[stage], message)]


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
