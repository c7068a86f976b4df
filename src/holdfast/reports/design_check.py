"""The design check: every rule over one system, from the patterns' examples and what they use on its sample data.

Each rule is a function in `checks/`, with what it looks for in its docstring. The sample is used rather than the
configured store: a design is right or wrong on any machine.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.operations import tables as requests
from holdfast.operations.expressions.nodes import Path
from holdfast.operations.values import Item
from holdfast.reports.checks import indexes, items, partitions, patterns, queues, statements, what_if
from holdfast.reports.checks.design import Design, Finding, Rule
from holdfast.reports.measuring import Target, measure
from holdfast.reports.scratch import Progress, sample_ground, silent
from holdfast.reports.transactions import as_billed
from holdfast.runtime import Stores

# From so many items per key on, the sample is taken to have every key there is.
ITEMS_PER_KEY_FEW: Final = 2

RULES: Final[tuple[Rule, ...]] = (
    patterns.examples_that_fail,
    patterns.examples_that_do_not_run,
    patterns.nothing_measured,
    patterns.queries_without_a_key,
    patterns.scans,
    patterns.rates_without_a_volume,
    patterns.quantities_below_zero,
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
    items.entities_without_an_end,
    items.reserved_words,
    queues.queue_limits,
    queues.queues_that_show_what_is_worked_on,
    queues.queues_without_dead_letters,
    queues.times_that_do_not_fit,
    queues.queues_with_one_end,
    queues.undeclared_queues_and_buckets,
    queues.consumers_of_another_queue,
    queues.receivers_that_delete_nothing,
    queues.busy_fifo_queues,
    statements.changes_of_every_row,
    statements.whatever_columns_there_are,
    statements.rows_without_a_limit,
    statements.undeclared_schemas,
    statements.kept_for_too_long,
    what_if.what_if,
)

_GRAVEST_FIRST: Final = ("error", "warning", "info")


async def check_design(system: System, *, progress: Progress = silent) -> list[Finding]:
    """Every finding, the gravest first. The patterns are run on a scratch file that is gone afterwards."""
    return findings(await examined(system, progress=progress))


async def examined(system: System, *, progress: Progress = silent) -> Design:
    """A system with its patterns measured on its sample; on empty tables where it has none."""
    async with sample_ground(system, progress=progress) as ground:
        measures = as_billed(system, await measure(ground, system.patterns, progress=progress))
        keys = await _keys_seen(ground.stores, system) if ground.has_data else {}
        return Design(system, {each.pattern.id: each for each in measures}, ground.has_data, keys)


async def _keys_seen(stores: Stores, system: System) -> dict[Target, int]:
    """How many partition keys each global index has, where on average two items or more share one.

    Where nearly every item has a key of its own, a sample says only how large it is itself.
    """
    found = {}
    for table in system.tables:
        items = await _index_keys(stores, table)
        for index in table.global_indexes:
            values = [item[index.partition] for item in items if index.partition in item]
            if len(values) >= ITEMS_PER_KEY_FEW * len(set(values)) > 0:
                found[Target(table.name, index.name)] = len(set(values))
    return found


async def _index_keys(stores: Stores, table: Table) -> list[Item]:
    """Of every item, the partition keys that indexes have it under."""
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


def findings(design: Design, rules: Iterable[Rule] = RULES) -> list[Finding]:
    found = [finding for rule in rules for finding in rule(design)]
    return sorted(found, key=lambda finding: _GRAVEST_FIRST.index(finding.severity))
