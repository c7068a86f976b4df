"""Plots of the last hour: one point a minute, and one line for each system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from holdfast.console.overview.incidents import compute_error_rate
from holdfast.console.overview.samples import Sample, SystemSample
from holdfast.console.overview.spend import HOUR_S, compute_spend
from holdfast.model.system import System
from holdfast.reports.cost.price_lists import PriceList

MINUTE_S: Final = 60
MINUTES: Final = 60
# The style sheet has so many colours of lines.
COLOURS: Final = 5


@dataclass(frozen=True)
class Plot:
    """A chart: its title, the times, and a line for each system that has values."""

    title: str
    unit: str
    times: Sequence[int]
    series: Sequence[dict[str, Any]]


Read = Callable[[SystemSample], float | None]


def build_plots(samples: Sequence[Sample], systems: Sequence[System], prices: PriceList) -> list[Plot]:
    """Return the plots of these systems; none without samples."""

    def read_spend(system: System) -> Read:
        return lambda sample: (
            None if sample.rates is None else compute_spend(system, sample.rates, prices).per_second * HOUR_S
        )

    def always(read: Read) -> Callable[[System], Read]:
        return lambda _: read

    measures: tuple[tuple[str, str, Callable[[System], Read]], ...] = (
        ("Requests per second", "", always(lambda each: each.rates.requests if each.rates else None)),
        (
            "Operations of stores per second",
            "",
            always(lambda each: each.rates.operations if each.rates else None),
        ),
        ("Errors in percent", "%", always(_read_error_percent)),
        ("Messages that wait", "", always(count_backlog)),
        ("Spend per hour", "$", read_spend),
    )
    minutes = _group_by_minute(samples)
    return [
        _build_plot(title, unit, minutes, [(each, choose(each)) for each in systems])
        for title, unit, choose in measures
        if minutes
    ]


def count_backlog(sample: SystemSample) -> float:
    """Return the messages that wait in queues and outboxes."""
    queues = sum(each.visible + each.delayed for each in sample.queues.values())
    return queues + sum(each.pending for each in sample.outboxes.values())


def _read_error_percent(sample: SystemSample) -> float | None:
    share = compute_error_rate(sample)
    return None if share is None else share * 100


def _group_by_minute(samples: Sequence[Sample]) -> dict[int, list[Sample]]:
    """Return the samples by the minute that they are in, of the hour that ends with the last one."""
    if not samples:
        return {}
    last = int(samples[-1].at // MINUTE_S)
    minutes: dict[int, list[Sample]] = {
        minute * MINUTE_S: [] for minute in range(last - MINUTES + 1, last + 1)
    }
    for each in samples:
        if (minute := int(each.at // MINUTE_S) * MINUTE_S) in minutes:
            minutes[minute].append(each)
    return minutes


def _build_plot(
    title: str, unit: str, minutes: dict[int, list[Sample]], systems: Sequence[tuple[System, Read]]
) -> Plot:
    series = []
    for position, (system, read) in enumerate(systems):
        values = [_average(system.name, several, read) for several in minutes.values()]
        if any(value is not None for value in values):
            label = system.title or system.name
            series.append({"label": label, "values": values, "kind": str(position % COLOURS + 1)})
    return Plot(title, unit, list(minutes), series)


def _average(name: str, samples: Sequence[Sample], read: Read) -> float | None:
    """Return the mean of a minute, with at most four significant digits; None without values."""
    found = [read(each.systems[name]) for each in samples if name in each.systems]
    values = [value for value in found if value is not None]
    return float(f"{sum(values) / len(values):.4g}") if values else None
