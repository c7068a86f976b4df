"""Read a message: what its sender wrote, in which language, and whether a program sent it.

    MailMessage → own text, own subject → language, kind of automatic mail, candidates for order numbers

Everything after this, from the intent to the order number, sees the sender's own words only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from richpanel.domain.human_requests import asks_for_person
from richpanel.domain.language import HOME_LANGUAGE, find_language
from richpanel.domain.mail.automatic import AutomaticKind, find_automatic_kind
from richpanel.domain.mail.message import MailMessage
from richpanel.domain.mail.quoted_text import remove_quoted_text
from richpanel.domain.mail.signatures import remove_signature
from richpanel.domain.order_numbers import OrderCandidate, find_order_candidates

# The subject of a reply or a forwarded message repeats another's. `[Ticket 12]` is a help desk's.
_REPLIED: Final = re.compile(
    r"\s*(?:\[[^\]]*\]\s*)?(?:re|aw|antw|antwort|sv|vs|odp|rif|r|ref|res|回复|返信|fw|fwd|wg|tr|rv|i|enc|doorst|pd|vb|vl|転送)"
    r"\s?(?:\[\d+\]|\(\d+\))?\s?[:：]",
    re.IGNORECASE,
)

# The subject helps to recognise the language of a shorter text.
MIN_WORDS: Final = 4


@dataclass(frozen=True)
class Reading:
    """What a message says. `subject` is empty if it repeats another's, as that of a reply does."""

    text: str
    subject: str = ""
    language: str = HOME_LANGUAGE
    automatic: AutomaticKind | None = None
    order_candidates: tuple[OrderCandidate, ...] = ()

    @property
    def content(self) -> str:
        """The sender's words: subject and text."""
        return f"{self.subject}\n\n{self.text}".strip() if self.subject else self.text

    @property
    def is_home_language(self) -> bool:
        """Whether the classifier knows the language."""
        return self.language == HOME_LANGUAGE

    @property
    def asks_for_person(self) -> bool:
        """Whether the customer asks for a person."""
        return self.is_home_language and self.automatic is None and asks_for_person(self.content)


def read_message(message: MailMessage) -> Reading:
    """Read a message: mail, or a text and a subject without headers."""
    text = remove_signature(remove_quoted_text(message.body), message.sender_name)
    automatic = find_automatic_kind(message, text)
    subject = "" if _REPLIED.match(message.subject) else message.subject.strip()
    return Reading(
        text=text,
        subject=subject,
        language=find_language(text if len(text.split()) >= MIN_WORDS else f"{subject} {text}"),
        automatic=automatic,
        order_candidates=() if automatic else find_order_candidates(text, subject),
    )


def read_text(text: str, subject: str = "") -> Reading:
    """Read a text that has no headers, as from a chat or a form."""
    return read_message(MailMessage(subject=subject, body=text))
