"""`holdfast cost`: units and money per month, per pattern, table, index, queue and bucket, by a price list."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdfast.cli.amounts import money
from holdfast.cli.choosing import NONE_INSTALLED, SystemName, chosen_systems
from holdfast.cli.extras import stores_extras
from holdfast.cli.stated_costs import as_json as stated_as_json
from holdfast.cli.stated_costs import print_stated_costs
from holdfast.settings import Settings

if TYPE_CHECKING:
    from holdfast.model.system import System
    from holdfast.reports.cost import PatternCost, SystemCost
    from holdfast.reports.prices import PriceList
    from holdfast.reports.scratch import Progress


def cost(
    system: SystemName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Answer in JSON.")] = False,
    prices: Annotated[
        Path | None,
        typer.Option(
            "--prices", metavar="FILE", help="A price list of your own, or the name of one that ships."
        ),
    ] = None,
) -> None:
    """Estimate what a system costs in a month on DynamoDB, SQS and S3, from what it uses and declared rates."""
    from holdfast.cli.showing import print_json, progress_bar
    from holdfast.reports.prices import price_list, price_list_from

    chosen = price_list() if prices is None else price_list_from(prices)
    found: list[SystemCost] = []
    for each in chosen_systems(system, stores_extras):
        with progress_bar(shown=not as_json) as progress:
            found.append(asyncio.run(_estimated(each, chosen, progress)))
    if as_json:
        print_json([_as_json(each) for each in found])
    else:
        _print_costs(found)


async def _estimated(system: System, prices: PriceList, progress: Progress) -> SystemCost:
    from holdfast.reports.cost import estimate
    from holdfast.reports.scratch import measuring_ground

    async with measuring_ground(system, Settings.load(), progress=progress) as ground:
        return await estimate(system, ground, prices, progress=progress)


def _as_json(found: SystemCost) -> dict[str, Any]:
    return {
        "system": found.system,
        "prices": found.prices.name,
        "currency": found.prices.currency,
        "measured_on": found.measured_on,
        "total": found.total,
        "is_complete": not found.uncounted,
        "not_counted": [{"id": each.pattern.id, "reason": each.reason} for each in found.uncounted],
        "patterns": [_pattern_as_json(each) for each in found.patterns],
        "tables": [asdict(each) | {"total": each.total} for each in found.tables],
        "indexes": [asdict(each) | {"gain": each.gain} for each in found.indexes],
        "queues": [asdict(each) for each in found.queues],
        "buckets": [asdict(each) | {"total": each.total} for each in found.buckets],
        "stated_costs": None if found.stated is None else stated_as_json(found.stated),
    }


def _pattern_as_json(each: PatternCost) -> dict[str, Any]:
    return {
        "id": each.pattern.id,
        "name": each.pattern.name,
        "calls": each.calls,
        "read_units": each.read_units,
        "write_units": each.write_units,
        "index_write_units": each.index_write_units,
        "requests": each.requests,
        "cost": each.cost,
        "reason": each.reason,
    }


def _print_costs(found: Sequence[SystemCost]) -> None:
    from holdfast.cli.showing import console

    out = console()
    if not found:
        out.print(NONE_INSTALLED)
    for each in found:
        _print_patterns(each)
        _print_tables(each)
        _print_indexes(each)
        _print_queues(each)
        _print_buckets(each)
        if each.stated is not None:
            print_stated_costs(each.system, each.stated)
        at_least = "at least " if each.uncounted else ""
        out.print(
            f"[bold]{each.system}: {at_least}{each.prices.currency} {money(each.total)} a month[/], measured on "
            f"{each.measured_on}, by the prices of {each.prices.name}\n[dim]{each.prices.title}[/]"
        )
        _print_uncounted(each)
        out.print()


def _print_uncounted(found: SystemCost) -> None:
    from rich.markup import escape

    from holdfast.cli.showing import console

    reasons: dict[str, list[str]] = {}
    for each in found.uncounted:
        reasons.setdefault(each.reason or "", []).append(each.pattern.id)
    for reason, ids in reasons.items():
        verb = "is" if len(ids) == 1 else "are"
        console().print(f"[yellow]{', '.join(ids)} {verb} not counted[/]: {escape(reason)}")


def _print_patterns(found: SystemCost) -> None:
    from holdfast.cli.showing import console, number, plain_table

    requests = [number("requests\neach")] if found.queues or found.buckets else []
    table = plain_table(
        "id", "pattern", number("calls"), number("reads\neach"), number("writes\neach"), number("of these\nto indexes"),
        *requests, number("a month"), title=f"{found.system}: patterns",
    )  # fmt: skip
    for each in found.patterns:
        calls = "?" if each.calls is None else f"{each.calls:,.0f}"
        units = (
            f"{units:,g}" if units else ""
            for units in (each.read_units, each.write_units, each.index_write_units, each.requests)[
                : 3 + len(requests)
            ]
        )
        table.add_row(
            each.pattern.id, each.pattern.name, calls, *units, "?" if each.cost is None else money(each.cost)
        )
    console().print(table)
    console().print()


def _print_tables(found: SystemCost) -> None:
    from holdfast.cli.showing import console, number, plain_table

    table = plain_table(
        "table", number("items"), number("KB"), number("KB in\nindexes"), number("reads"), number("writes"),
        number("storage"), number("recovery"), number("stream"), number("a month"), title=f"{found.system}: tables",
    )  # fmt: skip
    for each in found.tables:
        amounts = (each.reads, each.writes, each.storage, each.recovery, each.stream, each.total)
        sizes = (f"{each.items:,}", f"{each.size_bytes / 1024:,.0f}", f"{each.index_bytes / 1024:,.0f}")
        table.add_row(each.table, *sizes, *map(money, amounts))
    console().print(table)
    console().print()


def _print_indexes(found: SystemCost) -> None:
    from holdfast.cli.showing import console, number, plain_table

    if not found.indexes:
        return
    table = plain_table(
        "index", number("costs"), number("units\na query"), number("units\na scan"), number("spares"), number("gain"),
        number("pays from\n(reads)"), number("rule of\nthumb"), title=f"{found.system}: what each index costs and spares",
    )  # fmt: skip
    for each in found.indexes:
        even = (each.break_even, each.thumb)
        table.add_row(
            f"{each.table}.{each.index}",
            money(each.storage + each.writes),
            f"{each.query_units:,.1f}",
            f"{each.scan_units:,.1f}",
            money(each.spares),
            money(each.gain),
            *("" if reads is None else f"{reads:,.0f}" for reads in even),
        )
    console().print(table)
    console().print()


def _print_queues(found: SystemCost) -> None:
    from holdfast.cli.showing import console, number, plain_table

    if not found.queues:
        return
    table = plain_table(
        "queue", "kind", number("requests"), number("polls that\nfind nothing"), number("a month"),
        title=f"{found.system}: queues",
    )  # fmt: skip
    for each in found.queues:
        kind = "FIFO" if each.fifo else "standard"
        table.add_row(each.queue, kind, f"{each.requests:,.0f}", f"{each.polls:,.0f}", _money(each.total))
    console().print(table)
    console().print()


def _print_buckets(found: SystemCost) -> None:
    from holdfast.cli.showing import console, number, plain_table

    if not found.buckets:
        return
    table = plain_table(
        "bucket", number("objects"), number("KB"), number("puts, lists"), number("gets"), number("requests"),
        number("storage"), number("a month"), title=f"{found.system}: buckets",
    )  # fmt: skip
    for each in found.buckets:
        counts = (each.objects, each.size_bytes / 1024, each.writes, each.reads)
        amounts = (each.requests, each.storage, each.total)
        table.add_row(each.bucket, *(f"{count:,.0f}" for count in counts), *map(_money, amounts))
    console().print(table)
    console().print()


def _money(amount: float | None) -> str:
    return "?" if amount is None else money(amount)
