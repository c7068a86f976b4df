"""What a system counts of its own: duplicates dropped, fallback keys used, seconds until something was routed.

`stores.count("duplicates_dropped")` adds to a counter, `stores.measure("seconds_to_route", 1.8)` to a distribution. Who
listens (the metrics at `/metrics`, a story, a test) is told of each; where nobody does, nothing happens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from holdfast.errors import InvalidRequest

# What is shown at /metrics without being changed on the way.
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Counted:
    """One thing that was counted or measured."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
    kind: Literal["count", "measure"] = "count"


Listener: TypeAlias = Callable[[Counted], None]


class Counting:
    """Where counts go, for stores and every view of them."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Tells `listener` of everything that is counted from now on."""
        self._listeners.append(listener)

    def tell(self, counted: Counted) -> None:
        if not _NAME.fullmatch(counted.name):
            raise InvalidRequest(
                f"{counted.name!r} is no name of a metric: it has small letters, digits and underscores."
            )
        if counted.kind == "count" and counted.value < 0:
            raise InvalidRequest(f"{counted.name} is a counter, and cannot go down by {-counted.value:g}.")
        for listener in self._listeners:
            listener(counted)
