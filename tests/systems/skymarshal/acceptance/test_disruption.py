"""Disruption reports on small airlines and on the sample, compared with figures computed on paper."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

from holdfast import Entity, Stores
from holdfast.core.errors import InvalidRequest, NotFound
from holdfast.operations.tables import DeleteTable, PutItem
from skymarshal.disruptions.report import DerivedSection, DisruptionRequest, Report, Section
from skymarshal.domain.statuses import (
    BaggageStatus,
    BookingStatus,
    CargoSpecialHandling,
    CrewPosition,
    DisruptionKind,
    LoadingStatus,
    MelCategory,
    WorkOrderStatus,
)
from skymarshal.model import patterns
from skymarshal.model.entities import baggage
from skymarshal.model.roster import to_duty
from skymarshal.system import SYSTEM
from tests.cases import all_cases
from tests.systems.skymarshal.acceptance.small_airline import (
    DAY,
    DISRUPTIONS,
    EVENING_BEFORE,
    Airline,
    at,
    bag,
    booking,
    cargo,
    crew,
    flight,
    make_request,
    open_airline,
    passenger,
    shift,
    work_order,
)

# Ann connects to Edinburgh with 100 minutes in London, Bob to Dublin with 150, Cid has no connection. At LHR
# a connection to a domestic flight needs 90 minutes, to an international one 75.
CONNECTING: tuple[Entity, ...] = (
    flight(),
    flight("2", "EY6411", "LHR-EDI", at(11, 20), at(12, 45), "G-EUYA"),
    flight("3", "EY6413", "LHR-DUB", at(12, 10), at(13, 35), "G-EUYB"),
    passenger("ANN", tier="GOLD"),
    passenger("BOB"),
    passenger("CID", special_services=["UMNR"]),
    booking("B1", "ANN", seat_number="1A", cabin="J"),
    booking("B2", "ANN", "2"),
    booking("B3", "BOB", status=BookingStatus.CHECKED_IN),
    booking("B4", "BOB", "3"),
    booking("B5", "CID", status=BookingStatus.BOARDED),
    bag("0607000001", "B1"),
    bag("0607000002", "B1", BaggageStatus.CHECKED_IN),
    bag("0607000003", "B3"),
    bag("0607000004", "B5"),
)


@pytest.fixture(scope="module")
def connecting() -> Iterator[Airline]:
    """An airline with the connecting passengers that tests of the module share and do not change."""
    with open_airline(*CONNECTING) as airline:
        yield airline


def list_missed(report: Report) -> dict[str, list[str]]:
    """Return the missed onward flights by passenger, without passengers who miss none."""
    return {
        hit.passenger_id: [each.outbound_flight_id for each in hit.missed_connections]
        for hit in report.passengers.ranked
        if hit.missed_connections
    }


# --- passengers and their connections -----------------------------------------------------------------------


@all_cases(
    ("minutes", "expected"),
    [
        (10, {}),
        (11, {"ANN": ["2"]}),
        (75, {"ANN": ["2"]}),
        (76, {"ANN": ["2"], "BOB": ["3"]}),
    ],
)
def test_delay_breaks_exactly_the_connections_below_the_minimum(
    connecting: Airline, minutes: int, expected: dict[str, list[str]]
) -> None:
    report = connecting.assess("delay", delay_minutes=minutes)
    assert list_missed(report) == expected
    assert report.passengers.missing_connections == len(expected)


def test_missed_connection_reports_time_left_and_needed(connecting: Airline) -> None:
    report = connecting.assess("delay", delay_minutes=11)
    (lost,) = next(hit for hit in report.passengers.ranked if hit.passenger_id == "ANN").missed_connections
    assert (lost.airport, lost.minutes_available, lost.minutes_needed) == ("LHR", 89, 90)
    assert lost.told == "89 minutes at LHR for EY6411, 90 are needed."


@all_cases(
    ("kind", "members", "message"),
    [
        ("delay", {"delay_minutes": 240}, "EY6411 leaves LHR 140 minutes before EY11 arrives."),
        ("cancel", {}, "EY11 does not fly, so EY6411 from LHR is lost."),
    ],
)
def test_reports_a_connection_lost_entirely(
    connecting: Airline, kind: str, members: dict[str, Any], message: str
) -> None:
    report = connecting.assess(kind, **members)
    assert next(each.told for hit in report.passengers.ranked for each in hit.missed_connections) == message


def test_cancelled_flight_breaks_every_connection_and_reroutes_every_bag(connecting: Airline) -> None:
    report = connecting.assess("cancel")
    assert list_missed(report) == {"ANN": ["2"], "BOB": ["3"]}
    assert report.bags.to_reroute == ["0607000001", "0607000002", "0607000003", "0607000004"]
    assert report.flight.new_departure is None and report.flight.new_arrival is None


EDINBURGH = ("2", "EY6411", "LHR-EDI")


@all_cases(
    "row",
    [
        flight(*EDINBURGH, at(11, 20), at(12, 45), "G-EUYA", estimated_departure=at(12, 20)),
        # Lost before the delay: a booking given back, a cancelled flight, a change too short from the start.
        booking("B2", "ANN", "2", BookingStatus.CANCELLED),
        flight(*EDINBURGH, at(11, 20), at(12, 45), "G-EUYA", flight_status=patterns.CANCELLED),
        flight(*EDINBURGH, at(11, 5), at(12, 30), "G-EUYA"),
    ],
)
def test_connection_kept_or_lost_before_is_not_blamed_on_the_disruption(row: Entity) -> None:
    with open_airline(*CONNECTING, row) as airline:
        assert list_missed(airline.assess("delay", delay_minutes=60)) == {}


def test_passengers_are_ranked_by_score_with_its_reasons(connecting: Airline) -> None:
    report = connecting.assess("delay", delay_minutes=11)
    ranked = [(hit.rank, hit.passenger_id, hit.score) for hit in report.passengers.ranked]
    assert ranked == [(1, "CID", 400), (2, "ANN", 40 + 35 + 30), (3, "BOB", 0)]
    first, second, third = report.passengers.ranked
    assert second.reasons == ["40 for 1 missed connection", "35 for Gold member", "30 for Business cabin"]
    assert [hit.reputation_risk for hit in (first, second, third)] == ["HIGH", "MEDIUM", "LOW"]
    assert (second.name, second.seat, second.bags) == ("NAME/ANN", "1A", 2)


def test_only_passengers_with_a_seat_are_affected() -> None:
    others = (
        booking("W1", "DAN", status=BookingStatus.WAITLISTED),
        booking("W2", "EVE", status=BookingStatus.WAITLISTED),
        booking("C1", "FAY", status=BookingStatus.CANCELLED),
        booking("S1", "GUS", status=BookingStatus.STANDBY),
        bag("0607000009", "C1"),
    )
    with open_airline(*CONNECTING, *others) as airline:
        report = airline.assess("cancel")
    assert (report.passengers.count, report.passengers.waitlisted) == (3, 2)
    assert report.bags.count == 4


def test_passenger_booked_twice_is_counted_once_with_all_bags() -> None:
    twice = (booking("B1b", "ANN"), bag("0607000005", "B1b"))
    with open_airline(*CONNECTING, *twice) as airline:
        report = airline.assess("delay", delay_minutes=60)
    assert report.passengers.count == 3
    assert [hit.bags for hit in report.passengers.ranked if hit.passenger_id == "ANN"] == [3]
    assert list_missed(report) == {"ANN": ["2"]}
    assert report.passengers.missing_connections == 1


def test_passenger_without_a_row_is_still_affected() -> None:
    with open_airline(flight(), booking("B1", "NOBODY")) as airline:
        (hit,) = airline.assess("cancel").passengers.ranked
    assert (hit.passenger_id, hit.name, hit.tier) == ("NOBODY", None, None)


def test_counts_bags_by_status_and_reroutes_those_of_missed_connections(connecting: Airline) -> None:
    report = connecting.assess("delay", delay_minutes=60)
    assert (report.bags.count, report.bags.by_status) == (4, {"CHECKED_IN": 1, "LOADED": 3})
    assert report.bags.to_reroute == ["0607000001", "0607000002"]


def test_swap_to_a_smaller_aircraft_denies_boarding() -> None:
    people = [booking(f"B{n}", f"P{n}") for n in range(200)]
    with open_airline(flight(), *people) as airline:
        report = airline.assess("swap", swap_to="A6-AEA")
        enough = airline.assess("swap", swap_to="A6-BLB")
    assert (report.passengers.count, report.passengers.denied_boarding) == (200, 4)
    assert (report.flight.capacity, report.flight.aircraft_registration) == (196, "A6-AEA")
    assert enough.passengers.denied_boarding == 0


# --- cargo --------------------------------------------------------------------------------------------------


def test_cargo_is_ordered_by_sensitivity() -> None:
    freight = (
        cargo("A1", "100.5"),
        cargo("A2", "20", CargoSpecialHandling.DGR),
        cargo("A3", "30", CargoSpecialHandling.PER),
        cargo("A4", "40", CargoSpecialHandling.HEA, CargoSpecialHandling.AVI),
        cargo("A5", None, CargoSpecialHandling.PIL),
        cargo("A6", "70", CargoSpecialHandling.PER, status=LoadingStatus.LOADED),
        cargo("A7", "999", CargoSpecialHandling.AVI, status=LoadingStatus.OFFLOADED),
    )
    with open_airline(flight(), *freight) as airline:
        section = airline.assess("cancel").cargo
    assert [each.assignment_id for each in section.assignments] == ["A4", "A5", "A3", "A6", "A2", "A1"]
    assert (section.count, section.weight_kg) == (6, 260.5)
    assert section.by_special_handling == {
        "AVI": 40.0,
        "PIL": 0.0,
        "PER": 100.0,
        "DGR": 20.0,
        "HEA": 40.0,
        "GEN": 100.5,
    }


# --- maintenance and rotation -------------------------------------------------------------------------------


def test_open_work_names_the_staff_on_shift() -> None:
    known = EVENING_BEFORE
    rows = (
        work_order("WO-1", staff_required=3, task="Nose wheel change"),
        work_order("WO-2", status=WorkOrderStatus.CLOSED),
        work_order("WO-3", tail="A6-BLB"),
        shift("M1", "S-1", known - timedelta(hours=8), known),
        shift("M2", "S-2", known, known + timedelta(hours=8)),
        shift("M3", "S-3", known - timedelta(hours=1), known + timedelta(hours=7)),
        shift("M4", "S-4", known + timedelta(seconds=1), known + timedelta(hours=8)),
        shift("M5", "S-5", known, known + timedelta(hours=8), order="WO-2"),
    )
    with open_airline(flight(), *rows) as airline:
        (order,) = airline.assess("cancel").maintenance.open
    assert (order.workorder_id, order.task, order.holds_the_aircraft) == ("WO-1", "Nose wheel change", True)
    assert (order.staff_on_shift, order.staff_required) == (2, 3)
    assert order.staff_ids == ["S-2", "S-3"]


@all_cases(("opened", "holds"), [(date(2026, 1, 27), False), (date(2026, 1, 26), True)])
def test_deferred_work_grounds_the_aircraft_only_once_it_is_overdue(opened: date, holds: bool) -> None:
    order = work_order("WO-1", status=WorkOrderStatus.DEFERRED, category=MelCategory.B, opened_on=opened)
    with open_airline(flight(), order) as airline:
        (hit,) = airline.assess("delay", delay_minutes=60).maintenance.open
    assert (hit.repair_due, hit.holds_the_aircraft) == (opened + timedelta(days=3), holds)


ROTATION = (
    flight(),
    flight("2", "EY12", "LHR-AUH", at(12), at(18, 50)),
    flight("3", "EY454", "AUH-SYD", at(22), at(35, 50)),
)


def test_delay_propagates_through_the_rotation() -> None:
    # On blocks at 13:40 plus 75 minutes on the ground: departs London at 14:55, lands at 21:45, leaves AUH at
    # 23:00.
    with open_airline(*ROTATION) as airline:
        hit = airline.assess("delay", delay_minutes=240).rotation.flights
        little = airline.assess("delay", delay_minutes=60).rotation.flights
    assert [(each.flight_number, each.late_minutes) for each in hit] == [("EY12", 175), ("EY454", 60)]
    assert [each.late_minutes for each in little] == [0, 0]


def test_cancelled_flight_leaves_later_flights_without_an_aircraft() -> None:
    with open_airline(*ROTATION) as airline:
        hit = airline.assess("cancel").rotation.flights
    assert [(each.flight_number, each.has_no_aircraft) for each in hit] == [("EY12", True), ("EY454", False)]


# --- traces -------------------------------------------------------------------------------------------------


def list_sections(report: Report) -> dict[str, Section]:
    """Return the sections of a report by name."""
    values = {name: getattr(report, name) for name in Report.model_fields}
    return {name: value for name, value in values.items() if isinstance(value, Section)}


@all_cases("kind", ["delay", "cancel", "swap"])
def test_every_section_is_traced_and_the_traces_sum_up_to_the_totals(
    kind: str, sample_stores: Stores
) -> None:
    report = Airline(sample_stores).assess(kind, **DISRUPTIONS[kind])
    traces = [trace for section in list_sections(report).values() for trace in section.traces]
    assert all(SYSTEM.get_pattern(trace.pattern).purpose == trace.purpose for trace in traces)
    assert sum(trace.requests for trace in traces) == report.requests
    assert sum(trace.items_read for trace in traces) == report.items_read
    assert sum(trace.read_units for trace in traces) == report.read_units
    for name, section in list_sections(report).items():
        derived_from = section.derived_from if isinstance(section, DerivedSection) else []
        assert section.traces or derived_from, f"{name} has no trace"
        assert set(derived_from) <= list_sections(report).keys()


def test_each_section_names_its_own_patterns(sample_stores: Stores) -> None:
    report = Airline(sample_stores).assess("delay", delay_minutes=240)
    named = {name: [trace.pattern for trace in part.traces] for name, part in list_sections(report).items()}
    assert named == {
        "flight": ["FL1"],
        "passengers": ["BK5", "BK6", "PX2", "BK4", "FL2"],
        "bags": ["BG3"],
        "crew": ["RO7", "CR3", "CR6"],
        "cargo": ["CG1"],
        "maintenance": ["MX4", "MX3"],
        "rotation": ["FL5"],
        "compensation": [],
        "options": ["FL4", "FL6", "BK6", "MX5"],
    }


def test_assessment_scans_and_writes_nothing(small_stores: Stores) -> None:
    airline = Airline(small_stores)
    before = airline.dump()
    seen: list[str] = []
    airline.stores.observe(lambda usage: seen.append(usage.operation))
    for kind, result in DISRUPTIONS.items():
        airline.assess(kind, **result)
    assert set(seen) == {"Query", "GetItem", "BatchGetItem"}
    assert airline.dump() == before


def test_documented_flight_has_the_documented_figures(sample_stores: Stores) -> None:
    report = Airline(sample_stores).assess("delay", delay_minutes=240, flight_number="EY11", day=DAY)
    assert (report.passengers.count, report.crew.count) == (412, 9)
    assert report.maintenance.open[-1].workorder_id == "WO-10193"
    # One of the 23 was offloaded and is no longer affected.
    section = Airline(sample_stores).assess("cancel", flight_id="5").cargo
    assert (section.traces[0].items_read, section.count) == (23, 22)


# --- invalid disruptions ------------------------------------------------------------------------------------


@pytest.fixture
def unknown() -> Iterator[Airline]:
    """An airline with a valid flight and one to an unknown airport."""
    with open_airline(flight(), flight("9", "EY9", "AUH-QQQ")) as airline:
        yield airline


@all_cases(
    ("members", "error", "message"),
    [
        ({"flight_id": "404"}, NotFound, "There is no flight with the id '404'"),
        ({"flight_number": "EY999", "day": DAY}, NotFound, "No flight EY999 departs on 2026-01-30"),
        ({"flight_number": "EY11", "day": date(2026, 1, 31)}, NotFound, "departs on 2026-01-31"),
        ({"delay_code": "ZZZ"}, InvalidRequest, "Invalid delay code 'ZZZ': expected an IATA"),
        ({"kind": "swap", "swap_to": "A6-XYZ"}, NotFound, "Aircraft A6-XYZ is not in the fleet"),
        ({"flight_id": "9"}, InvalidRequest, "QQQ.*data/airports.csv"),
    ],
)
def test_refuses_unknown_input_with_a_remedy(
    unknown: Airline, members: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        unknown.assess(**{"kind": "cancel", **members})


@all_cases(
    ("members", "message"),
    [
        ({"kind": "cancel"}, "name the flight"),
        ({"kind": "cancel", "flight_number": "EY11"}, "name the flight"),
        ({"kind": "cancel", "flight_id": "1", "flight_number": "EY11", "day": DAY}, "name the flight"),
        ({"kind": "delay", "flight_id": "1"}, "a delay needs delay_minutes"),
        ({"kind": "swap", "flight_id": "1"}, "a swap needs swap_to"),
        ({"kind": "cancel", "flight_id": "1", "swap_to": "A6-BLA"}, "swap_to is only allowed with kind swap"),
        ({"kind": "delay", "flight_id": "1", "delay_minutes": 72 * 60 + 1}, "less than or equal"),
        ({"kind": "cancel", "flight_id": "1", "known_at": "2026-01-30T00:00:00"}, "timezone"),
    ],
)
def test_refuses_an_incomplete_disruption(members: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DisruptionRequest.model_validate(members)


def test_skips_and_names_invalid_rows() -> None:
    captain = crew("R1", "123", CrewPosition.CAPTAIN, at(1), at(10))
    with open_airline(flight(), booking("B1", "ANN"), bag("0607000001", "B1"), captain) as airline:
        duty = to_duty(crew("R2", "124", CrewPosition.FIRST_OFFICER, at(1), at(10))).to_item()
        other = to_duty(crew("R3", "123", CrewPosition.CAPTAIN, at(-30), at(-20), "9")).to_item()
        strange = bag("0607000002", "B1").to_item()
        for table, item in (
            ("CrewRoster_v2", duty | {"duty_end": "2026-01-30T00:00:00Z"}),
            ("CrewRoster_v2", other | {"duty_end": "2026-01-28T00:00:00Z"}),
            ("Baggage", strange | {"baggage_status": "SORTED"}),
        ):
            airline.wait(airline.stores.tables.run(PutItem(table, item)))
        report = airline.assess("delay", delay_minutes=60)
    assert report.crew.count == report.crew.unknown == 1
    assert report.crew.members[0].is_legal is None
    assert report.bags.count == 1
    assert len(report.problems) == 3
    problems = " ".join(report.problems)
    assert all(
        each in problems for each in ("R2", "R3", "0607000002", "duty_end", "baggage_status", "Skipped")
    )


def test_disruption_known_after_departure_blocks_the_delay_and_is_a_problem() -> None:
    with open_airline(flight(), booking("B1", "ANN")) as airline:
        report = airline.assess("delay", delay_minutes=60, known_at=at(24 * 200))
        in_time = airline.assess("delay", delay_minutes=60, known_at=at(3))
    assert "give known_at" in report.problems[0]
    assert in_time.problems == []
    proposed = {each.id: each for each in report.options.proposed}
    assert proposed["delay"].blockers[0].startswith("The new departure, 30 Jan 2026 03:00Z")
    assert [each for each in proposed if each.startswith("swap")] == []
    assert next(each for each in in_time.options.proposed if each.id == "delay").blockers == []


def test_swap_that_would_leave_months_late_is_blocked() -> None:
    with open_airline(flight(), booking("B1", "ANN")) as airline:
        report = airline.assess("swap", swap_to="A6-BLB", known_at=at(24 * 200))
    swap = next(each for each in report.options.proposed if each.id == "swap-A6-BLB")
    assert swap.blockers[0] == "A6-BLB could leave only 199 days late."


@all_cases("known_at", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_refuses_a_time_at_either_end_of_the_calendar(known_at: str) -> None:
    with pytest.raises(ValueError, match="known_at"):
        make_request("cancel", known_at=known_at)
    with pytest.raises(ValueError, match="day"):
        make_request("cancel", flight_number="EY11", day=known_at[:10])


def test_known_at_defaults_to_now() -> None:
    with open_airline(flight()) as airline:
        now = airline.stores.clock.now()
        report = airline.assess("cancel", known_at=None)
        assert now <= report.known_at.timestamp() <= airline.stores.clock.now()


def test_first_failing_read_is_raised_and_the_others_are_cancelled() -> None:
    # Warnings are errors here: an abandoned task with an unread exception would fail this test.
    """The error is raised as it is, not in an exception group."""
    with open_airline(*CONNECTING) as airline:
        airline.wait(airline.stores.tables.run(DeleteTable(airline.stores.physical_name(baggage))))
        with pytest.raises(NotFound):
            airline.assess("cancel")


def test_request_accepts_other_spellings_of_kind_and_flight_number() -> None:
    request = make_request("Cancelled", flight_number="ey 0011", day=DAY)
    assert (request.kind, request.flight_number) == (DisruptionKind.CANCEL, "EY11")
