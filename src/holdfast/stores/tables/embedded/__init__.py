"""The embedded tables engine: DynamoDB's semantics in process, durable in one SQLite file.

engine.py     runs operations: reads in the calling thread, writes through the committer
table.py      a table compiled for use; records.py its stored record; descriptions.py its description
validate/     checks that need only the table
plan/         pure decisions: which changes to make
storage/      rows in, rows out: the only SQL
handlers/     take each operation through validate, plan and storage
jobs/         backfills, copies, expiry, retention and erasure, in small steps
faults.py     throttling, conflicts and index lag on demand; index_lag.py implements the lag
"""

from __future__ import annotations

from holdfast.stores.tables.embedded.engine import EmbeddedTables, open_tables
from holdfast.stores.tables.embedded.faults import EngineFaults

__all__ = ["EmbeddedTables", "EngineFaults", "open_tables"]
