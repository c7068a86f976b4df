"""What a unit of work is given: the connection, one moment of the clock, and whom to wake once it is committed."""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.stores.sqlite import Connection


@dataclass(slots=True)
class Writing:
    """`wakes` has the names of the queues in which something may be received sooner than was known; `sweeps` says that
    it is this unit's turn to remove some of what is over."""

    connection: Connection
    now: float
    sweeps: bool = False
    wakes: set[str] = field(default_factory=set)
