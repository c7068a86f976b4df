"""Cost, saving and break-even of an index, tested with the SkyMarshal document's corrected figures.

Names and comments contain the document's own figures where they differ. Its prices are those of 2018. The
last tests measure an index query and a scan in memory.
"""

from __future__ import annotations

import asyncio
import math

import pytest

from holdfast import Attr, Entity, IndexKey, Key, Stores, Table, attr, batch_put, open_memory_stores
from holdfast.operations.values import item_size
from holdfast.reports.cost.index_value import (
    compute_break_even,
    compute_insert_units,
    compute_key_change_units,
    compute_saving,
    compute_scan_units,
    estimate_break_even,
)
from holdfast.reports.cost.price_lists import load_price_list
from holdfast.reports.measurement.pattern_measures import ScanComparison, compare_with_scan
from holdfast.runtime import create_tables, describe_table

PRICES = load_price_list("dynamodb-2018-11")
WRITES, READS = 50_000, 100_000
BOOKINGS, ITEM_BYTES = 9_351, 1_638
# 9,351 items of 0.2 units, the document's figure.
SCAN_UNITS, QUERY_UNITS = 1_870.2, 0.5


@pytest.mark.proves("SM-X6")
@pytest.mark.proves("SM-41")
def test_two_indexes_triple_the_cost_of_an_insert() -> None:
    without, with_two = compute_insert_units(1, 0), compute_insert_units(1, 2)

    assert PRICES.compute_write_cost(WRITES * without) == pytest.approx(0.0625)
    assert PRICES.compute_write_cost(WRITES * with_two) == pytest.approx(0.1875)


@pytest.mark.proves("SM-X6")
def test_change_of_both_index_keys_costs_five_writes() -> None:
    assert compute_key_change_units(1, 2) == 5


@pytest.mark.proves("SM-X7")
@pytest.mark.proves("SM-41")
def test_hundred_thousand_scans_cost_46_75_and_as_many_queries_a_cent() -> None:
    assert PRICES.compute_read_cost(READS * 1_870) == pytest.approx(46.75)
    assert PRICES.compute_read_cost(READS * QUERY_UNITS) == pytest.approx(0.0125)


@pytest.mark.proves("SM-41")
@pytest.mark.proves("SM-X8")
def test_scenario_costs_cents_with_indexes_and_46_dollars_without() -> None:
    size = BOOKINGS * ITEM_BYTES
    storage = PRICES.compute_storage_cost(BOOKINGS, size)

    without = (
        storage
        + PRICES.compute_write_cost(WRITES * compute_insert_units(1, 0))
        + PRICES.compute_read_cost(READS * 1_870)
    )
    with_two = (
        3 * storage
        + PRICES.compute_write_cost(WRITES * compute_insert_units(1, 2))
        + PRICES.compute_read_cost(READS * QUERY_UNITS)
    )

    assert without == pytest.approx(46.82, abs=0.01)
    assert with_two == pytest.approx(0.21, abs=0.01)


@pytest.mark.proves("SM-42")
@pytest.mark.proves("SM-X9")
def test_break_even_by_rule_of_thumb_is_200_000_reads_above_the_documents_load() -> None:
    assert estimate_break_even(WRITES, 2) == 200_000
    assert estimate_break_even(WRITES, 2) > READS


@pytest.mark.proves("SM-42")
@pytest.mark.proves("SM-X9")
def test_break_even_from_the_prices_is_267_reads() -> None:
    found = compute_break_even(WRITES, 2, PRICES.write_unit, SCAN_UNITS, QUERY_UNITS, PRICES.read_unit)

    assert math.floor(found) == 267


@pytest.mark.proves("SM-X9")
def test_scan_and_index_cost_the_same_at_the_break_even() -> None:
    reads = compute_break_even(WRITES, 2, PRICES.write_unit, SCAN_UNITS, QUERY_UNITS, PRICES.read_unit)

    by_scan = PRICES.compute_write_cost(WRITES) + PRICES.compute_read_cost(reads * SCAN_UNITS)
    by_index = PRICES.compute_write_cost(compute_insert_units(WRITES, 2)) + PRICES.compute_read_cost(
        reads * QUERY_UNITS
    )
    assert by_scan == pytest.approx(by_index)


def test_an_index_that_reads_as_much_as_a_scan_never_pays() -> None:
    assert compute_break_even(WRITES, 1, PRICES.write_unit, 10, 10, PRICES.read_unit) == math.inf


