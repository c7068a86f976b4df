"""Parse mail files (`.eml`) into the records of a review."""

from __future__ import annotations

import email
import email.policy
import email.utils
import re
from datetime import UTC, datetime
from email.message import EmailMessage
from html.parser import HTMLParser
from typing import Any, Final

from agenticpm.domain.reading.sentences import split_quotes, unwrap
from agenticpm.domain.review.records import Mail

_BLOCKS: Final = frozenset(
    (
        "p",
        "div",
        "br",
        "li",
        "tr",
        "h1",
        "h2",
        "h3",
        "h4",
        "ul",
        "ol",
        "table",
        "blockquote",
        "td",
        "hr",
        "body",
    )
)
_SKIPPED: Final = frozenset(("style", "script", "head", "title"))
_QUOTE_CLASSES: Final = ("gmail_quote", "moz-cite-prefix", "yahoo_quoted", "divRplyFwdMsg", "appendonsend")
_VOID: Final = frozenset(("br", "hr", "img", "meta", "link", "input", "col", "area", "base", "wbr"))


def parse_mail(data: bytes, name: str) -> Mail:
    """Return a mail with its sender's own words apart from what they quote."""
    message = email.message_from_bytes(data, policy=email.policy.default)
    text, quoted = split_quotes(_read_body(message))
    return Mail(
        name=name,
        subject=_read_header(message, "Subject"),
        sender=_read_header(message, "From"),
        at=_read_date(message),
        text=unwrap(text),
        quoted=unwrap(quoted),
        is_automatic=_is_automatic(message),
    )


def _read_body(message: Any) -> str:
    """Return the text of a mail, or of its HTML."""
    try:
        part = message.get_body(("plain", "html"))
    except (AttributeError, KeyError):
        part = None
    if part is None:
        return ""
    text = _decode(part)
    if part.get_content_type() == "text/html":
        reader = _HtmlText()
        reader.feed(text)
        reader.close()
        return reader.get_text()
    return text.replace("\r\n", "\n")


def _decode(part: EmailMessage) -> str:
    """Return the text of a part; bytes that do not fit its charset are replaced."""
    try:
        return str(part.get_content())
    except (LookupError, UnicodeError, KeyError):
        data = part.get_payload(decode=True)
        return data.decode("utf-8", "replace") if isinstance(data, bytes) else ""


def _read_header(message: Any, name: str) -> str:
    try:
        return str(message[name] or "")
    except (ValueError, IndexError):
        return ""


def _read_date(message: Any) -> datetime | None:
    try:
        found = email.utils.parsedate_to_datetime(_read_header(message, "Date"))
    except (ValueError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _is_automatic(message: Any) -> bool:
    """Return whether no person wrote the mail: an answer while away, a newsletter, a notification."""
    submitted = _read_header(message, "Auto-Submitted").casefold()
    return (
        (bool(submitted) and submitted != "no")
        or _read_header(message, "Precedence").casefold() in ("bulk", "junk", "list", "auto_reply")
        or bool(_read_header(message, "X-Autoreply"))
    )


class _HtmlText(HTMLParser):
    """Collects the text of HTML with an empty line between blocks; quoted parts become `>` lines."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._open: list[tuple[str, bool, bool]] = []  # tag, starts a quote, is skipped

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _BLOCKS:
            self._parts.append("\n\n")
        if tag in _VOID:
            return
        values = " ".join(value or "" for name, value in attrs if name in ("class", "id"))
        is_quote = tag == "blockquote" or any(each in values for each in _QUOTE_CLASSES)
        self._open.append((tag, is_quote, tag in _SKIPPED))

    def handle_endtag(self, tag: str) -> None:
        for number in range(len(self._open) - 1, -1, -1):
            if self._open[number][0] == tag:
                del self._open[number:]
                break
        if tag in _BLOCKS:
            self._parts.append("\n\n")

    def handle_data(self, data: str) -> None:
        if any(is_skipped for _, _, is_skipped in self._open):
            return
        text = re.sub(r"\s+", " ", data)
        if any(is_quote for _, is_quote, _ in self._open) and text.strip():
            text = f"\n> {text.strip()}"
        self._parts.append(text)

    def get_text(self) -> str:
        return re.sub(r"\n{3,}", "\n\n", "".join(self._parts)).strip()
