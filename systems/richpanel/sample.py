"""The sample: some hundred conversations as the middleware would have left them, the same on every run, at any scale.

Nothing is invented about decisions: messages are drawn from the examples of the intents and go through the rules, and
what the rules decide becomes records, state and audit. Texts end here, as they do in a worker. Times count back from the
clock, so that nothing in it has ended. No switch is turned: safe mode stays on. A conversation is written in one transaction and only where it is absent: run
again, the sample undoes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final

from holdfast import Stores, Write, prepare
from holdfast.ai import Classification, Example
from holdfast.errors import InvalidRequest, TransactionCancelled
from holdfast.guarantees import OnceStatus, fingerprint
from richpanel import patterns
from richpanel.acting import told
from richpanel.intents import examples
from richpanel.model import ConversationState, IdempotencyRecord, Kind
from richpanel.payloads import InboundEvent
from richpanel.progress import customer_link, next_state
from richpanel.rules import Decision, Facts, decide
from richpanel.settings import RichpanelSettings
from richpanel.switches import SwitchPosition

CONVERSATIONS: Final = 400
MESSAGES_MAX: Final = 4
CUSTOMERS: Final = 240
# About as many rows: a state, a link to the customer, and of each message a record, two actions or three, and an entry of the audit for each.
ROWS_PER_CONVERSATION: Final = 17
# The first conversation began a day ago, each other a little before, over and over the same three weeks.
FIRST: Final = timedelta(days=1)
APART: Final = timedelta(minutes=61)
SPREAD: Final = timedelta(days=21)
CHANNELS: Final = ("email", "email", "email", "messenger", "instagram", "chat")
# E-mail is answered, the other channels are watched.
POSITION: Final = SwitchPosition(
    safe_mode=False, automation_enabled=True, channels=frozenset({"email"}), shadow=True
)
WRITERS: Final = 16
# From one action of a message to the next.
PACE: Final = timedelta(milliseconds=20)
# As many as an id of the audit has elsewhere.
ENTRY_ID_CHARS: Final = 26

# Called with what is being done, how many rows are written, and about how many there will be.
Progress = Callable[[str, int, int], None]


async def sample(stores: Stores, *, scale: float = 1, progress: Progress | None = None) -> int:
    """Makes what is absent and fills the tables; gives the number of rows. It may be run again."""
    if scale <= 0:
        raise InvalidRequest(f"The scale of the sample is {scale}: give a number above 0, such as 1 or 0.1.")
    if stores.system is not None:
        await prepare(stores, stores.system)
    now = datetime.fromtimestamp(int(stores.clock.now()), UTC)
    count = max(1, round(CONVERSATIONS * scale))
    texts = examples()
    rows = 0
    numbers = iter(range(1, count + 1))

    async def writer() -> None:
        nonlocal rows
        for number in numbers:
            rows += await _write(stores, list(_conversation(stores, number, now, texts)))
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
    try:
        await stores.transact(*rows)
    except TransactionCancelled:
        return 0  # from an earlier run
    return len(rows)


# --- one conversation --------------------------------------------------------------------------------------------


def _conversation(
    stores: Stores, number: int, now: datetime, texts: Sequence[Example]
) -> Iterator[Write[Any]]:
    state: ConversationState | None = None
    link: Write[Any] | None = None
    for event, classification in _written(number, now - FIRST - APART * number % SPREAD, texts):
        facts = Facts(
            event=event,
            message_key=event.message_id or "",
            classification=classification,
            switches=POSITION,
            now=event.created_at or now,
            state=state,
        )
        decision = decide(facts)
        yield from _records(facts, decision)
        yield from _audit(stores, facts, decision)
        state = next_state(facts, decision)
        link = customer_link(facts)
    if state is not None:
        yield patterns.create_state(state)
    if link is not None:
        yield link


def _written(
    number: int, at: datetime, texts: Sequence[Example]
) -> Iterator[tuple[InboundEvent, Classification]]:
    """What a customer wrote, and what a classifier would make of it."""
    random = Random(f"conversation {number}")
    channel, customer = random.choice(CHANNELS), f"customer-{random.randrange(CUSTOMERS)}@example.org"
    for place in range(1, random.randint(1, MESSAGES_MAX) + 1):
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


# --- what is kept of a message -----------------------------------------------------------------------------------


def _records(facts: Facts, decision: Decision) -> Iterator[Write[Any]]:
    event = facts.event
    key = event.key(facts.now).key
    yield IdempotencyRecord.put(
        _record(
            facts,
            event_id=key,
            kind=Kind.event,
            payload_sha256=event.payload_sha256,
            payload_bytes=event.payload_bytes,
            mode=decision.mode,
            safe_mode=facts.switches.safe_mode,
            automation_enabled=facts.switches.automation_enabled,
            received_at=facts.now,
            source_message_id=event.message_id,
            intent=facts.classification.label,
        )
    )
    for action in decision.actions:
        yield IdempotencyRecord.put(
            _record(
                facts,
                event_id=action.key,
                kind=Kind.action,
                payload_sha256=fingerprint({"type": action.type, "target": action.target}),
                action_type=action.type,
                of_event=key,
            )
        )


def _record(facts: Facts, **of_its_kind: Any) -> IdempotencyRecord:
    return IdempotencyRecord(
        conversation_id=facts.event.conversation_id,
        status=OnceStatus.PROCESSED,
        attempts=1,
        created_at=facts.now,
        last_processed_at=facts.now,
        expires_at=facts.now + timedelta(days=RichpanelSettings().idempotency_days),
        **of_its_kind,
    )


def _audit(stores: Stores, facts: Facts, decision: Decision) -> Iterator[Write[Any]]:
    done = [(action, False) for action in decision.actions] + [(action, True) for action in decision.would]
    for step, (action, shadow) in enumerate(done):
        yield patterns.AUDIT.entry(
            stores,
            told(facts, decision, action),
            at=facts.now + PACE * step,
            id=fingerprint(action.key)[:ENTRY_ID_CHARS],
            conversation_id=facts.event.conversation_id,
            action_type=action.type,
            idempotency_key=action.key,
            shadow=shadow,
            result={"ok": True},
            expires_at=facts.now + timedelta(days=RichpanelSettings().audit_days),
        )
