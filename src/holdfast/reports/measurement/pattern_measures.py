"""Run the patterns with their examples and measure items, billed units and time.

On scratch stores (`data_sources.py`) a pattern runs once to warm up and then several times; the best time
counts. Each write is undone after its run, so that every pattern meets the same data. On a service, a read
runs in the same way; a write runs only if allowed, once, and is not undone: that could undo a later write of
another client.

Queues, objects, SQL and the cache are always scratch stores (`fixtures.py`). They use no units; the report
gives their time and, for SQL, the rows. A SQL write runs in a transaction that is rolled back.

Examples are chosen for the sample data. An example that fails there is wrong; on other data, a write whose
condition fails only does not match the data. A write that continues from the result of another example
(completing a claim, renewing a lease) is measured after that write, or after two.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, permutations
from typing import Any, Final, TypeAlias

from holdfast.core.errors import ConditionFailed, HoldfastError, StoreUnreachable, TransactionCancelled
from holdfast.core.progress import Progress, ignore_progress
from holdfast.model.entities.reads import BaseQuery, PagedRead, Scan
from holdfast.model.entities.writes import ConditionalWrite, ConditionCheck, Delete, Put, Update, transact
from holdfast.model.operations import EngineOperation, Operation
from holdfast.model.patterns import Pattern
from holdfast.model.sql import SqlOperation, SqlTransact
from holdfast.model.tables import Index
from holdfast.operations import tables as requests
from holdfast.operations.expressions import nodes
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import Units
from holdfast.reports.examples import Example, build_example, format_error, iter_parts
from holdfast.reports.measurement.data_sources import DataSource
from holdfast.reports.measurement.fixtures import prepare_operation
from holdfast.reports.measurement.sql_rollback import Run, list_sql_tables, run_and_roll_back
from holdfast.runtime import Stores, Usage, add_indexes, describe_table

MAX_RUNS: Final = 5
# After this time a slow pattern is not run again.
MAX_RUN_S: Final = 0.5

WRITES_NOT_ALLOWED: Final = (
    "it writes, and this is not a scratch copy: --allow-writes runs it once and keeps what it wrote"
)
# DynamoDB's code in the cancellation reasons of a transaction.
CONDITION_FAILED_CODE: Final = "ConditionalCheckFailed"
INDEX_MISSING: Final = "it reads an optional index that does not exist: `holdfast indexes add` creates it"


# A table and the key of one of its items.
_ItemKey: TypeAlias = tuple[str, tuple[tuple[str, Any], ...]]


@dataclass(frozen=True)
class Target:
    """A table or one of its indexes, by declared name, that consumes units."""

    table: str
    index: str | None = None

    def __str__(self) -> str:
        return self.table if self.index is None else f"{self.table}.{self.index}"


@dataclass(frozen=True)
class Measure:
    """The measure of one call of a pattern.

    `reason` says why it was not measured; `has_failed` is True if it should have been.
    """

    pattern: Pattern[..., Any]
    usages: tuple[Usage, ...] = ()
    ms: float | None = None
    units_by_target: tuple[tuple[Target, Units], ...] = ()
    reason: str | None = None
    has_failed: bool = False
    # True if the write's own condition failed.
    is_refused: bool = False
    # The factor of the write units: 2 if the pattern runs as part of a transaction.
    write_weight: int = 1

    @property
    def is_measured(self) -> bool:
        """True if the pattern ran."""
        return self.ms is not None

    @property
    def items_read(self) -> int:
        """The number of items that the call read."""
        return sum(usage.items_read for usage in self.usages)

    @property
    def items_returned(self) -> int:
        """The number of items that the call returned."""
        return sum(usage.items_returned for usage in self.usages)

    @property
    def units(self) -> Units:
        """The units of the call, with the write units weighted."""
        alone = sum((usage.units for usage in self.usages), Units())
        return Units(alone.read, alone.write * self.write_weight)


async def measure_patterns(
    source: DataSource,
    patterns: Sequence[Pattern[..., Any]],
    *,
    allow_writes: bool = False,
    progress: Progress = ignore_progress,
) -> list[Measure]:
    """Run each pattern with its example and return the measures in the same order.

    A failing pattern does not stop the others, but an unreachable store does. Writes to a service run only
    with `allow_writes`. Patterns that read an optional index run last: on scratch stores the index is added
    for them after the writes of the other patterns were measured without it.
    """
    examples = [build_example(pattern) for pattern in patterns]
    missing = await _find_missing_indexes(source.stores, examples)
    found: dict[str, Measure] = {}
    written: dict[_ItemKey, str] = {}
    for done, example in enumerate(sorted(examples, key=lambda each: _reads_any_index(each, missing))):
        progress(example.pattern.name, done, len(examples))
        if source.is_scratch and _reads_any_index(example, missing):
            await add_indexes(source.stores, missing)
        reason = None if source.is_scratch else _find_reason_to_skip(example, missing, allow_writes)
        measured = (
            Measure(example.pattern, reason=reason)
            if reason
            else await _measure_pattern(source, example, written)
        )
        if source.is_scratch and (measured.is_refused or _has_failed_in_sql(example, measured)):
            measured = await _measure_after_others(source, example, examples) or measured
        if measured.is_measured and not source.is_scratch:
            written |= dict.fromkeys(_list_item_keys(example), example.pattern.id)
        found[example.pattern.id] = measured
    progress("", len(examples), len(examples))
    return [found[pattern.id] for pattern in patterns]


@dataclass(frozen=True)
class ScanComparison:
    """An index query and the equivalent scan with a filter, both measured in the same run."""

    query: Usage
    scan: Usage
    agrees: bool

    @property
    def items_ratio(self) -> float:
        """How many times more items the scan reads than the query."""
        return self.scan.items_read / max(1, self.query.items_read)

    @property
    def time_ratio(self) -> float:
        """How many times longer the scan takes than the query."""
        return self.scan.ms / self.query.ms

    @property
    def units_saved_share(self) -> float:
        """The share of the scan's units that the query saves."""
        return 1 - self.query.units.read / self.scan.units.read


