"""A planned change of one item: the item before and after, and its key in each index before and after."""

from __future__ import annotations

import msgspec

from holdfast.operations.values import Item, are_equal, item_size
from holdfast.stores.tables.embedded.table import Index, KeyBytes, Table


class StoredItem(msgspec.Struct, frozen=True):
    """An item as stored in its row. `id` is the row's id, `size` the item's bytes as DynamoDB counts them."""

    id: int
    item: Item
    size: int


class IndexEdit(msgspec.Struct, frozen=True):
    """An item's key in one index, before and after. The sizes are those of the index's copy of the item."""

    index: Index
    old: KeyBytes | None
    new: KeyBytes | None
    old_size: int
    new_size: int


class Change(msgspec.Struct, frozen=True):
    """A change of one item. `old` or `new` is None if the item does not exist before or after.

    `is_logged` says whether the change goes to the log, `by_service` that it is the removal of an expired
    item.
    """

    table: Table
    key_bytes: KeyBytes
    old: StoredItem | None
    new: Item | None
    new_size: int
    edits: tuple[IndexEdit, ...] = ()
    is_logged: bool = False
    by_service: bool = False


def build_replacement(
    table: Table, key_bytes: KeyBytes, old: StoredItem | None, new: Item, new_size: int
) -> Change:
    """Build the change that creates or replaces an item."""
    return Change(
        table,
        key_bytes,
        old,
        new,
        new_size,
        _build_edits(table, old, new, new_size) if table.indexes else (),
        table.logs and (old is None or not are_equal(old.item, new)),
    )


def build_removal(table: Table, key_bytes: KeyBytes, old: StoredItem, *, by_service: bool = False) -> Change:
    """Build the change that deletes an item. `by_service` marks an expired item in the log."""
    return Change(
        table,
        key_bytes,
        old,
        None,
        0,
        _build_edits(table, old, None, 0) if table.indexes else (),
        table.logs,
        by_service,
    )


def _build_edits(
    table: Table, old: StoredItem | None, new: Item | None, new_size: int
) -> tuple[IndexEdit, ...]:
    """Return the edits of all indexes that hold the item before or after."""
    edits = []
    for index in table.indexes:
        before = None if old is None else index.encode_key(old.item)
        after = None if new is None else index.encode_key(new)
        if before is None and after is None:
            continue
        edits.append(
            IndexEdit(
                index,
                before,
                after,
                _get_size_in_index(index, old.item, old.size) if before and old else 0,
                _get_size_in_index(index, new, new_size) if after and new else 0,
            )
        )
    return tuple(edits)


def _get_size_in_index(index: Index, item: Item, size: int) -> int:
    """Return the size of the index's copy of the item."""
    return size if index.projected is None else item_size(index.project(item))
