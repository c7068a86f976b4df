"""One call, one disruption: who and what is hit, worked out on paper beforehand."""

from __future__ import annotations

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
from tests.acceptance.skymarshal.stage import (
    DAY,
    EVENING_BEFORE,
    TOLD,
    Stage,
    asked_for,
    at,
    bag,
    booking,
    cargo,
    crew,
    flight,
    passenger,
    shift,
    staged,
    work_order,
)

# Ann changes to Edinburgh with 100 minutes in London, Bob to Dublin with 150, Cid goes no further. At LHR a change
# to a domestic flight needs 90 minutes, to an international one 75.
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


def missed(report: Report) -> dict[str, list[str]]:
    return {
        hit.passenger_id: [each.outbound_flight_id for each in hit.missed_connections]
        for hit in report.passengers.ranked
        if hit.missed_connections
    }


# --- passengers and their connections -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minutes", "expected"),
    [
        (10, {}),
        (11, {"ANN": ["2"]}),
        (75, {"ANN": ["2"]}),
        (76, {"ANN": ["2"], "BOB": ["3"]}),
    ],
)
def test_a_delay_breaks_exactly_the_connections_that_fall_below_the_minimum(
    minutes: int, expected: dict[str, list[str]]
) -> None:
    with staged(*CONNECTING) as stage:
        report = stage.assess("delay", delay_minutes=minutes)
    assert missed(report) == expected
    assert report.passengers.missing_connections == len(expected)


def test_a_missed_connection_tells_what_there_was_and_what_is_needed() -> None:
    with staged(*CONNECTING) as stage:
        report = stage.assess("delay", delay_minutes=11)
    (lost,) = next(hit for hit in report.passengers.ranked if hit.passenger_id == "ANN").missed_connections
    assert (lost.airport, lost.minutes_available, lost.minutes_needed) == ("LHR", 89, 90)
    assert lost.told == "89 minutes at LHR for EY6411, 90 are needed."


@pytest.mark.parametrize(
    ("kind", "asked", "told"),
    [
        ("delay", {"delay_minutes": 240}, "EY6411 leaves LHR 140 minutes before EY11 arrives."),
        ("cancel", {}, "EY11 does not fly, so EY6411 from LHR is lost."),
    ],
)
def test_a_connection_lost_altogether_is_told_as_such(kind: str, asked: dict[str, Any], told: str) -> None:
    with staged(*CONNECTING) as stage:
        report = stage.assess(kind, **asked)
    assert next(each.told for hit in report.passengers.ranked for each in hit.missed_connections) == told


def test_a_cancelled_flight_breaks_every_connection_behind_it_and_reroutes_every_bag() -> None:
    with staged(*CONNECTING) as stage:
        report = stage.assess("cancel")
    assert missed(report) == {"ANN": ["2"], "BOB": ["3"]}
    assert report.bags.to_reroute == ["0607000001", "0607000002", "0607000003", "0607000004"]
    assert report.flight.new_departure is None and report.flight.new_arrival is None


def test_a_connection_is_kept_when_the_flight_out_is_late_as_well() -> None:
    late = flight("2", "EY6411", "LHR-EDI", at(11, 20), at(12, 45), "G-EUYA", estimated_departure=at(12, 20))
    with staged(*CONNECTING, late) as stage:
        assert missed(stage.assess("delay", delay_minutes=60)) == {}


@pytest.mark.parametrize(
    "already_lost",
    [
        pytest.param(booking("B2", "ANN", "2", BookingStatus.CANCELLED), id="a booking given back"),
        pytest.param(
            flight(
                "2", "EY6411", "LHR-EDI", at(11, 20), at(12, 45), "G-EUYA", flight_status=patterns.CANCELLED
            ),
            id="a flight cancelled before",
        ),
        pytest.param(
            flight("2", "EY6411", "LHR-EDI", at(11, 5), at(12, 30), "G-EUYA"),
            id="a change that was too short from the start",
        ),
    ],
)
def test_what_was_lost_before_is_not_blamed_on_the_disruption(already_lost: Entity) -> None:
    with staged(*CONNECTING, already_lost) as stage:
        assert missed(stage.assess("delay", delay_minutes=60)) == {}


