"""A change of one item: its state before and after, and the effect on each index."""

from __future__ import annotations

import msgspec

from holdfast.operations.values import Item, item_size, same
from holdfast.stores.tables.embedded.table import Index, Place, Table


class Stored(msgspec.Struct, frozen=True):
    """An item as stored in its row."""

    id: int
    item: Item
    size: int


class IndexEdit(msgspec.Struct, frozen=True):
    """An item in one index, before and after. The sizes are those of the index's copy of the item."""

    index: Index
    old: Place | None
    new: Place | None
    old_size: int
    new_size: int


class Change(msgspec.Struct, frozen=True):
    """A change of one item. `old` or `new` is None if the item does not exist before or after; `logged` says
    whether the change goes to the log.
    """

    table: Table
    place: Place
    old: Stored | None
    new: Item | None
    new_size: int
    edits: tuple[IndexEdit, ...] = ()
    logged: bool = False
    by_service: bool = False


def replacement(table: Table, place: Place, old: Stored | None, new: Item, new_size: int) -> Change:
    """Build the change that puts an item in place of another, or of none."""
    return Change(
        table,
        place,
        old,
        new,
        new_size,
        _edits(table, old, new, new_size) if table.indexes else (),
        table.logs and (old is None or not same(old.item, new)),
    )


def removal(table: Table, place: Place, old: Stored, *, by_service: bool = False) -> Change:
    return Change(
        table,
        place,
        old,
        None,
        0,
        _edits(table, old, None, 0) if table.indexes else (),
        table.logs,
        by_service,
    )


def _edits(table: Table, old: Stored | None, new: Item | None, new_size: int) -> tuple[IndexEdit, ...]:
    edits = []
    for index in table.indexes:
        before = None if old is None else index.place(old.item)
        after = None if new is None else index.place(new)
        if before is None and after is None:
            continue
        edits.append(
            IndexEdit(
                index,
                before,
                after,
                _held(index, old.item, old.size) if before and old else 0,
                _held(index, new, new_size) if after and new else 0,
            )
        )
    return tuple(edits)


def _held(index: Index, item: Item, size: int) -> int:
    return size if index.projected is None else item_size(index.view(item))
