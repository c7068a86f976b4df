"""A system's own measurements: passes each count or measured value to the subscribers.

`stores.count("duplicates_dropped")` adds to a counter, `stores.measure("time_to_route_seconds", 1.8)` to a
distribution. Subscribers (the metrics at `/metrics`, a story, a test) receive each one; without subscribers
nothing happens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from holdfast.core.errors import InvalidRequest

# Names that Prometheus shows unchanged at /metrics.
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One value that was counted or measured."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["count", "measure"] = "count"


Listener: TypeAlias = Callable[[Measurement], None]


class Measurements:
    """The subscribers to measurements, shared by stores and all their component views."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with every measurement from now on."""
        self._listeners.append(listener)

    def publish(self, measurement: Measurement) -> None:
        """Pass a measurement to the subscribers.

        Raise `InvalidRequest` for an invalid name or a negative count.
        """
        if not _NAME.fullmatch(measurement.name):
            raise InvalidRequest(
                f"Invalid metric name {measurement.name!r}: expected lower-case letters, digits and "
                "underscores."
            )
        if measurement.kind == "count" and measurement.value < 0:
            raise InvalidRequest(
                f"Invalid value {measurement.value:g} for the counter {measurement.name}: expected 0 or more."
            )
        for listener in self._listeners:
            listener(measurement)
