"""The sample: tables, sizes and figures as documented, a plausible airline, repeated loading."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import pytest

from holdfast import ALL, Entity, Query, Stores, open_memory_stores
from holdfast.core.errors import InvalidRequest
from holdfast.guarantees.table_migration import Phase, get_status, migrate, remove_source
from holdfast.operations.tables import Scan
from holdfast.operations.values import item_size
from holdfast.runtime import describe_table
from holdfast_demo.skymarshal.sample import loader
from holdfast_demo.skymarshal.sample.loader import load_sample
from holdfast_demo.skymarshal.sample.schedule import build_blocks
from skymarshal.domain.aircraft_types import check_crew
from skymarshal.domain.connections import FlightDisruption, Leg, find_missed_connections
from skymarshal.domain.duty_limits import Duty, check_duties, get_rules
from skymarshal.domain.identifiers import parse_awb_number
from skymarshal.domain.statuses import BaggageStatus, BookingStatus, CrewPosition, DisruptionKind
from skymarshal.model import patterns, queries, roster
from skymarshal.model.entities import (
    Bag,
    Booking,
    CargoAssignment,
    CrewAssignment,
    CrewDuty,
    CrewId,
    DisruptedPassenger,
    Flight,
    FlightId,
    MaintenanceShift,
    Passenger,
    PassengerId,
    RosterId,
    WorkOrder,
    crew_roster,
)
from skymarshal.model.entities import Disruption as Decided
from skymarshal.model.roster import CREW_ROSTER_V2, to_duty
from skymarshal.system import SYSTEM
from tests.cases import all_cases
from tests.systems.skymarshal.acceptance.conftest import open_copy
from tests.systems.skymarshal.acceptance.csv_files import read_all, run
from tests.systems.skymarshal.acceptance.small_airline import Airline, at, crew, open_airline

E = TypeVar("E", bound=Entity)

ITEM_BYTES = 1638


@cache
def read_sample(sample_stores: Stores, entity: type[E]) -> tuple[E, ...]:
    """Return every row of an entity in the shared sample, which no test changes."""
    return read_all(sample_stores, entity)


# --- tables and indexes -------------------------------------------------------------------------------------

KEYS = {
    "Bookings": "booking_id",
    "Baggage": "baggage_tag",
    "CrewRoster": "roster_id",
    "CargoFlightAssignments": "assignment_id",
    "MaintenanceRoster": "roster_id",
    "Passengers": "passenger_id",
    "Flights": "flight_id",
}


@pytest.mark.proves("SM-1", "SM-2", "SM-3", "SM-4", "SM-5", "SM-6")
@all_cases(("table", "partition"), KEYS.items())
def test_table_has_the_documented_key(table: str, partition: str) -> None:
    found = SYSTEM.get_table(table)

    assert (found.partition, found.partition_type, found.sort) == (partition, "S", None)


INDEXES = [
    ("Bookings", "passenger-flight-index", "passenger_id", "flight_id", True),
    ("Bookings", "flight-status-index", "flight_id", "booking_status", True),
    ("Baggage", "booking-index", "booking_id", None, True),
    ("Baggage", "location-status-index", "current_location", "baggage_status", True),
    ("CrewRoster", "flight-position-index", "flight_id", "position_id", True),
    ("CargoFlightAssignments", "flight-loading-index", "flight_id", "loading_status", True),
    ("CargoFlightAssignments", "shipment-index", "shipment_id", None, True),
    ("MaintenanceRoster", "workorder-shift-index", "workorder_id", "shift_start_zulu", True),
    ("Passengers", "frequent-flyer-index", "frequent_flyer_number", None, False),
    ("Passengers", "pnr-index", "pnr", None, False),
    ("Flights", "flight-number-date-index", "flight_number", "scheduled_departure", True),
    ("Flights", "aircraft-utilization-index", "aircraft_registration", "scheduled_departure", True),
    ("DisruptedPassengers", "flight-risk-index", "flight_number", "risk_rank", False),
]


@pytest.mark.proves("SM-7", "SM-8", "SM-9", "SM-10", "SM-11", "SM-12", "SM-13", "SM-14", "SM-15", "SM-16")
@pytest.mark.proves("SM-17", "SM-18", "SM-19", "SM-X1")
def test_tables_have_exactly_the_documented_indexes() -> None:
    found = [
        (table, each.name, each.partition, each.sort, each.default)
        for table in dict.fromkeys(row[0] for row in INDEXES)
        for each in SYSTEM.get_table(table).indexes
    ]

    assert sorted(found, key=str) == sorted(INDEXES, key=str)
    assert {(each.partition_type, each.sort_type, each.projection) for each in SYSTEM.indexes} == {
        ("S", "S", ALL)
    }


# --- sizes and results --------------------------------------------------------------------------------------

SIZES = [
    (Booking, 9_351, 0),
    (Bag, 11_600, 100),
    (CrewAssignment, 460, 15),
    (CargoAssignment, 140, 5),
    (MaintenanceShift, 750, 10),
    (DisruptedPassenger, 346, 0),
]


@pytest.mark.proves("SM-1", "SM-2", "SM-3", "SM-4", "SM-5", "SM-6", "SM-X23")
@all_cases(("entity", "documented", "give"), SIZES)
def test_table_has_the_documented_size(
    sample_stores: Stores, entity: type[Entity], documented: int, give: int
) -> None:
    assert abs(len(read_sample(sample_stores, entity)) - documented) <= give


@pytest.mark.proves("SM-45")
def test_documented_test_results_hold(sample_stores: Stores) -> None:
    for query, expected in (
        (patterns.bookings_of_passenger(PassengerId("OZ69826352P")), 3),
        (patterns.bookings_on_flight(FlightId("1"), BookingStatus.CONFIRMED), 412),
        (patterns.bags_of_booking.call_with(("1",)), 2),
        (patterns.bags_at("AUH"), 847),
        (patterns.crew_of_flight(FlightId("1")), 9),
        (patterns.cargo_on_flight.call_with(("5",)), 23),
        (patterns.shipment_legs.call_with(("42",)), 2),
        (patterns.staff_of_work_order.call_with(("WO-10193",)), 5),
    ):
        found = run(sample_stores.all(query))
        assert len(found) == expected, query
        assert found.examined == expected, query


@pytest.mark.proves("SM-X4")
def test_capacity_units_match_items_of_the_documented_size(sample_stores: Stores) -> None:
    for query, units in (
        (patterns.bookings_on_flight(FlightId("1"), BookingStatus.CONFIRMED), 82.5),
        (patterns.crew_of_flight(FlightId("1")), 2.0),
        (patterns.cargo_on_flight(FlightId("5")), 5.0),
        (patterns.bookings_of_passenger(PassengerId("OZ69826352P")), 1.0),
    ):
        assert run(sample_stores.all(query)).units == units, query
    assert run(sample_stores.run(patterns.bags_at("AUH").page(10))).units == 2.0


@pytest.mark.proves("SM-46", "SM-X3")
def test_scan_reads_every_booking_where_the_index_reads_three(sample_stores: Stores) -> None:
    scan = Booking.scan(reason="what it would cost without an index")
    scanned = run(sample_stores.all(scan.where(Booking.passenger_id == PassengerId("OZ69826352P"))))
    queried = run(sample_stores.all(patterns.bookings_of_passenger(PassengerId("OZ69826352P"))))

    assert {each.booking_id for each in scanned} == {each.booking_id for each in queried}
    assert (len(scanned), scanned.examined) == (3, 9_351)
    assert 1_870 <= scanned.units <= 1_880
    assert queried.examined == 3
    assert 1 - queried.examined / scanned.examined >= 0.9996


@all_cases("entity", [Booking, Bag, CrewAssignment, CargoAssignment, MaintenanceShift])
def test_item_has_the_documented_size(sample_stores: Stores, entity: type[Entity]) -> None:
    assert {item_size(each.to_item()) for each in read_sample(sample_stores, entity)} == {ITEM_BYTES}


READS = [each for each in SYSTEM.patterns if not each.build_example().writes and each.id != "RO7"]


def test_example_of_every_read_pattern_finds_rows_and_reads_no_others(sample_stores: Stores) -> None:
    for pattern in READS:
        with sample_stores.meter_usage() as meter:
            run(sample_stores.run(pattern.build_example()))

        assert meter.items_returned == meter.items_read >= 1, pattern.id


@pytest.mark.proves("SM-X12")
def test_bags_at_the_hub_exceed_one_page_and_have_the_documented_statuses(sample_stores: Stores) -> None:
    first = run(sample_stores.run(patterns.bags_at("AUH")))
    whole = run(sample_stores.all(patterns.bags_at("AUH")))

    assert first.cursor is not None
    assert len(first) < 847
    assert len({bag.baggage_tag for bag in whole}) == 847
    assert sum(item_size(bag.to_item()) for bag in whole) > 1024 * 1024
    counted = Counter(bag.baggage_status for bag in whole)
    assert (counted[BaggageStatus.CHECKED_IN], counted[BaggageStatus.LOADED]) == (450, 320)
    assert counted[BaggageStatus.MISHANDLED] == 5


# --- an airline's day ---------------------------------------------------------------------------------------


def test_flight_1_is_ey11_with_waitlisted_and_cancelled_bookings(sample_stores: Stores) -> None:
    flight = run(sample_stores.run(patterns.flight(FlightId("1"))))
    low, high = BookingStatus.BOARDED, BookingStatus.WAITLISTED
    on_board = run(sample_stores.all(patterns.bookings_on_flight_between(FlightId("1"), low, high)))

    assert flight is not None
    assert (flight.flight_number, flight.origin, flight.capacity) == ("EY11", "AUH", 486)
    assert flight.scheduled_departure == datetime(2026, 1, 30, 2, tzinfo=UTC)
    statuses = Counter(booking.booking_status for booking in on_board)
    assert statuses[BookingStatus.WAITLISTED] > 0
    assert statuses[BookingStatus.CANCELLED] > 0


def test_no_seat_is_assigned_twice_and_no_flight_is_overbooked(sample_stores: Stores) -> None:
    flights = {each.flight_id: each for each in read_sample(sample_stores, Flight)}
    seats = Counter(
        (each.flight_id, each.seat_number) for each in read_sample(sample_stores, Booking) if each.seat_number
    )

    assert set(seats.values()) == {1}
    taken = Counter(flight_id for flight_id, _ in seats)
    assert all(taken[each] <= flight.capacity for each, flight in flights.items())


def test_every_row_references_existing_rows(sample_stores: Stores) -> None:
    flights = {each.flight_id for each in read_sample(sample_stores, Flight)}
    passengers = {each.passenger_id for each in read_sample(sample_stores, Passenger)}
    bookings = {each.booking_id: each for each in read_sample(sample_stores, Booking)}
    orders = {each.workorder_id for each in read_sample(sample_stores, WorkOrder)}

    assert {each.flight_id for each in bookings.values()} <= flights
    assert {each.passenger_id for each in bookings.values()} == passengers
    assert {each.booking_id for each in read_sample(sample_stores, Bag)} <= set(bookings)
    assert {each.flight_id for each in read_sample(sample_stores, CrewAssignment)} <= flights
    assert {each.flight_id for each in read_sample(sample_stores, CargoAssignment)} <= flights
    assert {each.workorder_id for each in read_sample(sample_stores, MaintenanceShift)} == orders
    for hit in read_sample(sample_stores, DisruptedPassenger):
        assert bookings[hit.booking_id].passenger_id == hit.passenger_id
    assert {each.flight_id for each in read_sample(sample_stores, Decided)} <= flights


def test_aircraft_is_where_its_next_flight_departs(sample_stores: Stores) -> None:
    lines: dict[str, list[Flight]] = defaultdict(list)
    for flight in read_sample(sample_stores, Flight):
        lines[flight.aircraft_registration].append(flight)

    for registration, line in lines.items():
        for before, after in pairwise(sorted(line, key=lambda each: each.scheduled_departure)):
            assert before.arrival < after.departure, (before, after)
            # For a partner's aircraft only the flights sold as ours are known.
            assert before.destination == after.origin or not registration.startswith("A6-"), (before, after)


def _list_itineraries(stores: Stores) -> list[list[Leg]]:
    """Return the legs of each passenger's bookings, whatever their status, in order of time."""
    flights = {each.flight_id: each for each in read_sample(stores, Flight)}
    found: dict[str, list[Leg]] = defaultdict(list)
    for booking in read_sample(stores, Booking):
        flight = flights[booking.flight_id]
        found[booking.passenger_id].append(
            Leg(
                flight_id=flight.flight_id,
                origin=flight.origin,
                destination=flight.destination,
                departure=flight.scheduled_departure,
                arrival=flight.scheduled_arrival,
            )
        )
    return [sorted(legs, key=lambda leg: leg.departure) for legs in found.values()]


