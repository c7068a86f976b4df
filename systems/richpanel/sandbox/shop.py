"""The shop's data: orders, as a shop of our own making would tell them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Order:
    number: str
    email: str
    status: str
    carrier: str = ""
    tracking: str = ""
    expected: str = ""


class Shop:
    def __init__(self) -> None:
        self._orders: dict[str, Order] = {}

    def take(self, order: Order) -> None:
        self._orders[_plain(order.number)] = order

    def order(self, number: str) -> dict[str, Any] | None:
        found = self._orders.get(_plain(number))
        return None if found is None else asdict(found)


def _plain(number: str) -> str:
    """`#W1001` and `w1001` are one order."""
    return number.strip().lstrip("#").upper()
