"""The embedded queues engine: SQS's semantics in process, durable in one SQLite file, for several processes.

engine.py       runs operations: writes through the committer, receives that wait until a message is due
waiters.py      the waiting receives of this process
wakeup_pipe.py  wakes the waiting receives of other processes after a commit
handlers/       each operation, from a checked request to its result
storage/        rows in, rows out: the only SQL
"""

from __future__ import annotations

from holdfast.stores.queues.embedded.engine import EmbeddedQueues, open_queues

__all__ = ["EmbeddedQueues", "open_queues"]
