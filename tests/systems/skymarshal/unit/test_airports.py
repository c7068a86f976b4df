"""Unit tests of the airport table: distances, UTC offsets, borders and minimum connection times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymarshal.domain.airports import (
    compute_distance_km,
    get_airport,
    get_airports,
    get_airports_by_icao,
    get_min_connection_minutes,
    get_utc_offset,
    is_international,
)
from tests.cases import all_cases

CODES = st.sampled_from(sorted(get_airports()))


def test_table_lists_each_airport_once_with_valid_coordinates_and_zones() -> None:
    assert len(get_airports()) >= 120
    assert len(get_airports_by_icao()) == len(get_airports())
    zones = available_timezones()
    for airport in get_airports().values():
        assert len(airport.iata) == 3
        assert len(airport.icao) == 4
        assert abs(airport.latitude) <= 90
        assert abs(airport.longitude) <= 180
        assert airport.zone in ("EU", "UK", "")
        assert airport.time_zone in zones


# Great-circle distances that airlines and route calculators publish.
@all_cases(
    ("origin", "destination", "km"),
    [
        ("AUH", "LHR", 5517),
        ("AUH", "JFK", 11022),
        ("AUH", "SYD", 12071),
        ("AUH", "BOM", 1978),
        ("LHR", "JFK", 5540),
        ("CDG", "FRA", 448),
        ("JFK", "LAX", 3974),
        ("SYD", "SCL", 11350),
    ],
)
def test_distances_match_published_values_within_half_a_percent(
    origin: str, destination: str, km: int
) -> None:
    assert compute_distance_km(origin, destination) == pytest.approx(km, rel=0.005)


@given(CODES, CODES, CODES)
def test_distance_is_symmetric_and_no_detour_is_shorter(one: str, other: str, via: str) -> None:
    assert compute_distance_km(one, other) == pytest.approx(compute_distance_km(other, one))
    assert (
        compute_distance_km(one, other)
        <= compute_distance_km(one, via) + compute_distance_km(via, other) + 1e-6
    )
    assert compute_distance_km(one, one) == 0


def test_finds_an_airport_by_either_code_and_refuses_an_unknown_one() -> None:
    assert get_airport("omaa") is get_airport("AUH")
    with pytest.raises(ValueError, match=r"add the airport to data/airports\.csv"):
        get_airport("QQQ")


def test_utc_offset_follows_summer_time_and_needs_a_time_zone() -> None:
    assert get_utc_offset("AUH", datetime(2026, 7, 1, tzinfo=UTC)) == timedelta(hours=4)
    assert get_utc_offset("LHR", datetime(2026, 1, 1, tzinfo=UTC)) == timedelta(0)
    assert get_utc_offset("LHR", datetime(2026, 7, 1, tzinfo=UTC)) == timedelta(hours=1)
    with pytest.raises(ValueError, match="expected a time zone"):
        get_utc_offset("LHR", datetime(2026, 7, 1))


@all_cases(
    ("origin", "destination", "abroad"), [("JFK", "LAX", False), ("AUH", "LHR", True), ("QQQ", "AUH", True)]
)
def test_flight_across_a_border_or_from_an_unknown_airport_is_international(
    origin: str, destination: str, abroad: bool
) -> None:
    assert is_international(origin, destination) is abroad


def test_minimum_connection_time_is_the_airports_or_the_default() -> None:
    assert get_min_connection_minutes("AUH", inbound_international=True, outbound_international=True) == 60
    assert get_min_connection_minutes("QQQ", inbound_international=True, outbound_international=True) == 75
    assert get_min_connection_minutes("DXB", inbound_international=False, outbound_international=False) == 45


@given(CODES, st.booleans(), st.booleans())
def test_another_terminal_adds_half_an_hour(code: str, inbound: bool, outbound: bool) -> None:
    same, other = (
        get_min_connection_minutes(
            code, inbound_international=inbound, outbound_international=outbound, same_terminal=same_terminal
        )
        for same_terminal in (True, False)
    )

    assert other - same == 30
