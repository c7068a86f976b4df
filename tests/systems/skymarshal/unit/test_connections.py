"""Unit tests of the connections that a disruption breaks and of the ranking of passengers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymarshal.domain.connections import (
    CABIN_POINTS,
    NEED_POINTS,
    TIER_POINTS,
    FlightDisruption,
    Leg,
    PassengerProfile,
    find_missed_connections,
    rank_passengers,
)
from skymarshal.domain.statuses import DisruptionKind, ReputationRisk

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def make_leg(flight: str, route: str, start: int, end: int, **more: str) -> Leg:
    """Make a leg by its route, such as LHR-AUH, and by minutes after noon."""
    origin, destination = route.split("-")
    return Leg(
        flight_id=flight,
        origin=origin,
        destination=destination,
        departure=NOON + start * MINUTE,
        arrival=NOON + end * MINUTE,
        **more,  # type: ignore[arg-type]
    )


def make_delay(flight: str, minutes: int) -> FlightDisruption:
    """Make the delay of a flight by minutes."""
    return FlightDisruption(flight, DisruptionKind.DELAY, minutes * MINUTE)


# London to Mumbai via Abu Dhabi, with 120 minutes to connect; 60 are needed.
OVER_THE_HUB = [make_leg("EY12", "LHR-AUH", 0, 420), make_leg("EY204", "AUH-BOM", 540, 720)]


@pytest.mark.parametrize(("late", "missed"), [(0, 0), (60, 0), (61, 1), (600, 1)])
def test_connection_below_the_minimum_is_missed(late: int, missed: int) -> None:
    assert len(find_missed_connections(OVER_THE_HUB, make_delay("EY12", late))) == missed


def test_missed_connection_reports_time_left_and_needed() -> None:
    [missed] = find_missed_connections(OVER_THE_HUB, make_delay("EY12", 90))

    assert (missed.inbound, missed.outbound, missed.airport) == ("EY12", "EY204", "AUH")
    assert str(missed) == "30 minutes at AUH for EY204, 60 are needed."


def test_cancelled_flight_is_one_missed_connection_with_all_later_legs_lost() -> None:
    legs = [*OVER_THE_HUB, make_leg("AI101", "BOM-DEL", 900, 1020)]

    [missed] = find_missed_connections(legs, FlightDisruption("EY12", DisruptionKind.CANCEL))

    assert missed.available is None
    assert missed.legs_lost == 2
    assert "does not fly" in str(missed)


def test_stopover_is_not_a_connection() -> None:
    stay = [OVER_THE_HUB[0], make_leg("EY204", "AUH-BOM", 420 + 24 * 60 + 1, 420 + 27 * 60)]

    assert find_missed_connections(stay, FlightDisruption("EY12", DisruptionKind.CANCEL)) == []


def test_disrupted_onward_flight_is_not_a_missed_connection() -> None:
    assert find_missed_connections(OVER_THE_HUB, make_delay("EY204", 300)) == []
    assert find_missed_connections(OVER_THE_HUB, FlightDisruption("EY204", DisruptionKind.CANCEL)) == []


def test_swap_on_time_breaks_nothing() -> None:
    assert find_missed_connections(OVER_THE_HUB, FlightDisruption("EY12", DisruptionKind.SWAP)) == []


def test_disruption_of_another_flight_breaks_nothing() -> None:
    assert find_missed_connections(OVER_THE_HUB, make_delay("EY999", 600)) == []


def test_estimated_onward_departure_counts_rather_than_the_schedule() -> None:
    waits = Leg(
        flight_id="EY204",
        origin="AUH",
        destination="BOM",
        departure=NOON + 540 * MINUTE,
        arrival=NOON + 720 * MINUTE,
        estimated_departure=NOON + 600 * MINUTE,
    )

    assert find_missed_connections([OVER_THE_HUB[0], waits], make_delay("EY12", 90)) == []


def test_delay_already_in_the_estimate_is_counted_once() -> None:
    known_late = Leg(
        flight_id="EY12",
        origin="LHR",
        destination="AUH",
        departure=NOON,
        arrival=NOON + 420 * MINUTE,
        estimated_departure=NOON + 90 * MINUTE,
        estimated_arrival=NOON + 510 * MINUTE,
    )

    [missed] = find_missed_connections([known_late, OVER_THE_HUB[1]], make_delay("EY12", 90))

    assert missed.available == 30 * MINUTE
    assert find_missed_connections([known_late, OVER_THE_HUB[1]], make_delay("EY12", 60)) == []


def test_already_broken_connection_is_not_blamed_on_the_disruption() -> None:
    short = [OVER_THE_HUB[0], make_leg("EY204", "AUH-BOM", 450, 720)]

    assert find_missed_connections(short, make_delay("EY12", 10)) == []


def test_connection_to_another_terminal_needs_longer() -> None:
    apart = [
        make_leg("EY12", "LHR-AUH", 0, 420, arrival_terminal="A"),
        make_leg("EY204", "AUH-BOM", 540, 720, departure_terminal="2"),
    ]

    assert find_missed_connections(apart, make_delay("EY12", 45)) != []
    assert find_missed_connections(OVER_THE_HUB, make_delay("EY12", 45)) == []


def test_unknown_terminals_count_as_the_same() -> None:
    half_known = [OVER_THE_HUB[0], make_leg("EY204", "AUH-BOM", 540, 720, departure_terminal="2")]

    assert find_missed_connections(half_known, make_delay("EY12", 45)) == []


def test_a_connection_planned_at_the_minimum_is_missed_by_a_minute() -> None:
    tight = [OVER_THE_HUB[0], make_leg("EY204", "AUH-BOM", 480, 720)]

    assert len(find_missed_connections(tight, make_delay("EY12", 1))) == 1


def test_a_stay_of_a_whole_day_is_still_a_connection() -> None:
    stay = [OVER_THE_HUB[0], make_leg("EY204", "AUH-BOM", 420 + 24 * 60, 420 + 27 * 60)]

    assert len(find_missed_connections(stay, FlightDisruption("EY12", DisruptionKind.CANCEL))) == 1


@given(st.integers(0, 600), st.integers(0, 600))
def test_a_longer_delay_never_saves_a_connection(shorter: int, more: int) -> None:
    first = len(find_missed_connections(OVER_THE_HUB, make_delay("EY12", shorter)))

    assert first <= len(find_missed_connections(OVER_THE_HUB, make_delay("EY12", shorter + more)))


def test_unaccompanied_child_ranks_before_the_best_customer() -> None:
    child = PassengerProfile(passenger_id="P9", special_services=["UMNR"], cabin="Y")
    best = PassengerProfile(passenger_id="P1", tier="Platinum", cabin="First", missed_connections=3)

    assert [entry.passenger_id for entry in rank_passengers([best, child])] == ["P9", "P1"]


def test_score_is_the_sum_of_its_reasons() -> None:
    [entry] = rank_passengers(
        [
            PassengerProfile(
                passenger_id="P1",
                special_services=["WCHR", "VGML"],
                tier="gold",
                cabin="J",
                missed_connections=1,
                reputation_risk=ReputationRisk.HIGH,
            )
        ]
    )

    assert entry.reasons == (
        (240, "wheelchair on the ramp"),
        (40, "1 missed connection"),
        (35, "Gold member"),
        (30, "Business cabin"),
        (25, "high reputation risk"),
    )
    assert entry.score == 370


def test_equal_scores_are_ordered_by_id() -> None:
    people = [PassengerProfile(passenger_id=f"P{number}") for number in (3, 1, 2)]

    assert [entry.passenger_id for entry in rank_passengers(people)] == ["P1", "P2", "P3"]


@given(
    st.sampled_from(sorted(NEED_POINTS)),
    st.sampled_from(sorted(TIER_POINTS)),
    st.sampled_from(sorted(CABIN_POINTS)),
    st.integers(0, 9),
    st.sampled_from(ReputationRisk),
)
def test_special_need_outranks_tier_cabin_missed_connections_and_risk(
    need: str, tier: str, cabin: str, missed: int, risk: ReputationRisk
) -> None:
    needy = PassengerProfile(passenger_id="P9", special_services=[need])
    other = PassengerProfile(
        passenger_id="P1", tier=tier, cabin=cabin, missed_connections=missed, reputation_risk=risk
    )

    assert rank_passengers([other, needy])[0].passenger_id == "P9"
