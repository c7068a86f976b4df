"""The catalog of the embedded queues: the table `queues`, one row per queue with its definition and lot.

A row is small and is read when it is needed, so it is never out of date.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import apsw
import msgspec

from holdfast.core.errors import NotFound, StoreFileError
from holdfast.operations.queues import QueueDefinition

QUEUE_NOT_FOUND: Final = "The queue {name} does not exist: create it with CreateQueue, or correct the name."

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(QueueDefinition).decode


class QueueRow(NamedTuple):
    """A row of the catalog. `number` identifies the queue for good, `lot` its messages until a purge."""

    number: int
    lot: int
    definition: QueueDefinition

    @property
    def name(self) -> str:
        return self.definition.name


def find_queue(connection: apsw.Connection, name: str) -> QueueRow | None:
    """Return the queue, or None."""
    row = connection.execute("SELECT number, lot, definition FROM queues WHERE name = ?", (name,)).fetchone()
    return None if row is None else QueueRow(row[0], row[1], _decode(row[2]))


def get_queue(connection: apsw.Connection, name: str) -> QueueRow:
    """Return the queue. Raise `NotFound` without one."""
    row = find_queue(connection, name)
    if row is None:
        raise NotFound(QUEUE_NOT_FOUND.format(name=name))
    return row


def list_names(connection: apsw.Connection, prefix: str) -> tuple[str, ...]:
    """Return the names that begin with the prefix, sorted."""
    rows = connection.execute(
        "SELECT name FROM queues WHERE substr(name, 1, length(?1)) = ?1 ORDER BY name", (prefix,)
    )
    return tuple(name for (name,) in rows)


def inspect_queues(connection: apsw.Connection, path: str) -> tuple[str, ...]:
    """Return the names of the file's queues, for `holdfast doctor`.

    Raise `StoreFileError` if a definition is unreadable.
    """
    names = list_names(connection, "")
    for name in names:
        try:
            find_queue(connection, name)
        except (msgspec.MsgspecError, TypeError) as error:
            raise StoreFileError(
                f"{path} is damaged: the definition of queue {name} is unreadable."
                " Restore the file from a backup."
            ) from error
    return names


def create(connection: apsw.Connection, definition: QueueDefinition) -> None:
    """Insert a row for a new queue with an empty lot."""
    connection.execute(
        "INSERT INTO queues (name, lot, definition) VALUES (?, ?, ?)",
        (definition.name, _new_lot(connection), _encode(definition)),
    )


def update_definition(connection: apsw.Connection, queue: QueueRow, definition: QueueDefinition) -> None:
    """Replace the definition in the queue's row."""
    connection.execute(
        "UPDATE queues SET definition = ? WHERE number = ?", (_encode(definition), queue.number)
    )


def delete(connection: apsw.Connection, queue: QueueRow) -> None:
    """Delete the queue's row and mark its lot as dropped; the sweeper removes the messages."""
    connection.execute("DELETE FROM queues WHERE number = ?", (queue.number,))
    _drop_lot(connection, queue.lot)


def purge(connection: apsw.Connection, queue: QueueRow) -> None:
    """Give the queue a new, empty lot at once; the old one is cleared in batches (see `sweeper.py`)."""
    connection.execute("UPDATE queues SET lot = ? WHERE number = ?", (_new_lot(connection), queue.number))
    _drop_lot(connection, queue.lot)


def _new_lot(connection: apsw.Connection) -> int:
    """Insert an empty lot and return its number."""
    lot: int = connection.execute("INSERT INTO lots DEFAULT VALUES RETURNING lot").get
    return lot


def _drop_lot(connection: apsw.Connection, lot: int) -> None:
    """Mark the lot as dropped, so that the sweeper removes its messages."""
    connection.execute("UPDATE lots SET dropped = 1 WHERE lot = ?", (lot,))
