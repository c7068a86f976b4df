"""SkyMarshal's demo story: a morning on which EY11 runs late, from the queries to the confirmed decision.

It runs on the sample data, prints results and costs, and raises AssertionError if a promise does not hold.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from holdfast import Page, Stores
from holdfast.model.entities import PagedRead
from holdfast.runtime import Meter, meter_usage
from skymarshal.disruptions.assessment import assess
from skymarshal.disruptions.decision import Choice, confirm
from skymarshal.disruptions.report import DisruptionRequest, Report, Section
from skymarshal.domain.statuses import DisruptionKind
from skymarshal.model import patterns, queries
from skymarshal.model.entities import Booking, FlightId, PassengerId, ShipmentId, WorkOrderId

DAY = date(2026, 1, 30)
KNOWN_AT = datetime(2026, 1, 29, 22, tzinfo=UTC)
DELAY_MINUTES = 240
TECHNICAL_DELAY_CODE = "41"
REPETITIONS = 5


async def run_story(stores: Stores, console: Any) -> None:
    """Run the story on stores with the sample data and print it to a Rich console. It confirms a decision."""
    api = stores.for_component("api")
    await _show_queries(api, console)
    report = await _show_disruption(api, console)
    await _show_decision(api, console, report)
    await _compare_scan_with_index(stores, console)


async def _show_queries(stores: Stores, console: Any) -> None:
    """Run the design document's queries and print their results and cost."""
    console.rule("[bold]SkyMarshal: who and what a disruption affects, without a scan")
    passenger = PassengerId("OZ69826352P")
    with meter_usage() as meter:
        bookings = await queries.get_passenger_bookings(stores, passenger)
        seats = await queries.get_seats(stores, FlightId("1"))
        summary = await queries.get_airport_baggage_summary(stores, "AUH")
        route = await queries.track_shipment(stores, ShipmentId("42"))
        staff = await queries.get_staff(stores, WorkOrderId("WO-10193"))
    console.print(f"Passenger {passenger} has {len(bookings)} bookings.")
    console.print(
        f"Flight 1: {seats.taken} of {seats.capacity} seats taken, {seats.left} left, "
        f"{seats.waitlisted} waitlisted."
    )
    console.print(f"AUH holds {sum(summary.values())} bags: {_format_counts(summary)}.")
    console.print(
        "Shipment 42 travels on "
        + " → ".join(f"flight {leg.flight_id} ({leg.status.value})" for leg in route)
        + "."
    )
    console.print(f"Work order WO-10193 has {len(staff)} staff over all shifts.")
    console.print(
        f"[dim]{_format_cost(meter.items_read, meter.units.read)} by patterns {', '.join(meter.patterns)}.[/]"
    )


async def _show_disruption(stores: Stores, console: Any) -> Report:
    """Assess the delay of EY11, print the report section by section and return it."""
    console.rule(f"EY11 on {DAY:%d %B %Y} is {DELAY_MINUTES // 60} hours late: a technical fault")
    report = await assess(stores, _build_request())
    people, crew = report.passengers, report.crew
    console.print(
        f"{people.count} passengers are affected, {people.missing_connections} miss a connection; "
        f"{report.bags.count} bags, {len(report.bags.to_reroute)} of them need re-routing."
    )
    for hit in people.ranked[:3]:
        console.print(f"  {hit.rank}. {hit.name or hit.passenger_id} in {hit.seat}: {'; '.join(hit.reasons)}")
    console.print(f"{crew.illegal} of {crew.count} crew break a limit ({crew.rules}).")
    for member in [each for each in crew.members if each.is_legal is False]:
        console.print(f"  {member.position} {member.crew_id}: {member.violations[0]}")
    if crew.unknown:
        console.print(f"  The legality of {crew.unknown} is unknown, because their duty histories are.")
    if crew.minimum_crew_missing:
        console.print(f"  As rostered, {', '.join(crew.minimum_crew_missing)}.")
    _show_ground_impact(report, console)
    owed = report.compensation
    console.print(f"Passengers may claim {owed.total:,.0f} {owed.currency}. {owed.rule}")
    console.print("Recovery options:")
    for option in report.options.proposed:
        blocked = f" [red]Blocked: {' '.join(option.blockers)}[/]" if option.blockers else ""
        console.print(f"  {option.rank}. {option.title}: {option.cost:,.0f} {option.currency}.{blocked}")
    for problem in report.problems:
        console.print(f"[yellow]{problem}[/]")
    console.print(
        f"[dim]{_format_cost(report.items_read, report.read_units)} in {report.requests} parallel requests. "
        f"Passengers by {_format_traces(people)}; bags by {_format_traces(report.bags)}; "
        f"crew by {_format_traces(crew)}.[/]"
    )
    return report


