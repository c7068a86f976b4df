"""What the help desk and the shop answer, cleaned: nothing in it may stop an event, and no odd value reaches a log.

An answer is another's. A member that is missing or of another type is absent; halves of characters are replaced; what is
too long is cut. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from richpanel.payloads import (
    EMAIL_CHARS_MAX,
    TAGS_MAX,
    TEXT_CHARS_MAX,
    WORD_CHARS_MAX,
    Author,
    is_believable,
)
from richpanel.senders import author_of

OUR_TAGS: Final = "mw-"
VALUE_CHARS_MAX: Final = 200


@dataclass(frozen=True)
class Said:
    """A message at the help desk. `author`, `written_at` and `email` are None where it does not tell them."""

    id: str | None
    author: Author | None
    text: str
    written_at: datetime | None
    email: str | None


@dataclass(frozen=True)
class Ticket:
    """What a ticket tells of all its messages."""

    channel: str | None
    email: str | None
    tags: tuple[str, ...]


def said(answer: Mapping[str, Any]) -> Said:
    return Said(
        id=_id(answer.get("id")),
        author=author_of(answer.get("author")),
        text=cleaned(answer.get("text"), TEXT_CHARS_MAX),
        written_at=moment(answer.get("created_at")),
        email=_address(answer.get("email")) or _address(_member(answer.get("sender"), "email")),
    )


def ticket(answer: Mapping[str, Any]) -> Ticket:
    return Ticket(
        channel=_word(answer.get("channel")),
        email=_address(_member(answer.get("customer"), "email")),
        tags=_tags(answer.get("tags")),
    )


def cleaned(value: object, chars_max: int = VALUE_CHARS_MAX) -> str:
    """A text without halves of characters; what is none is empty."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")[:chars_max]


def moment(value: object) -> datetime | None:
    """A time in writing. One without a zone is taken for UTC: to lose the message would be worse."""
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if found is None or not is_believable(found):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _id(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else None


def _address(value: object) -> str | None:
    """One that is too long is none: a part of it would be another's."""
    found = cleaned(value, EMAIL_CHARS_MAX + 1).strip()
    return found if 0 < len(found) <= EMAIL_CHARS_MAX else None


def _word(value: object) -> str | None:
    found = cleaned(value, WORD_CHARS_MAX + 1).strip()
    return found if 0 < len(found) <= WORD_CHARS_MAX else None


def _tags(value: object) -> tuple[str, ...]:
    """Ours first: they say whether a person has taken over, however many others there are."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        return ()
    found = dict.fromkeys(tag for each in value if (tag := _word(each)) is not None)
    return tuple(sorted(found, key=lambda tag: not tag.startswith(OUR_TAGS)))[:TAGS_MAX]
