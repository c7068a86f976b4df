"""Legal holds: a request under one outlives its retention, with its rows, its files and its audit.

A row says so (`pagw.legal_holds`), which retention looks at in the transaction that removes requests; and each file is held
in its bucket, which the bucket's own lifecycle respects. Placing begins with the row, lifting ends with it: at no moment is
a file held by nothing but luck. Files that come later are held by `renew`, which the sweeper calls.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import HoldObject, ListObjects, Rate, SqlChange, SqlRow, SqlRows, Stores, pattern
from holdfast.errors import InvalidRequest, NotFound
from pagw import patterns
from pagw.auditing import Actor, AuditEvent, audited
from pagw.model import AuditRow, Tracked, audit_event, original_bundle, pagw
from pagw.monitoring import any_request

SERVICE: Final = "operator"
REASON_CHARS_MAX: Final = 200
HOLDING: Final = Rate(per="legal hold")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"


class HoldRow(SqlRow):
    """A row of `pagw.legal_holds`."""

    pagw_id: str
    reason: str
    placed_by: str
    placed_at: datetime


@pattern("H1", "Place a legal hold on a request", rate=HOLDING, example=(_ID, "case 12", "operator", _NOW))
def place_row(pagw_id: str, reason: str, placed_by: str, at: datetime) -> SqlChange:
    """It waits for a transaction that removes the request, and then finds none; or that one waits for it, and finds it.
    A hold that is there stays as it was."""
    return pagw.change(
        """INSERT INTO pagw.legal_holds (pagw_id, reason, placed_by, placed_at)
           SELECT pagw_id, %(reason)s, %(placed_by)s, %(at)s FROM pagw.request_tracker
           WHERE pagw_id = %(pagw_id)s FOR UPDATE
           ON CONFLICT (pagw_id) DO UPDATE SET reason = legal_holds.reason""",
        pagw_id=pagw_id,
        reason=reason,
        placed_by=placed_by,
        at=at,
    ).expecting(1)


@pattern("H2", "Lift a legal hold", rate=HOLDING, example=(_ID,))
def lift_row(pagw_id: str) -> SqlChange:
    return pagw.change("DELETE FROM pagw.legal_holds WHERE pagw_id = %(pagw_id)s", pagw_id=pagw_id)


@pattern("H3", "The legal holds, oldest first", rate=HOLDING, example=())
def holds(pagw_id: str | None = None) -> SqlRows[HoldRow]:
    return pagw.rows(
        HoldRow,
        """SELECT {columns} FROM pagw.legal_holds
           WHERE %(pagw_id)s::text IS NULL OR pagw_id = %(pagw_id)s ORDER BY placed_at, pagw_id""",
        pagw_id=pagw_id,
    )


@pattern("H4", "The files of a request, in the order of their keys", rate=HOLDING, example=(_NOW, _ID))
def files_of(created_at: datetime, pagw_id: str, cursor: str | None = None) -> ListObjects:
    return ListObjects(original_bundle, f"{folder_of(created_at, pagw_id)}/", cursor=cursor)


@pattern("H5", "Hold a file of a request, or let it go", rate=HOLDING, example=(f"202611/{_ID}/x.json", True))
def hold_file(key: str, held: bool) -> HoldObject:
    return HoldObject(original_bundle, key, held)


@pattern(
    "H6",
    "Hold an audit event's file, or let it go",
    rate=HOLDING,
    example=(True, _NOW, "pasorchestrator", _ID, "00000000-0000-4000-8000-000000000000"),
)
def hold_audit_file(held: bool, created_at: datetime, service: str, pagw_id: str, uuid: str) -> HoldObject:
    return audit_event.hold(held, created_at=created_at, service=service, pagw_id=pagw_id, uuid=uuid)


READS: Final = (holds, files_of, any_request, patterns.audit_of)
WRITES: Final = (place_row, lift_row, hold_file, hold_audit_file)


def folder_of(created_at: datetime, pagw_id: str) -> str:
    """Where all files of a request are: `202611/PAGW-…`."""
    key = original_bundle.key(created_at=created_at, pagw_id=pagw_id)
    return "/".join(key.split("/")[:2])


async def place(stores: Stores, pagw_id: str, reason: str, actor: Actor) -> int:
    """Gives how many files are held. May be repeated: what is held stays so."""
    if not 0 < len(reason.strip()) <= REASON_CHARS_MAX:
        raise InvalidRequest(
            f"A legal hold has a reason of 1 to {REASON_CHARS_MAX} characters, such as its case."
        )
    request = await _known(stores, pagw_id)
    at = datetime.fromtimestamp(stores.clock.now(), UTC)
    if not await stores.run(holds(pagw_id)):
        await stores.transact(
            place_row(pagw_id, reason.strip(), actor.id, at),
            *audited(stores, _event(request, actor, "placed")),
        )
    return await _hold_all(stores, request, held=True)


async def lift(stores: Stores, pagw_id: str, actor: Actor) -> int:
    """Gives how many files are free again. Retention takes the request with its next run, if its time is over."""
    if not await stores.run(holds(pagw_id)):
        raise NotFound(f"{pagw_id} is under no legal hold: `holds list` shows those there are.")
    request = await _known(stores, pagw_id)
    freed = await _hold_all(stores, request, held=False)
    await stores.transact(lift_row(pagw_id).expecting(1), *audited(stores, _event(request, actor, "lifted")))
    return freed


async def renew(stores: Stores) -> int:
    """Holds what has come to held requests since: answers, callbacks, audit events."""
    held = 0
    for each in await stores.run(holds()):
        held += await _hold_all(stores, await _known(stores, each.pagw_id), held=True)
    return held


async def _hold_all(stores: Stores, request: Tracked, *, held: bool) -> int:
    count = 0
    async for key in keys_of(stores, request.created_at, request.pagw_id):
        await stores.run(hold_file(key, held))
        count += 1
    for row in await stores.run(patterns.audit_of(request.tenant, request.pagw_id)):
        count += await _hold_audit(stores, row, request.pagw_id, held=held)
    return count


async def keys_of(stores: Stores, created_at: datetime, pagw_id: str) -> AsyncIterator[str]:
    cursor: str | None = None
    while True:
        page = await stores.run(files_of(created_at, pagw_id, cursor))
        for each in page.objects:
            yield each.key
        cursor = page.cursor
        if cursor is None:
            return


async def _hold_audit(stores: Stores, row: AuditRow, pagw_id: str, *, held: bool) -> int:
    """An event that is not yet in its bucket is held the next time."""
    try:
        await stores.run(hold_audit_file(held, row.timestamp, row.service_name, pagw_id, row.event_uuid))
    except NotFound:
        return 0
    return 1


async def _known(stores: Stores, pagw_id: str) -> Tracked:
    request = await stores.run(any_request(pagw_id))
    if request is None:
        raise NotFound(f"There is no request {pagw_id}.")
    return request


def _event(request: Tracked, actor: Actor, what: str) -> AuditEvent:
    details: dict[str, Any] = {"status": request.status}
    return AuditEvent(
        type="LEGAL_HOLD",
        subtype=what,
        actor=actor,
        service=SERVICE,
        tenant=request.tenant,
        pagw_id=request.pagw_id,
        resource_type="request",
        resource_id=request.pagw_id,
        details=details,
    )
