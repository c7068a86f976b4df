"""Errors about damaged items and indexes: they name what is damaged and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from holdfast.core.errors import DataDamaged
from holdfast.operations.values import Item
from holdfast.stores.sqlite.checksums import is_checksum_error
from holdfast.stores.tables.embedded.table import KeyBytes, Table


def report_damaged_item(table: Table, key_bytes: KeyBytes) -> DataDamaged:
    """Return the error for an item that does not match its checksum."""
    key = _decode_key(table, key_bytes)
    if key is None:
        return report_damaged_rows(table, None)
    return DataDamaged(
        f"The item {key} of {table.name} is damaged: it does not match its checksum. Restore the table from "
        "a backup; other items are served.",
        table=table.name,
        key=key,
    )


def report_damaged_index(table: Table, index: str, key_bytes: KeyBytes) -> DataDamaged:
    """Return the error for a row of an index whose item has another key in this index."""
    key = _decode_key(table, key_bytes)
    if key is None:
        return report_damaged_rows(table, index)
    return DataDamaged(
        f"The index {table.name}.{index} is damaged: its row for the item {key} does not match the item. "
        "Restore the table from a backup; items are still served by their keys.",
        table=table.name,
        key=key,
    )


def report_damaged_row(rows: str, row: int) -> DataDamaged:
    """Return the error for a row that background work or a stream reads; `rows` is the name in the file."""
    return DataDamaged(
        f"Row {row} of {rows} is damaged: it does not match its checksum. `holdfast doctor --deep` names "
        "what is damaged: restore that from a backup."
    )


@contextmanager
def damage_reported(table: Table, key_bytes: KeyBytes) -> Iterator[None]:
    """Raise `DataDamaged` for this item if a statement of the block finds a damaged page."""
    try:
        yield
    except (apsw.IOError, apsw.CorruptError, UnicodeDecodeError) as error:
        if isinstance(error, apsw.IOError) and not is_checksum_error(error):
            raise
        raise report_damaged_item(table, key_bytes) from error


def report_damaged_rows(table: Table, index: str | None) -> DataDamaged:
    """Return the error for keys of a table or index on a damaged page: items may be missing between them."""
    subject = table.name if index is None else f"{table.name}.{index}"
    return DataDamaged(
        f"Keys of {subject} are on a damaged page, so that items between them may be missing. Restore the "
        "table from a backup; items are still served by their keys.",
        table=table.name,
    )


def _decode_key(table: Table, key_bytes: KeyBytes) -> Item | None:
    """Return the key of an item; None if the bytes are damaged so that they are no key."""
    try:
        return table.decode_key(key_bytes)
    except (ArithmeticError, ValueError, IndexError):
        return None
