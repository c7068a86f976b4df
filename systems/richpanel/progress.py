"""Where a conversation stands after a decision: the next state, made of the last one and what was decided. Pure.

And by which customer it is found when it is to be forgotten.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from holdfast import Put
from richpanel import patterns
from richpanel.model import (
    ActionType,
    AutoReply,
    ConversationState,
    CustomerLink,
    PendingFlow,
    SentReplies,
)
from richpanel.orders import email_sha256
from richpanel.rules import HANDED_OVER_TAG, NEED_ORDER_NUMBER, Action, Decision, Facts, is_a_person

ASSIGNING: Final = frozenset({ActionType.route, ActionType.escalate})
ASKING: Final = frozenset({"ask_order_number", "ask_order_number_again"})


def next_state(facts: Facts, decision: Decision) -> ConversationState:
    """What is put over the state that was read; its version is counted by the write."""
    seen = facts.state or _first(facts)
    return seen.model_copy(
        update=_touched(facts) | _routed(facts, seen, decision) | _answered(facts, seen, decision)
    )


def customer_link(facts: Facts) -> Put[CustomerLink] | None:
    """That the writer wrote here, to be kept before anything is done for the event; None where no address is known."""
    customer_hash = email_sha256(facts.event.customer_email or "")
    if not customer_hash:
        return None
    return patterns.link_customer(
        CustomerLink(
            conversation_id=facts.event.conversation_id,
            customer_hash=customer_hash,
            expires_at=facts.now + timedelta(days=facts.settings.customer_days),
        )
    )


def _first(facts: Facts) -> ConversationState:
    return ConversationState(
        conversation_id=facts.event.conversation_id, updated_at=facts.now, expires_at=_ends(facts)
    )


def _ends(facts: Facts) -> datetime:
    return facts.now + timedelta(days=facts.settings.state_kept_days)


def _touched(facts: Facts) -> dict[str, Any]:
    seen = facts.state.last_event_created_at if facts.state else None
    written = [moment for moment in (seen, facts.event.created_at) if moment is not None]
    return {
        "updated_at": facts.now,
        "expires_at": _ends(facts),
        "last_processed_at": facts.now,
        "last_processed_message_id": facts.event.message_id,
        "last_event_created_at": max(written, default=None),
    }


def _routed(facts: Facts, seen: ConversationState, decision: Decision) -> dict[str, Any]:
    assigned = [each.target for each in decision.actions if each.type in ASSIGNING]
    # An attempt keeps to the plan of the first, which may have had nothing to do.
    if decision.routing is None or not assigned:
        return {}
    return {
        "last_routed_team": assigned[-1],
        "last_routing_confidence": round(facts.classification.confidence, 4),
        "last_intent": facts.classification.label,
        "risk_flags": seen.risk_flags | frozenset(map(str, decision.routing.risks)),
    }


def _answered(facts: Facts, seen: ConversationState, decision: Decision) -> dict[str, Any]:
    """Only what is done counts: what shadow mode would have sent throttles nothing."""
    handed = is_a_person(facts.event) or any(each.target == HANDED_OVER_TAG for each in decision.actions)
    changes: dict[str, Any] = {
        "pending_flow": None if handed else seen.flow_at(facts.now),
        "handed_over": seen.handed_over or handed,
    }
    for action in decision.actions:
        if action.type is ActionType.auto_reply:
            changes |= _sent(facts, seen, action)
    return changes


def _sent(facts: Facts, seen: ConversationState, action: Action) -> dict[str, Any]:
    before = seen.replies[action.target].count if action.target in seen.replies else 0
    count = SentReplies(count=before + 1, last_sent_at=facts.now)
    reply = AutoReply(type=action.target, sent_at=facts.now, source_message_id=facts.event.message_id)
    changes: dict[str, Any] = {
        "last_auto_reply": reply,
        "replies": {**seen.replies, action.target: count},
        "pending_flow": None,
    }
    if action.target in ASKING:
        changes["pending_flow"] = PendingFlow(
            type=NEED_ORDER_NUMBER,
            requested_at=facts.now,
            attempts=facts.attempts + 1,
            expires_at=facts.now + timedelta(days=facts.settings.pending_flow_days),
        )
    return changes
