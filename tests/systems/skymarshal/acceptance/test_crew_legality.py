"""The crew section of reports on small airlines in memory: who may still fly after a delay, to the minute.

Legality depends on the whole roster rather than on one row.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from holdfast.guarantees.table_migration import migrate
from skymarshal.disruptions.report import CrewHit, Report
from skymarshal.domain.statuses import CrewPosition, CrewStatus
from skymarshal.model.roster import CREW_ROSTER_V2
from tests.cases import all_cases
from tests.systems.skymarshal.acceptance.small_airline import (
    DISRUPTIONS,
    Airline,
    at,
    crew,
    flight,
    open_airline,
)

# Reports at 00:45 UTC, 04:45 in Abu Dhabi: with two pilots the flight duty period may be 10 hours (Table B),
# and 2 more if captain and carrier agree (117.19). On blocks at 08:45 it is 8 hours as planned, so 4 hours
# late is the limit.
SHORT = flight(arrives=at(8, 45))
CAPTAIN = crew("R1", "123", CrewPosition.CAPTAIN, at(0, 45), at(9, 15))


@pytest.fixture(scope="module")
def captain_only() -> Iterator[Airline]:
    """The short flight with its captain, shared by tests of the module that do not change it."""
    with open_airline(SHORT, CAPTAIN) as airline:
        yield airline


def get_member(report: Report, crew_id: str = "123") -> CrewHit:
    """Return the report's entry of a crew member."""
    return next(member for member in report.crew.members if member.crew_id == crew_id)


@all_cases(
    ("minutes", "is_legal", "is_reported"),
    [(120, True, False), (121, True, True), (3 * 60 + 59, True, True), (240, True, True), (241, False, True)],
)
def test_captain_may_fly_up_to_the_extended_limit(
    captain_only: Airline, minutes: int, is_legal: bool, is_reported: bool
) -> None:
    report = captain_only.assess("delay", delay_minutes=minutes)
    assert (get_member(report).is_legal, bool(get_member(report).violations)) == (is_legal, is_reported)
    assert report.crew.illegal == (0 if is_legal else 1)


def test_violation_names_the_paragraph_and_the_excess(captain_only: Airline) -> None:
    report = captain_only.assess("delay", delay_minutes=241)
    assert get_member(report).violations == [
        "Flight duty period 12:01 h, limit 10:00 h (14 CFR 117.13(a), Table B), off by 2:01 h."
    ]
    assert report.crew.rules == "FAR 117 for pilots, FAR 121.467 for cabin crew"


def test_cabin_crew_have_separate_limits() -> None:
    purser = crew("R2", "200", CrewPosition.CABIN_MANAGER, at(0, 45), at(9, 15))
    with open_airline(SHORT, CAPTAIN, purser) as airline:
        at_limit = airline.assess("delay", delay_minutes=6 * 60)
        beyond = airline.assess("delay", delay_minutes=6 * 60 + 1)
    assert not get_member(at_limit).is_legal
    assert get_member(at_limit, "200").is_legal and not get_member(beyond, "200").is_legal
    assert "14 CFR 121.467(b)(1)" in get_member(beyond, "200").violations[0]


def test_third_pilot_lengthens_the_duty_for_the_flight_deck() -> None:
    relief = (
        crew("R2", "124", CrewPosition.FIRST_OFFICER, at(0, 45), at(9, 15)),
        crew("R3", "125", CrewPosition.RELIEF_PILOT, at(0, 45), at(9, 15)),
    )
    with open_airline(SHORT, CAPTAIN, *relief) as airline:
        # Table C, class 1, three pilots, report before six: 15 hours, and 2 more by agreement.
        assert airline.assess("delay", delay_minutes=9 * 60).crew.illegal == 0
        assert airline.assess("delay", delay_minutes=9 * 60 + 1).crew.illegal == 3


