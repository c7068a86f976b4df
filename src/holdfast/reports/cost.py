"""What a system costs in a month: units per call as measured, times how often, times the price of a unit.

Writes include what each index adds, as the engine bills it; storage is what the items of the tables and of each
index (as far as it projects them) have in bytes. For each index: what it costs, what its readers would pay for
scans instead, and from how many reads on it pays. Queues and buckets are in `request_cost.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.model.operations import EngineOperation
from holdfast.model.patterns import Pattern
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.operations.tables import IndexState, TableDescription, Units
from holdfast.reports.examples import example_of
from holdfast.reports.index_value import rule_of_thumb, scan_units, true_break_even
from holdfast.reports.measuring import Measure, Target, measure
from holdfast.reports.pattern_list import calls_per_month
from holdfast.reports.prices import PriceList
from holdfast.reports.request_cost import (
    BY_THE_HOUR,
    BucketCost,
    QueueCost,
    billed_requests,
    bucket_costs,
    call_price,
    queue_costs,
)
from holdfast.reports.scratch import Ground, Progress, sample_ground, silent
from holdfast.reports.stated_costs import Comparison, compared
from holdfast.reports.transactions import as_billed
from holdfast.runtime import describe

__all__ = [
    "BucketCost",
    "IndexCost",
    "PatternCost",
    "QueueCost",
    "SystemCost",
    "TableCost",
    "estimate",
    "rule_of_thumb",
    "true_break_even",
]


@dataclass(frozen=True)
class PatternCost:
    """One pattern in a month. `index_write_units` is the part of a call's writes that goes to indexes.

    `requests` is what a call on a queue or an object is billed as, which uses no units.
    """

    pattern: Pattern[..., Any]
    calls: float | None
    read_units: float
    write_units: float
    index_write_units: float
    cost: float | None
    reason: str | None = None
    requests: float = 0.0


@dataclass(frozen=True)
class TableCost:
    """One table in a month, its indexes included."""

    table: str
    items: int
    size_bytes: int
    index_bytes: int
    read_units: float
    write_units: float
    reads: float
    writes: float
    storage: float
    recovery: float
    stream: float

    @property
    def total(self) -> float:
        return self.reads + self.writes + self.storage + self.recovery + self.stream


@dataclass(frozen=True)
class IndexCost:
    """One index in a month: what it adds, what it spares, and from how many reads on it pays.

    `break_even` counts the writes as they really come; `thumb` is the rule of thumb for the same writes. Both are
    None where no read is declared, or no write.
    """

    table: str
    index: str
    projection: str
    size_bytes: int
    storage: float
    write_units: float
    writes: float
    calls: float
    query_units: float
    scan_units: float
    spares: float
    break_even: float | None
    thumb: float | None

    @property
    def gain(self) -> float:
        """What is left of the saving when the index itself is paid."""
        return self.spares - self.writes - self.storage


@dataclass(frozen=True)
class SystemCost:
    """A system in a month."""

    system: str
    prices: PriceList
    measured_on: str
    patterns: tuple[PatternCost, ...]
    tables: tuple[TableCost, ...]
    indexes: tuple[IndexCost, ...]
    queues: tuple[QueueCost, ...] = ()
    buckets: tuple[BucketCost, ...] = ()
    # What its design said it would cost, beside what that comes to.
    stated: Comparison | None = None

    @property
    def total(self) -> float:
        """Of what could be counted: where `uncounted` names patterns, the least that it can be."""
        requests = sum(queue.total or 0.0 for queue in self.queues)
        objects = sum(bucket.total or 0.0 for bucket in self.buckets)
        return sum(table.total for table in self.tables) + requests + objects

    @property
    def uncounted(self) -> tuple[PatternCost, ...]:
        """The patterns that the total leaves out, each with its reason."""
        return tuple(each for each in self.patterns if each.cost is None)


async def estimate(
    system: System,
    ground: Ground,
    prices: PriceList,
    *,
    progress: Progress = silent,
) -> SystemCost:
    """Measures every pattern on the ground, and computes. What the ground is not asked for runs on the sample."""
    # Before measuring, which may add optional indexes: they are not part of what is paid.
    descriptions = {table.name: await describe(ground.stores, table) for table in system.tables}
    buckets = await bucket_costs(system, ground, prices)
    measures = await measure(ground, system.patterns, progress=progress)
    told = ground.told
    if not ground.is_sample and any(_may_be_completed(each) for each in measures):
        measures = await _completed_on_the_sample(system, measures, progress)
        told = f"{ground.told}, and on sample data what could not be measured there"
    measures = as_billed(system, measures)
    used = _units_per_month(system, measures)
    return SystemCost(
        system.name,
        prices,
        told,
        tuple(_pattern_cost(system, each, prices) for each in measures),
        tuple(_table_cost(table, descriptions[table.name], used, prices) for table in system.tables),
        tuple(_index_costs(system, descriptions, measures, used, prices)),
        queue_costs(system, prices),
        buckets,
        None if system.stated_costs is None else compared(system.stated_costs, prices),
    )


async def _completed_on_the_sample(
    system: System, measures: list[Measure], progress: Progress
) -> list[Measure]:
    left = [each.pattern for each in measures if _may_be_completed(each)]
    async with sample_ground(system, progress=progress) as ground:
        found = {each.pattern.id: each for each in await measure(ground, left, progress=progress)}
    return [found.get(each.pattern.id, each) for each in measures]


def _may_be_completed(each: Measure) -> bool:
    return not each.is_measured and not each.failed


def _units_per_month(system: System, measures: Iterable[Measure]) -> dict[Target, Units]:
    total: dict[Target, Units] = {}
    for each in measures:
        calls = calls_per_month(system, each.pattern) or 0.0
        for target, units in each.units_by_target:
            total[target] = total.get(target, Units()) + Units(units.read * calls, units.write * calls)
    return total


def _pattern_cost(system: System, each: Measure, prices: PriceList) -> PatternCost:
    calls = calls_per_month(system, each.pattern)
    operation = example_of(each.pattern).operation
    if isinstance(operation, EngineOperation):
        return _request_cost(each, operation, calls, prices)
    units, reason = each.units, each.reason
    if calls is None:
        reason = reason or f"the system has no volume of {each.pattern.rate.per}"
    of_indexes = sum(units.write for target, units in each.units_by_target if target.index is not None)
    per_call = prices.reads(units.read) + prices.writes(units.write)
    is_known = calls is not None and each.is_measured
    cost = per_call * calls if is_known and calls is not None else None
    return PatternCost(each.pattern, calls, units.read, units.write, of_indexes, cost, reason)


def _request_cost(
    each: Measure, operation: EngineOperation[Any], calls: float | None, prices: PriceList
) -> PatternCost:
    """Of a pattern on a queue or an object: what is billed follows from the operation, whether it ran or not."""
    price, reason = call_price(operation, prices), BY_THE_HOUR.get(operation.store)
    if reason is not None:
        return PatternCost(each.pattern, calls, 0.0, 0.0, 0.0, None, reason)
    if price is None:
        reason = f"the price list {prices.name} has no prices of {operation.store}"
    elif calls is None:
        reason = f"the system has no volume of {each.pattern.rate.per}"
    cost = None if price is None or calls is None else price * calls
    requests = billed_requests(operation, prices)
    return PatternCost(each.pattern, calls, 0.0, 0.0, 0.0, cost, reason, requests)


def _table_cost(
    table: Table, found: TableDescription | None, used: Mapping[Target, Units], prices: PriceList
) -> TableCost:
    units = sum((units for target, units in used.items() if target.table == table.name), Units())
    items, size = (found.item_count, found.size_bytes) if found else (0, 0)
    local = list(found.local_indexes.values()) if found else []
    indexes = [*(found.global_indexes.values() if found else ()), *local]
    stored = prices.storage(items, size) + sum(_index_storage(state, prices) for state in indexes)
    backed_up = size + sum(state.size_bytes for state in local)
    return TableCost(
        table.name,
        items,
        size,
        sum(state.size_bytes for state in indexes),
        units.read,
        units.write,
        prices.reads(units.read),
        prices.writes(units.write),
        stored,
        prices.recovery(items, backed_up) if table.recovery else 0.0,
        prices.stream() if table.stream else 0.0,
    )


def _index_storage(state: IndexState, prices: PriceList) -> float:
    return prices.storage(state.item_count, state.size_bytes)


def _index_costs(
    system: System,
    descriptions: Mapping[str, TableDescription | None],
    measures: Iterable[Measure],
    used: Mapping[Target, Units],
    prices: PriceList,
) -> Iterable[IndexCost]:
    measures = list(measures)
    for index in system.indexes:
        found = descriptions[index.table.name]
        if found is not None and (state := _state(found, index)) is not None:
            yield _index_cost(system, index, state, found.size_bytes, measures, used, prices)


def _state(found: TableDescription, index: Index) -> IndexState | None:
    return found.global_indexes.get(index.name) or found.local_indexes.get(index.name)


def _index_cost(
    system: System,
    index: Index,
    state: IndexState,
    table_bytes: int,
    measures: list[Measure],
    used: Mapping[Target, Units],
    prices: PriceList,
) -> IndexCost:
    target = Target(index.table.name, index.name)
    units = used.get(target, Units())
    calls = _calls(system, measures, target, reading=True)
    query_units = units.read / calls if calls else 0.0
    whole = scan_units(table_bytes)
    even = true_break_even(units.write, 1, prices.write_unit, whole, query_units, prices.read_unit)
    writes = _calls(system, measures, Target(index.table.name), reading=False)
    is_known = bool(calls and writes and math.isfinite(even))
    return IndexCost(
        target.table,
        index.name,
        index.projection.kind,
        state.size_bytes,
        _index_storage(state, prices),
        units.write,
        prices.writes(units.write),
        calls,
        query_units,
        whole,
        prices.reads(calls * whole - units.read),
        even if is_known else None,
        rule_of_thumb(writes, 1) if is_known else None,
    )


def _calls(system: System, measures: Iterable[Measure], target: Target, *, reading: bool) -> float:
    """How often in a month something reads a target, or writes it."""
    return sum(
        calls_per_month(system, each.pattern) or 0.0
        for each in measures
        for used, units in each.units_by_target
        if used == target and (units.read if reading else units.write)
    )
