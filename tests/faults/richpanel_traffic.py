"""Customers who write to a help desk, and what the middleware must make of it: for `test_richpanel_killed.py`.

`traffic` makes conversations by chance: every intent, orders that the shop knows, knows under another address or does not
know, addresses and numbers of people in the texts, and events that are older than the one before. `expected` plays the
pure rules over each conversation in the order of the first copies. It knows nothing of queues, workers or retries.
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
from richpanel.domain.rules import Action, Decision, Facts, decide
from richpanel.domain.state_updates import build_next_state
from richpanel.model.entities import ActionType, ConversationState

# A Tuesday within working hours, so that what depends on them is known.
START = datetime(2026, 2, 3, 10, tzinfo=UTC)
SWITCHES = FeatureFlags(safe_mode=False, automation_enabled=True, channels=frozenset({"email"}))
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
class Written:
    """One event: what a customer wrote, and when, as the help desk tells it."""

    conversation_id: str
    message_id: str
    text: str
    created_at: datetime
    channel: str

    @property
    def key(self) -> str:
        return build_event_key(self.conversation_id, self.message_id, received_at=START).key

    @property
    def payload(self) -> dict[str, Any]:
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
    """A customer, the order at the shop if there is one, and the events in the order of their first copies."""

    id: str
    channel: str
    email: str
    phone: str
    name: str
    number: str
    order: dict[str, str] | None
    at_risk: bool
    events: list[Written] = field(default_factory=list)

    @property
    def tracking(self) -> str | None:
        return self.order["tracking"] if self.order else None

    @property
    def personal(self) -> list[str]:
        """What must be found nowhere: words, names, addresses, numbers."""
        given = [self.email, self.phone, self.name, self.number, *filter(None, [self.tracking])]
        # A greeting of two letters is in every file.
        return [*given, *(each.text for each in self.events if len(each.text) >= 12)]


@dataclass(frozen=True)
class Effect:
    """As the help desk's ledger has it."""

    ticket_id: str
    effect: str
    value: str
    reference: str


# --- what is written ----------------------------------------------------------------------------------------


def traffic(random: Random, events: int, conversations: int) -> list[Conversation]:
    made = [_conversation(random, number) for number in range(conversations)]
    of_event = [*made, *random.choices(made, k=events - conversations)]
    for conversation in of_event:
        conversation.events.append(_written(random, conversation))
    return made


def _conversation(random: Random, number: int) -> Conversation:
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


def _written(random: Random, conversation: Conversation) -> Written:
    place = len(conversation.events) + 1
    # The day before: a time that is still to come is not believed.
    created_at = START - timedelta(days=1) + timedelta(minutes=place)
    if place > 1 and random.random() < OLDER_SHARE:
        created_at = conversation.events[-1].created_at - timedelta(seconds=30)
    return Written(
        conversation_id=conversation.id,
        message_id=f"m-{conversation.id}-{place}",
        text=_text(random, conversation),
        created_at=created_at,
        channel=conversation.channel,
    )


def _text(random: Random, conversation: Conversation) -> str:
    kind = random.choices(["status", "no number", "number", "number of nobody", "example"], [3, 2, 2, 1, 8])[
        0
    ]
    said = {
        "status": f"Where is my order #{conversation.number}?",
        "no number": "Where is my order? It should have been here last week.",
        "number": f"It is {conversation.number}",
        "number of nobody": f"Where is my order #X{random.randrange(10**6, 10**7)}?",
        "example": _example(random, conversation),
    }[kind]
    if random.random() < 0.3:
        said += f" You can call me on {conversation.phone} or write to {conversation.email}."
    if random.random() < 0.3:
        said += f" Regards, {conversation.name}"
    if conversation.tracking and random.random() < 0.1:
        said += f" The tracking number is {conversation.tracking}."
    return said


def _example(random: Random, conversation: Conversation) -> str:
    """Risk is kept to few conversations: once at risk, always at risk, and nothing else would be seen."""
    intents = [each for each in Intent if conversation.at_risk or each not in RISKS]
    wanted = random.choice(intents)
    return random.choice([each.text for each in load_examples() if each.label == wanted])


# --- what must come of it -----------------------------------------------------------------------------------


def expected(conversation: Conversation, orders: dict[str, dict[str, str]]) -> list[Effect]:
    """The effects of all events, in order."""
    return [
        _effect(conversation, action)
        for _, decision in played(conversation, orders)
        for action in decision.actions
    ]


def played(conversation: Conversation, orders: dict[str, dict[str, str]]) -> Iterator[tuple[Facts, Decision]]:
    state: ConversationState | None = None
    tags: set[str] = set()
    for written in conversation.events:
        facts = _facts(conversation, written, state, tags, orders)
        decision = decide(facts)
        yield facts, decision
        state = build_next_state(facts, decision)
        tags |= {each.target for each in decision.actions if each.type is ActionType.tag}


def _facts(
    conversation: Conversation,
    written: Written,
    state: ConversationState | None,
    tags: set[str],
    orders: dict[str, dict[str, str]],
) -> Facts:
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
        flags=SWITCHES,
        now=START,
        state=state,
    )
    found = orders.get(facts.order_number) if facts.order_number else None
    return replace(facts, order=_order(found)) if found and not facts.is_late else facts


def _order(found: dict[str, str]) -> Order:
    return Order(
        number=found["number"].lstrip("#"),
        email_sha256=hash_email(found["email"]),
        status=found["status"],
        detail=f"It travels with {found['carrier']}. It is expected on {found['expected']}.",
    )


def _effect(conversation: Conversation, action: Action) -> Effect:
    effect = EFFECTS[action.type]
    value = action.text if effect in ("message", "note") else action.target
    return Effect(conversation.id, effect, str(value), action.key)
