"""The replay archive: events with their texts, encrypted at rest, for as long as a replay may be wanted. Off by default.

It is the one place where a customer's words are kept, and only where an operator has switched it on (RP_MW_ARCHIVE=on).
Keys are made of the event's own time and ids, so that a replay finds what was written. An archived event is written once.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Bucket, GetObject, PutObject, Rate, Stores, pattern, sweep_buckets
from holdfast.errors import AlreadyThere
from richpanel.payloads import EventMessage, InboundEvent

LIFETIME_DAYS: Final = 14
SWEEP_EVERY_S: Final = 3600.0

archive = Bucket(
    "rp-mw-replay-archive",
    encryption="kms",
    holds=True,
    purpose="Events with their texts, for replay; off by default",
)
replays = archive.objects(
    "replay/{received_at:%Y/%m/%d}/{conversation_id}/{event_id}.json",
    content_type="application/json",
    lifetime_days=LIFETIME_DAYS,
    created="received_at",
)

_NOW: Final = datetime(2026, 2, 4, 1, tzinfo=UTC)


@pattern(
    "RA1",
    "Keep an event with its text, for replay",
    rate=Rate(per="archived event"),
    example=(b"{}", _NOW, "c-1", "evt:rp:c-1:m-1"),
)
def keep(body: bytes, received_at: datetime, conversation_id: str, event_id: str) -> PutObject:
    return replays.put(body, received_at=received_at, conversation_id=conversation_id, event_id=event_id)


@pattern("RA2", "An event with its text", rate=Rate(per="replay"), example=(_NOW, "c-1", "evt:rp:c-1:m-1"))
def archived(received_at: datetime, conversation_id: str, event_id: str) -> GetObject:
    return replays.get(received_at=received_at, conversation_id=conversation_id, event_id=event_id)


async def sweep(stores: Stores) -> None:
    """Ends what has lived its time, where the archive is a folder. Nothing else would."""
    await sweep_buckets(stores, (archive,))


async def archive_event(stores: Stores, message: EventMessage, event: InboundEvent) -> None:
    """Once: what an earlier attempt has kept stays as it is."""
    body: dict[str, Any] = {
        "message": message.model_dump(mode="json"),
        "event": event.model_dump(mode="json"),
    }
    try:
        await stores.run(
            keep(json.dumps(body).encode(), message.received_at, message.conversation_id, message.event_id)
        )
    except AlreadyThere:
        return
