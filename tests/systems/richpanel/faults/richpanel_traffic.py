"""Random customer conversations and the effects they must have, for `test_richpanel_killed.py`.

Conversations have every intent, orders that the shop knows, knows under another address or does not know,
personal data in the texts, and events older than the one before. `list_expected_effects` applies the pure
rules to each conversation in the order of the first copies, without queues, workers or retries.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from richpanel.domain.feature_flags import FeatureFlags
from richpanel.domain.idempotency_keys import build_event_key
from richpanel.domain.inbound_events import InboundEvent
from richpanel.domain.intents import Intent, get_intent_classifier, load_examples
from richpanel.domain.orders import Order, hash_email
from richpanel.domain.rules import Decision, Facts, HelpDeskAction, decide
from richpanel.model.entities import ActionType, ConversationState
from richpanel.workers.state_updates import build_next_state

# A Tuesday within working hours, so that decisions that depend on them are fixed.
START = datetime(2026, 2, 3, 10, tzinfo=UTC)
FLAGS = FeatureFlags(safe_mode=False, automation_enabled=True, channels=frozenset({"email"}))
EFFECTS = {
    ActionType.route: "assign",
    ActionType.escalate: "assign",
    ActionType.tag: "tag",
    ActionType.auto_reply: "message",
    ActionType.suggest: "note",
}
RISKS = frozenset({Intent.chargeback, Intent.fraud_report})
OLDER_SHARE = 0.1
AT_RISK_SHARE = 0.1

NAMES = ("Ottilie", "Bartholomew", "Zsuzsanna", "Thaddeus", "Guinevere", "Ignatius")
SURNAMES = ("Featherstone", "Quackenbush", "Zimmerwald", "Ravensdale", "Oyelaran", "Przybylski")


@dataclass(frozen=True)
class CustomerEvent:
    """One customer message as a webhook event."""

    conversation_id: str
    message_id: str
    text: str
    created_at: datetime
    channel: str

    @property
    def key(self) -> str:
        """The event's idempotency key."""
        return build_event_key(self.conversation_id, self.message_id, received_at=START).key

    @property
    def payload(self) -> dict[str, Any]:
        """The body of the event's webhook."""
        return {
            "ticket_id": self.conversation_id,
            "conversation_id": self.conversation_id,
            "message_id": self.message_id,
            "created_at": self.created_at.isoformat(),
            "channel": self.channel,
            "trigger": "customer_message",
        }


@dataclass
class Conversation:
    """A customer, their order at the shop, and the events in the order of their first copies."""

    id: str
    channel: str
    email: str
    phone: str
    name: str
    number: str
    order: dict[str, str] | None
    at_risk: bool
    events: list[CustomerEvent] = field(default_factory=list)

    @property
    def tracking(self) -> str | None:
        return self.order["tracking"] if self.order else None

    @property
    def personal(self) -> list[str]:
        """Personal data that must appear nowhere: texts, names, addresses, numbers."""
        given = [self.email, self.phone, self.name, self.number, *filter(None, [self.tracking])]
        # A two-letter greeting occurs in every file.
        return [*given, *(each.text for each in self.events if len(each.text) >= 12)]


@dataclass(frozen=True)
class Effect:
    """One entry of the help desk's ledger."""

    ticket_id: str
    effect: str
    value: str
    reference: str


# --- conversations ------------------------------------------------------------------------------------------


def make_traffic(random: Random, events: int, conversations: int) -> list[Conversation]:
    """Make `conversations` conversations with `events` events in all, at least one in each."""
    made = [_make_conversation(random, number) for number in range(conversations)]
    of_event = [*made, *random.choices(made, k=events - conversations)]
    for conversation in of_event:
        conversation.events.append(_make_event(random, conversation))
    return made


def _make_conversation(random: Random, number: int) -> Conversation:
    """Make a customer with an order of their own, of another customer, or none, and no events yet."""
    name = f"{random.choice(NAMES)} {random.choice(SURNAMES)}-{number}"
    email = f"{name.split(maxsplit=1)[0].lower()}.{random.randrange(10**6)}@mail-{number}.example"
    order_number = f"W{random.randrange(10**6, 10**7)}{number:04}"
    owner = {"own": email, "other's": f"somebody.else.{number}@mail.example"}.get(
        random.choices(["own", "other's", "none"], [6, 2, 2])[0]
    )
    order = owner and {
        "number": f"#{order_number}",
        "email": owner,
        "status": random.choice(["packed", "shipped", "delivered"]),
        "carrier": "DHL",
        "tracking": f"1Z999AA1{random.randrange(10**9, 10**10)}",
        "expected": "2026-02-06",
    }
    return Conversation(
        id=f"conv-{number}",
        channel=random.choices(["email", "chat"], [2, 1])[0],
        email=email,
        phone=f"+1 415 555 {random.randrange(10**4):04}",
        name=name,
        number=order_number,
        order=order or None,
        at_risk=random.random() < AT_RISK_SHARE,
    )