async def compare_with_scan(stores: Stores, query: BaseQuery[Any, Any]) -> ScanComparison:
    """Run the query and the equivalent scan to their end, each after a warm-up.

    `agrees` is True if both found as many items.
    """
    by_index = await _run_repeatedly(stores, query)
    by_scan = await _run_repeatedly(stores, build_equivalent_scan(query))
    indexed, scanned = _sum_usages(by_index), _sum_usages(by_scan)
    return ScanComparison(indexed, scanned, indexed.items_returned == scanned.items_returned)


def build_equivalent_scan(query: BaseQuery[Any, Any]) -> Scan[Any]:
    """Return the scan of the table whose filter is the query's key condition and filter."""
    tests = [_to_condition(test) for test in query.key_condition]
    if query.filter is not None:
        tests.append(query.filter)
    condition = tests[0] if len(tests) == 1 else nodes.And(tuple(tests))
    return Scan(query.declaration, filter=condition, reason="to compare with the index")


# --- one pattern --------------------------------------------------------------------------------------------


def _find_reason_to_skip(example: Example, missing: Sequence[Index], allow_writes: bool) -> str | None:
    """Return why the pattern must not run on a service, or None if it may."""
    if example.writes and not allow_writes and not _is_outside_tables(example):
        return WRITES_NOT_ALLOWED
    optional = [index for index in missing if not index.default]
    return INDEX_MISSING if _reads_any_index(example, optional) else None


