"""The SQLite layer that the embedded tables and queues share: one file, one committer.

A store opens a `Database` with its `Schema`, reads through it, and submits units of work that share fsynced
transactions. This layer does not know what the rows mean.

    database.py        opens and closes a database; the interface that the stores use
    connections.py     opens and tunes connections
    schema.py          checks the file's owner and version, and migrates it
    readers.py         reading connections, one per thread
    committer.py       group commit: many units of work, one transaction, one fsync
    batch.py           one such transaction
    commit_futures.py  the result that a submitter waits for, in a thread or in an event loop
    write_lock.py      fair access to the write lock between processes
    checkpoints.py     moves the write-ahead log into the file
    file_copy.py       copies a live file at one moment
    log_damage.py      detects a damaged write-ahead log
    leases.py          background work in one process at a time
    errors.py          maps the driver's errors to Holdfast's
    forks.py           protects connections and locks from a forked child

A database in memory has the same interface, implemented by `shared_reader.py` and `inline_committer.py`.
"""

from __future__ import annotations

from apsw import Connection

from holdfast.stores.sqlite.batch import Batch
from holdfast.stores.sqlite.commit_futures import CommitFuture
from holdfast.stores.sqlite.connections import Tuning
from holdfast.stores.sqlite.database import Database
from holdfast.stores.sqlite.leases import Lease, Leases
from holdfast.stores.sqlite.readers import Reader, Rows
from holdfast.stores.sqlite.schema import Migration, Schema

__all__ = [
    "Batch",
    "CommitFuture",
    "Connection",
    "Database",
    "Lease",
    "Leases",
    "Migration",
    "Reader",
    "Rows",
    "Schema",
    "Tuning",
]
