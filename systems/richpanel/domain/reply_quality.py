"""The quality of automated replies: how often a customer writes again, or a person corrects, per intent.

Each reply is judged once, by the first message within three days of it. An answer to the middleware's own
question and thanks are no complaint. Past the operator's limit the intent's replies stop by themselves, until
an operator resumes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from richpanel.domain.intents import Intent
from richpanel.model.entities import AutoReply, ReplyQuality
from richpanel.settings import RichpanelSettings

if TYPE_CHECKING:
    from richpanel.domain.rules import Facts

# Workers read the counts again after this time.
CACHE_S: Final = 30.0
JUDGED_WITHIN: Final = timedelta(days=3)
# The questions for an order number, and the replies that are judged. A hand-over is not: a person follows.
ORDER_NUMBER_QUESTIONS: Final = frozenset(
    {"ask_order_number", "ask_order_number_again", "ask_order_number_reminder"}
)
JUDGED_REPLIES: Final = ORDER_NUMBER_QUESTIONS | {"order_status"}
# While the counts are unreadable, no reply is sent.
UNREADABLE: Final = "the quality of its automated replies could not be read"


class ReplyOutcome(StrEnum):
    """What followed an automated reply. `replies` counts the reply itself."""

    replies = "replies"
    written_again = "written_again"
    corrected = "corrected"


def judge_last_reply(facts: Facts, *, is_by_person: bool) -> ReplyOutcome | None:
    """Return what a message says about the conversation's last automated reply, or None if nothing.
    `is_by_person`: an agent wrote it.
    """
    reply = facts.state.last_auto_reply if facts.state else None
    if reply is None or not _is_open(reply, facts):
        return None
    if is_by_person:
        return ReplyOutcome.corrected
    if facts.event.author != "customer" or not facts.event.text or facts.message.automatic or facts.is_late:
        return None
    if reply.type in ORDER_NUMBER_QUESTIONS and facts.order_numbers:
        return None
    is_thanks = facts.classification.label == Intent.greeting_or_thanks
    return None if is_thanks else ReplyOutcome.written_again


def _is_open(reply: AutoReply, facts: Facts) -> bool:
    """Return whether a reply is still to be judged."""
    is_recent = facts.now - reply.sent_at <= JUDGED_WITHIN
    return reply.type in JUDGED_REPLIES and not reply.judged and is_recent


def find_stopped_intents(rows: Iterable[ReplyQuality], settings: RichpanelSettings) -> Mapping[str, str]:
    """Return the intents whose replies have stopped, each with the reason in words."""
    reasons = {row.intent: _find_stop_reason(row, settings) for row in rows}
    return {intent: reason for intent, reason in reasons.items() if reason is not None}


def _find_stop_reason(row: ReplyQuality, settings: RichpanelSettings) -> str | None:
    """Return why the replies of an intent have stopped, or None."""
    bad = row.written_again + row.corrected
    limit = settings.bad_replies_max_percent
    if row.replies < settings.judged_replies_min or bad * 100 <= limit * row.replies:
        return None
    return (
        f"automated replies to {row.intent} have stopped: after {row.replies} replies customers wrote again "
        f"{row.written_again} times and people corrected {row.corrected}, more than {limit} %"
    )
