"""Rows of tables, indexes and logs in bulk, for background work: a bounded batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

import apsw

from holdfast.core.limits import EXPIRED_AGE_S_MAX, STEP_BYTES_MAX
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Place

T = TypeVar("T")


class ItemRow(NamedTuple):
    id: int
    pk: bytes
    sk: bytes
    size: int
    item: bytes


class ChangeRow(NamedTuple):
    seq: int
    pk: bytes
    sk: bytes
    old: bytes | None


def within_step(found: Iterable[T], size: Callable[[T], int]) -> list[T]:
    """Return as many of the rows as fit into one step, and at least one if there is any."""
    taken: list[T] = []
    room = STEP_BYTES_MAX
    for one in found:
        taken.append(one)
        room -= size(one)
        if room <= 0:
            break
    return taken


def after(connection: apsw.Connection, number: int, row: int, until: int, limit: int) -> list[ItemRow]:
    """Return items in row order, from the one after `row` up to `until`."""
    found = connection.execute(
        f"SELECT id, pk, sk, size, item FROM items_{number} WHERE id > ? AND id <= ? ORDER BY id LIMIT ?",
        (row, until, limit),
    )
    return within_step((ItemRow(*one) for one in found), lambda one: one.size)


def last(connection: apsw.Connection, number: int) -> int:
    return connection.execute(f"SELECT coalesce(max(id), 0) FROM items_{number}").get  # type: ignore[no-any-return]


def expired(connection: apsw.Connection, number: int, now: int, limit: int) -> list[ItemRow]:
    """Return items past their end of life. As in DynamoDB, an end more than five years ago is ignored."""
    found = connection.execute(
        f"SELECT id, pk, sk, size, item FROM items_{number}"
        " WHERE expires > ? AND expires <= ? ORDER BY expires LIMIT ?",
        (now - EXPIRED_AGE_S_MAX, now, limit),
    )
    return within_step((ItemRow(*one) for one in found), lambda one: one.size)


def add_index_row(
    connection: apsw.Connection, number: int, slot: int, place: Place, row: ItemRow, held: int | None
) -> bool:
    """Add a row and return whether it was new: a write during the backfill may have added it already."""
    connection.execute(
        f"INSERT OR IGNORE INTO index_{number}_{slot} (ipk, isk, pk, sk, id, size) VALUES (?, ?, ?, ?, ?, ?)",
        (*place, row.pk, row.sk, row.id, held),
    )
    return bool(connection.changes())


def set_expiry(connection: apsw.Connection, number: int, row: int, expires: int | None) -> None:
    connection.execute(f"UPDATE items_{number} SET expires = ? WHERE id = ?", (expires, row))


def changes_back(
    connection: apsw.Connection, number: int, newest: int, oldest: int, limit: int
) -> list[ChangeRow]:
    """Return changes from `newest` back to `oldest`, both included."""
    found = connection.execute(
        f"SELECT seq, pk, sk, old FROM changes_{number} WHERE seq <= ? AND seq >= ? ORDER BY seq DESC LIMIT "
        "?",
        (newest, oldest, limit),
    )
    return within_step((ChangeRow(*one) for one in found), lambda one: len(one.old or b""))


def put_raw(writer: Writer, number: int, place: Place, blob: bytes | None, size: int) -> None:
    """Write an item of a backup: a row without indexes, log or lifetime."""
    connection = writer.connection
    former = connection.execute(
        f"SELECT id, size FROM items_{number} WHERE pk = ? AND sk = ?", place
    ).fetchone()
    if former is not None:
        connection.execute(f"DELETE FROM items_{number} WHERE id = ?", (former[0],))
        writer.tally(number, 0, -1, -former[1])
    if blob is not None:
        connection.execute(
            f"INSERT INTO items_{number} (pk, sk, size, item) VALUES (?, ?, ?, ?)", (*place, size, blob)
        )
        writer.tally(number, 0, 1, size)


def empty_index(connection: apsw.Connection, number: int, slot: int, limit: int) -> bool:
    """Delete some rows of an unused index, or drop it once it is empty. Return whether rows may be left."""
    name = f"index_{number}_{slot}"
    if not _exists(connection, name):
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


def empty_table(connection: apsw.Connection, number: int, limit: int) -> bool:
    """Delete some rows of a table and its indexes. Return whether rows may be left.

    The table's counts stay until `empty_log`, because they hold the log's numbering.
    """
    slots: list[tuple[int]] = connection.execute(  # type: ignore[assignment]
        "SELECT slot FROM counts WHERE number = ? AND slot > 0", (number,)
    ).fetchall()
    if any(empty_index(connection, number, slot, limit) for (slot,) in slots):
        return True
    if not _exists(connection, f"items_{number}"):
        return False
    if _delete_first(connection, f"items_{number}", "id", "size", limit):
        return True
    connection.execute(f"DROP TABLE items_{number}")
    return False


def empty_log(connection: apsw.Connection, number: int, limit: int) -> bool:
    """Delete some records of a change log, or drop it and the counts once it is empty. Return whether any may
    be left.
    """
    size = "coalesce(length(old), 0) + coalesce(length(new), 0)"
    if _exists(connection, f"changes_{number}"):
        if _delete_first(connection, f"changes_{number}", "seq", size, limit):
            return True
        connection.execute(f"DROP TABLE changes_{number}")
    connection.execute("DELETE FROM counts WHERE number = ?", (number,))
    return False


def _delete_first(connection: apsw.Connection, name: str, column: str, size: str, limit: int) -> bool:
    """Delete the first rows of a table, as many as one step may. Return whether there were any."""
    found: list[tuple[int, int]] = connection.execute(  # type: ignore[assignment]
        f"SELECT {column}, {size} FROM {name} ORDER BY {column} LIMIT ?", (limit,)
    ).fetchall()
    taken = within_step(found, lambda one: one[1])
    if taken:
        connection.execute(f"DELETE FROM {name} WHERE {column} <= ?", (taken[-1][0],))
    return bool(taken)


def _exists(connection: apsw.Connection, name: str) -> bool:
    return bool(connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = ?", (name,)).get)
