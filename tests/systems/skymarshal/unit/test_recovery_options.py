"""Unit tests of the recovery options for a given impact: their costs, blockers, delays and ranking."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from skymarshal.domain.recovery_options import (
    COSTS,
    AlternativeFlight,
    CargoLot,
    Impact,
    Option,
    OptionKind,
    SpareAircraft,
    build_recovery_options,
)
from skymarshal.domain.statuses import CargoSpecialHandling, DisruptionKind
from tests.cases import all_cases

HOUR = timedelta(hours=1)
DELAYED = Impact(
    flight_id="1",
    origin="FRA",
    destination="AUH",
    carrier="EY",
    kind=DisruptionKind.DELAY,
    delay=5 * HOUR,
    passengers=100,
    missed_connections=10,
    bags=150,
    delay_code="41",
)


def get_option(impact: Impact, kind: OptionKind) -> Option:
    """Return the first option of a kind that the impact leads to."""
    return next(entry for entry in build_recovery_options(impact) if entry.kind is kind)


def list_amounts(entry: Option) -> dict[str, Decimal]:
    """Return the amounts of an option's cost lines by label."""
    return {line.label: line.amount for line in entry.breakdown}


def test_flying_late_costs_compensation_delay_care_and_connections() -> None:
    assert list_amounts(get_option(DELAYED, OptionKind.DELAY)) == {
        "compensation": Decimal(90 * 600),
        "compensation, missed connections": Decimal(10 * 600),
        "delay": 300 * COSTS.delay_minute,
        "meals": 100 * COSTS.meal,
        "hotel": 10 * COSTS.hotel_night,
        "rebooking": 10 * COSTS.rebooking,
    }


def test_cancelling_fills_the_soonest_flights_and_refunds_the_rest() -> None:
    impact = replace(
        DELAYED,
        alternatives=(AlternativeFlight("EY4", 50, 9 * HOUR), AlternativeFlight("EY6", 30, 3 * HOUR)),
    )

    cancelled = get_option(impact, OptionKind.CANCEL)
    found = list_amounts(cancelled)

    assert cancelled.passengers_carried == 80
    assert found["compensation, EY6"] == 30 * 300
    assert found["compensation, EY4"] == 50 * 600
    assert found["compensation, no seat"] == 20 * 600
    assert found["rebooking"] == 80 * COSTS.rebooking
    assert found["refunds"] == 20 * COSTS.refund
    assert found["baggage re-routed"] == 150 * COSTS.bag_reroute


def test_converts_pounds_into_the_reporting_currency() -> None:
    [line] = [
        line
        for line in get_option(
            replace(DELAYED, origin="LHR", missed_connections=0), OptionKind.DELAY
        ).breakdown
        if line.label == "compensation"
    ]

    assert line.amount == 100 * 520 * COSTS.rates["GBP"]


def test_zero_compensation_is_listed_with_its_reason() -> None:
    storm = get_option(replace(DELAYED, delay_code="71"), OptionKind.DELAY)

    assert list_amounts(storm)["compensation"] == 0
    assert "extraordinary" in storm.breakdown[0].basis


def test_crew_out_of_hours_blocks_the_delay_and_needs_replacement() -> None:
    impact = replace(DELAYED, crew_illegal=3, standby_crew=3)

    assert not get_option(impact, OptionKind.DELAY).is_feasible
    assert get_option(impact, OptionKind.RE_CREW).is_feasible
    assert list_amounts(get_option(impact, OptionKind.RE_CREW))["crew called out"] == 3 * COSTS.crew_callout
    assert not get_option(replace(impact, standby_crew=2), OptionKind.RE_CREW).is_feasible


def test_quick_spare_aircraft_saves_compensation_and_ranks_first() -> None:
    impact = replace(DELAYED, spare_aircraft=(SpareAircraft("A6-BLA", 290, HOUR),))

    first = build_recovery_options(impact)[0]

    assert first.kind is OptionKind.SWAP
    assert first.delay == HOUR + timedelta(minutes=COSTS.turnaround_minutes)
    assert list_amounts(first)["compensation"] == 0
    assert first.rank == 1


def test_passengers_without_a_seat_on_the_swap_are_denied_boarding() -> None:
    impact = replace(DELAYED, delay_code="71", spare_aircraft=(SpareAircraft("A6-EIA", 80, HOUR),))

    swap = get_option(impact, OptionKind.SWAP)

    assert swap.passengers_carried == 80
    assert list_amounts(swap)["compensation, no seat"] == 20 * 600
    assert swap.title == "Swap to A6-EIA, fly 2:15 h late, leave 20 behind"


@all_cases(
    ("impact", "kinds"),
    [
        (DELAYED, {OptionKind.DELAY, OptionKind.CANCEL}),  # a legal crew needs no replacement
        (replace(DELAYED, kind=DisruptionKind.CANCEL), {OptionKind.DELAY, OptionKind.CANCEL}),
        (replace(DELAYED, kind=DisruptionKind.CANCEL, delay=timedelta(0)), {OptionKind.CANCEL}),
    ],
)
def test_offers_a_delay_unless_the_flight_cannot_fly(impact: Impact, kinds: set[OptionKind]) -> None:
    assert {entry.kind for entry in build_recovery_options(impact)} == kinds


def test_calling_out_crew_takes_time_even_for_a_short_delay() -> None:
    impact = replace(DELAYED, delay=0.5 * HOUR, crew_illegal=1, standby_crew=1)

    assert get_option(impact, OptionKind.RE_CREW).delay == timedelta(minutes=COSTS.crew_callout_minutes)
    assert get_option(replace(impact, delay=5 * HOUR), OptionKind.RE_CREW).delay == 5 * HOUR


