"""Consumed capacity, by DynamoDB's arithmetic.

Reads: 4 KiB a unit, half of it when eventually consistent, twice when transactional; a page sums its items
before it rounds, a batch rounds item by item. Writes: 1 KiB a unit of the larger of the item before and
after, twice when transactional; each index that changes is written too.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.limits import READ_UNIT_BYTES, WRITE_UNIT_BYTES
from holdfast.operations.tables import CapacityDetail, ConsumedCapacity, Units
from holdfast.operations.values import same
from holdfast.stores.tables.embedded.plan.change import Change, IndexEdit


def read_units(size_bytes: int, *, consistent: bool) -> float:
    """Units of reading one item; looking for one that is not there costs the least unit."""
    return _blocks(size_bytes, READ_UNIT_BYTES) * (1.0 if consistent else 0.5)


def page_units(size_bytes: int, *, consistent: bool) -> float:
    """Units of a page: nothing read costs nothing on an index or table that was only looked into."""
    return max(1, -(-size_bytes // READ_UNIT_BYTES)) * (1.0 if consistent else 0.5)


def _blocks(size_bytes: int, unit: int) -> int:
    return max(1, -(-size_bytes // unit))


def write_units(old_size: int, new_size: int) -> float:
    return float(_blocks(max(old_size, new_size), WRITE_UNIT_BYTES))


def of_write(change: Change | None, detail: CapacityDetail, table: str) -> ConsumedCapacity | None:
    """What one write consumed. `change` is None where there was nothing to delete."""
    return None if detail == "NONE" else of_change(change, table)


def of_change(
    change: Change | None, table: str, *, factor: float = 1.0, checked: int = 0
) -> ConsumedCapacity:
    """Where nothing changed, an item of `checked` bytes was looked at: a condition checked, nothing to
    delete.
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
    """Moving costs a removal and a put; staying costs one write, and none if the index sees no difference."""
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
    """One entry per table, in the order the tables were first seen."""
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
