"""Provisioning of tables and indexes: creates missing tables, adds indexes online, reports their progress.

Everything may be run again: what exists as declared is left alone. Nothing is ever removed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from holdfast.core.concurrency import gather_or_cancel
from holdfast.core.errors import (
    AccessRefused,
    AlreadyExists,
    DeclarationError,
    HoldfastError,
    LimitExceeded,
    NotFound,
    RetryLater,
)
from holdfast.model.tables import Index, Table
from holdfast.operations import tables as requests
from holdfast.operations.tables import IndexState, TableDescription
from holdfast.operations.tables.schema import IndexProjection, KeyAttribute, KeySchema, TableDefinition
from holdfast.runtime.stores import Stores

MAX_WAIT_S: Final = 600.0
MIN_POLL_S: Final = 0.02
MAX_POLL_S: Final = 2.0
# As many as a table can have indexes: another process may start each before ours.
MAX_START_ATTEMPTS: Final = 20
# DynamoDB knows the caller and denies access; other codes mean that it does not know the caller.
ACCESS_DENIED: Final = "AccessDeniedException"

IndexStatus: TypeAlias = Literal[
    "ABSENT", "CREATING", "UPDATING", "DELETING", "ACTIVE", "DIFFERS", "NO TABLE"
]


@dataclass(frozen=True)
class IndexReport:
    """The progress of an index. `percent` is of the table's items, and an estimate if the index is sparse.

    `problem` says how an index that DIFFERS deviates from its declaration.
    """

    table: str
    index: str
    status: IndexStatus
    percent: float = 0.0
    items: int = 0
    problem: str = ""


Progress: TypeAlias = Callable[[IndexReport], None]


async def create_tables(stores: Stores, tables: Iterable[Table]) -> list[str]:
    """Create missing tables with their default indexes, time to live and recovery, and wait until they are
    active.

    Return the physical names of those created. Raise `DeclarationError` if an existing one differs.
    """
    created = []
    for table in tables:
        name = stores.physical_name(table)
        if await describe_table(stores, table) is None:
            try:
                await stores.tables.run(requests.CreateTable(table.definition(name)))
                created.append(name)
            except AlreadyExists:
                pass  # another process created it first
        await _wait_until_active(stores, table)
        await _enable_ttl(stores, table, name)
        await _enable_recovery(stores, table, name)
    return created


async def provision_tables(stores: Stores, tables: Iterable[Table]) -> dict[str, AccessRefused]:
    """Create missing tables for a caller with least privilege: what it may not inspect is assumed to be
    correct.

    Return the refusals by table name. Raise `AccessRefused` if a table is missing and may not be created.
    """
    unseen = {}
    for table in tables:
        try:
            await create_tables(stores, [table])
        except AccessRefused as refused:
            if refused.code != ACCESS_DENIED or await _is_absent(stores, table):
                raise
            unseen[stores.physical_name(table)] = refused
    return unseen


async def _is_absent(stores: Stores, table: Table) -> bool:
    """Return True if the table does not exist; False if access to it is denied."""
    try:
        return await describe_table(stores, table) is None
    except AccessRefused:
        return False


async def describe_table(stores: Stores, table: Table) -> TableDescription | None:
    """Return the table's description; None if it does not exist.

    Raise `DeclarationError` if its key differs.
    """
    try:
        found = await stores.tables.run(requests.DescribeTable(stores.physical_name(table)))
    except NotFound:
        return None
    declared = table.key_attributes
    there = _read_key(found.definition, found.definition.keys, declared)
    if there != declared:
        is_type = [key.name for key in there] == [key.name for key in declared]
        raise DeclarationError(
            f"The key of the table {found.definition.name} is {_format_keys(there, types=is_type)}, but "
            "declared as "
            f"{_format_keys(declared, types=is_type)}. Migrate the table, or use another environment."
        )
    return found


async def get_index_reports(stores: Stores, tables: Iterable[Table]) -> list[IndexReport]:
    """Return the progress of every declared global index."""
    reports: list[IndexReport] = []
    for table in tables:
        if table.global_indexes:
            description = await describe_table(stores, table)
            reports += [_build_report(index, description) for index in table.global_indexes]
    return reports


async def add_indexes(
    stores: Stores,
    indexes: Sequence[Index],
    *,
    wait: bool = True,
    wait_s: float = MAX_WAIT_S,
    progress: Progress = lambda report: None,
) -> list[IndexReport]:
    """Add missing indexes, one at a time per table, as DynamoDB requires, tables concurrently; return their
    progress.

    Without `wait`, only the first missing index of each table is started; the next call continues. Raises
    `DeclarationError` for a local index or one that differs, `NotFound` for a missing table, `RetryLater`
    after `wait_s`.
    """
    by_table: dict[Table, list[Index]] = {}
    for index in indexes:
        if index.scope == "local":
            raise DeclarationError(
                f"Invalid index {index!r}: a local index can only be created with its table. Leave it out."
            )
        by_table.setdefault(index.table, []).append(index)
    reports = await gather_or_cancel(
        _add_to_table(stores, table, several, wait, wait_s, progress) for table, several in by_table.items()
    )
    return [report for several in reports for report in several]


async def _add_to_table(
    stores: Stores, table: Table, indexes: list[Index], wait: bool, wait_s: float, progress: Progress
) -> list[IndexReport]:
    """Add the missing indexes of one table, one after the other, and return the progress of all."""
    for index in indexes:
        description = await describe_table(stores, table)
        report = _build_report(index, description)
        if report.status == "NO TABLE":
            name = stores.physical_name(table)
            raise NotFound(
                f"Table {name} does not exist, so {index.name} cannot be added. Create the table first."
            )
        if report.status == "DIFFERS":
            raise DeclarationError(
                f"The index {index!r} differs from its declaration: {report.problem}. Change the "
                "declaration, or declare and add an index under another name and delete the old one."
            )
        if report.status == "ABSENT":
            if description is not None and _is_busy(description):
                if not wait:
                    break  # one at a time: the next call starts this one
                await _wait_until_idle(stores, table, wait_s)
            await _start_index(stores, index, wait_s if wait else 0.0)
            report = _build_report(index, await describe_table(stores, table))
        progress(report)
        if wait:
            await _wait_until_built(stores, index, wait_s, progress)
    description = await describe_table(stores, table)
    return [_build_report(index, description) for index in indexes]


async def _start_index(stores: Stores, index: Index, wait_s: float) -> None:
    """Start building the index.

    If another process has started it, return; if it started another index, wait and retry.
    """
    request = requests.UpdateTable(
        stores.physical_name(index.table),
        attributes=index.key_attributes,
        index_changes=(requests.CreateIndex(index.definition),),
    )
    for turn in range(1, MAX_START_ATTEMPTS + 1):
        try:
            await stores.tables.run(request)
            return
        except HoldfastError as error:
            description = await describe_table(stores, index.table)
            if description is not None and index.name in description.global_indexes:
                return
            is_crowded = isinstance(error, (AlreadyExists, LimitExceeded))
            if not is_crowded or not wait_s or turn == MAX_START_ATTEMPTS:
                raise
            await _wait_until_idle(stores, index.table, wait_s)


async def _wait_until_built(stores: Stores, index: Index, wait_s: float, progress: Progress) -> None:
    """Wait until the index is active, reporting progress; raise `HoldfastError` if the store gave it up."""

    async def is_built() -> bool:
        report = _build_report(index, await describe_table(stores, index.table))
        progress(report)
        if report.status in ("ABSENT", "DELETING"):
            raise HoldfastError(
                f"Building the index {index!r} failed in the store. Look for items whose key attributes have "
                "another type, then add it again."
            )
        return report.status == "ACTIVE"

    await wait_until(is_built, wait_s, f"The index {index!r} is not built")


async def _wait_until_idle(stores: Stores, table: Table, wait_s: float) -> None:
    """Wait until the table and all its indexes are active."""

    async def is_settled() -> bool:
        description = await describe_table(stores, table)
        return description is not None and not _is_busy(description)

    await wait_until(is_settled, wait_s, f"The table {table.name} is still changing")


async def _wait_until_active(stores: Stores, table: Table) -> None:
    """Wait until the table is active; raise `RetryLater` after ten minutes."""

    async def is_active() -> bool:
        description = await describe_table(stores, table)
        return description is not None and description.status == "ACTIVE"

    await wait_until(is_active, MAX_WAIT_S, f"The table {table.name} is not active")


async def wait_until(is_done: Callable[[], object], wait_s: float, message: str) -> None:
    """Poll until `is_done`, at growing intervals; after `wait_s` raise `RetryLater` with `message`."""
    loop = asyncio.get_running_loop()
    ends, pause = loop.time() + wait_s, MIN_POLL_S
    while not await is_done():  # type: ignore[misc]
        if loop.time() >= ends:
            raise RetryLater(
                f"{message} after {wait_s:g} s. It continues in the background: check the status later."
            )
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, MAX_POLL_S)


async def _enable_ttl(stores: Stores, table: Table, name: str) -> None:
    """Enable the declared time to live; raise `DeclarationError` if it is on another attribute."""
    if table.ttl is None:
        return

    async def is_set() -> bool:
        now = await stores.tables.run(requests.DescribeTimeToLive(name))
        is_on = now.status in ("ENABLED", "ENABLING")
        if is_on and now.attribute != table.ttl:
            raise DeclarationError(
                f"The table {name} has its time to live on {now.attribute}, but is declared with "
                f"ttl={table.ttl!r}. Change the declaration, or disable the table's time to live."
            )
        return is_on

    await _ensure(is_set, lambda: stores.tables.run(requests.UpdateTimeToLive(name, table.ttl or "", True)))


async def _enable_recovery(stores: Stores, table: Table, name: str) -> None:
    """Enable point-in-time recovery, if declared."""
    if not table.point_in_time_recovery:
        return

    async def is_set() -> bool:
        return (await stores.tables.run(requests.DescribeContinuousBackups(name))).enabled

    await _ensure(is_set, lambda: stores.tables.run(requests.UpdateContinuousBackups(name, True)))


async def _ensure(is_done: Callable[[], Awaitable[bool]], change: Callable[[], Awaitable[object]]) -> None:
    """Make a change unless it is done. If it fails, another process may have made it in the meantime."""
    if await is_done():
        return
    try:
        await change()
    except HoldfastError:
        if not await is_done():
            raise


def _is_busy(description: TableDescription) -> bool:
    """Return True if the table or one of its indexes is not active."""
    states = description.global_indexes.values()
    return description.status != "ACTIVE" or any(state.status != "ACTIVE" for state in states)


def _build_report(index: Index, description: TableDescription | None) -> IndexReport:
    """Return the index's status and progress by the table's description (None: no table)."""
    if description is None:
        return IndexReport(index.table.name, index.name, "NO TABLE")
    state = description.global_indexes.get(index.name)
    if state is None:
        return IndexReport(index.table.name, index.name, "ABSENT")
    problem = "" if state.status == "DELETING" else _describe_difference(index, description.definition)
    return IndexReport(
        index.table.name,
        index.name,
        "DIFFERS" if problem else state.status,
        _compute_percent(state, description.item_count),
        state.item_count,
        problem,
    )


def _describe_difference(index: Index, existing: TableDefinition) -> str:
    """Return how an index differs from its declaration; empty if it does not."""
    found = next((each for each in existing.global_indexes if each.name == index.name), None)
    if found is None:
        return ""
    key, differences = _read_key(existing, found.keys, index.key_attributes), []
    if key != index.key_attributes:
        differences.append(
            f"its key is {_format_keys(key, types=True)}, not "
            f"{_format_keys(index.key_attributes, types=True)}"
        )
    if _normalize_projection(found.projection) != _normalize_projection(index.projection):
        differences.append(
            f"it projects {_format_projection(found.projection)}, not {_format_projection(index.projection)}"
        )
    return "; ".join(differences)


def _read_key(
    definition: TableDefinition, keys: KeySchema, declared: Iterable[KeyAttribute]
) -> tuple[KeyAttribute, ...]:
    """Return the existing key. If the store does not report a type, assume the declared one."""
    types = {key.name: key.type for key in (*declared, *definition.attributes)}
    return tuple(KeyAttribute(name, types.get(name, "S")) for name in keys.names)


def _format_keys(keys: Iterable[KeyAttribute], *, types: bool) -> str:
    return ", ".join(f"{key.name} ({key.type})" if types else key.name for key in keys)


def _normalize_projection(projection: IndexProjection) -> tuple[str, frozenset[str]]:
    return projection.kind, frozenset(projection.attributes)


def _format_projection(projection: IndexProjection) -> str:
    return f"{projection.kind} {', '.join(projection.attributes)}".strip()


def _compute_percent(state: IndexState, items: int) -> float:
    """Return the share of the table's items that are in the index: 100 only once it is built."""
    if state.status == "ACTIVE" and not state.backfilling:
        return 100.0
    return min(99.0, 100.0 * state.item_count / items) if items else 0.0
