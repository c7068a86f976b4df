"""The rule about hot partitions: compare the load on the busiest key with what one partition serves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from holdfast.core.limits import WRITE_UNIT_BYTES
from holdfast.operations.tables import Units
from holdfast.reports.design.rules.base import Design, Finding, join_words
from holdfast.reports.design.rules.hot_keys import find_hot_key, format_key
from holdfast.reports.measurement.pattern_measures import Measure, Target

# Units that one partition serves per second (Developer Guide: Designing partition keys to distribute your
# workload).
MAX_WRITE_UNITS: Final = 1_000
MAX_READ_UNITS: Final = 3_000

# Units assumed for a call that was not measured.
UNMEASURED_READ: Final = Units(read=0.5)
UNMEASURED_WRITE: Final = Units(write=1.0)

SPREAD_WRITES: Final = (
    "Spread the writes: add a shard number to the partition key (key#0 … key#9) and read all shards, or send "
    "the changes to a queue and combine several in one write."
)
SPREAD_READS: Final = (
    "Cache the items, read fewer items per call (one page, or a stored count), or spread the partition over "
    "several keys."
)


@dataclass(frozen=True)
class KeyLoadScope:
    """The scope of a key load: one hot key, or the busiest key of the patterns of one volume."""

    target: Target
    volume_name: str
    key: str | None = None


@dataclass
class KeyLoad:
    """The units per second on one key at the peak, and the ids of the patterns that cause them."""

    read: float = 0.0
    write: float = 0.0
    patterns: dict[str, None] = field(default_factory=dict)

    @property
    def by_kind(self) -> tuple[tuple[str, float, int, str], ...]:
        """Writes and reads, each as (kind, units per second, limit of a partition, remedy)."""
        return (
            ("write", self.write, MAX_WRITE_UNITS, SPREAD_WRITES),
            ("read", self.read, MAX_READ_UNITS, SPREAD_READS),
        )

    @property
    def utilization(self) -> float:
        """The used share of what a partition serves: of writes or of reads, whichever is higher."""
        return max(rate / most for _, rate, most, _ in self.by_kind)


def find_hot_partitions(design: Design) -> Iterator[Finding]:
    """Find keys with more load than a partition serves.

    The load is rate × volume × peak × units × the busiest key's share. Patterns of the same volume share
    their busiest key, so their loads are added. The share comes from the declared number of keys of the table
    or index, otherwise from the volume; for an index, it is at least 1 / (number of keys in the data). A
    constant key, or one declared as the only one, takes the whole load.
    """
    for spot, heat in compute_key_loads(design).items():
        for kind, rate, most, remedy in heat.by_kind:
            if rate > most:
                yield design.error(
                    str(spot.target), format_key_load(design, spot, heat, kind, rate, most), remedy
                )


def format_key_load(
    design: Design, scope: KeyLoadScope, key_load: KeyLoad, kind: str, rate: float, limit: int
) -> str:
    """Return the message of a finding about an overloaded key."""
    share = _format_share(design, scope)
    if scope.key is None:
        where = f"At the peak of {scope.volume_name}, its busiest partition key gets"
    else:
        where = f"At the peak, {format_key(scope.key)} gets"
    return (
        f"{where} {rate:,.0f} {kind} units per second, and a partition serves {limit:,} "
        f"({share}; by {join_words(key_load.patterns)})."
    )


def compute_key_loads(design: Design) -> dict[KeyLoadScope, KeyLoad]:
    """Return the load on every key at the declared rates."""
    found: dict[KeyLoadScope, KeyLoad] = {}
    for example in design.examples:
        pattern = example.pattern
        if design.get_volume(pattern) is None:
            continue
        calls = design.compute_peak_rate(pattern)
        measure = design.measures.get(pattern.id)
        used = (
            measure.units_by_target
            if measure is not None and measure.is_measured
            else _guess_units(example.tables, example.writes)
        )
        for target, units in _scale_to_declared_size(design, measure, used):
            key = find_hot_key(design.load, example, target)
            spot = KeyLoadScope(target, "" if key else pattern.rate.per, key)
            heat = found.setdefault(spot, KeyLoad())
            rate = calls * compute_share(design, spot)
            heat.read += rate * units.read
            heat.write += rate * units.write
            heat.patterns[pattern.id] = None
    return found


def _scale_to_declared_size(
    design: Design, measure: Measure | None, used: tuple[tuple[Target, Units], ...]
) -> tuple[tuple[Target, Units], ...]:
    """Scale write units to the declared item size, also in indexes that project all attributes."""
    size = None if measure is None else design.load.item_bytes.get(measure.pattern.id)
    of_table = sum(units.write for target, units in used if target.index is None)
    if measure is None or size is None or not of_table:
        return used
    times = ceil(size / WRITE_UNIT_BYTES) * measure.write_weight / of_table
    partial = [index.name for index in design.system.indexes if index.projection.kind != "ALL"]
    return tuple(
        (target, units if target.index in partial else Units(units.read, units.write * times))
        for target, units in used
    )


def _guess_units(tables: tuple[str, ...], is_write: bool) -> tuple[tuple[Target, Units], ...]:
    """Return the minimum units that one call can use on each table."""
    return tuple((Target(table), UNMEASURED_WRITE if is_write else UNMEASURED_READ) for table in tables)


def compute_share(design: Design, scope: KeyLoadScope) -> float:
    """Return the share of the load that the key takes."""
    if scope.key is not None:
        return 1.0
    target = scope.target
    volume, declared = (
        design.load.volumes[scope.volume_name],
        _get_declared_keys(design, target),
    )
    if declared is not None:
        return max(volume.hottest or 0.0, 1 / max(1, declared))
    seen = design.key_counts.get(target)
    return volume.hottest_share if seen is None else max(volume.hottest_share, 1 / max(1, seen))


def _get_declared_keys(design: Design, target: Target) -> int | None:
    """Return the declared number of partition keys of a table or index, or None."""
    return design.load.distinct_keys.get(target.index or target.table)


def _format_share(design: Design, scope: KeyLoadScope) -> str:
    """Describe how the share of the key was determined."""
    target, peak = scope.target, f"{design.load.peak_factor:g} × at peak"
    if scope.key is not None:
        return f"all calls use it, {peak}"
    text = f"{compute_share(design, scope):.3g} of the load on one key, {peak}"
    is_seen = _get_declared_keys(design, target) is None and target in design.key_counts
    return f"{text}; the sample has {design.key_counts[target]:,} keys of it" if is_seen else text
