"""Items whose life is over and which the service has not removed yet, kept from those who ask for that.

`hide_expired` is ours: the service shows an item until it removes it, which may be days. To hide it one must
know the attribute that says when its life ends; `DescribeTimeToLive` tells, and is asked once in a while a
table. An index that does not hold this attribute cannot tell, and shows such items.
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
    """How items of the table end, None if they do not."""
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
        """The first end that is over and the first that is not: what ended too long ago is taken for a
        mistake.
        """
        return math.floor(self.now - EXPIRED_AGE_S_MAX) + 1, math.floor(self.now) + 1

    def hides(self, item: Item) -> bool:
        end = item.get(self.attribute)
        oldest, next_end = self._ends
        return isinstance(end, int | Decimal) and type(end) is not bool and oldest <= end < next_end

    def shown_of(self, item: Item | None, projection: Projection | None) -> Item | None:
        """What the caller sees of an item that was asked for with the `widened` projection."""
        if item is None or self.hides(item):
            return None
        return item if projection is None else project(projection, item)

    def widened(self, projection: Projection | None) -> Projection | None:
        """A projection that shows the end of life too."""
        if projection is None:
            return None
        return (*(path for path in projection if path.root != self.attribute), Path(self.attribute))

    def beside(self, condition: Condition | None) -> Condition:
        """A filter that keeps what is not hidden, and meets the condition."""
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
