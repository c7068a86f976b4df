"""The audit: what happened to a request, who did it, and who read what is in it. It holds pointers and no PHI.

An event is a row in the transaction of what it is about, and through the outbox a file in the audit bucket.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import getrandbits
from typing import Any, Final

from holdfast import SqlWrite, Stores
from pagw import patterns
from pagw.model import AuditEntry, AuditMessage, audit_events

SERVICE_VERSION: Final = "1.0.0"
# In place of a request's id in the name of a file that is about none.
NO_REQUEST: Final = "none"


@dataclass(frozen=True)
class Actor:
    """Who did it: a service of ours, a client's user, or the system by itself."""

    type: str
    id: str

    @classmethod
    def service(cls, name: str) -> Actor:
        return cls("service", name)


@dataclass(frozen=True)
class AuditEvent:
    """What happened. `details` is shown to anybody who may read the audit: ids, counts, codes, hashes."""

    type: str
    actor: Actor
    service: str
    tenant: str | None = None
    pagw_id: str | None = None
    subtype: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


def audited(stores: Stores, event: AuditEvent) -> tuple[SqlWrite[Any], ...]:
    """The writes of an event, for the transaction of what it is about."""
    entry = _entry(event, datetime.fromtimestamp(stores.clock.now(), UTC))
    message = AuditMessage(
        event_uuid=entry.event_uuid,
        pagw_id=event.pagw_id,
        service_name=event.service,
        timestamp=entry.timestamp,
        event=entry.model_dump(mode="json", exclude_none=True),
    )
    # Announcements of one aggregate wait for each other's commits: those of no request are spread.
    aggregate = event.pagw_id or f"{NO_REQUEST}-{entry.event_uuid[:2]}"
    return (
        patterns.record_audit(entry),
        patterns.OUTBOX.message(stores, aggregate, audit_events, message),
    )


async def record(stores: Stores, event: AuditEvent) -> None:
    """An event that is about nothing that is written: a read, or a refusal."""
    await stores.transact(*audited(stores, event))


def _entry(event: AuditEvent, at: datetime) -> AuditEntry:
    return AuditEntry(
        # Unlike uuid4, without asking the system: that costs more than all the rest of the entry.
        event_uuid=str(uuid.UUID(int=getrandbits(128), version=4)),
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
