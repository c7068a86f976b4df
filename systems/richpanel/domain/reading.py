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
from richpanel.domain.mail.automatic import AutomaticKind, find_automatic_kind, refuses_auto_reply
from richpanel.domain.mail.message import MailMessage
from richpanel.domain.mail.quoted_text import remove_quoted_text
from richpanel.domain.mail.signatures import remove_signature
from richpanel.domain.order_numbers import OrderCandidate, find_order_candidates

# The subject of a reply or a forwarded message repeats another's. `[Ticket 12]` is a help desk's.
_REPLIED: Final = re.compile(
    r"\s*(?:\[[^\]]*\]\s*)?(?:re|aw|antw|antwort|sv|vs|odp|rif|r|ref|res|回复|返信|fw|fwd|wg|tr|rv|i|enc|"
    r"doorst|pd|vb|vl|転送)"
    r"\s?(?:\[\d+\]|\(\d+\))?\s?[:：]",
    re.IGNORECASE,
)

_FORM_FIELD: Final = re.compile(r"[^\W\d][\w ./()-]{1,30}[:：][^\n]*\n")
_FORM_MESSAGE: Final = re.compile(
    r"^\s*(?:your |ihre |votre |su |tu |il tuo |je |uw )?(?:message|comments?|enquiry|inquiry|question|"
    r"description|"
    r"details|nachricht|anfrage|mitteilung|commentaire|mensaje|consulta|messaggio|richiesta|bericht|vraag|"
    r"mensagem|"
    r"wiadomość|treść|お問い合わせ内容|内容|本文)\s*[:：][ \t]*",
    re.IGNORECASE | re.MULTILINE,
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
    # The sender's system asks for no automatic response.
    refuses_auto_reply: bool = False

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
    text = remove_signature(remove_quoted_text(_take_form_message(message.body)), message.sender_name)
    automatic = find_automatic_kind(message, text)
    subject = "" if _REPLIED.match(message.subject) else message.subject.strip()
    return Reading(
        text=text,
        subject=subject,
        language=find_language(text if len(text.split()) >= MIN_WORDS else f"{subject} {text}"),
        automatic=automatic,
        order_candidates=() if automatic else find_order_candidates(text, subject),
        refuses_auto_reply=refuses_auto_reply(message),
    )


def _take_form_message(body: str) -> str:
    """Return the message of a contact form that was sent with its fields (`Name: …`, `Message: …`), or the
    whole body.
    """
    field = _FORM_FIELD.match(body.lstrip())
    message = _FORM_MESSAGE.search(body) if field else None
    return body[message.end() :] if message else body


def read_text(text: str, subject: str = "") -> Reading:
    """Read a text that has no headers, as from a chat or a form."""
    return read_message(MailMessage(subject=subject, body=text))
