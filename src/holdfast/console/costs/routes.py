"""The cost pages: every system, and one system with its growth."""

from __future__ import annotations

from typing import Annotated, Any

from holdfast.console.access import CurrentUser, require_sight
from holdfast.console.context import Console, CurrentConsole
from holdfast.console.costs.estimates import (
    MAX_GROWTH,
    MAX_KEYS,
    MAX_PATTERNS,
    MIN_GROWTH,
    build_table_rows,
    choose_load,
    clamp_growth,
    group_uncounted,
    list_counted,
    list_loads,
    measure_spend,
    split_by_kind,
    split_by_store,
)
from holdfast.console.costs.measurements import Measurement, count_stored
from holdfast.console.costs.prices import ChosenPrices, list_choices, read_prices
from holdfast.console.live import Topic
from holdfast.console.rendering import is_fragment, redirect, render
from holdfast.core.distribution import explain_missing
from holdfast.model.system import System
from holdfast.reports.cost.system_cost import compute_cost
from holdfast.reports.design.rules.partitions import MAX_READ_UNITS, MAX_WRITE_UNITS
from holdfast.reports.growth import MAX_COLLECTION_BYTES, project_cost, project_growth

with explain_missing(__name__, "console"):
    from fastapi import APIRouter, Query
    from starlette.requests import Request
    from starlette.responses import Response

router = APIRouter()

TOPIC = "cost"


def add_topic(console: Console) -> None:
    """Let pages follow the measurements."""
    console.live.add_topic(Topic(TOPIC, console.measurements.read_fingerprint, 1.0))


@router.get("/cost")
async def show_costs(
    request: Request, console: CurrentConsole, user: CurrentUser, prices: str = ""
) -> Response:
    """Show the estimate of every system that the user sees."""
    chosen = read_prices(console.settings, prices)
    await console.history.refresh()
    rows = [await _build_row(console, each, chosen) for each in console.systems if user.can_see(each.name)]
    known = [row["cost"].total for row in rows if row["cost"] is not None]
    spends = [row["spend"].per_month for row in rows if row["spend"] is not None]
    return render(
        request,
        "costs/all_content.html" if is_fragment(request) else "costs/all.html",
        rows=rows,
        total=sum(known) if known else None,
        scale=max(known, default=0.0),
        measured_total=sum(spends) if spends else None,
        chosen=chosen,
        choices=list_choices(console.settings),
    )


@router.get("/cost/{system}")
async def show_cost(
    request: Request,
    console: CurrentConsole,
    user: CurrentUser,
    system: str,
    prices: str = "",
    load: str = "",
    growth: Annotated[int, Query()] = MIN_GROWTH,
) -> Response:
    """Show the cost of a system at a load, at these prices, and at so many times the load."""
    require_sight(user, system)
    declared = console.get_system(system)
    chosen, measurement = read_prices(console.settings, prices), console.measurements.get(system)
    values: dict[str, Any] = {
        "system": declared,
        "measurement": measurement,
        "chosen": chosen,
        "choices": list_choices(console.settings),
        "load": load if load in declared.design.what_if else "",
        "loads": list_loads(declared),
        "growth": clamp_growth(growth),
        "max_growth": MAX_GROWTH,
        "min_growth": MIN_GROWTH,
        "query": request.url.query,
    }
    if measurement.measured is not None:
        values |= await _estimate(console, declared, measurement, chosen, load, clamp_growth(growth))
    return render(request, _choose_template(request), **values)


@router.post("/cost/{system}/measure")
async def measure_again(console: CurrentConsole, user: CurrentUser, system: str) -> Response:
    """Measure a system again: its code or its sample has changed, or measuring failed."""
    require_sight(user, system)
    title = console.get_system(system).title or system
    console.measurements.start(system)
    return redirect(f"/cost/{system}", f"{title} is being measured.")


def _choose_template(request: Request) -> str:
    """Return the part of the page that htmx asks for by the element that it replaces, or the page."""
    if not is_fragment(request):
        return "costs/system.html"
    is_growth = request.headers.get("hx-target") == "growth"
    return "costs/growth.html" if is_growth else "costs/system_content.html"


async def _build_row(console: Console, system: System, chosen: ChosenPrices) -> dict[str, Any]:
    """Return the row of a system. Its estimate is None until it is measured."""
    measurement = console.measurements.get(system.name)
    cost = stores = None
    if measurement.measured is not None:
        measured, _ = await count_stored(measurement.measured, console.get_stores(system.name))
        cost = compute_cost(measured, chosen.prices)
        stores = split_by_store(cost)
    spend = measure_spend(system, console.history.samples, chosen.prices)
    return {"system": system, "measurement": measurement, "cost": cost, "stores": stores, "spend": spend}


async def _estimate(
    console: Console,
    system: System,
    measurement: Measurement,
    chosen: ChosenPrices,
    load: str,
    growth: int,
) -> dict[str, Any]:
    """Return what the page of a measured system shows."""
    assert measurement.measured is not None
    await console.history.refresh()
    counted, stored_from = await count_stored(measurement.measured, console.get_stores(system.name))
    measured = counted.with_load(choose_load(system, load))
    cost = compute_cost(measured, chosen.prices)
    spend = measure_spend(system, console.history.samples, chosen.prices)
    projection = project_growth(measured, chosen.prices, growth)
    largest = project_cost(measured, chosen.prices, MAX_GROWTH)
    tables = build_table_rows(cost, spend)
    return {
        "cost": cost,
        "stored_from": stored_from,
        "stores": split_by_store(cost),
        "spend": spend,
        "tables": tables,
        "table_scale": max(
            (max(each.estimated_money, each.measured_money or 0.0) for each in tables), default=0.0
        ),
        "pattern_scale": max((each.cost or 0.0 for each in cost.patterns), default=0.0),
        "patterns": list_counted(cost),
        "shown_patterns": MAX_PATTERNS,
        "uncounted": group_uncounted(cost),
        "projection": projection,
        "keys": projection.keys[:MAX_KEYS],
        "parts": split_by_kind(projection.cost),
        "part_scale": max((each.money for each in split_by_kind(largest)), default=0.0),
        "max_write": MAX_WRITE_UNITS,
        "max_read": MAX_READ_UNITS,
        "max_collection": MAX_COLLECTION_BYTES,
    }
