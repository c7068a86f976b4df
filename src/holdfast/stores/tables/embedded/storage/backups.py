"""Storage of backup records: save, find, list and remove."""

from __future__ import annotations

from typing import Final

import apsw
import msgspec

from holdfast.stores.tables.embedded.records import BackupRecord

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(BackupRecord)


def save(connection: apsw.Connection, backup: BackupRecord) -> None:
    """Insert or replace a backup's record."""
    summary = backup.summary
    connection.execute(
        "INSERT OR REPLACE INTO backups VALUES (?, ?, ?, ?)",
        (summary.id, summary.table, summary.created_at, _ENCODER.encode(backup)),
    )


def find(connection: apsw.Connection, table: str, id: str) -> BackupRecord | None:
    """Return the record of a table's backup, or None."""
    row = connection.execute("SELECT record FROM backups WHERE id = ? AND name = ?", (id, table)).fetchone()
    return None if row is None else _DECODER.decode(row[0])


def list_all(connection: apsw.Connection) -> list[BackupRecord]:
    """Return all backup records, oldest first."""
    rows = connection.execute("SELECT record FROM backups ORDER BY created_at, id")
    return [_DECODER.decode(record) for (record,) in rows]


def remove(connection: apsw.Connection, id: str) -> None:
    connection.execute("DELETE FROM backups WHERE id = ?", (id,))
