"""The trail of one request across the stores, for the story and for tests.

It has the idempotency keys, SQL rows, files, cache entries and outbox messages of the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Final

from holdfast import Stores
from holdfast.core.errors import NotFound
from holdfast.model.objects import ListObjects
from holdfast.model.sql import SqlRow, SqlRows
from pagw.model import delivery_patterns, entities, patterns
from pagw.model.audit import NO_REQUEST
from pagw.model.entities import AuditRow, DeliveryRow, IdempotencyRecord, RequestRow, pagw

MAX_FILES: Final = 1000


class OutboxRow(SqlRow):
    """A row of the outbox."""

    queue_name: str
    processed: bool


class InboxRow(SqlRow):
    """A row of the inbox."""

    consumer: str
    message_id: str


@dataclass(frozen=True)
class RequestTrail:
    """Everything stored for one request. `archived` counts its audit events that are files in the audit
    bucket.
    """

    request: RequestRow
    keys: tuple[IdempotencyRecord, ...]
    audit: tuple[AuditRow, ...]
    outbox: tuple[OutboxRow, ...]
    inbox: tuple[InboxRow, ...]
    deliveries: tuple[DeliveryRow, ...]
    files: tuple[str, ...]
    archived: int
    cached: tuple[str, ...]

    @property
    def statuses(self) -> tuple[str, ...]:
        """The statuses of the request in order, from its audit events."""
        changes = [each for each in self.audit if each.event_type == "STATUS"]
        names = [
            name for each in changes for name in (each.details or {}).get("through", [each.event_subtype])
        ]
        return tuple(name for name, _ in groupby(names))

    @property
    def unsent(self) -> int:
        """The number of its messages that are not yet in their queues."""
        return sum(not each.processed for each in self.outbox)


async def load_trail(stores: Stores, tenant: str, pagw_id: str) -> RequestTrail:
    """Load the trail of a tenant's request. Raise `NotFound`."""
    request = await stores.run(patterns.request(tenant, pagw_id))
    if request is None:
        raise NotFound(f"Request {pagw_id} of {tenant} not found.")
    audit = await stores.run(patterns.audit_of(tenant, pagw_id))
    return RequestTrail(
        request,
        await _load_keys(stores, request),
        audit,
        await stores.run(_select_outbox(pagw_id)),
        await stores.run(_select_inbox(pagw_id)),
        await stores.run(delivery_patterns.deliveries_of(tenant, pagw_id)),
        await _list_files(stores, request),
        await _count_archived(stores, audit),
        await _list_cached(stores, request),
    )


async def _load_keys(stores: Stores, request: RequestRow) -> tuple[IdempotencyRecord, ...]:
    """Return the records of the client's key, if it gave one, and of the payer call."""
    names = [request.metadata.get("idempotencyKey"), f"{request.tenant}:{request.pagw_id}#payer"]
    found = [await stores.run(patterns.submission(str(each))) for each in names if each]
    return tuple(each for each in found if each is not None)


def _select_outbox(pagw_id: str) -> SqlRows[OutboxRow]:
    """Build the query of a request's outbox rows, those of its deliveries included."""
    return pagw.rows(
        OutboxRow,
        """SELECT {columns} FROM pagw.outbox
           WHERE aggregate = %(pagw_id)s OR starts_with(aggregate, %(pagw_id)s || '#') ORDER BY id""",
        pagw_id=pagw_id,
    )


def _select_inbox(pagw_id: str) -> SqlRows[InboxRow]:
    """Build the query of a request's inbox rows, those of its deliveries included."""
    return pagw.rows(
        InboxRow,
        """SELECT {columns} FROM pagw.inbox
           WHERE message_id = %(pagw_id)s OR starts_with(message_id, %(pagw_id)s || '#') ORDER BY taken_at,
                  consumer""",
        pagw_id=pagw_id,
    )


async def _list_files(stores: Stores, request: RequestRow) -> tuple[str, ...]:
    """Return the file names, relative to the request's folder."""
    folder = entities.original_bundle.build_key(created_at=request.created_at, pagw_id=request.pagw_id)
    folder = folder.removesuffix("request/original_bundle.json")
    page = await stores.run(ListObjects(entities.original_bundle, folder, MAX_FILES, None))
    return tuple(each.key.removeprefix(folder) for each in page.objects)


async def _count_archived(stores: Stores, events: tuple[AuditRow, ...]) -> int:
    """Return how many of the audit events are files in the audit bucket."""
    found = 0
    for each in events:
        try:
            await stores.run(
                entities.audit_event.head(
                    created_at=each.timestamp,
                    service=each.service_name,
                    pagw_id=each.pagw_id or NO_REQUEST,
                    uuid=each.event_uuid,
                )
            )
        except NotFound:
            continue
        found += 1
    return found


async def _list_cached(stores: Stores, request: RequestRow) -> tuple[str, ...]:
    """Return the cache keys that the request used and that exist now."""
    payer_id, npi, tenant = request.payer_id or "", request.provider_npi or "", request.tenant
    window = entities.windows.get_window(stores.clock.now())
    found = {
        f"payer:{payer_id}": await stores.run(entities.payers.get(payer_id=payer_id)),
        f"provider:{npi}": await stores.run(entities.providers.get(npi=npi)),
        f"oauth:{payer_id}": await stores.run(entities.tokens.get(payer_id=payer_id)),
        f"ratelimit:{tenant}": await stores.run(entities.windows.read(tenant=tenant, window=window)),
    }
    return tuple(name for name, value in found.items() if value)
