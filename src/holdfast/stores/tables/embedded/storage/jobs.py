"""Storage of job records: background work that survives the process that started it.

Each job has one row, which holds its progress.
"""

from __future__ import annotations

from typing import Final

import apsw
import msgspec

from holdfast.stores.tables.embedded.records import Job

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Job)


def add(connection: apsw.Connection, job: Job) -> None:
    """Insert a new job, which the worker finds at its next check."""
    connection.execute("INSERT INTO jobs (record) VALUES (?)", (_ENCODER.encode(job),))


def list_pending(connection: apsw.Connection) -> list[tuple[int, Job]]:
    """Return all unfinished jobs with their ids, oldest first."""
    rows = connection.execute("SELECT id, record FROM jobs ORDER BY id")
    return [(id, _DECODER.decode(record)) for id, record in rows]


def find(connection: apsw.Connection, id: int) -> Job | None:
    """Return the job with this id, or None."""
    row = connection.execute("SELECT record FROM jobs WHERE id = ?", (id,)).fetchone()
    return None if row is None else _DECODER.decode(row[0])


def save(connection: apsw.Connection, id: int, job: Job) -> None:
    """Store the job's progress."""
    connection.execute("UPDATE jobs SET record = ? WHERE id = ?", (_ENCODER.encode(job), id))


def remove(connection: apsw.Connection, id: int) -> None:
    connection.execute("DELETE FROM jobs WHERE id = ?", (id,))
