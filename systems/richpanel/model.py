"""What the middleware keeps: tables, entities and the queue. Names, keys and attributes are the design document's.

Ours are the lease and owner of a record (by `OnceRecord`), `kind` in the idempotency table, `version` and what order
within a conversation needs in the state, and the tables of customers and of switches. No attribute holds a message, an address or a
phone number: a text is known by its hash, an order by its last four digits, a customer by a hash of the address.
Every item has an end, under `expires_at`. `patterns.py` says how all this is asked for.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final, Self

from pydantic import model_validator

from holdfast import (
    KEYS_ONLY,
    Attr,
    Document,
    Entity,
    EpochSeconds,
    IndexKey,
    Key,
    Queue,
    Table,
    as_written,
    attr,
)
from holdfast.guarantees import AuditEntry, OnceRecord
from richpanel.keys import queue_token
from richpanel.payloads import EventMessage

# Enough for a party that fails often: each attempt goes on where the last one stood.
RECEIVES_MAX: Final = 10
# A worker that is killed is missed for so long. One that works renews in time.
VISIBILITY_S: Final = 20


class Kind(StrEnum):
    """What an idempotency record is of."""

    event = "event"
    action = "action"


class Mode(StrEnum):
    """Whether an event was only routed, or might have been answered."""

    route_only = "route_only"
    automation_candidate = "automation_candidate"


class ActionType(StrEnum):
    """The document's four, and three that it does not name: a note for the agent, a look-up of an order, and nothing."""

    route = "route"
    tag = "tag"
    auto_reply = "auto_reply"
    escalate = "escalate"
    suggest = "suggest"
    look_up = "look_up"
    ignore = "ignore"


# --- tables ------------------------------------------------------------------------------------------------------

idempotency = Table(
    "rp_mw_idempotency",
    "event_id",
    ttl="expires_at",
    names=as_written,
    purpose="Which events and actions are being worked on or done, so that none is done twice",
)
conversation_state = Table(
    "rp_mw_conversation_state",
    "conversation_id",
    ttl="expires_at",
    names=as_written,
    purpose="Where a conversation stands: its team, its risks, what was asked and answered",
)
audit_actions = Table(
    "rp_mw_audit_actions",
    "conversation_id",
    "ts_action_id",
    ttl="expires_at",
    names=as_written,
    purpose="What the middleware did, and why",
)
customers = Table(
    "rp_mw_customers",
    "conversation_id",
    "customer_hash",
    ttl="expires_at",
    names=as_written,
    purpose="Who wrote in which conversation, by the hash of the address: for erasing it",
)
customer_index = customers.index(
    "customer-index",
    "customer_hash",
    projection=KEYS_ONLY,
    purpose="The conversations of a customer",
)
switches = Table(
    "rp_mw_switches",
    "name",
    ttl="expires_at",
    names=as_written,
    purpose="Kill switches, the rollout per channel, shadow mode",
)

TABLES: Final = (idempotency, conversation_state, audit_actions, customers, switches)

# --- the queue ---------------------------------------------------------------------------------------------------

events = Queue(
    "rp_mw_events",
    EventMessage,
    fifo=True,
    group=lambda message: queue_token(message.conversation_id),
    deduplication=lambda message: queue_token(message.delivery_key),
    visibility_s=VISIBILITY_S,
    receives_max=RECEIVES_MAX,
    purpose="Events, one conversation in order, conversations beside each other",
)

# --- entities ----------------------------------------------------------------------------------------------------


class IdempotencyRecord(OnceRecord, table=idempotency):
    """An event or an action that happens once; `kind` says which, and which attributes it must have.

    Both: `event_id` (the key, `evt:…` or `act:…`), `conversation_id`, and what `OnceRecord` brings. An event also has
    `mode`, `safe_mode`, `automation_enabled` and `payload_bytes`, and may have `received_at`, `source_message_id`,
    `intent` and `plan`. An action also has `action_type` and the key of the event it came of.
    """

    event_id: Attr[str] = attr()
    kind: Attr[Kind] = attr()
    conversation_id: Attr[str] = attr()
    mode: Attr[Mode | None] = attr(default=None)
    safe_mode: Attr[bool | None] = attr(default=None)
    automation_enabled: Attr[bool | None] = attr(default=None)
    payload_bytes: Attr[int | None] = attr(default=None)
    received_at: Attr[datetime | None] = attr(default=None)
    source_message_id: Attr[str | None] = attr(default=None)
    intent: Attr[str | None] = attr(default=None)
    # Of an event: what was decided at the first attempt, for every later one to keep to.
    plan: Attr[str | None] = attr(default=None)
    action_type: Attr[ActionType | None] = attr(default=None)
    of_event: Attr[str | None] = attr(default=None)
    # In this table nothing is without an end.
    expires_at: Attr[EpochSeconds] = attr()

    of = Key(event_id)

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        of_events = {"mode", "safe_mode", "automation_enabled", "payload_bytes"}
        of_actions = {"action_type", "of_event"}
        needed, foreign = (of_events, of_actions) if self.kind is Kind.event else (of_actions, of_events)
        prefix = "evt:" if self.kind is Kind.event else "act:"
        if missing := sorted(name for name in needed if getattr(self, name) is None):
            raise ValueError(f"an {self.kind} has {', '.join(missing)}")
        if strange := sorted(name for name in foreign if getattr(self, name) is not None):
            raise ValueError(f"an {self.kind} has no {', '.join(strange)}")
        if not self.event_id.startswith(prefix):
            raise ValueError(f"the key of an {self.kind} begins with {prefix}")
        return self


