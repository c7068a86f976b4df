"""Provisioning of a system: creates its tables, queues and buckets, migrates its schemas; queue reports.

Everything may be run again; nothing is ever removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from holdfast.core.errors import AccessRefused, AlreadyExists, NotFound
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.sql import Schema
from holdfast.model.system import System
from holdfast.operations import objects as object_requests
from holdfast.operations import queues as queue_requests
from holdfast.operations.queues import QueueDescription
from holdfast.operations.sql.descriptions import SchemaState
from holdfast.runtime.stores import Stores
from holdfast.runtime.table_provisioner import ACCESS_DENIED, provision_tables
from holdfast.stores.sql.port import Sql

# The codes of DynamoDB and SQS, and of S3.
ACCESS_DENIED_CODES: Final = frozenset({ACCESS_DENIED, "AccessDenied"})

RunRequest: TypeAlias = Callable[[Any], Awaitable[Any]]


async def provision(stores: Stores, system: System) -> dict[str, AccessRefused]:
    """Create what is missing of the system's tables, queues, buckets and schemas.

    What the caller may not inspect is assumed to exist: return the refusals, by resource.
    """
    refused = await provision_tables(stores, system.tables)
    unseen = {f"table {name}": refusal for name, refusal in refused.items()}
    return unseen | await provision_other_stores(stores, system)


async def provision_other_stores(stores: Stores, system: System) -> dict[str, AccessRefused]:
    """Create what is missing of the system's queues, buckets and schemas; return the refusals, by
    resource.
    """
    unseen: dict[str, AccessRefused] = {}
    for queue in system.queues:
        name = queue.physical_name(stores.environment)
        check: tuple[RunRequest, Any] = (stores.engines.get("queues").run, queue_requests.DescribeQueue(name))
        await _create_unless_denied(f"queue {name}", create_queues(stores, [queue]), check, unseen)
    for bucket in system.buckets:
        name = bucket.physical_name(stores.environment)
        check = (stores.engines.get("objects").run, object_requests.DescribeBucket(name))
        await _create_unless_denied(f"bucket {name}", create_buckets(stores, [bucket]), check, unseen)
    return unseen | await _provision_schemas(stores, system.schemas)


async def create_queues(stores: Stores, queues: Iterable[Queue[Any]]) -> None:
    """Create each queue after its dead-letter queue. An existing queue is updated to its declaration."""
    engine = stores.engines.get("queues")
    for queue in queues:
        for definition in queue.definitions(stores.environment):
            try:
                await engine.run(queue_requests.CreateQueue(definition))
            except AlreadyExists:
                await engine.run(queue_requests.UpdateQueue(definition))


async def create_buckets(stores: Stores, buckets: Iterable[Bucket]) -> None:
    """Create buckets. An existing bucket gets the declared lifecycle and encryption."""
    engine = stores.engines.get("objects")
    for bucket in buckets:
        await engine.run(object_requests.CreateBucket(bucket.definition(stores.environment)))


async def migrate_schemas(
    stores: Stores, schemas: Iterable[Schema], progress: Callable[[str, int, int], None] | None = None
) -> dict[str, list[str]]:
    """Migrate each schema to its newest revision; return the revisions that were run, by schema."""
    engine = get_sql_engine(stores)
    return {
        each.name: await engine.migrate(each.name, each.migrations, progress=progress) for each in schemas
    }


async def get_schema_states(stores: Stores, schemas: Iterable[Schema]) -> list[SchemaState]:
    """Return the migration state of each schema. It changes nothing and needs only read access."""
    engine = get_sql_engine(stores)
    return [await engine.get_schema_state(each.name, each.migrations) for each in schemas]


def get_sql_engine(stores: Stores) -> Sql:
    """Return the SQL engine of the stores."""
    return cast(Sql, stores.engines.get("sql"))


async def _provision_schemas(stores: Stores, schemas: Iterable[Schema]) -> dict[str, AccessRefused]:
    """Migrate schemas that are behind. One whose revision may not be read is assumed to be current."""
    unseen: dict[str, AccessRefused] = {}
    for schema in schemas:
        try:
            (state,) = await get_schema_states(stores, [schema])
        except AccessRefused as refused:
            unseen[f"schema {schema.name}"] = refused
        else:
            await migrate_schemas(stores, [schema] if state.pending else [])
    return unseen


async def sweep_buckets(stores: Stores, buckets: Iterable[Bucket]) -> int:
    """Delete expired objects and return their number. S3 does this itself; a directory does not."""
    engine = stores.engines.get("objects")
    swept = 0
    for bucket in buckets:
        swept += await engine.run(object_requests.SweepBucket(bucket.physical_name(stores.environment)))
    return swept


async def _create_unless_denied(
    what: str, creation: Awaitable[None], describe: tuple[RunRequest, Any], unseen: dict[str, AccessRefused]
) -> None:
    """Await the creation.

    If access is denied, note that in `unseen`, unless the resource is known to be missing.
    """
    try:
        await creation
    except AccessRefused as refused:
        if refused.code not in ACCESS_DENIED_CODES or await _is_absent(*describe):
            raise
        unseen[what] = refused


async def _is_absent(run: RunRequest, described: Any) -> bool:
    """Return True if the described resource does not exist; False if access to it is denied."""
    try:
        await run(described)
    except NotFound:
        return True
    except AccessRefused:
        return False
    return False


@dataclass(frozen=True)
class QueueReport:
    """The state of a queue, and the number of messages in its dead-letter queue.

    `dead` is None if it has no dead-letter queue.
    """

    queue: str
    physical: str
    waiting: QueueDescription
    dead: int | None


async def get_queue_reports(stores: Stores, queues: Sequence[Queue[Any]]) -> list[QueueReport]:
    """Return a report for each of these queues that exists."""
    return (
        await read_queue_reports(stores.engines.get("queues").run, stores.environment, queues)
        if queues
        else []
    )


async def read_queue_reports(
    run: RunRequest, environment: str, queues: Iterable[Queue[Any]]
) -> list[QueueReport]:
    """Return a report for each queue that exists; `run` sends a request to the queue engine."""
    reports = []
    for queue in queues:
        name = queue.physical_name(environment)
        waiting = await _describe_queue(run, name)
        if waiting is not None:
            dead = await _describe_queue(run, queue.physical_name(environment, dead_letter=True))
            reports.append(QueueReport(queue.name, name, waiting, None if dead is None else dead.backlog))
    return reports


async def _describe_queue(run: RunRequest, name: str) -> QueueDescription | None:
    """Return the description of the queue with this physical name, or None if it does not exist."""
    try:
        found: QueueDescription = await run(queue_requests.DescribeQueue(name))
    except NotFound:
        return None
    return found
