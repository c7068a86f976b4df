"""Unit tests of the IATA delay codes: their spellings, and which causes excuse a carrier."""

from __future__ import annotations

import pytest

from skymarshal.domain.delay_codes import get_delay_codes, parse_delay_code
from tests.cases import all_cases


def test_codes_have_two_digits_and_unique_letters() -> None:
    letters = [entry.letters for entry in get_delay_codes().values() if entry.letters]

    assert all(len(code) == 2 and code.isdigit() for code in get_delay_codes())
    assert len(letters) == len(set(letters))
    assert {"11", "41", "71", "81", "93", "97", "98", "99"} <= set(get_delay_codes())


@all_cases("text", ["93", "093", "93A", "ra", " RA "])
def test_finds_a_code_in_any_spelling(text: str) -> None:
    assert parse_delay_code(text).code == "93"
    assert parse_delay_code("6").letters == "OA"


@all_cases("text", ["", "10", "20", "193", "93AB", "weather"])
def test_refuses_an_unknown_code_with_a_remedy(text: str) -> None:
    with pytest.raises(ValueError, match="Use 99 for"):
        parse_delay_code(text)


@all_cases(
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
        ("93", False),  # depends on the first delay: compensation is counted
    ],
)
def test_only_clearly_extraordinary_causes_excuse_the_carrier(code: str, frees: bool) -> None:
    assert parse_delay_code(code).is_extraordinary is frees
