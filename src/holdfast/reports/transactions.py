"""What a pattern's units are where it runs as a part of a transaction: it is measured alone, and billed twice there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from holdfast.model.system import System
from holdfast.model.writes import Check, Transact
from holdfast.operations.tables import Units
from holdfast.reports.examples import example_of
from holdfast.reports.measuring import Measure

# Each item of a transaction is written to prepare it and to commit it.
TRANSACTION_WEIGHT: Final = 2


def as_billed(system: System, measures: Iterable[Measure]) -> list[Measure]:
    """The measures, those of patterns that the load says are transacted at their weight."""
    return [_weighed(each) if each.pattern.id in system.load.transacted else each for each in measures]


def _weighed(measure: Measure) -> Measure:
    # These were measured as transactions already.
    if isinstance(example_of(measure.pattern).operation, Transact | Check):
        return measure
    return replace(
        measure,
        write_weight=TRANSACTION_WEIGHT,
        units_by_target=tuple((target, _twice(units)) for target, units in measure.units_by_target),
    )


def _twice(units: Units) -> Units:
    return Units(units.read, units.write * TRANSACTION_WEIGHT)
