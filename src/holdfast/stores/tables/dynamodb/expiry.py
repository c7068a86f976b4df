"""Expired items that the service has not removed yet, hidden from operations with `hide_expired`.

`hide_expired` is a Holdfast feature: the service shows an item until it removes it, which may take days.
Hiding it requires the table's lifetime attribute, which `DescribeTimeToLive` returns; it is read once in a
while for each table. An index that does not project this attribute still shows expired items.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.limits import EXPIRED_AGE_S_MAX
from holdfast.operations.expressions import project
from holdfast.operations.expressions.nodes import (
    And,
    AttributeNotExists,
    AttributeType,
    Compare,
    Condition,
    Literal,
    Not,
    Or,
    Path,
    Projection,
)
from holdfast.operations.values import Item

if TYPE_CHECKING:
    from holdfast.stores.tables.dynamodb.service import Service

KNOWN_FOR_S: Final = 60.0


async def expiry_of(table: str, service: Service) -> Expiry | None:
    """Return how the table's items expire, or None if they do not."""
    now = service.clock.now()
    known = service.lifetimes.get(table)
    if known is None or not 0 <= now - known[1] < KNOWN_FOR_S:
        answer = await service.ask("DescribeTimeToLive", {"TableName": table})
        known = service.lifetimes[table] = (_attribute(answer["TimeToLiveDescription"]), now)
    return None if known[0] is None else Expiry(known[0], now)


def _attribute(told: dict[str, str]) -> str | None:
    return told.get("AttributeName") if told["TimeToLiveStatus"] in ("ENABLING", "ENABLED") else None


class Expiry(NamedTuple):
    attribute: str
    now: float

    @property
    def _ends(self) -> tuple[int, int]:
        """Return the earliest end of life that counts as expired and the first that does not. An end too long
        ago is treated as a mistake.
        """
        return math.floor(self.now - EXPIRED_AGE_S_MAX) + 1, math.floor(self.now) + 1

    def hides(self, item: Item) -> bool:
        end = item.get(self.attribute)
        oldest, next_end = self._ends
        return isinstance(end, int | Decimal) and type(end) is not bool and oldest <= end < next_end

    def shown_of(self, item: Item | None, projection: Projection | None) -> Item | None:
        """Return what the caller sees of an item that was read with the `widened` projection, None if it is
        hidden.
        """
        if item is None or self.hides(item):
            return None
        return item if projection is None else project(projection, item)

    def widened(self, projection: Projection | None) -> Projection | None:
        """Return the projection with the lifetime attribute added."""
        if projection is None:
            return None
        return (*(path for path in projection if path.root != self.attribute), Path(self.attribute))

    def beside(self, condition: Condition | None) -> Condition:
        """Build a filter that hides expired items and also applies the condition."""
        end, (oldest, next_end) = Path(self.attribute), self._ends
        shown = Or(
            (
                AttributeNotExists(end),
                Not(AttributeType(end, "N")),
                Compare("<", end, Literal(oldest)),
                Compare(">=", end, Literal(next_end)),
            )
        )
        return shown if condition is None else And((condition, shown))
