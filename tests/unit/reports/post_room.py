"""A small system with queues and a bucket for report tests: letters arrive, are processed and archived.

It has a FIFO queue with dead letters, a standard queue, and a bucket with lifetimes, legal holds and its own
key.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast import (
    Attr,
    Component,
    Document,
    Entity,
    Key,
    Lifetime,
    Load,
    Put,
    Rate,
    System,
    Table,
    Volume,
    attr,
    pattern,
)
from holdfast.model.components import Consumer, Handler, Schedule
from holdfast.model.objects import (
    Bucket,
    DeleteObject,
    GetObject,
    HeadObject,
    ListObjects,
    PutObject,
    SetLegalHold,
)
from holdfast.model.queues import DeleteMessages, Queue, Receive, ReceivedMessage, Send, SendBatch
from holdfast.model.system import Deployment, Design
from holdfast.operations.queues import IncomingMessage

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
LETTER = Rate(per="letter")

register = Table("Register", partition="letterId", ttl="expiresAt")


class Entry(Entity, table=register):
    letter_id: Attr[str] = attr()
    came_at: Attr[datetime] = attr()
    of = Key(letter_id)
    lives = Lifetime(came_at, timedelta(days=30))


class Letter(Document):
    id: str
    to: str
    pages: int = 1


class Notice(Document):
    text: str


letters = Queue(
    "letters",
    Letter,
    fifo=True,
    group=lambda letter: letter.to,
    deduplication=lambda letter: letter.id,
    visibility_s=60,
    max_receives=3,
    purpose="Letters, in order for each who gets some.",
    pattern_ids=("L2", "L3", "L4"),
    rate=LETTER,
)
notices = Queue("notices", Notice, delay_s=5, purpose="What the house should know.")
archive = Bucket(
    "letter-archive",
    encryption="kms",
    kms_key="alias/letters",
    legal_holds=True,
    purpose="Letters as they came.",
)
scans = archive.objects(
    "scans/{created_at:%Y/%m/%d}/{letter_id}.pdf", content_type="application/pdf", lifetime_days=90
)
LETTER_1 = Letter(id="l1", to="ada")


def make_receipt(queue: Queue[Any]) -> ReceivedMessage[Any]:
    """Return a receipt that the queue never issued."""
    incoming = IncomingMessage(id="m1", receipt="r1", body="{}", sent_at=0.0, receives=1)
    return ReceivedMessage(queue.name, queue.message_type, incoming)


@pattern("L1", "A letter comes in", rate=LETTER, example=(LETTER_1,))
def take_in(letter: Letter) -> Send[Letter]:
    return letters.send(letter)


next_letters, done, keep_at = (
    letters.consumer.receive,
    letters.consumer.delete,
    letters.consumer.change_visibility,
)


@pattern("L5", "Enter a letter in the register", rate=LETTER, example=("l1", NOON))
def enter(letter_id: str, came_at: datetime) -> Put[Entry]:
    return Entry.create(Entry(letter_id=letter_id, came_at=came_at))


@pattern("N1", "Tell the house", rate=LETTER, example=(["fire drill", "lunch"],))
def tell(texts: list[str]) -> SendBatch[Notice]:
    return notices.send_batch(Notice(text=text) for text in texts)


@pattern("N2", "The next notice", rate=LETTER, example=())
def next_notice() -> Receive[Notice]:
    return notices.receive()


@pattern("N3", "A notice was read", rate=LETTER, example=lambda: (make_receipt(notices),))
def read(notice: ReceivedMessage[Notice]) -> DeleteMessages[Notice]:
    return notices.delete(notice)


@pattern("A1", "Archive a scan", rate=LETTER, example=(b"pdf", NOON, "l1"))
def file_scan(body: bytes, created_at: datetime, letter_id: str) -> PutObject:
    return scans.put(body, created_at=created_at, letter_id=letter_id)


@pattern("A2", "A scan", rate=LETTER, example=(NOON, "l1"))
def scan_of(created_at: datetime, letter_id: str) -> GetObject:
    return scans.get(created_at=created_at, letter_id=letter_id)


@pattern("A3", "Whether there is a scan", rate=LETTER, example=(NOON, "l1"))
def has_scan(created_at: datetime, letter_id: str) -> HeadObject:
    return scans.head(created_at=created_at, letter_id=letter_id)


@pattern("A4", "The scans of a day", rate=LETTER, example=(NOON,))
def scans_of_day(created_at: datetime) -> ListObjects:
    return scans.list_objects(created_at=created_at)


@pattern("A5", "Forget a scan", rate=LETTER, example=(NOON, "l1"))
def forget_scan(created_at: datetime, letter_id: str) -> DeleteObject:
    return scans.delete(created_at=created_at, letter_id=letter_id)


@pattern("A6", "Nobody may forget a scan", rate=LETTER, example=(NOON, "l1"))
def hold_scan(created_at: datetime, letter_id: str) -> SetLegalHold:
    return scans.set_legal_hold(True, created_at=created_at, letter_id=letter_id)


@asynccontextmanager
async def handling(_: Any) -> AsyncIterator[Handler]:
    async def handle(_: ReceivedMessage[Any]) -> None: ...

    yield handle


async def tidy(_: Any) -> None: ...


PATTERNS = (
    take_in,
    next_letters,
    done,
    keep_at,
    enter,
    tell,
    next_notice,
    read,
    file_scan,
    scan_of,
    has_scan,
    scans_of_day,
    forget_scan,
    hold_scan,
)

SYSTEM = System(
    name="postroom",
    title="Post room",
    purpose="Takes letters in and hands them out.",
    tables=(register,),
    queues=(letters, notices),
    buckets=(archive,),
    patterns=PATTERNS,
    components=(
        Component("door", "Takes letters in.", uses=(take_in,)),
        Component(
            "clerk",
            "Works letters off.",
            uses=(enter, tell, file_scan),
            consumers=(Consumer(letters, handling),),
            schedules=(Schedule("tidy", 60, tidy),),
        ),
        Component("house", "Reads notices.", uses=(next_notice, read)),
        Component(
            "archivist", "Keeps scans.", uses=(scan_of, has_scan, scans_of_day, forget_scan, hold_scan)
        ),
    ),
    design=Design(load=Load(volumes={"letter": Volume(per_month=1_000_000, distinct_keys=1_000)})),
    deployment=Deployment(needs_environment=True),
)
