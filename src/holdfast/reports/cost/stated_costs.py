"""Compare the cost that a design document states with the computed cost.

Each line is computed three times: with its own quantity at the prices of its time, with the corrected
quantity at the same prices, and with the corrected quantity at today's prices.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.model.stated_costs import BilledUnit, StatedCost, StatedCosts, StatedSize
from holdfast.reports.cost.price_lists import PriceList, load_price_list

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class ComparedCost:
    """One line, at the prices of its time: the `stated` figure and the `reckoned` cost of its quantity.

    `corrected` is the cost of the corrected quantity at the same prices, `today` at today's prices.
    """

    name: str
    billed: BilledUnit
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
        """The calculation as the document prints it: `50,000 write units × 1.25 per million`."""
        return f"{format_quantity(self.quantity)} {self.billed} × {self.price}"


@dataclass(frozen=True)
class StatedCostComparison:
    """All lines and their totals."""

    source: str
    prices: PriceList
    today_prices: PriceList
    costs: tuple[ComparedCost, ...]
    sizes: tuple[StatedSize, ...]
    stated: float
    stated_bytes: float

    @property
    def figures_total(self) -> float:
        """The sum of the stated figures as printed."""
        return _sum_rounded(each.stated for each in self.costs)

    @property
    def reckoned(self) -> float:
        """The cost of the stated quantities at the prices of that time."""
        return sum(each.reckoned for each in self.costs)

    @property
    def corrected(self) -> float:
        """The cost of the corrected quantities at the prices of that time."""
        return sum(each.corrected for each in self.costs)

    @property
    def today(self) -> float:
        """The cost of the corrected quantities at today's prices."""
        return sum(each.today for each in self.costs)

    @property
    def added_bytes(self) -> float:
        """The sum of the stated sizes."""
        return sum(each.stated_bytes for each in self.sizes)

    @property
    def corrected_bytes(self) -> float:
        """The sum of the corrected sizes."""
        return sum(each.corrected_bytes for each in self.sizes)

    @property
    def remarks(self) -> tuple[str, ...]:
        """One sentence for each stated total that differs from the sum of its lines."""
        found = []
        if self.figures_total != self.stated:
            found.append(
                f"The figures as printed add up to {self.figures_total:.2f}, unrounded to "
                f"{self.reckoned:.3f}; "
                f"stated is {self.stated:.2f}."
            )
        if self.sizes and self.added_bytes != self.stated_bytes:
            found.append(
                f"The sizes as printed add up to {self.added_bytes / MEGABYTE:,.1f} MB; stated is "
                f"{self.stated_bytes / MEGABYTE:,.0f} MB."
            )
        return tuple(found)


def compare_stated_costs(stated: StatedCosts, today_prices: PriceList) -> StatedCostComparison:
    """Compare a document's stated costs with its own price list and with today's."""
    then = load_price_list(stated.prices)
    return StatedCostComparison(
        stated.source,
        then,
        today_prices,
        tuple(_compare_line(each, then, today_prices) for each in stated.costs),
        tuple(stated.sizes),
        stated.total,
        stated.size_total_bytes,
    )


def _compare_line(line: StatedCost, stated_prices: PriceList, today_prices: PriceList) -> ComparedCost:
    """Compute a line's stated, corrected and current cost from its quantities and the price lists."""
    return ComparedCost(
        line.name,
        line.billed,
        line.quantity,
        _format_price(line.billed, stated_prices),
        line.figure,
        line.quantity * _get_price(line.billed, stated_prices),
        line.corrected,
        line.corrected * _get_price(line.billed, stated_prices),
        line.corrected * _get_price(line.billed, today_prices),
        line.why,
    )


def _get_price(billed: BilledUnit, prices: PriceList) -> float:
    """Return the price of one unit of this kind."""
    match billed:
        case "GB stored":
            return prices.storage_gb_month
        case "GB recoverable":
            return prices.recovery_gb_month
        case "write units":
            return prices.write_unit
        case "read units":
            return prices.read_unit


def _format_price(billed: BilledUnit, prices: PriceList) -> str:
    """Return the published price: per GB, or per million units."""
    match billed:
        case "GB stored":
            return f"{prices.storage_gb_month:.2f}"
        case "GB recoverable":
            return f"{prices.recovery_gb_month:.2f}"
        case "write units":
            return f"{prices.write_units_million:.2f} per million"
        case "read units":
            return f"{prices.read_units_million:.2f} per million"


def format_quantity(quantity: float) -> str:
    """Format a quantity: whole units, or fractions of a gigabyte with three digits."""
    return f"{quantity:,.0f}" if quantity >= 1 else f"{quantity:.3g}"


def _sum_rounded(figures: Iterable[float]) -> float:
    """Sum figures and round to hundredths, as the figures are printed: 0.03 and 0.06 are 0.09."""
    return round(sum(figures), 2)