def test_journeys_connect_and_a_three_hour_delay_breaks_some(sample_stores: Stores) -> None:
    itineraries = _list_itineraries(sample_stores)
    for legs in itineraries:
        for before, after in pairwise(legs):
            assert before.destination == after.origin
            assert before.arrival < after.departure

    onward = [legs for legs in itineraries if any(leg.flight_id == "1" for leg in legs[:-1])]
    on_time = FlightDisruption("1", DisruptionKind.DELAY, timedelta(0))
    late = FlightDisruption("1", DisruptionKind.DELAY, timedelta(hours=3))
    broken = [legs for legs in onward if find_missed_connections(legs, late)]
    assert not [legs for legs in onward if find_missed_connections(legs, on_time)]
    assert 0 < len(broken) < len(onward)


def test_four_hour_delay_breaks_the_limits_of_some_crew(sample_stores: Stores) -> None:
    flights = {each.flight_id: each for each in read_sample(sample_stores, Flight)}
    duties: dict[str, list[CrewDuty]] = defaultdict(list)
    for row in read_sample(sample_stores, CrewDuty):
        duties[row.crew_id].append(row)

    broken = {}
    for member in run(sample_stores.all(patterns.crew_of_flight_v2(FlightId("1")))):
        roster = [_make_duty(row, flights[row.flight_id], timedelta(0)) for row in duties[member.crew_id]]
        late = _make_duty(member, flights[member.flight_id], timedelta(hours=4))
        rules = get_rules(member.position_id)
        assert not check_duties(roster, utc_offset=timedelta(hours=4), rules=rules), member.crew_id
        broken[member.crew_id] = check_duties(
            roster, utc_offset=timedelta(hours=4), proposed=[late], rules=rules
        )
    assert any(broken.values())
    assert not all(broken.values())
    assert any("rest" in each.limit for each in broken[CrewId("124")])