def _show_ground_impact(report: Report, console: Any) -> None:
    """Print the cargo, the open work orders and the aircraft's next flights."""
    cargo = report.cargo
    console.print(
        f"{cargo.count} lots of cargo, {cargo.weight_kg:,.0f} kg; by handling code (a lot may have several): "
        f"{_format_counts(cargo.by_special_handling)}."
    )
    for order in report.maintenance.open:
        due = f", repair due by {order.repair_due:%d %B}" if order.repair_due else ""
        status = order.status.lower().replace("_", " ")
        console.print(
            f"Work order {order.workorder_id} ({order.task}) is {status}{due}: "
            f"{order.staff_on_shift} of the {order.staff_required} required staff are on shift."
        )
    for each in report.rotation.flights:
        late = f"leaves {each.late_minutes} minutes late" if each.late_minutes else "can leave on time"
        console.print(
            f"The aircraft's next flight, {each.flight_number} at "
            f"{each.scheduled_departure:%d %b %H:%M}Z, {late}."
        )


async def _show_decision(stores: Stores, console: Any, report: Report) -> None:
    """Confirm the first option without blockers twice.

    Raise AssertionError unless only the second is a repeat.
    """
    chosen = next(option for option in report.options.proposed if not option.blockers)
    choice = Choice(
        option=chosen.id,
        decided_by="duty manager",
        disruption_id="D-story",
        version=report.flight.version,
    )
    _, first = await confirm(stores, _build_request(), choice)
    _, again = await confirm(stores, _build_request(), choice)
    if not again.repeated or first.repeated:
        raise AssertionError("A repeated confirmation must change nothing.")
    console.print(
        f"Confirmed: {chosen.title}. {first.passengers_noted} passengers recorded; "
        "repeating the confirmation changed nothing."
    )


async def _compare_scan_with_index(stores: Stores, console: Any) -> None:
    """Print the cost of an index query and of a scan for the same bookings, as the design document does.

    Raise AssertionError if they find different bookings.
    """
    console.rule("Index against scan")
    passenger = PassengerId("OZ69826352P")
    query = patterns.bookings_of_passenger(passenger)
    scan = Booking.scan(reason="Show what the index saves").where(Booking.passenger_id == passenger)
    found, by_index = await _measure_fastest(stores, query)
    same, by_scan = await _measure_fastest(stores, scan)
    if {each.booking_id for each in found} != {each.booking_id for each in same}:
        raise AssertionError("The index and the scan must find the same bookings.")
    console.print(
        f"One passenger's {len(found)} bookings: the scan read {by_scan.items_read:,} items for "
        f"{by_scan.units.read:,.1f} units in {by_scan.ms:,.0f} ms, the index {by_index.items_read} for "
        f"{by_index.units.read:,.1f} in {by_index.ms:.2f} ms."
    )


async def _measure_fastest(
    stores: Stores, operation: PagedRead[Booking, Booking]
) -> tuple[Page[Booking], Meter]:
    """Run the read five times and return the page and the meter of the fastest run.

    So neither a cold start nor a busy moment counts.
    """
    runs = []
    for _ in range(REPETITIONS):
        with meter_usage() as meter:
            runs.append((await stores.all(operation), meter))
    return min(runs, key=lambda run: run[1].ms)


def _build_request() -> DisruptionRequest:
    """Build the story's disruption: EY11 is four hours late because of a technical fault."""
    return DisruptionRequest(
        kind=DisruptionKind.DELAY,
        flight_number="EY11",
        day=DAY,
        delay_minutes=DELAY_MINUTES,
        delay_code=TECHNICAL_DELAY_CODE,
        known_at=KNOWN_AT,
    )


def _format_counts(counts: dict[str, Any]) -> str:
    """Format names with their numbers, such as LOADED 320, in one line."""
    return ", ".join(f"{name} {value:,.0f}" for name, value in counts.items())


def _format_traces(section: Section) -> str:
    """Format the access patterns of a section with the items that each read."""
    return ", ".join(f"{trace.pattern} ({trace.items_read:,} items)" for trace in section.traces)


def _format_cost(items: int, units: float) -> str:
    return f"{items:,} items read for {units:,.1f} read units"
