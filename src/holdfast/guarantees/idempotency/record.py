"""The record of an effect that must happen once: its owner, its lease and its outcome.

A system derives its record from `OnceRecord`, with its own table, key and attributes:

    class EventRecord(OnceRecord, table=idempotency):
        event_id: Attr[str] = attr()
        of = Key(event_id)

The table's time-to-live attribute must be the one under which `expires_at` is stored.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from holdfast.core.errors import InvalidRequest
from holdfast.model.entities import Attr, Entity, EpochSeconds, attr, get_declaration
from holdfast.model.entities.key_texts import format_key_text
from holdfast.operations.values import Item

# Milliseconds: fine enough for short leases, and a number that every engine stores exactly.
TIME_PARTS_PER_S: Final = 1000


class OnceStatus(StrEnum):
    """The status of a record.

    `held` and `cancelled` occur only for delayed actions: waiting, or never to be done.
    """

    PROCESSING = "processing"
    PROCESSED = "processed"
    FAILED = "failed"
    HELD = "held"
    CANCELLED = "cancelled"


class OnceRecord(Entity):
    """The attributes of every record; `Once` writes them. The caller sets the key and `payload_sha256`.

    The ends of leases and intents are epoch seconds with milliseconds; `created_at` and `last_processed_at`
    are whole seconds, so that a system may store them as `Seconds`. The caller may set `created_at` and
    `expires_at`; otherwise the clock and the declared lifetime do.
    """

    status: Attr[OnceStatus] = attr(default=OnceStatus.PROCESSING)
    payload_sha256: Attr[str] = attr()
    # New for each claim, so that a late worker is recognised.
    owner: Attr[str] = attr(default="")
    # Counts the writes under the key, so that a late write changes nothing.
    revision: Attr[int] = attr(default=0)
    attempts: Attr[int] = attr(default=0)
    in_progress_expires_at: Attr[float | None] = attr(default=None)
    # How long the claim's lease lasts from each renewal; absent in records of version 0.2 and before.
    lease_s: Attr[float | None] = attr(default=None)
    # The intent of an external call: the service may act until then.
    act_until: Attr[float | None] = attr(default=None)
    result: Attr[str | None] = attr(default=None)
    error: Attr[str | None] = attr(default=None)
    # The service's code for a permanent refusal: while it is set, the service is not called again.
    refused: Attr[str | None] = attr(default=None)
    created_at: Attr[datetime | None] = attr(default=None)
    last_processed_at: Attr[datetime | None] = attr(default=None)
    expires_at: Attr[EpochSeconds | None] = attr(default=None)

    def describe(self) -> str:
        """Return the record's name for messages: its stored key. Override it where there is a better name."""
        return "/".join(str(value) for value in get_key(self).values())

    def get_live_until(self) -> float:
        """Return until when no other worker may take the record: the end of the lease or of the intent."""
        lease = self.in_progress_expires_at if self.status is OnceStatus.PROCESSING else None
        return max(lease or 0.0, self.act_until or 0.0)

    def has_expired(self, now: float) -> bool:
        """Return True if the lifetime is over, though the store may not have removed the record yet."""
        return self.expires_at is not None and self.expires_at.timestamp() < int(now)

    def can_be_replaced(self, now: float) -> bool:
        """Return True if the record may be claimed as if it did not exist: it has expired and has no open
        intent.
        """
        return self.has_expired(now) and self.act_until is None


def format_key(record: OnceRecord) -> str:
    """Return the record's key as one string, to look up or to send as an idempotency key.

    Different keys give different strings.
    """
    return format_key_text(get_key(record))


def get_key(record: OnceRecord) -> Item:
    """Return the key attributes of the record as stored."""
    declaration = get_declaration(type(record))
    return declaration.extract_key(declaration.to_item(record))


def fingerprint(payload: bytes | str | Mapping[str, Any] | list[Any]) -> str:
    """Return the SHA-256 of a payload in hex. The order of JSON members does not matter."""
    if isinstance(payload, str):
        payload = _encode_utf8(payload)
    if not isinstance(payload, bytes):
        payload = encode_json(payload, sort=True).encode()
    return hashlib.sha256(payload).hexdigest()


def encode_json(value: object, *, sort: bool = False) -> str:
    """Return compact JSON; raise `InvalidRequest` for what JSON cannot hold exactly (NaN, number keys, lone
    surrogates).
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort)
    except (TypeError, ValueError) as error:
        raise _build_json_error(str(error)) from error
    _encode_utf8(text)
    _check_text_keys(value)
    return text


def _encode_utf8(text: str) -> bytes:
    """Return the text as UTF-8; raise `InvalidRequest` for a lone surrogate."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _build_json_error("a lone surrogate is not a character") from error


def _check_text_keys(value: object) -> None:
    """Raise `InvalidRequest` if a map has keys other than text: JSON would make 1 and "1" the same key."""
    level: list[Any] = [value]
    while level:
        inside: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                if strangers := [key for key in each if not isinstance(key, str)]:
                    raise _build_json_error(f"a map key has the type {type(strangers[0]).__name__}")
                inside += each.values()
            elif isinstance(each, list | tuple):
                inside += each
        level = inside


def _build_json_error(why: str) -> InvalidRequest:
    """Return the error for a value that JSON cannot hold; `why` says what is wrong."""
    return InvalidRequest(
        f"Invalid result or payload: it is kept as JSON, but {why}. Use text, numbers, bool, None, lists and "
        "maps with text keys."
    )


def compute_end(requested: datetime, leased_until: float, intent_kept_until: float | None = None) -> datetime:
    """Return when a record ends: as requested, but not before its lease, nor with an open intent before
    `intent_kept_until`.
    """
    return max(requested, truncate_to_second(leased_until + 1), truncate_to_second(intent_kept_until or 0))


def compute_time_after(now: float, seconds: float) -> float:
    """Return the epoch seconds `seconds` after `now`, cut to milliseconds."""
    return math.floor((now + seconds) * TIME_PARTS_PER_S) / TIME_PARTS_PER_S


def truncate_to_second(moment: float) -> datetime:
    """Return the epoch seconds as a UTC datetime, cut to whole seconds."""
    return datetime.fromtimestamp(int(moment), UTC)
