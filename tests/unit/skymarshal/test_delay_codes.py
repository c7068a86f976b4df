"""IATA's delay codes and what they excuse."""

from __future__ import annotations

import pytest

from skymarshal.domain.delay_codes import get_delay_codes, parse_delay_code


def test_the_codes_are_two_digits_and_their_letters_are_unique() -> None:
    letters = [entry.letters for entry in get_delay_codes().values() if entry.letters]

    assert all(len(code) == 2 and code.isdigit() for code in get_delay_codes())
    assert len(letters) == len(set(letters))
    assert {"11", "41", "71", "81", "93", "97", "98", "99"} <= set(get_delay_codes())


@pytest.mark.parametrize("text", ["93", "093", "93A", "ra", " RA "])
def test_a_code_is_found_however_it_is_written(text: str) -> None:
    assert parse_delay_code(text).code == "93"


def test_a_single_digit_is_a_code_with_its_zero_left_out() -> None:
    assert parse_delay_code("6").letters == "OA"


@pytest.mark.parametrize("text", ["", "10", "20", "193", "93AB", "weather"])
def test_an_unknown_code_is_refused_with_the_way_out(text: str) -> None:
    with pytest.raises(ValueError, match="Use 99 for"):
        parse_delay_code(text)


@pytest.mark.parametrize(
    ("code", "frees"),
    [
        ("71", True),  # weather
        ("82", True),  # strike of air traffic control
        ("51", True),  # bird strike, C-315/15
        ("98", True),  # strike of others
        ("41", False),  # technical defect, C-549/07
        ("52", False),  # ground damage, C-394/14
        ("97", False),  # own staff on strike, C-28/20
        ("64", False),  # no crew
        ("93", False),  # depends on the first delay: the money is counted
    ],
)
def test_only_what_is_clearly_beyond_the_carrier_frees_it(code: str, frees: bool) -> None:
    assert parse_delay_code(code).is_extraordinary is frees
