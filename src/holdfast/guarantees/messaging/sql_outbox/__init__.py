"""The outbox in SQL: rows written with the change they announce, then sent to their queues by publishers.

Each row is in the transaction of its change, and is sent at least once, in order per aggregate and queue,
by any number of publishers.

ddl (the tables) → rows (row types and sends) → patterns → publisher (to the queues) → declaration (what a
system declares and calls). `holdfast.guarantees.messaging.outbox` is the same in tables.
"""

from __future__ import annotations

from holdfast.guarantees.messaging.sql_outbox.ddl import outbox_ddl
from holdfast.guarantees.messaging.sql_outbox.declaration import SqlOutbox
from holdfast.guarantees.messaging.sql_outbox.publisher import PublishReport
from holdfast.guarantees.messaging.sql_outbox.rows import Backlog

__all__ = ["Backlog", "PublishReport", "SqlOutbox", "outbox_ddl"]
