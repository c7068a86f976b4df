"""What a design said it would cost, beside what that comes to: its own quantities at the prices of its time, the right
quantities at the same prices, and these at the prices that are asked now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.model.stated_costs import Billed, StatedCost, StatedCosts, StatedSize
from holdfast.reports.prices import PriceList, price_list

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class ComparedCost:
    """One line. `stated` is its figure, `reckoned` what its own quantity comes to; both at the prices of its time."""

    name: str
    billed: Billed
    quantity: float
    price: str
    stated: float
    reckoned: float
    corrected_quantity: float
    corrected: float
    today: float
    why: str

    @property
    def calculation(self) -> str:
        """As the document has it: `50,000 write units × 1.25 per million`."""
        return f"{told_quantity(self.quantity)} {self.billed} × {self.price}"


@dataclass(frozen=True)
class Comparison:
    """All lines, and their totals. `figures` is what the figures add up to as they are printed."""

    source: str
    prices: PriceList
    today_prices: PriceList
    costs: tuple[ComparedCost, ...]
    sizes: tuple[StatedSize, ...]
    stated: float
    stated_bytes: float

    @property
    def figures(self) -> float:
        return _added(each.stated for each in self.costs)

    @property
    def reckoned(self) -> float:
        return sum(each.reckoned for each in self.costs)

    @property
    def corrected(self) -> float:
        return sum(each.corrected for each in self.costs)

    @property
    def today(self) -> float:
        return sum(each.today for each in self.costs)

    @property
    def added_bytes(self) -> float:
        return sum(each.stated_bytes for each in self.sizes)

    @property
    def corrected_bytes(self) -> float:
        return sum(each.corrected_bytes for each in self.sizes)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Whether its totals are the sums of their lines."""
        found = []
        if self.figures != self.stated:
            found.append(
                f"The figures as printed add up to {self.figures:.2f}, unrounded to {self.reckoned:.3f}; "
                f"stated is {self.stated:.2f}."
            )
        if self.sizes and self.added_bytes != self.stated_bytes:
            found.append(
                f"The sizes as printed add up to {self.added_bytes / MEGABYTE:,.1f} MB; stated is "
                f"{self.stated_bytes / MEGABYTE:,.0f} MB."
            )
        return tuple(found)


def compared(stated: StatedCosts, today: PriceList) -> Comparison:
    then = price_list(stated.prices)
    return Comparison(
        stated.source,
        then,
        today,
        tuple(_compared(each, then, today) for each in stated.costs),
        tuple(stated.sizes),
        stated.total,
        stated.size_total_bytes,
    )


def _compared(line: StatedCost, then: PriceList, today: PriceList) -> ComparedCost:
    return ComparedCost(
        line.name,
        line.billed,
        line.quantity,
        _told_price(line.billed, then),
        line.figure,
        line.quantity * _price(line.billed, then),
        line.corrected,
        line.corrected * _price(line.billed, then),
        line.corrected * _price(line.billed, today),
        line.why,
    )


def _price(billed: Billed, prices: PriceList) -> float:
    match billed:
        case "GB stored":
            return prices.storage_gb_month
        case "GB recoverable":
            return prices.recovery_gb_month
        case "write units":
            return prices.write_unit
        case "read units":
            return prices.read_unit


def _told_price(billed: Billed, prices: PriceList) -> str:
    match billed:
        case "GB stored":
            return f"{prices.storage_gb_month:.2f}"
        case "GB recoverable":
            return f"{prices.recovery_gb_month:.2f}"
        case "write units":
            return f"{prices.write_units_million:.2f} per million"
        case "read units":
            return f"{prices.read_units_million:.2f} per million"


def told_quantity(quantity: float) -> str:
    """Units are whole; of gigabytes there are parts."""
    return f"{quantity:,.0f}" if quantity >= 1 else f"{quantity:.3g}"


def _added(figures: Iterable[float]) -> float:
    """In hundredths, as they are printed: 0.03 and 0.06 are 0.09."""
    return round(sum(figures), 2)
