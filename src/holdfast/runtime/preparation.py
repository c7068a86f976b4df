"""Everything that a system declares, made before it runs: tables with their indexes, queues with their dead letters,
buckets, schemas of SQL brought to the newest of their migrations. All of it may be run again; nothing is ever removed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from holdfast.errors import AccessRefused, AlreadyThere, NotFound
from holdfast.model.objects import Bucket
from holdfast.model.queues import Queue
from holdfast.model.sql import Schema
from holdfast.model.system import System
from holdfast.operations import objects as object_requests
from holdfast.operations import queues as queue_requests
from holdfast.operations.queues import QueueDescription
from holdfast.operations.sql.descriptions import SchemaState
from holdfast.runtime.provisioning import NOT_ALLOWED, prepare_tables
from holdfast.runtime.stores import Stores
from holdfast.stores.sql.port import Sql

# As DynamoDB and SQS say it, and S3.
NOT_ALLOWED_CODES: Final = frozenset({NOT_ALLOWED, "AccessDenied"})

Ask: TypeAlias = Callable[[Any], Awaitable[Any]]


async def prepare(stores: Stores, system: System) -> dict[str, AccessRefused]:
    """Makes what is absent. What the caller may not look at is taken as it is: gives the refusals, by what they are of."""
    refused = await prepare_tables(stores, system.tables)
    unseen = {f"table {name}": refusal for name, refusal in refused.items()}
    for queue in system.queues:
        name = queue.physical_name(stores.environment)
        asked: tuple[Ask, Any] = (stores.engines.of("queues").run, queue_requests.DescribeQueue(name))
        await _allowed(f"queue {name}", create_queues(stores, [queue]), asked, unseen)
    for bucket in system.buckets:
        name = bucket.physical_name(stores.environment)
        asked = (stores.engines.of("objects").run, object_requests.DescribeBucket(name))
        await _allowed(f"bucket {name}", create_buckets(stores, [bucket]), asked, unseen)
    return unseen | await _prepare_schemas(stores, system.schemas)


async def create_queues(stores: Stores, queues: Iterable[Queue[Any]]) -> None:
    """Each after its dead-letter queue. One that is there with another definition is given the declared one."""
    engine = stores.engines.of("queues")
    for queue in queues:
        for definition in queue.definitions(stores.environment):
            try:
                await engine.run(queue_requests.CreateQueue(definition))
            except AlreadyThere:
                await engine.run(queue_requests.UpdateQueue(definition))


async def create_buckets(stores: Stores, buckets: Iterable[Bucket]) -> None:
    """One that is there gets the lifecycle and the encryption that are declared."""
    engine = stores.engines.of("objects")
    for bucket in buckets:
        await engine.run(object_requests.CreateBucket(bucket.definition(stores.environment)))


async def migrate_schemas(
    stores: Stores, schemas: Iterable[Schema], progress: Callable[[str, int, int], None] | None = None
) -> dict[str, list[str]]:
    """Each brought to the newest of its migrations: gives the revisions that were run, by schema."""
    engine = sql_engine(stores)
    return {
        each.name: await engine.migrate(each.name, each.migrations, progress=progress) for each in schemas
    }


async def schema_states(stores: Stores, schemas: Iterable[Schema]) -> list[SchemaState]:
    """How far each is. Nothing is changed, and whoever may read them may ask."""
    engine = sql_engine(stores)
    return [await engine.state(each.name, each.migrations) for each in schemas]


def sql_engine(stores: Stores) -> Sql:
    return cast(Sql, stores.engines.of("sql"))


async def _prepare_schemas(stores: Stores, schemas: Iterable[Schema]) -> dict[str, AccessRefused]:
    """A schema whose revision may not be read is believed to be right; one that is behind is migrated or refused."""
    unseen: dict[str, AccessRefused] = {}
    for schema in schemas:
        try:
            (state,) = await schema_states(stores, [schema])
        except AccessRefused as refused:
            unseen[f"schema {schema.name}"] = refused
        else:
            await migrate_schemas(stores, [schema] if state.pending else [])
    return unseen


async def sweep_buckets(stores: Stores, buckets: Iterable[Bucket]) -> int:
    """Ends what has lived its time, and gives how many objects that were. S3 does so by itself; a folder does not."""
    engine = stores.engines.of("objects")
    swept = 0
    for bucket in buckets:
        swept += await engine.run(object_requests.SweepBucket(bucket.physical_name(stores.environment)))
    return swept


async def _allowed(
    what: str, making: Awaitable[None], described: tuple[Ask, Any], unseen: dict[str, AccessRefused]
) -> None:
    """What is absent and may not be made is refused; what may not be looked at is believed to be there."""
    try:
        await making
    except AccessRefused as refused:
        if refused.code not in NOT_ALLOWED_CODES or await _is_absent(*described):
            raise
        unseen[what] = refused


async def _is_absent(run: Ask, described: Any) -> bool:
    try:
        await run(described)
    except NotFound:
        return True
    except AccessRefused:
        return False
    return False


@dataclass(frozen=True)
class QueueReport:
    """How a queue stands. `dead` counts the messages among its dead letters; None where it has none."""

    queue: str
    physical: str
    waiting: QueueDescription
    dead: int | None


async def queue_reports(stores: Stores, queues: Sequence[Queue[Any]]) -> list[QueueReport]:
    """Of each queue that is there."""
    return await reports_by(stores.engines.of("queues").run, stores.environment, queues) if queues else []


async def reports_by(run: Ask, environment: str, queues: Iterable[Queue[Any]]) -> list[QueueReport]:
    """The same, asked of whatever answers for the queues."""
    reports = []
    for queue in queues:
        name = queue.physical_name(environment)
        waiting = await _described(run, name)
        if waiting is not None:
            dead = await _described(run, queue.physical_name(environment, dead=True))
            reports.append(QueueReport(queue.name, name, waiting, None if dead is None else dead.backlog))
    return reports


async def _described(run: Ask, name: str) -> QueueDescription | None:
    try:
        found: QueueDescription = await run(queue_requests.DescribeQueue(name))
    except NotFound:
        return None
    return found