def _make_duty(row: CrewDuty, flight: Flight, delay: timedelta) -> Duty:
    """Make the duty of a roster row that lands and ends later by `delay`."""
    return Duty(
        duty_id=row.roster_id,
        start=row.duty_start,
        end=row.duty_end + delay,
        on_blocks=min(row.duty_end, flight.scheduled_arrival) + delay,
        flight_time=flight.scheduled_arrival - flight.scheduled_departure,
    )


def test_reports_that_nine_crew_are_too_few_for_flight_1(sample_stores: Stores) -> None:
    crew = run(sample_stores.all(patterns.crew_of_flight(FlightId("1"))))
    captains = run(sample_stores.all(patterns.crew_in_position(FlightId("1"), CrewPosition.CAPTAIN)))

    check = check_crew(486, [member.position_id for member in crew])
    assert not check.is_enough
    assert check.missing == ("3 of 10 cabin crew short for 486 seats",)
    assert [each.crew_id for each in captains] == ["123"]


@pytest.mark.proves("SM-X19")
def test_two_sectors_of_one_duty_are_two_roster_rows(sample_stores: Stores) -> None:
    old = read_sample(sample_stores, CrewAssignment)
    starts = Counter((each.crew_id, each.duty_start) for each in old)

    assert starts[CrewId("131"), datetime(2026, 1, 29, 21, 25, tzinfo=UTC)] == 2
    moved = {each.roster_id: each for each in read_sample(sample_stores, CrewDuty)}
    assert moved == {each.roster_id: to_duty(each) for each in old}


