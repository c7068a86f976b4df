"""The embedded tables engine: DynamoDB's semantics in process, durable in one SQLite file.

engine.py     runs operations: reads where they are asked, writes through the committer
table.py      a table compiled for use; records.py what is kept about it; describe.py how it is told
validate/     checks that need the table and nothing else
plan/         what is to be done, decided purely
storage/      rows in, rows out: the only SQL
act/          each operation taken through validate, plan and storage
jobs/         backfills, copies, expiry and trimming, in small steps
faults.py     throttling, conflicts and lagging indexes on demand; index_lag.py how indexes lag
"""

from __future__ import annotations

from holdfast.stores.tables.embedded.engine import EmbeddedTables, open_tables
from holdfast.stores.tables.embedded.faults import Faults

__all__ = ["EmbeddedTables", "Faults", "open_tables"]
