"""What operations used: who asked, what was read and returned, units and time.

`Stores` writes one `Usage` per request to an engine. A `Meter` collects those of one stretch of work, so that a
figure can be traced to the pattern that read it; the metrics collect those of a process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from holdfast.operations.tables import ConsumedCapacity, Units


@dataclass(frozen=True, slots=True)
class Usage:
    """One request to an engine. `error` is the name of what it raised, if it did."""

    pattern: str | None
    component: str | None
    operation: str
    table: str
    index: str | None
    items_read: int = 0
    items_returned: int = 0
    ms: float = 0.0
    capacity: tuple[ConsumedCapacity, ...] = ()
    error: str | None = None
    # Attempts that the engine waited out and tried again are in these too.
    throttle_events: int = 0
    throttled_requests: int = 0
    # Of another store than tables, `table` is the queue or the bucket.
    store: str = "tables"

    @property
    def units(self) -> Units:
        return sum((each.total for each in self.capacity), Units())


@dataclass(slots=True)
class Meter:
    """The usages of one stretch of work, in the order they ended."""

    usages: list[Usage] = field(default_factory=list)

    @property
    def items_read(self) -> int:
        return sum(usage.items_read for usage in self.usages)

    @property
    def items_returned(self) -> int:
        return sum(usage.items_returned for usage in self.usages)

    @property
    def units(self) -> Units:
        return sum((usage.units for usage in self.usages), Units())

    @property
    def ms(self) -> float:
        return sum(usage.ms for usage in self.usages)

    def of_pattern(self, pattern: str) -> Meter:
        return Meter([usage for usage in self.usages if usage.pattern == pattern])

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns that ran, in the order they were first used."""
        return tuple(dict.fromkeys(usage.pattern for usage in self.usages if usage.pattern))


_METERS: ContextVar[tuple[Meter, ...]] = ContextVar("meters", default=())


@contextmanager
def metered() -> Iterator[Meter]:
    """Collects what runs inside, tasks that are started inside included."""
    meter = Meter()
    token = _METERS.set((*_METERS.get(), meter))
    try:
        yield meter
    finally:
        _METERS.reset(token)


def meters_running() -> tuple[Meter, ...]:
    return _METERS.get()
