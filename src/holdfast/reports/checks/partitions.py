"""The rule about hot partitions: what the busiest key bears at the declared rates, against what a partition can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil
from typing import Final

from holdfast.limits import WRITE_UNIT_BYTES
from holdfast.operations.tables import Units
from holdfast.reports.checks.design import Design, Finding, listed
from holdfast.reports.checks.keys import one_key, told_key
from holdfast.reports.measuring import Measure, Target

# What one partition serves in a second (Developer Guide: Designing partition keys to distribute your workload).
WRITE_UNITS_MAX: Final = 1_000
READ_UNITS_MAX: Final = 3_000

# What a call is taken for that could not be measured.
UNMEASURED_READ: Final = Units(read=0.5)
UNMEASURED_WRITE: Final = Units(write=1.0)

SPREAD_WRITES: Final = (
    "Spread the writes: add a shard number to the partition key (key#0 … key#9) and read all shards, or write to a "
    "queue and gather several changes in one."
)
SPREAD_READS: Final = (
    "Keep what is read so often in a cache, read fewer items at a time (a page, a count kept beside the items), or "
    "spread the partition over several keys."
)


@dataclass(frozen=True)
class Spot:
    """Where heat gathers: a key on which all falls that has it; or the busiest key of what follows one volume."""

    target: Target
    per: str
    key: str | None = None


@dataclass
class Heat:
    """What falls on a key in a second at the peak, and by which patterns."""

    read: float = 0.0
    write: float = 0.0
    patterns: dict[str, None] = field(default_factory=dict)

    @property
    def kinds(self) -> tuple[tuple[str, float, int, str], ...]:
        """Writes and reads: how many units, how many a partition serves, and what to do about too many."""
        return (
            ("write", self.write, WRITE_UNITS_MAX, SPREAD_WRITES),
            ("read", self.read, READ_UNITS_MAX, SPREAD_READS),
        )

    @property
    def strain(self) -> float:
        """How much of what a partition serves is used, of writes or of reads, whichever is more."""
        return max(rate / most for _, rate, most, _ in self.kinds)


def hot_partitions(design: Design) -> Iterator[Finding]:
    """A key that gets more than a partition can serve: rate × volume × peak × units × the busiest key's share.

    Patterns that follow the same volume fall on the same busiest key, so that they are added up. The share follows
    from how many keys a table or index is declared to have; else from the volume, and of an index at least from how
    many keys the data has. A key that is constant, or declared to be the only one, gets all of what has it.
    """
    for spot, heat in heats(design).items():
        for kind, rate, most, remedy in heat.kinds:
            if rate > most:
                yield design.error(str(spot.target), told_heat(design, spot, heat, kind, rate, most), remedy)


def told_heat(design: Design, spot: Spot, heat: Heat, kind: str, rate: float, most: int) -> str:
    share = _told_share(design, spot)
    if spot.key is None:
        where = f"At the peak of {spot.per}, its busiest partition key gets"
    else:
        where = f"At the peak, {told_key(spot.key)} gets"
    return (
        f"{where} {rate:,.0f} {kind} units per second, and a partition serves {most:,} "
        f"({share}; by {listed(heat.patterns)})."
    )


def heats(design: Design) -> dict[Spot, Heat]:
    """What every spot bears at the declared load."""
    found: dict[Spot, Heat] = {}
    for example in design.examples:
        pattern = example.pattern
        if design.volume(pattern) is None:
            continue
        calls = design.calls_per_second_at_peak(pattern)
        measure = design.measures.get(pattern.id)
        used = (
            measure.units_by_target
            if measure is not None and measure.is_measured
            else _guessed(example.tables, example.writes)
        )
        for target, units in _at_declared_size(design, measure, used):
            key = one_key(design.system.load, example, target)
            spot = Spot(target, "" if key else pattern.rate.per, key)
            heat = found.setdefault(spot, Heat())
            rate = calls * _share(design, spot)
            heat.read += rate * units.read
            heat.write += rate * units.write
            heat.patterns[pattern.id] = None
    return found


def _at_declared_size(
    design: Design, measure: Measure | None, used: tuple[tuple[Target, Units], ...]
) -> tuple[tuple[Target, Units], ...]:
    """What the pattern uses when its item is as large as the load says: also in indexes that hold whole items."""
    size = None if measure is None else design.system.load.item_bytes.get(measure.pattern.id)
    of_table = sum(units.write for target, units in used if target.index is None)
    if measure is None or size is None or not of_table:
        return used
    times = ceil(size / WRITE_UNIT_BYTES) * measure.write_weight / of_table
    partial = [index.name for index in design.system.indexes if index.projection.kind != "ALL"]
    return tuple(
        (target, units if target.index in partial else Units(units.read, units.write * times))
        for target, units in used
    )


def _guessed(tables: tuple[str, ...], writes: bool) -> tuple[tuple[Target, Units], ...]:
    """The least that a call can use."""
    return tuple((Target(table), UNMEASURED_WRITE if writes else UNMEASURED_READ) for table in tables)


def _share(design: Design, spot: Spot) -> float:
    """How much of all falls on the key."""
    if spot.key is not None:
        return 1.0
    target = spot.target
    volume, declared = design.system.load.volumes[spot.per], _declared_keys(design, target)
    if declared is not None:
        return max(volume.hottest or 0.0, 1 / max(1, declared))
    seen = design.keys_seen.get(target)
    return volume.hottest_share if seen is None else max(volume.hottest_share, 1 / max(1, seen))


def _declared_keys(design: Design, target: Target) -> int | None:
    return design.system.load.distinct_keys.get(target.index or target.table)


def _told_share(design: Design, spot: Spot) -> str:
    target, peak = spot.target, f"{design.system.load.peak_factor:g} × at peak"
    if spot.key is not None:
        return f"all that has it, {peak}"
    told = f"{_share(design, spot):.3g} of all on one key, {peak}"
    is_seen = _declared_keys(design, target) is None and target in design.keys_seen
    return f"{told}; the sample has {design.keys_seen[target]:,} keys of it" if is_seen else told
