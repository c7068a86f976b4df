"""Double the measured write units of patterns that run inside transactions, as DynamoDB bills them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from holdfast.model.entities.writes import ConditionCheck, Transact
from holdfast.model.system import System
from holdfast.operations.tables import Units
from holdfast.reports.examples import build_example
from holdfast.reports.measurement.pattern_measures import Measure

# DynamoDB writes each item of a transaction twice: to prepare and to commit.
TRANSACTION_WEIGHT: Final = 2


def apply_transaction_weights(system: System, measures: Iterable[Measure]) -> list[Measure]:
    """Return the measures, with doubled write units for the patterns declared as transacted."""
    return [
        _apply_weight(each) if each.pattern.id in system.design.load.transacted_patterns else each
        for each in measures
    ]


def _apply_weight(measure: Measure) -> Measure:
    """Double the write units, unless the pattern was measured as a transaction."""
    if isinstance(build_example(measure.pattern).operation, Transact | ConditionCheck):
        return measure
    return replace(
        measure,
        write_weight=TRANSACTION_WEIGHT,
        units_by_target=tuple((target, _double_writes(units)) for target, units in measure.units_by_target),
    )


def _double_writes(units: Units) -> Units:
    return Units(units.read, units.write * TRANSACTION_WEIGHT)
