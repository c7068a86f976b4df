"""What belongs to a conversation or a customer, for erasing it.

Idempotency records are keyed by event and action, and nobody asks for them by conversation in daily work: an index for the
rare erasure would cost a write with every event. So they are looked for by a scan, which says so.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast import DeleteObject, Operation, Stores
from holdfast.guarantees import Traces
from richpanel import patterns
from richpanel.archive import replays
from richpanel.model import ActionAudit, ConversationState, IdempotencyRecord
from richpanel.orders import email_sha256


async def of_conversation(stores: Stores, conversation_id: str) -> Traces:
    return Traces(await _deletes(stores, conversation_id), (conversation_id,))


async def of_customer(stores: Stores, customer: str) -> Traces:
    """By the address, or by its hash: of the address itself nothing is kept."""
    customer_hash = email_sha256(customer) if "@" in customer else customer
    conversations = [
        row[ConversationState.conversation_id]
        for row in await stores.all(patterns.conversations_of_customer(customer_hash))
    ]
    deletes: list[Operation[Any]] = []
    for conversation in conversations:
        deletes += await _deletes(stores, conversation)
    return Traces(deletes, (*conversations, customer_hash))


async def _deletes(stores: Stores, conversation_id: str) -> list[Operation[Any]]:
    """Of what is there, so that nothing is found when it is gone. A text under a legal hold refuses before the rest."""
    deletes: list[Operation[Any]] = []
    scan = IdempotencyRecord.scan(reason="Erasing a conversation, which no index is kept for")
    async for record in stores.each(scan.where(IdempotencyRecord.conversation_id == conversation_id)):
        deletes.append(IdempotencyRecord.of(record.event_id).delete())
        if record.received_at is not None:
            deletes.insert(0, _archived(record, record.received_at))
    async for entry in stores.each(patterns.AUDIT.history(conversation_id)):
        deletes.append(ActionAudit.of(conversation_id).delete(entry.place))
    if await stores.run(patterns.state(conversation_id)) is not None:
        deletes.append(patterns.delete_state(conversation_id))
    return deletes


def _archived(event: IdempotencyRecord, received_at: datetime) -> DeleteObject:
    return replays.delete(
        received_at=received_at, conversation_id=event.conversation_id, event_id=event.event_id
    )