def test_passengers_come_ranked_by_need_then_by_what_they_lose() -> None:
    with staged(*CONNECTING) as stage:
        report = stage.assess("delay", delay_minutes=11)
    ranked = [(hit.rank, hit.passenger_id, hit.score) for hit in report.passengers.ranked]
    assert ranked == [(1, "CID", 400), (2, "ANN", 40 + 35 + 30), (3, "BOB", 0)]
    first, second, third = report.passengers.ranked
    assert second.reasons == ["40 for 1 missed connection", "35 for Gold member", "30 for Business cabin"]
    assert [hit.reputation_risk for hit in (first, second, third)] == ["HIGH", "MEDIUM", "LOW"]
    assert (second.name, second.seat, second.bags) == ("NAME/ANN", "1A", 2)


def test_only_those_who_hold_a_seat_are_hit() -> None:
    others = (
        booking("W1", "DAN", status=BookingStatus.WAITLISTED),
        booking("W2", "EVE", status=BookingStatus.WAITLISTED),
        booking("C1", "FAY", status=BookingStatus.CANCELLED),
        booking("S1", "GUS", status=BookingStatus.STANDBY),
        bag("0607000009", "C1"),
    )
    with staged(*CONNECTING, *others) as stage:
        report = stage.assess("cancel")
    assert (report.passengers.count, report.passengers.waitlisted) == (3, 2)
    assert report.bags.count == 4


def test_somebody_booked_twice_is_one_passenger_with_the_bags_of_both_bookings() -> None:
    twice = (booking("B1b", "ANN"), bag("0607000005", "B1b"))
    with staged(*CONNECTING, *twice) as stage:
        report = stage.assess("delay", delay_minutes=60)
    assert report.passengers.count == 3
    assert [hit.bags for hit in report.passengers.ranked if hit.passenger_id == "ANN"] == [3]
    assert missed(report) == {"ANN": ["2"]}
    assert report.passengers.missing_connections == 1


def test_a_passenger_whose_row_is_not_there_is_still_hit() -> None:
    with staged(flight(), booking("B1", "NOBODY")) as stage:
        (hit,) = stage.assess("cancel").passengers.ranked
    assert (hit.passenger_id, hit.name, hit.tier) == ("NOBODY", None, None)


def test_bags_are_counted_by_status_and_only_those_of_missed_connections_go_elsewhere() -> None:
    with staged(*CONNECTING) as stage:
        report = stage.assess("delay", delay_minutes=60)
    assert (report.bags.count, report.bags.by_status) == (4, {"CHECKED_IN": 1, "LOADED": 3})
    assert report.bags.to_reroute == ["0607000001", "0607000002"]


def test_a_swap_to_a_smaller_aircraft_denies_boarding_to_those_who_do_not_fit() -> None:
    people = [booking(f"B{n}", f"P{n}") for n in range(200)]
    with staged(flight(), *people) as stage:
        report = stage.assess("swap", swap_to="A6-AEA")
        enough = stage.assess("swap", swap_to="A6-BLB")
    assert (report.passengers.count, report.passengers.denied_boarding) == (200, 4)
    assert (report.flight.capacity, report.flight.aircraft_registration) == (196, "A6-AEA")
    assert enough.passengers.denied_boarding == 0


# --- cargo --------------------------------------------------------------------------------------------------


def test_cargo_comes_in_the_order_in_which_it_suffers() -> None:
    freight = (
        cargo("A1", "100.5"),
        cargo("A2", "20", CargoSpecialHandling.DGR),
        cargo("A3", "30", CargoSpecialHandling.PER),
        cargo("A4", "40", CargoSpecialHandling.HEA, CargoSpecialHandling.AVI),
        cargo("A5", None, CargoSpecialHandling.PIL),
        cargo("A6", "70", CargoSpecialHandling.PER, status=LoadingStatus.LOADED),
        cargo("A7", "999", CargoSpecialHandling.AVI, status=LoadingStatus.OFFLOADED),
    )
    with staged(flight(), *freight) as stage:
        section = stage.assess("cancel").cargo
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


def test_open_work_names_the_staff_on_shift_when_the_disruption_becomes_known() -> None:
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
    with staged(flight(), *rows) as stage:
        (order,) = stage.assess("cancel").maintenance.open
    assert (order.workorder_id, order.task, order.holds_the_aircraft) == ("WO-1", "Nose wheel change", True)
    assert (order.staff_on_shift, order.staff_required) == (2, 3)
    assert order.staff_ids == ["S-2", "S-3"]


@pytest.mark.parametrize(("opened", "holds"), [(date(2026, 1, 27), False), (date(2026, 1, 26), True)])
def test_deferred_work_holds_the_aircraft_once_its_repair_is_overdue(opened: date, holds: bool) -> None:
    order = work_order("WO-1", status=WorkOrderStatus.DEFERRED, category=MelCategory.B, opened_on=opened)
    with staged(flight(), order) as stage:
        (hit,) = stage.assess("delay", delay_minutes=60).maintenance.open
    assert (hit.repair_due, hit.holds_the_aircraft) == (opened + timedelta(days=3), holds)


