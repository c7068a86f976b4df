"""Legal holds: a request under one is kept beyond its retention, with its rows, files and audit events.

A row in `pagw.legal_holds` makes retention skip the request, in the same transaction that removes requests.
Each file also has a hold in its bucket, which the bucket's lifecycle respects. Placing a hold writes the row
first, lifting removes it last, so that a held file always has a row. `renew_holds`, which the sweeper calls,
holds files that were added later.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Rate, Stores, pattern
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.model.objects import ListObjects, SetLegalHold
from holdfast.model.sql import SqlChange, SqlRow, SqlRows
from pagw.model import patterns
from pagw.model.audit import Actor, AuditEvent, build_audit_writes
from pagw.model.entities import AuditRow, RequestRow, audit_event, original_bundle, pagw
from pagw.ops.monitoring import any_request

SERVICE: Final = "operator"
MAX_REASON_CHARS: Final = 200
PER_LEGAL_HOLD: Final = Rate(per="legal hold")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"


class HoldRow(SqlRow):
    """A row of `pagw.legal_holds`."""

    pagw_id: str
    reason: str
    placed_by: str
    placed_at: datetime


@pattern(
    "H1", "Place a legal hold on a request", rate=PER_LEGAL_HOLD, example=(_ID, "case 12", "operator", _NOW)
)
def place_row(pagw_id: str, reason: str, placed_by: str, at: datetime) -> SqlChange:
    """Insert the hold, or keep the existing one.

    The row lock serialises it with retention: either retention has removed the request, and no row is
    inserted (`ConditionFailed`), or retention waits and then sees the hold.
    """
    return pagw.change(
        """INSERT INTO pagw.legal_holds (pagw_id, reason, placed_by, placed_at)
           SELECT pagw_id, %(reason)s, %(placed_by)s, %(at)s FROM pagw.request_tracker
           WHERE pagw_id = %(pagw_id)s FOR UPDATE
           ON CONFLICT (pagw_id) DO UPDATE SET reason = legal_holds.reason""",
        pagw_id=pagw_id,
        reason=reason,
        placed_by=placed_by,
        at=at,
    ).expect_rows(1)


@pattern("H2", "Lift a legal hold", rate=PER_LEGAL_HOLD, example=(_ID,))
def lift_row(pagw_id: str) -> SqlChange:
    return pagw.change("DELETE FROM pagw.legal_holds WHERE pagw_id = %(pagw_id)s", pagw_id=pagw_id)


@pattern("H3", "Legal holds, oldest first", rate=PER_LEGAL_HOLD, example=())
def holds(pagw_id: str | None = None) -> SqlRows[HoldRow]:
    """Select all legal holds, or that of one request."""
    return pagw.rows(
        HoldRow,
        """SELECT {columns} FROM pagw.legal_holds
           WHERE %(pagw_id)s::text IS NULL OR pagw_id = %(pagw_id)s ORDER BY placed_at, pagw_id""",
        pagw_id=pagw_id,
    )


@pattern("H4", "Files of a request, in key order", rate=PER_LEGAL_HOLD, example=(_NOW, _ID))
def files_of(created_at: datetime, pagw_id: str, cursor: str | None = None) -> ListObjects:
    return ListObjects(original_bundle, f"{get_folder(created_at, pagw_id)}/", cursor=cursor)


@pattern(
    "H5",
    "Set or clear the legal hold of a request's file",
    rate=PER_LEGAL_HOLD,
    example=(f"202611/{_ID}/x.json", True),
)
def hold_file(key: str, held: bool) -> SetLegalHold:
    """Set the legal hold of the file at this key, or clear it if `held` is false."""
    return SetLegalHold(original_bundle, key, held)


@pattern(
    "H6",
    "Set or clear the legal hold of an audit event's file",
    rate=PER_LEGAL_HOLD,
    example=(True, _NOW, "pasorchestrator", _ID, "00000000-0000-4000-8000-000000000000"),
)
def hold_audit_file(held: bool, created_at: datetime, service: str, pagw_id: str, uuid: str) -> SetLegalHold:
    return audit_event.set_legal_hold(
        held, created_at=created_at, service=service, pagw_id=pagw_id, uuid=uuid
    )


READS: Final = (holds, files_of, any_request, patterns.audit_of)
WRITES: Final = (place_row, lift_row, hold_file, hold_audit_file)


def get_folder(created_at: datetime, pagw_id: str) -> str:
    """Return the folder of all files of a request: `202611/PAGW-…`."""
    key = original_bundle.build_key(created_at=created_at, pagw_id=pagw_id)
    return "/".join(key.split("/")[:2])


async def place_hold(stores: Stores, pagw_id: str, reason: str, actor: Actor) -> int:
    """Place a legal hold and return the number of held files. Safe to repeat. Raise `InvalidRequest` for an
    empty or long reason, `NotFound` for an unknown request.
    """
    if not 0 < len(reason.strip()) <= MAX_REASON_CHARS:
        raise InvalidRequest(
            f"Invalid reason: expected 1 to {MAX_REASON_CHARS} characters, such as a case number."
        )
    request = await _get_request(stores, pagw_id)
    at = stores.now()
    if not await stores.run(holds(pagw_id)):
        await stores.transact(
            place_row(pagw_id, reason.strip(), actor.id, at),
            *build_audit_writes(stores, _build_event(request, actor, "placed")),
        )
    return await _set_holds(stores, request, held=True)


async def lift_hold(stores: Stores, pagw_id: str, actor: Actor) -> int:
    """Lift a legal hold and return the number of released files. The next retention run removes the request
    if it has expired. Raise `NotFound` if there is no hold.
    """
    if not await stores.run(holds(pagw_id)):
        raise NotFound(f"{pagw_id} has no legal hold. `holds list` shows all holds.")
    request = await _get_request(stores, pagw_id)
    freed = await _set_holds(stores, request, held=False)
    await stores.transact(
        lift_row(pagw_id).expect_rows(1), *build_audit_writes(stores, _build_event(request, actor, "lifted"))
    )
    return freed


async def renew_holds(stores: Stores) -> int:
    """Hold the files that held requests have received since: responses, callbacks, audit events. Return the
    number of held files.
    """
    held = 0
    for each in await stores.run(holds()):
        held += await _set_holds(stores, await _get_request(stores, each.pagw_id), held=True)
    return held


async def _set_holds(stores: Stores, request: RequestRow, *, held: bool) -> int:
    """Set or clear the hold of all files and audit files of a request. Return their number."""
    count = 0
    async for key in iterate_keys(stores, request.created_at, request.pagw_id):
        await stores.run(hold_file(key, held))
        count += 1
    for row in await stores.run(patterns.audit_of(request.tenant, request.pagw_id)):
        count += await _set_audit_hold(stores, row, request.pagw_id, held=held)
    return count


async def iterate_keys(stores: Stores, created_at: datetime, pagw_id: str) -> AsyncIterator[str]:
    """Yield the keys of all files of a request."""
    cursor: str | None = None
    while True:
        page = await stores.run(files_of(created_at, pagw_id, cursor))
        for each in page.objects:
            yield each.key
        cursor = page.cursor
        if cursor is None:
            return


async def _set_audit_hold(stores: Stores, row: AuditRow, pagw_id: str, *, held: bool) -> int:
    """Set the hold of one audit file. Return 0 if it is not yet in the bucket; the next renewal holds it."""
    try:
        await stores.run(hold_audit_file(held, row.timestamp, row.service_name, pagw_id, row.event_uuid))
    except NotFound:
        return 0
    return 1


async def _get_request(stores: Stores, pagw_id: str) -> RequestRow:
    """Return the request of any tenant. Raise `NotFound` if it does not exist."""
    request = await stores.run(any_request(pagw_id))
    if request is None:
        raise NotFound(f"Request {pagw_id} not found.")
    return request


def _build_event(request: RequestRow, actor: Actor, subtype: str) -> AuditEvent:
    details: dict[str, Any] = {"status": request.status}
    return AuditEvent(
        type="LEGAL_HOLD",
        subtype=subtype,
        actor=actor,
        service=SERVICE,
        tenant=request.tenant,
        pagw_id=request.pagw_id,
        resource_type="request",
        resource_id=request.pagw_id,
        details=details,
    )
