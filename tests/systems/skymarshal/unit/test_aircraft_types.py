"""Unit tests of the aircraft types and of the check of a crew against the legal minimum."""

from __future__ import annotations

import pytest

from skymarshal.domain.aircraft_types import (
    check_crew,
    get_aircraft_type,
    get_aircraft_types,
    get_min_cabin_crew,
)
from tests.cases import all_cases


@all_cases(
    ("seats", "crew"), [(0, 0), (1, 1), (50, 1), (51, 2), (100, 2), (101, 3), (150, 3), (371, 8), (486, 10)]
)
def test_requires_one_cabin_crew_per_fifty_seats_or_part(seats: int, crew: int) -> None:
    assert get_min_cabin_crew(seats) == crew


def test_checks_a_crew_against_the_legal_minimum() -> None:
    full = check_crew(290, ["1", "2", "4", "5", "5", "5", "5", "5"])

    assert full.is_enough
    assert (full.pilots, full.cabin, full.cabin_needed) == (2, 6, 6)
    assert check_crew(412, ["1", "2", *"5555555"]).missing == ("2 of 9 cabin crew short for 412 seats",)
    assert check_crew(0, ["1"]).missing == ("1 of 2 pilots short",)
    assert check_crew(0, ["2", "3"]).missing == ("no captain",)


def test_finds_a_type_by_designator_and_refuses_an_unknown_one() -> None:
    assert get_aircraft_type("b789").name == "Boeing 787-9"
    with pytest.raises(ValueError, match="expected one of A320"):
        get_aircraft_type("DC3")


def test_refuses_negative_seats() -> None:
    with pytest.raises(ValueError, match="the number installed"):
        get_min_cabin_crew(-1)


def test_every_type_carries_people_or_freight() -> None:
    assert all(entry.seats > 0 or entry.cargo_kg > 0 for entry in get_aircraft_types().values())