ROTATION = (
    flight(),
    flight("2", "EY12", "LHR-AUH", at(12), at(18, 50)),
    flight("3", "EY454", "AUH-SYD", at(22), at(35, 50)),
)


def test_a_delay_travels_with_the_aircraft_less_what_the_ground_times_swallow() -> None:
    # On blocks at 13:40 and 75 minutes on the ground: London leaves at 14:55, lands at 21:45, Abu Dhabi at 23:00.
    with staged(*ROTATION) as stage:
        hit = stage.assess("delay", delay_minutes=240).rotation.flights
        little = stage.assess("delay", delay_minutes=60).rotation.flights
    assert [(each.flight_number, each.late_minutes) for each in hit] == [("EY12", 175), ("EY454", 60)]
    assert [each.late_minutes for each in little] == [0, 0]


def test_a_cancelled_flight_leaves_the_next_ones_elsewhere_without_an_aircraft() -> None:
    with staged(*ROTATION) as stage:
        hit = stage.assess("cancel").rotation.flights
    assert [(each.flight_number, each.has_no_aircraft) for each in hit] == [("EY12", True), ("EY454", False)]


# --- traces, and what is left alone -------------------------------------------------------------------------


def sections(report: Report) -> dict[str, Section]:
    values = {name: getattr(report, name) for name in Report.model_fields}
    return {name: value for name, value in values.items() if isinstance(value, Section)}


@pytest.mark.parametrize("kind", ["delay", "cancel", "swap"])
def test_every_figure_is_traced_to_the_pattern_that_read_it_and_the_traces_sum_up(
    kind: str, sample_stores: Stores
) -> None:
    report = Stage(sample_stores).assess(kind, **TOLD[kind])
    traces = [trace for section in sections(report).values() for trace in section.traces]
    assert all(SYSTEM.get_pattern(trace.pattern).purpose == trace.purpose for trace in traces)
    assert sum(trace.requests for trace in traces) == report.requests
    assert sum(trace.items_read for trace in traces) == report.items_read
    assert sum(trace.read_units for trace in traces) == report.read_units
    for name, section in sections(report).items():
        derived_from = section.derived_from if isinstance(section, DerivedSection) else []
        assert section.traces or derived_from, f"{name} says not where it comes from"
        assert set(derived_from) <= sections(report).keys()


def test_each_section_names_its_own_patterns(sample_stores: Stores) -> None:
    report = Stage(sample_stores).assess("delay", delay_minutes=240)
    named = {name: [trace.pattern for trace in part.traces] for name, part in sections(report).items()}
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


def test_nothing_is_scanned_and_nothing_is_written(sample_stores: Stores) -> None:
    stage = Stage(sample_stores)
    before = stage.dump()
    seen: list[str] = []
    stage.stores.observe(lambda usage: seen.append(usage.operation))
    for kind, told in TOLD.items():
        stage.assess(kind, **told)
    assert set(seen) == {"Query", "GetItem", "BatchGetItem"}
    assert stage.dump() == before


def test_the_flight_of_the_document_has_what_the_document_says(sample_stores: Stores) -> None:
    report = Stage(sample_stores).assess("delay", delay_minutes=240, flight_number="EY11", day=DAY)
    assert (report.passengers.count, report.crew.count) == (412, 9)
    assert report.maintenance.open[-1].workorder_id == "WO-10193"
    # One of the 23 was offloaded, and is not hit any more.
    section = Stage(sample_stores).assess("cancel", flight_id="5").cargo
    assert (section.traces[0].items_read, section.count) == (23, 22)


# --- what cannot be assessed --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "error", "told"),
    [
        ({"flight_id": "404"}, NotFound, "There is no flight with the id '404'"),
        ({"flight_number": "EY999", "day": DAY}, NotFound, "No flight EY999 departs on 2026-01-30"),
        ({"flight_number": "EY11", "day": date(2026, 1, 31)}, NotFound, "departs on 2026-01-31"),
        ({"delay_code": "ZZZ"}, InvalidRequest, "Invalid delay code 'ZZZ': expected an IATA"),
        ({"kind": "swap", "swap_to": "A6-XYZ"}, NotFound, "Aircraft A6-XYZ is not in the fleet"),
    ],
)
def test_refuses_what_is_not_there_and_says_what_to_do(
    asked: dict[str, Any], error: type[Exception], told: str
) -> None:
    with staged(flight()) as stage, pytest.raises(error, match=told):
        stage.assess(**{"kind": "cancel", **asked})


