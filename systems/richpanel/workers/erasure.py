"""Erasure: collect the deletes of everything that belongs to a conversation or a customer.

A customer is identified by the hash of an address. Links from the hash to conversations outlive everything
else about the customer. If several addresses wrote in a conversation, erasing any of them erases all of it.
Idempotency records are found by a scan: they are keyed by event and action, and an index by conversation for
a rare erasure would cost a write with every event.
"""

from __future__ import annotations

from typing import Any

from holdfast import Stores
from holdfast.core.errors import NotFound
from holdfast.guarantees import SubjectData
from holdfast.model.operations import Operation
from richpanel.domain.orders import hash_email
from richpanel.model import patterns, replay_archive
from richpanel.model.entities import ActionAudit, CustomerLink, IdempotencyRecord


async def collect_conversation(stores: Stores, conversation_id: str) -> SubjectData:
    """Collect the deletes that erase a conversation. The caller runs them."""
    return SubjectData(await _build_deletes(stores, conversation_id), (conversation_id,))


async def collect_customer(stores: Stores, customer: str) -> SubjectData:
    """Collect the deletes of all conversations of a customer, given by the address or its hash. The caller
    runs them.
    """
    customer_hash = hash_email(customer) if "@" in customer else customer
    conversations = [
        row[CustomerLink.conversation_id]
        for row in await stores.all(patterns.conversations_of_customer(customer_hash))
    ]
    deletes: list[Operation[Any]] = []
    for conversation in conversations:
        deletes += await _build_deletes(stores, conversation)
    return SubjectData(deletes, (*conversations, customer_hash))


async def _build_deletes(stores: Stores, conversation_id: str) -> list[Operation[Any]]:
    """Build the deletes of everything that is stored about a conversation.

    Links are deleted only when nothing else is left: through them a later erasure finds what a worker wrote
    meanwhile, or what a legal hold keeps.
    """
    archived = await _list_archived(stores, conversation_id)
    kept = await _build_stored_deletes(stores, conversation_id)
    found = [*(replay_archive.forget(key) for key in archived), *kept]
    if kept or await _is_any_held(stores, archived):
        return found
    return [*found, *await _build_link_deletes(stores, conversation_id)]


async def _list_archived(stores: Stores, conversation_id: str) -> list[str]:
    """List the keys of the conversation's archived events."""
    keys: list[str] = []
    cursor: str | None = None
    while True:
        page = await stores.run(replay_archive.of_conversation(conversation_id, cursor))
        keys += [each.key for each in page.objects]
        cursor = page.cursor
        if cursor is None:
            return keys


async def _is_any_held(stores: Stores, keys: list[str]) -> bool:
    """Return whether a legal hold keeps one of the objects."""
    for key in keys:
        try:
            if (await stores.run(replay_archive.look_at(key))).held:
                return True
        except NotFound:
            continue  # expired meanwhile
    return False


async def _build_stored_deletes(stores: Stores, conversation_id: str) -> list[Operation[Any]]:
    """Build the deletes of records, audit entries and state."""
    scan = IdempotencyRecord.scan(reason="Erase a conversation; there is no index for it")
    deletes: list[Operation[Any]] = [
        IdempotencyRecord.of(record.event_id).delete()
        async for record in stores.each(scan.where(IdempotencyRecord.conversation_id == conversation_id))
    ]
    async for entry in stores.each(patterns.AUDIT.pattern_set.history(conversation_id)):
        deletes.append(ActionAudit.of(conversation_id).delete(entry.place))
    if await stores.run(patterns.state(conversation_id)) is not None:
        deletes.append(patterns.delete_state(conversation_id))
    return deletes


async def _build_link_deletes(stores: Stores, conversation_id: str) -> list[Operation[Any]]:
    """Build the deletes of the conversation's customer links."""
    return [
        patterns.delete_link(conversation_id, link.customer_hash)
        async for link in stores.each(patterns.customers_of_conversation(conversation_id))
    ]
