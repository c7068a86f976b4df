"""The audit log: events of a request, their actors, and every read of PHI. Events hold ids and no PHI.

An event is a row, written in the transaction of the change it describes, and later a file in the audit
bucket, sent through the outbox.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from holdfast import Queue, Stores
from holdfast.core.rng import make_uuid
from holdfast.model.sql import SqlWrite
from pagw.model import patterns
from pagw.model.entities import AuditEntry, AuditMessage, audit_events

SERVICE_VERSION: Final = "1.0.0"
# Replaces the request id in the file name of an event without a request.
NO_REQUEST: Final = "none"


@dataclass(frozen=True)
class Actor:
    """The actor of an event: one of the gateway's services, a client's user, or the system itself."""

    type: str
    id: str

    @classmethod
    def service(cls, name: str) -> Actor:
        return cls("service", name)


@dataclass(frozen=True)
class AuditEvent:
    """An event to record. Every reader of the audit log sees `details`: ids, counts, codes, hashes only."""

    type: str
    actor: Actor
    service: str
    tenant: str | None = None
    pagw_id: str | None = None
    subtype: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def build_audit_writes(
    stores: Stores, event: AuditEvent, *announced: tuple[Any, Queue[Any]]
) -> tuple[SqlWrite[Any], ...]:
    """Return the writes of an event, its row and its outbox message, for the transaction of the change it
    describes. `announced` are further messages of the event's request, each with its queue.
    """
    entry = _build_entry(event, stores.now())
    message = AuditMessage(
        event_uuid=entry.event_uuid,
        pagw_id=event.pagw_id,
        service_name=event.service,
        timestamp=entry.timestamp,
        event=entry.model_dump(mode="json", exclude_none=True),
    )
    # Messages of one aggregate wait for each other's commits, so events without a request are spread.
    aggregate = event.pagw_id or f"{NO_REQUEST}-{entry.event_uuid[:2]}"
    return (
        patterns.record_audit(entry),
        patterns.OUTBOX.enqueue_all(stores, aggregate, (message, audit_events), *announced),
    )


async def record_event(stores: Stores, event: AuditEvent) -> None:
    """Record an event that accompanies no other write: a read or a refusal."""
    await stores.transact(*build_audit_writes(stores, event))


def _build_entry(event: AuditEvent, at: datetime) -> AuditEntry:
    """Build the row of an event, with a new random id."""
    return AuditEntry(
        event_uuid=str(make_uuid()),
        tenant=event.tenant,
        pagw_id=event.pagw_id,
        event_type=event.type,
        event_subtype=event.subtype,
        actor_type=event.actor.type,
        actor_id=event.actor.id,
        resource_type=event.resource_type,
        resource_id=event.resource_id,
        details=dict(event.details),
        timestamp=at,
        service_name=event.service,
        service_version=SERVICE_VERSION,
    )
