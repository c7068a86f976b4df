"""Sample data: several hundred conversations as the middleware leaves them, the same on every run.

Decisions are real: messages are drawn from the examples of the intents and go through the rules, and the
decisions become records, state and audit. As in a worker, no text is stored. Times count back from the clock,
so that nothing has expired. No switches are set: safe mode stays on. Each conversation is written in one
transaction and only if it is absent, so a second run changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from holdfast import Stores, Write, provision
from holdfast.ai import Classification, Example
from holdfast.core.errors import InvalidRequest, TransactionCancelled
from holdfast.guarantees import OnceStatus, fingerprint
from richpanel.domain.feature_flags import FeatureFlags
from richpanel.domain.inbound_events import InboundEvent
from richpanel.domain.intents import load_examples
from richpanel.domain.rules import Decision, Facts, decide
from richpanel.model import patterns
from richpanel.model.entities import ConversationState, IdempotencyRecord, RecordKind
from richpanel.settings import RichpanelSettings
from richpanel.workers.actions import build_audit_payload
from richpanel.workers.state_updates import build_customer_link, build_next_state

CONVERSATIONS: Final = 400
MAX_MESSAGES: Final = 4
CUSTOMERS: Final = 240
# Approximate: a state, a customer link, and for each message a record, two or three actions and their audit
# entries.
ROWS_PER_CONVERSATION: Final = 17
# The first conversation began a day ago, each next one earlier, wrapping around within three weeks.
FIRST_AGE: Final = timedelta(days=1)
INTERVAL: Final = timedelta(minutes=61)
SPREAD: Final = timedelta(days=21)
CHANNELS: Final = ("email", "email", "email", "messenger", "instagram", "chat")
# Automation replies on e-mail; the other channels are in shadow mode.
FLAGS: Final = FeatureFlags(
    safe_mode=False, automation_enabled=True, channels=frozenset({"email"}), shadow=True
)
WRITERS: Final = 16
# The time between two actions of a message.
ACTION_INTERVAL: Final = timedelta(milliseconds=20)
# The length of the audit's own entry ids.
ENTRY_ID_CHARS: Final = 26

# Called with the current work, the number of rows written, and the approximate total.
Progress = Callable[[str, int, int], None]


async def load_sample(stores: Stores, *, scale: float = 1, progress: Progress | None = None) -> int:
    """Create missing tables and write `CONVERSATIONS` × `scale` conversations, at least one. Return the
    number of rows written, 0 on a second run. Raise `InvalidRequest` unless `scale` is above 0.
    """
    if scale <= 0:
        raise InvalidRequest(f"Invalid scale {scale}: expected a number above 0, such as 1 or 0.1.")
    if stores.system is not None:
        await provision(stores, stores.system)
    now = datetime.fromtimestamp(int(stores.clock.now()), UTC)
    count = max(1, round(CONVERSATIONS * scale))
    texts = load_examples()
    rows = 0
    numbers = iter(range(1, count + 1))

    async def writer() -> None:
        nonlocal rows
        for number in numbers:
            rows += await _write(stores, list(_build_conversation(stores, number, now, texts)))
            if progress is not None:
                progress("conversations", rows, max(rows, count * ROWS_PER_CONVERSATION))

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(writer())
    except ExceptionGroup as several:
        raise several.exceptions[0] from several
    return rows


async def _write(stores: Stores, rows: list[Write[Any]]) -> int:
    """Write a conversation in one transaction. Return the number of rows, 0 if it exists."""
    try:
        await stores.transact(*rows)
    except TransactionCancelled:
        return 0  # from an earlier run
    return len(rows)


# --- one conversation ---------------------------------------------------------------------------------------


def _build_conversation(
    stores: Stores, number: int, now: datetime, texts: Sequence[Example]
) -> Iterator[Write[Any]]:
    """Yield the writes of all rows of the conversation `number`."""
    state: ConversationState | None = None
    link: Write[Any] | None = None
    for event, classification in _draw_messages(number, now - FIRST_AGE - INTERVAL * number % SPREAD, texts):
        facts = Facts(
            event=event,
            message_key=event.message_id or "",
            classification=classification,
            flags=FLAGS,
            now=event.created_at or now,
            state=state,
        )
        decision = decide(facts)
        yield from _build_records(facts, decision)
        yield from _build_audit(stores, facts, decision)
        state = build_next_state(facts, decision)
        link = build_customer_link(facts)
    if state is not None:
        yield patterns.create_state(state)
    if link is not None:
        yield link


def _draw_messages(
    number: int, at: datetime, texts: Sequence[Example]
) -> Iterator[tuple[InboundEvent, Classification]]:
    """Draw one to `MAX_MESSAGES` messages of one customer after `at`, each with its classification. The same
    `number` gives the same messages.
    """
    random = Random(f"conversation {number}")
    channel, customer = random.choice(CHANNELS), f"customer-{random.randrange(CUSTOMERS)}@example.org"
    for place in range(1, random.randint(1, MAX_MESSAGES) + 1):
        at += timedelta(minutes=random.randint(1, 90))
        example = random.choice(texts)
        event = InboundEvent(
            conversation_id=f"c-{number}",
            message_id=f"m-{place}",
            channel=channel,
            text=example.text,
            created_at=at,
            customer_email=customer,
        )
        yield event, Classification(example.label, round(random.uniform(0.45, 0.99), 3))


# --- the rows of one message --------------------------------------------------------------------------------


def _build_records(facts: Facts, decision: Decision) -> Iterator[Write[Any]]:
    """Build the idempotency records of a message and its actions."""
    event = facts.event
    key = event.build_key(facts.now).key
    yield IdempotencyRecord.put(
        _build_record(
            facts,
            event_id=key,
            kind=RecordKind.event,
            payload_sha256=event.payload_sha256,
            payload_bytes=event.payload_bytes,
            mode=decision.mode,
            safe_mode=facts.flags.safe_mode,
            automation_enabled=facts.flags.automation_enabled,
            received_at=facts.now,
            source_message_id=event.message_id,
            intent=facts.classification.label,
        )
    )
    for action in decision.actions:
        yield IdempotencyRecord.put(
            _build_record(
                facts,
                event_id=action.key,
                kind=RecordKind.action,
                payload_sha256=fingerprint({"type": action.type, "target": action.target}),
                action_type=action.type,
                of_event=key,
            )
        )


def _build_record(facts: Facts, **attributes: Any) -> IdempotencyRecord:
    """Build a record of work that was done at the first attempt, with the attributes of its kind."""
    return IdempotencyRecord(
        conversation_id=facts.event.conversation_id,
        status=OnceStatus.PROCESSED,
        attempts=1,
        created_at=facts.now,
        last_processed_at=facts.now,
        expires_at=facts.now + timedelta(days=RichpanelSettings().idempotency_days),
        **attributes,
    )


def _build_audit(stores: Stores, facts: Facts, decision: Decision) -> Iterator[Write[Any]]:
    """Build the audit entries of a decision's actions and shadow actions, all as successful."""
    done = [(action, False) for action in decision.actions] + [
        (action, True) for action in decision.shadow_actions
    ]
    for step, (action, shadow) in enumerate(done):
        yield patterns.AUDIT.record(
            stores,
            build_audit_payload(facts, decision, action),
            at=facts.now + ACTION_INTERVAL * step,
            id=fingerprint(action.key)[:ENTRY_ID_CHARS],
            conversation_id=facts.event.conversation_id,
            action_type=action.type,
            idempotency_key=action.key,
            shadow=shadow,
            result={"ok": True},
            expires_at=facts.now + timedelta(days=RichpanelSettings().audit_days),
        )
