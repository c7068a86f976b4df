"""The monthly cost of a system: measured units per call × calls per month × the price of a unit.

Writes include the units of each index, as the engine bills them. Storage is the size of the items in the
tables and, as far as they are projected, in each index. For each index the report gives its cost, what its
readers would pay for scans instead, and the number of reads from which it pays. `request_cost.py` covers
queues and buckets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.core.progress import Progress, ignore_progress
from holdfast.model.operations import EngineOperation
from holdfast.model.patterns import Pattern
from holdfast.model.system import System
from holdfast.model.tables import Index, Table
from holdfast.operations.tables import IndexState, TableDescription, Units
from holdfast.reports.cost.index_value import compute_break_even, compute_scan_units, estimate_break_even
from holdfast.reports.cost.measured_system import MeasuredSystem, measure_system
from holdfast.reports.cost.price_lists import PriceList
from holdfast.reports.cost.request_cost import (
    BILLED_BY_INSTANCE,
    BucketCost,
    QueueCost,
    compute_bucket_costs,
    compute_call_price,
    compute_queue_costs,
    count_billed_requests,
)
from holdfast.reports.cost.stated_costs import StatedCostComparison, compare_stated_costs
from holdfast.reports.cost.transaction_weights import apply_transaction_weights
from holdfast.reports.examples import build_example
from holdfast.reports.measurement.data_sources import DataSource
from holdfast.reports.measurement.pattern_measures import Measure, Target
from holdfast.reports.pattern_list import compute_calls_per_month

__all__ = [
    "BucketCost",
    "IndexCost",
    "PatternCost",
    "QueueCost",
    "SystemCost",
    "TableCost",
    "compute_break_even",
    "compute_cost",
    "compute_pattern_cost",
    "estimate_break_even",
    "estimate_cost",
]


@dataclass(frozen=True)
class PatternCost:
    """The monthly cost of one pattern. `cost` is None if it cannot be computed; `reason` says why.

    `calls` are per month, None without a declared volume; units are per call. `index_write_units` is the part
    of a call's write units that goes to indexes. `requests` is the number of billed requests of one call on a
    queue or an object, which uses no units.
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
    """The monthly cost of one table, including its indexes."""

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
        """The sum of all parts."""
        return self.reads + self.writes + self.storage + self.recovery + self.stream


