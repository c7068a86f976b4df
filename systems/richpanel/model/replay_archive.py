"""The replay archive: events with their texts, encrypted at rest, for a limited time. Off by default.

It is the only place that stores a customer's text, and only if an operator switches it on (RP_MW_ARCHIVE=on).
Keys contain ids only: a copy that is processed on another day has the same key, and the events of a
conversation share a prefix. An archived event is written once; its lifetime starts then.
"""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast import Bucket, Rate, Stores, pattern
from holdfast.core.errors import AlreadyExists
from holdfast.model.objects import DeleteObject, GetObject, HeadObject, ListObjects, PutObject
from holdfast.runtime import sweep_buckets
from richpanel.domain.inbound_events import EventMessage, InboundEvent

LIFETIME_DAYS: Final = 14
SWEEP_EVERY_S: Final = 3600.0

archive = Bucket(
    "rp-mw-replay-archive",
    encryption="kms",
    legal_holds=True,
    purpose="Events with their texts, for replay; off by default",
)
replays = archive.objects(
    "replay/{conversation_id}/{event_id}.json",
    content_type="application/json",
    lifetime_days=LIFETIME_DAYS,
)


@pattern(
    "RA1",
    "Archive an event with its text, for replay",
    rate=Rate(per="archived event"),
    example=(b"{}", "c-1", "evt:rp:c-1:m-1"),
)
def keep(body: bytes, conversation_id: str, event_id: str) -> PutObject:
    """Store an event's JSON under its ids. Raise `AlreadyExists` if it is stored already."""
    return replays.put(body, conversation_id=conversation_id, event_id=event_id)


@pattern(
    "RA2", "Get an archived event with its text", rate=Rate(per="replay"), example=("c-1", "evt:rp:c-1:m-1")
)
def archived(conversation_id: str, event_id: str) -> GetObject:
    """Read an archived event. Raise `NotFound` if there is none."""
    return replays.get(conversation_id=conversation_id, event_id=event_id)


@pattern("RA3", "List the archived events of a conversation", rate=Rate(per="erasure"), example=("c-1",))
def of_conversation(conversation_id: str, cursor: str | None = None) -> ListObjects:
    """List the keys of a conversation's archived events, page by page."""
    return replays.list_objects(conversation_id=conversation_id, cursor=cursor)


@pattern(
    "RA5",
    "Check whether an archived event is under a legal hold",
    rate=Rate(per="erasure"),
    example=("replay/c-1/evt.json",),
)
def look_at(key: str) -> HeadObject:
    """Read the metadata of the object at a listed key, such as its legal hold."""
    return HeadObject(replays, key)


@pattern("RA4", "Delete an archived event", rate=Rate(per="erasure"), example=("replay/c-1/evt.json",))
def forget(key: str) -> DeleteObject:
    """Delete a listed key."""
    return DeleteObject(replays, key)


async def sweep(stores: Stores) -> None:
    """Delete expired objects if the archive is a folder, which has no lifecycle rules of its own."""
    await sweep_buckets(stores, (archive,))


async def archive_event(stores: Stores, message: EventMessage, event: InboundEvent) -> None:
    """Archive an event. Keep the object of an earlier attempt as it is."""
    body: dict[str, Any] = {
        "message": message.model_dump(mode="json"),
        "event": event.model_dump(mode="json"),
    }
    try:
        await stores.run(keep(json.dumps(body).encode(), message.conversation_id, message.event_id))
    except AlreadyExists:
        return
