"""Idempotency keys: what an inbound event and each action it leads to are known by, however often they come.

    evt:rp:{conversation}:{message}          act:rp_reply:{conversation}:{message}
    evt:rp:{conversation}:{hash}             act:rp_tag:{conversation}:{tag}:{message}
                                             act:rp_assign:{conversation}:{team or assignee}:{message}
                                             act:shopify_lookup:{conversation}:{order}
                                             act:rp_note:{conversation}:{template}:{message}

The last, for a note that only agents see, is ours: the document has no such action. Keys are made of what never changes about an event. Components are percent-encoded (RFC 3986, UTF-8), so that a colon
or a percent sign in an id cannot make one key of two. Where a message has no id, a hash of its text and of a bucket of
time stands for it; `EventKey.previous` and `EventKey.next` are the keys it would have had in the buckets beside, to be
looked for as well: a copy that is stamped a little later or sooner may fall into one of them.
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

from holdfast import timestamp
from holdfast.errors import InvalidRequest

EVENT: Final = "evt"
ACTION: Final = "act"
SEPARATOR: Final = ":"
BUCKET_S: Final = 300
# A queue takes so many characters for a group or for telling copies apart, and only visible ASCII.
QUEUE_TOKEN: Final = re.compile(r"[!-~]{1,128}")


class Source(StrEnum):
    """What a message is known by, from the best to the weakest."""

    message_id = "message_id"
    text = "text"
    arrival = "arrival"


class ActionKind(StrEnum):
    reply = "rp_reply"
    tag = "rp_tag"
    assign = "rp_assign"
    lookup = "shopify_lookup"
    note = "rp_note"


# How many components follow, by namespace and kind.
COMPONENTS: Final = {
    EVENT: {"rp": 2},
    ACTION: {"rp_reply": 2, "rp_tag": 3, "rp_assign": 3, "shopify_lookup": 2, "rp_note": 3},
}


@dataclass(frozen=True)
class EventKey:
    """The key of an event. `message` is its last component: the message's id, or the hash in its place."""

    key: str
    message: str
    source: Source
    previous: str | None = None
    next: str | None = None

    @property
    def is_fallback(self) -> bool:
        return self.source is not Source.message_id


@dataclass(frozen=True)
class ParsedKey:
    """A key taken apart: its namespace (`evt` or `act`), kind, and components as they were before encoding."""

    namespace: str
    kind: str
    components: tuple[str, ...]


def event_key(
    conversation_id: str,
    message_id: str | None,
    *,
    text: str = "",
    created_at: datetime | None = None,
    trigger: str = "",
    received_at: datetime,
    bucket_s: int = BUCKET_S,
    on_fallback: Callable[[Source], object] = lambda _: None,
) -> EventKey:
    """The message's id always wins. Without one: text and time of writing; without these: trigger and time of arrival."""
    if message_id:
        return EventKey(_event(conversation_id, message_id), message_id, Source.message_id)
    known = bool(text) and created_at is not None
    source = Source.text if known else Source.arrival
    on_fallback(source)
    content = text or trigger
    moment = created_at or received_at
    message = _hash(content, _bucket(moment, bucket_s))
    beside = (_hash(content, _bucket(moment + step, bucket_s)) for step in _steps(bucket_s))
    previous, following = (_event(conversation_id, each) for each in beside)
    return EventKey(_event(conversation_id, message), message, source, previous, following)


def _steps(bucket_s: int) -> tuple[timedelta, timedelta]:
    return timedelta(seconds=-bucket_s), timedelta(seconds=bucket_s)


def reply_key(conversation_id: str, message: str) -> str:
    return _joined(ACTION, ActionKind.reply, conversation_id, message)


def tag_key(conversation_id: str, tag: str, message: str) -> str:
    return _joined(ACTION, ActionKind.tag, conversation_id, tag, message)


def assign_key(conversation_id: str, team_or_assignee: str, message: str) -> str:
    return _joined(ACTION, ActionKind.assign, conversation_id, team_or_assignee, message)


def lookup_key(conversation_id: str, order_id: str) -> str:
    return _joined(ACTION, ActionKind.lookup, conversation_id, order_id)


def note_key(conversation_id: str, template: str, message: str) -> str:
    return _joined(ACTION, ActionKind.note, conversation_id, template, message)


def parsed(key: str) -> ParsedKey:
    """A key read back; what is no key of ours is refused."""
    namespace, *rest = key.split(SEPARATOR)
    kind, components = (rest[0], rest[1:]) if rest else ("", [])
    if len(components) != COMPONENTS.get(namespace, {}).get(kind, -1) or not all(components):
        raise InvalidRequest(
            f"{key!r} is no idempotency key: one begins with evt:rp: or act: and a kind of action."
        )
    return ParsedKey(namespace, kind, tuple(unquote(each, errors="surrogatepass") for each in components))


def normalised_text(text: str) -> str:
    """As a fallback key sees a text: compatibility forms and case folded, any run of white space one blank.

    So a copy that another channel has wrapped or typeset anew is known again. Punctuation counts.
    """
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def queue_token(text: str) -> str:
    """A key or an id as a queue takes it: itself where it fits, else a hash of it."""
    if QUEUE_TOKEN.fullmatch(text) and not text.startswith("sha256:"):
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _event(conversation_id: str, message: str) -> str:
    return _joined(EVENT, "rp", conversation_id, message)


def _joined(namespace: str, kind: str, *components: str) -> str:
    if not all(components):
        raise InvalidRequest(
            f"A key {namespace}:{kind} has an empty component: every id, tag and team in it has a name."
        )
    encoded = (quote(each, safe="", errors="surrogatepass") for each in components)
    return SEPARATOR.join((namespace, str(kind), *encoded))


def _hash(text: str, bucket: str) -> str:
    # A bucket is written with one width, so that what is text and what is time can be told apart.
    return hashlib.sha256((normalised_text(text) + bucket).encode("utf-8", "surrogatepass")).hexdigest()


def _bucket(moment: datetime, bucket_s: int) -> str:
    start = int(moment.timestamp()) // bucket_s * bucket_s
    return timestamp(datetime.fromtimestamp(start, UTC))
