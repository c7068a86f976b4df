"""The replay archive: events with their texts, encrypted at rest, for as long as a replay may be wanted. Off by default.

It is the one place where a customer's words are kept, and only where an operator has switched it on (RP_MW_ARCHIVE=on).
Keys are made of ids alone: a copy that is worked on another day has the same key, and all of a conversation is listed
by how its keys begin. An archived event is written once; its days are counted from then.
"""

from __future__ import annotations

import json
from typing import Any, Final

from holdfast import (
    Bucket,
    DeleteObject,
    GetObject,
    HeadObject,
    ListObjects,
    PutObject,
    Rate,
    Stores,
    pattern,
    sweep_buckets,
)
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
    "replay/{conversation_id}/{event_id}.json",
    content_type="application/json",
    lifetime_days=LIFETIME_DAYS,
)


@pattern(
    "RA1",
    "Keep an event with its text, for replay",
    rate=Rate(per="archived event"),
    example=(b"{}", "c-1", "evt:rp:c-1:m-1"),
)
def keep(body: bytes, conversation_id: str, event_id: str) -> PutObject:
    return replays.put(body, conversation_id=conversation_id, event_id=event_id)


@pattern("RA2", "An event with its text", rate=Rate(per="replay"), example=("c-1", "evt:rp:c-1:m-1"))
def archived(conversation_id: str, event_id: str) -> GetObject:
    return replays.get(conversation_id=conversation_id, event_id=event_id)


@pattern("RA3", "What is archived of a conversation", rate=Rate(per="erasure"), example=("c-1",))
def of_conversation(conversation_id: str, cursor: str | None = None) -> ListObjects:
    return replays.listing(conversation_id=conversation_id, cursor=cursor)


@pattern(
    "RA5", "Whether it is under a legal hold", rate=Rate(per="erasure"), example=("replay/c-1/evt.json",)
)
def look_at(key: str) -> HeadObject:
    """By a key that was listed."""
    return HeadObject(replays, key)


@pattern("RA4", "Forget what is archived", rate=Rate(per="erasure"), example=("replay/c-1/evt.json",))
def forget(key: str) -> DeleteObject:
    """By a key that was listed."""
    return DeleteObject(replays, key)


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
        await stores.run(keep(json.dumps(body).encode(), message.conversation_id, message.event_id))
    except AlreadyThere:
        return
