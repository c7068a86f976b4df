"""Parse an RFC 5322 message: decoded headers, and the text of its body.

The body is the plain text, or the HTML as text if there is no plain text worth reading. Attachments and
attached messages are not part of it: another person wrote them, or the same one at another time.
"""

from __future__ import annotations

import email
import email.policy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import Message
from email.utils import parseaddr
from typing import Final

from richpanel.domain.mail.html_text import convert_html

# Clients declare Latin-1 and send Windows-1252, so both are read as the latter (as browsers do).
_CHARSETS: Final = {"iso-8859-1": "cp1252", "latin-1": "cp1252", "latin1": "cp1252", "us-ascii": "utf-8"}
# A body above this is cut: no customer writes it, and rules over lines take time.
MAX_BODY_CHARS: Final = 100_000
# A plain part below this share of the HTML's text is a stub: "Your client cannot show HTML".
MIN_PLAIN_SHARE: Final = 0.2


@dataclass(frozen=True)
class MailMessage:
    """A message as its reader needs it. `headers` have lower-case names; of repeated ones the first counts.

    `content_type` and `report_type` are those of the whole message: `multipart/report`, `delivery-status`.
    """

    subject: str = ""
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/plain"
    report_type: str = ""

    @property
    def sender_name(self) -> str:
        """The display name of the sender, or the part of the address before the @."""
        name, address = parseaddr(self.headers.get("from", ""))
        return name or address.partition("@")[0]


def parse_mail(raw: bytes) -> MailMessage:
    """Parse a message. Nothing is raised for broken mail: what is unreadable is replaced or left out."""
    message = email.message_from_bytes(raw, policy=email.policy.compat32)
    headers: dict[str, str] = {}
    for name, value in message.items():
        headers.setdefault(name.lower(), _decode_header(value))
    report_type = message.get_param("report-type", "")
    return MailMessage(
        subject=headers.get("subject", ""),
        body=_read_body(message)[:MAX_BODY_CHARS],
        headers=headers,
        content_type=message.get_content_type(),
        report_type=str(report_type).lower(),
    )


def _decode_header(value: object) -> str:
    """Decode the encoded words of a header, and unfold it."""
    parts: list[str] = []
    try:
        for part, charset in email.header.decode_header(str(value)):
            parts.append(part if isinstance(part, str) else _decode(part, charset or "utf-8"))
    except (email.errors.HeaderParseError, ValueError):
        parts = [str(value)]
    return " ".join("".join(parts).encode("utf-8", "replace").decode("utf-8").split())


def _read_body(message: Message) -> str:
    """Return the text of all body parts, in their order."""
    return "\n".join(text for text in _iterate_texts(message) if text.strip())


def _iterate_texts(part: Message) -> Iterator[str]:
    """Yield the texts of a part, without attachments and attached messages."""
    kind = part.get_content_type()
    if kind == "message/rfc822" or part.get_content_disposition() == "attachment":
        return
    if part.is_multipart():
        yield from _iterate_parts(part, kind)
    elif kind == "text/plain":
        yield _decode_part(part)
    elif kind == "text/html":
        yield convert_html(_decode_part(part))


def _iterate_parts(part: Message, kind: str) -> Iterator[str]:
    """Yield the texts of a multipart: one alternative, the notice of a report, otherwise every part."""
    inner = [each for each in part.get_payload() if isinstance(each, Message)]
    if kind == "multipart/alternative":
        yield _choose_alternative(["\n".join(_iterate_texts(each)) for each in inner])
        return
    for each in inner[:1] if kind == "multipart/report" else inner:
        yield from _iterate_texts(each)


def _choose_alternative(texts: list[str]) -> str:
    """Return the first alternative, the plainest one, unless it is a stub of another."""
    full = [text for text in texts if text.strip()]
    longest = max(map(len, full), default=0)
    return next((text for text in full if len(text) >= longest * MIN_PLAIN_SHARE), "")


def _decode_part(part: Message) -> str:
    """Decode the content of a text part."""
    content = part.get_payload(decode=True)
    if not isinstance(content, bytes):
        return ""
    return _decode(content, str(part.get_content_charset() or "utf-8"))


def _decode(content: bytes, charset: str) -> str:
    """Decode bytes by the declared charset, or else as UTF-8, or else as Windows-1252."""
    for name in (_CHARSETS.get(charset.lower(), charset), "utf-8", "cp1252"):
        try:
            return content.decode(name)
        except (LookupError, UnicodeError):
            continue
    return content.decode("latin-1")
