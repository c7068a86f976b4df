"""Compute the monthly cost of queues and buckets: billed requests, empty polls, and storage of objects.

The number of requests of a call follows from the operation alone: a request is billed for each started 64 KB.
Consumers also poll when a queue is empty; those polls are counted once for each consumer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.core.errors import NotFound
from holdfast.model.objects import ObjectOperation
from holdfast.model.operations import EngineOperation
from holdfast.model.queues import Queue, QueueOperation, Send, SendBatch
from holdfast.model.system import System
from holdfast.operations.objects import ListObjects
from holdfast.reports.cost.price_lists import SECONDS_PER_MONTH, PriceList
from holdfast.reports.examples import list_examples
from holdfast.reports.measurement.data_sources import DataSource
from holdfast.reports.pattern_list import compute_calls_per_month
from holdfast.runtime.engines import Engine

# Operations without a charge.
FREE_KINDS: Final = frozenset({"DeleteObject"})
READ_KINDS: Final = frozenset({"GetObject", "HeadObject"})
# Stores that are billed by the hour, not by the request.
BILLED_BY_INSTANCE: Final = {
    "sql": "SQL is billed by the capacity and storage of its instances: there is no price per request",
    "cache": "the cache is billed by its nodes: there is no price per request",
}


@dataclass(frozen=True)
class QueueCost:
    """The monthly cost of one queue. `polls` counts the consumers' empty receives."""

    queue: str
    fifo: bool
    requests: float
    polls: float
    total: float | None


@dataclass(frozen=True)
class BucketCost:
    """The monthly cost of one bucket."""

    bucket: str
    objects: int
    size_bytes: int
    writes: float
    reads: float
    requests: float | None
    storage: float | None

    @property
    def total(self) -> float | None:
        """Requests plus storage; None if the price list has no prices of objects."""
        return None if self.requests is None or self.storage is None else self.requests + self.storage


def count_billed_requests(operation: EngineOperation[Any], prices: PriceList) -> int:
    """Return the number of requests that one call is billed as.

    Object deletes are free, a send counts once for each started block of its body, and any other call counts
    once.
    """
    if operation.kind in FREE_KINDS:
        return 0
    if prices.queues is None or not isinstance(operation, Send | SendBatch):
        return 1
    several = (operation.message,) if isinstance(operation, Send) else operation.messages
    size = sum(len(operation.queue.build_outgoing(each).body.encode()) for each in several)
    return max(1, math.ceil(size / prices.queues.request_bytes))


def compute_call_price(operation: EngineOperation[Any], prices: PriceList) -> float | None:
    """Return the price of one call; None if the price list has no prices of its store, and for SQL and the
    cache.
    """
    count = count_billed_requests(operation, prices)
    if isinstance(operation, QueueOperation):
        return (
            None
            if prices.queues is None
            else prices.queues.compute_request_cost(count, fifo=operation.queue.fifo)
        )
    if prices.objects is None or not isinstance(operation, ObjectOperation):
        return None
    return (
        prices.objects.compute_read_cost(count)
        if operation.kind in READ_KINDS
        else prices.objects.compute_write_cost(count)
    )


def compute_queue_costs(system: System, prices: PriceList) -> tuple[QueueCost, ...]:
    """Return the monthly cost of each queue at the declared rates; `total` is None without queue prices."""
    used = _count_requests_by_resource(system, prices)
    return tuple(
        _compute_queue_cost(system, queue, sum(used.get(queue.name, {}).values()), prices)
        for queue in system.queues
    )


@dataclass(frozen=True)
class StoredObjects:
    """The objects of a bucket: how many, and their total size."""

    count: int = 0
    size_bytes: int = 0


async def count_stored_objects(system: System, source: DataSource) -> dict[str, StoredObjects]:
    """Count the objects of each bucket, by its name: in the configured folder, or of the sample."""
    engine = source.objects or source.stores.engines.get("objects") if system.buckets else None
    return {
        bucket.name: await count_objects(engine, bucket.physical_name(source.stores.environment))
        for bucket in system.buckets
        if engine is not None
    }


def compute_bucket_costs(
    system: System, stored: Mapping[str, StoredObjects], prices: PriceList
) -> tuple[BucketCost, ...]:
    """Return the monthly cost of each bucket, with the objects that it has."""
    used, found = _count_requests_by_resource(system, prices), []
    for bucket in system.buckets:
        objects = stored.get(bucket.name, StoredObjects())
        by_kind = used.get(bucket.name, {})
        reads = sum(count for kind, count in by_kind.items() if kind in READ_KINDS)
        writes = sum(by_kind.values()) - reads
        requests, storage = None, None
        if prices.objects is not None:
            requests = prices.objects.compute_read_cost(reads) + prices.objects.compute_write_cost(writes)
            storage = prices.objects.compute_storage_cost(objects.size_bytes)
        found.append(
            BucketCost(bucket.name, objects.count, objects.size_bytes, writes, reads, requests, storage)
        )
    return tuple(found)


def _compute_queue_cost(system: System, queue: Queue[Any], requests: float, prices: PriceList) -> QueueCost:
    """Return the cost of this many requests a month, plus the empty polls of each declared consumer."""
    if prices.queues is None:
        return QueueCost(queue.name, queue.fifo, requests, 0.0, None)
    consumers = [
        each for component in system.components for each in component.consumers if each.queue is queue
    ]
    polls = len(consumers) * SECONDS_PER_MONTH / prices.queues.poll_wait_s
    total = prices.queues.compute_request_cost(requests + polls, fifo=queue.fifo)
    return QueueCost(queue.name, queue.fifo, requests, polls, total)


def _count_requests_by_resource(system: System, prices: PriceList) -> Mapping[str, dict[str, float]]:
    """Return the requests per month, by queue or bucket and by kind of operation."""
    found: dict[str, dict[str, float]] = {}
    for example in list_examples(system):
        if isinstance(example.operation, EngineOperation):
            kinds = found.setdefault(example.operation.resource, {})
            calls = compute_calls_per_month(system, example.pattern) or 0.0
            requests = calls * count_billed_requests(example.operation, prices)
            kinds[example.operation.kind] = kinds.get(example.operation.kind, 0.0) + requests
    return found


async def count_objects(engine: Engine, bucket: str) -> StoredObjects:
    """Count the objects in a bucket, by its physical name; none if it was never created."""
    count, size, cursor = 0, 0, None
    while True:
        try:
            page = await engine.run(ListObjects(bucket=bucket, cursor=cursor))
        except NotFound:
            return StoredObjects()
        count += len(page.objects)
        size += sum(each.bytes for each in page.objects)
        cursor = page.cursor
        if cursor is None:
            return StoredObjects(count, size)
