"""Inbound webhooks: parse a sender's body into an `InboundEvent`, and build the queue's `EventMessage`.

bytes → JSON → fields (`webhook_formats`) → InboundEvent → key and hash → EventMessage. Nothing is stored
here. An invalid body is refused as a permanent error that names the invalid fields. A queue message contains
ids, a hash and a size, and never a text or an address: the worker fetches the text by the ids.
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

from holdfast import Document
from holdfast.core.errors import InvalidRequest, MalformedRequest
from holdfast.guarantees import fingerprint
from holdfast.model.entities import format_timestamp
from richpanel.domain.idempotency_keys import BUCKET_S, EventKey, KeySource, build_event_key
from richpanel.domain.webhook_formats import SENDERS

MAX_BODY_BYTES: Final = 256 * 1024
MAX_TEXT_CHARS: Final = 20_000
MAX_WORD_CHARS: Final = 64
MAX_EMAIL_CHARS: Final = 320
MAX_TAGS: Final = 100
# A time outside these years is the sender's error, and date arithmetic overflows near the calendar's ends.
PLAUSIBLE_YEARS: Final = range(1990, 2200)
# Names of rules and channels may enter the queue as sent; any other text may contain personal data.
MACHINE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_.:-]{0,63}")
PLAIN_ID: Final = re.compile(r"(?!\.{1,2}$)[^\x00-\x1f\x7f\s@\ud800-\udfff]{1,128}")
OWN_TAG: Final = re.compile(r"(?<![\w-])mw-[a-z0-9_-]{1,40}")
OTHER_TRIGGER: Final = "other"
UNKNOWN: Final = "unknown"

Author = Literal["customer", "agent", "automation"]


def is_plausible_time(moment: datetime) -> bool:
    """Return whether a time is in the years 1990 to 2199."""
    return moment.year in PLAUSIBLE_YEARS


def _to_utc(moment: datetime) -> datetime:
    """Convert a time to UTC. Raise `ValueError` without a zone or outside the plausible years."""
    if moment.tzinfo is None:
        raise ValueError("missing time zone: expected a time as 2026-02-04T01:00:00Z")
    if not is_plausible_time(moment):
        raise ValueError(f"invalid year: expected {PLAUSIBLE_YEARS.start} to {PLAUSIBLE_YEARS.stop - 1}")
    return moment.astimezone(UTC)


def _refuse_path(id: str) -> str:
    """Return the id. Raise `ValueError` for `.` and `..`, which would change a URL path."""
    if id in (".", ".."):
        raise ValueError("invalid id: it consists of dots")
    return id


def _refuse_address(id: str) -> str:
    """Return the id. Raise `ValueError` if it may be an e-mail address."""
    if "@" in id:
        raise ValueError("invalid id: it contains an @. Send the ticket's own id")
    return id


def to_stored_id(id: str) -> str:
    """Return a message's id as it is stored.

    An id with an @, as e-mails have it, may name a person and is hashed. So is a value that does not have the
    form of an id.
    """
    if PLAIN_ID.fullmatch(id):
        return id
    return f"h-{hashlib.sha256(id.encode('utf-8', 'surrogatepass')).hexdigest()}"


Id = Annotated[
    str,
    StringConstraints(min_length=1, max_length=128, pattern=r"^[^\x00-\x1f\x7f\s]+$"),
    AfterValidator(_refuse_path),
]
ConversationId = Annotated[Id, AfterValidator(_refuse_address)]
MessageId = Annotated[Id, AfterValidator(to_stored_id)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=MAX_WORD_CHARS)]
Moment = Annotated[datetime, AfterValidator(_to_utc)]


class InboundEvent(BaseModel):
    """One event in a conversation at the help desk, in one shape for all senders. Kept in memory only."""

    # Values may be personal text, so errors do not quote them.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, hide_input_in_errors=True)

    conversation_id: ConversationId
    message_id: MessageId | None = None
    trigger: Word = "message"
    channel: Word = UNKNOWN
    author: Author = "customer"
    text: Annotated[str, StringConstraints(max_length=MAX_TEXT_CHARS)] = ""
    created_at: Moment | None = None
    ticket_url: Annotated[str, StringConstraints(max_length=2048)] | None = None
    customer_email: Annotated[str, StringConstraints(max_length=MAX_EMAIL_CHARS)] | None = None
    tags: tuple[Word, ...] = Field(default=(), max_length=MAX_TAGS)

    @model_validator(mode="after")
    def _clear_blank_text(self) -> Self:
        """Replace a text of white space by the empty text."""
        return self if not self.text or self.text.strip() else self.model_copy(update={"text": ""})

    def build_key(
        self,
        received_at: datetime,
        *,
        bucket_s: int = BUCKET_S,
        on_fallback: Callable[[KeySource], object] = lambda _: None,
    ) -> EventKey:
        """Build the event's idempotency key. `on_fallback` is called with the key's source if the message has
        no id.
        """
        return build_event_key(
            self.conversation_id,
            self.message_id,
            text=self.text,
            created_at=self.created_at,
            trigger=self.trigger,
            received_at=received_at,
            bucket_s=bucket_s,
            on_fallback=on_fallback,
        )

    def encode_canonical(self) -> bytes:
        """Encode what is the same in all copies of the event, for its hash and size.

        Tags and the trigger may change between copies and are left out. So is the time of a message without
        an id: the bucket in its key already covers it.
        """
        written = self.created_at if self.message_id else None
        kept = {
            "conversation_id": self.conversation_id,
            "message_id": self.message_id,
            "channel": self.channel,
            "author": self.author,
            "text": self.text,
            "created_at": None if written is None else format_timestamp(written),
            "customer_email": self.customer_email,
        }
        return msgspec.json.encode(kept, order="deterministic")

    @property
    def payload_sha256(self) -> str:
        """The SHA-256 of the canonical encoding."""
        return fingerprint(self.encode_canonical())

    @property
    def payload_bytes(self) -> int:
        """The size of the canonical encoding."""
        return len(self.encode_canonical())


class EventMessage(Document):
    """An event as a queue message, without personal data."""

    event_id: str
    previous_event_id: str | None = None
    next_event_id: str | None = None
    conversation_id: str
    source_message_id: str | None = None
    # The last component of action keys: the message's id, or the hash in its place.
    message_key: str
    key_source: KeySource
    payload_sha256: str
    payload_bytes: int
    received_at: datetime
    created_at: datetime | None = None
    trigger: str
    channel: str
    author: Author

    @property
    def is_without_message(self) -> bool:
        """Whether the webhook identifies no message, neither by id nor by text and time, so that the worker
        must look for recent messages.
        """
        return self.key_source is KeySource.arrival

    @property
    def is_echo(self) -> bool:
        """Whether one of the middleware's own tags triggered the webhook."""
        return OWN_TAG.search(self.trigger) is not None

    @property
    def delivery_key(self) -> str:
        """The key by which the queue drops copies. A webhook that names no message is never a copy: it may
        announce the next message.
        """
        if self.is_without_message:
            return f"{self.event_id}:{self.received_at.timestamp():.6f}"
        return self.event_id


