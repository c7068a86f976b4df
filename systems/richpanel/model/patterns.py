"""Access patterns of the tables and the queue, and the guarantees on the tables.

`EVENTS` and `ACTIONS` are `Once` over the idempotency table; `AUDIT` appends to the history and reads it. The
lifetimes here are the defaults: the worker gives each record the lifetime of its settings.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from holdfast import Delete, Get, Put, Query, Rate, Update, pattern
from holdfast.guarantees import Audit, Once, RateLimit
from holdfast.model.entities import SelectQuery
from holdfast.model.queues import Send
from richpanel.domain import feature_flags
from richpanel.domain.idempotency_keys import KeySource, build_assign_key, build_event_key
from richpanel.domain.inbound_events import EventMessage
from richpanel.model.entities import (
    ActionAudit,
    ActionType,
    ConversationState,
    CustomerLink,
    IdempotencyRecord,
    Mode,
    RecordKind,
    ReplyQuality,
    Switches,
    events,
)
from richpanel.settings import DAY_S, RichpanelSettings

DEFAULTS: Final = RichpanelSettings()
PER_EVENT: Final = Rate(per="event")
PER_ACTION: Final = Rate(per="action")
PER_QUESTION: Final = Rate(per="question")
PER_SWITCH_CHANGE: Final = Rate(per="change of the switches")
PER_ERASURE: Final = Rate(per="erasure")
PER_JUDGED_REPLY: Final = Rate(per="judged reply")
PER_SWITCH_READ: Final = Rate(per="half minute of a worker")

LEASE_S: Final = 15.0

_NOW: Final = datetime(2026, 2, 4, 1, tzinfo=UTC)
# An expired item may be removed before the next example reads it.
_FAR_FUTURE: Final = datetime(2126, 2, 4, 1, tzinfo=UTC)
_EVENT_ID: Final = build_event_key("c-1", "m-1", received_at=_NOW).key


def _build_event() -> IdempotencyRecord:
    """Build an example event record. Its key is absent from the sample, so the example can claim it."""
    return IdempotencyRecord(
        event_id=build_event_key("c-1", "m-new", received_at=_NOW).key,
        kind=RecordKind.event,
        conversation_id="c-1",
        payload_sha256="0" * 64,
        payload_bytes=300,
        mode=Mode.route_only,
        safe_mode=False,
        automation_enabled=False,
        source_message_id="m-new",
        received_at=_NOW,
        intent="order_status",
        expires_at=_FAR_FUTURE,
    )


def _build_action() -> IdempotencyRecord:
    """Build an example action record."""
    return IdempotencyRecord(
        event_id=build_assign_key("c-1", "orders", "m-new"),
        kind=RecordKind.action,
        conversation_id="c-1",
        payload_sha256="0" * 64,
        action_type=ActionType.route,
        of_event=_EVENT_ID,
        expires_at=_FAR_FUTURE,
    )


def _build_state() -> ConversationState:
    """Build an example conversation state."""
    return ConversationState(
        conversation_id="c-1",
        updated_at=_NOW,
        expires_at=_FAR_FUTURE,
        last_processed_at=_NOW,
        last_routed_team="orders",
        last_intent="order_status",
    )


def _build_link() -> CustomerLink:
    """Build an example customer link."""
    return CustomerLink(conversation_id="c-1", customer_hash="0" * 64, expires_at=_FAR_FUTURE)


def _build_switches() -> Switches:
    """Build an example of the feature flags, with automation on."""
    item = feature_flags.build_switches(safe_mode=False, automation_enabled=True, by="operator", now=_NOW)
    return item.model_copy(update={"expires_at": _FAR_FUTURE})


def _build_message() -> EventMessage:
    """Build an example queue message."""
    return EventMessage(
        event_id=_EVENT_ID,
        conversation_id="c-1",
        source_message_id="m-1",
        message_key="m-1",
        key_source=KeySource.message_id,
        payload_sha256="0" * 64,
        payload_bytes=300,
        received_at=_NOW,
        trigger="message",
        channel="email",
        author="customer",
    )


EVENTS: Final = Once(
    IdempotencyRecord,
    prefix="EV",
    rate=PER_EVENT,
    example=_build_event,
    lease_s=LEASE_S,
    retention_s=DEFAULTS.idempotency_days * DAY_S,
)
ACTIONS: Final = Once(
    IdempotencyRecord,
    prefix="AC",
    rate=PER_ACTION,
    example=_build_action,
    lease_s=LEASE_S,
    retention_s=DEFAULTS.idempotency_days * DAY_S,
)
AUDIT: Final = Audit(
    ActionAudit,
    prefix="AU",
    rate=PER_ACTION,
    read_rate=PER_QUESTION,
    retention_s=DEFAULTS.audit_days * DAY_S,
    example={
        "conversation_id": "c-1",
        "action_type": ActionType.route,
        "idempotency_key": build_assign_key("c-1", "orders", "m-1"),
    },
)

# The help desk's own limit is about 50 calls in 30 s; the operator's setting overrides it.
HELP_DESK: Final = "helpdesk"
CALLS: Final = RateLimit(
    "rp_mw_calls",
    prefix="RC",
    limit=RichpanelSettings.load().calls_max or 50,
    window_s=30.0,
    parts=10,
    rate=Rate(per="limited call"),
)

# --- records, state, switches -------------------------------------------------------------------------------


@pattern("RP1", "Get the record of an event or an action", rate=PER_EVENT, example=(_EVENT_ID,))
def record(event_id: str) -> Get[IdempotencyRecord]:
    """Read the idempotency record with this key, of an event (`evt:…`) or an action (`act:…`)."""
    return IdempotencyRecord.of(event_id).get().consistent()


@pattern("RP2", "Get the state of a conversation", rate=PER_EVENT, example=("c-1",))
def state(conversation_id: str) -> Get[ConversationState]:
    return ConversationState.of(conversation_id).get().consistent()


@pattern(
    "RP3", "Create the state of a conversation", rate=Rate("conversation"), example=lambda: (_build_state(),)
)
def create_state(new: ConversationState) -> Put[ConversationState]:
    return ConversationState.create(new)


@pattern(
    "RP4",
    "Put the next state, if the version is unchanged",
    rate=PER_EVENT,
    example=lambda: (_build_state(), 1),
)
def put_state(next_state: ConversationState, seen: int) -> Put[ConversationState]:
    """Replace the state if its version is still `seen`, and increment the version."""
    return ConversationState.put(next_state).at_version(ConversationState.version, seen)


@pattern("RP5", "List the conversations of a customer", rate=PER_ERASURE, example=("0" * 64,))
def conversations_of_customer(customer_hash: str) -> SelectQuery[CustomerLink]:
    """Query the ids of the conversations linked to the hash of a customer's address."""
    return CustomerLink.of_customer(customer_hash).query().select(CustomerLink.conversation_id)


