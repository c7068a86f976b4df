"""Growth: what a measured system costs at a multiple of its load, and which partition key gets hot first.

Each key gets as many times the load as the system: their number stays. That is the cautious assumption; a
system that grows by more keys gets hot later. What is stored, and its backups, grow with the load. Readers of
streams and consumers poll as often as before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from msgspec import structs

from holdfast.core.limits import WRITE_UNIT_BYTES
from holdfast.model.entities.writes import Put, Update
from holdfast.model.load import Load
from holdfast.operations.tables import IndexState, TableDescription
from holdfast.reports.cost.measured_system import MeasuredSystem
from holdfast.reports.cost.price_lists import SECONDS_PER_MONTH, PriceList
from holdfast.reports.cost.request_cost import StoredObjects
from holdfast.reports.cost.system_cost import SystemCost, compute_cost
from holdfast.reports.design.design_check import to_design
from holdfast.reports.design.rules.base import Design
from holdfast.reports.design.rules.hot_keys import find_hot_key
from holdfast.reports.design.rules.partitions import (
    KeyLoad,
    KeyLoadScope,
    compute_key_loads,
    compute_share,
)
from holdfast.reports.examples import Example
from holdfast.reports.measurement.pattern_measures import Target

# The largest item collection of a table with local indexes (Developer Guide: Local secondary indexes).
MAX_COLLECTION_BYTES: Final = 10 * 1024**3


@dataclass(frozen=True)
class KeyGrowth:
    """The load of one key per second at the peak, and the multiple of the declared load that it can take."""

    scope: KeyLoadScope
    load: KeyLoad
    # The growth at which the key reaches what a partition serves; None without load.
    limit_at: float | None

    @property
    def is_hot(self) -> bool:
        """True if the key gets more than a partition serves."""
        return self.load.utilization > 1


@dataclass(frozen=True)
class CollectionGrowth:
    """The largest item collection of a table with local indexes: its bytes after a month and in the end.

    `final_bytes` is None if its items are kept for ever; `full_after_months` then says when it is full.
    """

    target: Target
    key: str
    bytes_per_month: float
    final_bytes: float | None
    full_after_months: float | None
    patterns: tuple[str, ...]

    @property
    def is_full(self) -> bool:
        """True if it reaches the largest size."""
        return self.full_after_months is not None


@dataclass(frozen=True)
class Projection:
    """The cost and the busiest keys of a system at `growth` times a load, the busiest first."""

    growth: float
    cost: SystemCost
    keys: tuple[KeyGrowth, ...]
    collections: tuple[CollectionGrowth, ...]


def project_growth(measured: MeasuredSystem, prices: PriceList, growth: float) -> Projection:
    """Return what the system costs and which keys get hot at a multiple of its load."""
    grown = _grow(measured, growth)
    design = to_design(grown)
    keys = [
        KeyGrowth(scope, load, growth / load.utilization if load.utilization else None)
        for scope, load in compute_key_loads(design).items()
    ]
    return Projection(
        growth,
        compute_cost(grown, prices),
        tuple(sorted(keys, key=lambda each: each.load.utilization, reverse=True)),
        tuple(_iter_collections(design)),
    )


def project_cost(measured: MeasuredSystem, prices: PriceList, growth: float) -> SystemCost:
    """Return what the system costs at a multiple of its load."""
    return compute_cost(_grow(measured, growth), prices)


def scale_load(load: Load, growth: float) -> Load:
    """Return the load with every event so many times as often, over the same keys."""
    return replace(
        load,
        volumes={
            name: replace(volume, per_month=volume.per_month * growth)
            for name, volume in load.volumes.items()
        },
    )


def _grow(measured: MeasuredSystem, growth: float) -> MeasuredSystem:
    """Return the system with so many times the load, and what it stores."""
    scaled = measured.with_load(scale_load(measured.system.design.load, growth))
    return replace(
        scaled,
        descriptions={
            name: None if found is None else _grow_table(found, growth)
            for name, found in measured.descriptions.items()
        },
        objects={
            name: StoredObjects(round(each.count * growth), round(each.size_bytes * growth))
            for name, each in measured.objects.items()
        },
    )


def _grow_table(description: TableDescription, growth: float) -> TableDescription:
    return structs.replace(
        description,
        item_count=round(description.item_count * growth),
        size_bytes=round(description.size_bytes * growth),
        global_indexes=_grow_indexes(description.global_indexes, growth),
        local_indexes=_grow_indexes(description.local_indexes, growth),
    )


def _grow_indexes(indexes: Mapping[str, IndexState], growth: float) -> dict[str, IndexState]:
    return {
        name: structs.replace(
            each, item_count=round(each.item_count * growth), size_bytes=round(each.size_bytes * growth)
        )
        for name, each in indexes.items()
    }


# --- item collections ---------------------------------------------------------------------------------------


@dataclass
class _Inflow:
    """What the patterns of one scope add to a collection: bytes per month, and what is there at one time."""

    per_month: float = 0.0
    # None as soon as one pattern adds items without a lifetime.
    final: float | None = 0.0
    patterns: dict[str, None] = field(default_factory=dict)


def _iter_collections(design: Design) -> Iterator[CollectionGrowth]:
    """Yield the largest item collections of each table with local indexes, the fullest first.

    An item counts with the bytes of its write units, also in the indexes: at least its size. Deletes are not
    subtracted.
    """
    limited = {table.name for table in design.system.tables if table.local_indexes}
    found: dict[KeyLoadScope, _Inflow] = {}
    for example in design.examples:
        for part in example.parts:
            if isinstance(part, Put | Update) and part.table.name in limited and _can_create(part):
                _add_inflow(design, example, part, found)
    described = [_describe_collection(scope, inflow) for scope, inflow in found.items()]
    yield from sorted(described, key=lambda each: each.bytes_per_month, reverse=True)


def _can_create(part: Put[Any] | Update[Any]) -> bool:
    return isinstance(part, Put) or part.may_create


def _add_inflow(
    design: Design, example: Example, part: Put[Any] | Update[Any], found: dict[KeyLoadScope, _Inflow]
) -> None:
    """Add what a pattern writes in a month to the collection of the busiest key of its scope."""
    pattern, target = example.pattern, Target(part.table.name)
    volume = design.get_volume(pattern)
    if volume is None:
        return
    key = find_hot_key(design.load, example, target)
    scope = KeyLoadScope(target, "" if key else pattern.rate.per, key)
    per_month = pattern.rate.times * volume.per_month * compute_share(design, scope)
    added = per_month * _estimate_bytes(design, pattern.id, part)
    inflow = found.setdefault(scope, _Inflow())
    inflow.per_month += added
    lifetime = part.declaration.lifetime
    lifetime_s = 0.0 if lifetime is None else lifetime.after.total_seconds()
    if not lifetime_s:
        inflow.final = None
    elif inflow.final is not None:
        inflow.final += added * lifetime_s / SECONDS_PER_MONTH
    inflow.patterns[pattern.id] = None


def _estimate_bytes(design: Design, pattern: str, part: Put[Any] | Update[Any]) -> float:
    """Return the bytes that one call adds to the table and its local indexes."""
    measure = design.measures.get(pattern)
    local = {index.name for index in part.table.local_indexes}
    units = [
        used.write / (measure.write_weight if measure else 1)
        for target, used in (measure.units_by_target if measure else ())
        if target.table == part.table.name and (target.index is None or target.index in local)
    ]
    declared = design.load.item_bytes.get(pattern)
    return declared * max(1, len(units)) if declared else max(1.0, sum(units)) * WRITE_UNIT_BYTES


def _describe_collection(scope: KeyLoadScope, inflow: _Inflow) -> CollectionGrowth:
    is_limited = inflow.final is not None and inflow.final <= MAX_COLLECTION_BYTES
    grows = inflow.per_month > 0 and not is_limited
    return CollectionGrowth(
        scope.target,
        scope.key or f"the busiest key by {scope.volume_name}",
        inflow.per_month,
        inflow.final,
        MAX_COLLECTION_BYTES / inflow.per_month if grows else None,
        tuple(inflow.patterns),
    )
