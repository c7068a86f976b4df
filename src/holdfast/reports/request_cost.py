"""What queues and buckets cost in a month: they are billed by the request, and objects by what they keep.

How many requests a call is follows from the operation alone: a request is billed for every 64 KB that it carries.
Who works a queue off asks also when nothing is there; that is counted once for each consumer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from holdfast.errors import NotFound
from holdfast.model.objects import ShelfOperation
from holdfast.model.operations import EngineOperation
from holdfast.model.queues import Queue, QueueOperation, Send, SendAll
from holdfast.model.system import System
from holdfast.operations.objects import ListObjects
from holdfast.reports.examples import examples_of
from holdfast.reports.pattern_list import calls_per_month
from holdfast.reports.prices import SECONDS_PER_MONTH, PriceList
from holdfast.reports.scratch import Ground
from holdfast.runtime.engines import Engine

# What the service asks nothing for.
FREE: Final = frozenset({"DeleteObject"})
READS: Final = frozenset({"GetObject", "HeadObject"})
# What is paid by the hour, whatever is asked of it.
BY_THE_HOUR: Final = {
    "sql": "SQL is billed by the capacity and storage of its instances: there is no price per request",
    "cache": "the cache is billed by its nodes: there is no price per request",
}


@dataclass(frozen=True)
class QueueCost:
    """One queue in a month. `polls` are the requests of consumers that found nothing."""

    queue: str
    fifo: bool
    requests: float
    polls: float
    total: float | None


@dataclass(frozen=True)
class BucketCost:
    """One bucket in a month."""

    bucket: str
    objects: int
    size_bytes: int
    writes: float
    reads: float
    requests: float | None
    storage: float | None

    @property
    def total(self) -> float | None:
        return None if self.requests is None or self.storage is None else self.requests + self.storage


def billed_requests(operation: EngineOperation[Any], prices: PriceList) -> int:
    """How many requests one call is billed as."""
    if operation.kind in FREE:
        return 0
    if prices.queues is None or not isinstance(operation, Send | SendAll):
        return 1
    several = (operation.message,) if isinstance(operation, Send) else operation.messages
    size = sum(len(operation.queue.outgoing(each).body.encode()) for each in several)
    return max(1, math.ceil(size / prices.queues.request_bytes))


def call_price(operation: EngineOperation[Any], prices: PriceList) -> float | None:
    """What one call costs; None where the price list says nothing of its store."""
    count = billed_requests(operation, prices)
    if isinstance(operation, QueueOperation):
        return None if prices.queues is None else prices.queues.requests(count, fifo=operation.queue.fifo)
    if prices.objects is None or not isinstance(operation, ShelfOperation):
        return None
    return prices.objects.reads(count) if operation.kind in READS else prices.objects.writes(count)


def queue_costs(system: System, prices: PriceList) -> tuple[QueueCost, ...]:
    used = _requests_by_place(system, prices)
    return tuple(
        _queue_cost(system, queue, sum(used.get(queue.name, {}).values()), prices) for queue in system.queues
    )


async def bucket_costs(system: System, ground: Ground, prices: PriceList) -> tuple[BucketCost, ...]:
    """With what is kept in each bucket: in the configured folder, or else by the sample."""
    used, found = _requests_by_place(system, prices), []
    for bucket in system.buckets:
        engine = ground.objects or ground.stores.engines.of("objects")
        objects, size = await _kept(engine, bucket.physical_name(ground.stores.environment))
        by_kind = used.get(bucket.name, {})
        reads = sum(count for kind, count in by_kind.items() if kind in READS)
        writes = sum(by_kind.values()) - reads
        asked, kept = None, None
        if prices.objects is not None:
            asked = prices.objects.reads(reads) + prices.objects.writes(writes)
            kept = prices.objects.storage(size)
        found.append(BucketCost(bucket.name, objects, size, writes, reads, asked, kept))
    return tuple(found)


def _queue_cost(system: System, queue: Queue[Any], requests: float, prices: PriceList) -> QueueCost:
    if prices.queues is None:
        return QueueCost(queue.name, queue.fifo, requests, 0.0, None)
    consumers = [
        each for component in system.components for each in component.consumers if each.queue is queue
    ]
    polls = len(consumers) * SECONDS_PER_MONTH / prices.queues.poll_wait_s
    total = prices.queues.requests(requests + polls, fifo=queue.fifo)
    return QueueCost(queue.name, queue.fifo, requests, polls, total)


def _requests_by_place(system: System, prices: PriceList) -> Mapping[str, dict[str, float]]:
    """Requests in a month, by queue or bucket and by kind."""
    found: dict[str, dict[str, float]] = {}
    for example in examples_of(system):
        if isinstance(example.operation, EngineOperation):
            kinds = found.setdefault(example.operation.resource, {})
            calls = calls_per_month(system, example.pattern) or 0.0
            requests = calls * billed_requests(example.operation, prices)
            kinds[example.operation.kind] = kinds.get(example.operation.kind, 0.0) + requests
    return found


async def _kept(engine: Engine, bucket: str) -> tuple[int, int]:
    """How many objects there are, and how many bytes they have together."""
    count, size, cursor = 0, 0, None
    while True:
        try:
            page = await engine.run(ListObjects(bucket=bucket, cursor=cursor))
        except NotFound:
            return 0, 0  # never made there
        count += len(page.objects)
        size += sum(each.bytes for each in page.objects)
        cursor = page.cursor
        if cursor is None:
            return count, size
