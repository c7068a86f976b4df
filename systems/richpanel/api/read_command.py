"""The operator command that shows how messages are read, without a help desk and without any store.

`holdfast richpanel read FILE… --json`
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from holdfast.ai import UNKNOWN, Classification, Classifier
from holdfast.core.errors import InvalidRequest
from holdfast.model.system import Command, Explanation
from richpanel.domain.feature_flags import FeatureFlags
from richpanel.domain.inbound_events import InboundEvent
from richpanel.domain.intents import Intent, get_intent_classifier
from richpanel.domain.mail.message import MailMessage, parse_mail
from richpanel.domain.orders import Order, hash_email
from richpanel.domain.reading import Reading, read_message
from richpanel.domain.routing import MIN_ROUTE_CONFIDENCE, get_likeliest_team
from richpanel.domain.rules import Decision, Facts, decide
from richpanel.model.entities import ActionType
from richpanel.settings import RichpanelSettings

CHANNEL: Final = "email"
SOMEBODY: Final = "customer@example.com"
# The decision is that of a new conversation, with every switch on.
_ALL_ON: Final = FeatureFlags(safe_mode=False, automation_enabled=True, channels=frozenset({CHANNEL}))
_NOON: Final = datetime(2026, 2, 4, 12, tzinfo=UTC)


@dataclass(frozen=True)
class MessageReport:
    """What the middleware reads in one message, and what it would do with it."""

    file: str
    reading: Reading
    classification: Classification
    decision: Decision

    @property
    def intent(self) -> str | None:
        """The intent, or None if none is likely enough or the message is out of scope."""
        if self.reading.asks_for_person:
            return Intent.human_request
        team, confidence = get_likeliest_team(self.classification)
        label = self.classification.label
        is_sure = team is not None and confidence >= MIN_ROUTE_CONFIDENCE
        return label if is_sure and label in set(Intent) else None

    @property
    def would_reply(self) -> bool:
        """Whether the middleware would reply to the customer by itself."""
        return any(action.type is ActionType.auto_reply for action in self.decision.actions)

    def to_json(self) -> dict[str, Any]:
        """Return the report as other programs read it."""
        routing = self.decision.routing
        return {
            "text": self.reading.text,
            "language": self.reading.language,
            "automatic": self.reading.automatic,
            "intent": self.intent,
            "confidence": round(self.classification.confidence, 3),
            "team": None if routing is None else str(routing.team),
            "order_numbers": [each.text for each in self.reading.order_candidates],
            "would_reply": self.would_reply,
            "reason": "; ".join(self.decision.reasons),
        }

    def format(self) -> str:
        """Return the report as lines for a person."""
        shown = self.to_json()
        lines = [
            f"{name.replace('_', ' ')}: {_format_value(value)}"
            for name, value in shown.items()
            if name != "text"
        ]
        text = "\n".join(f"  | {line}" for line in self.reading.text.splitlines())
        return "\n".join(
            [self.file, text or "  | (nothing of the sender's own)", *(f"  {each}" for each in lines), ""]
        )


async def read(
    file: Annotated[list[Path], "Mail (.eml), or JSON with subject and text"],
) -> Any:
    """Show how messages are read and routed. Touches no help desk and no store."""
    classifier = get_intent_classifier()
    reports = [read_file(each, classifier) for each in file]
    return Explanation(tuple(each.format() for each in reports), [each.to_json() for each in reports])


def read_file(file: Path, classifier: Classifier) -> MessageReport:
    """Read the message in a file and decide about it. Raise `InvalidRequest` if the file is unreadable."""
    reading = read_message(_load_message(file))
    knows = reading.automatic is None and reading.is_home_language
    classification = classifier.classify(reading.content) if knows else Classification(UNKNOWN, 0.0)
    facts = Facts(
        event=InboundEvent(
            conversation_id="read", message_id="read", channel=CHANNEL, customer_email=SOMEBODY
        ),
        message_key="read",
        classification=classification,
        flags=_ALL_ON,
        now=_NOON,
        reading=reading,
        settings=RichpanelSettings(),
    )
    return MessageReport(file.name, reading, classification, _decide(facts))


def _decide(facts: Facts) -> Decision:
    """Decide as if the shop confirmed the order number of the message."""
    if facts.named_number is None:
        return decide(facts)
    order = Order(facts.named_number, hash_email(SOMEBODY), "(unknown here)")
    decision = decide(replace(facts, order=order))
    return replace(decision, reasons=(*decision.reasons, "if the shop confirms the order number"))


def _load_message(file: Path) -> MailMessage:
    """Load a message from a file. Raise `InvalidRequest` if it is missing, or is JSON of another shape."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"Cannot read {file}: {error.strerror}. Give a file of a message.") from error
    return _parse_form(file, content) if file.suffix.lower() == ".json" else parse_mail(content)


def _parse_form(file: Path, content: bytes) -> MailMessage:
    """Parse JSON with `text`, and optionally `subject`."""
    try:
        found = msgspec.json.decode(content)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise InvalidRequest(f"Invalid file {file}: expected one JSON object in UTF-8.") from None
    if not isinstance(found, Mapping) or not isinstance(found.get("text"), str):
        raise InvalidRequest(f"Invalid file {file}: expected an object with text, and optionally subject.")
    subject = found.get("subject")
    return MailMessage(subject=subject if isinstance(subject, str) else "", body=found["text"])


def _format_value(value: Any) -> str:
    """Format a value of a report for a person."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


COMMANDS: Final = {"read": Command(read, needs_stores=False)}