@dataclass(frozen=True)
class IndexCost:
    """The monthly cost of one index, what it saves, and the number of reads from which it pays.

    `calls` are the reads per month, `spares` what scans would cost more than these reads. `break_even` is
    computed from the actual units and prices; `thumb` is the rule of thumb for the same writes. Both are None
    if no read or no write is declared, or if a query reads as much as a scan.
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
        """The saving minus the cost of the index."""
        return self.spares - self.writes - self.storage


@dataclass(frozen=True)
class SystemCost:
    """The monthly cost of a system."""

    system: str
    prices: PriceList
    measured_on: str
    patterns: tuple[PatternCost, ...]
    tables: tuple[TableCost, ...]
    indexes: tuple[IndexCost, ...]
    queues: tuple[QueueCost, ...] = ()
    buckets: tuple[BucketCost, ...] = ()
    # The cost that the design document states, compared with the computed cost.
    stated: StatedCostComparison | None = None

    @property
    def total(self) -> float:
        """The sum of everything that was counted. If `uncounted` is not empty, this is a lower bound."""
        requests = sum(queue.total or 0.0 for queue in self.queues)
        objects = sum(bucket.total or 0.0 for bucket in self.buckets)
        return sum(table.total for table in self.tables) + requests + objects

    @property
    def uncounted(self) -> tuple[PatternCost, ...]:
        """The patterns that the total does not include, each with its reason."""
        return tuple(each for each in self.patterns if each.cost is None)


async def estimate_cost(
    system: System,
    source: DataSource,
    prices: PriceList,
    *,
    progress: Progress = ignore_progress,
) -> SystemCost:
    """Measure every pattern on the data source and return the monthly cost at these prices."""
    return compute_cost(await measure_system(system, source, progress=progress), prices)


def compute_cost(measured: MeasuredSystem, prices: PriceList) -> SystemCost:
    """Return the monthly cost of a measured system at these prices, for its declared load."""
    system, descriptions = measured.system, measured.descriptions
    measures = apply_transaction_weights(system, measured.measures)
    used = _sum_units_per_month(system, measures)
    return SystemCost(
        system.name,
        prices,
        measured.measured_on,
        tuple(compute_pattern_cost(system, each, prices) for each in measures),
        tuple(
            _compute_table_cost(table, descriptions.get(table.name), used, prices) for table in system.tables
        ),
        tuple(_iter_index_costs(system, descriptions, measures, used, prices)),
        compute_queue_costs(system, prices),
        compute_bucket_costs(system, measured.objects, prices),
        None
        if system.design.stated_costs is None
        else compare_stated_costs(system.design.stated_costs, prices),
    )


def _sum_units_per_month(system: System, measures: Iterable[Measure]) -> dict[Target, Units]:
    """Return the units that all patterns use in a month, by table or index."""
    total: dict[Target, Units] = {}
    for each in measures:
        calls = compute_calls_per_month(system, each.pattern) or 0.0
        for target, units in each.units_by_target:
            total[target] = total.get(target, Units()) + Units(units.read * calls, units.write * calls)
    return total


def compute_pattern_cost(system: System, measure: Measure, prices: PriceList) -> PatternCost:
    """Return the monthly cost of one pattern."""
    calls = compute_calls_per_month(system, measure.pattern)
    operation = build_example(measure.pattern).operation
    if isinstance(operation, EngineOperation):
        return _compute_request_cost(measure, operation, calls, prices)
    units, reason = measure.units, measure.reason
    if calls is None:
        reason = reason or f"the system has no volume of {measure.pattern.rate.per}"
    of_indexes = sum(units.write for target, units in measure.units_by_target if target.index is not None)
    per_call = prices.compute_read_cost(units.read) + prices.compute_write_cost(units.write)
    is_known = calls is not None and measure.is_measured
    cost = per_call * calls if is_known and calls is not None else None
    return PatternCost(measure.pattern, calls, units.read, units.write, of_indexes, cost, reason)


def _compute_request_cost(
    measure: Measure, operation: EngineOperation[Any], calls: float | None, prices: PriceList
) -> PatternCost:
    """Return the cost of a pattern on a store without units, from its operation alone; SQL and cache have no
    cost.
    """
    price, reason = compute_call_price(operation, prices), BILLED_BY_INSTANCE.get(operation.store)
    if reason is not None:
        return PatternCost(measure.pattern, calls, 0.0, 0.0, 0.0, None, reason)
    if price is None:
        reason = f"the price list {prices.name} has no prices of {operation.store}"
    elif calls is None:
        reason = f"the system has no volume of {measure.pattern.rate.per}"
    cost = None if price is None or calls is None else price * calls
    requests = count_billed_requests(operation, prices)
    return PatternCost(measure.pattern, calls, 0.0, 0.0, 0.0, cost, reason, requests)


def _compute_table_cost(
    table: Table,
    description: TableDescription | None,
    units_by_target: Mapping[Target, Units],
    prices: PriceList,
) -> TableCost:
    """Return the cost of a table; storage is 0 if `description` is None, that is if the table does not
    exist.
    """
    units = sum((units for target, units in units_by_target.items() if target.table == table.name), Units())
    items, size = (description.item_count, description.size_bytes) if description else (0, 0)
    local = list(description.local_indexes.values()) if description else []
    indexes = [*(description.global_indexes.values() if description else ()), *local]
    stored = prices.compute_storage_cost(items, size) + sum(
        _compute_index_storage(state, prices) for state in indexes
    )
    backed_up = size + sum(state.size_bytes for state in local)
    return TableCost(
        table.name,
        items,
        size,
        sum(state.size_bytes for state in indexes),
        units.read,
        units.write,
        prices.compute_read_cost(units.read),
        prices.compute_write_cost(units.write),
        stored,
        prices.compute_recovery_cost(items, backed_up) if table.point_in_time_recovery else 0.0,
        prices.compute_stream_cost() if table.stream else 0.0,
    )


def _compute_index_storage(state: IndexState, prices: PriceList) -> float:
    return prices.compute_storage_cost(state.item_count, state.size_bytes)


def _iter_index_costs(
    system: System,
    descriptions: Mapping[str, TableDescription | None],
    measures: Iterable[Measure],
    units_by_target: Mapping[Target, Units],
    prices: PriceList,
) -> Iterable[IndexCost]:
    """Yield the cost of each declared index that exists in the data source."""
    measures = list(measures)
    for index in system.indexes:
        found = descriptions.get(index.table.name)
        if found is not None and (state := _find_index_state(found, index)) is not None:
            yield _compute_index_cost(
                system, index, state, found.size_bytes, measures, units_by_target, prices
            )


def _find_index_state(description: TableDescription, index: Index) -> IndexState | None:
    """Return the state of the global or local index, or None if the table does not have it."""
    return description.global_indexes.get(index.name) or description.local_indexes.get(index.name)


def _compute_index_cost(
    system: System,
    index: Index,
    state: IndexState,
    table_bytes: int,
    measures: list[Measure],
    units_by_target: Mapping[Target, Units],
    prices: PriceList,
) -> IndexCost:
    """Return what the index costs and saves; `table_bytes` is the size that a scan would read instead."""
    target = Target(index.table.name, index.name)
    units = units_by_target.get(target, Units())
    calls = _count_calls(system, measures, target, is_read=True)
    query_units = units.read / calls if calls else 0.0
    whole = compute_scan_units(table_bytes)
    even = compute_break_even(units.write, 1, prices.write_unit, whole, query_units, prices.read_unit)
    writes = _count_calls(system, measures, Target(index.table.name), is_read=False)
    is_known = bool(calls and writes and math.isfinite(even))
    return IndexCost(
        target.table,
        index.name,
        index.projection.kind,
        state.size_bytes,
        _compute_index_storage(state, prices),
        units.write,
        prices.compute_write_cost(units.write),
        calls,
        query_units,
        whole,
        prices.compute_read_cost(calls * whole - units.read),
        even if is_known else None,
        estimate_break_even(writes, 1) if is_known else None,
    )


def _count_calls(system: System, measures: Iterable[Measure], target: Target, *, is_read: bool) -> float:
    """Count the calls per month that read this table or index, or that write it if `is_read` is False."""
    return sum(
        compute_calls_per_month(system, each.pattern) or 0.0
        for each in measures
        for used, units in each.units_by_target
        if used == target and (units.read if is_read else units.write)
    )
