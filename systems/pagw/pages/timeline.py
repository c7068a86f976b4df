"""The timeline of a request: one order of time over the audit log, messages, files, keys and deliveries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from holdfast.console import build_item_url, build_object_url, build_row_url
from pagw.api.explain import get_origin
from pagw.domain.statuses import Status
from pagw.model.entities import AuditRow, DeliveryRow, idempotency, pagw, requests_bucket
from pagw.ops.request_trail import KeyState, MessageRow, RequestTrail
from pagw.pages.access import SYSTEM, Reader

# The stores of the timeline, with what each keeps of a request.
STORES: Final = {
    "rows": "Rows (SQL)",
    "objects": "Objects",
    "queues": "Queues and outbox",
    "keys": "Idempotency keys",
}
_STATUS_KINDS: Final = {
    Status.COMPLETED: "good",
    Status.FAILED: "bad",
    Status.CANCELLED: "warn",
    Status.PENDED: "warn",
}
_TITLES: Final = {
    "PHI_READ": "Contents read",
    "PAYER_CALLBACK": "The payer called back",
    "REPLAY": "Replayed",
    "LEGAL_HOLD": "Legal hold",
    "DELIVERY": "Notification",
    "DECISION": "A later decision of the payer",
    "STEP": "A step without a change of status",
}


@dataclass(frozen=True)
class TimelineEntry:
    """One thing that happened, in which store, and the raw record of it in the data browser."""

    at: datetime
    store: str
    title: str
    detail: str = ""
    kind: str = ""
    url: str = ""
    # The place in the order, if the store keeps only the second of `at`.
    order_at: datetime | None = None


def build_timeline(trail: RequestTrail, reader: Reader, store: str = "") -> list[TimelineEntry]:
    """Return what happened, the oldest first; with `store`, only in that one."""
    entries = [
        *(_describe_event(each, reader) for each in trail.events),
        *(entry for each in trail.messages for entry in _list_message_entries(each, reader)),
        *(_describe_file(each) for each in trail.files),
        *(entry for each in trail.keys for entry in _list_key_entries(each, _find_conversion(trail))),
        *(_describe_delivery(each, reader) for each in trail.deliveries),
    ]
    shown = [each for each in entries if store in ("", each.store)]
    return sorted(shown, key=lambda each: each.order_at or each.at)


def _find_conversion(trail: RequestTrail) -> datetime | None:
    """Return when the request was converted: the call to its payer begins after that."""
    return next((each.timestamp for each in trail.events if each.event_subtype == Status.CONVERTED), None)


def _describe_event(row: AuditRow, reader: Reader) -> TimelineEntry:
    """Return a row of the audit log."""
    details = dict(row.details or {})
    kind = ""
    if row.event_type == "STATUS":
        title = row.event_subtype or "Status"
        kind = _STATUS_KINDS.get(Status(title), "") if title in set(Status) else ""
    else:
        subtype = (row.event_subtype or "").replace("_", " ")
        name = _TITLES.get(row.event_type, row.event_type.replace("_", " ").capitalize())
        title = f"{name}: {subtype}" if subtype and row.event_type != "STEP" else name
        kind = "bad" if row.event_subtype == "given_up" or details.get("contradicts") else ""
    by = row.service_name if row.actor_type == "service" else f"{row.actor_type} {row.actor_id or 'unknown'}"
    text = ", ".join(f"{name} {_format_value(value)}" for name, value in details.items() if value is not None)
    return TimelineEntry(
        row.timestamp,
        "rows",
        title,
        reader.mask(f"by {by}{f' · {text}' if text else ''}"),
        kind,
        build_row_url(SYSTEM, pagw.name, "audit_log", {"id": str(row.id)}),
    )


def _format_value(value: Any) -> str:
    return " → ".join(map(str, value)) if isinstance(value, list) else str(value)


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _list_message_entries(row: MessageRow, reader: Reader) -> Iterator[TimelineEntry]:
    """Yield when a message was written and, if it was, sent."""
    url = build_row_url(SYSTEM, pagw.name, "outbox", {"id": str(row.id)})
    if row.processed and row.processed_at is not None:
        took_ms = (row.processed_at - row.created_at).total_seconds() * 1000
        detail = f"Sent {took_ms:,.0f} ms after it was written with its change"
        yield TimelineEntry(row.processed_at, "queues", f"Message to {row.queue_name}", detail, "", url)
        return
    error = reader.mask(row.last_error)
    state = "dead: nobody sends it any more" if row.dead_at else "not sent yet"
    detail = (
        f"In the outbox, {state}, {count_noun(row.retry_count, 'attempt')}{f' · {error}' if error else ''}"
    )
    kind = "bad" if row.dead_at else "waiting"
    yield TimelineEntry(row.created_at, "queues", f"Message to {row.queue_name}", detail, kind, url)


def _describe_file(stored: Any) -> TimelineEntry:
    """Return a file: its name below the request's folder, and its size."""
    name = stored.key.split("/", 2)[-1]
    return TimelineEntry(
        datetime.fromtimestamp(stored.put_at, UTC),
        "objects",
        f"Stored {name}",
        f"{stored.bytes:,} bytes as stored",
        "",
        build_object_url(SYSTEM, requests_bucket.name, stored.key),
    )


def _list_key_entries(state: KeyState, converted_at: datetime | None) -> Iterator[TimelineEntry]:
    """Yield when a key was taken and last changed. Its times are whole seconds."""
    record = state.record
    earliest = converted_at if state.what == "payer call" else None
    url = ""
    # The key of a submission is the client's own text, so no address holds it.
    if state.what == "payer call":
        url = build_item_url(SYSTEM, idempotency.name, {"idempotencyKey": record.idempotency_key})
    refused = f", refused as {record.refused}" if record.refused else ""
    attempts = count_noun(record.attempts, "attempt")
    kept = f", kept until {record.expires_at:%Y-%m-%d %H:%M:%S}" if record.expires_at else ""
    if record.created_at is not None:
        order = max(record.created_at, earliest or record.created_at)
        yield TimelineEntry(
            record.created_at, "keys", f"Key of the {state.what} taken", "", "", url, order_at=order
        )
    if record.last_processed_at is not None and record.last_processed_at != record.created_at:
        yield TimelineEntry(
            record.last_processed_at,
            "keys",
            f"Key of the {state.what}: {str(record.status).lower().replace('_', ' ')}",
            f"{attempts}{refused}{kept}",
            "bad" if record.refused else "",
            url,
            order_at=max(record.last_processed_at, earliest or record.last_processed_at),
        )


def _describe_delivery(row: DeliveryRow, reader: Reader) -> TimelineEntry:
    """Return the creation of a notification to a client, with its present state."""
    attempts = count_noun(row.attempts, "attempt")
    error = reader.mask(row.last_error)
    kinds = {"delivered": "good", "waiting": "waiting"}
    return TimelineEntry(
        row.created_at,
        "rows",
        f"Notification to {get_origin(row.target)}",
        f"{row.status.replace('_', ' ')} after {attempts}{f' · {error}' if error else ''}",
        kinds.get(row.status, "bad"),
        build_row_url(SYSTEM, pagw.name, "deliveries", {"delivery_id": row.delivery_id}),
    )
