"""`Usage`, the record of one request to an engine, and `Meter`, which collects those of a block of code.

`Stores` records one `Usage` per request to an engine. A `Meter` collects those of a block of code, so that a
number can be traced to the pattern that caused it; the metrics collect those of a process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from holdfast.operations.tables import ConsumedCapacity, Units


@dataclass(frozen=True, slots=True)
class Usage:
    """One request to an engine. `error` is the label of the error it raised, if any."""

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
    # These include attempts that the engine retried.
    throttle_events: int = 0
    throttled_requests: int = 0
    # For stores other than tables, `table` names the queue or bucket.
    store: str = "tables"

    @property
    def units(self) -> Units:
        """The capacity units consumed by all tables together."""
        return sum((each.total for each in self.capacity), Units())


@dataclass(slots=True)
class Meter:
    """The usages of a block of code, in the order they ended."""

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

    def filter_by_pattern(self, pattern: str) -> Meter:
        """Return a meter with the usages of one pattern."""
        return Meter([usage for usage in self.usages if usage.pattern == pattern])

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns that ran, in the order of their first use."""
        return tuple(dict.fromkeys(usage.pattern for usage in self.usages if usage.pattern))


_METERS: ContextVar[tuple[Meter, ...]] = ContextVar("meters", default=())


@contextmanager
def meter_usage() -> Iterator[Meter]:
    """Collect the usages of operations inside the `with`, including those of tasks started inside."""
    meter = Meter()
    token = _METERS.set((*_METERS.get(), meter))
    try:
        yield meter
    finally:
        _METERS.reset(token)


def get_active_meters() -> tuple[Meter, ...]:
    """Return the meters that are currently collecting."""
    return _METERS.get()
