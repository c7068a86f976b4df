"""Consumed capacity, by DynamoDB's arithmetic.

Reads: one unit per 4 KiB, half if eventually consistent, twice if transactional. A page sums its items before
it rounds; a batch rounds each item. Writes: one unit per 1 KiB of the larger of the item before and after,
twice if transactional; each index that changes is written too.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.limits import READ_UNIT_BYTES, WRITE_UNIT_BYTES
from holdfast.operations.tables import CapacityDetail, ConsumedCapacity, Units
from holdfast.operations.values import same
from holdfast.stores.tables.embedded.plan.change import Change, IndexEdit


def read_units(size_bytes: int, *, consistent: bool) -> float:
    """Return the units of reading one item. A missing item costs the minimum."""
    return _blocks(size_bytes, READ_UNIT_BYTES) * (1.0 if consistent else 0.5)


def page_units(size_bytes: int, *, consistent: bool) -> float:
    """Return the units of a page. A page that reads nothing costs the minimum."""
    return max(1, -(-size_bytes // READ_UNIT_BYTES)) * (1.0 if consistent else 0.5)


def _blocks(size_bytes: int, unit: int) -> int:
    return max(1, -(-size_bytes // unit))


def write_units(old_size: int, new_size: int) -> float:
    return float(_blocks(max(old_size, new_size), WRITE_UNIT_BYTES))


def of_write(change: Change | None, detail: CapacityDetail, table: str) -> ConsumedCapacity | None:
    """Return the capacity that one write consumed. `change` is None if there was nothing to delete."""
    return None if detail == "NONE" else of_change(change, table)


def of_change(
    change: Change | None, table: str, *, factor: float = 1.0, checked: int = 0
) -> ConsumedCapacity:
    """Return the capacity of a write. Without a change, it is charged for the `checked` bytes of the item: a
    condition check, or a delete with nothing to delete.
    """
    if change is None:
        return ConsumedCapacity(table, Units(write=write_units(checked, 0) * factor))
    own = write_units(change.old.size if change.old else 0, change.new_size)
    local: dict[str, Units] = {}
    globally: dict[str, Units] = {}
    for edit in change.edits:
        units = _index_units(edit, change)
        if units:
            (globally if edit.index.is_global else local)[edit.index.name] = Units(write=units * factor)
    return ConsumedCapacity(table, Units(write=own * factor), local, globally)


def _index_units(edit: IndexEdit, change: Change) -> float:
    """Return the units of one index. Moving costs a delete and a put; staying costs one write, or none if the
    index's copy does not change.
    """
    if edit.old is None or edit.new is None:
        return write_units(edit.old_size, edit.new_size)
    if edit.old != edit.new:
        return write_units(edit.old_size, 0) + write_units(0, edit.new_size)
    assert change.old is not None
    assert change.new is not None
    if same(edit.index.view(change.old.item), edit.index.view(change.new)):
        return 0.0
    return write_units(edit.old_size, edit.new_size)


def summed(
    capacities: Iterable[ConsumedCapacity], *, transactional: bool = False
) -> tuple[ConsumedCapacity, ...]:
    """Return one entry per table, in the order the tables first appear."""
    totals: dict[str, ConsumedCapacity] = {}
    for one in capacities:
        former = totals.get(one.table)
        totals[one.table] = ConsumedCapacity(
            one.table,
            one.own + former.own if former else one.own,
            _merged(former.local_indexes if former else {}, one.local_indexes),
            _merged(former.global_indexes if former else {}, one.global_indexes),
            transactional,
        )
    return tuple(totals.values())


def _merged(left: dict[str, Units], right: dict[str, Units]) -> dict[str, Units]:
    merged = dict(left)
    for name, units in right.items():
        merged[name] = merged[name] + units if name in merged else units
    return merged