@pytest.mark.proves("SM-X2")
def test_index_of_80_units_saves_against_a_real_scan_and_not_against_10() -> None:
    """The document compares 80 units with 10; the scan really needs 1,870."""
    assert compute_saving(SCAN_UNITS, 82.5) == pytest.approx(0.956, abs=0.001)
    assert compute_saving(10, 80) < 0


@pytest.mark.proves("SM-X5")
def test_half_a_unit_instead_of_1870_4_saves_99_97_percent() -> None:
    assert f"{compute_saving(1_870.4, 0.5):.2%}" == "99.97%"


bookings = Table("Bookings", partition="bookingId")
of_passenger = bookings.global_index("passenger-flight-index", "passengerId", "flightId")
of_flight = bookings.global_index("flight-status-index", "flightId", "status")


class Booking(Entity, table=bookings):
    booking_id: Attr[str] = attr()
    passenger_id: Attr[str] = attr()
    flight_id: Attr[str] = attr()
    status: Attr[str] = attr(default="Confirmed")
    remarks: Attr[str] = attr(default="")
    of = Key(booking_id)
    by_passenger = IndexKey(of_passenger, passenger_id, flight_id)
    by_flight = IndexKey(of_flight, flight_id, status)


def make_booking(number: int) -> Booking:
    """Build a booking of the document's average size.

    Numbers 0 to 2 are the first passenger's, 0 to 411 are on the first flight.
    """
    made = Booking(
        booking_id=f"{number:05}",
        passenger_id="first" if number < 3 else f"p{number:04}",
        flight_id="1" if number < 412 else "2",
    )
    return made.model_copy(update={"remarks": "x" * (ITEM_BYTES - item_size(made.to_item()))})


async def _measure() -> tuple[ScanComparison, ScanComparison, tuple[int, int]]:
    """Fill the table in memory; compare two index queries with scans, and read the sizes."""
    async with open_memory_stores() as stores:
        await _fill(stores)
        by_passenger = await compare_with_scan(stores, Booking.by_passenger("first").query())
        by_flight = await compare_with_scan(stores, Booking.by_flight("1").at("Confirmed"))
        found = await describe_table(stores, bookings)
        assert found is not None
        sizes = found.size_bytes, sum(state.size_bytes for state in found.global_indexes.values())
        return by_passenger, by_flight, sizes


async def _fill(stores: Stores) -> None:
    await create_tables(stores, [bookings])
    await stores.run(batch_put(Booking.put(make_booking(number)) for number in range(BOOKINGS)))


@pytest.fixture(scope="module")
def measured() -> tuple[ScanComparison, ScanComparison, tuple[int, int]]:
    """Return a comparison by passenger, one by flight, and the bytes of the table and of its indexes."""
    return asyncio.run(_measure())


@pytest.mark.proves("SM-46")
def test_a_passengers_bookings_need_3_items_by_index_and_9351_by_scan(
    measured: tuple[ScanComparison, ScanComparison, tuple[int, int]],
) -> None:
    passenger, _, _ = measured

    assert (passenger.query.items_read, passenger.scan.items_read) == (3, BOOKINGS)
    assert f"{1 - 3 / BOOKINGS:.2%}" == "99.97%"
    assert passenger.agrees


@pytest.mark.proves("SM-X3")
@pytest.mark.proves("SM-X4")
def test_rounds_units_up_to_halves_per_page(
    measured: tuple[ScanComparison, ScanComparison, tuple[int, int]],
) -> None:
    passenger, flight, _ = measured

    assert passenger.query.units.read == 1.0  # not 0.5
    assert flight.query.units.read == 82.5  # not 82.4
    assert passenger.scan.units.read * 2 == int(passenger.scan.units.read * 2)
    assert 1_870 < passenger.scan.units.read < 1_880  # not 5-10
    assert compute_scan_units(BOOKINGS * ITEM_BYTES) == pytest.approx(passenger.scan.units.read, rel=0.005)


@pytest.mark.proves("SM-X11")
def test_two_indexes_of_whole_items_need_at_most_twice_the_table(
    measured: tuple[ScanComparison, ScanComparison, tuple[int, int]],
) -> None:
    _, _, (table_bytes, index_bytes) = measured

    assert index_bytes <= 2 * table_bytes
