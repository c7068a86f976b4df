"""The quality of automated replies: what judges a reply, and when an intent's replies stop."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.ai import Classification
from richpanel.domain.feature_flags import FeatureFlags
from richpanel.domain.inbound_events import InboundEvent
from richpanel.domain.intents import Intent
from richpanel.domain.reply_quality import ReplyOutcome, find_stopped_intents, judge_last_reply
from richpanel.domain.rules import Facts, decide
from richpanel.model.entities import ActionType, AutoReply, ConversationState, ReplyQuality
from richpanel.settings import RichpanelSettings
from richpanel.workers.state_updates import build_next_state, build_quality_counts

NOW = datetime(2026, 2, 4, 12, tzinfo=UTC)
ON = FeatureFlags(safe_mode=False, automation_enabled=True, channels=frozenset({"email"}))
SETTINGS = RichpanelSettings()


def make_facts(text: str, reply: str = "order_status", *, author: str = "customer", label: str = "") -> Facts:
    """Make facts about a message an hour after an automated reply."""
    state = ConversationState(
        conversation_id="c-1",
        updated_at=NOW,
        expires_at=NOW,
        last_auto_reply=AutoReply(type=reply, sent_at=NOW - timedelta(hours=1), intent="order_status"),
    )
    event = InboundEvent(conversation_id="c-1", message_id="m-2", channel="email", author=author, text=text)  # type: ignore[arg-type]
    return Facts(event, "m-2", Classification(label or Intent.complaint, 0.9), ON, NOW, state=state)


def count(replies: int = 0, written_again: int = 0, corrected: int = 0) -> ReplyQuality:
    """Make the counts of an intent."""
    return ReplyQuality(
        intent="order_status",
        expires_at=NOW,
        replies=replies,
        written_again=written_again,
        corrected=corrected,
    )


@pytest.mark.parametrize(
    ("facts", "is_by_person", "outcome"),
    [
        (make_facts("That is wrong"), False, ReplyOutcome.written_again),
        (make_facts("Let me look", author="agent"), True, ReplyOutcome.corrected),
        (make_facts("thanks", label=Intent.greeting_or_thanks), False, None),
        (make_facts("It is 48213", "ask_order_number"), False, None),
        (make_facts("I have no number", "ask_order_number"), False, ReplyOutcome.written_again),
        (make_facts("Hello?", "handed_over"), False, None),
        (make_facts("I am out of the office until Monday, urgent: call Joan"), False, None),
        (replace(make_facts("Again"), now=NOW + timedelta(days=4)), False, None),
        (replace(make_facts("First"), state=None), False, None),
    ],
)
def test_the_next_message_judges_a_reply(
    facts: Facts, is_by_person: bool, outcome: ReplyOutcome | None
) -> None:
    assert judge_last_reply(facts, is_by_person=is_by_person) is outcome


def test_a_reply_is_judged_once() -> None:
    first = make_facts("That is wrong")
    state = build_next_state(first, decide(first))
    second = replace(first, state=state)

    assert len(build_quality_counts(first, decide(first))) == 1
    assert state.last_auto_reply is not None and state.last_auto_reply.judged
    assert build_quality_counts(second, decide(second)) == []


@pytest.mark.parametrize(
    ("row", "stops"),
    [
        (count(replies=20, written_again=8), False),
        (count(replies=20, written_again=6, corrected=3), True),
        (count(replies=19, written_again=19), False),
        (count(replies=100, corrected=41), True),
        (count(), False),
    ],
)
def test_replies_stop_past_the_limit(row: ReplyQuality, stops: bool) -> None:
    assert bool(find_stopped_intents([row], SETTINGS)) is stops


def test_a_limit_of_100_percent_never_stops() -> None:
    settings = RichpanelSettings(bad_replies_max_percent=100)

    assert find_stopped_intents([count(replies=50, written_again=30, corrected=20)], settings) == {}


def test_stopped_replies_are_not_sent_and_the_reason_is_given() -> None:
    event = InboundEvent(conversation_id="c-1", message_id="m-1", channel="email", text="where is my order")
    given = Facts(event, "m-1", Classification(Intent.order_status, 0.9), ON, NOW)
    stopped = find_stopped_intents([count(replies=30, written_again=20, corrected=1)], SETTINGS)

    sent = [each for each in decide(given).actions if each.type is ActionType.auto_reply]
    decision = decide(replace(given, stopped_intents=stopped))
    assert sent and not [each for each in decision.actions if each.type is ActionType.auto_reply]
    assert any("wrote again 20 times and people corrected 1" in reason for reason in decision.reasons)
