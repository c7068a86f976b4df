"""`holdfast cost`: print units and money per month, by pattern, table, index, queue and bucket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.arguments.system_names import NONE_INSTALLED, OptionalSystemName, select_systems
from holdfast.cli.extras import get_scratch_extras
from holdfast.cli.output.money import format_money
from holdfast.cli.output.stated_costs import print_stated_costs
from holdfast.cli.output.stated_costs import to_json as stated_to_json
from holdfast.config.settings import Settings

if TYPE_CHECKING:
    from holdfast.core.progress import Progress
    from holdfast.model.system import System
    from holdfast.reports.cost.price_lists import PriceList
    from holdfast.reports.cost.system_cost import PatternCost, SystemCost


def cost(
    system: OptionalSystemName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices", metavar="FILE", help="A price list: a file, or the name of an included list."
        ),
    ] = None,
) -> None:
    """Estimate a system's monthly cost on DynamoDB, SQS and S3.

    The estimate follows from measured units and declared rates.
    """
    from holdfast.cli.output.console import print_json, progress_bar
    from holdfast.reports.cost.price_lists import load_price_list, read_price_list

    selected = load_price_list() if prices is None else read_price_list(prices)
    costs: list[SystemCost] = []
    for each in select_systems(system, get_scratch_extras):
        with progress_bar(enabled=not as_json) as progress:
            costs.append(asyncio.run(_estimate(each, selected, progress)))
    if as_json:
        print_json([_to_json(each) for each in costs])
    else:
        _print_costs(costs)


async def _estimate(system: System, prices: PriceList, progress: Progress) -> SystemCost:
    """Measure the system on its configured or sample data and return its monthly cost."""
    from holdfast.reports.cost.system_cost import estimate_cost
    from holdfast.reports.measurement.data_sources import open_data_source

    async with open_data_source(system, Settings.load(), progress=progress) as ground:
        return await estimate_cost(system, ground, prices, progress=progress)


def _to_json(estimate: SystemCost) -> dict[str, Any]:
    return {
        "system": estimate.system,
        "prices": estimate.prices.name,
        "currency": estimate.prices.currency,
        "measured_on": estimate.measured_on,
        "total": estimate.total,
        "is_complete": not estimate.uncounted,
        "not_counted": [{"id": each.pattern.id, "reason": each.reason} for each in estimate.uncounted],
        "patterns": [_pattern_to_json(each) for each in estimate.patterns],
        "tables": [asdict(each) | {"total": each.total} for each in estimate.tables],
        "indexes": [asdict(each) | {"gain": each.gain} for each in estimate.indexes],
        "queues": [asdict(each) for each in estimate.queues],
        "buckets": [asdict(each) | {"total": each.total} for each in estimate.buckets],
        "stated_costs": None if estimate.stated is None else stated_to_json(estimate.stated),
    }


def _pattern_to_json(pattern_cost: PatternCost) -> dict[str, Any]:
    return {
        "id": pattern_cost.pattern.id,
        "name": pattern_cost.pattern.name,
        "calls": pattern_cost.calls,
        "read_units": pattern_cost.read_units,
        "write_units": pattern_cost.write_units,
        "index_write_units": pattern_cost.index_write_units,
        "requests": pattern_cost.requests,
        "cost": pattern_cost.cost,
        "reason": pattern_cost.reason,
    }


def _print_costs(costs: Sequence[SystemCost]) -> None:
    """Print every table of each system's cost, its total, and the patterns that are not counted."""
    from holdfast.cli.output.console import get_console

    out = get_console()
    if not costs:
        out.print(NONE_INSTALLED)
    for each in costs:
        _print_patterns(each)
        _print_tables(each)
        _print_indexes(each)
        _print_queues(each)
        _print_buckets(each)
        if each.stated is not None:
            print_stated_costs(each.system, each.stated)
        at_least = "at least " if each.uncounted else ""
        out.print(
            f"[bold]{each.system}: {at_least}{each.prices.currency} {format_money(each.total)} per month[/], "
            f"measured on {each.measured_on}, with the price list {each.prices.name}\n"
            f"[dim]{each.prices.title}[/]"
        )
        _print_uncounted(each)
        out.print()


def _print_uncounted(estimate: SystemCost) -> None:
    """Print the patterns that the total leaves out, grouped by reason."""
    from rich.markup import escape

    from holdfast.cli.output.console import get_console

    reasons: dict[str, list[str]] = {}
    for each in estimate.uncounted:
        reasons.setdefault(each.reason or "", []).append(each.pattern.id)
    for reason, ids in reasons.items():
        verb = "is" if len(ids) == 1 else "are"
        get_console().print(f"[yellow]{', '.join(ids)} {verb} not counted[/]: {escape(reason)}")


