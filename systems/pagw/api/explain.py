"""Explanations of a request: its trail across the stores, as text and as data, without PHI.

The trail goes from the idempotency key to the deliveries. It shows ids, states, times, sizes and hashes. It
reads no file contents and leaves out the client's key and the path of its address, so that a reader of the
trail needs no permission to see PHI.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from holdfast import Rate, Stores, pattern
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.model.objects import HeadObject
from holdfast.model.sql import SqlRow, SqlRows
from holdfast.model.system import Explanation
from pagw.domain.statuses import TERMINAL
from pagw.model import delivery_patterns, patterns
from pagw.model.entities import AuditRow, DeliveryRow, IdempotencyRecord, RequestRow, original_bundle, pagw
from pagw.ops import legal_holds
from pagw.ops.monitoring import any_request
from pagw.workers.related_requests import PAGW_ID

PER_OPERATOR_QUERY: Final = Rate(per="look of an operator")
# Written by the client, and so not shown.
PRIVATE_METADATA: Final = ("idempotencyKey", "callbackUrl")
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"


class PendingMessage(SqlRow):
    """A row of the outbox that is not yet sent to its queue."""

    id: int
    queue_name: str
    aggregate: str
    created_at: datetime
    retry_count: int
    next_attempt_at: datetime | None
    dead_at: datetime | None
    last_error: str | None


@pattern("M40", "Unsent outbox messages of a request", rate=PER_OPERATOR_QUERY, example=([_ID],))
def waiting_of(aggregates: Sequence[str]) -> SqlRows[PendingMessage]:
    """Select the unsent outbox messages of these aggregates: a request's id and its deliveries' ids."""
    return pagw.rows(
        PendingMessage,
        """SELECT {columns} FROM pagw.outbox
           WHERE aggregate = ANY(%(aggregates)s::text[]) AND NOT processed ORDER BY id""",
        aggregates=tuple(aggregates),
    )


@pattern(
    "M41", "Size and hash of a request's file", rate=PER_OPERATOR_QUERY, example=(f"202611/{_ID}/x.json",)
)
def file_info(key: str) -> HeadObject:
    return HeadObject(original_bundle, key)


READS: Final = (
    any_request,
    waiting_of,
    legal_holds.files_of,
    legal_holds.holds,
    patterns.submission,
    patterns.audit_of,
    delivery_patterns.deliveries_of,
)
# On S3 the permission to read a hash includes the file itself, so agents get sizes only.
READS_HASHES: Final = (*READS, file_info)


async def why(stores: Stores, id: str) -> Explanation:
    """Explain the request `id` (PAGW-…), hashes of its files included."""
    return await explain_request(stores, id, hashes=True)


async def explain_request(stores: Stores, id: str, *, hashes: bool) -> Explanation:
    """Return a request's trail. `hashes` adds the hash and the legal hold of each file. Raise
    `InvalidRequest` or `NotFound` as `get_request` does.
    """
    request = await get_request(stores, id)
    keys = await _load_keys(stores, request)
    audit = await stores.run(patterns.audit_of(request.tenant, request.pagw_id))
    stored_files = await _list_files(stores, request, hashes=hashes)
    deliveries = await stores.run(delivery_patterns.deliveries_of(request.tenant, request.pagw_id))
    aggregates = [request.pagw_id, *(each.delivery_id for each in deliveries)]
    unsent = await stores.run(waiting_of(aggregates))
    hold_rows = await stores.run(legal_holds.holds(request.pagw_id))
    data = {
        "request": to_pointers(request),
        "keys": keys,
        "audit": [_serialize_event(each) for each in audit],
        "files": stored_files,
        "deliveries": [_serialize_delivery(each) for each in deliveries],
        "waits": [each.model_dump(mode="json") for each in unsent],
        "held": [each.model_dump(mode="json") for each in hold_rows],
    }
    now = stores.now()
    return Explanation([*_format_status(request, now), *_format_trail(data)], data)


async def get_request(stores: Stores, id: str) -> RequestRow:
    """Return the request. Raise `InvalidRequest` for an invalid id, `NotFound` for an unknown one."""
    if not PAGW_ID.fullmatch(id):
        raise InvalidRequest("Invalid request id: expected PAGW- and 26 letters and digits.")
    found = await stores.run(any_request(id))
    if found is None:
        raise NotFound(
            f"Request {id} not found. Its retention may be over, or its submission was interrupted."
        )
    return found


def to_pointers(request: RequestRow) -> dict[str, Any]:
    """Return the row as JSON, without text written by the client."""
    shown = request.model_dump(mode="json")
    shown["metadata"] = {
        name: value for name, value in request.metadata.items() if name not in PRIVATE_METADATA
    }
    return shown


# --- reads from the stores ----------------------------------------------------------------------------------


async def _load_keys(stores: Stores, request: RequestRow) -> list[dict[str, Any]]:
    """Return the client's idempotency key and the record of the payer call. Both expire after two days."""
    found = []
    for what, key in (
        ("submission", request.metadata.get("idempotencyKey")),
        ("payer call", f"{request.tenant}:{request.pagw_id}#payer"),
    ):
        record = await stores.run(patterns.submission(str(key))) if key else None
        if record is not None and record.pagw_id == request.pagw_id:
            found.append(_serialize_key(what, record))
    return found


