"""The outbox in SQL: a row written in the transaction of what it announces, and sent to its queue at least once, in order
per aggregate and queue, by any number of publishers.

ddl (the tables) → rows (what is kept, and how it is sent) → patterns → publishing (to the queues) → declaration (what a
system declares and calls). `holdfast.guarantees.outbox` is the same in tables.
"""

from __future__ import annotations

from holdfast.guarantees.sql_outbox.ddl import outbox_ddl
from holdfast.guarantees.sql_outbox.declaration import SqlOutbox
from holdfast.guarantees.sql_outbox.publishing import PublishReport
from holdfast.guarantees.sql_outbox.rows import Backlog

__all__ = ["Backlog", "PublishReport", "SqlOutbox", "outbox_ddl"]
