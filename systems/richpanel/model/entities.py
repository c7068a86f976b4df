"""Tables, entities and the queue. Names, keys and attributes come from the design document.

Added to the document's design: the lease and owner of a record (from `OnceRecord`), `kind` in the idempotency
table, `version` and the ordering attributes in the conversation state, and the tables of customers and
switches. No attribute holds a message, an address or a phone number: a text is stored as its hash, an order
as its last four digits, a customer as a hash of the address. Every item expires, at `expires_at`.
`patterns.py` holds the access patterns.
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
    Rate,
    Table,
    attr,
    keep_names,
)
from holdfast.guarantees import AuditEntry, OnceRecord
from richpanel.domain.idempotency_keys import to_queue_token
from richpanel.domain.inbound_events import EventMessage

# Enough for a service that fails often: each attempt resumes where the last one stopped.
MAX_RECEIVES: Final = 10
# After a worker is killed, its messages are redelivered after this time. A running worker extends it.
VISIBILITY_S: Final = 20


class RecordKind(StrEnum):
    """The kind of an idempotency record."""

    event = "event"
    action = "action"


class Mode(StrEnum):
    """The processing mode of an event: routed only, or a candidate for an automated reply."""

    route_only = "route_only"
    automation_candidate = "automation_candidate"


class ActionType(StrEnum):
    """The document's four action types, and three more: a note for the agent, an order look-up, and no
    action.
    """

    route = "route"
    tag = "tag"
    auto_reply = "auto_reply"
    escalate = "escalate"
    suggest = "suggest"
    look_up = "look_up"
    ignore = "ignore"


# --- tables -------------------------------------------------------------------------------------------------

idempotency = Table(
    "rp_mw_idempotency",
    "event_id",
    ttl="expires_at",
    naming=keep_names,
    purpose="Events and actions in progress or done, so that none is done twice",
)
conversation_state = Table(
    "rp_mw_conversation_state",
    "conversation_id",
    ttl="expires_at",
    naming=keep_names,
    purpose="The state of a conversation: its team, its risks, pending question and replies",
)
audit_actions = Table(
    "rp_mw_audit_actions",
    "conversation_id",
    "ts_action_id",
    ttl="expires_at",
    naming=keep_names,
    purpose="Actions of the middleware, and the reasons",
)
customers = Table(
    "rp_mw_customers",
    "conversation_id",
    "customer_hash",
    ttl="expires_at",
    naming=keep_names,
    purpose="Customers of each conversation, by the hash of the address, for erasure",
)
customer_index = customers.global_index(
    "customer-index",
    "customer_hash",
    projection=KEYS_ONLY,
    purpose="The conversations of a customer",
)
switches = Table(
    "rp_mw_switches",
    "name",
    ttl="expires_at",
    naming=keep_names,
    purpose="Feature flags: kill switches, the rollout per channel, shadow mode",
)
reply_quality = Table(
    "rp_mw_reply_quality",
    "scope",
    "intent",
    ttl="expires_at",
    naming=keep_names,
    purpose="How often customers wrote again, or people corrected, after automated replies, per intent",
)

TABLES: Final = (idempotency, conversation_state, audit_actions, customers, switches, reply_quality)

# --- the queue ----------------------------------------------------------------------------------------------

events = Queue(
    "rp_mw_events",
    EventMessage,
    fifo=True,
    group=lambda message: to_queue_token(message.conversation_id),
    deduplication=lambda message: to_queue_token(message.delivery_key),
    visibility_s=VISIBILITY_S,
    max_receives=MAX_RECEIVES,
    purpose="Events, in order within a conversation, conversations in parallel",
    pattern_ids=("RQ2", "RQ3", "RQ4"),
    rate=Rate(per="event"),
)

# --- entities -----------------------------------------------------------------------------------------------


class IdempotencyRecord(OnceRecord, table=idempotency):
    """An event or an action that happens once; `kind` says which, and which attributes are required.

    Both have `event_id` (the key, `evt:…` or `act:…`), `conversation_id`, and the attributes of `OnceRecord`.
    An event also has `mode`, `safe_mode`, `automation_enabled` and `payload_bytes`, and may have
    `received_at`, `source_message_id`, `intent` and `plan`. An action also has `action_type` and `of_event`,
    the key of its event.
    """

    event_id: Attr[str] = attr()
    kind: Attr[RecordKind] = attr()
    conversation_id: Attr[str] = attr()
    mode: Attr[Mode | None] = attr(default=None)
    safe_mode: Attr[bool | None] = attr(default=None)
    automation_enabled: Attr[bool | None] = attr(default=None)
    payload_bytes: Attr[int | None] = attr(default=None)
    received_at: Attr[datetime | None] = attr(default=None)
    source_message_id: Attr[str | None] = attr(default=None)
    intent: Attr[str | None] = attr(default=None)
    # Events only: the decision of the first attempt, which every later attempt follows.
    plan: Attr[str | None] = attr(default=None)
    action_type: Attr[ActionType | None] = attr(default=None)
    of_event: Attr[str | None] = attr(default=None)
    # Required here: every item of this table expires.
    expires_at: Attr[EpochSeconds] = attr()

    of = Key(event_id)

    @model_validator(mode="after")
    def _check_kind_attributes(self) -> Self:
        """Raise `ValueError` unless the record has exactly the attributes of its kind, and the key prefix."""
        event_names = {"mode", "safe_mode", "automation_enabled", "payload_bytes"}
        action_names = {"action_type", "of_event"}
        is_event = self.kind is RecordKind.event
        required, forbidden = (event_names, action_names) if is_event else (action_names, event_names)
        prefix = "evt:" if self.kind is RecordKind.event else "act:"
        if missing := sorted(name for name in required if getattr(self, name) is None):
            raise ValueError(f"missing attributes of an {self.kind}: {', '.join(missing)}")
        if unexpected := sorted(name for name in forbidden if getattr(self, name) is not None):
            raise ValueError(f"unexpected attributes of an {self.kind}: {', '.join(unexpected)}")
        if not self.event_id.startswith(prefix):
            raise ValueError(f"invalid key of an {self.kind}: expected the prefix {prefix}")
        return self


class PendingFlow(Document):
    """A question to the customer that waits for an answer. It expires earlier than the state that contains
    it.
    """

    type: str
    requested_at: datetime
    attempts: int = 1
    expires_at: datetime


class AutoReply(Document):
    """The last automated reply, and whether it was judged."""

    type: str
    sent_at: datetime
    source_message_id: str | None = None
    # The intent that it answers, and whether a later message has judged it.
    intent: str | None = None
    judged: bool = False


class SentReplies(Document):
    """The number of replies of one kind in a conversation, and the time of the last."""

    count: int
    last_sent_at: datetime


class ConversationState(Entity, table=conversation_state):
    """The current state of a conversation: its team, its risks, the pending question and the replies sent."""

    conversation_id: Attr[str] = attr()
    updated_at: Attr[datetime] = attr()
    expires_at: Attr[EpochSeconds] = attr()
    version: Attr[int] = attr(default=1)
    last_processed_at: Attr[datetime | None] = attr(default=None)
    last_processed_message_id: Attr[str | None] = attr(default=None)
    # Time of writing of the newest processed event: an older one that arrives later triggers nothing.
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

    def get_pending_flow(self, now: datetime) -> PendingFlow | None:
        """Return the pending flow, or None if it has expired: the item may still hold an expired one."""
        pending = self.pending_flow
        return pending if pending is not None and now < pending.expires_at else None

    def without_expired_flow(self, now: datetime) -> Self:
        """Return a copy for display, without a pending flow that has expired."""
        return self.model_copy(update={"pending_flow": self.get_pending_flow(now)})


class ActionAudit(AuditEntry, table=audit_actions):
    """One action that the middleware did, or in shadow mode would have done."""

    conversation_id: Attr[str] = attr()
    place: Attr[str] = attr("ts_action_id")
    payload: Attr[str] = attr("action_payload_redacted", default="{}")
    action_type: Attr[ActionType] = attr()
    idempotency_key: Attr[str] = attr()
    shadow: Attr[bool] = attr(default=False)

    of = Key(conversation_id, place)


class CustomerLink(Entity, table=customers):
    """A link from a customer to a conversation; one for each address. It expires after everything found
    through it.
    """

    conversation_id: Attr[str] = attr()
    customer_hash: Attr[str] = attr()
    expires_at: Attr[EpochSeconds] = attr()

    of = Key(conversation_id, customer_hash)
    of_customer = IndexKey(customer_index, customer_hash)


class Switches(Entity, table=switches):
    """The feature flags that allow automation. There is one item; while it is missing or unreadable, safe
    mode is on.

    The item expires after a year: a permission that an operator does not renew ends in safe mode.
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


class ReplyQuality(Entity, table=reply_quality):
    """The counts of the automated replies to one intent, since the operator last resumed them. They name no
    customer.
    """

    scope: Attr[str] = attr(default="intents")
    intent: Attr[str] = attr()
    replies: Attr[int] = attr(default=0)
    written_again: Attr[int] = attr(default=0)
    corrected: Attr[int] = attr(default=0)
    updated_at: Attr[datetime | None] = attr(default=None)
    resumed_at: Attr[datetime | None] = attr(default=None)
    resumed_by: Attr[str] = attr(default="")
    expires_at: Attr[EpochSeconds] = attr()

    of = Key(scope, intent)
