"""How the middleware's data is asked for: the access patterns, the guarantees on its tables, and the queue's.

`EVENTS` and `ACTIONS` are `Once` over the idempotency table; `AUDIT` appends to the history and reads it. The lifetimes
here are the defaults: a handler gives each record the one of its settings.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from holdfast import (
    ChangeVisibility,
    Delete,
    DeleteReceived,
    Get,
    Put,
    Query,
    Rate,
    Receive,
    Received,
    Rows,
    Send,
    pattern,
)
from holdfast.guarantees import Audit, Once, RateLimit
from richpanel import switches as switching
from richpanel.keys import Source, assign_key, event_key
from richpanel.model import (
    ActionAudit,
    ActionType,
    ConversationState,
    CustomerLink,
    IdempotencyRecord,
    Kind,
    Mode,
    Switches,
    events,
)
from richpanel.payloads import EventMessage
from richpanel.settings import DAY_S, RichpanelSettings

DEFAULTS: Final = RichpanelSettings()
EVENT: Final = Rate(per="event")
ACTION: Final = Rate(per="action")
QUESTION: Final = Rate(per="question")
OPERATOR: Final = Rate(per="change of the switches")
ERASURE: Final = Rate(per="erasure")
SWITCH_READ: Final = Rate(per="half minute of a worker")

LEASE_S: Final = 15.0

_NOW: Final = datetime(2026, 2, 4, 1, tzinfo=UTC)
# Far away: what has ended may be removed before the next example finds it.
_END: Final = datetime(2126, 2, 4, 1, tzinfo=UTC)
_EVENT_ID: Final = event_key("c-1", "m-1", received_at=_NOW).key


def _event() -> IdempotencyRecord:
    return IdempotencyRecord(
        # None that the sample has: it is claimed by the example.
        event_id=event_key("c-1", "m-new", received_at=_NOW).key,
        kind=Kind.event,
        conversation_id="c-1",
        payload_sha256="0" * 64,
        payload_bytes=300,
        mode=Mode.route_only,
        safe_mode=False,
        automation_enabled=False,
        source_message_id="m-new",
        received_at=_NOW,
        intent="order_status",
        expires_at=_END,
    )


def _action() -> IdempotencyRecord:
    return IdempotencyRecord(
        event_id=assign_key("c-1", "orders", "m-new"),
        kind=Kind.action,
        conversation_id="c-1",
        payload_sha256="0" * 64,
        action_type=ActionType.route,
        of_event=_EVENT_ID,
        expires_at=_END,
    )


def _state() -> ConversationState:
    return ConversationState(
        conversation_id="c-1",
        updated_at=_NOW,
        expires_at=_END,
        last_processed_at=_NOW,
        last_routed_team="orders",
        last_intent="order_status",
    )


def _link() -> CustomerLink:
    return CustomerLink(conversation_id="c-1", customer_hash="0" * 64, expires_at=_END)


def _switches() -> Switches:
    turned = switching.switched(safe_mode=False, automation_enabled=True, by="operator", now=_NOW)
    return turned.model_copy(update={"expires_at": _END})


def _message() -> EventMessage:
    return EventMessage(
        event_id=_EVENT_ID,
        conversation_id="c-1",
        source_message_id="m-1",
        message_key="m-1",
        key_source=Source.message_id,
        payload_sha256="0" * 64,
        payload_bytes=300,
        received_at=_NOW,
        trigger="message",
        channel="email",
        author="customer",
    )


EVENTS: Final = Once(
    IdempotencyRecord,
    "EV",
    rate=EVENT,
    example=_event,
    lease_s=LEASE_S,
    lifetime_s=DEFAULTS.idempotency_days * DAY_S,
)
ACTIONS: Final = Once(
    IdempotencyRecord,
    "AC",
    rate=ACTION,
    example=_action,
    lease_s=LEASE_S,
    lifetime_s=DEFAULTS.idempotency_days * DAY_S,
)
AUDIT: Final = Audit(
    ActionAudit,
    "AU",
    rate=ACTION,
    reading=QUESTION,
    lifetime_s=DEFAULTS.audit_days * DAY_S,
    example={
        "conversation_id": "c-1",
        "action_type": ActionType.route,
        "idempotency_key": assign_key("c-1", "orders", "m-1"),
    },
)

# The help desk's own limit is about 50 calls in 30 s; what counts is what the operator sets.
HELP_DESK: Final = "helpdesk"
CALLS: Final = RateLimit(
    "rp_mw_calls",
    "RC",
    limit=RichpanelSettings.load().calls_max or 50,
    window_s=30.0,
    parts=10,
    rate=Rate(per="limited call"),
)

# --- records, state, switches ------------------------------------------------------------------------------------


@pattern("RP1", "The record of an event or an action", rate=EVENT, example=(_EVENT_ID,))
def record(event_id: str) -> Get[IdempotencyRecord]:
    return IdempotencyRecord.of(event_id).get().consistent()


@pattern("RP2", "Where a conversation stands", rate=EVENT, example=("c-1",))
def state(conversation_id: str) -> Get[ConversationState]:
    return ConversationState.of(conversation_id).get().consistent()


@pattern("RP3", "The first state of a conversation", rate=Rate("conversation"), example=lambda: (_state(),))
def create_state(new: ConversationState) -> Put[ConversationState]:
    return ConversationState.create(new)


@pattern("RP4", "The next state, over the version that was read", rate=EVENT, example=lambda: (_state(), 1))
def put_state(next_state: ConversationState, seen: int) -> Put[ConversationState]:
    return ConversationState.put(next_state).at_version(ConversationState.version, seen)


@pattern("RP5", "The conversations of a customer", rate=ERASURE, example=("0" * 64,))
def conversations_of_customer(customer_hash: str) -> Rows[CustomerLink]:
    return CustomerLink.of_customer(customer_hash).query().select(CustomerLink.conversation_id)


@pattern("RP6", "Forget where a conversation stands", rate=ERASURE, example=("c-1",))
def delete_state(conversation_id: str) -> Delete[ConversationState]:
    return ConversationState.of(conversation_id).delete()


@pattern("RP7", "The kill switches", rate=SWITCH_READ, example=())
def read_switches() -> Get[Switches]:
    return Switches.of(switching.NAME).get().consistent()


@pattern("RP8", "The first position of the switches", rate=OPERATOR, example=lambda: (_switches(),))
def create_switches(new: Switches) -> Put[Switches]:
    return Switches.create(new)


@pattern(
    "RP9",
    "Turn the switches, over the version that was read",
    rate=OPERATOR,
    example=lambda: (_switches(), 1),
)
def turn_switches(new: Switches, seen: int) -> Put[Switches]:
    return Switches.put(new).at_version(Switches.version, seen)


@pattern("RP10", "That a customer wrote in a conversation", rate=EVENT, example=lambda: (_link(),))
def link_customer(link: CustomerLink) -> Put[CustomerLink]:
    return CustomerLink.put(link)


@pattern("RP11", "Who wrote in a conversation", rate=ERASURE, example=("c-1",))
def customers_of_conversation(conversation_id: str) -> Query[CustomerLink]:
    return CustomerLink.of(conversation_id).query()


@pattern("RP12", "Forget that a customer wrote", rate=ERASURE, example=("c-1", "0" * 64))
def delete_link(conversation_id: str, customer_hash: str) -> Delete[CustomerLink]:
    return CustomerLink.of(conversation_id).delete(customer_hash)


# --- the queue ---------------------------------------------------------------------------------------------------


@pattern("RQ1", "Take an event in", rate=EVENT, example=lambda: (_message(),))
def enqueue(message: EventMessage) -> Send[EventMessage]:
    return events.send(message)


@pattern("RQ2", "Events to work on", rate=EVENT, example=(1, 0.0))
def receive(count: int, wait_s: float) -> Receive[EventMessage]:
    return events.receive(count, wait_s=wait_s)


# The examples of these two are of no message: what is received exists only when it is.
@pattern("RQ3", "An event is done", rate=EVENT, example=())
def done(*received: Received[EventMessage]) -> DeleteReceived[EventMessage]:
    return events.delete(*received)


@pattern("RQ4", "Keep an event from others, or give it back", rate=EVENT, example=(None, 30.0))
def hold(received: Received[EventMessage] | None, seconds: float) -> ChangeVisibility[EventMessage]:
    return events.hold(*(() if received is None else (received,)), seconds=seconds)
