"""The state of each declared queue of a system and of its dead-letter queue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.core.errors import NotFound
from holdfast.model.queues import Queue
from holdfast.operations.queues import DescribeQueue
from holdfast.runtime.stores import Stores

__all__ = ["QueueState", "read_queue_state", "read_queue_states"]


@dataclass(frozen=True)
class QueueState:
    """The state of a declared queue, or of its dead-letter queue. The counts are None if it is not created
    yet.
    """

    system: str
    queue: str
    physical_name: str
    fifo: bool
    dead_letters: bool
    exists: bool
    visible: int | None = None
    in_flight: int | None = None
    delayed: int | None = None
    oldest_age_s: float | None = None

    @property
    def backlog(self) -> int:
        """All messages of the queue; 0 if it is not created yet."""
        return (self.visible or 0) + (self.in_flight or 0) + (self.delayed or 0)


async def read_queue_states(stores: Stores) -> list[QueueState]:
    """Return the state of each queue of the stores' system.

    A queue with a dead-letter queue has two entries, the queue first. Without queues, no store is opened.
    """
    assert stores.system is not None
    return [
        await read_queue_state(stores, each, dead=dead)
        for each in stores.system.queues
        for dead in ((False, True) if each.max_receives is not None else (False,))
    ]


async def read_queue_state(stores: Stores, queue: Queue[Any], *, dead: bool) -> QueueState:
    """Describe the queue, or its dead-letter queue if `dead`; a queue that does not exist has no counts."""
    assert stores.system is not None
    name = queue.physical_name(stores.environment, dead_letter=dead)
    try:
        described = await stores.engines.get("queues").run(DescribeQueue(name))
    except NotFound:
        return QueueState(stores.system.name, queue.name, name, queue.fifo, dead, exists=False)
    return QueueState(
        stores.system.name,
        queue.name,
        name,
        queue.fifo,
        dead,
        True,
        described.visible,
        described.in_flight,
        described.delayed,
        described.oldest_age_s,
    )
