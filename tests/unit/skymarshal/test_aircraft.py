"""Aircraft types and the smallest crew that may fly them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymarshal.aircraft import aircraft_type, aircraft_types, cabin_crew_min, check_crew


@pytest.mark.parametrize(
    ("seats", "crew"), [(0, 0), (1, 1), (50, 1), (51, 2), (100, 2), (101, 3), (150, 3), (371, 8), (486, 10)]
)
def test_one_cabin_crew_for_every_fifty_seats_or_part_of_it(seats: int, crew: int) -> None:
    assert cabin_crew_min(seats) == crew


@given(st.integers(0, 1000))
def test_a_further_seat_never_needs_fewer(seats: int) -> None:
    assert 0 <= cabin_crew_min(seats + 1) - cabin_crew_min(seats) <= 1


def test_a_full_crew_is_enough() -> None:
    check = check_crew(290, ["1", "2", "4", "5", "5", "5", "5", "5"])

    assert check.is_enough
    assert (check.pilots, check.cabin, check.cabin_needed) == (2, 6, 6)


def test_relief_pilots_do_not_replace_the_captain() -> None:
    assert check_crew(0, ["2", "3"]).missing == ("no captain",)


def test_what_is_missing_is_told_by_number() -> None:
    check = check_crew(412, ["1", "2", *"5555555"])

    assert check.missing == ("2 of 9 cabin crew short for 412 seats",)
    assert check_crew(0, ["1"]).missing == ("1 of 2 pilots short",)


def test_a_type_is_found_by_its_designator_and_an_unknown_one_is_refused() -> None:
    assert aircraft_type("b789").name == "Boeing 787-9"
    with pytest.raises(ValueError, match="the table has A320"):
        aircraft_type("DC3")


def test_negative_seats_are_refused() -> None:
    with pytest.raises(ValueError, match="the number installed"):
        cabin_crew_min(-1)


def test_every_type_carries_people_or_freight() -> None:
    assert all(entry.seats > 0 or entry.cargo_kg > 0 for entry in aircraft_types().values())
