"""The smallest store on the SQLite layer: a unit of work writes a pair of rows, so that half a unit shows."""

from __future__ import annotations

import os
from collections.abc import Callable

import apsw

from holdfast.stores.sqlite import Database, Migration, Schema, Tuning
from holdfast.stores.sqlite.leases import CREATE_LEASES

# A stalled machine must not split a transaction that a test needs whole.
PATIENT = Tuning(lock_hold_ms_max=60_000)
APPLICATION = 0x70616972
SCHEMA = Schema(
    APPLICATION,
    (
        Migration(
            1,
            "CREATE TABLE pair (id INTEGER, side TEXT, filling BLOB, PRIMARY KEY (id, side));"
            + CREATE_LEASES,
        ),
    ),
)


def open_pairs(path: str | os.PathLike[str], tuning: Tuning | None = None) -> Database:
    """Open a database of pairs, creating it if it is missing."""
    return Database.open(path, SCHEMA, tuning or Tuning())


def pair(number: int, filling: bytes = b"") -> Callable[[apsw.Connection], int]:
    """Return a unit of work that writes a pair and returns its number."""

    def write(connection: apsw.Connection) -> int:
        connection.execute("INSERT INTO pair VALUES (?, 'left', ?)", (number, filling))
        connection.execute("INSERT INTO pair VALUES (?, 'right', ?)", (number, filling))
        return number

    return write


def half_a_pair(number: int, error: Exception) -> Callable[[apsw.Connection], None]:
    """Return a unit of work that writes one row and then raises."""

    def write(connection: apsw.Connection) -> None:
        connection.execute("INSERT INTO pair VALUES (?, 'left', NULL)", (number,))
        raise error

    return write


def numbers_in(database: Database) -> set[int]:
    """Return the numbers of all pairs; fail on half a pair."""
    with database.read_connection() as connection:
        rows = connection.execute("SELECT id, group_concat(side, '') FROM pair GROUP BY id").fetchall()
    assert {sides for _, sides in rows} <= {"leftright", "rightleft"}
    return {int(str(number)) for number, _ in rows}
