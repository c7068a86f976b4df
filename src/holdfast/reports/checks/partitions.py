"""The rule about hot partitions: what the busiest key bears at the declared rates, against what a partition can."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from holdfast.operations.tables import Units
from holdfast.reports.checks.design import Design, Finding, listed
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


@dataclass
class Heat:
    """What falls on the busiest key of a table or index, from all patterns that follow one volume."""

    read: float = 0.0
    write: float = 0.0
    patterns: dict[str, None] = field(default_factory=dict)


def hot_partitions(design: Design) -> Iterator[Finding]:
    """A key that gets more than a partition can serve: rate × volume × peak × units × the busiest key's share.

    Patterns that follow the same volume fall on the same busiest key, so that they are added up. The share follows
    from how many keys a table or index is declared to have; else from the volume, and of an index at least from how
    many keys the data has.
    """
    for (target, per), heat in _heats(design).items():
        kinds = (
            ("write", heat.write, WRITE_UNITS_MAX, SPREAD_WRITES),
            ("read", heat.read, READ_UNITS_MAX, SPREAD_READS),
        )
        for kind, rate, most, remedy in kinds:
            if rate > most:
                yield design.error(
                    str(target),
                    f"At the peak of {per}, its busiest partition key gets {rate:,.0f} {kind} units per second, and "
                    f"a partition serves {most:,} ({_told_share(design, target, per)}; by {listed(heat.patterns)}).",
                    remedy,
                )


def _heats(design: Design) -> dict[tuple[Target, str], Heat]:
    heats: dict[tuple[Target, str], Heat] = {}
    for example in design.examples:
        pattern = example.pattern
        volume = design.volume(pattern)
        if volume is None:
            continue
        calls = design.calls_per_second_at_peak(pattern)
        measure = design.measures.get(pattern.id)
        used = (
            _used(measure)
            if measure is not None and measure.is_measured
            else _guessed(example.tables, example.writes)
        )
        for target, units in used:
            heat = heats.setdefault((target, pattern.rate.per), Heat())
            rate = calls * _share(design, target, pattern.rate.per)
            heat.read += rate * units.read
            heat.write += rate * units.write
            heat.patterns[pattern.id] = None
    return heats


def _used(measure: Measure) -> tuple[tuple[Target, Units], ...]:
    return measure.units_by_target


def _guessed(tables: tuple[str, ...], writes: bool) -> tuple[tuple[Target, Units], ...]:
    """The least that a call can use."""
    return tuple((Target(table), UNMEASURED_WRITE if writes else UNMEASURED_READ) for table in tables)


def _share(design: Design, target: Target, per: str) -> float:
    """How much of all falls on the busiest key of a table or index."""
    volume, declared = design.system.load.volumes[per], _declared_keys(design, target)
    if declared is not None:
        return max(volume.hottest or 0.0, 1 / max(1, declared))
    seen = design.keys_seen.get(target)
    return volume.hottest_share if seen is None else max(volume.hottest_share, 1 / max(1, seen))


def _declared_keys(design: Design, target: Target) -> int | None:
    return design.system.load.distinct_keys.get(target.index or target.table)


def _told_share(design: Design, target: Target, per: str) -> str:
    share = _share(design, target, per)
    told = f"{share:.3g} of all on one key, {design.system.load.peak_factor:g} × at peak"
    is_seen = _declared_keys(design, target) is None and target in design.keys_seen
    return f"{told}; the sample has {design.keys_seen[target]:,} keys of it" if is_seen else told