def test_unknown_attributes_are_copied_to_the_new_roster() -> None:
    item = crew("R-1", "1", CrewPosition.CAPTAIN, at(1), at(9)).to_item() | {"written_by": "newer code"}

    assert to_duty(CrewAssignment.from_item(item)).to_item()["written_by"] == "newer code"


@pytest.mark.proves("SM-X14", "SM-X24")
def test_shipment_has_a_waybill_and_its_own_number(sample_stores: Stores) -> None:
    for each in read_sample(sample_stores, CargoAssignment):
        assert each.shipment_id.isdigit()
        assert each.awb_number is not None
        assert parse_awb_number(each.awb_number) == each.awb_number
        assert each.weight_on_flight_kg is None or isinstance(each.weight_on_flight_kg, Decimal)


def test_cargo_on_flight_5_has_special_handling_and_is_partly_loaded(sample_stores: Stores) -> None:
    found = run(sample_stores.all(patterns.cargo_on_flight(FlightId("5"))))

    assert {"PER", "AVI", "DGR"} <= {code for each in found for code in each.special_handling}
    assert {"LOADED", "PENDING", "OFFLOADED"} == {each.loading_status for each in found}


def test_aircraft_of_flight_1_has_open_work_with_staff_on_shift(sample_stores: Stores) -> None:
    flight = run(sample_stores.run(patterns.flight(FlightId("1"))))
    assert flight is not None
    orders = run(sample_stores.all(patterns.work_orders_of_aircraft(flight.aircraft_registration)))
    held = [each.workorder_id for each in orders if each.work_status.is_grounding]

    assert "WO-10193" in held
    staff = run(sample_stores.all(patterns.staff_of_work_order.call_with(("WO-10193",))))
    departs = flight.scheduled_departure
    assert [each for each in staff if each.shift_start_zulu <= departs <= each.shift_end_zulu]
    assert list(staff) == sorted(staff, key=lambda each: each.shift_start_zulu)