def test_aircraft_with_exactly_enough_seats_denies_no_boarding() -> None:
    impact = replace(DELAYED, spare_aircraft=(SpareAircraft("A6-EIA", 100, HOUR),))

    assert "compensation, no seat" not in list_amounts(get_option(impact, OptionKind.SWAP))
    assert "refunds" not in list_amounts(get_option(impact, OptionKind.SWAP))


def test_shorter_swap_delay_misses_connections_in_proportion() -> None:
    half_as_late = SpareAircraft("A6-BLA", 290, 2.5 * HOUR - timedelta(minutes=COSTS.turnaround_minutes))

    swap = get_option(replace(DELAYED, spare_aircraft=(half_as_late,)), OptionKind.SWAP)

    assert list_amounts(swap)["rebooking"] == 5 * COSTS.rebooking


def test_all_passengers_get_a_hotel_from_the_configured_delay() -> None:
    night = get_option(replace(DELAYED, delay=COSTS.hotel_after_hours * HOUR), OptionKind.DELAY)

    assert list_amounts(night)["hotel"] == 100 * COSTS.hotel_night


def test_special_cargo_costs_more_to_be_late() -> None:
    plain = replace(DELAYED, cargo=(CargoLot(Decimal(100)),))
    special = replace(DELAYED, cargo=(CargoLot(Decimal(100), CargoSpecialHandling.PIL),))

    assert list_amounts(get_option(plain, OptionKind.DELAY))["late cargo"] == 100 * COSTS.cargo_kg_late
    assert (
        list_amounts(get_option(special, OptionKind.DELAY))["late cargo"] == 100 * COSTS.cargo_special_kg_late
    )


@all_cases("kind", [OptionKind.DELAY, OptionKind.CANCEL])
def test_option_lists_its_unit_costs_as_an_assumption(kind: OptionKind) -> None:
    assert "Working values" in get_option(DELAYED, kind).assumptions[0]


@given(
    passengers=st.integers(0, 500),
    missed=st.integers(0, 600),
    hours=st.integers(0, 30),
    illegal=st.integers(0, 5),
    standby=st.integers(0, 5),
    seats=st.lists(st.integers(0, 300), max_size=3),
    ready=st.lists(st.integers(0, 10), max_size=2),
)
def test_total_is_the_sum_of_its_lines_and_feasible_options_come_first(
    passengers: int, missed: int, hours: int, illegal: int, standby: int, seats: list[int], ready: list[int]
) -> None:
    impact = replace(
        DELAYED,
        passengers=passengers,
        missed_connections=missed,
        delay=hours * HOUR,
        crew_illegal=illegal,
        standby_crew=standby,
        alternatives=tuple(AlternativeFlight(f"EY{n}", left, n * HOUR) for n, left in enumerate(seats)),
        spare_aircraft=tuple(SpareAircraft(f"A6-BL{n}", 200, hour * HOUR) for n, hour in enumerate(ready)),
    )

    found = build_recovery_options(impact)

    assert [entry.rank for entry in found] == list(range(1, len(found) + 1))
    assert [entry.is_feasible for entry in found] == sorted(
        (entry.is_feasible for entry in found), reverse=True
    )
    for entry in found:
        assert entry.cost.amount == sum(line.amount for line in entry.breakdown)
        assert all(line.amount >= 0 for line in entry.breakdown)
        assert 0 <= entry.passengers_carried <= passengers


@all_cases(
    ("ready_in", "minutes"), [(-5 * HOUR, 0), (timedelta(minutes=-COSTS.turnaround_minutes), 0), (HOUR, 135)]
)
def test_spare_flies_on_time_only_if_ready_a_turnaround_before_departure(
    ready_in: timedelta, minutes: int
) -> None:
    swap = get_option(
        replace(DELAYED, spare_aircraft=(SpareAircraft("A6-BLA", 290, ready_in),)), OptionKind.SWAP
    )
    assert (swap.delay, swap.tail_number) == (timedelta(minutes=minutes), "A6-BLA")
    assert ("on time" in swap.title) is (minutes == 0)


def test_cargo_on_a_punctual_flight_is_not_late() -> None:
    lots = (CargoLot(Decimal(1000)),)
    spare = SpareAircraft("A6-BLA", 290, -5 * HOUR, missed_connections=0, crew_illegal=0)
    swap = get_option(replace(DELAYED, cargo=lots, spare_aircraft=(spare,)), OptionKind.SWAP)
    assert list_amounts(swap) == {"compensation": Decimal(0), "aircraft change": COSTS.aircraft_swap}


def test_exact_crew_and_connections_of_a_swap_replace_the_estimates() -> None:
    impact = replace(DELAYED, crew_illegal=3, standby_crew=0)
    known = SpareAircraft("A6-BLA", 290, HOUR, missed_connections=1, crew_illegal=0)
    swap = get_option(replace(impact, spare_aircraft=(known,)), OptionKind.SWAP)
    assert swap.is_feasible
    assert list_amounts(swap)["rebooking"] == COSTS.rebooking


def test_blockers_of_an_aircraft_block_its_swap() -> None:
    blocked = SpareAircraft("A6-BLA", 290, HOUR, blockers=("A6-BLA is at LHR, not at AUH.",))
    swap = get_option(replace(DELAYED, spare_aircraft=(blocked,)), OptionKind.SWAP)
    assert not swap.is_feasible and swap.blockers == blocked.blockers
