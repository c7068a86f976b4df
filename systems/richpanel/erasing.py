"""What belongs to a conversation or a customer, for erasing it.

A customer is known by the hash of an address, and by links from it to conversations that outlive all else of them. Where
several addresses wrote in one conversation, it is erased as a whole with any of them. Idempotency records are keyed by
event and action, and nobody asks for them by conversation in daily work: an index for the rare erasure would cost a
write with every event. So they are looked for by a scan, which says so.
"""

from __future__ import annotations

from typing import Any

from holdfast import Operation, Stores
from holdfast.errors import NotFound
from holdfast.guarantees import Traces
from richpanel import archive, patterns
from richpanel.model import ActionAudit, CustomerLink, IdempotencyRecord
from richpanel.orders import email_sha256


async def of_conversation(stores: Stores, conversation_id: str) -> Traces:
    return Traces(await _deletes(stores, conversation_id), (conversation_id,))


async def of_customer(stores: Stores, customer: str) -> Traces:
    """By the address, or by its hash: of the address itself nothing is kept."""
    customer_hash = email_sha256(customer) if "@" in customer else customer
    conversations = [
        row[CustomerLink.conversation_id]
        for row in await stores.all(patterns.conversations_of_customer(customer_hash))
    ]
    deletes: list[Operation[Any]] = []
    for conversation in conversations:
        deletes += await _deletes(stores, conversation)
    return Traces(deletes, (*conversations, customer_hash))


async def _deletes(stores: Stores, conversation_id: str) -> list[Operation[Any]]:
    """Of what is there, so that nothing is found when it is gone.

    Links go when nothing else is left: by them it is found again what a worker has written meanwhile, or what a legal
    hold keeps.
    """
    archived = await _archived(stores, conversation_id)
    kept = await _kept(stores, conversation_id)
    found = [*(archive.forget(key) for key in archived), *kept]
    if kept or await _any_held(stores, archived):
        return found
    return [*found, *await _links(stores, conversation_id)]


async def _archived(stores: Stores, conversation_id: str) -> list[str]:
    keys: list[str] = []
    cursor: str | None = None
    while True:
        page = await stores.run(archive.of_conversation(conversation_id, cursor))
        keys += [each.key for each in page.objects]
        cursor = page.cursor
        if cursor is None:
            return keys


async def _any_held(stores: Stores, keys: list[str]) -> bool:
    for key in keys:
        try:
            if (await stores.run(archive.look_at(key))).held:
                return True
        except NotFound:
            continue  # its time was over meanwhile
    return False


async def _kept(stores: Stores, conversation_id: str) -> list[Operation[Any]]:
    scan = IdempotencyRecord.scan(reason="Erasing a conversation, which no index is kept for")
    deletes: list[Operation[Any]] = [
        IdempotencyRecord.of(record.event_id).delete()
        async for record in stores.each(scan.where(IdempotencyRecord.conversation_id == conversation_id))
    ]
    async for entry in stores.each(patterns.AUDIT.history(conversation_id)):
        deletes.append(ActionAudit.of(conversation_id).delete(entry.place))
    if await stores.run(patterns.state(conversation_id)) is not None:
        deletes.append(patterns.delete_state(conversation_id))
    return deletes


async def _links(stores: Stores, conversation_id: str) -> list[Operation[Any]]:
    return [
        patterns.delete_link(conversation_id, link.customer_hash)
        async for link in stores.each(patterns.customers_of_conversation(conversation_id))
    ]