@all_cases(("minutes", "is_legal"), [(30, True), (31, False)])
def test_delay_is_illegal_if_it_leaves_less_than_ten_hours_of_rest(minutes: int, is_legal: bool) -> None:
    next_day = (
        flight("2", "EY204", "AUH-BOM", at(21), at(24, 15), "A6-BLB"),
        crew("R9", "123", CrewPosition.CAPTAIN, at(19, 45), at(24, 45), "2"),
    )
    with open_airline(SHORT, CAPTAIN, *next_day) as airline:
        member = get_member(airline.assess("delay", delay_minutes=minutes))
    assert member.is_legal is is_legal
    message = "Rest before duty 9:59 h, limit 10:00 h (14 CFR 117.25(e)), off by 0:01 h."
    assert member.violations == ([] if is_legal else [message])


def test_late_first_sector_lengthens_the_whole_duty() -> None:
    # Out and back in one duty from 03:30 UTC, 07:30 local: two segments, 14 hours, 2 more by agreement.
    out_and_back = (
        flight("1", "EY204", "AUH-BOM", at(4, 45), at(8)),
        flight("2", "EY205", "BOM-AUH", at(9, 30), at(12, 45)),
        crew("R1", "123", CrewPosition.CAPTAIN, at(3, 30), at(13, 15), "1"),
        crew("R2", "123", CrewPosition.CAPTAIN, at(3, 30), at(13, 15), "2"),
    )
    with open_airline(*out_and_back) as airline:
        # 90 minutes on the ground, of which 75 are needed: the rest absorbs delay.
        planned, swallowed = 9 * 60 + 15, 15
        at_limit = airline.assess("delay", delay_minutes=16 * 60 - planned + swallowed)
        beyond = airline.assess("delay", delay_minutes=16 * 60 - planned + swallowed + 1)
    assert get_member(at_limit).is_legal
    assert get_member(beyond).violations[0].startswith("Flight duty period 16:01 h, limit 14:00 h")
    assert not get_member(beyond).is_legal


@all_cases("has_row_per_sector", [False, True])
def test_late_first_sector_carries_over_however_the_duty_is_recorded(has_row_per_sector: bool) -> None:
    # Reports at 06:00 in Abu Dhabi: 13 hours for two segments, 2 more by agreement. On blocks after 12 as
    # planned; the ground time in Doha absorbs 45 minutes of the delay.
    times = [(at(2), at(5, 30)), (at(6), at(14, 30))] if has_row_per_sector else [(at(2), at(14, 30))] * 2
    rows = [
        crew(f"R{flight_id}", "123", CrewPosition.CAPTAIN, start, end, str(flight_id))
        for flight_id, (start, end) in enumerate(times, 1)
    ]
    out_and_back = (
        flight("1", "EY397", "AUH-DOH", at(3), at(5)),
        flight("2", "EY398", "DOH-AUH", at(7), at(14), "A6-BLB"),
        *rows,
    )
    with open_airline(*out_and_back) as airline:
        at_limit = get_member(airline.assess("delay", delay_minutes=3 * 60 + 45))
        beyond = get_member(airline.assess("delay", delay_minutes=3 * 60 + 46))
    assert (at_limit.is_legal, beyond.is_legal) == (True, False)
    assert beyond.violations[0].startswith("Flight duty period 15:01 h, limit 13:00 h")


def test_delay_absorbed_between_two_sectors_breaks_no_limits() -> None:
    sectors = (
        flight("1", "EY397", "AUH-DOH", at(3), at(5)),
        flight("2", "EY398", "DOH-AUH", at(9), at(16, 30), "A6-BLB"),
        crew("R1", "123", CrewPosition.CAPTAIN, at(2), at(5, 30), "1"),
        crew("R2", "123", CrewPosition.CAPTAIN, at(8), at(17), "2"),
    )
    with open_airline(*sectors) as airline:
        assert get_member(airline.assess("delay", delay_minutes=2 * 60)).violations == []


