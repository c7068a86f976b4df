"""Unit tests of the identifier parsers: a text becomes its stored form or is refused with the reason."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymarshal.domain.identifiers import (
    compute_awb_check_digit,
    parse_airport_code,
    parse_awb_number,
    parse_bag_tag,
    parse_flight_number,
    parse_pnr,
    parse_tail_number,
    parse_uld_number,
)
from tests.cases import all_cases


@all_cases(
    ("validate", "text", "stored"),
    [
        (parse_bag_tag, "0607123456", "0607123456"),
        (parse_bag_tag, " 0607 123456 ", "0607123456"),
        (parse_awb_number, "607-12345675", "60712345675"),
        (parse_awb_number, "607 1234 5675", "60712345675"),
        (parse_awb_number, "60700000000", "60700000000"),
        (parse_flight_number, "EY11", "EY11"),
        (parse_flight_number, "ey0011", "EY11"),
        (parse_flight_number, "EY 011A", "EY11A"),
        (parse_flight_number, "B61234", "B61234"),
        (parse_flight_number, "9E5001", "9E5001"),
        (parse_flight_number, "ETD11", "ETD11"),
        (parse_airport_code, "auh", "AUH"),
        (parse_airport_code, "OMAA", "AUH"),
        (parse_airport_code, "ZZZ", "ZZZ"),
        (parse_pnr, "yng4db", "YNG4DB"),
        (parse_tail_number, "a6-bla", "A6-BLA"),
        (parse_tail_number, "N123AB", "N123AB"),
        (parse_tail_number, "N10156", "N10156"),
        (parse_tail_number, "9V-SKA", "9V-SKA"),
        (parse_tail_number, "JA803A", "JA803A"),
        (parse_uld_number, "ake12345ey", "AKE12345EY"),
        (parse_uld_number, "PMC1234EY", "PMC1234EY"),
        (parse_uld_number, "AKE 12345 EY", "AKE12345EY"),
    ],
)
def test_normalises_an_identifier(validate: Callable[[str], str], text: str, stored: str) -> None:
    assert validate(text) == stored


@all_cases(
    ("validate", "text", "sentence"),
    [
        (parse_bag_tag, "060712345", "expected 10 digits"),
        (parse_bag_tag, "06071234567", "expected 10 digits"),
        (parse_bag_tag, "060712345X", "expected 10 digits"),
        (parse_bag_tag, "٠٦٠٧١٢٣٤٥٦", "expected 10 digits"),
        (parse_bag_tag, "0000000000", "could not read the tag"),
        (parse_awb_number, "607-1234567", "expected 11 digits"),
        (parse_awb_number, "AWB-12345", "expected 11 digits"),
        (parse_awb_number, "607-12345674", "gives the check digit 5"),
        (parse_flight_number, "EY", "expected a carrier"),
        (parse_flight_number, "EY12345", "expected a carrier"),
        (parse_flight_number, "EY0", "expected a carrier"),
        (parse_flight_number, "1234", "expected a carrier"),
        (parse_flight_number, "EY11AB", "expected a carrier"),
        (parse_airport_code, "AU", "IATA code of 3 letters"),
        (parse_airport_code, "A1H", "IATA code of 3 letters"),
        (parse_airport_code, "OM1A", "expected an IATA code"),
        (parse_airport_code, "ZZZZ", "not in data/airports.csv"),
        (parse_pnr, "ABC12", "6 letters or digits"),
        (parse_pnr, "ABC-12", "6 letters or digits"),
        (parse_tail_number, "BLA", "expected a registration"),
        (parse_tail_number, "N0123", "expected a registration"),
        (parse_tail_number, "N12345A", "expected a registration"),
        (parse_tail_number, "12-345", "expected a registration"),
        (parse_uld_number, "AKE123EY", "4 or 5 digits"),
        (parse_uld_number, "AKE1234512", "2 of the owner"),
        (parse_uld_number, "1KE12345EY", "3 characters of type"),
    ],
)
def test_refuses_an_invalid_identifier_with_the_expected_form(
    validate: Callable[[str], str], text: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        validate(text)


@given(st.integers(0, 9_999_999), st.integers(0, 999))
def test_waybill_needs_the_right_check_digit(serial: int, carrier: int) -> None:
    right = compute_awb_check_digit(f"{serial:07d}")
    wrong = str((int(right) + 1) % 10)

    assert parse_awb_number(f"{carrier:03d}-{serial:07d}{right}") == f"{carrier:03d}{serial:07d}{right}"
    with pytest.raises(ValueError, match="check digit"):
        parse_awb_number(f"{carrier:03d}-{serial:07d}{wrong}")


@given(st.sampled_from(["EY", "B6", "9E", "ETD"]), st.integers(1, 9999), st.sampled_from(["", "A", "Z"]))
def test_normalised_flight_number_is_stable_and_ignores_leading_zeros(
    carrier: str, number: int, suffix: str
) -> None:
    stored = f"{carrier}{number}{suffix}"

    assert parse_flight_number(f"{carrier}{number:04d}{suffix}") == stored
    assert parse_flight_number(stored) == stored


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)),
    st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1)),
    st.integers(-12, 14),
)
def test_stored_times_sort_chronologically(one: datetime, other: datetime, hours: int) -> None:
    one = one.replace(microsecond=0, tzinfo=UTC)
    other = other.replace(microsecond=0, tzinfo=timezone(timedelta(hours=hours)))
