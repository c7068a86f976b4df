"""How `holdfast cost` shows what a design said it would cost beside what that comes to."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from holdfast.cli.amounts import money

if TYPE_CHECKING:
    from holdfast.reports.stated_costs import Comparison


def as_json(found: Comparison) -> dict[str, Any]:
    return {
        "source": found.source,
        "prices": found.prices.name,
        "today_prices": found.today_prices.name,
        "costs": [asdict(each) | {"calculation": each.calculation} for each in found.costs],
        "totals": {
            "stated": found.stated,
            "figures": found.figures,
            "reckoned": found.reckoned,
            "corrected": found.corrected,
            "today": found.today,
        },
        "sizes": [asdict(each) for each in found.sizes],
        "size_totals": {
            "stated_bytes": found.stated_bytes,
            "added_bytes": found.added_bytes,
            "corrected_bytes": found.corrected_bytes,
        },
        "remarks": list(found.remarks),
    }


def print_stated_costs(system: str, found: Comparison) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console

    _print_costs(system, found)
    if found.sizes:
        _print_sizes(system, found)
    for remark in found.remarks:
        console().print(escape(remark))
    console().print(
        f"[dim]stated, reckoned and corrected by the prices of {found.prices.name}, today by those of "
        f"{found.today_prices.name}[/]\n"
    )


def _print_costs(system: str, found: Comparison) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, number, plain_table
    from holdfast.reports.stated_costs import told_quantity

    table = plain_table(
        "line", "as stated", number("figure"), number("comes to"), number("rather"), number("corrected"),
        number("today"), "because", title=f"{system}: what {found.source} says it costs",
    )  # fmt: skip
    for each in found.costs:
        amounts = (each.reckoned, each.corrected, each.today)
        reckoned, corrected, today = map(money, amounts)
        table.add_row(
            escape(each.name), escape(each.calculation), f"{each.stated:.2f}", reckoned,
            told_quantity(each.corrected_quantity),
            corrected, today, escape(each.why),
        )  # fmt: skip
    totals = (found.reckoned, found.corrected, found.today)
    reckoned, corrected, today = map(money, totals)
    table.add_row("[bold]total[/]", "", f"{found.stated:.2f}", reckoned, "", corrected, today, "")
    console().print(table)
    console().print()


def _print_sizes(system: str, found: Comparison) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console, number, plain_table

    table = plain_table(
        "what", "as stated", number("MB"), number("corrected"), "because",
        title=f"{system}: what {found.source} says it keeps",
    )  # fmt: skip
    for each in found.sizes:
        sizes = (each.stated_bytes, each.corrected_bytes)
        table.add_row(escape(each.name), escape(each.note), *map(_megabytes, sizes), escape(each.why))
    sizes = (found.stated_bytes, found.corrected_bytes)
    table.add_row("[bold]total[/]", "", *map(_megabytes, sizes), "")
    console().print(table)
    console().print()


def _megabytes(size_bytes: float) -> str:
    from holdfast.reports.stated_costs import MEGABYTE

    return f"{size_bytes / MEGABYTE:,.3f}"
