"""Patterns really run, with their examples: items read and returned, units as DynamoDB bills them, time.

On a scratch ground (`scratch.py`) a pattern runs once to warm up and then several times; the time is the best of
these. A write is undone after each run, so that every pattern meets the data as it was. On a service a read runs
likewise; a write only when it is allowed, once, and stays: undoing it could undo what somebody else wrote since.

Queues, objects, SQL and the cache are always scratch ones (`staging.py`): they use no units, and are measured for their
time, statements also for their rows. A statement that writes runs in a transaction that is undone.

Examples are chosen for the sample. One that fails there is wrong; elsewhere, a write whose condition does not hold
only does not fit the data. A write that goes on from where another's example leaves an item (the completion of a
claim, the renewal of a lease) is measured after that one, or after two (what was held, and taken, is done).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, permutations
from typing import Any, Final, TypeAlias

from holdfast.errors import ConditionFailed, HoldfastError, StoreUnreachable, TransactionCancelled
from holdfast.model.operations import EngineOperation, Operation
from holdfast.model.patterns import Pattern
from holdfast.model.reads import AnyQuery, Paged, Scan
from holdfast.model.sql import SqlOperation, SqlTransact
from holdfast.model.tables import Index
from holdfast.model.writes import Check, ConditionalWrite, Delete, Put, Update, transact
from holdfast.operations import tables as requests
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import Units
from holdfast.reports.examples import Example, example_of, parts, told
from holdfast.reports.scratch import Ground, Progress, silent
from holdfast.reports.staging import staged
from holdfast.reports.undone import Run, run_undone, sql_tables
from holdfast.runtime import Stores, Usage, add_indexes, describe

RUNS_MAX: Final = 5
# A pattern that takes long is not run again for a finer figure.
RUNS_SECONDS_MAX: Final = 0.5

WRITES_NOT_ALLOWED: Final = "it writes, and this is no scratch copy: --allow-writes runs it once, for good"
# What the service calls it in the reasons of a transaction.
CONDITION_NOT_MET: Final = "ConditionalCheckFailed"
INDEX_NOT_THERE: Final = "it reads an optional index that is not there: `holdfast indexes add` makes it"


# A table and the key of one of its items.
_Place: TypeAlias = tuple[str, tuple[tuple[str, Any], ...]]


@dataclass(frozen=True)
class Target:
    """A table, or one of its indexes, by its declared name: what units are consumed of."""

    table: str
    index: str | None = None

    def __str__(self) -> str:
        return self.table if self.index is None else f"{self.table}.{self.index}"


@dataclass(frozen=True)
class Measure:
    """What one call of a pattern used. `reason` says why it was not measured; `failed`, that it should have been."""

    pattern: Pattern[..., Any]
    usages: tuple[Usage, ...] = ()
    ms: float | None = None
    units_by_target: tuple[tuple[Target, Units], ...] = ()
    reason: str | None = None
    failed: bool = False
    # By its own condition: the item that it goes on from is not as it expects.
    is_refused: bool = False
    # How often each of its write units is billed: twice where it runs as a part of a transaction.
    write_weight: int = 1

    @property
    def is_measured(self) -> bool:
        return self.ms is not None

    @property
    def items_read(self) -> int:
        return sum(usage.items_read for usage in self.usages)

    @property
    def items_returned(self) -> int:
        return sum(usage.items_returned for usage in self.usages)

    @property
    def units(self) -> Units:
        alone = sum((usage.units for usage in self.usages), Units())
        return Units(alone.read, alone.write * self.write_weight)


async def measure(
    ground: Ground,
    patterns: Sequence[Pattern[..., Any]],
    *,
    allow_writes: bool = False,
    progress: Progress = silent,
) -> list[Measure]:
    """Runs each pattern with its example. One that fails is told so, and the others go on.

    What reads an index that is not created by default comes last: on a scratch ground the index is added for it,
    when the writes of the others have been measured without it.
    """
    examples = [example_of(pattern) for pattern in patterns]
    missing = await _missing_indexes(ground.stores, examples)
    found: dict[str, Measure] = {}
    written: dict[_Place, str] = {}
    for done, example in enumerate(sorted(examples, key=lambda each: _reads_one_of(each, missing))):
        progress(example.pattern.name, done, len(examples))
        if ground.is_scratch and _reads_one_of(example, missing):
            await add_indexes(ground.stores, missing)
        reason = None if ground.is_scratch else _reason_not_to_run(example, missing, allow_writes)
        measured = (
            Measure(example.pattern, reason=reason) if reason else await _measured(ground, example, written)
        )
        if ground.is_scratch and (measured.is_refused or _is_refused_by_sql(example, measured)):
            measured = await _measured_after_others(ground, example, examples) or measured
        if measured.is_measured and not ground.is_scratch:
            written |= dict.fromkeys(_places(example), example.pattern.id)
        found[example.pattern.id] = measured
    progress("", len(examples), len(examples))
    return [found[pattern.id] for pattern in patterns]


@dataclass(frozen=True)
class Comparison:
    """An index query beside the scan with a filter that answers the same, in the same run."""

    query: Usage
    scan: Usage
    agrees: bool

    @property
    def fewer_items(self) -> float:
        return self.scan.items_read / max(1, self.query.items_read)

    @property
    def less_time(self) -> float:
        return self.scan.ms / self.query.ms

    @property
    def units_saved(self) -> float:
        """The share of the scan's units that the query does not need."""
        return 1 - self.query.units.read / self.scan.units.read


