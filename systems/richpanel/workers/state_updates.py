"""State updates after a decision: the next conversation state and the customer link. Pure functions."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final

from holdfast import Put, Update
from richpanel.domain.intents import Intent
from richpanel.domain.orders import hash_email
from richpanel.domain.reply_quality import (
    JUDGED_REPLIES,
    ORDER_NUMBER_QUESTIONS,
    ReplyOutcome,
    judge_last_reply,
)
from richpanel.domain.rules import (
    HANDED_OVER_TAG,
    NEED_ORDER_NUMBER,
    Decision,
    Facts,
    HelpDeskAction,
    is_written_by_person,
)
from richpanel.model import patterns
from richpanel.model.entities import (
    ActionType,
    AutoReply,
    ConversationState,
    CustomerLink,
    PendingFlow,
    ReplyQuality,
    SentReplies,
)
from richpanel.settings import QUALITY_DAYS

ASSIGNMENT_ACTIONS: Final = frozenset({ActionType.route, ActionType.escalate})


def build_next_state(facts: Facts, decision: Decision) -> ConversationState:
    """Return the next state of the conversation. The write increments its version."""
    seen = facts.state or _build_first_state(facts)
    return seen.model_copy(
        update=_build_event_changes(facts)
        | _build_routing_changes(facts, seen, decision)
        | _build_reply_changes(facts, seen, decision)
    )


def build_customer_link(facts: Facts) -> Put[CustomerLink] | None:
    """Build the write that links the writer to the conversation, or None if the address is unknown. The
    worker runs it before any action, so that erasure finds everything.
    """
    customer_hash = hash_email(facts.event.customer_email or "")
    if not customer_hash:
        return None
    return patterns.link_customer(
        CustomerLink(
            conversation_id=facts.event.conversation_id,
            customer_hash=customer_hash,
            expires_at=facts.now + timedelta(days=facts.settings.customer_retention_days),
        )
    )


def build_quality_counts(facts: Facts, decision: Decision) -> list[Update[ReplyQuality]]:
    """Build the writes that count replies of this event, and its judgement of an earlier one. They go into
    the transaction that completes the event, so that each counts once.
    """
    counts: Counter[tuple[str, ReplyOutcome]] = Counter(
        (Intent.order_status, ReplyOutcome.replies)
        for action in decision.actions
        if action.type is ActionType.auto_reply and action.target in JUDGED_REPLIES
    )
    reply = facts.state.last_auto_reply if facts.state else None
    if reply is not None and reply.intent and (outcome := _judge(facts)) is not None:
        counts[reply.intent, outcome] += 1
    ends = facts.now + timedelta(days=QUALITY_DAYS)
    return [
        patterns.count_reply(
            intent,
            counts[intent, ReplyOutcome.replies],
            counts[intent, ReplyOutcome.written_again],
            counts[intent, ReplyOutcome.corrected],
            facts.now,
            ends,
        )
        for intent in dict.fromkeys(intent for intent, _ in counts)
    ]


def _build_first_state(facts: Facts) -> ConversationState:
    """Build the state of a new conversation."""
    return ConversationState(
        conversation_id=facts.event.conversation_id, updated_at=facts.now, expires_at=_compute_expiry(facts)
    )


def _compute_expiry(facts: Facts) -> datetime:
    """Compute when the state expires."""
    return facts.now + timedelta(days=facts.settings.state_retention_days)


def _build_event_changes(facts: Facts) -> dict[str, Any]:
    """Build the changes that every event makes."""
    seen = facts.state.last_event_created_at if facts.state else None
    written = [moment for moment in (seen, facts.event.created_at) if moment is not None]
    return {
        "updated_at": facts.now,
        "expires_at": _compute_expiry(facts),
        "last_processed_at": facts.now,
        "last_processed_message_id": facts.event.message_id,
        "last_event_created_at": max(written, default=None),
    }


def _build_routing_changes(facts: Facts, seen: ConversationState, decision: Decision) -> dict[str, Any]:
    """Build the changes of a routed event: team, confidence, intent and risks. Empty if nothing was
    assigned.
    """
    assigned = [each.target for each in decision.actions if each.type in ASSIGNMENT_ACTIONS]
    # An attempt follows the plan of the first attempt, which may have had nothing to do.
    if decision.routing is None or not assigned:
        return {}
    return {
        "last_routed_team": assigned[-1],
        "last_routing_confidence": round(facts.classification.confidence, 4),
        "last_intent": facts.classification.label,
        "risk_flags": seen.risk_flags | frozenset(map(str, decision.routing.risks)),
    }


def _build_reply_changes(facts: Facts, seen: ConversationState, decision: Decision) -> dict[str, Any]:
    """Build the changes of replies and a hand-over. Shadow actions do not count towards throttling."""
    handed = is_written_by_person(facts.event) or any(
        each.target == HANDED_OVER_TAG for each in decision.actions
    )
    changes: dict[str, Any] = _build_judgement_changes(facts, seen) | {
        "pending_flow": None if handed else seen.get_pending_flow(facts.now),
        "handed_over": seen.handed_over or handed,
    }
    for action in decision.actions:
        if action.type is ActionType.auto_reply:
            changes |= _build_sent_changes(facts, seen, action)
    return changes


def _build_judgement_changes(facts: Facts, seen: ConversationState) -> dict[str, Any]:
    """Mark the last reply as judged, if this message judges it."""
    reply = seen.last_auto_reply
    if reply is None or _judge(facts) is None:
        return {}
    return {"last_auto_reply": reply.model_copy(update={"judged": True})}


def _judge(facts: Facts) -> ReplyOutcome | None:
    """Return what the message says about the last automated reply."""
    return judge_last_reply(facts, is_by_person=is_written_by_person(facts.event))


def _build_sent_changes(facts: Facts, seen: ConversationState, action: HelpDeskAction) -> dict[str, Any]:
    """Build the changes of one sent reply: the counts, the last reply, and a question that waits for an
    answer.
    """
    before = seen.replies[action.target].count if action.target in seen.replies else 0
    count = SentReplies(count=before + 1, last_sent_at=facts.now)
    reply = AutoReply(
        type=action.target,
        sent_at=facts.now,
        source_message_id=facts.event.message_id,
        intent=Intent.order_status if action.target in JUDGED_REPLIES else None,
    )
    changes: dict[str, Any] = {
        "last_auto_reply": reply,
        "replies": {**seen.replies, action.target: count},
        "pending_flow": None,
    }
    if action.target in ORDER_NUMBER_QUESTIONS:
        changes["pending_flow"] = PendingFlow(
            type=NEED_ORDER_NUMBER,
            requested_at=facts.now,
            attempts=facts.order_number_attempts + 1,
            expires_at=facts.now + timedelta(days=facts.settings.pending_flow_days),
        )
    return changes
