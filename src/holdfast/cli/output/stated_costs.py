"""Print the stated costs of `holdfast cost`: the document's figures next to the computed ones."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holdfast.cli.output.money import format_money

if TYPE_CHECKING:
    from holdfast.reports.cost.stated_costs import StatedCostComparison


def to_json(comparison: StatedCostComparison) -> dict[str, Any]:
    return {
        "source": comparison.source,
        "prices": comparison.prices.name,
        "today_prices": comparison.today_prices.name,
        "costs": [asdict(each) | {"calculation": each.calculation} for each in comparison.costs],
        "totals": {
            "stated": comparison.stated,
            "figures": comparison.figures_total,
            "reckoned": comparison.reckoned,
            "corrected": comparison.corrected,
            "today": comparison.today,
        },
        "sizes": [asdict(each) for each in comparison.sizes],
        "size_totals": {
            "stated_bytes": comparison.stated_bytes,
            "added_bytes": comparison.added_bytes,
            "corrected_bytes": comparison.corrected_bytes,
        },
        "remarks": list(comparison.remarks),
    }


def print_stated_costs(system: str, comparison: StatedCostComparison) -> None:
    """Print the compared costs and sizes of a system, the remarks, and the price lists that were used."""
    from rich.markup import escape

    from holdfast.cli.output.console import get_console

    _print_costs(system, comparison)
    if comparison.sizes:
        _print_sizes(system, comparison)
    for remark in comparison.remarks:
        get_console().print(escape(remark))
    get_console().print(
        f"[dim]Stated, calculated and corrected amounts use the price list {comparison.prices.name}; "
        f"today's use {comparison.today_prices.name}.[/]\n"
    )


def _print_costs(system: str, comparison: StatedCostComparison) -> None:
    """Print each line of the document: stated, calculated, corrected, and at today's prices."""
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console, number_column
    from holdfast.reports.cost.stated_costs import format_quantity

    table = build_table(
        "item", "calculation", number_column("stated"), number_column("calculated"),
        number_column("correct\nquantity"), number_column("corrected"), number_column("today"), "reason",
        title=f"{system}: costs stated in {comparison.source}",
    )  # fmt: skip
    for each in comparison.costs:
        amounts = (each.reckoned, each.corrected, each.today)
        reckoned, corrected, today = map(format_money, amounts)
        table.add_row(
            escape(each.name), escape(each.calculation), f"{each.stated:.2f}", reckoned,
            format_quantity(each.corrected_quantity),
            corrected, today, escape(each.why),
        )  # fmt: skip
    totals = (comparison.reckoned, comparison.corrected, comparison.today)
    reckoned, corrected, today = map(format_money, totals)
    table.add_row("[bold]total[/]", "", f"{comparison.stated:.2f}", reckoned, "", corrected, today, "")
    get_console().print(table)
    get_console().print()


def _print_sizes(system: str, comparison: StatedCostComparison) -> None:
    from rich.markup import escape

    from holdfast.cli.output.console import build_table, get_console, number_column

    table = build_table(
        "data", "as stated", number_column("MB"), number_column("corrected"), "reason",
        title=f"{system}: sizes stated in {comparison.source}",
    )  # fmt: skip
    for each in comparison.sizes:
        sizes = (each.stated_bytes, each.corrected_bytes)
        table.add_row(escape(each.name), escape(each.note), *map(_format_megabytes, sizes), escape(each.why))
    sizes = (comparison.stated_bytes, comparison.corrected_bytes)
    table.add_row("[bold]total[/]", "", *map(_format_megabytes, sizes), "")
    get_console().print(table)
    get_console().print()


def _format_megabytes(size_bytes: float) -> str:
    from holdfast.reports.cost.stated_costs import MEGABYTE

    return f"{size_bytes / MEGABYTE:,.3f}"