async def _measure_pattern(source: DataSource, example: Example, written: Mapping[_ItemKey, str]) -> Measure:
    """Run one pattern and return its measure.

    `written` maps each item that an earlier pattern wrote for good to the id of that pattern.
    """
    pattern, operation = example.pattern, example.operation
    if operation is None:
        return Measure(pattern, reason=example.error, has_failed=True)
    try:
        if example.writes and not source.is_scratch and not _is_outside_tables(example):
            run = await _run_once(source.stores, operation)
        else:
            run = await _run_repeatedly(source.stores, operation)
    except StoreUnreachable:
        raise  # every other pattern would fail in the same way, after its retries
    except Exception as error:  # reported with its pattern
        is_refused = _is_condition_failure(error)
        if not source.is_sample and is_refused:
            return Measure(
                pattern, reason=_format_condition_failure(error, example, written), is_refused=True
            )
        return Measure(pattern, reason=format_error(error), has_failed=True, is_refused=is_refused)
    return Measure(pattern, tuple(run.meter.usages), run.ms, _sum_by_target(source.stores, run.meter.usages))


async def _measure_after_others(
    source: DataSource, example: Example, others: Iterable[Example]
) -> Measure | None:
    """Measure the pattern after one or two other writes that make its condition hold; undo all of them.

    Return None if no such writes are found.
    """
    if isinstance(example.operation, SqlOperation | SqlTransact):
        return await _measure_after_statements(source, example, others)
    wanted = set(_list_item_keys(example))
    leading = [
        each for each in others if each is not example and each.writes and wanted & set(_list_item_keys(each))
    ]
    for way in chain(permutations(leading, 1), permutations(leading, 2)):
        operations = [each.operation for each in way if each.operation is not None]
        undoing = [
            request for each in operations for request in await _build_undo_requests(source.stores, each)
        ]
        try:
            for each in operations:
                await _run_once(source.stores, each)
            measured = await _measure_pattern(source, example, {})
        except HoldfastError:
            continue
        finally:
            for request in undoing:
                await source.stores.tables.run(request)
        if measured.is_measured:
            return measured
    return None


async def _measure_after_statements(
    source: DataSource, example: Example, others: Iterable[Example]
) -> Measure | None:
    """Measure a SQL pattern after one other write, or two to the same tables, and roll all of it back.

    Return None if it fails after each of them.
    """
    operation = example.operation
    assert isinstance(operation, SqlOperation | SqlTransact)
    wanted = set(list_sql_tables(operation))
    writes = [each.operation for each in others if each is not example and each.writes]
    leading = [each for each in writes if isinstance(each, SqlOperation | SqlTransact)]
    alike = [each for each in leading if wanted & set(list_sql_tables(each))]
    for way in chain(permutations(leading, 1), permutations(alike, 2)):
        try:
            run = await run_and_roll_back(source.stores, operation, after=way)
        except HoldfastError:
            continue
        return Measure(example.pattern, tuple(run.meter.usages), run.ms)
    return None


def _has_failed_in_sql(example: Example, measured: Measure) -> bool:
    """Return True if a SQL pattern failed: a row that it refers to may be missing."""
    return measured.has_failed and isinstance(example.operation, SqlOperation | SqlTransact)


def _is_outside_tables(example: Example) -> bool:
    """Return True if the operation is on a store that is always a scratch store."""
    return isinstance(example.operation, EngineOperation)


def _is_condition_failure(error: Exception) -> bool:
    """Return True if the write's condition failed, as opposed to an error of the store."""
    if isinstance(error, TransactionCancelled):
        return any(reason.code == CONDITION_FAILED_CODE for reason in error.reasons)
    return isinstance(error, ConditionFailed)


def _format_condition_failure(error: Exception, example: Example, written: Mapping[_ItemKey, str]) -> str:
    """Describe the failed condition and the patterns that wrote the same item before."""
    reason = f"its example does not fit the data ({format_error(error)})"
    before = dict.fromkeys(written[place] for place in _list_item_keys(example) if place in written)
    if before:
        reason += f"; {', '.join(before)} wrote the same item before it"
    return f"{reason}: --sample measures it on the sample data"


