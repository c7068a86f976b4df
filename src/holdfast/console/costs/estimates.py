"""What the cost pages show of one system: estimated for a load, measured in the last hour, and in growth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.console.overview.rates import average_rates
from holdfast.console.overview.samples import Rates, Sample
from holdfast.console.overview.spend import Spend, compute_spend
from holdfast.model.load import Load
from holdfast.model.system import System
from holdfast.reports.cost.price_lists import SECONDS_PER_MONTH, PriceList
from holdfast.reports.cost.system_cost import PatternCost, SystemCost
from holdfast.reports.examples import build_example

MIN_GROWTH: Final = 1
MAX_GROWTH: Final = 100
MAX_KEYS: Final = 10
MAX_PATTERNS: Final = 20
DECLARED_LOAD: Final = ""
"""The choice of the load that the system declares."""


@dataclass(frozen=True)
class MeasuredSpend:
    """What the mean rates of the last hour cost in a month; `minutes` is how much of it was sampled."""

    rates: Rates
    spend: Spend
    minutes: float

    @property
    def per_month(self) -> float:
        return self.spend.per_month


@dataclass(frozen=True)
class TableRow:
    """A table: what it is estimated to use and cost in a month, and what the last hour would."""

    name: str
    estimated_reads: float
    estimated_writes: float
    measured_reads: float | None
    measured_writes: float | None
    estimated_money: float
    measured_money: float | None


@dataclass(frozen=True)
class StoreCosts:
    """The estimate of a month by store. None for a store that has no price; `has_…` whether it is used."""

    tables: float
    queues: float | None
    objects: float | None
    has_sql: bool
    has_cache: bool


@dataclass(frozen=True)
class CostPart:
    """A part of the money of a month."""

    title: str
    money: float


def choose_load(system: System, choice: str) -> Load:
    """Return a load in `Design.what_if` by its name, else the declared one."""
    return system.design.what_if.get(choice, system.design.load)


def list_loads(system: System) -> Sequence[tuple[str, str]]:
    """Return the loads to choose from, each as its choice and its words."""
    return [(DECLARED_LOAD, "The declared load"), *((name, name) for name in system.design.what_if)]


def clamp_growth(growth: int) -> int:
    """Return a growth that the slider has."""
    return min(max(growth, MIN_GROWTH), MAX_GROWTH)


def measure_spend(system: System, samples: Sequence[Sample], prices: PriceList) -> MeasuredSpend | None:
    """Return the spend of the last hour; None if no process was sampled."""
    times = [each.at for each in samples if _get_rates(each, system) is not None]
    rates = average_rates([found for each in samples if (found := _get_rates(each, system)) is not None])
    if rates is None:
        return None
    return MeasuredSpend(rates, compute_spend(system, rates, prices), (times[-1] - times[0]) / 60)


def build_table_rows(cost: SystemCost, measured: MeasuredSpend | None) -> list[TableRow]:
    """Return the tables of an estimate next to what was measured, the most expensive first."""
    rows = []
    for each in cost.tables:
        reads, writes = _get_units(measured, each.table)
        money = None
        if reads is not None and writes is not None:
            kept = each.storage + each.recovery + each.stream
            money = cost.prices.compute_read_cost(reads) + cost.prices.compute_write_cost(writes) + kept
        rows.append(TableRow(each.table, each.read_units, each.write_units, reads, writes, each.total, money))
    return sorted(rows, key=lambda row: row.estimated_money, reverse=True)


def split_by_store(cost: SystemCost) -> StoreCosts:
    """Return the estimate by store."""
    operations = [build_example(each.pattern).operation for each in cost.patterns]
    stores = {each.store for each in operations if each is not None}
    return StoreCosts(
        sum(each.total for each in cost.tables),
        _sum_known([each.total for each in cost.queues]),
        _sum_known([each.total for each in cost.buckets]),
        "sql" in stores,
        "cache" in stores,
    )


def split_by_kind(cost: SystemCost) -> list[CostPart]:
    """Return the parts of an estimate that grow differently, without those that the system does not use."""
    parts = [
        CostPart("Reads of tables", sum(each.reads for each in cost.tables)),
        CostPart("Writes to tables", sum(each.writes for each in cost.tables)),
        CostPart("Storage and recovery", sum(each.storage + each.recovery for each in cost.tables)),
        CostPart("Streams", sum(each.stream for each in cost.tables)),
        CostPart("Queues", sum(each.total or 0.0 for each in cost.queues)),
        CostPart("Objects", sum(each.total or 0.0 for each in cost.buckets)),
    ]
    return [each for each in parts if each.money]


def list_counted(cost: SystemCost) -> list[PatternCost]:
    """Return the patterns that the total includes, the most expensive first."""
    return sorted(
        (each for each in cost.patterns if each.cost is not None),
        key=lambda each: each.cost or 0.0,
        reverse=True,
    )


def group_uncounted(cost: SystemCost) -> Mapping[str, list[str]]:
    """Return the ids of the patterns that the total leaves out, by the reason."""
    reasons: dict[str, list[str]] = {}
    for each in cost.uncounted:
        reasons.setdefault(each.reason or "unknown", []).append(each.pattern.id)
    return reasons


def _get_rates(sample: Sample, system: System) -> Rates | None:
    found = sample.systems.get(system.name)
    return None if found is None else found.rates


def _get_units(measured: MeasuredSpend | None, table: str) -> tuple[float | None, float | None]:
    """Return the units of a table in a month at the rates of the last hour."""
    if measured is None:
        return None, None
    reads, writes = measured.rates.read_units.get(table, 0.0), measured.rates.write_units.get(table, 0.0)
    return reads * SECONDS_PER_MONTH, writes * SECONDS_PER_MONTH


def _sum_known(amounts: Sequence[float | None]) -> float | None:
    """Return the sum of the amounts; None without any, or if none has a price."""
    known = [each for each in amounts if each is not None]
    return sum(known) if known else None
