"""What became of a request: its trail across the stores, from its key to its deliveries, in words and as data.

It tells pointers: ids, states, times, sizes, hashes. Nothing of what is in a file is read, a client's key and the path of
its address are left out, and so whoever may see the trail need not be allowed to see a patient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast import Explanation, HeadObject, Rate, SqlRow, SqlRows, Stores, pattern
from holdfast.errors import InvalidRequest, NotFound
from pagw import holds, notices, patterns
from pagw.formers import PAGW_ID
from pagw.model import AuditRow, DeliveryRow, IdempotencyRecord, Tracked, original_bundle, pagw
from pagw.monitoring import any_request
from pagw.statuses import TERMINAL

LOOK: Final = Rate(per="look of an operator")
# Not shown: what a client has written itself.
PRIVATE: Final = ("idempotencyKey", "callbackUrl")
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"


class WaitingMessage(SqlRow):
    """A row of the outbox that is not with its queue."""

    id: int
    queue_name: str
    aggregate: str
    created_at: datetime
    retry_count: int
    next_attempt_at: datetime | None
    dead_at: datetime | None
    last_error: str | None


@pattern("M40", "What waits in the outbox of a request", rate=LOOK, example=([_ID],))
def waiting_of(aggregates: Sequence[str]) -> SqlRows[WaitingMessage]:
    return pagw.rows(
        WaitingMessage,
        """SELECT {columns} FROM pagw.outbox
           WHERE aggregate = ANY(%(aggregates)s::text[]) AND NOT processed ORDER BY id""",
        aggregates=tuple(aggregates),
    )


@pattern("M41", "The size and hash of a file of a request", rate=LOOK, example=(f"202611/{_ID}/x.json",))
def file_info(key: str) -> HeadObject:
    return HeadObject(original_bundle, key)


READS: Final = (
    any_request,
    waiting_of,
    holds.files_of,
    holds.holds,
    patterns.submission,
    patterns.audit_of,
    notices.deliveries_of,
)
# On S3 whoever may ask for a hash may read the file: agents are told sizes alone.
READS_HASHES: Final = (*READS, file_info)


async def why(stores: Stores, id: str) -> Explanation:
    """`id` is that of a request: PAGW-…"""
    return await trail(stores, id, hashes=True)


async def trail(stores: Stores, id: str, *, hashes: bool) -> Explanation:
    request = await known(stores, id)
    keys = await _keys(stores, request)
    audit = await stores.run(patterns.audit_of(request.tenant, request.pagw_id))
    kept = await _files(stores, request, hashes=hashes)
    deliveries = await stores.run(notices.deliveries_of(request.tenant, request.pagw_id))
    aggregates = [request.pagw_id, *(each.delivery_id for each in deliveries)]
    waits = await stores.run(waiting_of(aggregates))
    held = await stores.run(holds.holds(request.pagw_id))
    data = {
        "request": pointers(request),
        "keys": keys,
        "audit": [_event(each) for each in audit],
        "files": kept,
        "deliveries": [_delivery(each) for each in deliveries],
        "waits": [each.model_dump(mode="json") for each in waits],
        "held": [each.model_dump(mode="json") for each in held],
    }
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    return Explanation([*_standing(request, now), *_lines(data)], data)


async def known(stores: Stores, id: str) -> Tracked:
    if not PAGW_ID.fullmatch(id):
        raise InvalidRequest("That is no id of a request: it is PAGW- and 26 letters and digits.")
    found = await stores.run(any_request(id))
    if found is None:
        raise NotFound(
            f"There is no request {id}. If there was, its retention is over, or its call never ended."
        )
    return found


def pointers(request: Tracked) -> dict[str, Any]:
    """The row, without what a client has written itself."""
    shown = request.model_dump(mode="json")
    shown["metadata"] = {name: value for name, value in request.metadata.items() if name not in PRIVATE}
    return shown


# --- the stores, one after the other --------------------------------------------------------------------------------


async def _keys(stores: Stores, request: Tracked) -> list[dict[str, Any]]:
    """The client's key, and the record of the call at the payer. Both end after two days."""
    found = []
    for what, key in (
        ("submission", request.metadata.get("idempotencyKey")),
        ("call at the payer", f"{request.tenant}:{request.pagw_id}#payer"),
    ):
        record = await stores.run(patterns.submission(str(key))) if key else None
        if record is not None and record.pagw_id == request.pagw_id:
            found.append(_key(what, record))
    return found