# --- made again, and larger ---------------------------------------------------------------------------------


async def _digest(stores: Stores) -> str:
    """Return a hash of every row."""
    digest = hashlib.sha256()
    for table in SYSTEM.tables:
        for entity in table.entities:
            async for each in stores.each(entity.scan(reason="all of it")):
                digest.update(repr(sorted(each.to_item().items())).encode())
    return digest.hexdigest()


async def test_the_sample_is_the_same_on_every_run_and_reports_progress(small_stores: Stores) -> None:
    reports: list[tuple[str, int, int]] = []
    async with open_memory_stores(SYSTEM) as other:
        rows = await load_sample(other, scale=0.05, progress=lambda *each: reports.append(each))

        assert await _digest(other) == await _digest(small_stores)
    assert reports[-1][1] == rows
    assert {"flights", "passengers", "bookings", "bags", "crew", "cargo"} <= {what for what, *_ in reports}
    assert all(0 < done_rows <= total for _, done_rows, total in reports)


def test_loading_the_sample_again_undoes_no_later_change(small_stores: Stores) -> None:
    airline, row = Airline(small_stores), run(small_stores.run(CrewAssignment.of(RosterId("R-0001")).get()))
    assert row is not None
    run(small_stores.run(patterns.cancel_flight(FlightId("1"), 1, "41")))
    run(roster.release(small_stores, row))
    before = airline.dump()

    run(load_sample(small_stores, scale=0.05))

    assert airline.dump() == before
    crew_rows = run(queries.get_crew_rows(small_stores, FlightId("1")))
    run(remove_source(CREW_ROSTER_V2, small_stores))

    run(load_sample(small_stores, scale=0.05))

    assert run(describe_table(small_stores, crew_roster)) is None
    assert run(queries.get_crew_rows(small_stores, FlightId("1"))) == crew_rows != []