@pattern("RP6", "Delete the state of a conversation", rate=PER_ERASURE, example=("c-1",))
def delete_state(conversation_id: str) -> Delete[ConversationState]:
    return ConversationState.of(conversation_id).delete()


@pattern("RP7", "Get the feature flags", rate=PER_SWITCH_READ, example=())
def read_switches() -> Get[Switches]:
    return Switches.of(feature_flags.SWITCHES_NAME).get().consistent()


@pattern("RP8", "Create the feature flags", rate=PER_SWITCH_CHANGE, example=lambda: (_build_switches(),))
def create_switches(new: Switches) -> Put[Switches]:
    return Switches.create(new)


@pattern(
    "RP9",
    "Set the feature flags, if the version is unchanged",
    rate=PER_SWITCH_CHANGE,
    example=lambda: (_build_switches(), 1),
)
def turn_switches(new: Switches, seen: int) -> Put[Switches]:
    """Replace the feature flags if their version is still `seen`, and increment the version."""
    return Switches.put(new).at_version(Switches.version, seen)


@pattern("RP10", "Link a customer to a conversation", rate=PER_EVENT, example=lambda: (_build_link(),))
def link_customer(link: CustomerLink) -> Put[CustomerLink]:
    return CustomerLink.put(link)


@pattern("RP11", "List the customers of a conversation", rate=PER_ERASURE, example=("c-1",))
def customers_of_conversation(conversation_id: str) -> Query[CustomerLink]:
    return CustomerLink.of(conversation_id).query()


@pattern(
    "RP12", "Delete the link of a customer to a conversation", rate=PER_ERASURE, example=("c-1", "0" * 64)
)
def delete_link(conversation_id: str, customer_hash: str) -> Delete[CustomerLink]:
    return CustomerLink.of(conversation_id).delete(customer_hash)


# --- quality of replies -------------------------------------------------------------------------------------

QUALITY_SCOPE: Final = "intents"


def _build_quality() -> ReplyQuality:
    """Build example counts."""
    return ReplyQuality(intent="order_status", resumed_at=_NOW, resumed_by="operator", expires_at=_FAR_FUTURE)


@pattern("RP13", "List the quality of replies per intent", rate=PER_SWITCH_READ, example=())
def reply_quality() -> Query[ReplyQuality]:
    return ReplyQuality.of(QUALITY_SCOPE).query()


@pattern(
    "RP14",
    "Count a reply, or what followed it",
    rate=PER_JUDGED_REPLY,
    example=("order_status", 1, 0, 0, _NOW, _FAR_FUTURE),
)
def count_reply(
    intent: str, replies: int, written_again: int, corrected: int, now: datetime, ends: datetime
) -> Update[ReplyQuality]:
    """Add to the counts of an intent; the item is created if it does not exist."""
    return (
        ReplyQuality.of(QUALITY_SCOPE)
        .update(intent)
        .add(ReplyQuality.replies, replies)
        .add(ReplyQuality.written_again, written_again)
        .add(ReplyQuality.corrected, corrected)
        .set(ReplyQuality.updated_at, now)
        .set(ReplyQuality.expires_at, ends)
        .or_create()
    )


@pattern(
    "RP15",
    "Resume the replies to an intent",
    rate=PER_SWITCH_CHANGE,
    example=lambda: (_build_quality(),),
)
def resume_replies(fresh: ReplyQuality) -> Put[ReplyQuality]:
    """Replace the counts of an intent by new ones, from zero."""
    return ReplyQuality.put(fresh)


# --- the queue ----------------------------------------------------------------------------------------------


@pattern("RQ1", "Enqueue an event", rate=PER_EVENT, example=lambda: (_build_message(),))
def enqueue(message: EventMessage) -> Send[EventMessage]:
    return events.send(message)
