"""The design check: every rule over one system, from the patterns' examples and what they use on its sample data.

Each rule is a function in `checks/`, with what it looks for in its docstring. The sample is used rather than the
configured store: a design is right or wrong on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.model.system import System
from holdfast.reports.checks import indexes, items, partitions, patterns
from holdfast.reports.checks.design import Design, Finding, Rule
from holdfast.reports.measuring import measure
from holdfast.reports.scratch import Progress, sample_ground, silent

RULES: Final[tuple[Rule, ...]] = (
    patterns.examples_that_fail,
    patterns.examples_that_do_not_run,
    patterns.queries_without_a_key,
    patterns.scans,
    patterns.rates_without_a_volume,
    patterns.reads_and_writes_mixed_up,
    patterns.patterns_nobody_runs,
    indexes.unused_indexes,
    indexes.too_many_indexes,
    indexes.projections_too_wide,
    indexes.projections_too_narrow,
    indexes.few_partition_keys,
    partitions.hot_partitions,
    items.items_that_outgrow_the_limit,
    items.collections_that_grow,
    items.items_that_never_end,
    items.reserved_words,
)

_GRAVEST_FIRST: Final = ("error", "warning", "info")


async def check_design(system: System, *, progress: Progress = silent) -> list[Finding]:
    """Every finding, the gravest first. The patterns are run on a scratch file that is gone afterwards."""
    return findings(await examined(system, progress=progress))


async def examined(system: System, *, progress: Progress = silent) -> Design:
    """A system with its patterns measured on its sample; on empty tables where it has none."""
    async with sample_ground(system, progress=progress) as ground:
        measures = await measure(ground, system.patterns, progress=progress)
        return Design(system, {each.pattern.id: each for each in measures}, ground.has_data)


def findings(design: Design, rules: Iterable[Rule] = RULES) -> list[Finding]:
    found = [finding for rule in rules for finding in rule(design)]
    return sorted(found, key=lambda finding: _GRAVEST_FIRST.index(finding.severity))
