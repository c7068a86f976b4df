"""Mails that mention a ticket, or the project with a word of risk or delay: each told once.

Of a mail only its subject is kept, without what identifies people, and cut. Its text is looked at, and not kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from agenticpm.plain_text import line_of
from agenticpm.tickets import Evidence, MailMessage, MailPage, Signal, SignalKind, Snapshot
from holdfast.guarantees import redact

# How long is remembered which mails were told. An older one is no news when it is read for the first time.
MENTION_DAYS: Final = 30
SUBJECT_CHARS_MAX: Final = 120

# What programs put before the subject of an answer.
_ANSWERED: Final = re.compile(r"^(?:\s*(?:re|fwd?|aw|wg|sv|tr|antw)\s*(?:\[\d+\])?\s*:)+\s*", re.IGNORECASE)

_TROUBLE: Final = re.compile(
    r"\b(risks?|delay(s|ed)?|slip(s|ping|ped)?|late|overdue|block(s|ed|er|ers|ing)?|postpone[ds]?|escalat\w+"
    r"|at risk|behind schedule|urgent(ly)?|outage|cannot deliver|miss(ed|ing)? the deadline|end of life|eol)\b",
    re.IGNORECASE,
)


def mail_signals(
    before: Snapshot, page: MailPage, project_key: str, now: datetime, *, most: int | None = None
) -> tuple[Snapshot, list[Signal]]:
    """The snapshot with the mails that were told, and their signals, by when they came. Called again, the rest."""
    oldest = now - timedelta(days=MENTION_DAYS)
    mentions = {mail: at for mail, at in before.mentions.items() if at > oldest}
    troubles = {mail: signal for mail, signal in before.troubles.items() if mail in mentions}
    signals: list[Signal] = []
    for mail in sorted(page.messages, key=lambda each: (each.received_at, each.id)):
        if most is not None and len(signals) >= most:
            break
        if mail.is_removed or mail.id in mentions or not oldest < mail.received_at:
            continue
        if (signal := _mention(mail, project_key, before)) is not None:
            signals.append(signal)
            mentions[mail.id] = mail.received_at
            if signal.severity != "info":
                troubles[mail.id] = signal
    return before.model_copy(update={"mentions": mentions, "troubles": troubles}), signals


def thread_of(signal: Signal, project_key: str) -> str:
    """What joins a mail with others: the ticket that it mentions, or else its subject, as it was before any answer."""
    if signal.subject != project_key or not signal.evidence:
        return signal.subject
    subject = _ANSWERED.sub("", signal.evidence[0].after or "")
    return f"{project_key} {subject.casefold()}".strip()


def _mention(mail: MailMessage, project_key: str, snapshot: Snapshot) -> Signal | None:
    text = f"{mail.subject}\n{mail.preview}"
    is_trouble = _TROUBLE.search(text) is not None
    about = _ticket_in(text, project_key, snapshot.tickets)
    if about is None and not (is_trouble and _stands_in(project_key, text)):
        return None
    subject = line_of(redact(mail.subject), SUBJECT_CHARS_MAX)
    return Signal(
        kind=SignalKind.mail_mention,
        subject=about or project_key,
        severity="warning" if is_trouble else "info",
        summary=f"A mail mentions {about or project_key}: {subject or '(no subject)'}",
        evidence=(Evidence(ticket=mail.id, field="subject", after=subject, at=mail.received_at),),
    )


def _ticket_in(text: str, project_key: str, tickets: Mapping[str, object]) -> str | None:
    """The first ticket that is named and known: `MCU-142`, or a long number as Asana has them."""
    for found in re.finditer(rf"\b(?:{re.escape(project_key)}-\d+|\d{{10,}})\b", text, re.IGNORECASE):
        if (key := found[0].upper()) in tickets:
            return key
    return None


def _stands_in(word: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None
