"""Rates per second from the counters of processes.

A process that was restarted counts from 0 again: all of its count is new. One that did not answer for a while
has a rate over the whole time since its last answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from holdfast.console.overview.samples import Rates
from holdfast.console.overview.targets import CounterKey, TargetReading

# The fields of `Rates` that have one value for each table or queue.
_BY_NAME = frozenset({"read_units", "write_units", "queue_requests"})


def compute_rates(before: TargetReading | None, now: TargetReading) -> dict[CounterKey, float] | None:
    """Return what a process counted per second between two readings; None without an earlier one."""
    if before is None or now.read_at <= before.read_at:
        return None
    has_restarted = now.state.started_at != before.state.started_at
    seconds = now.read_at - before.read_at
    rates = {}
    for key, count in now.counters.items():
        counted = 0.0 if has_restarted else before.counters.get(key, 0.0)
        rates[key] = (count if count < counted else count - counted) / seconds
    return rates


def sum_rates(several: Iterable[Mapping[CounterKey, float]], names: Mapping[str, str]) -> Rates | None:
    """Return the rates of all processes together; None if there are none. `names` has the declared names of
    tables by their names in the store.
    """
    several = list(several)
    if not several:
        return None
    fields: dict[str, Any] = {name: {} for name in _BY_NAME}
    for (what, name), rate in ((key, rate) for each in several for key, rate in each.items()):
        if what not in _BY_NAME:
            fields[what] = fields.get(what, 0.0) + rate
        elif rate:
            declared = names.get(name, name)
            fields[what][declared] = fields[what].get(declared, 0.0) + rate
    return Rates(**fields)


def average_rates(several: Collection[Rates]) -> Rates | None:
    """Return the mean of rates; None if there are none."""
    if not several:
        return None
    share = 1 / len(several)

    def average(field: str) -> Any:
        values = [getattr(each, field) for each in several]
        if field not in _BY_NAME:
            return sum(values) * share
        names = {name for value in values for name in value}
        return {name: sum(value.get(name, 0.0) for value in values) * share for name in sorted(names)}

    return Rates(**{field: average(field) for field in Rates.__struct_fields__})