def test_a_flight_to_an_airport_that_the_table_has_not_is_refused_with_the_remedy() -> None:
    with (
        staged(flight(route="AUH-QQQ")) as stage,
        pytest.raises(InvalidRequest, match="QQQ.*data/airports.csv"),
    ):
        stage.assess("cancel")


@pytest.mark.parametrize(
    ("asked", "told"),
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
def test_refuses_a_disruption_that_is_told_in_part(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        DisruptionRequest.model_validate(asked)


def test_rows_that_cannot_be_are_left_out_and_named_and_the_rest_is_told() -> None:
    captain = crew("R1", "123", CrewPosition.CAPTAIN, at(1), at(10))
    with staged(flight(), booking("B1", "ANN"), bag("0607000001", "B1"), captain) as stage:
        duty = to_duty(crew("R2", "124", CrewPosition.FIRST_OFFICER, at(1), at(10))).to_item()
        other = to_duty(crew("R3", "123", CrewPosition.CAPTAIN, at(-30), at(-20), "9")).to_item()
        strange = bag("0607000002", "B1").to_item()
        for table, item in (
            ("CrewRoster_v2", duty | {"duty_end": "2026-01-30T00:00:00Z"}),
            ("CrewRoster_v2", other | {"duty_end": "2026-01-28T00:00:00Z"}),
            ("Baggage", strange | {"baggage_status": "SORTED"}),
        ):
            stage.wait(stage.stores.tables.run(PutItem(table, item)))
        report = stage.assess("delay", delay_minutes=60)
    assert report.crew.count == report.crew.unknown == 1
    assert report.crew.members[0].is_legal is None
    assert report.bags.count == 1
    assert len(report.problems) == 3
    told = " ".join(report.problems)
    assert all(each in told for each in ("R2", "R3", "0607000002", "duty_end", "baggage_status", "Skipped"))


def test_a_disruption_told_after_the_flight_has_gone_is_a_problem_and_no_option_flies_before_it() -> None:
    with staged(flight(), booking("B1", "ANN")) as stage:
        report = stage.assess("delay", delay_minutes=60, known_at=at(24 * 200))
        in_time = stage.assess("delay", delay_minutes=60, known_at=at(3))
    assert "give known_at" in report.problems[0]
    assert in_time.problems == []
    proposed = {each.id: each for each in report.options.proposed}
    assert proposed["delay"].blockers[0].startswith("The new departure, 30 Jan 2026 03:00Z")
    assert [each for each in proposed if each.startswith("swap")] == []
    assert next(each for each in in_time.options.proposed if each.id == "delay").blockers == []


def test_an_aircraft_wanted_for_a_flight_long_gone_is_blocked() -> None:
    with staged(flight(), booking("B1", "ANN")) as stage:
        report = stage.assess("swap", swap_to="A6-BLB", known_at=at(24 * 200))
    swap = next(each for each in report.options.proposed if each.id == "swap-A6-BLB")
    assert swap.blockers[0] == "A6-BLB could leave only 199 days late."


@pytest.mark.parametrize("known_at", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_a_time_at_the_end_of_all_calendars_is_refused(known_at: str) -> None:
    with pytest.raises(ValueError, match="known_at"):
        asked_for("cancel", known_at=known_at)
    with pytest.raises(ValueError, match="day"):
        asked_for("cancel", flight_number="EY11", day=known_at[:10])


def test_when_it_became_known_is_now_unless_told() -> None:
    with staged(flight()) as stage:
        now = stage.stores.clock.now()
        report = stage.assess("cancel", known_at=None)
        assert now <= report.known_at.timestamp() <= stage.stores.clock.now()


def test_the_first_reading_that_fails_is_the_error_and_the_others_are_ended() -> None:
    # Warnings are errors here: a task left behind with an error of its own would fail this test.
    with staged(*CONNECTING) as stage:
        stage.wait(stage.stores.tables.run(DeleteTable(stage.stores.physical_name(baggage))))
        with pytest.raises(NotFound):
            stage.assess("cancel")


def test_a_disruption_may_be_told_in_the_words_that_carriers_use() -> None:
    asked = asked_for("Cancelled", flight_number="ey 0011", day=DAY)
    assert (asked.kind, asked.flight_number) == (DisruptionKind.CANCEL, "EY11")
