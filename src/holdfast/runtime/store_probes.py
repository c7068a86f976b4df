"""Probes of stores, for `/health/ready`: one cheap request each, that every component may send.

A refused permission is an answer: the service runs and knows the caller. A missing table, queue or bucket is
not: the process cannot do its work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from holdfast.core.errors import AccessRefused, NotFound
from holdfast.core.readiness import Probe
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.tables import Table
from holdfast.operations.cache import Ping
from holdfast.operations.objects import DescribeBucket
from holdfast.operations.queues import DescribeQueue
from holdfast.operations.sql import Statement
from holdfast.runtime.stores import Stores
from holdfast.runtime.system_provisioner import ACCESS_DENIED_CODES
from holdfast.runtime.table_provisioner import describe_table

_SELECT_ONE: Final = Statement(text="SELECT 1")


@dataclass(frozen=True)
class UsedStores:
    """What a process uses of each store. One table, queue and bucket stands for its store."""

    tables: Collection[Table] = ()
    queues: Collection[Queue[Any]] = ()
    buckets: Collection[Bucket] = ()
    has_sql: bool = False
    has_cache: bool = False


def merge_used_stores(each_used: Sequence[UsedStores]) -> UsedStores:
    """Return what several systems use of the same engines."""
    return UsedStores(
        tables=[table for each in each_used for table in each.tables],
        queues=[queue for each in each_used for queue in each.queues],
        buckets=[bucket for each in each_used for bucket in each.buckets],
        has_sql=any(each.has_sql for each in each_used),
        has_cache=any(each.has_cache for each in each_used),
    )


def build_store_probes(stores: Stores, used: UsedStores) -> dict[str, Probe]:
    """Return a probe for each store that the process uses, by the store's name."""
    probes: dict[str, Probe] = {}
    for table in list(used.tables)[:1]:
        probes["tables"] = _allow_denied(partial(_find_table, stores, table))
    for queue in list(used.queues)[:1]:
        described = DescribeQueue(queue.physical_name(stores.environment))
        probes["queues"] = _allow_denied(_build_request(stores, "queues", described))
    for bucket in list(used.buckets)[:1]:
        wanted = DescribeBucket(bucket.physical_name(stores.environment))
        probes["objects"] = _allow_denied(_build_request(stores, "objects", wanted))
    if used.has_sql:
        probes["sql"] = _build_request(stores, "sql", _SELECT_ONE)
    if used.has_cache:
        probes["cache"] = _build_request(stores, "cache", Ping())
    return probes


async def _find_table(stores: Stores, table: Table) -> None:
    """Raise `NotFound` if the table does not exist."""
    if await describe_table(stores, table) is None:
        raise NotFound(f"The table {stores.physical_name(table)} does not exist.")


def _build_request(stores: Stores, store: str, request: Any) -> Probe:
    """Return a probe that sends the request to a store."""

    async def probe() -> None:
        await stores.engines.get(store).run(request)

    return probe


def _allow_denied(call: Callable[[], Awaitable[None]]) -> Probe:
    """Return a probe that accepts a refused permission."""

    async def probe() -> None:
        try:
            await call()
        except AccessRefused as refused:
            if refused.code not in ACCESS_DENIED_CODES:
                raise

    return probe
