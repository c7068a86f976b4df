"""`MeasuredSystem`: what a cost follows from, measured once and priced as often as needed.

The prices, the load and the growth of a system change its cost, but not what a call of a pattern uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from holdfast.core.progress import Progress, ignore_progress
from holdfast.model.load import Load
from holdfast.model.system import System
from holdfast.operations.tables import TableDescription
from holdfast.reports.cost.request_cost import StoredObjects, count_stored_objects
from holdfast.reports.measurement.data_sources import DataSource, open_sample_data
from holdfast.reports.measurement.key_counts import count_index_keys
from holdfast.reports.measurement.pattern_measures import Measure, Target, measure_patterns
from holdfast.runtime import describe_table


@dataclass(frozen=True)
class MeasuredSystem:
    """A system, what each call of its patterns uses, and what it stores.

    `measures` have no transaction weights, because these depend on the load. `key_counts` are those of the
    sample, empty if something else was measured.
    """

    system: System
    measured_on: str
    has_data: bool
    measures: tuple[Measure, ...]
    descriptions: Mapping[str, TableDescription | None]
    objects: Mapping[str, StoredObjects] = field(default_factory=dict)
    key_counts: Mapping[Target, int] = field(default_factory=dict)

    def with_load(self, load: Load) -> MeasuredSystem:
        """Return it with another load."""
        design = replace(self.system.design, load=load)
        return replace(self, system=replace(self.system, design=design))


async def measure_system(
    system: System, source: DataSource, *, progress: Progress = ignore_progress
) -> MeasuredSystem:
    """Measure every pattern of a system on the data source.

    Patterns that cannot run there are measured on the sample data instead, unless they failed.
    """
    # Before measuring, which may add optional indexes: they are not billed.
    descriptions = {table.name: await describe_table(source.stores, table) for table in system.tables}
    objects = await count_stored_objects(system, source)
    key_counts = await count_index_keys(source.stores, system) if source.is_sample else {}
    measures = await measure_patterns(source, system.patterns, progress=progress)
    measured_on = source.description
    if not source.is_sample and any(_can_be_completed(each) for each in measures):
        measures = await _complete_from_sample(system, measures, progress)
        measured_on = f"{source.description}, and on sample data what could not be measured there"
    return MeasuredSystem(
        system, measured_on, source.has_data, tuple(measures), descriptions, objects, key_counts
    )


async def _complete_from_sample(
    system: System, measures: Iterable[Measure], progress: Progress
) -> list[Measure]:
    """Measure on the sample what was not measured; return all measures."""
    measures = list(measures)
    left = [each.pattern for each in measures if _can_be_completed(each)]
    async with open_sample_data(system, progress=progress) as source:
        found = {each.pattern.id: each for each in await measure_patterns(source, left, progress=progress)}
    return [found.get(each.pattern.id, each) for each in measures]


def _can_be_completed(measure: Measure) -> bool:
    """Return True if the pattern was skipped: neither measured nor failed."""
    return not measure.is_measured and not measure.has_failed
