"""Parsers and Pydantic types of air transport identifiers: a text becomes its stored form or is refused.

All input (imports, requests, messages) passes these validators first. A parser refuses a text with a
ValueError that says what is wrong and what would be right, because it ends in a rejects file that a person
reads.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field

from skymarshal.domain.airports import get_airports_by_icao

NO_READ_BAG_TAG = "0000000000"
MIN_YEAR, MAX_YEAR = 1950, 2150

FLIGHT_PATTERN = re.compile(r"([A-Z0-9]{2}|[A-Z]{3})[ -]?([0-9]{1,4})([A-Z]?)")
ULD_PATTERN = re.compile(r"[A-Z][A-Z0-9]{2}[0-9]{4,5}[A-Z0-9]{2}")
PNR_PATTERN = re.compile(r"[A-Z0-9]{6}")
# ICAO Annex 7 marks: nationality, hyphen, registration. Some States write theirs without the hyphen.
TAIL_WITH_HYPHEN_PATTERN = re.compile(r"(?=[0-9]?[A-Z])[A-Z0-9]{1,4}-[A-Z0-9]{2,5}")
TAIL_WITHOUT_HYPHEN_PATTERN = re.compile(
    r"N[1-9](?:[0-9]{0,4}|[0-9]{0,3}[A-HJ-NP-Z]|[0-9]{0,2}[A-HJ-NP-Z]{2})"
    r"|JA[0-9]{2}[A-Z0-9]{2}|HL[0-9]{4}|UK[0-9]{5}|YV[0-9]{3,4}"
)


def parse_bag_tag(text: str) -> str:
    """Parse a bag tag of ten digits: one leading, three of the carrier, six serial. Refuse a no-read tag.

    Spaces and hyphens are removed.
    """
    digits = _strip_separators(text, " -")
    if not _is_digits(digits, 10):
        raise ValueError(
            f"Invalid bag tag {text!r}: expected 10 digits (a leading digit, 3 of the carrier's code, "
            "6 serial), as in 0607123456."
        )
    if digits == NO_READ_BAG_TAG:
        raise ValueError(
            "Invalid bag tag 0000000000: it means that the scanner could not read the tag. "
            "Enter the printed number."
        )
    return digits


def parse_awb_number(text: str) -> str:
    """Parse an air waybill number of eleven digits: three of the carrier, seven serial, the serial modulo 7.

    Spaces and hyphens are removed, as in 607-12345675. Raise ValueError if the check digit is wrong.
    """
    digits = _strip_separators(text, " -")
    if not _is_digits(digits, 11):
        raise ValueError(
            f"Invalid air waybill {text!r}: expected 11 digits (3 of the carrier, 7 serial, a check digit), "
            "as in 607-12345675."
        )
    expected = compute_awb_check_digit(digits[3:10])
    if digits[10] != expected:
        raise ValueError(
            f"Invalid air waybill {text!r}: it ends in {digits[10]}, but its serial {digits[3:10]} "
            f"gives the check digit {expected} (serial modulo 7). Compare it with the document."
        )
    return digits


def compute_awb_check_digit(serial: str) -> str:
    """Return the check digit of a seven-digit serial: the serial modulo 7."""
    return str(int(serial) % 7)


def parse_flight_number(text: str) -> str:
    """Parse a flight number and drop leading zeros: EY0011, EY 11 and ey11 are all EY11."""
    match = FLIGHT_PATTERN.fullmatch(text.strip().upper())
    if match is None or match[1].isdigit() or int(match[2]) == 0:
        raise ValueError(
            f"Invalid flight number {text!r}: expected a carrier of 2 (IATA) or 3 (ICAO) characters, "
            "a number from 1 to 9999 and an optional letter, as in EY11 or EY11A."
        )
    return f"{match[1]}{int(match[2])}{match[3]}"


def parse_airport_code(text: str) -> str:
    """Parse an IATA code of three letters, known or not.

    Convert an ICAO code of four if the airport table has it.
    """
    code = text.strip().upper()
    if code.isascii() and code.isalpha() and len(code) == 3:
        return code
    known = get_airports_by_icao().get(code)
    if known is not None:
        return known.iata
    if code.isascii() and code.isalpha() and len(code) == 4:
        raise ValueError(
            f"Unknown ICAO code {text!r}: it is not in data/airports.csv. Give the IATA code of 3 letters."
        )
    raise ValueError(f"Invalid airport {text!r}: expected an IATA code of 3 letters, as in AUH.")


def parse_pnr(text: str) -> str:
    """Parse a booking reference of six letters or digits to upper case."""
    locator = text.strip().upper()
    if PNR_PATTERN.fullmatch(locator) is None:
        raise ValueError(f"Invalid booking reference {text!r}: expected 6 letters or digits, as in YNG4DB.")
    return locator


def parse_tail_number(text: str) -> str:
    """Parse an aircraft registration as its State writes it, to upper case."""
    mark = text.strip().upper()
    if (
        TAIL_WITH_HYPHEN_PATTERN.fullmatch(mark) is None
        and TAIL_WITHOUT_HYPHEN_PATTERN.fullmatch(mark) is None
    ):
        raise ValueError(
            f"Invalid tail number {text!r}: expected a registration such as A6-BLA or N123AB "
            "(nationality mark, hyphen where the State writes one, then letters or digits)."
        )
    return mark


def parse_uld_number(text: str) -> str:
    """Parse the number of a unit load device (container or pallet): type, serial, owner.

    Separators are removed.
    """
    number = _strip_separators(text.upper(), " -")
    if ULD_PATTERN.fullmatch(number) is None or number[-2:].isdigit():
        raise ValueError(
            f"Invalid unit load device {text!r}: expected 3 characters of type, 4 or 5 digits and "
            "2 of the owner, as in AKE12345EY."
        )
    return number


BagTag = Annotated[str, AfterValidator(parse_bag_tag)]
AwbNumber = Annotated[str, AfterValidator(parse_awb_number)]
FlightNumber = Annotated[str, AfterValidator(parse_flight_number)]
AirportCode = Annotated[str, AfterValidator(parse_airport_code)]
Pnr = Annotated[str, AfterValidator(parse_pnr)]
TailNumber = Annotated[str, AfterValidator(parse_tail_number)]
UldNumber = Annotated[str, AfterValidator(parse_uld_number)]
# No flight is planned outside these years, and Python's datetime ends with the year 9999.
Day = Annotated[date, Field(ge=date(MIN_YEAR, 1, 1), le=date(MAX_YEAR, 12, 31))]
Moment = Annotated[
    AwareDatetime,
    Field(ge=datetime(MIN_YEAR, 1, 1, tzinfo=UTC), le=datetime(MAX_YEAR, 12, 31, tzinfo=UTC)),
]


def _strip_separators(text: str, separators: str) -> str:
    """Return the text without outer blanks and without any of the separator characters."""
    return text.strip().translate({ord(separator): None for separator in separators})


def _is_digits(text: str, count: int) -> bool:
    """Return whether the text consists of exactly `count` ASCII digits."""
    return len(text) == count and text.isascii() and text.isdigit()