def _key(what: str, record: IdempotencyRecord) -> dict[str, Any]:
    return {
        "of": what,
        "status": record.status,
        "statusCode": record.status_code,
        "responseHash": record.response_hash,
        "responseKey": record.response_key,
        "refused": record.refused,
        "attempts": record.attempts,
        "expiresAt": None if record.expires_at is None else record.expires_at.isoformat(),
    }


async def _files(stores: Stores, request: Tracked, *, hashes: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await stores.run(holds.files_of(request.created_at, request.pagw_id, cursor))
        for each in page.objects:
            info = await stores.run(file_info(each.key)) if hashes else None
            found.append(
                {"key": each.key, "bytes": each.bytes if info is None else info.bytes}
                | ({} if info is None else {"sha256": info.sha256, "held": info.held})
            )
        cursor = page.cursor
        if cursor is None:
            return found


def _event(row: AuditRow) -> dict[str, Any]:
    shown = row.model_dump(mode="json", exclude={"tenant", "pagw_id"})
    return {name: value for name, value in shown.items() if value is not None}


def _delivery(row: DeliveryRow) -> dict[str, Any]:
    shown = row.model_dump(mode="json", exclude={"tenant", "pagw_id", "secret_name"})
    return {**shown, "target": origin_of(row.target)}


def origin_of(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


# --- in words -------------------------------------------------------------------------------------------------------


def _standing(request: Tracked, now: datetime) -> list[str]:
    lines = [
        f"{request.pagw_id} of {request.tenant}: {request.status}, with {request.stage or 'nobody'}, "
        f"a {request.urgency} {request.kind} to {request.payer_id} by {request.provider_npi}, since {_at(request.created_at)}."
    ]
    if request.replaces is not None:
        lines.append(f"It is about {request.replaces}.")
    if request.decided_at is not None:
        lines.append(f"Decided {_at(request.decided_at)}: {request.decision}; due was {_at(request.due_at)}.")
    elif request.status not in TERMINAL:
        late = (
            "which is over"
            if request.due_at < now
            else f"in {(request.due_at - now).total_seconds() / 3600:.0f} h"
        )
        lines.append(f"A decision is due {_at(request.due_at)}, {late}.")
    if request.error_code is not None:
        lines.append(
            f"Error {request.error_code}: {request.error_message or 'no words'}, {request.retry_count} retries."
        )
    return lines


def _lines(data: Mapping[str, Any]) -> list[str]:
    lines = [f"key ({each['of']}): {each['status']}, until {each['expiresAt']}" for each in data["keys"]]
    lines += [f"{each['timestamp'][:19]} {_said(each)} by {each['service_name']}" for each in data["audit"]]
    lines += [
        f"file {each['key']}: {each['bytes']} bytes"
        + (f", sha256 {each['sha256'][:16]}…" if "sha256" in each else "")
        for each in data["files"]
    ]
    lines += [
        f"delivery {each['delivery_id']} to {each['target']}: {each['status']} after {each['attempts']} tries"
        for each in data["deliveries"]
    ]
    lines += [
        f"waits for {each['queue_name']}: {'dead' if each['dead_at'] else 'pending'}, {each['retry_count']} tries"
        for each in data["waits"]
    ]
    lines += [f"under legal hold since {each['placed_at'][:19]}: {each['reason']}" for each in data["held"]]
    return lines


def _said(event: Mapping[str, Any]) -> str:
    subtype = f" {event['event_subtype']}" if "event_subtype" in event else ""
    details = event.get("details") or {}
    told = ", ".join(f"{name} {value}" for name, value in details.items() if name != "from")
    return f"{event['event_type']}{subtype}{f' ({told})' if told else ''}"


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
