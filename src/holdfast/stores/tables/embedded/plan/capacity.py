"""Consumed capacity of the embedded engine, computed by DynamoDB's arithmetic.

Reads: one unit per 4 KiB, half if eventually consistent, twice if transactional. A page sums its items before
it rounds; a batch rounds each item. Writes: one unit per 1 KiB of the larger of the item before and after,
twice if transactional; each index that changes is written too.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.limits import READ_UNIT_BYTES, WRITE_UNIT_BYTES
from holdfast.operations.tables import CapacityDetail, ConsumedCapacity, Units
from holdfast.operations.values import are_equal
from holdfast.stores.tables.embedded.plan.change import Change, IndexEdit


def count_read_units(size_bytes: int, *, consistent: bool) -> float:
    """Return the units of reading one item. A missing item costs the minimum."""
    return _count_blocks(size_bytes, READ_UNIT_BYTES) * (1.0 if consistent else 0.5)


def count_page_units(size_bytes: int, *, consistent: bool) -> float:
    """Return the units of a page. A page that reads nothing costs the minimum."""
    return max(1, -(-size_bytes // READ_UNIT_BYTES)) * (1.0 if consistent else 0.5)


def _count_blocks(size_bytes: int, unit: int) -> int:
    """Return how many units of `unit` bytes the size takes, at least one."""
    return max(1, -(-size_bytes // unit))


def count_write_units(old_size: int, new_size: int) -> float:
    """Return the units of writing one item, by the larger of its sizes."""
    return float(_count_blocks(max(old_size, new_size), WRITE_UNIT_BYTES))


def measure_write(change: Change | None, detail: CapacityDetail, table: str) -> ConsumedCapacity | None:
    """Return the capacity of one write, or None if the caller does not want it.

    `change` is None if there was nothing to delete.
    """
    return None if detail == "NONE" else measure_change(change, table)


def measure_change(
    change: Change | None, table: str, *, factor: float = 1.0, checked_bytes: int = 0
) -> ConsumedCapacity:
    """Return the capacity of a write; `factor` multiplies all of its units.

    Without a change (a condition check, a delete of a missing item) it is charged for `checked_bytes`.
    """
    if change is None:
        return ConsumedCapacity(table, Units(write=count_write_units(checked_bytes, 0) * factor))
    own = count_write_units(change.old.size if change.old else 0, change.new_size)
    local_indexes: dict[str, Units] = {}
    global_indexes: dict[str, Units] = {}
    for edit in change.edits:
        units = _count_index_units(edit, change)
        if units:
            (global_indexes if edit.index.is_global else local_indexes)[edit.index.name] = Units(
                write=units * factor
            )
    return ConsumedCapacity(table, Units(write=own * factor), local_indexes, global_indexes)


def _count_index_units(edit: IndexEdit, change: Change) -> float:
    """Return the units of one index.

    A changed key costs a delete and a put. An unchanged key costs one write, or nothing if the index's copy
    is unchanged.
    """
    if edit.old is None or edit.new is None:
        return count_write_units(edit.old_size, edit.new_size)
    if edit.old != edit.new:
        return count_write_units(edit.old_size, 0) + count_write_units(0, edit.new_size)
    assert change.old is not None
    assert change.new is not None
    if are_equal(edit.index.project(change.old.item), edit.index.project(change.new)):
        return 0.0
    return count_write_units(edit.old_size, edit.new_size)


def sum_by_table(
    capacities: Iterable[ConsumedCapacity], *, transactional: bool = False
) -> tuple[ConsumedCapacity, ...]:
    """Sum capacities: one entry per table, in the order the tables first appear."""
    totals: dict[str, ConsumedCapacity] = {}
    for one in capacities:
        former = totals.get(one.table)
        totals[one.table] = ConsumedCapacity(
            one.table,
            one.own + former.own if former else one.own,
            _merge(former.local_indexes if former else {}, one.local_indexes),
            _merge(former.global_indexes if former else {}, one.global_indexes),
            transactional,
        )
    return tuple(totals.values())


def _merge(left: dict[str, Units], right: dict[str, Units]) -> dict[str, Units]:
    """Return the sums of the units by index name."""
    merged = dict(left)
    for name, units in right.items():
        merged[name] = merged[name] + units if name in merged else units
    return merged
