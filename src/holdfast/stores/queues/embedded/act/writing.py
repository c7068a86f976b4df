"""What a unit of work is given: the connection, one moment of the clock, and whom to wake once it is
committed.

Units that share a transaction share what they know of the file (`Known`), because nobody else writes
meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.core.errors import NotFound
from holdfast.stores.queues.embedded.storage import catalog, messages
from holdfast.stores.queues.embedded.storage.catalog import QueueRow
from holdfast.stores.sqlite import Connection


@dataclass(slots=True)
class Known:
    """Of one transaction: its queues by name, the newest message by lot, and whose waiters were woken."""

    queues: dict[str, QueueRow | None] = field(default_factory=dict)
    newest: dict[int, float] = field(default_factory=dict)
    rung: set[str] = field(default_factory=set)

    def forget(self) -> None:
        """After a unit that may have changed the catalog, or was undone."""
        self.queues.clear()
        self.newest.clear()


@dataclass(slots=True)
class Writing:
    """`wakes` has the names of the queues in which something may be received sooner than was known; `sweeps`
    says that it is this unit's turn to remove some of what is over.
    """

    connection: Connection
    now: float
    sweeps: bool = False
    known: Known = field(default_factory=Known)
    wakes: set[str] = field(default_factory=set)

    def queue(self, name: str) -> QueueRow:
        found = self.found(name)
        if found is None:
            raise NotFound(catalog.MISSING.format(name=name))
        return found

    def found(self, name: str) -> QueueRow | None:
        queues = self.known.queues
        if name not in queues:
            queues[name] = catalog.found(self.connection, name)
        return queues[name]

    def sent_at(self, queue: QueueRow) -> float:
        """For a message that is sent now. A clock that was set back must not make it look older than the one
        before.
        """
        newest = self.known.newest
        before = newest.get(queue.lot)
        if before is None:
            before = messages.newest_sent_at(self.connection, queue.lot)
        newest[queue.lot] = moment = max(self.now, before)
        return moment
