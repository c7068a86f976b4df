"""Webhooks as they come in, made into one shape: `InboundEvent`. What a queue is given of it: `EventMessage`.

bytes → JSON → the shape of its sender (`senders`) → InboundEvent → key and hash → EventMessage. Nothing is stored here.
What cannot be read is refused, with what is wrong, as a request that no repeating will mend. A queue message has ids,
a hash and a size, and never a text or an address: the worker fetches the text by the ids.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, Self

import msgspec
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from holdfast import Document, timestamp
from holdfast.errors import InvalidRequest, MalformedRequest
from holdfast.guarantees import fingerprint
from richpanel.keys import BUCKET_S, EventKey, Source, event_key
from richpanel.senders import SENDERS

BODY_BYTES_MAX: Final = 256 * 1024
TEXT_CHARS_MAX: Final = 20_000
WORD_CHARS_MAX: Final = 64
EMAIL_CHARS_MAX: Final = 320
TAGS_MAX: Final = 100
# A time outside of these is a mistake of its sender, and near the ends of the calendar nothing can be reckoned.
YEARS: Final = range(1990, 2200)
# What may stand in a queue as a sender has written it: a name that somebody has chosen for a machine.
NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
PLAIN_ID: Final = re.compile(r"(?!\.{1,2}$)[^\x00-\x1f\x7f\s@\ud800-\udfff]{1,128}")
OWN_TAG: Final = re.compile(r"(?<![\w-])mw-[a-z0-9_-]{1,40}")
UNNAMED: Final = "other"
UNKNOWN: Final = "unknown"

Author = Literal["customer", "agent", "automation"]


def is_believable(moment: datetime) -> bool:
    return moment.year in YEARS


def _in_utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time needs its zone, as in 2026-02-04T01:00:00Z")
    if not is_believable(moment):
        raise ValueError(f"a time lies between {YEARS.start} and {YEARS.stop}")
    return moment.astimezone(UTC)


def _no_path(id: str) -> str:
    if id in (".", ".."):
        raise ValueError("dots alone are no id")
    return id


def _no_address(id: str) -> str:
    if "@" in id:
        raise ValueError("an address is no id: send the ticket's own")
    return id


def id_kept(id: str) -> str:
    """A message's id as it is kept: one with an @, as those of e-mails have it, may name a person, and so is hashed.
    What a help desk calls an id and is none is hashed too."""
    if PLAIN_ID.fullmatch(id):
        return id
    return f"h-{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()}"


Id = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f\s]+$"),
    AfterValidator(_no_path),
]
ConversationId = Annotated[Id, AfterValidator(_no_address)]
MessageId = Annotated[Id, AfterValidator(id_kept)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=WORD_CHARS_MAX)]
Moment = Annotated[datetime, AfterValidator(_in_utc)]


class InboundEvent(BaseModel):
    """One thing that happened in a conversation at the help desk, whoever told it. Kept in memory only."""

    # Its values may be a person's words: no error quotes them.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    conversation_id: ConversationId
    message_id: MessageId | None = None
    trigger: Word = "message"
    channel: Word = UNKNOWN
    author: Author = "customer"
    text: Annotated[str, StringConstraints(max_length=TEXT_CHARS_MAX)] = ""
    created_at: Moment | None = None
    ticket_url: Annotated[str, StringConstraints(max_length=2048)] | None = None
    customer_email: Annotated[str, StringConstraints(max_length=EMAIL_CHARS_MAX)] | None = None
    tags: tuple[Word, ...] = Field(default=(), max_length=TAGS_MAX)

    @model_validator(mode="after")
    def _blank_text_is_none(self) -> Self:
        return self if not self.text or self.text.strip() else self.model_copy(update={"text": ""})

    def key(
        self,
        received_at: datetime,
        *,
        bucket_s: int = BUCKET_S,
        on_fallback: Callable[[Source], object] = lambda _: None,
    ) -> EventKey:
        return event_key(
            self.conversation_id,
            self.message_id,
            text=self.text,
            created_at=self.created_at,
            trigger=self.trigger,
            received_at=received_at,
            bucket_s=bucket_s,
            on_fallback=on_fallback,
        )

    def normalised(self) -> bytes:
        """What the hash and the size are of: all that stays the same from copy to copy.

        Tags and the trigger change while a message is on its way. So does its time, where it has no id to go by: then
        the bucket in its key says as much of it as may be said.
        """
        written = self.created_at if self.message_id else None
        kept = {
            "conversation_id": self.conversation_id,
            "message_id": self.message_id,
            "channel": self.channel,
            "author": self.author,
            "text": self.text,
            "created_at": None if written is None else timestamp(written),
            "customer_email": self.customer_email,
        }
        return msgspec.json.encode(kept, order="deterministic")

    @property
    def payload_sha256(self) -> str:
        return fingerprint(self.normalised())

    @property
    def payload_bytes(self) -> int:
        return len(self.normalised())


class EventMessage(Document):
    """What the queue carries of an event."""

    event_id: str
    previous_event_id: str | None = None
    next_event_id: str | None = None
    conversation_id: str
    source_message_id: str | None = None
    # The last component of action keys: the message's id, or the hash in its place.
    message_key: str
    key_source: Source
    payload_sha256: str
    payload_bytes: int
    received_at: datetime
    created_at: datetime | None = None
    trigger: str
    channel: str
    author: Author

    @property
    def names_no_message(self) -> bool:
        """A webhook that only says that something happened in a conversation: the worker looks what."""
        return self.key_source is Source.arrival

    @property
    def is_echo(self) -> bool:
        """Whether one of our own tags has set it off."""
        return OWN_TAG.search(self.trigger) is not None

    @property
    def delivery_key(self) -> str:
        """By this the queue tells copies. One that names no message is never a copy: it may be about the next one."""
        if self.names_no_message:
            return f"{self.event_id}:{self.received_at.timestamp():.6f}"
        return self.event_id


def event_message(
    event: InboundEvent,
    received_at: datetime,
    *,
    bucket_s: int = BUCKET_S,
    on_fallback: Callable[[Source], object] = lambda _: None,
) -> EventMessage:
    key = event.key(received_at, bucket_s=bucket_s, on_fallback=on_fallback)
    normalised = event.normalised()
    return EventMessage(
        event_id=key.key,
        previous_event_id=key.previous,
        next_event_id=key.next,
        conversation_id=event.conversation_id,
        source_message_id=event.message_id,
        message_key=key.message,
        key_source=key.source,
        payload_sha256=fingerprint(normalised),
        payload_bytes=len(normalised),
        received_at=received_at,
        created_at=event.created_at,
        trigger=_trigger(event.trigger),
        channel=event.channel if NAME.fullmatch(event.channel) else UNKNOWN,
        author=event.author,
    )


def _trigger(text: str) -> str:
    """The name of a rule. Of a sentence, in which somebody may be named, only our own tag is kept."""
    if NAME.fullmatch(text):
        return text
    own = OWN_TAG.search(text)
    return own[0] if own else UNNAMED


def inbound_event(body: bytes, sender: str = "richpanel") -> InboundEvent:
    """A webhook's body, read in the shape of its sender."""
    if sender not in SENDERS:
        raise InvalidRequest(f"No sender is called {sender!r}: {', '.join(sorted(SENDERS))} are known.")
    if len(body) > BODY_BYTES_MAX:
        raise InvalidRequest(f"The body has {len(body)} bytes, and {BODY_BYTES_MAX} are taken at most.")
    members = SENDERS[sender](_object(body))
    try:
        return InboundEvent.model_validate_json(msgspec.json.encode(members))
    except ValidationError as error:
        # The values stay out of the message: they may be a person's words.
        wrong = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise InvalidRequest(f"This {sender} webhook cannot be taken: {wrong}.") from None


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise MalformedRequest("The body is not JSON: send one object, in UTF-8.") from None
    if not isinstance(found, dict):
        raise MalformedRequest(f"The body is a JSON {type(found).__name__}: send one object.")
    return found
