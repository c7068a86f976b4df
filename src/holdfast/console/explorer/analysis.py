"""What the measurement of a system says of its patterns: units, costs, and findings of the design check.

The cost pages measure each system once, on its sample data (`costs/measurements.py`). This module applies the
rules of the design check to that, once for each measurement, in a thread, because it takes up to a second.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from holdfast.console.context import Console
from holdfast.console.costs.measurements import Measurement
from holdfast.console.costs.prices import read_prices
from holdfast.core.errors import HoldfastError, format_message
from holdfast.reports.cost.measured_system import MeasuredSystem
from holdfast.reports.cost.price_lists import PriceList
from holdfast.reports.cost.system_cost import PatternCost, compute_pattern_cost
from holdfast.reports.design.design_check import apply_rules, to_design
from holdfast.reports.design.rules.base import Finding
from holdfast.reports.measurement.pattern_measures import Measure


@dataclass(frozen=True)
class Results:
    """What is known of a measured system, by the ids of its patterns."""

    measured_on: str
    price_list: str
    measures: Mapping[str, Measure]
    costs: Mapping[str, PatternCost]
    findings: Sequence[Finding]


@dataclass(frozen=True)
class Analysis:
    """How far the measurement of a system is, and the results once it is done; `problem` says why there are
    none.
    """

    measurement: Measurement
    results: Results | None = None
    problem: str = ""


class Analyses:
    """The analyses of a console's systems."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._results: dict[str, tuple[MeasuredSystem, Results]] = {}

    def peek(self, name: str) -> Results | None:
        """Return the results of a system if they are known."""
        return self._results[name][1] if name in self._results else None

    async def get(self, name: str) -> Analysis:
        """Return the analysis of a system. The first call begins its measurement."""
        measurement = self._console.measurements.get(name)
        measured = measurement.measured
        if measured is None:
            return Analysis(measurement, problem=measurement.problem)
        known = self._results.get(name)
        if known is None or known[0] is not measured:
            prices = read_prices(self._console.settings, "").prices
            try:
                results = await asyncio.to_thread(analyse, measured, prices)
            except HoldfastError as error:
                return Analysis(measurement, problem=format_message(error))
            known = self._results[name] = (measured, results)
        return Analysis(measurement, known[1])


def analyse(measured: MeasuredSystem, prices: PriceList) -> Results:
    """Return the costs and the findings of a measured system."""
    design = to_design(measured)
    return Results(
        measured.measured_on,
        prices.name,
        design.measures,
        {id: compute_pattern_cost(measured.system, each, prices) for id, each in design.measures.items()},
        apply_rules(design),
    )
