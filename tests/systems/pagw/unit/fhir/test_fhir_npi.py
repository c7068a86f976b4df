"""Check digits of National Provider Identifiers, and postal codes in X12's form."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pagw.domain.fhir.npi import build_npi, is_npi
from pagw.domain.fhir.postal_codes import format_zip_code, remove_zip_dashes
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


def test_removes_the_dash_from_zip_plus_4_in_any_address() -> None:
    patient: dict[str, Any] = {
        "address": [{"postalCode": "02139-4307", "line": ["1-2 Row"]}, {"postalCode": "60614"}],
        "contact": [{"address": {"postalCode": "94110-2209"}}],
        "note": "02139-4307",
    }
    written = remove_zip_dashes(patient)
    assert [each["postalCode"] for each in written["address"]] == ["021394307", "60614"]
    assert written["contact"][0]["address"]["postalCode"] == "941102209"
    assert written["note"] == "02139-4307" and written["address"][0]["line"] == ["1-2 Row"]
    assert patient["address"][0]["postalCode"] == "02139-4307"


@all_cases("text", ["SW1A 1AA", "123-4567", "12345-678", "K1A-0B1"])
def test_leaves_other_postal_codes_unchanged(text: str) -> None:
    assert format_zip_code(text) == text
