"""Build the rows of `holdfast patterns`: one per pattern, as JSON if wanted, optionally with its measure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.model.patterns import Pattern
from holdfast.model.system import System
from holdfast.reports.examples import Example, list_examples

if TYPE_CHECKING:
    from holdfast.reports.measurement.pattern_measures import Measure


@dataclass(frozen=True)
class PatternRow:
    """One pattern.

    `table` names the table, queue, bucket, SQL table or cache key; several names are joined by commas.
    """

    system: str
    id: str
    name: str
    purpose: str
    rate: Mapping[str, Any]
    store: str | None
    operation: str | None
    table: str | None
    index: str | None
    components: tuple[str, ...]
    measure: Measure | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the row in the JSON form that other programs rely on."""
        row: dict[str, Any] = {
            "system": self.system,
            "id": self.id,
            "name": self.name,
            "purpose": self.purpose,
            "rate": dict(self.rate),
            "store": self.store,
            "operation": self.operation,
            "table": self.table,
            "index": self.index,
            "components": list(self.components),
        }
        return row if self.measure is None else row | measure_to_json(self.measure)


def build_pattern_rows(system: System, measures: Mapping[str, Measure] | None = None) -> list[PatternRow]:
    """Return one row for each pattern, in declaration order."""
    measures = measures or {}
    return [
        _build_row(system, example, measures.get(example.pattern.id)) for example in list_examples(system)
    ]


def measure_to_json(measure: Measure) -> dict[str, Any]:
    """Return the measure as JSON; nulls and the reason if it was not measured."""
    is_measured = measure.is_measured
    return {
        "items_read": measure.items_read if is_measured else None,
        "items_returned": measure.items_returned if is_measured else None,
        "units": measure.units.total if is_measured else None,
        "ms": None if measure.ms is None else round(measure.ms, 3),
        "reason": measure.reason,
    }


def compute_calls_per_month(system: System, pattern: Pattern[..., Any]) -> float | None:
    """Return the pattern's calls per month; None if its rate refers to an undeclared volume."""
    volume = system.design.load.volumes.get(pattern.rate.per)
    return None if volume is None else pattern.rate.times * volume.per_month


def _build_row(system: System, example: Example, measure: Measure | None) -> PatternRow:
    """Return the row of one pattern; operation and table are None if its example fails."""
    pattern, operation = example.pattern, example.operation
    return PatternRow(
        system.name,
        pattern.id,
        pattern.name,
        pattern.purpose,
        {
            "per": pattern.rate.per,
            "times": pattern.rate.times,
            "per_month": compute_calls_per_month(system, pattern),
        },
        None if operation is None else operation.store,
        None if operation is None else operation.kind,
        ", ".join(example.resource_names) or None,
        ", ".join(example.indexes) or None,
        tuple(component.name for component in system.find_components(pattern)),
        measure,
    )
