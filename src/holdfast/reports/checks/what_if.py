"""What would be at other loads: the rules that depend on load, asked again for each of `System.what_if`.

Nothing here is an error: it is not the load that the system is declared to have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from holdfast.reports.checks import indexes, patterns, queues
from holdfast.reports.checks.design import Design, Finding, Rule, listed
from holdfast.reports.checks.keys import told_key
from holdfast.reports.checks.partitions import Heat, Spot, heats
from holdfast.reports.measuring import Target

# From this share of what a partition serves on, it is time to do something.
NEAR: Final = 0.5

LEAVE: Final = "Told for every load that is asked about: what is near a limit has a warning of its own."

# What else depends on the load, beside the heat of partitions.
RULES: Final[tuple[Rule, ...]] = (
    patterns.rates_without_a_volume,
    patterns.quantities_below_zero,
    indexes.few_partition_keys,
    queues.busy_fifo_queues,
)


def what_if(design: Design) -> Iterator[Finding]:
    """For each other load: what the busiest keys would bear, with a warning where that is near the limit or over it."""
    for name, load in design.system.what_if.items():
        other = replace(design, system=replace(design.system, load=load))
        yield from _warnings(name, design, other)
        yield from _heats(name, other)


def _warnings(name: str, declared: Design, other: Design) -> Iterator[Finding]:
    """What the other rules find at this load and do not at the declared one."""
    for rule in RULES:
        known = {(each.subject, each.severity) for each in rule(declared)}
        for found in rule(other):
            if found.severity != "info" and (found.subject, found.severity) not in known:
                yield replace(found, severity="warning", message=f"At {name}: {found.message}")


def _heats(name: str, design: Design) -> Iterator[Finding]:
    by_target: dict[Target, list[tuple[Spot, Heat]]] = {}
    for spot, heat in heats(design).items():
        by_target.setdefault(spot.target, []).append((spot, heat))
    for target, several in by_target.items():
        for spot, heat in several:
            yield from _strained(name, design, spot, heat)
        told = "; ".join(_shown(several))
        yield design.info(str(target), f"At {name}, in a second at the peak: {told}.", LEAVE)


def _strained(name: str, design: Design, spot: Spot, heat: Heat) -> Iterator[Finding]:
    for kind, rate, most, remedy in heat.kinds:
        if rate >= NEAR * most:
            how = "which it cannot" if rate > most else f"and {most / rate:.1f} × this load reaches the limit"
            yield design.warning(
                str(spot.target),
                f"At {name}: {_told_spot(spot)} would have to bear {_told_rate(rate)} of {most:,} {kind} units a second "
                f"at the peak, {how} (by {listed(heat.patterns)}).",
                remedy,
            )


def _shown(several: list[tuple[Spot, Heat]]) -> list[str]:
    """Every key that has a name, and of the others the busiest; the most strained first."""
    several = sorted(several, key=lambda each: each[1].strain, reverse=True)
    named = [each for each in several if each[0].key is not None]
    others = [each for each in several if each[0].key is None][:1]
    return [_told(spot, heat) for spot, heat in several if (spot, heat) in [*named, *others]]


def _told(spot: Spot, heat: Heat) -> str:
    rates = [f"{_told_rate(rate)} of {most:,} {kind} units" for kind, rate, most, _ in heat.kinds if rate]
    return f"{_told_spot(spot)} bears {' and '.join(rates) or 'nothing'}"


def _told_spot(spot: Spot) -> str:
    if spot.key is not None:
        return f"{told_key(spot.key)} of {spot.target}"
    return f"the busiest key of {spot.target} by {spot.per}"


def _told_rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:,.2g}"