async def compare_with_scan(stores: Stores, query: AnyQuery[Any, Any]) -> Comparison:
    """Runs both to their end, each after a warm-up. `agrees` says that both found as many items."""
    by_index = await _best_of_several(stores, query)
    by_scan = await _best_of_several(stores, equivalent_scan(query))
    indexed, scanned = _summed(by_index), _summed(by_scan)
    return Comparison(indexed, scanned, indexed.items_returned == scanned.items_returned)


def equivalent_scan(query: AnyQuery[Any, Any]) -> Scan[Any]:
    """The scan of the table whose filter says what the query's key condition says."""
    tests = [_as_condition(test) for test in query.key_condition]
    if query.filter is not None:
        tests.append(query.filter)
    condition = tests[0] if len(tests) == 1 else nodes.And(tuple(tests))
    return Scan(query.declaration, filter=condition, reason="to compare with the index")


# --- one pattern --------------------------------------------------------------------------------------------


def _reason_not_to_run(example: Example, missing: Sequence[Index], allow_writes: bool) -> str | None:
    """Why a pattern is left alone on a service."""
    if example.writes and not allow_writes and not _is_beside_tables(example):
        return WRITES_NOT_ALLOWED
    optional = [index for index in missing if not index.default]
    return INDEX_NOT_THERE if _reads_one_of(example, optional) else None


async def _measured(ground: Ground, example: Example, written: Mapping[_Place, str]) -> Measure:
    """`written` tells which pattern has written an item before, where writes stay."""
    pattern, operation = example.pattern, example.operation
    if operation is None:
        return Measure(pattern, reason=example.error, failed=True)
    try:
        if example.writes and not ground.is_scratch and not _is_beside_tables(example):
            run = await _run_once(ground.stores, operation)
        else:
            run = await _best_of_several(ground.stores, operation)
    except StoreUnreachable:
        raise  # the others would fail in the same way, each after its retries
    except Exception as error:  # reported with its pattern
        is_refused = _is_misfit(error)
        if not ground.is_sample and is_refused:
            return Measure(pattern, reason=_told_misfit(error, example, written), is_refused=True)
        return Measure(pattern, reason=told(error), failed=True, is_refused=is_refused)
    return Measure(pattern, tuple(run.meter.usages), run.ms, _by_target(ground.stores, run.meter.usages))


async def _measured_after_others(
    ground: Ground, example: Example, others: Iterable[Example]
) -> Measure | None:
    """After the first write of the same item that lets it through, or two of them; all is undone again."""
    if isinstance(example.operation, SqlOperation | SqlTransact):
        return await _measured_after_statements(ground, example, others)
    wanted = set(_places(example))
    leading = [each for each in others if each is not example and each.writes and wanted & set(_places(each))]
    for way in chain(permutations(leading, 1), permutations(leading, 2)):
        operations = [each.operation for each in way if each.operation is not None]
        undoing = [request for each in operations for request in await _remembered(ground.stores, each)]
        try:
            for each in operations:
                await _run_once(ground.stores, each)
            measured = await _measured(ground, example, {})
        except HoldfastError:
            continue
        finally:
            for request in undoing:
                await ground.stores.tables.run(request)
        if measured.is_measured:
            return measured
    return None


async def _measured_after_statements(
    ground: Ground, example: Example, others: Iterable[Example]
) -> Measure | None:
    """After another write, or two of the same tables, in one transaction with them."""
    operation = example.operation
    assert isinstance(operation, SqlOperation | SqlTransact)
    wanted = set(sql_tables(operation))
    writes = [each.operation for each in others if each is not example and each.writes]
    leading = [each for each in writes if isinstance(each, SqlOperation | SqlTransact)]
    alike = [each for each in leading if wanted & set(sql_tables(each))]
    for way in chain(permutations(leading, 1), permutations(alike, 2)):
        try:
            run = await run_undone(ground.stores, operation, after=way)
        except HoldfastError:
            continue
        return Measure(example.pattern, tuple(run.meter.usages), run.ms)
    return None


def _is_refused_by_sql(example: Example, measured: Measure) -> bool:
    """A row that another one refers to may be missing."""
    return measured.failed and isinstance(example.operation, SqlOperation | SqlTransact)


def _is_beside_tables(example: Example) -> bool:
    """Whether it runs on a store that is a scratch one on any ground."""
    return isinstance(example.operation, EngineOperation)


def _is_misfit(error: Exception) -> bool:
    """Whether it is the data that refused a write, and not the store."""
    if isinstance(error, TransactionCancelled):
        return any(reason.code == CONDITION_NOT_MET for reason in error.reasons)
    return isinstance(error, ConditionFailed)


