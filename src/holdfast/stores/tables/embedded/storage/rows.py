"""Rows of tables, indexes and logs in bulk, for background work: one bounded batch at a time.

`number` is always the number of a table or backup, which names its rows in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

import apsw

from holdfast.core.limits import MAX_EXPIRED_AGE_S, MAX_STEP_BYTES
from holdfast.stores.tables.embedded.storage.damage import report_damaged_row
from holdfast.stores.tables.embedded.storage.row_sums import compute_change_sum, compute_sum, is_item_sound
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import KeyBytes

T = TypeVar("T")


class ItemRow(NamedTuple):
    """A row of a table's items."""

    id: int
    pk: bytes
    sk: bytes
    size: int
    item: bytes


class ChangeRow(NamedTuple):
    """A record of the change log with the item before the change."""

    seq: int
    pk: bytes
    sk: bytes
    old: bytes | None


def limit_to_step(candidates: Iterable[T], measure: Callable[[T], int]) -> list[T]:
    """Return the first rows until `MAX_STEP_BYTES` bytes are reached, at least one if there is any.

    `measure` returns the bytes of a row.
    """
    batch: list[T] = []
    bytes_left = MAX_STEP_BYTES
    for one in candidates:
        batch.append(one)
        bytes_left -= measure(one)
        if bytes_left <= 0:
            break
    return batch


def read_after(
    connection: apsw.Connection, number: int, after_id: int, until: int, limit: int
) -> list[ItemRow]:
    """Return the next items in row order, with ids above `after_id` and up to `until`.

    Stop after `limit` items, or when a step's bytes are used.
    """
    found = connection.execute(
        f"SELECT id, pk, sk, size, item, sum FROM items_{number}"
        " WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
        (after_id, until, limit),
    )
    return limit_to_step(_verify_items(number, found), lambda one: one.size)


def read_last_id(connection: apsw.Connection, number: int) -> int:
    """Return the highest row id of the table, or 0."""
    return connection.execute(f"SELECT coalesce(max(id), 0) FROM items_{number}").get  # type: ignore[no-any-return]


def find_expired(connection: apsw.Connection, number: int, now: int, limit: int) -> list[ItemRow]:
    """Return items past their end of life, earliest end first.

    An end more than five years ago is ignored, as in DynamoDB. Stop after `limit` items, or when a step's
    bytes are used.
    """
    found = connection.execute(
        f"SELECT id, pk, sk, size, item, sum FROM items_{number}"
        " WHERE expires > ? AND expires <= ? ORDER BY expires LIMIT ?",
        (now - MAX_EXPIRED_AGE_S, now, limit),
    )
    return limit_to_step(_verify_items(number, found), lambda one: one.size)


def _verify_items(number: int, found: Iterable[Any]) -> Iterator[ItemRow]:
    """Yield the rows without their checksums. Raise `DataDamaged` at the first that does not match."""
    for id, pk, sk, size, item, row_sum in found:
        if not is_item_sound((pk, sk), size, item, row_sum):
            raise report_damaged_row(f"items_{number}", id)
        yield ItemRow(id, pk, sk, size, item)


def add_index_row(
    connection: apsw.Connection,
    number: int,
    slot: int,
    key_bytes: KeyBytes,
    row: ItemRow,
    view_size: int | None,
) -> bool:
    """Add a row to an index. Return False if it exists: a write during the backfill may have added it.

    `view_size` is the size of the index's copy of the item, or None if the index holds whole items.
    """
    connection.execute(
        f"INSERT OR IGNORE INTO index_{number}_{slot} (ipk, isk, pk, sk, id, size) VALUES (?, ?, ?, ?, ?, ?)",
        (*key_bytes, row.pk, row.sk, row.id, view_size),
    )
    return bool(connection.changes())


def set_expiry(connection: apsw.Connection, number: int, row_id: int, expires: int | None) -> None:
    """Store the item's end of life in its row; None if it has none."""
    connection.execute(f"UPDATE items_{number} SET expires = ? WHERE id = ?", (expires, row_id))


def read_changes_back(
    connection: apsw.Connection, number: int, newest: int, oldest: int, limit: int
) -> list[ChangeRow]:
    """Return logged changes of the table with this number, from sequence number `newest` back to `oldest`,
    both included.

    Stop after `limit` changes, or when a step's bytes are used; at least one if there is any.
    """
    found = connection.execute(
        f"SELECT seq, pk, sk, key, old, new, sum FROM changes_{number}"
        " WHERE seq <= ? AND seq >= ? ORDER BY seq DESC LIMIT ?",
        (newest, oldest, limit),
    )
    changes = (ChangeRow(seq, pk, sk, old) for seq, pk, sk, _, old, _ in verify_changes(number, found))
    return limit_to_step(changes, lambda one: len(one.old or b""))