class PendingFlow(Document):
    """What the customer was asked for. It ends by its own time, sooner than the state around it."""

    type: str
    requested_at: datetime
    attempts: int = 1
    expires_at: datetime


class AutoReply(Document):
    """The last answer that was sent by itself."""

    type: str
    sent_at: datetime
    source_message_id: str | None = None


class SentReplies(Document):
    """How often an answer of one kind was sent in a conversation, and when last."""

    count: int
    last_sent_at: datetime


class ConversationState(Entity, table=conversation_state):
    conversation_id: Attr[str] = attr()
    updated_at: Attr[datetime] = attr()
    expires_at: Attr[EpochSeconds] = attr()
    version: Attr[int] = attr(default=1)
    last_processed_at: Attr[datetime | None] = attr(default=None)
    last_processed_message_id: Attr[str | None] = attr(default=None)
    # When the newest event that was processed had been written: an older one that comes later triggers nothing.
    last_event_created_at: Attr[datetime | None] = attr(default=None)
    last_routed_team: Attr[str | None] = attr(default=None)
    last_routing_confidence: Attr[float | None] = attr(default=None)
    last_intent: Attr[str | None] = attr(default=None)
    risk_flags: Attr[frozenset[str]] = attr(default=frozenset())
    pending_flow: Attr[PendingFlow | None] = attr(default=None)
    last_auto_reply: Attr[AutoReply | None] = attr(default=None)
    replies: Attr[dict[str, SentReplies]] = attr(default_factory=dict)
    handed_over: Attr[bool] = attr(default=False)

    of = Key(conversation_id)

    def flow_at(self, now: datetime) -> PendingFlow | None:
        """The flow that is pending; one whose time is over counts no more, though the item still holds it."""
        pending = self.pending_flow
        return pending if pending is not None and now < pending.expires_at else None

    def told_at(self, now: datetime) -> Self:
        """As it is shown: without a flow whose time is over."""
        return self.model_copy(update={"pending_flow": self.flow_at(now)})


class ActionAudit(AuditEntry, table=audit_actions):
    """One thing the middleware did, or in shadow mode would have done."""

    conversation_id: Attr[str] = attr()
    place: Attr[str] = attr("ts_action_id")
    payload: Attr[str] = attr("action_payload_redacted", default="{}")
    action_type: Attr[ActionType] = attr()
    idempotency_key: Attr[str] = attr()
    shadow: Attr[bool] = attr(default=False)

    of = Key(conversation_id, place)


class CustomerLink(Entity, table=customers):
    """That a customer wrote in a conversation; one for each address. It outlives all that is found by it."""

    conversation_id: Attr[str] = attr()
    customer_hash: Attr[str] = attr()
    expires_at: Attr[EpochSeconds] = attr()

    of = Key(conversation_id, customer_hash)
    of_customer = IndexKey(customer_index, customer_hash)


class Switches(Entity, table=switches):
    """What may be done by itself. There is one item; without it, or when it cannot be read, nothing may.

    It ends too: a permission that nobody has renewed for a year lapses into safe mode.
    """

    name: Attr[str] = attr(default="global")
    safe_mode: Attr[bool] = attr(default=True)
    automation_enabled: Attr[bool] = attr(default=False)
    # The channels on which automation is rolled out.
    channels: Attr[frozenset[str]] = attr(default=frozenset())
    shadow: Attr[bool] = attr(default=False)
    updated_at: Attr[datetime] = attr()
    updated_by: Attr[str] = attr(default="")
    expires_at: Attr[EpochSeconds] = attr()
    version: Attr[int] = attr(default=1)

    of = Key(name)
