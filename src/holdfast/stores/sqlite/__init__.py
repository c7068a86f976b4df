"""The SQLite floor: one file, one committer, shared by the embedded stores that stand on it.

A store above opens a `Database` with its `Schema`, reads through it, and submits units of work that share
fsynced transactions. This floor knows nothing of what the rows mean.

    database.py     opens and closes; the face the stores see
    connections.py  how a connection is opened and tuned
    schema.py       whose file it is, which version, and how it is migrated
    readers.py      connections to read with, one for each thread
    committer.py    group commit: many units of work, one transaction, one fsync
    batch.py        one such transaction
    receipts.py     what a submitter waits on, from a thread or from an event loop
    turn.py         the fair turn between processes
    checkpoints.py  when the write-ahead log goes back into the file
    leases.py       background work in one process at a time
    failures.py     every error of the driver, as one of ours
    forks.py        what a forked child must not touch

A database in memory has the same face, with `shared_reader.py` and `inline_committer.py` behind it.
"""

from __future__ import annotations

from apsw import Connection

from holdfast.stores.sqlite.batch import Batch
from holdfast.stores.sqlite.connections import Tuning
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.leases import Lease, Leases
from holdfast.stores.sqlite.readers import Reader, Rows
from holdfast.stores.sqlite.receipts import Receipt
from holdfast.stores.sqlite.schema import Migration, Schema

__all__ = [
    "Batch",
    "Connection",
    "Database",
    "Lease",
    "Leases",
    "Migration",
    "Reader",
    "Receipt",
    "Rows",
    "Schema",
    "Tuning",
]
