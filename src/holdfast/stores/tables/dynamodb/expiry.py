"""`hide_expired` on DynamoDB: hides expired items that the service has not removed yet.

`hide_expired` is a Holdfast feature: the service shows an item until it removes it, which may take days.
Hiding it requires the table's lifetime attribute, which `DescribeTimeToLive` returns; the engine caches it
for a minute. An index that does not project this attribute still shows expired items.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.limits import MAX_EXPIRED_AGE_S
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

CACHE_S: Final = 60.0


async def load_expiry(table: str, service: Service) -> Expiry | None:
    """Return the expiry of the table's items, or None if they do not expire.

    Asks the service at most once a minute.
    """
    now = service.clock.now()
    known = service.lifetimes.get(table)
    if known is None or not 0 <= now - known[1] < CACHE_S:
        response = await service.send("DescribeTimeToLive", {"TableName": table})
        known = service.lifetimes[table] = (_parse_attribute(response["TimeToLiveDescription"]), now)
    return None if known[0] is None else Expiry(known[0], now)


def _parse_attribute(description: dict[str, str]) -> str | None:
    """Return the lifetime attribute, or None if the table's items do not expire."""
    return (
        description.get("AttributeName")
        if description["TimeToLiveStatus"] in ("ENABLING", "ENABLED")
        else None
    )


class Expiry(NamedTuple):
    """The expiry of a table's items: the lifetime attribute, and the time of the operation."""

    attribute: str
    now: float

    @property
    def _expired_range(self) -> tuple[int, int]:
        """The earliest end of life that counts as expired, and the first that does not.

        An end too long ago is treated as a mistake, as the service does.
        """
        return math.floor(self.now - MAX_EXPIRED_AGE_S) + 1, math.floor(self.now) + 1

    def is_expired(self, item: Item) -> bool:
        """Return whether the item's end of life is past, but not more than five years ago (a mistake, as for
        the service).
        """
        end = item.get(self.attribute)
        oldest, next_end = self._expired_range
        return isinstance(end, int | Decimal) and type(end) is not bool and oldest <= end < next_end

    def project_visible(self, item: Item | None, projection: Projection | None) -> Item | None:
        """Project an item that was read with `widen_projection`. Return None if it has expired."""
        if item is None or self.is_expired(item):
            return None
        return item if projection is None else project(projection, item)

    def widen_projection(self, projection: Projection | None) -> Projection | None:
        """Return the projection with the lifetime attribute added."""
        if projection is None:
            return None
        return (*(path for path in projection if path.root != self.attribute), Path(self.attribute))

    def build_filter(self, condition: Condition | None) -> Condition:
        """Build a filter that hides expired items and also applies the condition."""
        end, (oldest, next_end) = Path(self.attribute), self._expired_range
        visible = Or(
            (
                AttributeNotExists(end),
                Not(AttributeType(end, "N")),
                Compare("<", end, Literal(oldest)),
                Compare(">=", end, Literal(next_end)),
            )
        )
        return visible if condition is None else And((condition, visible))
