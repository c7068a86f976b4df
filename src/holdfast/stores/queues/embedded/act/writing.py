"""The context of a unit of work: the connection, one moment of the clock, and the queues to wake after the
commit.

Units that share a transaction share what they know of the file (`Known`), because nothing else writes
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
    """Facts cached for one transaction: queues by name, the newest message by lot, and queues whose waiters
    were woken.
    """

    queues: dict[str, QueueRow | None] = field(default_factory=dict)
    newest: dict[int, float] = field(default_factory=dict)
    rung: set[str] = field(default_factory=set)

    def forget(self) -> None:
        """Drop the cached facts after a unit that may have changed the catalog or was undone."""
        self.queues.clear()
        self.newest.clear()


@dataclass(slots=True)
class Writing:
    """The context of one unit of work.

    `wakes` has the names of queues in which a message may be due sooner than was known. `sweeps` says that
    this unit must also remove some expired rows.
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
        """Return the send time for a message sent now. A clock that was set back must not make it older than
        the previous message.
        """
        newest = self.known.newest
        before = newest.get(queue.lot)
        if before is None:
            before = messages.newest_sent_at(self.connection, queue.lot)
        newest[queue.lot] = moment = max(self.now, before)
        return moment