def test_sample_does_not_switch_an_existing_roster() -> None:
    mine = crew("R-mine", "900", CrewPosition.CAPTAIN, at(1), at(9))
    with open_airline(mine, roster_moved=False) as airline:
        run(load_sample(airline.stores, scale=0.05))
        assert not run(roster.is_roster_switched(airline.stores))
        rows = run(queries.get_crew_rows(airline.stores, FlightId("1")))
        assert "900" in {each.crew_id for each in rows}
        assert run(migrate(CREW_ROSTER_V2, airline.stores)).rows == 456


def test_sample_roster_is_already_migrated(sample_stores: Stores) -> None:
    status = run(get_status(CREW_ROSTER_V2, sample_stores))

    assert (status.phase, status.rows) == (Phase.SWITCHED, 455)
    assert len(read_sample(sample_stores, CrewAssignment)) == len(read_sample(sample_stores, CrewDuty)) == 455


def test_documented_rows_are_the_same_in_a_smaller_sample(
    sample_stores: Stores, small_stores: Stores
) -> None:
    expected, found = measure_reads(sample_stores), measure_reads(small_stores)

    # It has fewer work orders per aircraft.
    for pattern in ("MX4", "MX5"):
        del expected[pattern], found[pattern]
    assert found == expected


def test_larger_sample_has_more_rows_with_new_keys_and_the_same_documented_rows(
    sample_stores: Stores, sample_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The file has the first block, so only the part of the second one is loaded.
    monkeypatch.setattr(loader, "build_blocks", lambda scale: list(build_blocks(scale))[1:])
    larger = open_copy(sample_file, tmp_path)
    before = run(count_rows(larger))

    rows = run(load_sample(larger, scale=1.2))

    after = run(count_rows(larger))
    assert after["Bookings"] == 9_351 + 1_871
    # The three recorded disruptions of a block are not counted.
    assert sum(after.values()) == sum(before.values()) + rows + 3
    duties = read_all(larger, CrewDuty)
    assert len({each.roster_id for each in duties}) == len(duties) > 455
    assert measure_reads(larger) == measure_reads(sample_stores)
    run(larger.close())


def measure_reads(stores: Stores) -> dict[str, tuple[int, float]]:
    """Return the items and units that the example of each pattern reads, by pattern."""

    async def measure() -> dict[str, tuple[int, float]]:
        figures = {}
        for pattern in READS:
            operation = pattern.build_example()
            with stores.meter_usage() as meter:
                await (stores.all(operation) if isinstance(operation, Query) else stores.run(operation))
            figures[pattern.id] = (meter.items_read, meter.units.read)
        return figures

    return run(measure())


async def count_rows(stores: Stores) -> dict[str, int]:
    """Count the rows of each table without reading them into models."""
    counts = dict.fromkeys((table.name for table in SYSTEM.tables), 0)
    for table in SYSTEM.tables:
        start = None
        while True:
            page = await stores.tables.run(Scan(stores.physical_name(table), select="COUNT", start_key=start))
            counts[table.name] += page.count
            start = page.last_key
            if start is None:
                break
    return counts


def test_refuses_a_scale_of_zero() -> None:
    with pytest.raises(InvalidRequest, match="expected a number above 0"):
        run(load_sample(open_memory_stores(SYSTEM), scale=0))
