"""Parsers of the help desk's tickets and messages, which clean every value.

Responses are untrusted: missing or mistyped fields become None, lone surrogates are replaced, and long values
are cut. Nothing here raises, so that no response can stop an event or put a strange value into a log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from richpanel.domain.inbound_events import (
    MAX_EMAIL_CHARS,
    MAX_TAGS,
    MAX_TEXT_CHARS,
    MAX_WORD_CHARS,
    Author,
    is_plausible_time,
)
from richpanel.domain.webhook_formats import parse_author

OWN_TAG_PREFIX: Final = "mw-"
MAX_VALUE_CHARS: Final = 200
MAX_SUBJECT_CHARS: Final = 998
MAX_HTML_CHARS: Final = 400_000
MAX_HEADERS: Final = 200
MAX_HEADER_CHARS: Final = 2000


@dataclass(frozen=True)
class DeskMessage:
    """A message at the help desk. `author`, `written_at` and `email` are None if the response lacks them, and
    the other fields are empty. `headers` are those of a mail, with lower-case names.
    """

    id: str | None
    author: Author | None
    text: str
    subject: str
    html: str
    headers: Mapping[str, str]
    written_at: datetime | None
    email: str | None


@dataclass(frozen=True)
class DeskTicket:
    """The fields of a ticket that apply to all its messages."""

    channel: str | None
    email: str | None
    tags: tuple[str, ...]


def parse_message(response: Mapping[str, Any]) -> DeskMessage:
    """Parse a message."""
    return DeskMessage(
        id=_parse_id(response.get("id")),
        author=parse_author(response.get("author")),
        text=clean_text(response.get("text"), MAX_TEXT_CHARS),
        subject=clean_text(response.get("subject"), MAX_SUBJECT_CHARS),
        html=clean_text(response.get("html"), MAX_HTML_CHARS),
        headers=_parse_headers(response.get("headers")),
        written_at=parse_time(response.get("created_at")),
        email=_parse_address(response.get("email"))
        or _parse_address(_get_field(response.get("sender"), "email")),
    )


def parse_ticket(response: Mapping[str, Any]) -> DeskTicket:
    """Parse a ticket."""
    return DeskTicket(
        channel=_parse_word(response.get("channel")),
        email=_parse_address(_get_field(response.get("customer"), "email")),
        tags=_parse_tags(response.get("tags")),
    )


def clean_text(value: object, max_chars: int = MAX_VALUE_CHARS) -> str:
    """Return a text without lone surrogates, cut to `max_chars`; empty if the value is not a text."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")[:max_chars]


def parse_time(value: object) -> datetime | None:
    """Parse an ISO time; None if it is invalid or implausible. A time without a zone is read as UTC, because
    losing the message would be worse.
    """
    try:
        found = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    if found is None or not is_plausible_time(found):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _parse_id(value: object) -> str | None:
    """Return an id as text, or None if it is neither a text nor an integer."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value else None


def _get_field(value: object, name: str) -> object:
    """Return a field of an object, or None if the value is not an object."""
    return value.get(name) if isinstance(value, Mapping) else None


def _parse_headers(value: object) -> dict[str, str]:
    """Return the headers of a mail that have a text as their value, with lower-case names."""
    if not isinstance(value, Mapping):
        return {}
    pairs = [
        (name.lower(), clean_text(text, MAX_HEADER_CHARS))
        for name, text in value.items()
        if isinstance(name, str)
    ]
    return {name: text for name, text in pairs[:MAX_HEADERS] if text}


def _parse_address(value: object) -> str | None:
    """Return an e-mail address, or None. A long one is not cut: a part of it would be another person's
    address.
    """
    found = clean_text(value, MAX_EMAIL_CHARS + 1).strip()
    return found if 0 < len(found) <= MAX_EMAIL_CHARS else None


def _parse_word(value: object) -> str | None:
    """Return a text without surrounding white space, or None if it is empty or too long."""
    found = clean_text(value, MAX_WORD_CHARS + 1).strip()
    return found if 0 < len(found) <= MAX_WORD_CHARS else None


def _parse_tags(value: object) -> tuple[str, ...]:
    """Return the tags, the middleware's own first: the limit must not drop the tag of a hand-over."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes | Mapping):
        return ()
    found = dict.fromkeys(tag for each in value if (tag := _parse_word(each)) is not None)
    return tuple(sorted(found, key=lambda tag: not tag.startswith(OWN_TAG_PREFIX)))[:MAX_TAGS]
