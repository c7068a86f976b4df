"""Check digits of National Provider Identifiers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagw.domain.fhir.npi import build_npi, is_npi
from tests.cases import all_cases


@pytest.mark.proves("PG-X28")
@all_cases("number", ["1234567893", "1245319599", "8189991234"])
def test_accepts_published_numbers(number: str) -> None:
    assert is_npi(number)


@pytest.mark.proves("PG-X28")
@all_cases(
    "text",
    [
        "1234567890",
        "123456789",
        "12345678931",
        "",
        "123456789O",
        "１２３４５６７８９３",
        " 1234567893",
        "-234567893",
    ],
)
def test_refuses_anything_but_ten_digits_with_a_valid_check_digit(text: str) -> None:
    assert not is_npi(text)


@pytest.mark.proves("PG-X28")
@given(st.from_regex(r"[0-9]{9}", fullmatch=True), st.integers(0, 9), st.integers(1, 9))
def test_detects_any_single_digit_typo(nine: str, place: int, shift: int) -> None:
    number = build_npi(nine)
    assert is_npi(number)
    wrong = f"{number[:place]}{(int(number[place]) + shift) % 10}{number[place + 1 :]}"
    assert not is_npi(wrong)
