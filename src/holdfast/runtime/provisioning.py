"""Tables and indexes brought to what is declared: created when absent, indexes added one at a time, online.

Everything may be run again: what is there and right is left alone. Nothing is ever removed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from holdfast.errors import (
    AccessRefused,
    AlreadyThere,
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
from holdfast.runtime.stores import Stores, together

WAIT_SECONDS_MAX: Final = 600.0
POLL_SECONDS_MIN: Final = 0.02
POLL_SECONDS_MAX: Final = 2.0
# As many indexes as a table can have: each may be begun by another process before ours.
BEGIN_TURNS_MAX: Final = 20
# The service knows who asks, and that it may not; other codes say that it does not know the caller.
NOT_ALLOWED: Final = "AccessDeniedException"

IndexStatus: TypeAlias = Literal[
    "ABSENT", "CREATING", "UPDATING", "DELETING", "ACTIVE", "DIFFERS", "NO TABLE"
]


@dataclass(frozen=True)
class IndexReport:
    """How far an index is. `percent` is of the table's items, and an estimate where the index is sparse.

    `problem` says in what an index that DIFFERS is not the one that is declared.
    """

    table: str
    index: str
    status: IndexStatus
    percent: float = 0.0
    items: int = 0
    problem: str = ""


Progress: TypeAlias = Callable[[IndexReport], None]


async def create_tables(stores: Stores, tables: Iterable[Table]) -> list[str]:
    """Creates those that are absent, with their default indexes, lifetime and recovery. Gives their names."""
    made = []
    for table in tables:
        name = stores.physical_name(table)
        if await describe(stores, table) is None:
            try:
                await stores.tables.run(requests.CreateTable(table.definition(name)))
                made.append(name)
            except AlreadyThere:
                pass  # another process was quicker
        await _active(stores, table)
        await _set_lifetime(stores, table, name)
        await _set_recovery(stores, table, name)
    return made


async def prepare_tables(stores: Stores, tables: Iterable[Table]) -> dict[str, AccessRefused]:
    """As `create_tables`, for a caller with the least privilege: what it may not look at is taken as it is.

    Gives the refusals, by the table's name. A table that is absent and may not be made is refused.
    """
    unseen = {}
    for table in tables:
        try:
            await create_tables(stores, [table])
        except AccessRefused as refused:
            if refused.code != NOT_ALLOWED or await _is_absent(stores, table):
                raise
            unseen[stores.physical_name(table)] = refused
    return unseen


async def _is_absent(stores: Stores, table: Table) -> bool:
    try:
        return await describe(stores, table) is None
    except AccessRefused:
        return False


async def describe(stores: Stores, table: Table) -> TableDescription | None:
    """The table as it stands; None where there is none. One with another key than declared is refused."""
    try:
        found = await stores.tables.run(requests.DescribeTable(stores.physical_name(table)))
    except NotFound:
        return None
    declared = table.key_attributes
    there = _key(found.definition, found.definition.keys, declared)
    if there != declared:
        is_type = [key.name for key in there] == [key.name for key in declared]
        raise DeclarationError(
            f"The table {found.definition.name} is there with the key {_told(there, types=is_type)}, and is declared "
            f"with {_told(declared, types=is_type)}: migrate it, or use another environment."
        )
    return found


async def index_reports(stores: Stores, tables: Iterable[Table]) -> list[IndexReport]:
    """Every declared global index with how far it is."""
    reports: list[IndexReport] = []
    for table in tables:
        if table.global_indexes:
            description = await describe(stores, table)
            reports += [_report(index, description) for index in table.global_indexes]
    return reports


async def add_indexes(
    stores: Stores,
    indexes: Sequence[Index],
    *,
    wait: bool = True,
    wait_seconds: float = WAIT_SECONDS_MAX,
    progress: Progress = lambda report: None,
) -> list[IndexReport]:
    """Adds what is absent: one index at a time per table, as the service demands, tables side by side.

    Without `wait`, the first that is absent is begun in each table and the rest is left for the next call.
    """
    by_table: dict[Table, list[Index]] = {}
    for index in indexes:
        if index.scope == "local":
            raise DeclarationError(
                f"{index!r} is a local index, which can only be made with its table: leave it out here."
            )
        by_table.setdefault(index.table, []).append(index)
    reports = await together(
        _add_to_table(stores, table, several, wait, wait_seconds, progress)
        for table, several in by_table.items()
    )
    return [report for several in reports for report in several]


async def _add_to_table(
    stores: Stores, table: Table, indexes: list[Index], wait: bool, wait_seconds: float, progress: Progress
) -> list[IndexReport]:
    for index in indexes:
        description = await describe(stores, table)
        report = _report(index, description)
        if report.status == "NO TABLE":
            name = stores.physical_name(table)
            raise NotFound(f"There is no table {name} to add {index.name} to: create it first.")
        if report.status == "DIFFERS":
            raise DeclarationError(
                f"The index {index!r} is not the one that is declared: {report.problem}. Declare it as it is, or "
                "declare one under another name, add that, and take the old one away."
            )
        if report.status == "ABSENT":
            if description is not None and _is_busy(description):
                if not wait:
                    break  # one at a time: this one is for the next call
                await _settled(stores, table, wait_seconds)
            await _begin(stores, index, wait_seconds if wait else 0.0)
            report = _report(index, await describe(stores, table))
        progress(report)
        if wait:
            await _built(stores, index, wait_seconds, progress)
    description = await describe(stores, table)
    return [_report(index, description) for index in indexes]


async def _begin(stores: Stores, index: Index, wait_seconds: float) -> None:
    """Another process may have begun it, or another index of the table, since we looked: we look again."""
    request = requests.UpdateTable(
        stores.physical_name(index.table),
        attributes=index.key_attributes,
        index_changes=(requests.CreateIndex(index.definition),),
    )
    for turn in range(1, BEGIN_TURNS_MAX + 1):
        try:
            await stores.tables.run(request)
            return
        except HoldfastError as error:
            description = await describe(stores, index.table)
            if description is not None and index.name in description.global_indexes:
                return
            is_crowded = isinstance(error, (AlreadyThere, LimitExceeded))
            if not is_crowded or not wait_seconds or turn == BEGIN_TURNS_MAX:
                raise
            await _settled(stores, index.table, wait_seconds)


async def _built(stores: Stores, index: Index, wait_seconds: float, progress: Progress) -> None:
    async def is_built() -> bool:
        report = _report(index, await describe(stores, index.table))
        progress(report)
        if report.status in ("ABSENT", "DELETING"):
            raise HoldfastError(
                f"The index {index!r} was not built: the store gave it up. Look for items whose key attributes have "
                "another type, then add it again."
            )
        return report.status == "ACTIVE"

    await until(is_built, wait_seconds, f"The index {index!r} is not built")


async def _settled(stores: Stores, table: Table, wait_seconds: float) -> None:
    async def is_settled() -> bool:
        description = await describe(stores, table)
        return description is not None and not _is_busy(description)

    await until(is_settled, wait_seconds, f"The table {table.name} is still changing")


async def _active(stores: Stores, table: Table) -> None:
    async def is_active() -> bool:
        description = await describe(stores, table)
        return description is not None and description.status == "ACTIVE"

    await until(is_active, WAIT_SECONDS_MAX, f"The table {table.name} is not active")


async def until(is_so: Callable[[], object], wait_seconds: float, what: str) -> None:
    """A service announces nothing: it is asked, more and more seldom."""
    loop = asyncio.get_running_loop()
    ends, pause = loop.time() + wait_seconds, POLL_SECONDS_MIN
    while not await is_so():  # type: ignore[misc]
        if loop.time() >= ends:
            raise RetryLater(
                f"{what} after {wait_seconds:g} s; it goes on by itself: ask for the status later."
            )
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, POLL_SECONDS_MAX)


async def _set_lifetime(stores: Stores, table: Table, name: str) -> None:
    if table.ttl is None:
        return

    async def is_set() -> bool:
        now = await stores.tables.run(requests.DescribeTimeToLive(name))
        is_on = now.status in ("ENABLED", "ENABLING")
        if is_on and now.attribute != table.ttl:
            raise DeclarationError(
                f"The table {name} ends lives by {now.attribute}, and is declared with ttl={table.ttl!r}: declare it as "
                "it is, or switch its time to live off."
            )
        return is_on

    await _brought_about(
        is_set, lambda: stores.tables.run(requests.UpdateTimeToLive(name, table.ttl or "", True))
    )


async def _set_recovery(stores: Stores, table: Table, name: str) -> None:
    if not table.recovery:
        return

    async def is_set() -> bool:
        return (await stores.tables.run(requests.DescribeContinuousBackups(name))).enabled

    await _brought_about(is_set, lambda: stores.tables.run(requests.UpdateContinuousBackups(name, True)))


async def _brought_about(
    is_so: Callable[[], Awaitable[bool]], change: Callable[[], Awaitable[object]]
) -> None:
    """A change that is refused may have been made by another process since we looked."""
    if await is_so():
        return
    try:
        await change()
    except HoldfastError:
        if not await is_so():
            raise


def _is_busy(description: TableDescription) -> bool:
    states = description.global_indexes.values()
    return description.status != "ACTIVE" or any(state.status != "ACTIVE" for state in states)


def _report(index: Index, description: TableDescription | None) -> IndexReport:
    if description is None:
        return IndexReport(index.table.name, index.name, "NO TABLE")
    state = description.global_indexes.get(index.name)
    if state is None:
        return IndexReport(index.table.name, index.name, "ABSENT")
    problem = "" if state.status == "DELETING" else _difference(index, description.definition)
    return IndexReport(
        index.table.name,
        index.name,
        "DIFFERS" if problem else state.status,
        _percent(state, description.item_count),
        state.item_count,
        problem,
    )


def _difference(index: Index, there: TableDefinition) -> str:
    """In what an index is not the one that is declared; empty where it is."""
    found = next((each for each in there.global_indexes if each.name == index.name), None)
    if found is None:
        return ""
    key, told = _key(there, found.keys, index.key_attributes), []
    if key != index.key_attributes:
        told.append(f"its key is {_told(key, types=True)}, not {_told(index.key_attributes, types=True)}")
    if _projected(found.projection) != _projected(index.projection):
        told.append(f"it holds {_shown(found.projection)}, not {_shown(index.projection)}")
    return "; ".join(told)


def _key(
    definition: TableDefinition, keys: KeySchema, declared: Iterable[KeyAttribute]
) -> tuple[KeyAttribute, ...]:
    """The key as it is there. Where a store does not tell a type, the declared one is believed."""
    types = {key.name: key.type for key in (*declared, *definition.attributes)}
    return tuple(KeyAttribute(name, types.get(name, "S")) for name in keys.names)


def _told(keys: Iterable[KeyAttribute], *, types: bool) -> str:
    return ", ".join(f"{key.name} ({key.type})" if types else key.name for key in keys)


def _projected(projection: IndexProjection) -> tuple[str, frozenset[str]]:
    return projection.kind, frozenset(projection.attributes)


def _shown(projection: IndexProjection) -> str:
    return f"{projection.kind} {', '.join(projection.attributes)}".strip()


def _percent(state: IndexState, items: int) -> float:
    if state.status == "ACTIVE" and not state.backfilling:
        return 100.0
    return min(99.0, 100.0 * state.item_count / items) if items else 0.0
