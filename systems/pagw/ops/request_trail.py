"""The trail of one request over all stores for the operators' page: rows, objects, messages, keys, cache.

Its reads are bounded. It shows ids, states, times and sizes, and reads no file. `api/explain.py` has the same
as text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from holdfast import Pattern, Rate, Stores, pattern
from holdfast.core.errors import CacheUnavailable
from holdfast.model.cache import PeekCached
from holdfast.model.sql import SqlRow, SqlRows
from holdfast.operations.objects import ObjectSummary
from pagw.model import delivery_patterns, entities, patterns
from pagw.model.entities import (
    AuditRow,
    DeliveryRow,
    IdempotencyRecord,
    PayerRow,
    Provider,
    RequestRow,
    audit_events,
    pagw,
)
from pagw.ops import legal_holds
from pagw.ops.legal_holds import HoldRow
from pagw.ops.monitoring import any_request

PER_PAGE: Final = Rate(per="page of an operator")
MAX_EVENTS: Final = 200
MAX_MESSAGES: Final = 100
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)


class MessageRow(SqlRow):
    """A message of a request in the outbox: not yet sent, or sent to its queue at `processed_at`."""

    id: int
    queue_name: str
    aggregate: str
    created_at: datetime
    processed: bool
    processed_at: datetime | None
    retry_count: int
    dead_at: datetime | None
    last_error: str | None


@pattern("M42", "Unsent and recently sent messages of a request", rate=PER_PAGE, example=([_ID],))
def messages_of(aggregates: Sequence[str], limit: int = MAX_MESSAGES) -> SqlRows[MessageRow]:
    """Select the messages of these aggregates, a request's id and its deliveries' ids, oldest first, at most
    `limit` unsent and `limit` sent of each. Messages of the audit, one for each event, are left out unless
    they are dead.
    """
    return pagw.rows(
        MessageRow,
        """SELECT {columns} FROM unnest(%(aggregates)s::text[]) AS wanted (name) CROSS JOIN LATERAL (
             (SELECT * FROM pagw.outbox WHERE aggregate = wanted.name AND NOT processed
                AND (queue_name <> %(audit)s OR dead_at IS NOT NULL)
              ORDER BY queue_name, id LIMIT %(limit)s)
             UNION ALL
             (SELECT * FROM pagw.outbox WHERE aggregate = wanted.name AND processed
                AND queue_name <> %(audit)s ORDER BY id LIMIT %(limit)s)) AS messages ORDER BY id""",
        aggregates=tuple(aggregates),
        audit=audit_events.name,
        limit=limit,
    )


@pattern("M43", "The cached entry of a payer", rate=PER_PAGE, example=("sandbox-payer",))
def cached_payer(payer_id: str) -> PeekCached[PayerRow]:
    return entities.payers.peek(payer_id=payer_id)


@pattern("M44", "The cached entry of a provider", rate=PER_PAGE, example=("1234567893",))
def cached_provider(npi: str) -> PeekCached[Provider]:
    return entities.providers.peek(npi=npi)


PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    any_request,
    messages_of,
    cached_payer,
    cached_provider,
    legal_holds.files_of,
    legal_holds.holds,
    patterns.submission,
    patterns.audit_of,
    delivery_patterns.deliveries_of,
)


@dataclass(frozen=True)
class KeyState:
    """A record of the idempotency table: `what` is `submission` or `payer call`. Its key is not shown."""

    what: str
    record: IdempotencyRecord


@dataclass(frozen=True)
class CacheState:
    """A copy that this request uses, and whether the cache has it; None if the cache is unavailable."""

    name: str
    is_cached: bool | None


@dataclass(frozen=True)
class RequestTrail:
    """All that the stores have of a request, without contents. `next_events` continues its audit events."""

    request: RequestRow
    events: tuple[AuditRow, ...]
    next_events: int | None
    files: tuple[ObjectSummary, ...]
    has_more_files: bool
    messages: tuple[MessageRow, ...]
    deliveries: tuple[DeliveryRow, ...]
    keys: tuple[KeyState, ...]
    cache: tuple[CacheState, ...]
    hold: HoldRow | None


async def load_trail(stores: Stores, request: RequestRow, *, events_after: int = 0) -> RequestTrail:
    """Return the trail of a request; `events_after` is the id of the last audit event of the page before."""
    tenant, pagw_id = request.tenant, request.pagw_id
    events = tuple(
        await stores.run(patterns.audit_of(tenant, pagw_id, after_id=events_after, limit=MAX_EVENTS + 1))
    )
    listed = await stores.run(legal_holds.files_of(request.created_at, pagw_id))
    deliveries = tuple(await stores.run(delivery_patterns.deliveries_of(tenant, pagw_id)))
    aggregates = [pagw_id, *(each.delivery_id for each in deliveries)]
    holds = await stores.run(legal_holds.holds(pagw_id))
    return RequestTrail(
        request,
        events[:MAX_EVENTS],
        events[MAX_EVENTS - 1].id if len(events) > MAX_EVENTS else None,
        tuple(listed.objects),
        listed.cursor is not None,
        tuple(await stores.run(messages_of(aggregates))),
        deliveries,
        await _load_keys(stores, request),
        await _load_cache(stores, request),
        next(iter(holds), None),
    )


async def _load_keys(stores: Stores, request: RequestRow) -> tuple[KeyState, ...]:
    """Return the records of the submission and of the payer call, as long as they exist."""
    found = []
    for what, key in (
        ("submission", request.metadata.get("idempotencyKey")),
        ("payer call", f"{request.tenant}:{request.pagw_id}#payer"),
    ):
        record = await stores.run(patterns.submission(str(key))) if key else None
        if record is not None and record.pagw_id == request.pagw_id:
            found.append(KeyState(what, record))
    return tuple(found)


async def _load_cache(stores: Stores, request: RequestRow) -> tuple[CacheState, ...]:
    """Return whether the registry entries of the request are cached."""
    reads: list[tuple[str, PeekCached[Any]]] = []
    if request.payer_id:
        reads.append((f"payer {request.payer_id}", cached_payer(request.payer_id)))
    if request.provider_npi:
        reads.append((f"provider {request.provider_npi}", cached_provider(request.provider_npi)))
    return tuple([CacheState(name, await _is_cached(stores, read)) for name, read in reads])


async def _is_cached(stores: Stores, read: PeekCached[Any]) -> bool | None:
    try:
        return await stores.run(read) is not None
    except CacheUnavailable:
        return None
