"""Mail signals: detect mails that mention a ticket, or the project with a word of trouble; report each once.

Only the redacted, truncated subject of a mail is stored. Its text is searched and not stored.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from agenticpm.domain.plain_text import to_line
from agenticpm.domain.tickets import Evidence, MailMessage, MailPage, Signal, SignalKind, Snapshot
from holdfast.guarantees import redact

# Reported mails are remembered this long. An older mail is not reported when it is first read.
MENTION_DAYS: Final = 30
MAX_SUBJECT_CHARS: Final = 120

# The reply and forward prefixes that mail programs put before a subject.
_REPLY_PREFIX: Final = re.compile(
    r"^(?:\s*(?:re|fwd?|aw|wg|sv|tr|antw)\s*(?:\[\d+\])?\s*:)+\s*", re.IGNORECASE
)

_TROUBLE: Final = re.compile(
    r"\b(risks?|delay(s|ed)?|slip(s|ping|ped)?|late|overdue|block(s|ed|er|ers|ing)?|postpone[ds]?|escalat\w+"
    r"|at risk|behind schedule|urgent(ly)?|outage|cannot deliver|miss(ed|ing)? the deadline|end of "
    r"life|eol)\b",
    re.IGNORECASE,
)


def detect_mail_signals(
    before: Snapshot, page: MailPage, project_key: str, now: datetime, *, limit: int | None = None
) -> tuple[Snapshot, list[Signal]]:
    """Return the snapshot with the newly reported mails, and at most `limit` signals, oldest mail first.

    Skip removed, already reported and old mails. Call again with the returned snapshot for the rest.
    """
    oldest = now - timedelta(days=MENTION_DAYS)
    mentions = {mail: at for mail, at in before.mentions.items() if at > oldest}
    troubles = {mail: signal for mail, signal in before.troubles.items() if mail in mentions}
    signals: list[Signal] = []
    for mail in sorted(page.messages, key=lambda each: (each.received_at, each.id)):
        if limit is not None and len(signals) >= limit:
            break
        if mail.is_removed or mail.id in mentions or not oldest < mail.received_at:
            continue
        if (signal := _build_mention(mail, project_key, before)) is not None:
            signals.append(signal)
            mentions[mail.id] = mail.received_at
            if signal.severity != "info":
                troubles[mail.id] = signal
    return before.model_copy(update={"mentions": mentions, "troubles": troubles}), signals


def get_thread(signal: Signal, project_key: str) -> str:
    """Return the thread of a mail signal: its ticket, or else its subject without reply prefixes."""
    if signal.subject != project_key or not signal.evidence:
        return signal.subject
    subject = _REPLY_PREFIX.sub("", signal.evidence[0].after or "")
    return f"{project_key} {subject.casefold()}".strip()


def _build_mention(mail: MailMessage, project_key: str, snapshot: Snapshot) -> Signal | None:
    """Build the signal of a mail about a known ticket, or about trouble in the project; else None."""
    text = f"{mail.subject}\n{mail.preview}"
    is_trouble = _TROUBLE.search(text) is not None
    about = _find_ticket(text, project_key, snapshot.tickets)
    if about is None and not (is_trouble and _contains_word(project_key, text)):
        return None
    subject = to_line(redact(mail.subject), MAX_SUBJECT_CHARS)
    return Signal(
        kind=SignalKind.mail_mention,
        subject=about or project_key,
        severity="warning" if is_trouble else "info",
        summary=f"A mail mentions {about or project_key}: {subject or '(no subject)'}",
        evidence=(Evidence(ticket=mail.id, field="subject", after=subject, at=mail.received_at),),
    )


def _find_ticket(text: str, project_key: str, tickets: Mapping[str, object]) -> str | None:
    """Return the key of the first known ticket in the text, or None.

    A key is `MCU-142`, or a long number as in Asana.
    """
    for found in re.finditer(rf"\b(?:{re.escape(project_key)}-\d+|\d{{10,}})\b", text, re.IGNORECASE):
        if (key := found[0].upper()) in tickets:
            return key
    return None


def _contains_word(word: str, text: str) -> bool:
    """Return whether the text contains the whole word, in any case."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) is not None
