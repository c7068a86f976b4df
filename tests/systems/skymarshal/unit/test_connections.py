"""Unit tests of the connections that a disruption breaks and of the ranking of passengers."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

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
from tests.cases import all_cases

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


def test_cancelled_flight_is_one_missed_connection_with_all_later_legs_lost() -> None:
    legs = [*OVER_THE_HUB, make_leg("AI101", "BOM-DEL", 900, 1020)]

    [missed] = find_missed_connections(legs, FlightDisruption("EY12", DisruptionKind.CANCEL))

    assert missed.available is None
    assert missed.legs_lost == 2
    assert "does not fly" in str(missed)


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


ONWARD = ("EY204", "AUH-BOM")
APART = [
    make_leg("EY12", "LHR-AUH", 0, 420, arrival_terminal="A"),
    make_leg(*ONWARD, 540, 720, departure_terminal="2"),
]
CANCELLED = FlightDisruption("EY12", DisruptionKind.CANCEL)
CONNECTIONS = {
    "a connection at the minimum is missed by a minute": (
        [OVER_THE_HUB[0], make_leg(*ONWARD, 480, 720)],
        make_delay("EY12", 1),
        1,
    ),
    "a stay of a whole day is a connection": (
        [OVER_THE_HUB[0], make_leg(*ONWARD, 420 + 24 * 60, 420 + 27 * 60)],
        CANCELLED,
        1,
    ),
    "a stopover is not": (
        [OVER_THE_HUB[0], make_leg(*ONWARD, 420 + 24 * 60 + 1, 420 + 27 * 60)],
        CANCELLED,
        0,
    ),
    "the onward flight is late": (OVER_THE_HUB, make_delay("EY204", 300), 0),
    "the onward flight is cancelled": (OVER_THE_HUB, FlightDisruption("EY204", DisruptionKind.CANCEL), 0),
    "a swap on time": (OVER_THE_HUB, FlightDisruption("EY12", DisruptionKind.SWAP), 0),
    "another flight": (OVER_THE_HUB, make_delay("EY999", 600), 0),
    "another terminal needs longer": (APART, make_delay("EY12", 45), 1),
    "an unknown terminal counts as the same": ([OVER_THE_HUB[0], APART[1]], make_delay("EY12", 45), 0),
}


@all_cases(("case", "missed"), [(each, missed) for *each, missed in CONNECTIONS.values()])
def test_connection_is_missed_only_if_the_disruption_breaks_it(case: Any, missed: int) -> None:
    assert len(find_missed_connections(*case)) == missed


@given(st.integers(0, 600), st.integers(0, 600))
def test_a_longer_delay_never_saves_a_connection(shorter: int, more: int) -> None:
    first = len(find_missed_connections(OVER_THE_HUB, make_delay("EY12", shorter)))

    assert first <= len(find_missed_connections(OVER_THE_HUB, make_delay("EY12", shorter + more)))


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
