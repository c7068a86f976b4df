"""Example for the privacy tests: a help desk with personal data in tables, a queue and a bucket."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel

from holdfast import (
    Attr,
    Component,
    Entity,
    Key,
    Lifetime,
    Rate,
    Stores,
    System,
    Table,
    Update,
    attr,
    pattern,
)
from holdfast.guarantees import Period, SubjectData
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.system import Privacy

# Far ahead of any engine's clock, so that no item has expired yet.
BEGAN = datetime(2126, 11, 1, tzinfo=UTC)

conversations = Table(
    "Conversations",
    "conversationId",
    ttl="expiresAt",
    stream="NEW_AND_OLD_IMAGES",
    point_in_time_recovery=True,
)
notes = Table("Notes", "conversationId", "noteId", ttl="expiresAt", point_in_time_recovery=True)
counters = Table("Counters", "name")
untold = Table("Untold", "id", ttl="endsAt")


class Conversation(Entity, table=conversations):
    conversation_id: Attr[str] = attr()
    text: Attr[str] = attr(default="")
    began: Attr[datetime] = attr(default=BEGAN)

    of = Key(conversation_id)
    lives = Lifetime(began, timedelta(days=90))


class Note(Entity, table=notes):
    conversation_id: Attr[str] = attr()
    note_id: Attr[str] = attr()
    text: Attr[str] = attr(default="")
    expires_at: Attr[int] = attr(default=2_000_000_000)

    of = Key(conversation_id, note_id)


class Counter(Entity, table=counters):
    name: Attr[str] = attr()
    last: Attr[str] = attr(default="")

    of = Key(name)


class Untold(Entity, table=untold):
    id: Attr[str] = attr()
    ends_at: Attr[int | None] = attr(default=None)

    of = Key(id)


class Job(BaseModel):
    conversation_id: str


jobs = Queue("jobs", Job, retention_s=86400, dead_retention_s=7 * 86400)
archive = Bucket("help-desk-archive", legal_holds=True)
mails = archive.objects("mail/{id}.json", content_type="application/json", lifetime_days=30)
pictures = archive.objects("picture/{id}", content_type="image/png")


@pattern("HD1", "Count", rate=Rate("note"), example=("a", "b"))
def count(name: str, last: str) -> Update[Counter]:
    return Counter.of(name).update().set(Counter.last, last)


async def find_subject_data(stores: Stores, conversation: str) -> SubjectData:
    """Return the deletes of a conversation and its notes."""
    found = await stores.all(Note.of(conversation).query())
    head = await stores.run(Conversation.of(conversation).get())
    deletes: list[Any] = [Note.of(each.conversation_id).delete(each.note_id) for each in found]
    if head is not None:
        deletes.append(Conversation.of(conversation).delete())
    return SubjectData(deletes)


HELP_DESK = System(
    "helpdesk",
    "Answers people",
    tables=(conversations, notes, counters, untold),
    patterns=(count,),
    components=(Component("worker", uses=(count,)),),
    queues=(jobs,),
    buckets=(archive,),
    privacy=Privacy(
        retention={"Notes": Period(60 * 86400, "what was done is asked about for two months")},
        subjects={"conversation": find_subject_data},
    ),
)
SYSTEM = HELP_DESK