async def _run_repeatedly(stores: Stores, operation: Operation[Any]) -> Run:
    """Warm up, then run several times. Return the usage of the first run with the time of the fastest."""
    await _run_and_undo(stores, operation)
    began = time.perf_counter()
    runs = [await _run_and_undo(stores, operation)]
    while len(runs) < MAX_RUNS and time.perf_counter() - began < MAX_RUN_S:
        runs.append(await _run_and_undo(stores, operation))
    return Run(runs[0].meter, min(run.ms for run in runs))


async def _run_and_undo(stores: Stores, operation: Operation[Any]) -> Run:
    """Run the operation once and undo its writes; messages and objects that it needs are prepared first."""
    before = await _build_undo_requests(stores, operation) if operation.writes else []
    async with prepare_operation(stores, operation) as ready:
        run = await _run_once(stores, ready)
    for request in before:
        await stores.tables.run(request)
    return run


async def _run_once(stores: Stores, operation: Operation[Any]) -> Run:
    """Run the operation once, to its last page, and return its usage and time. Writes to SQL are rolled
    back.
    """
    if isinstance(operation, SqlOperation | SqlTransact):
        return await run_and_roll_back(stores, operation)
    if isinstance(operation, ConditionCheck):
        operation = transact(operation)  # a condition check runs only in a transaction
    with stores.meter_usage() as meter:
        began = time.perf_counter()
        if isinstance(operation, PagedRead) and operation.limit is None:
            await stores.all(operation)
        else:
            await stores.run(operation)
        return Run(meter, (time.perf_counter() - began) * 1000)


async def _build_undo_requests(stores: Stores, operation: Operation[Any]) -> list[requests.Operation[Any]]:
    """Return the requests that restore the current state of every item that the operation writes."""
    undoing: list[requests.Operation[Any]] = []
    for part in iter_parts(operation):
        if not isinstance(part, ConditionalWrite) or isinstance(part, ConditionCheck):
            continue
        table, key = stores.physical_name(part.table), _get_item_key(part)
        item = (await stores.tables.run(requests.GetItem(table, key, consistent=True))).item
        undoing.append(requests.DeleteItem(table, key) if item is None else requests.PutItem(table, item))
    return undoing


def _list_item_keys(example: Example) -> list[_ItemKey]:
    """Return the keys of the items that an example writes or checks."""
    return [
        (part.table.name, tuple(_get_item_key(part).items()))
        for part in example.parts
        if isinstance(part, ConditionalWrite)
    ]


def _get_item_key(write: ConditionalWrite[Any, Any]) -> dict[str, Any]:
    """Return the key of the item that a put, update, delete or condition check is about."""
    if isinstance(write, Update | Delete | ConditionCheck):
        return dict(write.key)
    assert isinstance(write, Put)
    return write.declaration.extract_key(write.build_item())


# --- what they used -----------------------------------------------------------------------------------------


def _sum_by_target(stores: Stores, usages: Iterable[Usage]) -> tuple[tuple[Target, Units], ...]:
    """Sum the units by table and index, under their declared names; targets without units are left out."""
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


def _sum_usages(run: Run) -> Usage:
    """Sum the usages of a run."""
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


async def _find_missing_indexes(stores: Stores, examples: Iterable[Example]) -> list[Index]:
    """Return the global indexes that the patterns read and the store does not have."""
    used = dict.fromkeys(part.index for example in examples for part in example.parts)
    missing = []
    for index in used:
        if index is not None and index.scope == "global":
            description = await describe_table(stores, index.table)
            if description is not None and index.name not in description.global_indexes:
                missing.append(index)
    return missing


def _reads_any_index(example: Example, indexes: Sequence[Index]) -> bool:
    return any(part.index in indexes for part in example.parts if part.index is not None)


def _to_condition(test: KeyTest) -> nodes.Condition:
    """Convert a test of a key condition to the same condition for a filter."""
    path, values = nodes.Path(test.attribute), [nodes.Literal(value) for value in test.values]
    if test.operator == "between":
        return nodes.Between(path, values[0], values[1])
    if test.operator == "begins_with":
        return nodes.BeginsWith(path, values[0])
    return nodes.Compare(test.operator, path, values[0])
