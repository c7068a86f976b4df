"""Unit tests of the duty limits: the published tables, single duties, and changes that break limits."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymarshal.domain.duty_limits import (
    EASA_FTL,
    FAR_117,
    FAR_121_CABIN,
    Duty,
    DutyRules,
    check_duties,
    get_augmented_fdp_limit,
    get_fdp_limit,
    get_rules,
    join_sectors,
)
from tests.cases import all_cases

ABU_DHABI = timedelta(hours=4)
MIDNIGHT = datetime(2026, 1, 5, tzinfo=UTC)
ALL_RULES = [FAR_117, FAR_121_CABIN, EASA_FTL]


def make_duty(name: str, start_hour: float, hours: float, **more: object) -> Duty:
    """Make a duty that starts `start_hour` hours after midnight (UTC) of day one and lasts `hours`."""
    start = MIDNIGHT + timedelta(hours=start_hour)
    return Duty(duty_id=name, start=start, end=start + timedelta(hours=hours), **more)  # type: ignore[arg-type]


@all_cases(
    ("report", "hours"),
    [
        (time(0, 0), [9, 9, 9, 9, 9, 9, 9]),
        (time(3, 59), [9, 9, 9, 9, 9, 9, 9]),
        (time(4, 0), [10, 10, 10, 10, 9, 9, 9]),
        (time(5, 0), [12, 12, 12, 12, 11.5, 11, 10.5]),
        (time(5, 59), [12, 12, 12, 12, 11.5, 11, 10.5]),
        (time(6, 0), [13, 13, 12, 12, 11.5, 11, 10.5]),
        (time(7, 0), [14, 14, 13, 13, 12.5, 12, 11.5]),
        (time(11, 59, 59), [14, 14, 13, 13, 12.5, 12, 11.5]),
        (time(12, 0), [13, 13, 13, 13, 12.5, 12, 11.5]),
        (time(13, 0), [12, 12, 12, 12, 11.5, 11, 10.5]),
        (time(17, 0), [12, 12, 11, 11, 10, 9, 9]),
        (time(22, 0), [11, 11, 10, 10, 9, 9, 9]),
        (time(23, 59), [10, 10, 10, 9, 9, 9, 9]),
    ],
)
def test_far_117_table_b_matches_the_published_table(report: time, hours: list[float]) -> None:
    assert [get_fdp_limit(report, segments) for segments in range(1, 8)] == [
        timedelta(hours=hour) for hour in hours
    ]


@all_cases(
    ("report", "pilots", "facility", "hours"),
    [
        (time(5, 59), 3, 1, 15),
        (time(5, 59), 4, 1, 17),
        (time(6, 30), 4, 1, 18.5),
        (time(7, 0), 3, 1, 17),
        (time(12, 59), 4, 1, 19),
        (time(9, 0), 3, 2, 16.5),
        (time(9, 0), 4, 2, 18),
        (time(9, 0), 3, 3, 15),
        (time(9, 0), 4, 3, 15.5),
        (time(16, 59), 3, 2, 15),
        (time(17, 0), 4, 3, 13.5),
    ],
)
def test_far_117_table_c_matches_the_published_table(
    report: time, pilots: int, facility: Literal[1, 2, 3], hours: float
) -> None:
    assert get_augmented_fdp_limit(report, pilots, facility) == timedelta(hours=hours)


@all_cases(
    ("report", "sectors", "limit"),
    [
        (time(6, 0), 1, (13, 0)),
        (time(13, 29), 2, (13, 0)),
        (time(6, 0), 3, (12, 30)),
        (time(13, 30), 1, (12, 45)),
        (time(14, 0), 5, (11, 0)),
        (time(16, 45), 2, (11, 15)),
        (time(17, 0), 1, (11, 0)),
        (time(2, 0), 4, (10, 0)),
        (time(4, 59), 5, (9, 30)),
        (time(5, 0), 2, (12, 0)),
        (time(5, 20), 3, (11, 45)),
        (time(5, 45), 2, (12, 45)),
        (time(8, 0), 10, (9, 0)),
    ],
)
def test_easa_basic_table_matches_the_published_table(
    report: time, sectors: int, limit: tuple[int, int]
) -> None:
    assert get_fdp_limit(report, sectors, EASA_FTL) == timedelta(hours=limit[0], minutes=limit[1])


@given(report=st.times(), segments=st.integers(1, 12))
def test_limit_is_at_least_nine_hours_and_never_rises_with_more_segments(report: time, segments: int) -> None:
    for rules in ALL_RULES:
        assert (
            timedelta(hours=9)
            <= get_fdp_limit(report, segments + 1, rules)
            <= get_fdp_limit(report, segments, rules)
        )


@all_cases("rules", ALL_RULES)
def test_table_rows_cover_every_minute_of_the_day_once(rules: DutyRules) -> None:
    for table in filter(None, (rules.fdp, rules.augmented, rules.flight_time)):
        edges = [
            (row.first.hour * 60 + row.first.minute, row.last.hour * 60 + row.last.minute)
            for row in table.rows
        ]
        covered = [minute for first, last in edges for minute in range(first, last + 1)]
        assert sorted(covered) == list(range(24 * 60))


def test_refuses_zero_segments_and_unknown_augmentation() -> None:
    with pytest.raises(ValueError, match="at least 1 segment"):
        get_fdp_limit(time(8), 0)
    with pytest.raises(ValueError, match="no augmented limit"):
        get_augmented_fdp_limit(time(8), 5, 1)
    with pytest.raises(ValueError, match="no augmented limit"):
        get_augmented_fdp_limit(time(8), 3, 1, EASA_FTL)


@all_cases(
    ("start", "end", "sentence"),
    [
        (MIDNIGHT, MIDNIGHT, "must start before it ends"),
        (MIDNIGHT.replace(tzinfo=None), MIDNIGHT, "with a time zone"),
    ],
)
def test_refuses_a_duty_with_impossible_times(start: datetime, end: datetime, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Duty(duty_id="R1", start=start, end=end)


def test_duty_at_the_limit_is_legal_and_one_minute_more_is_not() -> None:
    at_limit = make_duty("R1", 4, 14)  # reports at 08:00 in Abu Dhabi
    beyond = make_duty("R1", 4, 14 + 1 / 60)

    assert check_duties([at_limit], utc_offset=ABU_DHABI) == []
    [violation] = check_duties([beyond], utc_offset=ABU_DHABI)
    assert violation.limit == "flight duty period"
    assert violation.excess == timedelta(minutes=1)
    assert violation.paragraph == "14 CFR 117.13(a), Table B"
    assert violation.is_extendable
    assert str(violation).endswith("captain and carrier may extend.")


def test_local_report_time_decides_rather_than_utc() -> None:
    night_in_utc = make_duty("R1", 1, 12)  # 01:00 UTC is 05:00 in Abu Dhabi

    assert check_duties([night_in_utc], utc_offset=ABU_DHABI) == []
    assert check_duties([night_in_utc], utc_offset=timedelta(0)) != []


def test_flight_duty_period_ends_on_blocks_before_the_duty_ends() -> None:
    released_late = make_duty("R1", 4, 14.5, on_blocks=MIDNIGHT + timedelta(hours=18))

    assert check_duties([released_late], utc_offset=ABU_DHABI) == []


def test_relief_pilots_need_a_bunk_and_few_segments_to_lengthen_the_period() -> None:
    long_haul = {"pilots": 4, "rest_facility": 1, "flight_time": timedelta(hours=14)}

    assert check_duties([make_duty("R1", 4, 18, **long_haul)], utc_offset=ABU_DHABI) == []
    assert (
        check_duties([make_duty("R1", 4, 18, **long_haul | {"rest_facility": None})], utc_offset=ABU_DHABI)
        != []
    )
    assert check_duties([make_duty("R1", 4, 18, **long_haul | {"segments": 4})], utc_offset=ABU_DHABI) != []
    assert check_duties([make_duty("R1", 4, 18, **long_haul | {"segments": 3})], utc_offset=ABU_DHABI) == []


@all_cases(
    ("start_hour", "hours", "more", "broken"),
    [
        (4, 12, {"flight_time": timedelta(hours=9)}, False),
        (4, 12, {"flight_time": timedelta(hours=9, minutes=1)}, True),
        (0.5, 9, {"flight_time": timedelta(hours=8, minutes=1)}, True),
        (4, 16, {"flight_time": timedelta(hours=13), "pilots": 3, "rest_facility": 1}, False),
        (4, 16, {"flight_time": timedelta(hours=13, minutes=1), "pilots": 3, "rest_facility": 1}, True),
    ],
)
def test_table_a_limits_the_flying_within_a_period(
    start_hour: float, hours: float, more: dict[str, object], broken: bool
) -> None:
    found = check_duties([make_duty("R1", start_hour, hours, **more)], utc_offset=ABU_DHABI)

    assert [violation.limit for violation in found] == (["flight time"] if broken else [])


def test_unacclimated_crew_have_half_an_hour_less() -> None:
    [violation] = check_duties([make_duty("R1", 4, 14, is_acclimated=False)], utc_offset=ABU_DHABI)

    assert violation.allowed == timedelta(hours=13.5)


def test_reports_by_how_much_a_delay_cuts_the_rest() -> None:
    today, tomorrow = make_duty("R1", 4, 12), make_duty("R2", 26, 8)
    late = make_duty("R1", 4, 13)

    [violation] = check_duties([today, tomorrow], utc_offset=ABU_DHABI, proposed=[late])

    assert (violation.limit, violation.duty_id) == ("rest before duty", "R2")
    assert violation.excess == timedelta(hours=1)
    assert violation.paragraph == "14 CFR 117.25(e)"


def test_existing_violation_is_not_blamed_on_the_change() -> None:
    broken = [make_duty("R1", 4, 15), make_duty("R2", 40, 8)]

    assert check_duties(broken, utc_offset=ABU_DHABI) != []
    assert check_duties(broken, utc_offset=ABU_DHABI, proposed=[make_duty("R2", 40, 9)]) == []
    assert check_duties(broken, utc_offset=ABU_DHABI, proposed=[make_duty("R1", 4, 15.5)]) != []


def test_rows_of_several_sectors_form_one_duty() -> None:
    same_start = [make_duty("R1", 4, 6), make_duty("R2", 4, 12), make_duty("R3", 17, 2)]

    [period] = join_sectors(same_start)

    assert (period.segments, period.end, period.duty_id) == (3, MIDNIGHT + timedelta(hours=19), "R3")


def test_joined_duty_has_the_weakest_sectors_limits() -> None:
    flown = timedelta(hours=2)
    augmented = make_duty("R1", 4, 6, pilots=4, rest_facility=1, flight_time=flown)
    weaker = make_duty("R2", 4, 8, pilots=3, rest_facility=3, flight_time=flown, is_acclimated=False)
    plain = make_duty("R3", 4, 7)

    [period] = join_sectors([augmented, weaker])
    [without_bunk] = join_sectors([augmented, plain])

    assert (period.pilots, period.rest_facility, period.is_acclimated) == (3, 3, False)
    assert period.flight_time == 2 * flown
    assert period.fdp_end == MIDNIGHT + timedelta(hours=12)
    assert without_bunk.rest_facility is None


def test_four_hours_between_rows_separate_two_duties() -> None:
    assert len(join_sectors([make_duty("R1", 4, 4), make_duty("R2", 12, 4)])) == 2
    assert len(join_sectors([make_duty("R1", 4, 4), make_duty("R2", 11.9, 4)])) == 1


@all_cases(
    ("duties", "extendable"),
    [
        ([("R1", 4, 16)], ["R1"]),  # two hours is the longest extension
        ([("R1", 4, 16.1)], []),
        ([("R1", 4, 15), ("R2", 31, 15)], ["R1"]),  # a second long one needs thirty hours free first
        ([("R1", 4, 15), ("R2", 78.5, 15)], ["R1", "R2"]),
        ([("R1", 7, 15), ("R2", 52, 15)], ["R1", "R2"]),  # exactly thirty hours
        ([("R1", 4, 15), ("R2", 40, 2), ("R3", 55, 15)], ["R1"]),  # a duty within the free time
        ([("R0", -60, 6), ("R1", 4, 15), ("R2", 31, 15)], ["R1"]),  # free before the first long one
        ([("R1", 4, 14.5), ("R2", 31, 15)], ["R1", "R2"]),  # a short one does not use up the long one
    ],
)
def test_long_duty_may_be_extended(duties: list[tuple[str, float, float]], extendable: list[str]) -> None:
    found = check_duties([make_duty(*each) for each in duties], utc_offset=ABU_DHABI)

    too_long = [name for name, _, hours in duties if hours > 14]
    assert [each.duty_id for each in found] == too_long
    assert [each.duty_id for each in found if each.is_extendable] == extendable


def test_rules_without_an_extension_offer_none() -> None:
    [violation] = check_duties([make_duty("R1", 4, 14.5)], utc_offset=ABU_DHABI, rules=FAR_121_CABIN)

    assert not violation.is_extendable


@all_cases(("start", "limits"), [(160, []), (159.9, ["time free in 168 hours"])])
def test_exactly_thirty_hours_free_in_the_week_before_are_enough(start: float, limits: list[str]) -> None:
    six_days = [make_duty(f"R{day}", day * 24 + 4, 6) for day in range(6)]

    found = check_duties([*six_days, make_duty("R6", start, 4)], utc_offset=ABU_DHABI)

    assert [violation.limit for violation in found] == limits


def test_easa_counts_duty_up_to_release_rather_than_on_blocks() -> None:
    long_release = [
        make_duty(f"R{day}", day * 28 + 4, 12.5, on_blocks=MIDNIGHT + timedelta(hours=day * 28 + 14))
        for day in range(5)
    ]

    limits = [found.limit for found in check_duties(long_release, utc_offset=ABU_DHABI, rules=EASA_FTL)]

    assert limits == ["duty in 168 hours"]


def test_finds_a_violation_in_a_window_that_starts_with_a_duty() -> None:
    dense = make_duty("R0", 0, 8, flight_time=timedelta(hours=8))
    month = [make_duty(f"R{day}", day * 24 + 4, 6, flight_time=timedelta(hours=4)) for day in range(2, 25)]
    sparse = make_duty("R99", 672 - 4, 8, flight_time=timedelta(hours=1))

    found = check_duties([dense, *month, sparse], utc_offset=ABU_DHABI)

    assert "flight time in 672 hours" not in [
        entry.limit for entry in check_duties([dense, *month], utc_offset=ABU_DHABI)
    ]
    assert [entry.actual for entry in found if entry.limit == "flight time in 672 hours"] == [
        timedelta(hours=100.5)
    ]


def test_week_without_thirty_hours_free_is_a_violation() -> None:
    daily = [make_duty(f"R{day}", day * 24 + 4, 6) for day in range(8)]
    with_a_day_off = daily[:4] + daily[5:]

    limits = [(found.limit, found.duty_id) for found in check_duties(daily, utc_offset=ABU_DHABI)]

    assert limits == [("time free in 168 hours", "R6"), ("time free in 168 hours", "R7")]
    assert check_duties(with_a_day_off, utc_offset=ABU_DHABI) == []


def test_sixty_hours_of_duty_periods_in_a_week_is_the_limit() -> None:
    at_limit = [make_duty(f"R{day}", day * 26 + 4, 12) for day in (0, 1, 2, 4, 5)]
    beyond = [*at_limit, make_duty("R6", 160, 2)]

    assert check_duties(at_limit, utc_offset=ABU_DHABI) == []
    [violation] = check_duties(beyond, utc_offset=ABU_DHABI)
    assert violation.limit == "flight duty period in 168 hours"
    assert violation.excess == timedelta(hours=2)


def test_no_extension_is_offered_beyond_a_cumulative_limit() -> None:
    week = [make_duty(f"R{day}", day * 26 + 4, 12) for day in (0, 1, 2, 4, 5)]

    found = check_duties(week, utc_offset=ABU_DHABI, proposed=[make_duty("R5", 134, 13)])

    assert "flight duty period in 168 hours" in [violation.limit for violation in found]
    assert not any(violation.is_extendable for violation in found)


@all_cases(("hours_each", "broken"), [(5, False), (5.1, True)])
def test_a_hundred_hours_of_flying_in_four_weeks_is_the_limit(hours_each: float, broken: bool) -> None:
    flying = timedelta(hours=hours_each)
    days = [day for day in range(28) if day % 7 not in (5, 6)]
    month = [make_duty(f"R{day}", day * 24 + 4, 8, flight_time=flying) for day in days]

    limits = {found.limit for found in check_duties(month, utc_offset=ABU_DHABI)}

    assert limits == ({"flight time in 672 hours"} if broken else set())


def test_easa_rest_is_as_long_as_the_preceding_duty() -> None:
    """It is also at least 12 hours at base (R3 has too little) and 10 hours away (R4 has enough)."""
    duties = [
        make_duty("R1", 4, 12.5),
        make_duty("R2", 28.5, 6),
        make_duty("R3", 45, 6, ends_at_base=False),
        make_duty("R4", 61, 6),
    ]

    assert [found.duty_id for found in check_duties(duties, utc_offset=ABU_DHABI, rules=EASA_FTL)] == [
        "R2",
        "R3",
    ]


def test_cabin_crew_have_separate_rules() -> None:
    assert get_rules("1") is FAR_117
    assert get_rules("cabin crew") is FAR_121_CABIN
    assert check_duties([make_duty("R1", 17, 14)], utc_offset=ABU_DHABI, rules=FAR_121_CABIN) == []
    assert check_duties([make_duty("R1", 17, 14.5)], utc_offset=ABU_DHABI, rules=FAR_121_CABIN) != []


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(1, 13)), min_size=1, max_size=8),
    st.integers(0, 7),
)
def test_removing_a_duty_never_adds_a_violation(plan: list[tuple[int, int]], left_out: int) -> None:
    duties = [make_duty(f"R{day}", day * 24 + start, hours) for day, (start, hours) in enumerate(plan)]
    # Only duties with a full rest between them: closer ones are sectors of one duty with other limits.
    if len(join_sectors(duties)) == len(duties):
        fewer = [entry for index, entry in enumerate(duties) if index != left_out % len(duties)]
        before = len(check_duties(duties, utc_offset=ABU_DHABI))
        assert len(check_duties(fewer, utc_offset=ABU_DHABI)) <= before