def _told_misfit(error: Exception, example: Example, written: Mapping[_Place, str]) -> str:
    reason = f"its example does not fit the data ({told(error)})"
    before = dict.fromkeys(written[place] for place in _places(example) if place in written)
    if before:
        reason += f"; {', '.join(before)} wrote the same item before it"
    return f"{reason}: --sample measures it on the sample data"


async def _best_of_several(stores: Stores, operation: Operation[Any]) -> Run:
    """What the first run after a warm-up used, with the time of the quickest."""
    await _run_undone(stores, operation)
    began = time.perf_counter()
    runs = [await _run_undone(stores, operation)]
    while len(runs) < RUNS_MAX and time.perf_counter() - began < RUNS_SECONDS_MAX:
        runs.append(await _run_undone(stores, operation))
    return Run(runs[0].meter, min(run.ms for run in runs))


async def _run_undone(stores: Stores, operation: Operation[Any]) -> Run:
    before = await _remembered(stores, operation) if operation.writes else []
    async with staged(stores, operation) as ready:
        run = await _run_once(stores, ready)
    for request in before:
        await stores.tables.run(request)
    return run


async def _run_once(stores: Stores, operation: Operation[Any]) -> Run:
    if isinstance(operation, SqlOperation | SqlTransact):
        return await run_undone(stores, operation)
    if isinstance(operation, Check):
        operation = transact(operation)  # by itself it has no meaning
    with stores.metered() as meter:
        began = time.perf_counter()
        if isinstance(operation, Paged) and operation.limit is None:
            await stores.all(operation)
        else:
            await stores.run(operation)
        return Run(meter, (time.perf_counter() - began) * 1000)


async def _remembered(stores: Stores, operation: Operation[Any]) -> list[requests.Operation[Any]]:
    """The requests that put every item the operation writes back as it is now."""
    undoing: list[requests.Operation[Any]] = []
    for part in parts(operation):
        if not isinstance(part, ConditionalWrite) or isinstance(part, Check):
            continue
        table, key = stores.physical_name(part.table), _key(part)
        item = (await stores.tables.run(requests.GetItem(table, key, consistent=True))).item
        undoing.append(requests.DeleteItem(table, key) if item is None else requests.PutItem(table, item))
    return undoing


def _places(example: Example) -> list[_Place]:
    """The items that an example writes or checks."""
    return [
        (part.table.name, tuple(_key(part).items()))
        for part in example.parts
        if isinstance(part, ConditionalWrite)
    ]


def _key(write: ConditionalWrite[Any, Any]) -> dict[str, Any]:
    if isinstance(write, Update | Delete | Check):
        return dict(write.address)
    assert isinstance(write, Put)
    return write.declaration.key_of(write.item())


# --- what they used -----------------------------------------------------------------------------------------


def _by_target(stores: Stores, usages: Iterable[Usage]) -> tuple[tuple[Target, Units], ...]:
    """Units of each table and index, under the names they are declared by."""
    tables = stores.system.tables if stores.system else ()
    declared = {stores.physical_name(table): table.name for table in tables}
    total: dict[Target, Units] = {}
    for capacity in (each for usage in usages for each in usage.capacity):
        name = declared.get(capacity.table, capacity.table)
        used = {Target(name): capacity.own}
        for index, units in (*capacity.local_indexes.items(), *capacity.global_indexes.items()):
            used[Target(name, index)] = units
        for target, units in used.items():
            total[target] = total.get(target, Units()) + units
    return tuple((target, units) for target, units in total.items() if units.total)


def _summed(run: Run) -> Usage:
    first, meter = run.meter.usages[0], run.meter
    capacity = tuple(each for usage in meter.usages for each in usage.capacity)
    return Usage(
        first.pattern,
        first.component,
        first.operation,
        first.table,
        first.index,
        meter.items_read,
        meter.items_returned,
        run.ms,
        capacity,
    )


# --- indexes and keys ---------------------------------------------------------------------------------------


async def _missing_indexes(stores: Stores, examples: Iterable[Example]) -> list[Index]:
    """The indexes that the patterns read and the store does not have."""
    used = dict.fromkeys(part.index for example in examples for part in example.parts)
    missing = []
    for index in used:
        if index is not None and index.scope == "global":
            description = await describe(stores, index.table)
            if description is not None and index.name not in description.global_indexes:
                missing.append(index)
    return missing


def _reads_one_of(example: Example, indexes: Sequence[Index]) -> bool:
    return any(part.index in indexes for part in example.parts if part.index is not None)


def _as_condition(test: KeyTest) -> nodes.Condition:
    path, values = nodes.Path(test.attribute), [nodes.Literal(value) for value in test.values]
    if test.operator == "between":
        return nodes.Between(path, values[0], values[1])
    if test.operator == "begins_with":
        return nodes.BeginsWith(path, values[0])
    return nodes.Compare(test.operator, path, values[0])