def _print_patterns(estimate: SystemCost) -> None:
    from holdfast.cli.output.console import build_table, get_console, number_column

    requests = [number_column("requests")] if estimate.queues or estimate.buckets else []
    table = build_table(
        "id", "pattern", number_column("calls"), number_column("read\nunits"), number_column("write\nunits"),
        number_column("of these\nto indexes"), *requests, number_column("per month"),
        title=f"{estimate.system}: patterns, with units per call",
    )  # fmt: skip
    for each in estimate.patterns:
        calls = "?" if each.calls is None else f"{each.calls:,.0f}"
        units = (
            f"{units:,g}" if units else ""
            for units in (each.read_units, each.write_units, each.index_write_units, each.requests)[
                : 3 + len(requests)
            ]
        )
        table.add_row(
            each.pattern.id,
            each.pattern.name,
            calls,
            *units,
            "?" if each.cost is None else format_money(each.cost),
        )
    get_console().print(table)
    get_console().print()


def _print_tables(estimate: SystemCost) -> None:
    from holdfast.cli.output.console import build_table, get_console, number_column

    table = build_table(
        "table", number_column("items"), number_column("KB"), number_column("KB in\nindexes"),
        number_column("reads"), number_column("writes"), number_column("storage"),
        number_column("recovery"), number_column("stream"), number_column("per month"),
        title=f"{estimate.system}: tables",
    )  # fmt: skip
    for each in estimate.tables:
        amounts = (each.reads, each.writes, each.storage, each.recovery, each.stream, each.total)
        sizes = (f"{each.items:,}", f"{each.size_bytes / 1024:,.0f}", f"{each.index_bytes / 1024:,.0f}")
        table.add_row(each.table, *sizes, *map(format_money, amounts))
    get_console().print(table)
    get_console().print()


def _print_indexes(estimate: SystemCost) -> None:
    """Print what each index costs and saves, and from how many reads it pays; nothing without indexes."""
    from holdfast.cli.output.console import build_table, get_console, number_column

    if not estimate.indexes:
        return
    table = build_table(
        "index", number_column("costs"), number_column("units\nper query"), number_column("units\nper scan"),
        number_column("saves"), number_column("gain"),
        number_column("pays off\nat (reads)"), number_column("rule of\nthumb"),
        title=f"{estimate.system}: what each index costs and saves",
    )  # fmt: skip
    for each in estimate.indexes:
        even = (each.break_even, each.thumb)
        table.add_row(
            f"{each.table}.{each.index}",
            format_money(each.storage + each.writes),
            f"{each.query_units:,.1f}",
            f"{each.scan_units:,.1f}",
            format_money(each.spares),
            format_money(each.gain),
            *("" if reads is None else f"{reads:,.0f}" for reads in even),
        )
    get_console().print(table)
    get_console().print()


def _print_queues(estimate: SystemCost) -> None:
    from holdfast.cli.output.console import build_table, get_console, number_column

    if not estimate.queues:
        return
    table = build_table(
        "queue", "kind", number_column("requests"), number_column("empty\npolls"), number_column("per month"),
        title=f"{estimate.system}: queues",
    )  # fmt: skip
    for each in estimate.queues:
        kind = "FIFO" if each.fifo else "standard"
        table.add_row(
            each.queue,
            kind,
            f"{each.requests:,.0f}",
            f"{each.polls:,.0f}",
            _format_optional_money(each.total),
        )
    get_console().print(table)
    get_console().print()


def _print_buckets(estimate: SystemCost) -> None:
    from holdfast.cli.output.console import build_table, get_console, number_column

    if not estimate.buckets:
        return
    table = build_table(
        "bucket", number_column("objects"), number_column("KB"), number_column("puts, lists"),
        number_column("gets"), number_column("requests"),
        number_column("storage"), number_column("per month"),
        title=f"{estimate.system}: buckets",
    )  # fmt: skip
    for each in estimate.buckets:
        counts = (each.objects, each.size_bytes / 1024, each.writes, each.reads)
        amounts = (each.requests, each.storage, each.total)
        table.add_row(
            each.bucket, *(f"{count:,.0f}" for count in counts), *map(_format_optional_money, amounts)
        )
    get_console().print(table)
    get_console().print()


def _format_optional_money(amount: float | None) -> str:
    return "?" if amount is None else format_money(amount)
