"""The design check: apply every rule to one system, with its patterns measured on its sample data.

Each rule is a function in `rules/`; its docstring says what it looks for. The check uses the sample, not the
configured store, so that it gives the same findings on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.core.progress import Progress, ignore_progress
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.operations import tables as requests
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.values import Item
from holdfast.reports.cost.transaction_weights import apply_transaction_weights
from holdfast.reports.design.rules import indexes, items, partitions, patterns, queues, sql_and_cache, what_if
from holdfast.reports.design.rules.base import Design, Finding, Rule
from holdfast.reports.measurement.data_sources import open_sample_data
from holdfast.reports.measurement.pattern_measures import Target, measure_patterns
from holdfast.runtime import Stores

__all__ = [
    "apply_rules",
    "build_design",
    "check_design",
]

# From so many items per key on, the sample is taken to have every key there is.
MIN_ITEMS_PER_KEY: Final = 2

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
        measures = apply_transaction_weights(
            system, await measure_patterns(source, system.patterns, progress=progress)
        )
        keys = await _count_index_keys(source.stores, system) if source.has_data else {}
        return Design(system, {each.pattern.id: each for each in measures}, source.has_data, keys)


async def _count_index_keys(stores: Stores, system: System) -> dict[Target, int]:
    """Count the partition keys of each global index that has at least two items per key on average.

    If nearly every item has its own key, the count only reflects the size of the sample, so it is left out.
    """
    found = {}
    for table in system.tables:
        items = await _read_index_keys(stores, table)
        for index in table.global_indexes:
            values = [item[index.partition] for item in items if index.partition in item]
            if len(values) >= MIN_ITEMS_PER_KEY * len(set(values)) > 0:
                found[Target(table.name, index.name)] = len(set(values))
    return found


async def _read_index_keys(stores: Stores, table: Table) -> list[Item]:
    """Scan a whole table and return, for each item, the partition keys of its global indexes."""
    names = dict.fromkeys(index.partition for index in table.global_indexes)
    if not names:
        return []
    found: list[Item] = []
    after = None
    while True:
        page = await stores.tables.run(
            requests.Scan(stores.physical_name(table), projection=tuple(map(Path, names)), start_key=after)
        )
        found += page.items or []
        after = page.last_key
        if after is None:
            return found


def apply_rules(design: Design, rules: Iterable[Rule] = RULES) -> list[Finding]:
    """Apply the rules to a design and return the findings, the most severe first."""
    found = [finding for rule in rules for finding in rule(design)]
    return sorted(found, key=lambda finding: _SEVERITY_ORDER.index(finding.severity))
