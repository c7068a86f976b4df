"""Apply the load-dependent rules to each other load in `Design.what_if`.

These findings are never errors: the system is not declared to have these loads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from holdfast.reports.design.rules import indexes, patterns, queues
from holdfast.reports.design.rules.base import Design, Finding, Rule, join_words
from holdfast.reports.design.rules.hot_keys import format_key
from holdfast.reports.design.rules.partitions import KeyLoad, KeyLoadScope, compute_key_loads
from holdfast.reports.measurement.pattern_measures import Target

# Share of a partition's limit from which a finding is a warning.
WARNING_UTILIZATION: Final = 0.5

NO_ACTION: Final = "No action: reported for every load in what_if. Keys near a limit have a separate warning."

# The load-dependent rules, apart from the load on partitions.
LOAD_RULES: Final[tuple[Rule, ...]] = (
    patterns.find_rates_without_volume,
    patterns.find_invalid_quantities,
    indexes.find_few_partition_keys,
    queues.find_busy_fifo_queues,
)


def find_what_if_limits(design: Design) -> Iterator[Finding]:
    """Report the load on the busiest keys at each other load, and warn near or above the limit."""
    for name, load in design.system.design.what_if.items():
        other = replace(
            design, system=replace(design.system, design=replace(design.system.design, load=load))
        )
        yield from _find_new_warnings(name, design, other)
        yield from _report_key_loads(name, other)


def _find_new_warnings(name: str, declared_design: Design, other_design: Design) -> Iterator[Finding]:
    """Yield what the other load-dependent rules find at this load but not at the declared one."""
    for rule in LOAD_RULES:
        known = {(each.subject, each.severity) for each in rule(declared_design)}
        for found in rule(other_design):
            if found.severity != "info" and (found.subject, found.severity) not in known:
                yield replace(found, severity="warning", message=f"At {name}: {found.message}")


def _report_key_loads(name: str, design: Design) -> Iterator[Finding]:
    """Yield one info per table or index with its key loads, and a warning for each key near the limit."""
    by_target: dict[Target, list[tuple[KeyLoadScope, KeyLoad]]] = {}
    for spot, heat in compute_key_loads(design).items():
        by_target.setdefault(spot.target, []).append((spot, heat))
    for target, several in by_target.items():
        for spot, heat in several:
            yield from _warn_near_limit(name, design, spot, heat)
        text = "; ".join(_format_key_loads(several))
        yield design.info(str(target), f"At {name}, per second at the peak: {text}.", NO_ACTION)


def _warn_near_limit(name: str, design: Design, scope: KeyLoadScope, key_load: KeyLoad) -> Iterator[Finding]:
    """Yield a warning for each kind of units that is near the limit of a partition."""
    for kind, rate, most, remedy in key_load.by_kind:
        if rate >= WARNING_UTILIZATION * most:
            how = (
                "more than it serves"
                if rate > most
                else f"and {most / rate:.1f} × this load reaches the limit"
            )
            yield design.warning(
                str(scope.target),
                f"At {name}: {_format_scope(scope)} would take {_format_rate(rate)} of {most:,} {kind} units "
                "a second "
                f"at the peak, {how} (by {join_words(key_load.patterns)}).",
                remedy,
            )


def _format_key_loads(key_loads: list[tuple[KeyLoadScope, KeyLoad]]) -> list[str]:
    """Describe every hot key and the busiest other key, the most loaded first."""
    key_loads = sorted(key_loads, key=lambda each: each[1].utilization, reverse=True)
    named = [each for each in key_loads if each[0].key is not None]
    others = [each for each in key_loads if each[0].key is None][:1]
    return [_format_key_load(spot, heat) for spot, heat in key_loads if (spot, heat) in [*named, *others]]


def _format_key_load(scope: KeyLoadScope, key_load: KeyLoad) -> str:
    """Describe the load of one key: "the key ALL of News takes 1 of 1,000 write units"."""
    rates = [
        f"{_format_rate(rate)} of {most:,} {kind} units" for kind, rate, most, _ in key_load.by_kind if rate
    ]
    return f"{_format_scope(scope)} takes {' and '.join(rates) or 'nothing'}"


def _format_scope(scope: KeyLoadScope) -> str:
    """Return the hot key of a table or index, or "the busiest key of … by" its volume."""
    if scope.key is not None:
        return f"{format_key(scope.key)} of {scope.target}"
    return f"the busiest key of {scope.target} by {scope.volume_name}"


def _format_rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:,.2g}"