def _make_event(random: Random, conversation: Conversation) -> CustomerEvent:
    """Make the next event of a conversation, sometimes older than the one before."""
    place = len(conversation.events) + 1
    # The day before: times in the future are ignored.
    created_at = START - timedelta(days=1) + timedelta(minutes=place)
    if place > 1 and random.random() < OLDER_SHARE:
        created_at = conversation.events[-1].created_at - timedelta(seconds=30)
    return CustomerEvent(
        conversation_id=conversation.id,
        message_id=f"m-{conversation.id}-{place}",
        text=_make_text(random, conversation),
        created_at=created_at,
        channel=conversation.channel,
    )


def _make_text(random: Random, conversation: Conversation) -> str:
    """Make a message text: an order question or an example, sometimes with personal data."""
    kind = random.choices(["status", "no number", "number", "number of nobody", "example"], [3, 2, 2, 1, 8])[
        0
    ]
    said = {
        "status": f"Where is my order #{conversation.number}?",
        "no number": "Where is my order? It should have been here last week.",
        "number": f"It is {conversation.number}",
        "number of nobody": f"Where is my order #X{random.randrange(10**6, 10**7)}?",
        "example": _choose_example(random, conversation),
    }[kind]
    if random.random() < 0.3:
        said += f" You can call me on {conversation.phone} or write to {conversation.email}."
    if random.random() < 0.3:
        said += f" Regards, {conversation.name}"
    if conversation.tracking and random.random() < 0.1:
        said += f" The tracking number is {conversation.tracking}."
    return said


def _choose_example(random: Random, conversation: Conversation) -> str:
    """Choose an example text. Few conversations contain a risk: afterwards no other decision would be
    seen.
    """
    intents = [each for each in Intent if conversation.at_risk or each not in RISKS]
    wanted = random.choice(intents)
    return random.choice([each.text for each in load_examples() if each.label == wanted])


# --- expected effects ---------------------------------------------------------------------------------------


def list_expected_effects(conversation: Conversation, orders: dict[str, dict[str, str]]) -> list[Effect]:
    """Return the effects of all events, in order."""
    return [
        _build_effect(conversation, action)
        for _, decision in replay_rules(conversation, orders)
        for action in decision.actions
    ]


def replay_rules(
    conversation: Conversation, orders: dict[str, dict[str, str]]
) -> Iterator[tuple[Facts, Decision]]:
    """Yield facts and decision of each event, with the state that the earlier ones left. `orders` are the
    shop's, by number.
    """
    state: ConversationState | None = None
    tags: set[str] = set()
    for written in conversation.events:
        facts = _build_facts(conversation, written, state, tags, orders)
        decision = decide(facts)
        yield facts, decision
        state = build_next_state(facts, decision)
        tags |= {each.target for each in decision.actions if each.type is ActionType.tag}


def _build_facts(
    conversation: Conversation,
    written: CustomerEvent,
    state: ConversationState | None,
    tags: set[str],
    orders: dict[str, dict[str, str]],
) -> Facts:
    """Build the facts that the worker would load. `tags` are those on the ticket so far."""
    event = InboundEvent(
        conversation_id=conversation.id,
        message_id=written.message_id,
        trigger="customer_message",
        channel=written.channel,
        text=written.text,
        created_at=written.created_at,
        customer_email=conversation.email,
        tags=tuple(sorted(tags)),
    )
    facts = Facts(
        event=event,
        message_key=written.message_id,
        classification=get_intent_classifier().classify(written.text),
        flags=FLAGS,
        now=START,
        state=state,
    )
    found = next((orders[number] for number in facts.order_numbers if number in orders), None)
    return replace(facts, order=_build_order(found)) if found and not facts.is_late else facts


def _build_order(found: dict[str, str]) -> Order:
    """Build the order as the worker parses the shop's response."""
    return Order(
        number=found["number"].lstrip("#"),
        email_sha256=hash_email(found["email"]),
        status=found["status"],
        detail=f"It travels with {found['carrier']}. It is expected on {found['expected']}.",
    )


def _build_effect(conversation: Conversation, action: HelpDeskAction) -> Effect:
    """Build the effect that an action must have at the help desk."""
    effect = EFFECTS[action.type]
    value = action.text if effect in ("message", "note") else action.target
    return Effect(conversation.id, effect, str(value), action.key)