def build_event_message(
    event: InboundEvent,
    received_at: datetime,
    *,
    bucket_s: int = BUCKET_S,
    on_fallback: Callable[[KeySource], object] = lambda _: None,
) -> EventMessage:
    """Build the queue message of an event, without its text and address. `on_fallback` is called with the
    key's source if the message has no id.
    """
    key = event.build_key(received_at, bucket_s=bucket_s, on_fallback=on_fallback)
    normalised = event.encode_canonical()
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
        trigger=_to_safe_trigger(event.trigger),
        channel=event.channel if MACHINE_NAME.fullmatch(event.channel) else UNKNOWN,
        author=event.author,
    )


def _to_safe_trigger(text: str) -> str:
    """Return the trigger if it is the name of a rule. Any other text may name a person: return the
    middleware's own tag in it, or else `other`.
    """
    if MACHINE_NAME.fullmatch(text):
        return text
    own = OWN_TAG.search(text)
    return own[0] if own else OTHER_TRIGGER


def parse_webhook(body: bytes, sender: str = "richpanel") -> InboundEvent:
    """Parse a webhook's body in the format of its sender. Raise `InvalidRequest` or `MalformedRequest` if it
    is invalid.
    """
    if sender not in SENDERS:
        raise InvalidRequest(f"Unknown sender {sender!r}: expected one of {', '.join(sorted(SENDERS))}.")
    if len(body) > MAX_BODY_BYTES:
        raise InvalidRequest(f"The body has {len(body)} bytes: at most {MAX_BODY_BYTES} are allowed.")
    members = SENDERS[sender](_parse_object(body))
    try:
        return InboundEvent.model_validate_json(msgspec.json.encode(members))
    except ValidationError as error:
        # Values may be personal text, so the message names only the fields.
        wrong = "; ".join(
            f"{'.'.join(map(str, one['loc']))}: {one['msg'].removeprefix('Value error, ')}"
            for one in error.errors()
        )
        raise InvalidRequest(f"Invalid {sender} webhook: {wrong}.") from None


def _parse_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raise `MalformedRequest` for anything else."""
    try:
        found = msgspec.json.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise MalformedRequest("Invalid body: expected one JSON object in UTF-8.") from None
    if not isinstance(found, dict):
        raise MalformedRequest(f"Invalid body: expected one JSON object, got {type(found).__name__}.")
    return found
