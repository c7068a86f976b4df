"""Idempotency keys: stable names of an inbound event and of each of its actions, the same for every copy.

    evt:rp:{conversation}:{message}          act:rp_reply:{conversation}:{message}
    evt:rp:{conversation}:{hash}             act:rp_tag:{conversation}:{tag}:{message}
                                             act:rp_assign:{conversation}:{team or assignee}:{message}
                                             act:shopify_lookup:{conversation}:{order}
                                             act:rp_note:{conversation}:{template}:{message}

The last, for a note that only agents see, is not in the design document. Keys contain only what never changes
about an event. Components are percent-encoded (RFC 3986, UTF-8), so that a colon or a percent sign in an id
cannot make two keys equal. A message without an id gets a hash of its text and a time bucket instead;
`EventKey.previous` and `EventKey.next` are its keys in the neighbouring buckets. The worker looks for them
too, because a copy with a slightly different timestamp may fall into one of them.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final
from urllib.parse import quote, unquote

from holdfast.core.errors import InvalidRequest
from holdfast.model.entities import format_timestamp

EVENT_NAMESPACE: Final = "evt"
ACTION_NAMESPACE: Final = "act"
SEPARATOR: Final = ":"
BUCKET_S: Final = 300
# The form of group and deduplication ids that a queue accepts.
QUEUE_TOKEN: Final = re.compile(r"[!-~]{1,128}")


class KeySource(StrEnum):
    """The origin of a message's key, from the most to the least reliable."""

    message_id = "message_id"
    text = "text"
    arrival = "arrival"


class ActionKind(StrEnum):
    """The kind of an action key, as written in the key."""

    reply = "rp_reply"
    tag = "rp_tag"
    assign = "rp_assign"
    lookup = "shopify_lookup"
    note = "rp_note"


# The number of components, by namespace and kind.
COMPONENT_COUNTS: Final = {
    EVENT_NAMESPACE: {"rp": 2},
    ACTION_NAMESPACE: {"rp_reply": 2, "rp_tag": 3, "rp_assign": 3, "shopify_lookup": 2, "rp_note": 3},
}


@dataclass(frozen=True)
class EventKey:
    """The key of an event. `message` is its last component: the message's id, or the hash in its place."""

    key: str
    message: str
    source: KeySource
    previous: str | None = None
    next: str | None = None

    @property
    def is_fallback(self) -> bool:
        """Whether the key was built without a message id."""
        return self.source is not KeySource.message_id


@dataclass(frozen=True)
class ParsedKey:
    """A parsed key: its namespace (`evt` or `act`), kind, and decoded components."""

    namespace: str
    kind: str
    components: tuple[str, ...]


def build_event_key(
    conversation_id: str,
    message_id: str | None,
    *,
    text: str = "",
    created_at: datetime | None = None,
    trigger: str = "",
    received_at: datetime,
    bucket_s: int = BUCKET_S,
    on_fallback: Callable[[KeySource], object] = lambda _: None,
) -> EventKey:
    """Build the key of an event from the message's id.

    Without an id, hash the text and the time bucket of its writing. The trigger replaces a missing text, the
    time of arrival a missing time of writing; if either is missing, the source is `arrival`. `on_fallback` is
    called with the source of a key that has no id. Raise `InvalidRequest` if the conversation id is empty.
    """
    if message_id:
        return EventKey(_build_event(conversation_id, message_id), message_id, KeySource.message_id)
    known = bool(text) and created_at is not None
    source = KeySource.text if known else KeySource.arrival
    on_fallback(source)
    content = text or trigger
    moment = created_at or received_at
    message = _hash_text(content, _format_bucket(moment, bucket_s))
    neighbours = (
        _hash_text(content, _format_bucket(moment + offset, bucket_s))
        for offset in _get_neighbour_offsets(bucket_s)
    )
    previous, following = (_build_event(conversation_id, each) for each in neighbours)
    return EventKey(_build_event(conversation_id, message), message, source, previous, following)


