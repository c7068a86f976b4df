"""The trail of a request across the stores: its keys in tables, its rows in SQL, its files, what the cache knows, and what
waits in the outbox. For the story and for tests: it reads everything there is, one request at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Final

from holdfast import ListObjects, SqlRow, SqlRows, Stores
from holdfast.errors import NotFound
from pagw import model, notices, patterns
from pagw.auditing import NO_REQUEST
from pagw.model import AuditRow, DeliveryRow, IdempotencyRecord, Tracked, pagw

FILES_MAX: Final = 1000


class Announced(SqlRow):
    """A row of the outbox."""

    queue_name: str
    processed: bool


class Taken(SqlRow):
    """A row of the inbox."""

    consumer: str
    message_id: str


@dataclass(frozen=True)
class Trail:
    """What there is of one request. `archived` is how many of its audit events are files in the audit bucket."""

    request: Tracked
    keys: tuple[IdempotencyRecord, ...]
    audit: tuple[AuditRow, ...]
    outbox: tuple[Announced, ...]
    inbox: tuple[Taken, ...]
    deliveries: tuple[DeliveryRow, ...]
    files: tuple[str, ...]
    archived: int
    cached: tuple[str, ...]

    @property
    def statuses(self) -> tuple[str, ...]:
        """Those that it went through, as its audit tells."""
        told = [each for each in self.audit if each.event_type == "STATUS"]
        names = [name for each in told for name in (each.details or {}).get("through", [each.event_subtype])]
        return tuple(name for name, _ in groupby(names))

    @property
    def waiting(self) -> int:
        """How many of its messages are not with their queues."""
        return sum(not each.processed for each in self.outbox)


async def trail_of(stores: Stores, tenant: str, pagw_id: str) -> Trail:
    request = await stores.run(patterns.request(tenant, pagw_id))
    if request is None:
        raise NotFound(f"{pagw_id} is no request of {tenant}.")
    audit = await stores.run(patterns.audit_of(tenant, pagw_id))
    return Trail(
        request,
        await _keys(stores, request),
        audit,
        await stores.run(_announced(pagw_id)),
        await stores.run(_taken(pagw_id)),
        await stores.run(notices.deliveries_of(tenant, pagw_id)),
        await _files(stores, request),
        await _archived(stores, audit),
        await _cached(stores, request),
    )


async def _keys(stores: Stores, request: Tracked) -> tuple[IdempotencyRecord, ...]:
    """The client's, where it gave one, and that of the call at the payer."""
    names = [request.metadata.get("idempotencyKey"), f"{request.tenant}:{request.pagw_id}#payer"]
    found = [await stores.run(patterns.submission(str(each))) for each in names if each]
    return tuple(each for each in found if each is not None)


def _announced(pagw_id: str) -> SqlRows[Announced]:
    return pagw.rows(
        Announced,
        """SELECT {columns} FROM pagw.outbox
           WHERE aggregate = %(pagw_id)s OR starts_with(aggregate, %(pagw_id)s || '#') ORDER BY id""",
        pagw_id=pagw_id,
    )


def _taken(pagw_id: str) -> SqlRows[Taken]:
    return pagw.rows(
        Taken,
        """SELECT {columns} FROM pagw.inbox
           WHERE message_id = %(pagw_id)s OR starts_with(message_id, %(pagw_id)s || '#') ORDER BY taken_at, consumer""",
        pagw_id=pagw_id,
    )


async def _files(stores: Stores, request: Tracked) -> tuple[str, ...]:
    """Named as in the folder of the request."""
    folder = model.original_bundle.key(created_at=request.created_at, pagw_id=request.pagw_id)
    folder = folder.removesuffix("request/original_bundle.json")
    page = await stores.run(ListObjects(model.original_bundle, folder, FILES_MAX, None))
    return tuple(each.key.removeprefix(folder) for each in page.objects)


async def _archived(stores: Stores, audit: tuple[AuditRow, ...]) -> int:
    found = 0
    for each in audit:
        try:
            await stores.run(
                model.audit_event.head(
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


async def _cached(stores: Stores, request: Tracked) -> tuple[str, ...]:
    """The keys that it used and that are there now."""
    payer_id, npi, tenant = request.payer_id or "", request.provider_npi or "", request.tenant
    window = model.windows.at(stores.clock.now())
    found = {
        f"payer:{payer_id}": await stores.run(model.payers.get(payer_id=payer_id)),
        f"provider:{npi}": await stores.run(model.providers.get(npi=npi)),
        f"oauth:{payer_id}": await stores.run(model.tokens.get(payer_id=payer_id)),
        f"ratelimit:{tenant}": await stores.run(model.windows.read(tenant=tenant, window=window)),
    }
    return tuple(name for name, value in found.items() if value)
