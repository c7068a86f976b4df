"""The design check: apply every rule to one system, with its patterns measured on its sample data.

Each rule is a function in `rules/`; its docstring says what it looks for. The check uses the sample, not the
configured store, so that it gives the same findings on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.core.progress import Progress, ignore_progress
from holdfast.model.system import System
from holdfast.reports.cost.measured_system import MeasuredSystem, measure_system
from holdfast.reports.cost.transaction_weights import apply_transaction_weights
from holdfast.reports.design.rules import indexes, items, partitions, patterns, queues, sql_and_cache, what_if
from holdfast.reports.design.rules.base import Design, Finding, Rule
from holdfast.reports.measurement.data_sources import open_sample_data

__all__ = [
    "apply_rules",
    "build_design",
    "check_design",
    "to_design",
]

RULES: Final[tuple[Rule, ...]] = (
    patterns.find_uncallable_examples,
    patterns.find_unlisted_tables,
    patterns.find_failing_examples,
    patterns.find_missing_sample,
    patterns.find_queries_without_key,
    patterns.find_scans,
    patterns.find_rates_without_volume,
    patterns.find_invalid_quantities,
    patterns.find_unused_patterns,
    indexes.find_unused_indexes,
    indexes.find_too_many_indexes,
    indexes.find_wide_projections,
    indexes.find_narrow_projections,
    indexes.find_few_partition_keys,
    partitions.find_hot_partitions,
    items.find_oversized_items,
    items.find_growing_collections,
    items.find_items_never_removed,
    items.find_entities_without_lifetime,
    items.find_reserved_words,
    queues.find_queue_limit_violations,
    queues.find_zero_visibility_timeouts,
    queues.find_queues_without_dead_letters,
    queues.find_conflicting_retentions,
    queues.find_unconnected_queues,
    queues.find_undeclared_queues_and_buckets,
    queues.find_receivers_without_delete,
    queues.find_busy_fifo_queues,
    sql_and_cache.find_unfiltered_changes,
    sql_and_cache.find_star_columns,
    sql_and_cache.find_unlimited_reads,
    sql_and_cache.find_undeclared_schemas,
    sql_and_cache.find_long_cache_lifetimes,
    what_if.find_what_if_limits,
)

_SEVERITY_ORDER: Final = ("error", "warning", "info")


async def check_design(system: System, *, progress: Progress = ignore_progress) -> list[Finding]:
    """Measure the patterns on the sample data, in temporary stores, and return every finding, most severe
    first.
    """
    return apply_rules(await build_design(system, progress=progress))


async def build_design(system: System, *, progress: Progress = ignore_progress) -> Design:
    """Return the system's design, measured on its sample or, without a sample, on empty tables."""
    async with open_sample_data(system, progress=progress) as source:
        return to_design(await measure_system(system, source, progress=progress))


def to_design(measured: MeasuredSystem) -> Design:
    """Return the design of a system that was measured."""
    measures = apply_transaction_weights(measured.system, measured.measures)
    by_id = {each.pattern.id: each for each in measures}
    return Design(measured.system, by_id, measured.has_data, measured.key_counts)


def apply_rules(design: Design, rules: Iterable[Rule] = RULES) -> list[Finding]:
    """Apply the rules to a design and return the findings, the most severe first."""
    found = [finding for rule in rules for finding in rule(design)]
    return sorted(found, key=lambda finding: _SEVERITY_ORDER.index(finding.severity))
