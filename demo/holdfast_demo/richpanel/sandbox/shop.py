"""The sandbox shop's orders, in the memory of the process, by normalised number."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SandboxOrder:
    """An order as the shop's API responds it."""

    number: str
    email: str
    status: str
    carrier: str = ""
    tracking: str = ""
    expected: str = ""


class SandboxShop:
    """All orders, by normalised number."""

    def __init__(self) -> None:
        self._orders: dict[str, SandboxOrder] = {}

    def add_order(self, order: SandboxOrder) -> None:
        """Add or replace an order."""
        self._orders[_normalise_number(order.number)] = order

    def find_order(self, number: str) -> dict[str, Any] | None:
        """Return an order as JSON, or None."""
        found = self._orders.get(_normalise_number(number))
        return None if found is None else asdict(found)


def _normalise_number(number: str) -> str:
    """Normalise an order number: `#W1001` and `w1001` are one order."""
    return number.strip().lstrip("#").upper()
