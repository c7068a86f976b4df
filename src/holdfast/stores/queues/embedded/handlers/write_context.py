"""The context of one unit of work of the embedded queues: connection, time, and queues to wake afterwards.

Units that share a transaction share a cache of rows (`TransactionCache`), because nothing else writes
meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core.deadlines import DeadlineWatch
from holdfast.core.errors import NotFound
from holdfast.stores.queues.embedded.storage import catalog, messages
from holdfast.stores.queues.embedded.storage.catalog import QueueRow
from holdfast.stores.queues.embedded.storage.messages import IsReadable, assume_readable
from holdfast.stores.sqlite import Connection


@dataclass(slots=True)
class TransactionCache:
    """Rows cached for one transaction: queues by name, the newest send time by lot, and queues whose waiters
    were woken.
    """

    queues: dict[str, QueueRow | None] = field(default_factory=dict)
    newest_sent_at: dict[int, float] = field(default_factory=dict)
    woken: set[str] = field(default_factory=set)

    def clear(self) -> None:
        """Drop the cached rows after a unit that may have changed the catalog or was undone."""
        self.queues.clear()
        self.newest_sent_at.clear()


@dataclass(slots=True)
class WriteContext:
    """The context of one unit of work.

    `queues_to_wake` has the names of queues in which a message may be due sooner than was known.
    `should_sweep` says that this unit must also remove some expired rows, `is_salvaging` that it has met a
    damaged page and must read messages one by one, those for which `is_readable` returns True.
    """

    connection: Connection
    now: float
    deadlines: DeadlineWatch
    should_sweep: bool = False
    is_salvaging: bool = False
    is_readable: IsReadable = assume_readable
    cache: TransactionCache = field(default_factory=TransactionCache)
    queues_to_wake: set[str] = field(default_factory=set)

    def get_queue(self, name: str) -> QueueRow:
        """Return the queue. Raise `NotFound` without one."""
        found = self.find_queue(name)
        if found is None:
            raise NotFound(catalog.QUEUE_NOT_FOUND.format(name=name))
        return found

    def find_queue(self, name: str) -> QueueRow | None:
        """Return the queue, or None."""
        queues = self.cache.queues
        if name not in queues:
            queues[name] = catalog.find_queue(self.connection, name)
        return queues[name]

    def get_sent_at(self, queue: QueueRow) -> float:
        """Return the send time for a message sent now.

        After the clock was set back, it is still not older than the previous message's.
        """
        newest = self.cache.newest_sent_at
        before = newest.get(queue.lot)
        if before is None:
            before = messages.find_newest_sent_at(self.connection, queue.lot)
        newest[queue.lot] = moment = max(self.now, before)
        return moment