def verify_changes(number: int, found: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield rows that end with key, old and new image, without the checksum behind these.

    Raise `DataDamaged` at the first that does not match it.
    """
    for row in found:
        *_, key, old, new, row_sum = row
        if compute_change_sum(key, old, new) != row_sum:
            raise report_damaged_row(f"changes_{number}", row[0])
        yield row[:-1]


def put_row(writer: Writer, number: int, key_bytes: KeyBytes, blob: bytes | None, size: int) -> None:
    """Write one item of the backup with this number, or delete it if `blob` is None.

    A backup has no indexes, log or lifetimes.
    """
    connection = writer.connection
    former = connection.execute(
        f"SELECT id, size FROM items_{number} WHERE pk = ? AND sk = ?", key_bytes
    ).fetchone()
    if former is not None:
        connection.execute(f"DELETE FROM items_{number} WHERE id = ?", (former[0],))
        writer.tally(number, 0, -1, -former[1])
    if blob is not None:
        connection.execute(
            f"INSERT INTO items_{number} (pk, sk, size, item, sum) VALUES (?, ?, ?, ?, ?)",
            (*key_bytes, size, blob, compute_sum(key_bytes, size, blob)),
        )
        writer.tally(number, 0, 1, size)


def delete_index_rows(connection: apsw.Connection, number: int, slot: int, limit: int) -> bool:
    """Delete up to `limit` rows of an unused index. Return whether rows may be left.

    If the index is empty, drop it and its counts.
    """
    name = f"index_{number}_{slot}"
    if not _table_exists(connection, name):
        return False
    connection.execute(
        f"DELETE FROM {name} WHERE (ipk, isk, pk, sk) IN (SELECT ipk, isk, pk, sk FROM {name} LIMIT ?)",
        (limit,),
    )
    if connection.changes():
        return True
    connection.execute(f"DROP TABLE {name}")
    connection.execute("DELETE FROM counts WHERE number = ? AND slot = ?", (number, slot))
    return False


def delete_table_rows(connection: apsw.Connection, number: int, limit: int) -> bool:
    """Delete up to `limit` rows of a table or of its indexes. Return whether rows may be left.

    If they are empty, drop them. The table's counts stay until `delete_log_rows`, because they hold the log's
    sequence number.
    """
    slots: list[tuple[int]] = connection.execute(  # type: ignore[assignment]
        "SELECT slot FROM counts WHERE number = ? AND slot > 0", (number,)
    ).fetchall()
    if any(delete_index_rows(connection, number, slot, limit) for (slot,) in slots):
        return True
    if not _table_exists(connection, f"items_{number}"):
        return False
    if _delete_first(connection, f"items_{number}", "id", "size", limit):
        return True
    connection.execute(f"DROP TABLE items_{number}")
    return False


def delete_log_rows(connection: apsw.Connection, number: int, limit: int) -> bool:
    """Delete up to `limit` records of a change log. Return whether records may be left.

    If the log is empty, drop it and the table's counts.
    """
    size = "coalesce(length(old), 0) + coalesce(length(new), 0)"
    if _table_exists(connection, f"changes_{number}"):
        if _delete_first(connection, f"changes_{number}", "seq", size, limit):
            return True
        connection.execute(f"DROP TABLE changes_{number}")
    connection.execute("DELETE FROM counts WHERE number = ?", (number,))
    return False


def _delete_first(connection: apsw.Connection, name: str, column: str, size: str, limit: int) -> bool:
    """Delete the first rows of the table `name`, as many as one step may. Return whether there were any.

    `column` is its key, `size` the SQL expression for a row's bytes.
    """
    found: list[tuple[int, int]] = connection.execute(  # type: ignore[assignment]
        f"SELECT {column}, {size} FROM {name} ORDER BY {column} LIMIT ?", (limit,)
    ).fetchall()
    batch = limit_to_step(found, lambda one: one[1])
    if batch:
        connection.execute(f"DELETE FROM {name} WHERE {column} <= ?", (batch[-1][0],))
    return bool(batch)


def _table_exists(connection: apsw.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = ?", (name,)).get)