def test_without_duty_history_legality_is_unknown() -> None:
    """It is known once the roster is migrated, or if this flight alone breaks a limit."""
    next_day = (
        flight("2", "EY204", "AUH-BOM", at(21), at(24, 15), "A6-BLB"),
        crew("R9", "123", CrewPosition.CAPTAIN, at(19, 45), at(24, 45), "2"),
    )
    with open_airline(SHORT, CAPTAIN, *next_day, roster_moved=False) as airline:
        report = airline.assess("delay", delay_minutes=60)
        broken = airline.assess("delay", delay_minutes=241)
        airline.wait(migrate(CREW_ROSTER_V2, airline.stores))
        moved = airline.assess("delay", delay_minutes=60)
    assert (report.crew.history_known, report.crew.illegal, report.crew.unknown) == (False, 0, 1)
    assert (get_member(report).is_legal, get_member(report).violations) == (None, [])
    assert "history is unknown" in (get_member(report).unchecked or "")
    assert any("holdfast migrate skymarshal crew-roster-v2" in each for each in report.problems)
    late = next(each for each in report.options.proposed if each.id == "delay")
    assert late.assumptions[-1] == (
        "Assumes that 1 crew member(s) with unknown duty history may fly so late."
    )
    # A limit that this flight alone breaks is certain.
    assert (get_member(broken).is_legal, get_member(broken).unchecked) == (False, None)
    assert (moved.crew.history_known, get_member(moved).is_legal, moved.problems) == (True, False, [])


@all_cases("kind", ["cancel", "swap"])
def test_unchanged_duty_is_legal_without_a_duty_history(kind: str) -> None:
    with open_airline(SHORT, CAPTAIN, roster_moved=False) as airline:
        report = airline.assess(kind, **DISRUPTIONS[kind])
    assert (get_member(report).is_legal, report.crew.unknown) == (True, 0)


def test_existing_violation_is_not_blamed_on_the_delay() -> None:
    too_soon = (
        flight("2", "EY205", "BOM-AUH", at(-8), at(-4), "A6-BLB"),
        crew("R9", "123", CrewPosition.CAPTAIN, at(-9), at(-5, 15), "2"),
    )
    with open_airline(SHORT, CAPTAIN, *too_soon) as airline:
        assert get_member(airline.assess("delay", delay_minutes=60)).violations == []


def test_cancellation_and_swap_on_time_break_no_limits(captain_only: Airline) -> None:
    cancelled = captain_only.assess("cancel").crew
    assert (cancelled.count, cancelled.illegal) == (1, 0)
    assert captain_only.assess("swap", swap_to="A6-BLB").crew.illegal == 0


@all_cases("status", [CrewStatus.SICK, CrewStatus.REMOVED, CrewStatus.STANDBY])
def test_absent_crew_are_not_counted(status: CrewStatus) -> None:
    absent = crew("R2", "124", CrewPosition.FIRST_OFFICER, at(0, 45), at(9, 15), status=status)
    with open_airline(SHORT, CAPTAIN, absent) as airline:
        section = airline.assess("delay", delay_minutes=60).crew
    assert section.count == 1
    assert section.minimum_crew_missing == [
        "1 of 2 pilots short",
        "6 of 6 cabin crew short for 290 seats",
    ]


def test_minimum_crew_is_that_of_the_new_aircraft(captain_only: Airline) -> None:
    section = captain_only.assess("swap", swap_to="A6-AEA").crew
    assert section.minimum_crew_missing[-1] == "4 of 4 cabin crew short for 196 seats"


def _list_blockers(airline: Airline, option: str) -> list[str]:
    """Return the blockers of an option if the delay is one minute too long for the captain."""
    report = airline.assess("delay", delay_minutes=241)
    return next(each.blockers for each in report.options.proposed if each.id == option)


def test_standby_crew_in_the_same_position_remove_the_blocker() -> None:
    first_officer = crew(
        "R2", "124", CrewPosition.FIRST_OFFICER, at(0, 45), at(9, 15), status=CrewStatus.STANDBY
    )
    captain = crew("R3", "125", CrewPosition.CAPTAIN, at(0, 45), at(9, 15), status=CrewStatus.STANDBY)
    with open_airline(SHORT, CAPTAIN, first_officer) as airline:
        assert _list_blockers(airline, "re-crew") == ["1 crew member(s) out of hours, 0 on standby."]
        airline.put(captain)
        assert _list_blockers(airline, "re-crew") == []
        assert _list_blockers(airline, "delay") == [
            "1 crew member(s) would break a duty or rest limit; call out others."
        ]
