"""The sample holds what the document says of its data: sizes, test results, units; and it is the airline's day."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from holdfast import ALL, Entity, Query, Stores, System, describe_table, open_memory_stores
from holdfast.core.errors import InvalidRequest
from holdfast.guarantees.table_migration import Phase, get_status, migrate, remove_source
from holdfast.operations.values import item_size
from skymarshal.demo.sample.loader import load_sample
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
from tests.acceptance.skymarshal.stage import Stage, at, crew, staged

E = TypeVar("E", bound=Entity)
T = TypeVar("T")

ITEM_BYTES = 1638


def done(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def everything(stores: Stores, entity: type[E]) -> tuple[E, ...]:
    return done(stores.all(entity.scan(reason="a test looks at all of it"))).items


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


@pytest.mark.proves("SM-1")
@pytest.mark.proves("SM-2")
@pytest.mark.proves("SM-3")
@pytest.mark.proves("SM-4")
@pytest.mark.proves("SM-5")
@pytest.mark.proves("SM-6")
@pytest.mark.parametrize(("table", "partition"), KEYS.items())
def test_a_table_has_the_documents_key(table: str, partition: str) -> None:
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


@pytest.mark.proves("SM-7")
@pytest.mark.proves("SM-8")
@pytest.mark.proves("SM-9")
@pytest.mark.proves("SM-10")
@pytest.mark.proves("SM-11")
@pytest.mark.proves("SM-12")
@pytest.mark.proves("SM-13")
@pytest.mark.proves("SM-14")
@pytest.mark.proves("SM-15")
@pytest.mark.proves("SM-16")
@pytest.mark.proves("SM-17")
@pytest.mark.proves("SM-18")
@pytest.mark.proves("SM-19")
@pytest.mark.parametrize(("table", "name", "partition", "sort", "default"), INDEXES)
def test_an_index_has_the_documents_key(
    table: str, name: str, partition: str, sort: str | None, default: bool
) -> None:
    index = next(each for each in SYSTEM.get_table(table).indexes if each.name == name)

    assert (index.partition, index.partition_type) == (partition, "S")
    assert (index.sort, index.sort_type) == (sort, "S")
    assert index.projection == ALL
    assert index.default is default


@pytest.mark.proves("SM-X1")
def test_the_documents_five_tables_have_eight_indexes_and_not_nine() -> None:
    five = ("Bookings", "Baggage", "CrewRoster", "CargoFlightAssignments", "MaintenanceRoster")

    assert sum(len(SYSTEM.get_table(name).indexes) for name in five) == 8


# --- sizes and results --------------------------------------------------------------------------------------

SIZES = [
    (Booking, 9_351, 0),
    (Bag, 11_600, 100),
    (CrewAssignment, 460, 15),
    (CargoAssignment, 140, 5),
    (MaintenanceShift, 750, 10),
    (DisruptedPassenger, 346, 0),
]


@pytest.mark.proves("SM-1")
@pytest.mark.proves("SM-2")
@pytest.mark.proves("SM-3")
@pytest.mark.proves("SM-4")
@pytest.mark.proves("SM-5")
@pytest.mark.proves("SM-6")
@pytest.mark.proves("SM-X23")
@pytest.mark.parametrize(("entity", "documented", "give"), SIZES)
def test_a_table_has_the_documents_size(
    sample_stores: Stores, entity: type[Entity], documented: int, give: int
) -> None:
    assert abs(len(everything(sample_stores, entity)) - documented) <= give


@pytest.mark.proves("SM-45")
def test_the_documents_test_results_hold(sample_stores: Stores) -> None:
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
        found = done(sample_stores.all(query))
        assert len(found) == expected, query
        assert found.examined == expected, query


@pytest.mark.proves("SM-X4")
def test_units_are_what_the_service_would_bill_for_items_of_the_documents_size(sample_stores: Stores) -> None:
    for query, units in (
        (patterns.bookings_on_flight(FlightId("1"), BookingStatus.CONFIRMED), 82.5),
        (patterns.crew_of_flight(FlightId("1")), 2.0),
        (patterns.cargo_on_flight(FlightId("5")), 5.0),
        (patterns.bookings_of_passenger(PassengerId("OZ69826352P")), 1.0),
    ):
        assert done(sample_stores.all(query)).units == units, query
    assert done(sample_stores.run(patterns.bags_at("AUH").page(10))).units == 2.0


@pytest.mark.proves("SM-46")
@pytest.mark.proves("SM-X3")
def test_a_scan_reads_every_booking_where_the_index_reads_three(sample_stores: Stores) -> None:
    scan = Booking.scan(reason="what it would cost without an index")
    scanned = done(sample_stores.all(scan.where(Booking.passenger_id == PassengerId("OZ69826352P"))))
    queried = done(sample_stores.all(patterns.bookings_of_passenger(PassengerId("OZ69826352P"))))

    assert (len(scanned), scanned.examined) == (3, 9_351)
    assert 1_870 <= scanned.units <= 1_880
    assert queried.examined == 3
    assert 1 - queried.examined / scanned.examined >= 0.9996


@pytest.mark.parametrize("entity", [Booking, Bag, CrewAssignment, CargoAssignment, MaintenanceShift])
def test_an_item_has_the_documents_size(sample_stores: Stores, entity: type[Entity]) -> None:
    sizes = Counter(item_size(each.to_item()) for each in everything(sample_stores, entity))

    assert set(sizes) == {ITEM_BYTES}


READS = [each for each in SYSTEM.patterns if not each.build_example().writes and each.id != "RO7"]


@pytest.mark.parametrize("pattern", READS, ids=lambda pattern: pattern.id)
def test_every_patterns_example_finds_something(sample_stores: Stores, pattern: Any) -> None:
    with sample_stores.meter_usage() as meter:
        done(sample_stores.run(pattern.build_example()))

    assert meter.items_returned >= 1
    assert meter.items_returned == meter.items_read


@pytest.mark.proves("SM-X12")
def test_more_than_a_megabyte_of_bags_at_one_airport_is_read_whole(sample_stores: Stores) -> None:
    first = done(sample_stores.run(patterns.bags_at("AUH")))
    whole = done(sample_stores.all(patterns.bags_at("AUH")))

    assert first.cursor is not None
    assert len(first) < 847
    assert len({bag.baggage_tag for bag in whole}) == 847
    assert sum(item_size(bag.to_item()) for bag in whole) > 1024 * 1024
    counted = Counter(bag.baggage_status for bag in whole)
    assert (counted[BaggageStatus.CHECKED_IN], counted[BaggageStatus.LOADED]) == (450, 320)
    assert counted[BaggageStatus.MISHANDLED] == 5


# --- an airline's day ---------------------------------------------------------------------------------------


def test_flight_1_has_room_for_those_confirmed_and_others_who_wait(sample_stores: Stores) -> None:
    flight = done(sample_stores.run(patterns.flight(FlightId("1"))))
    low, high = BookingStatus.BOARDED, BookingStatus.WAITLISTED
    on_board = done(sample_stores.all(patterns.bookings_on_flight_between(FlightId("1"), low, high)))

    assert flight is not None
    assert (flight.flight_number, flight.origin, flight.capacity) == ("EY11", "AUH", 486)
    assert flight.scheduled_departure == datetime(2026, 1, 30, 2, tzinfo=UTC)
    statuses = Counter(booking.booking_status for booking in on_board)
    assert statuses[BookingStatus.WAITLISTED] > 0
    assert statuses[BookingStatus.CANCELLED] > 0


def test_no_two_passengers_have_one_seat_and_no_flight_is_overbooked(sample_stores: Stores) -> None:
    flights = {each.flight_id: each for each in everything(sample_stores, Flight)}
    seats = Counter(
        (each.flight_id, each.seat_number) for each in everything(sample_stores, Booking) if each.seat_number
    )

    assert set(seats.values()) == {1}
    taken = Counter(flight_id for flight_id, _ in seats)
    assert all(taken[each] <= flight.capacity for each, flight in flights.items())


def test_every_row_points_at_rows_that_are_there(sample_stores: Stores) -> None:
    flights = {each.flight_id for each in everything(sample_stores, Flight)}
    passengers = {each.passenger_id for each in everything(sample_stores, Passenger)}
    bookings = {each.booking_id: each for each in everything(sample_stores, Booking)}
    orders = {each.workorder_id for each in everything(sample_stores, WorkOrder)}

    assert {each.flight_id for each in bookings.values()} <= flights
    assert {each.passenger_id for each in bookings.values()} == passengers
    assert {each.booking_id for each in everything(sample_stores, Bag)} <= set(bookings)
    assert {each.flight_id for each in everything(sample_stores, CrewAssignment)} <= flights
    assert {each.flight_id for each in everything(sample_stores, CargoAssignment)} <= flights
    assert {each.workorder_id for each in everything(sample_stores, MaintenanceShift)} == orders
    for hit in everything(sample_stores, DisruptedPassenger):
        assert bookings[hit.booking_id].passenger_id == hit.passenger_id
    assert {each.flight_id for each in everything(sample_stores, Decided)} <= flights


def test_an_aircraft_is_where_its_next_flight_leaves_from(sample_stores: Stores) -> None:
    lines: dict[str, list[Flight]] = defaultdict(list)
    for flight in everything(sample_stores, Flight):
        lines[flight.aircraft_registration].append(flight)

    for registration, line in lines.items():
        for before, after in pairwise(sorted(line, key=lambda each: each.scheduled_departure)):
            assert before.arrival < after.departure, (before, after)
            # Of a partner's aircraft we know only the flights that are sold as ours.
            assert before.destination == after.origin or not registration.startswith("A6-"), (before, after)


def _itineraries(stores: Stores) -> list[list[Leg]]:
    flights = {each.flight_id: each for each in everything(stores, Flight)}
    found: dict[str, list[Leg]] = defaultdict(list)
    for booking in everything(stores, Booking):
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


def test_journeys_hang_together_and_a_delay_of_three_hours_breaks_some(sample_stores: Stores) -> None:
    itineraries = _itineraries(sample_stores)
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


def test_a_delay_of_four_hours_breaks_the_limits_of_some_of_the_crew_and_not_of_others(
    sample_stores: Stores,
) -> None:
    flights = {each.flight_id: each for each in everything(sample_stores, Flight)}
    duties: dict[str, list[CrewDuty]] = defaultdict(list)
    for row in everything(sample_stores, CrewDuty):
        duties[row.crew_id].append(row)

    broken = {}
    for member in done(sample_stores.all(patterns.crew_of_flight_v2(FlightId("1")))):
        roster = [_duty(row, flights[row.flight_id], timedelta(0)) for row in duties[member.crew_id]]
        late = _duty(member, flights[member.flight_id], timedelta(hours=4))
        rules = get_rules(member.position_id)
        assert not check_duties(roster, utc_offset=timedelta(hours=4), rules=rules), member.crew_id
        broken[member.crew_id] = check_duties(
            roster, utc_offset=timedelta(hours=4), proposed=[late], rules=rules
        )
    assert any(broken.values())
    assert not all(broken.values())
    assert any("rest" in each.limit for each in broken[CrewId("124")])


def _duty(row: CrewDuty, flight: Flight, delay: timedelta) -> Duty:
    return Duty(
        duty_id=row.roster_id,
        start=row.duty_start,
        end=row.duty_end + delay,
        on_blocks=min(row.duty_end, flight.scheduled_arrival) + delay,
        flight_time=flight.scheduled_arrival - flight.scheduled_departure,
    )


def test_nine_crew_are_fewer_than_flight_1_needs_and_the_check_says_so(sample_stores: Stores) -> None:
    crew = done(sample_stores.all(patterns.crew_of_flight(FlightId("1"))))
    captains = done(sample_stores.all(patterns.crew_in_position(FlightId("1"), CrewPosition.CAPTAIN)))

    check = check_crew(486, [member.position_id for member in crew])
    assert not check.is_enough
    assert check.missing == ("3 of 10 cabin crew short for 486 seats",)
    assert [each.crew_id for each in captains] == ["123"]


@pytest.mark.proves("SM-43")
def test_crew_123_has_duties_in_january(sample_stores: Stores) -> None:
    january = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
    found = done(sample_stores.all(patterns.duties_of_crew(CrewId("123"), *january)))

    assert len(found) >= 3
    assert found.examined == len(found)
    assert all(duty.crew_id == "123" for duty in found)


@pytest.mark.proves("SM-X19")
def test_two_sectors_of_one_duty_are_two_rows_of_the_new_roster(sample_stores: Stores) -> None:
    old = everything(sample_stores, CrewAssignment)
    starts = Counter((each.crew_id, each.duty_start) for each in old)

    assert starts[CrewId("131"), datetime(2026, 1, 29, 21, 25, tzinfo=UTC)] == 2
    moved = {each.roster_id: each for each in everything(sample_stores, CrewDuty)}
    assert moved == {each.roster_id: to_duty(each) for each in old}


def test_what_the_new_roster_does_not_understand_goes_with_the_duty() -> None:
    item = next(iter(everything_of_one_flight())).to_item() | {"written_by": "newer code"}

    assert to_duty(CrewAssignment.from_item(item)).to_item()["written_by"] == "newer code"


def everything_of_one_flight() -> list[CrewAssignment]:
    from skymarshal.demo.sample.crew import build_crew_assignments
    from skymarshal.demo.sample.schedule import Block

    return [each for each in build_crew_assignments(Block(0)) if each.flight_id == "1"]


@pytest.mark.proves("SM-X14")
@pytest.mark.proves("SM-X24")
def test_a_shipment_has_a_waybill_beside_its_own_number(sample_stores: Stores) -> None:
    for each in everything(sample_stores, CargoAssignment):
        assert each.shipment_id.isdigit()
        assert each.awb_number is not None
        assert parse_awb_number(each.awb_number) == each.awb_number
        assert each.weight_on_flight_kg is None or isinstance(each.weight_on_flight_kg, Decimal)


def test_cargo_on_flight_5_needs_care_and_is_partly_loaded(sample_stores: Stores) -> None:
    found = done(sample_stores.all(patterns.cargo_on_flight(FlightId("5"))))

    assert {"PER", "AVI", "DGR"} <= {code for each in found for code in each.special_handling}
    assert {"LOADED", "PENDING", "OFFLOADED"} == {each.loading_status for each in found}


def test_the_aircraft_of_flight_1_has_open_work_with_staff_on_shift(sample_stores: Stores) -> None:
    flight = done(sample_stores.run(patterns.flight(FlightId("1"))))
    assert flight is not None
    orders = done(sample_stores.all(patterns.work_orders_of_aircraft(flight.aircraft_registration)))
    held = [each.workorder_id for each in orders if each.work_status.is_grounding]

    assert "WO-10193" in held
    staff = done(sample_stores.all(patterns.staff_of_work_order.call_with(("WO-10193",))))
    departs = flight.scheduled_departure
    assert [each for each in staff if each.shift_start_zulu <= departs <= each.shift_end_zulu]
    assert list(staff) == sorted(staff, key=lambda each: each.shift_start_zulu)


# --- made again, and larger ---------------------------------------------------------------------------------


async def _digest(scale: float) -> str:
    digest = hashlib.sha256()
    async with open_memory_stores(SYSTEM) as stores:
        await load_sample(stores, scale=scale)
        for table in SYSTEM.tables:
            for entity in table.entities:
                async for each in stores.each(entity.scan(reason="all of it")):
                    digest.update(repr(sorted(each.to_item().items())).encode())
    return digest.hexdigest()


def test_the_sample_is_the_same_on_every_run() -> None:
    assert done(_digest(0.1)) == done(_digest(0.1))


def test_a_second_run_over_the_first_changes_nothing(small_stores: Stores) -> None:
    stage = Stage(small_stores)
    before = stage.dump()
    done(load_sample(small_stores, scale=0.05))

    assert stage.dump() == before


def test_a_second_run_undoes_nothing_that_was_decided_since(small_stores: Stores) -> None:
    stage, row = Stage(small_stores), done(small_stores.run(CrewAssignment.of(RosterId("R-0001")).get()))
    assert row is not None
    stage.wait(small_stores.run(patterns.cancel_flight(FlightId("1"), 1, "41")))
    stage.wait(roster.release(small_stores, row))
    before = stage.dump()

    done(load_sample(small_stores, scale=0.05))

    assert stage.dump() == before


def test_a_second_run_does_not_bring_back_a_roster_that_was_removed(small_stores: Stores) -> None:
    done(remove_source(CREW_ROSTER_V2, small_stores))
    done(load_sample(small_stores, scale=0.05))

    assert done(describe_table(small_stores, crew_roster)) is None
    assert len(done(queries.get_crew_rows(small_stores, FlightId("1")))) == 9


def test_the_sample_leaves_a_roster_of_ones_own_the_one_that_is_read() -> None:
    with staged(crew("R-mine", "900", CrewPosition.CAPTAIN, at(1), at(9)), roster_moved=False) as stage:
        stage.wait(load_sample(stage.stores, scale=0.05))
        assert not stage.wait(roster.is_roster_switched(stage.stores))
        assert "900" in {
            each.crew_id for each in stage.wait(queries.get_crew_rows(stage.stores, FlightId("1")))
        }
        moved = stage.wait(migrate(CREW_ROSTER_V2, stage.stores))
    assert moved.rows == 456


def test_the_samples_roster_is_told_as_moved_with_its_rows(sample_stores: Stores) -> None:
    told = done(get_status(CREW_ROSTER_V2, sample_stores))

    assert (told.phase, told.rows) == (Phase.SWITCHED, 455)
    assert len(everything(sample_stores, CrewAssignment)) == len(everything(sample_stores, CrewDuty)) == 455


@pytest.mark.parametrize("scale", [0.05, 1.3])
def test_what_the_document_names_reads_the_same_at_any_scale(sample_stores: Stores, scale: float) -> None:
    # A part of the sample has fewer work orders on every aircraft.
    left_out = {"MX4", "MX5"} if scale < 1 else set()

    async def read(stores: Stores) -> dict[str, tuple[int, float]]:
        figures = {}
        for pattern in READS:
            operation = pattern.build_example()
            if (operation.index is not None and not operation.index.default) or pattern.id in left_out:
                continue
            with stores.meter_usage() as meter:
                await (stores.all(operation) if isinstance(operation, Query) else stores.run(operation))
            figures[pattern.id] = (meter.items_read, meter.units.read)
        return figures

    async def at_scale() -> dict[str, tuple[int, float]]:
        async with open_memory_stores(SYSTEM) as stores:
            rows = await load_sample(stores, scale=scale)
            assert scale < 1 or rows > 30_000
            return await read(stores)

    assert done(at_scale()) == done(read(sample_stores))


def test_twice_the_scale_is_twice_the_rows_and_no_key_is_used_again() -> None:
    async def counted() -> tuple[int, int, int]:
        async with open_memory_stores(SYSTEM) as stores:
            rows = await load_sample(stores, scale=2)
            sizes = {}
            for table in SYSTEM.tables:
                for entity in table.entities:
                    sizes[entity] = len(await stores.all(entity.scan(reason="all of it")))
            return rows, sum(sizes.values()), sizes[Booking]

    rows, there, bookings = done(counted())
    assert bookings == 2 * 9_351
    # Six disruptions, which are recorded one by one, and that the roster is read from its new table.
    assert there == rows + 6 + 1


def test_a_scale_of_nothing_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="expected a number above 0"):
        done(load_sample(open_memory_stores(SYSTEM), scale=0))


def test_progress_is_told_and_ends_with_everything() -> None:
    told: list[tuple[str, int, int]] = []
    rows = done(load_sample(open_memory_stores(SYSTEM), scale=0.05, progress=lambda *each: told.append(each)))

    assert told[-1][1] == rows
    assert {"flights", "passengers", "bookings", "bags", "crew", "cargo"} <= {what for what, *_ in told}
    assert all(0 < done_rows <= total for _, done_rows, total in told)


def test_the_system_declares_its_sample() -> None:
    assert isinstance(SYSTEM, System)
    assert SYSTEM.sample is load_sample
