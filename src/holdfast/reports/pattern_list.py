"""The list of a system's patterns, as rows that people and programs read; with measures where they were taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.model.patterns import Pattern
from holdfast.model.system import System
from holdfast.reports.examples import Example, examples_of
from holdfast.reports.measuring import Measure


@dataclass(frozen=True)
class PatternRow:
    """One pattern. `table` is the queue, the bucket, the table of SQL or the key of the cache too; several of one operation
    are joined by commas.
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

    def as_json(self) -> dict[str, Any]:
        """The shape that other programs rely on."""
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
        return row if self.measure is None else row | measured_json(self.measure)


def pattern_rows(system: System, measures: Mapping[str, Measure] | None = None) -> list[PatternRow]:
    """One row for each pattern, in the order they are declared."""
    measures = measures or {}
    return [_row(system, example, measures.get(example.pattern.id)) for example in examples_of(system)]


def measured_json(measure: Measure) -> dict[str, Any]:
    """Nulls where it was not measured, with the reason."""
    is_measured = measure.is_measured
    return {
        "items_read": measure.items_read if is_measured else None,
        "items_returned": measure.items_returned if is_measured else None,
        "units": measure.units.total if is_measured else None,
        "ms": None if measure.ms is None else round(measure.ms, 3),
        "reason": measure.reason,
    }


def calls_per_month(system: System, pattern: Pattern[..., Any]) -> float | None:
    """How often a pattern runs in a month; None where its rate names nothing that the system has a volume of."""
    volume = system.load.volumes.get(pattern.rate.per)
    return None if volume is None else pattern.rate.times * volume.per_month


def _row(system: System, example: Example, measure: Measure | None) -> PatternRow:
    pattern, operation = example.pattern, example.operation
    return PatternRow(
        system.name,
        pattern.id,
        pattern.name,
        pattern.purpose,
        {
            "per": pattern.rate.per,
            "times": pattern.rate.times,
            "per_month": calls_per_month(system, pattern),
        },
        None if operation is None else operation.store,
        None if operation is None else operation.kind,
        ", ".join(example.places) or None,
        ", ".join(example.indexes) or None,
        tuple(component.name for component in system.components_of(pattern)),
        measure,
    )