def _serialize_key(label: str, record: IdempotencyRecord) -> dict[str, Any]:
    """Return an idempotency record as JSON, without the key itself. `label` says what it covers."""
    return {
        "of": label,
        "status": record.status,
        "statusCode": record.status_code,
        "responseHash": record.response_hash,
        "responseKey": record.response_key,
        "refused": record.refused,
        "attempts": record.attempts,
        "expiresAt": None if record.expires_at is None else record.expires_at.isoformat(),
    }


async def _list_files(stores: Stores, request: RequestRow, *, hashes: bool) -> list[dict[str, Any]]:
    """Return key and size of each file of a request; with `hashes` also its hash and legal hold."""
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = await stores.run(legal_holds.files_of(request.created_at, request.pagw_id, cursor))
        for each in page.objects:
            info = await stores.run(file_info(each.key)) if hashes else None
            found.append(
                {"key": each.key, "bytes": each.bytes if info is None else info.bytes}
                | ({} if info is None else {"sha256": info.sha256, "held": info.held})
            )
        cursor = page.cursor
        if cursor is None:
            return found


def _serialize_event(row: AuditRow) -> dict[str, Any]:
    """Return an audit event as JSON, without its tenant and request id and without empty fields."""
    shown = row.model_dump(mode="json", exclude={"tenant", "pagw_id"})
    return {name: value for name, value in shown.items() if value is not None}


def _serialize_delivery(row: DeliveryRow) -> dict[str, Any]:
    """Return a delivery as JSON, without the name of its secret and the path of its target."""
    shown = row.model_dump(mode="json", exclude={"tenant", "pagw_id", "secret_name"})
    return {**shown, "target": get_origin(row.target)}


def get_origin(address: str) -> str:
    """Return scheme and host of an address."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


# --- text ---------------------------------------------------------------------------------------------------


def _format_status(request: RequestRow, now: datetime) -> list[str]:
    """Format the request's state, its decision or due time, and its error, one line each."""
    lines = [
        f"{request.pagw_id} of {request.tenant}: {request.status}, stage {request.stage or 'none'}, "
        f"a {request.urgency} {request.kind} to {request.payer_id} by {request.provider_npi}, "
        f"since {_format_time(request.created_at)}."
    ]
    if request.replaces is not None:
        lines.append(f"It updates or cancels {request.replaces}.")
    if request.decided_at is not None:
        lines.append(
            f"Decided {_format_time(request.decided_at)}: {request.decision}; it was due "
            f"{_format_time(request.due_at)}."
        )
    elif request.status not in TERMINAL:
        late = (
            "which is past"
            if request.due_at < now
            else f"in {(request.due_at - now).total_seconds() / 3600:.0f} h"
        )
        lines.append(f"A decision is due {_format_time(request.due_at)}, {late}.")
    if request.error_code is not None:
        lines.append(
            f"Error {request.error_code}: {request.error_message or 'no message'}, {request.retry_count} "
            "retries."
        )
    return lines


def _format_trail(data: Mapping[str, Any]) -> list[str]:
    """Format each key, audit event, file, delivery, unsent message and legal hold as one line."""
    lines = [f"key ({each['of']}): {each['status']}, until {each['expiresAt']}" for each in data["keys"]]
    lines += [
        f"{each['timestamp'][:19]} {_format_event(each)} by {each['service_name']}" for each in data["audit"]
    ]
    lines += [
        f"file {each['key']}: {each['bytes']} bytes"
        + (f", sha256 {each['sha256'][:16]}…" if "sha256" in each else "")
        for each in data["files"]
    ]
    lines += [
        f"delivery {each['delivery_id']} to {each['target']}: {each['status']} after {each['attempts']} "
        "attempts"
        for each in data["deliveries"]
    ]
    lines += [
        f"unsent to {each['queue_name']}: {'dead' if each['dead_at'] else 'pending'}, "
        f"{each['retry_count']} attempts"
        for each in data["waits"]
    ]
    lines += [f"under legal hold since {each['placed_at'][:19]}: {each['reason']}" for each in data["held"]]
    return lines


def _format_event(event: Mapping[str, Any]) -> str:
    """Format type, subtype and details of an audit event, without its former status."""
    subtype = f" {event['event_subtype']}" if "event_subtype" in event else ""
    details = event.get("details") or {}
    text = ", ".join(f"{name} {value}" for name, value in details.items() if name != "from")
    return f"{event['event_type']}{subtype}{f' ({text})' if text else ''}"


def _format_time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"
