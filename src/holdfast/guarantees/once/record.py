"""What is kept of something that must happen once: who works on it, until when, and how it ended.

A system derives its record from `OnceRecord`, with a table, a key and attributes of its own:

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

from holdfast.errors import InvalidRequest
from holdfast.model import Attr, Entity, EpochSeconds, attr, declaration_of
from holdfast.operations.values import Item

# Parts of a second: fine enough for short leases, and a number that every engine keeps as it is.
MOMENT_PARTS: Final = 1000


class OnceStatus(StrEnum):
    """The last two are a hold queue's alone: it waits to be done, or never will be."""

    PROCESSING = "processing"
    PROCESSED = "processed"
    FAILED = "failed"
    HELD = "held"
    CANCELLED = "cancelled"


class OnceRecord(Entity):
    """The attributes of every record; `Once` writes them. A caller gives the key and `payload_sha256`.

    Moments at which a lease or an intent ends are epoch seconds with thousandths; `created_at` and
    `last_processed_at` are whole seconds, so that a system may keep them as `Seconds`. `created_at` and `expires_at` may be
    given; else the clock and the declared lifetime say them.
    """

    status: Attr[OnceStatus] = attr(default=OnceStatus.PROCESSING)
    payload_sha256: Attr[str] = attr()
    # A new one for each claim: by it a late worker is known.
    owner: Attr[str] = attr(default="")
    # Counts what was written under the key, so that a write which arrives late changes nothing.
    revision: Attr[int] = attr(default=0)
    attempts: Attr[int] = attr(default=0)
    in_progress_expires_at: Attr[float | None] = attr(default=None)
    # The intent of an effect at an outside party: until then the party may act.
    act_until: Attr[float | None] = attr(default=None)
    result: Attr[str | None] = attr(default=None)
    error: Attr[str | None] = attr(default=None)
    # The party's name for a refusal that is for good: while it stands here, nobody is asked again.
    refused: Attr[str | None] = attr(default=None)
    created_at: Attr[datetime | None] = attr(default=None)
    last_processed_at: Attr[datetime | None] = attr(default=None)
    expires_at: Attr[EpochSeconds | None] = attr(default=None)

    def spoken(self) -> str:
        """What a person is told that it is, in messages: the key as it is stored. Say it better where there is a better name."""
        return "/".join(str(value) for value in key_of(self).values())

    def is_live_until(self) -> float:
        """Until when nobody else may take it: the end of a lease, and of what a party may still do."""
        lease = self.in_progress_expires_at if self.status is OnceStatus.PROCESSING else None
        return max(lease or 0.0, self.act_until or 0.0)

    def has_ended(self, now: float) -> bool:
        """Whether its lifetime is over, though the store may not have removed it yet."""
        return self.expires_at is not None and self.expires_at.timestamp() < int(now)

    def is_forgotten(self, now: float) -> bool:
        """Whether it may be claimed as if it were not there. An intent whose outcome is open is never forgotten."""
        return self.has_ended(now) and self.act_until is None


def key_text(record: OnceRecord) -> str:
    """The record's key as one text, to be looked up or sent as an idempotency key. No two keys have the same."""
    values = [str(value) for value in key_of(record).values()]
    if len(values) == 1:
        return values[0]
    return "#".join(value.replace("%", "%25").replace("#", "%23") for value in values)


def key_of(record: OnceRecord) -> Item:
    declaration = declaration_of(type(record))
    return declaration.key_of(declaration.to_item(record))


def fingerprint(payload: bytes | str | Mapping[str, Any] | list[Any]) -> str:
    """SHA-256 of a payload, in hex. Of JSON it is the content that counts, not the order of its members."""
    if isinstance(payload, str):
        payload = _encoded(payload)
    if not isinstance(payload, bytes):
        payload = json_text(payload, sort=True).encode()
    return hashlib.sha256(payload).hexdigest()


def json_text(value: object, *, sort: bool = False) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort)
    except (TypeError, ValueError) as error:
        raise _not_json(str(error)) from error
    _encoded(text)
    _refuse_other_keys(value)
    return text


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _not_json("half of a pair of surrogates is no character") from error


def _refuse_other_keys(value: object) -> None:
    """JSON would make text of a number that is a key, and so the same of two maps that are not."""
    level: list[Any] = [value]
    while level:
        inside: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                if strangers := [key for key in each if not isinstance(key, str)]:
                    raise _not_json(f"the key of a map is of the type {type(strangers[0]).__name__}")
                inside += each.values()
            elif isinstance(each, list | tuple):
                inside += each
        level = inside


def _not_json(why: str) -> InvalidRequest:
    return InvalidRequest(
        f"A result or payload is kept as JSON, and this cannot be: {why}. Give text, numbers, bool, None, lists and maps "
        "with text keys."
    )


def end_of(wanted: datetime, leased_until: float, intent_kept_until: float | None = None) -> datetime:
    """When a record ends: as it is wanted, but not before its lease; and one with an open intent not before whoever
    comes next could have looked up."""
    return max(wanted, whole_second(leased_until + 1), whole_second(intent_kept_until or 0))


def moment_after(now: float, seconds: float) -> float:
    return math.floor((now + seconds) * MOMENT_PARTS) / MOMENT_PARTS


def whole_second(moment: float) -> datetime:
    return datetime.fromtimestamp(int(moment), UTC)
