"""The outbox in SQL: rows written with the change they announce, then relayed to their queues.

Each row is in the transaction of its change, and is sent at least once, in order per aggregate and queue.

ddl (the tables) → patterns → storage (claims and marks for the relay) → declaration (what a system declares
and calls). `holdfast.guarantees.messaging.outbox` is the same in tables.
"""

from __future__ import annotations

from holdfast.guarantees.messaging.sql_outbox.ddl import outbox_ddl
from holdfast.guarantees.messaging.sql_outbox.declaration import SqlOutbox

__all__ = ["SqlOutbox", "outbox_ddl"]
