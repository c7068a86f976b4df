"""Replay: an operator sends a request to its stage again.

An active request is sent to its stage under a new occasion, which the inbox does not know; if the stage has
finished its step meanwhile, nothing happens. A FAILED request first returns to the status in which it failed.
If a payer had refused it permanently, the refusal is cleared, so that the payer is called again (a payer that
knows the reference repeats its answer). A request that waits for its payer continues with the newest
unprocessed callback; without one, the connector inquires at the payer. The same applies to a request that
FAILED because the payer's answer was inconsistent.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Pattern, Rate, Stores, pattern
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.model.sql import SqlChange, SqlWrite
from holdfast.model.ulids import UlidGenerator
from pagw.domain.statuses import STAGE_BY_STATUS, Stage, Status
from pagw.model import files, patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import QUEUES, IdempotencyRecord, RequestRow, StageMessage, pagw
from pagw.ops.monitoring import any_request
from pagw.workers.payer_callbacks import build_callback_message
from pagw.workers.payer_polling import build_inquiry_message, compute_first_inquiry
from pagw.workers.stages.callback_handler import is_payer_fault
from pagw.workers.stages.payer_answers import get_newest_callback

SERVICE: Final = "operator"
_NOW: Final = datetime(2026, 11, 2, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"


@pattern(
    "M20",
    "Return a failed request to the status in which it failed",
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
    """Return the request to `status`: where it failed, or PENDED after an inconsistent payer answer."""
    return pagw.change(
        """UPDATE pagw.request_tracker
           SET status = %(status)s, stage = %(stage)s, updated_at = %(at)s, completed_at = NULL,
               error_code = NULL,
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


@pattern(
    "M21",
    "Claim a request for a replay, if it is unchanged",
    rate=Rate(per="change by an operator"),
    example=(_ID, _NOW, _NOW),
)
def claim_replay(pagw_id: str, seen: datetime, at: datetime) -> SqlChange:
    """Mark the request as changed now. Raise `ConditionFailed` if it was changed after `seen`."""
    return pagw.change(
        """UPDATE pagw.request_tracker SET updated_at = %(at)s
           WHERE pagw_id = %(pagw_id)s AND updated_at = %(seen)s""",
        pagw_id=pagw_id,
        seen=seen,
        at=at,
    ).expect_rows(1)


PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (any_request, files.payer_request, reopen, claim_replay)


async def replay(stores: Stores, pagw_id: str, actor: Actor, *, seen: datetime | None = None) -> Stage:
    """Send a request to its stage again and return the stage.

    With `seen`, the time of its last change that the operator saw, only if it is unchanged. Raise `NotFound`
    for an unknown request, `InvalidRequest` for one that completed or was cancelled, and `ConditionFailed`
    for one that changed.
    """
    request = await stores.run(any_request(pagw_id))
    if request is None:
        raise NotFound(f"Request {pagw_id} not found.")
    occasion = f"replay-{UlidGenerator(stores.clock).new()}"
    if _is_waiting_for_payer(request) or is_payer_fault(request):
        stage, writes = _plan_payer_replay(stores, request, occasion)
    else:
        stage, writes = await _plan_stage_replay(stores, request, occasion)
    claims = () if seen is None else (claim_replay(pagw_id, seen, stores.now()),)
    await stores.transact(*claims, *writes, *build_audit_writes(stores, _build_event(request, actor, stage)))
    return stage


def _plan_payer_replay(
    stores: Stores, request: RequestRow, occasion: str
) -> tuple[Stage, list[SqlWrite[Any]]]:
    """Return stage and writes of a replay by the newest callback, or by an inquiry at the payer if that
    callback was already processed.
    """
    writes: list[SqlWrite[Any]] = []
    if request.status is Status.FAILED:
        at = stores.now()
        failed_at, inquire_at = (
            Status(request.metadata["failedAt"]),
            compute_first_inquiry(at, request.due_at),
        )
        reopened = reopen(request.pagw_id, failed_at, Status.PENDED, Stage.payer, at, inquire_at)
        writes.append(reopened.expect_rows(1))
    number = get_newest_callback(request)
    if number is None or number in (request.metadata.get("interim"), request.metadata.get("callback")):
        return Stage.api_connector, [*writes, build_inquiry_message(stores, request, occasion)]
    return Stage.callback_handler, [*writes, build_callback_message(stores, request, number, occasion)]


async def _plan_stage_replay(
    stores: Stores, request: RequestRow, occasion: str
) -> tuple[Stage, list[SqlWrite[Any]]]:
    """Return stage and writes that send the request to the stage of its status. Reopen a failed request, and
    clear a payer's refusal of it.
    """
    status = _get_resume_status(request)
    stage = STAGE_BY_STATUS[status]
    writes: list[SqlWrite[Any]] = []
    if request.status is Status.FAILED:
        if status is Status.CONVERTED:
            await _clear_refusal(stores, request)
        at = stores.now()
        writes.append(reopen(request.pagw_id, status, status, stage, at).expect_rows(1))
    message = StageMessage(pagw_id=request.pagw_id, tenant=request.tenant, stage=stage, occasion=occasion)
    return stage, [*writes, patterns.OUTBOX.enqueue(stores, request.pagw_id, message, queue=QUEUES[stage])]


def _get_resume_status(request: RequestRow) -> Status:
    """Return the status from which the request resumes. Raise `InvalidRequest` if it has ended."""
    status = request.status
    if status is Status.FAILED and (failed_at := request.metadata.get("failedAt")):
        status = Status(str(failed_at))
    if status not in STAGE_BY_STATUS:
        raise InvalidRequest(f"{request.pagw_id} is {request.status}: nothing to replay.")
    return status


def _is_waiting_for_payer(request: RequestRow) -> bool:
    """Return whether the request is pended and its payer is to answer."""
    return request.status is Status.PENDED and request.stage is Stage.payer


async def _clear_refusal(stores: Stores, request: RequestRow) -> None:
    """Clear the recorded refusal of the payer call, so that the payer is called again."""
    sent = (await stores.run(files.payer_request(request.created_at, request.pagw_id))).body
    record = IdempotencyRecord(
        idempotency_key=f"{request.tenant}:{request.pagw_id}#payer",
        pagw_id=request.pagw_id,
        payload_sha256=hashlib.sha256(sent).hexdigest(),
    )
    await patterns.CALLS.reopen(stores, record)


def _build_event(request: RequestRow, actor: Actor, stage: Stage) -> AuditEvent:
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