def _get_neighbour_offsets(bucket_s: int) -> tuple[timedelta, timedelta]:
    """Return the offsets to the previous and the next bucket."""
    return timedelta(seconds=-bucket_s), timedelta(seconds=bucket_s)


def build_reply_key(conversation_id: str, message_key: str) -> str:
    """Build the key of a reply to a message. `message_key` is the message's id, or the hash in its place
    (`EventKey.message`).
    """
    return _join(ACTION_NAMESPACE, ActionKind.reply, conversation_id, message_key)


def build_tag_key(conversation_id: str, tag: str, message_key: str) -> str:
    """Build the key of adding `tag` because of a message. `message_key` is the message's id, or the hash in
    its place (`EventKey.message`).
    """
    return _join(ACTION_NAMESPACE, ActionKind.tag, conversation_id, tag, message_key)


def build_assign_key(conversation_id: str, team_or_assignee: str, message_key: str) -> str:
    """Build the key of an assignment because of a message. `message_key` is the message's id, or the hash in
    its place (`EventKey.message`).
    """
    return _join(ACTION_NAMESPACE, ActionKind.assign, conversation_id, team_or_assignee, message_key)


def build_lookup_key(conversation_id: str, order_id: str) -> str:
    """Build the key of looking an order up in the shop, the same for every message of the conversation."""
    return _join(ACTION_NAMESPACE, ActionKind.lookup, conversation_id, order_id)


def build_note_key(conversation_id: str, template: str, message_key: str) -> str:
    """Build the key of a note for the agent. `template` names its text; `message_key` is the message's id, or
    the hash in its place (`EventKey.message`).
    """
    return _join(ACTION_NAMESPACE, ActionKind.note, conversation_id, template, message_key)


def parse_key(key: str) -> ParsedKey:
    """Parse a key and decode its components. Raise `InvalidRequest` if it is not one of this system."""
    namespace, *rest = key.split(SEPARATOR)
    kind, components = (rest[0], rest[1:]) if rest else ("", [])
    if len(components) != COMPONENT_COUNTS.get(namespace, {}).get(kind, -1) or not all(components):
        raise InvalidRequest(f"Invalid idempotency key {key!r}: expected evt:rp:… or act:<kind of action>:…")
    return ParsedKey(namespace, kind, tuple(unquote(each, errors="surrogatepass") for each in components))


def normalise_text(text: str) -> str:
    """Return a text as fallback keys hash it: NFKC, case folded, each run of white space as one space.

    A copy that another channel has wrapped or typeset differently gets the same key. Punctuation counts.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def to_queue_token(text: str) -> str:
    """Return a key or an id if the queue accepts it as a token, else its hash."""
    if QUEUE_TOKEN.fullmatch(text) and not text.startswith("sha256:"):
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _build_event(conversation_id: str, message_key: str) -> str:
    """Build an event key. `message_key` is the message's id, or the hash in its place."""
    return _join(EVENT_NAMESPACE, "rp", conversation_id, message_key)


def _join(namespace: str, kind: str, *components: str) -> str:
    """Join the encoded components. Raise `InvalidRequest` if one is empty."""
    if not all(components):
        raise InvalidRequest(f"Invalid key {namespace}:{kind}: empty component. Give every id, tag and team.")
    encoded = (quote(each, safe="", errors="surrogatepass") for each in components)
    return SEPARATOR.join((namespace, str(kind), *encoded))


def _hash_text(text: str, bucket: str) -> str:
    # All buckets have the same width, so that two texts cannot produce the same concatenation.
    """Return the SHA-256 of the normalised text and the bucket, in hex."""
    return hashlib.sha256((normalise_text(text) + bucket).encode("utf-8", "surrogatepass")).hexdigest()


def _format_bucket(moment: datetime, bucket_s: int) -> str:
    """Return the start of the time bucket that contains `moment`, as a timestamp."""
    start = int(moment.timestamp()) // bucket_s * bucket_s
    return format_timestamp(datetime.fromtimestamp(start, UTC))
