"""The queries in memory: the document's numbers on the sample, exact answers on small airlines, no scans."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from holdfast import (
    KEYS_ONLY,
    Attr,
    Entity,
    IndexKey,
    Key,
    Stores,
    Table,
    attr,
    batch_put,
    keep_names,
    open_memory_stores,
)
from holdfast.core.errors import Conflict, InvalidRequest, ItemUnreadable, NotFound
from holdfast.model.operations import Count
from holdfast.operations.tables import PutItem
from holdfast.runtime import create_tables, meter_usage
from skymarshal.domain.statuses import BaggageStatus, BookingStatus, CrewPosition, CrewStatus, LoadingStatus
from skymarshal.model import patterns, queries
from skymarshal.model.entities import (
    BookingId,
    CrewId,
    FlightId,
    PassengerId,
    ShipmentId,
    WorkOrderId,
)
from tests.cases import all_cases
from tests.systems.skymarshal.acceptance.small_airline import (
    DAY,
    Airline,
    at,
    bag,
    booking,
    cargo,
    crew,
    flight,
    open_airline,
    passenger,
    shift,
)

KNOWN = PassengerId("OZ69826352P")
ONE, FIVE = FlightId("1"), FlightId("5")


@pytest.mark.proves("SM-35")
def test_no_query_scans_or_reads_more_than_it_returns(sample_stores: Stores) -> None:
    airline = Airline(sample_stores)
    agent = airline.stores.for_component("agent")

    async def run_every_query() -> None:
        await queries.get_passenger_bookings(agent, KNOWN)
        await queries.get_passengers(agent, [KNOWN])
        await queries.get_duplicate_bookings(agent, KNOWN)
        await queries.get_flight_manifest(agent, ONE)
        await queries.get_seats(agent, ONE)
        await queries.get_waitlist(agent, ONE)
        await queries.get_airport_baggage_summary(agent, "AUH")
        await queries.get_mishandled_bags(agent, "AUH")
        await queries.get_bags_of_booking(agent, BookingId("1"))
        await queries.get_crew(agent, ONE)
        await queries.get_crew_in_position(agent, ONE, CrewPosition.CAPTAIN)
        await queries.track_shipment(agent, ShipmentId("42"))
        await queries.get_shipment(agent, ShipmentId("42"))
        await queries.get_cargo_load(agent, FIVE)
        await queries.get_loaded_weight(agent, FIVE)
        await queries.get_staff(agent, WorkOrderId("WO-10193"))
        await queries.get_staffing(agent, WorkOrderId("WO-10193"), at(0))
        await queries.find_flight(agent, "EY11", DAY)

    with meter_usage() as meter:
        airline.wait(run_every_query())
    assert {usage.operation for usage in meter.usages} <= {"Query", "GetItem", "BatchGetItem"}
    assert meter.items_read == meter.items_returned > 1_000
    assert None not in {usage.pattern for usage in meter.usages}


# --- passengers and bookings --------------------------------------------------------------------------------


@pytest.mark.proves("SM-20")
def test_passenger_has_all_bookings_in_any_status() -> None:
    rows = (
        booking("B1", "ANN", "1"),
        booking("B2", "ANN", "2", BookingStatus.CANCELLED),
        booking("B3", "BOB", "1"),
    )
    with open_airline(*rows) as airline:
        found = airline.wait(queries.get_passenger_bookings(airline.stores, PassengerId("ANN")))
        nobody = airline.wait(queries.get_passenger_bookings(airline.stores, PassengerId("EVE")))
    assert [each.booking_id for each in found] == ["B1", "B2"]
    assert nobody == []


@pytest.mark.proves("SM-7")
def test_flight_booked_twice_is_a_duplicate_unless_cancelled() -> None:
    rows = (
        booking("B1", "ANN", "1"),
        booking("B2", "ANN", "1", BookingStatus.WAITLISTED),
        booking("B3", "ANN", "2"),
        booking("B4", "ANN", "2", BookingStatus.CANCELLED),
    )
    with open_airline(*rows) as airline:
        found = airline.wait(queries.get_duplicate_bookings(airline.stores, PassengerId("ANN")))
    assert found.flights == {"1": ["B1", "B2"]}


@pytest.mark.proves("SM-21")
@pytest.mark.proves("SM-47")
def test_manifest_lists_confirmed_passengers_with_their_bags() -> None:
    rows = (
        booking("B1", "ANN", seat_number="1A", bag_count=3),
        booking("B2", "BOB", bag_count=1),
        booking("B3", "CID", status=BookingStatus.WAITLISTED),
        booking("B4", "DAN", "2"),
        bag("0607000001", "B1", weight_kg=Decimal("23.4")),
        bag("0607000002", "B1"),
        bag("0607000003", "B2"),
        bag("0607000004", "B2"),
    )
    with open_airline(*rows) as airline:
        ann, bob = airline.wait(queries.get_flight_manifest(airline.stores, ONE))
        waiting = airline.wait(queries.get_flight_manifest(airline.stores, ONE, BookingStatus.WAITLISTED))
    assert ann.model_dump() == {
        "passenger_id": "ANN",
        "booking_id": "B1",
        "seat": "1A",
        "baggage_count": 2,
        "baggage": [
            {
                "baggage_tag": "0607000001",
                "baggage_status": BaggageStatus.LOADED,
                "current_location": "AUH",
                "weight_kg": 23.4,
            },
            {
                "baggage_tag": "0607000002",
                "baggage_status": BaggageStatus.LOADED,
                "current_location": "AUH",
                "weight_kg": 0.0,
            },
        ],
        "bags_booked": 3,
        "bags_missing": 1,
        "bags_unreadable": [],
        "problem": None,
    }
    assert (bob.seat, bob.baggage_count, bob.bags_missing) == (None, 2, 0)
    assert [line.booking_id for line in waiting] == ["B3"]


def test_bag_with_an_unknown_status_does_not_break_manifest_or_summary() -> None:
    rows = (booking("B1", "ANN", bag_count=2), booking("B2", "BOB", bag_count=1), bag("0607000001", "B1"))
    with open_airline(*rows) as airline:
        known = bag("0607000002", "B1").to_item()
        airline.wait(airline.stores.tables.run(PutItem("Baggage", known | {"baggage_status": "SORTED"})))
        ann, bob = airline.wait(queries.get_flight_manifest(airline.stores, ONE))
        alone = airline.wait(queries.get_bags_of_booking(airline.stores, BookingId("B1")))
        summary = airline.wait(queries.get_airport_baggage_summary(airline.stores, "AUH"))
        with pytest.raises(ItemUnreadable):
            airline.wait(airline.stores.all(patterns.bags_at("AUH")))
    assert (ann.baggage_count, ann.bags_unreadable, ann.bags_missing) == (1, ["0607000002"], 0)
    assert (bob.bags_unreadable, bob.bags_missing) == ([], 1)
    assert alone == ann
    assert summary == {"LOADED": 1, "SORTED": 1}


def test_unreadable_booking_appears_on_the_manifest_as_a_problem() -> None:
    with open_airline(booking("B1", "ANN")) as airline:
        known = booking("B2", "BOB").to_item()
        airline.wait(airline.stores.tables.run(PutItem("Bookings", known | {"bag_count": -1})))
        ann, bob = airline.wait(queries.get_flight_manifest(airline.stores, ONE))
    assert (ann.booking_id, ann.problem) == ("B1", None)
    assert (bob.passenger_id, bob.booking_id) == ("BOB", "B2")
    assert "bag_count" in (bob.problem or "")


def test_finds_the_only_active_flight_of_a_number_and_refuses_two() -> None:
    cancelled = flight("0", departs=at(1), arrives=at(8), flight_status="CANCELLED")
    with open_airline(flight("1"), cancelled) as airline:
        assert airline.wait(queries.find_flight(airline.stores, "EY11", DAY)).flight_id == "1"
        airline.put(flight("2", departs=at(5), arrives=at(12)))
        with pytest.raises(Conflict, match="2 flights EY11 depart on 2026-01-30.*their ids: 1, 2"):
            airline.wait(queries.find_flight(airline.stores, "EY11", DAY))


def test_refuses_an_invalid_flight_row_with_the_reason() -> None:
    with open_airline() as airline:
        late = flight("1").to_item() | {"scheduled_arrival": "2026-01-30T01:00:00Z"}
        airline.wait(airline.stores.tables.run(PutItem("Flights", late)))
        with pytest.raises(InvalidRequest, match="flight 1 is invalid .*is not after"):
            airline.wait(queries.get_flight(airline.stores, ONE))
        with pytest.raises(InvalidRequest, match="Fix it and import it again"):
            airline.wait(queries.find_flight(airline.stores, "EY11", DAY))


def test_unknown_airport_without_bags_or_unknown_work_order_is_not_found() -> None:
    with open_airline(bag("0607000001", "B1", current_location="QQX")) as airline:
        assert airline.wait(queries.get_airport_baggage_summary(airline.stores, "QQX")) == {"LOADED": 1}
        assert airline.wait(queries.get_mishandled_bags(airline.stores, "SYD")) == []
        with pytest.raises(NotFound, match="no airport QQQ"):
            airline.wait(queries.get_airport_baggage_summary(airline.stores, "QQQ"))
        with pytest.raises(NotFound, match="no airport QQQ"):
            airline.wait(queries.get_mishandled_bags(airline.stores, "QQQ"))
        with pytest.raises(NotFound, match="No staff is rostered on work order 'WO-0'"):
            airline.wait(queries.get_staffing(airline.stores, WorkOrderId("WO-0")))


@pytest.mark.proves("SM-28")
@pytest.mark.proves("SM-8")
@pytest.mark.proves("SM-X25")
def test_seats_left_is_capacity_minus_held_seats() -> None:
    statuses = [*[BookingStatus.CONFIRMED] * 3, BookingStatus.CHECKED_IN, BookingStatus.BOARDED]
    statuses += [BookingStatus.WAITLISTED] * 2 + [BookingStatus.CANCELLED, BookingStatus.STANDBY]
    rows = [booking(f"B{n}", f"P{n}", status=status) for n, status in enumerate(statuses)]
    with open_airline(flight(capacity=7), *rows) as airline:
        seats = airline.wait(queries.get_seats(airline.stores, ONE))
        count = patterns.count_on_flight(ONE, BookingStatus.CONFIRMED)
        confirmed = airline.wait(airline.stores.run(count))
        request = count.query.build_request(airline.stores.physical_name, counting=True)
        waiting = airline.wait(queries.get_waitlist(airline.stores, ONE))
    assert (seats.capacity, seats.taken, seats.left, seats.waitlisted) == (7, 5, 2, 2)
    assert (int(confirmed), request.select) == (3, "COUNT")
    assert [each.booking_id for each in waiting] == ["B5", "B6"]


def test_overbooked_flight_has_zero_seats_left() -> None:
    with open_airline(flight(capacity=1), booking("B1", "ANN"), booking("B2", "BOB")) as airline:
        seats = airline.wait(queries.get_seats(airline.stores, ONE))
    assert (seats.taken, seats.left) == (2, 0)


@pytest.mark.proves("SM-29")
@pytest.mark.proves("SM-X15")
def test_status_range_is_alphabetical() -> None:
    rows = [booking(f"B{n}", f"P{n}", status=status) for n, status in enumerate(BookingStatus)]
    with open_airline(*rows) as airline:
        query = patterns.bookings_on_flight_between(ONE, BookingStatus.CANCELLED, BookingStatus.CONFIRMED)
        found = airline.wait(airline.stores.all(query))
    assert [each.booking_status.value for each in found] == ["Cancelled", "CheckedIn", "Confirmed"]


@pytest.mark.proves("SM-30")
@pytest.mark.proves("SM-X17")
def test_reads_many_passengers_in_batches_and_skips_unknown_ones() -> None:
    rows = [passenger(f"P{n:03}") for n in range(250)]
    wanted = [PassengerId(f"P{n:03}") for n in range(260)]
    with open_airline(*rows) as airline, meter_usage() as meter:
        found = airline.wait(queries.get_passengers(airline.stores, [*wanted, wanted[0]]))
    assert [each.passenger_id for each in found] == wanted[:250]
    assert [usage.operation for usage in meter.usages] == ["BatchGetItem"] * 3


@pytest.mark.proves("SM-19")
@pytest.mark.proves("SM-X15")
async def test_disrupted_passengers_are_ordered_by_risk(sample_stores: Stores) -> None:
    rows = await sample_stores.all(patterns.disrupted_on_flight("EY31"))

    risks = [row.reputation_risk.value for row in rows]
    assert list(dict.fromkeys(risks)) == ["HIGH", "MEDIUM", "LOW"]
    assert risks == sorted(risks, key=["HIGH", "MEDIUM", "LOW"].index)


# --- baggage ------------------------------------------------------------------------------------------------


@pytest.mark.proves("SM-22")
@pytest.mark.proves("SM-27")
def test_airport_lists_bags_by_status_and_mishandled_ones() -> None:
    rows = (
        bag("0607000001", "B1"),
        bag("0607000002", "B2", BaggageStatus.MISHANDLED),
        bag("0607000003", "B3", BaggageStatus.MISHANDLED),
        bag("0607000004", "B4", BaggageStatus.MISHANDLED, current_location="LHR"),
    )
    with open_airline(*rows) as airline:
        summary = airline.wait(queries.get_airport_baggage_summary(airline.stores, "AUH"))
        mishandled = airline.wait(queries.get_mishandled_bags(airline.stores, "AUH"))
        nowhere = airline.wait(queries.get_airport_baggage_summary(airline.stores, "SYD"))
    assert summary == {"LOADED": 1, "MISHANDLED": 2}
    assert [(each.baggage_tag, each.booking_id) for each in mishandled] == [
        ("0607000002", "B2"),
        ("0607000003", "B3"),
    ]
    assert nowhere == {}


@pytest.mark.proves("SM-X17")
def test_bags_of_many_bookings_are_read_in_parallel_and_in_order() -> None:
    ids = [BookingId(f"B{n:03}") for n in range(150)]
    rows = [bag(f"0607000{n:03}", each) for n, each in enumerate(ids) if n % 3]
    with open_airline(*rows) as airline, meter_usage() as meter:
        pages = airline.wait(airline.stores.run(patterns.bags_of_bookings(ids)))
    assert [[each.booking_id for each in page] for page in pages] == [
        [each] if n % 3 else [] for n, each in enumerate(ids)
    ]
    assert {(usage.operation, usage.index) for usage in meter.usages if usage.pattern == "BG3"} == {
        ("Query", "booking-index")
    }


@pytest.mark.proves("SM-X26")
def test_manifest_refuses_a_consistent_read() -> None:
    manifest = patterns.bookings_on_flight(ONE, BookingStatus.CONFIRMED)
    with pytest.raises(InvalidRequest, match="flight-status-index.*Read the table by its primary key"):
        manifest.consistent()
    assert patterns.booking(BookingId("1")).consistent().is_consistent


# --- crew ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("SM-25")
@pytest.mark.proves("SM-11")
def test_crew_is_counted_by_position_and_compared_with_the_minimum() -> None:
    positions = [CrewPosition.CAPTAIN, CrewPosition.FIRST_OFFICER, CrewPosition.CABIN_MANAGER]
    positions += [CrewPosition.CABIN_CREW] * 3
    rows = [crew(f"R{n}", f"C{n}", position, at(0, 45), at(10)) for n, position in enumerate(positions)]
    sick = crew("R9", "C9", CrewPosition.CABIN_CREW, at(0, 45), at(10), status=CrewStatus.SICK)
    with open_airline(flight(capacity=200), *rows) as airline:
        enough = airline.wait(queries.get_crew(airline.stores, ONE))
        captains = airline.wait(queries.get_crew_in_position(airline.stores, ONE, CrewPosition.CAPTAIN))
        airline.put(sick, flight(capacity=201))
        short = airline.wait(queries.get_crew(airline.stores, ONE))
    assert enough.is_enough and enough.missing == []
    assert enough.by_position == {"Captain": 1, "First officer": 1, "Cabin manager": 1, "Cabin crew": 3}
    assert [each.crew_id for each in captains] == ["C0"]
    assert (len(short.crew), short.is_enough) == (7, False)
    assert short.missing == ["1 of 5 cabin crew short for 201 seats"]


@pytest.mark.proves("SM-43")
def test_duties_of_a_crew_member_in_one_month_are_one_query() -> None:
    first, last = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)
    starts = [first - timedelta(seconds=1), first, at(0), last, last + timedelta(seconds=1)]
    rows = [
        crew(f"R{n}", "123", CrewPosition.CAPTAIN, start, start + timedelta(hours=8))
        for n, start in enumerate(starts)
    ]
    twin = crew("R2b", "123", CrewPosition.CAPTAIN, at(0), at(8), "2")
    other = crew("R9", "124", CrewPosition.CAPTAIN, at(0), at(8))
    with open_airline(*rows, twin, other) as airline, meter_usage() as meter:
        found = airline.wait(airline.stores.all(patterns.duties_of_crew(CrewId("123"), first, last)))
    assert [each.roster_id for each in found] == ["R1", "R2", "R2b", "R3"]
    assert meter.usages[-1].operation == "Query" and meter.usages[-1].items_read == 4


# --- cargo --------------------------------------------------------------------------------------------------


@pytest.mark.proves("SM-23")
@pytest.mark.proves("SM-49")
@pytest.mark.proves("SM-X24")
def test_shipment_is_tracked_over_its_flights_in_route_order() -> None:
    rows = (
        cargo("A2", None, flight_id="5", shipment="42", leg=2),
        cargo(
            "A1",
            "12.5",
            flight_id="3",
            shipment="42",
            leg=1,
            status=LoadingStatus.ARRIVED,
            uld_number="AKE12345EY",
            awb_number="607-12345675",
        ),
        cargo("A3", "1", flight_id="5", shipment="43"),
    )
    with open_airline(*rows) as airline:
        route = airline.wait(queries.track_shipment(airline.stores, ShipmentId("42")))
        whole = airline.wait(queries.get_shipment(airline.stores, ShipmentId("42")))
    assert [leg.model_dump() for leg in route] == [
        {"flight_id": "3", "status": LoadingStatus.ARRIVED, "weight_kg": 12.5, "uld": "AKE12345EY"},
        {"flight_id": "5", "status": LoadingStatus.PENDING, "weight_kg": 0.0, "uld": "N/A"},
    ]
    assert (whole.delivery_status, whole.legs_done, whole.awb_number) == ("UNDER WAY", 1, "60712345675")


@pytest.mark.proves("SM-49")
@all_cases(
    ("first", "last", "status"),
    [
        (LoadingStatus.PENDING, LoadingStatus.PENDING, "BOOKED"),
        (LoadingStatus.LOADED, LoadingStatus.PENDING, "UNDER WAY"),
        (LoadingStatus.ARRIVED, LoadingStatus.OFFLOADED, "INTERRUPTED"),
        (LoadingStatus.ARRIVED, LoadingStatus.ARRIVED, "AT DESTINATION"),
        (LoadingStatus.DELIVERED, LoadingStatus.DELIVERED, "DELIVERED"),
    ],
)
def test_delivery_status_follows_from_the_legs_of_a_shipment(
    first: LoadingStatus, last: LoadingStatus, status: str
) -> None:
    rows = (
        cargo("A1", "1", shipment="42", leg=1, status=first),
        cargo("A2", "1", shipment="42", leg=2, status=last),
    )
    with open_airline(*rows) as airline:
        found = airline.wait(queries.get_shipment(airline.stores, ShipmentId("42")))
    assert found.delivery_status == status


@pytest.mark.proves("SM-24")
@pytest.mark.proves("SM-48")
def test_loading_progress_ignores_offloaded_cargo() -> None:
    rows = (
        cargo("A1", "100.25", status=LoadingStatus.LOADED),
        cargo("A2", "50", status=LoadingStatus.LOADED),
        cargo("A3", "10.5"),
        cargo("A4", None, status=LoadingStatus.LOADED),
        cargo("A5", "999", status=LoadingStatus.OFFLOADED),
    )
    with open_airline(*rows) as airline:
        load = airline.wait(queries.get_cargo_load(airline.stores, ONE))
        on_board = airline.wait(queries.get_loaded_weight(airline.stores, ONE))
        empty = airline.wait(queries.get_cargo_load(airline.stores, FIVE))
    assert (load.assignments, load.loaded, load.pending) == (5, 3, 1)
    assert (load.loaded_kg, load.pending_kg, load.progress) == (150.25, 10.5, 0.75)
    assert on_board == 150.25
    assert (empty.assignments, empty.progress) == (0, 0.0)


# --- maintenance --------------------------------------------------------------------------------------------


@pytest.mark.proves("SM-26")
@pytest.mark.proves("SM-50")
def test_staff_are_ordered_by_shift_and_counted_at_the_peak_and_at_a_moment() -> None:
    rows = (
        shift("M2", "S-2", at(8), at(16)),
        shift("M1", "S-1", at(0), at(8)),
        shift("M3", "S-3", at(10), at(18)),
        shift("M4", "S-1", at(16), at(24)),
        shift("M5", "S-9", at(0), at(8), order="WO-2"),
    )
    order = WorkOrderId("WO-1")
    with open_airline(*rows) as airline:
        staff = airline.wait(queries.get_staff(airline.stores, order))
        at_eight = airline.wait(queries.get_staffing(airline.stores, order, at(8), required=2))
        at_ten = airline.wait(queries.get_staffing(airline.stores, order, at(10), required=2))
        whenever = airline.wait(queries.get_staffing(airline.stores, order))
    assert [each.staff_id for each in staff] == ["S-1", "S-2", "S-3", "S-1"]
    assert (whenever.people, whenever.peak, whenever.now, whenever.is_enough) == (3, 2, None, None)
    assert (at_eight.now, at_eight.is_enough) == (1, False)
    assert (at_ten.now, at_ten.is_enough) == (2, True)


# --- unknown ids --------------------------------------------------------------------------------------------


def test_unknown_ids_are_reported_as_not_found() -> None:
    with open_airline() as airline:
        for work in (
            queries.get_flight(airline.stores, ONE),
            queries.find_flight(airline.stores, "EY11", DAY),
            queries.get_seats(airline.stores, ONE),
            queries.get_crew(airline.stores, ONE),
            queries.get_bags_of_booking(airline.stores, BookingId("B1")),
            queries.get_shipment(airline.stores, ShipmentId("42")),
        ):
            with pytest.raises(NotFound):
                airline.wait(work)


def test_refuses_a_time_without_a_zone() -> None:
    moment = datetime(2026, 1, 30, 8)
    with open_airline() as airline, pytest.raises(InvalidRequest, match="no time zone"):
        airline.wait(queries.get_staffing(airline.stores, WorkOrderId("WO-1"), moment))


# --- projections of indexes ---------------------------------------------------------------------------------

counted_table = Table("Counted", "booking_id", naming=keep_names, purpose="Bookings, to be counted by flight")
whole_index = counted_table.global_index("whole", "flight_id", "booking_status")
keys_index = counted_table.global_index("keys", "flight_id", "booking_status", projection=KEYS_ONLY)


class Counted(Entity, table=counted_table):
    """A booking in a table with two indexes on the same key: one with all attributes, one with keys only."""

    booking_id: Attr[str] = attr()
    flight_id: Attr[str] = attr()
    booking_status: Attr[str] = attr()
    source_message: Attr[str]

    of = Key(booking_id)
    whole = IndexKey(whole_index, flight_id, booking_status)
    keys = IndexKey(keys_index, flight_id, booking_status)


@pytest.mark.proves("SM-31")
@pytest.mark.proves("SM-X18")
async def test_counting_on_a_keys_only_index_costs_less_than_a_third() -> None:
    rows = [
        Counted(booking_id=f"B{n}", flight_id="1", booking_status="Confirmed", source_message="x" * 1_500)
        for n in range(100)
    ]
    stores = open_memory_stores()

    async def count_both() -> tuple[Count, Count]:
        await create_tables(stores, [counted_table])
        await stores.run(batch_put(map(Counted.put, rows)))
        whole = await stores.run(Counted.whole("1").at("Confirmed").count())
        keys = await stores.run(Counted.keys("1").at("Confirmed").count())
        await stores.close()
        return whole, keys

    whole, keys = await count_both()
    assert whole.count == keys.count == 100
    assert keys.units < 0.3 * whole.units
