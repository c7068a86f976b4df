"""The identifiers of air transport: each text is checked and brought to its one stored form, or refused.

Everything that enters (imports, requests, messages) passes here first, as Pydantic validators; a refusal says
what is wrong and what would be right, because it ends in a rejects file that a person reads.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, Field

from skymarshal.airports import airports_by_icao

NO_READ_BAG_TAG = "0000000000"
YEAR_MIN, YEAR_MAX = 1950, 2150

FLIGHT = re.compile(r"([A-Z0-9]{2}|[A-Z]{3})[ -]?([0-9]{1,4})([A-Z]?)")
ULD = re.compile(r"[A-Z][A-Z0-9]{2}[0-9]{4,5}[A-Z0-9]{2}")
PNR = re.compile(r"[A-Z0-9]{6}")
# Annex 7 marks: nationality, hyphen, registration. These States write theirs without the hyphen.
TAIL_WITH_HYPHEN = re.compile(r"(?=[0-9]?[A-Z])[A-Z0-9]{1,4}-[A-Z0-9]{2,5}")
TAIL_WITHOUT_HYPHEN = re.compile(
    r"N[1-9](?:[0-9]{0,4}|[0-9]{0,3}[A-HJ-NP-Z]|[0-9]{0,2}[A-HJ-NP-Z]{2})"
    r"|JA[0-9]{2}[A-Z0-9]{2}|HL[0-9]{4}|UK[0-9]{5}|YV[0-9]{3,4}"
)


def bag_tag(text: str) -> str:
    """Ten digits: one leading, three of the carrier, six serial. A tag the scanner could not read is refused."""
    digits = _without(text, " -")
    if not _is_digits(digits, 10):
        raise ValueError(
            f"The bag tag {text!r} is not 10 digits: a leading digit, 3 of the carrier's code and 6 serial, "
            "as in 0607123456."
        )
    if digits == NO_READ_BAG_TAG:
        raise ValueError(
            "The bag tag 0000000000 stands for a tag that could not be read; key in the number printed on it."
        )
    return digits


def bag_tag_or_no_read(text: str) -> str:
    """A bag tag where a scanner reports, which may also say that it could not read one."""
    return NO_READ_BAG_TAG if _without(text, " -") == NO_READ_BAG_TAG else bag_tag(text)


def awb_number(text: str) -> str:
    """Eleven digits: three of the carrier, seven serial and their remainder by seven. 607-12345675 is accepted."""
    digits = _without(text, " -")
    if not _is_digits(digits, 11):
        raise ValueError(
            f"The air waybill {text!r} is not 11 digits: 3 of the carrier, 7 serial and a check digit, "
            "as in 607-12345675."
        )
    right = awb_check_digit(digits[3:10])
    if digits[10] != right:
        raise ValueError(
            f"The air waybill {text!r} ends in {digits[10]}, but its serial {digits[3:10]} gives the check digit "
            f"{right} (serial modulo 7); compare it with the document."
        )
    return digits


def awb_check_digit(serial: str) -> str:
    return str(int(serial) % 7)


def flight_number(text: str) -> str:
    """Carrier and number without leading zeros: EY0011, EY 11 and ey11 are all EY11."""
    match = FLIGHT.fullmatch(text.strip().upper())
    if match is None or match[1].isdigit() or int(match[2]) == 0:
        raise ValueError(
            f"The flight number {text!r} is not a carrier of 2 (IATA) or 3 (ICAO) characters, then 1 to 4 digits "
            "from 1 to 9999 and perhaps a letter, as in EY11 or EY11A."
        )
    return f"{match[1]}{int(match[2])}{match[3]}"


def airport(text: str) -> str:
    """The IATA code of three letters. An ICAO code of four is turned into it where the table has the airport."""
    code = text.strip().upper()
    if code.isascii() and code.isalpha() and len(code) == 3:
        return code
    known = airports_by_icao().get(code)
    if known is not None:
        return known.iata
    if code.isascii() and code.isalpha() and len(code) == 4:
        raise ValueError(
            f"The ICAO code {text!r} is not in data/airports.csv; give the IATA code of 3 letters."
        )
    raise ValueError(f"The airport {text!r} is not an IATA code of 3 letters, as in AUH.")


def pnr(text: str) -> str:
    """The booking reference: six letters or digits."""
    locator = text.strip().upper()
    if PNR.fullmatch(locator) is None:
        raise ValueError(f"The booking reference {text!r} is not 6 letters or digits, as in YNG4DB.")
    return locator


def tail_number(text: str) -> str:
    """The registration painted on the aircraft, as its State writes it."""
    mark = text.strip().upper()
    if TAIL_WITH_HYPHEN.fullmatch(mark) is None and TAIL_WITHOUT_HYPHEN.fullmatch(mark) is None:
        raise ValueError(
            f"The tail number {text!r} is not a registration such as A6-BLA or N123AB: "
            "nationality mark, hyphen where the State writes one, then its letters or digits."
        )
    return mark


def uld_number(text: str) -> str:
    """A container or pallet: type of three, serial of four or five digits, owner of two."""
    number = _without(text.upper(), " -")
    if ULD.fullmatch(number) is None or number[-2:].isdigit():
        raise ValueError(
            f"The unit load device {text!r} is not 3 characters of type, 4 or 5 digits and 2 of the owner, "
            "as in AKE12345EY."
        )
    return number


def zulu_time(text: str) -> str:
    """A moment in UTC, to the second and of one width, so that texts sort as times do."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"The time {text!r} is not ISO 8601, as in 2026-01-31T06:30:00Z.") from None
    if moment.tzinfo is None:
        raise ValueError(
            f"The time {text!r} does not say its zone; end it with Z for UTC, or with an offset."
        )
    try:
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"
    except OverflowError:
        raise ValueError(f"The time {text!r} lies outside the years 1 to 9999 in UTC.") from None


BagTag = Annotated[str, AfterValidator(bag_tag)]
BagTagOrNoRead = Annotated[str, AfterValidator(bag_tag_or_no_read)]
AwbNumber = Annotated[str, AfterValidator(awb_number)]
FlightNumber = Annotated[str, AfterValidator(flight_number)]
AirportCode = Annotated[str, AfterValidator(airport)]
Pnr = Annotated[str, AfterValidator(pnr)]
TailNumber = Annotated[str, AfterValidator(tail_number)]
UldNumber = Annotated[str, AfterValidator(uld_number)]
ZuluTime = Annotated[str, AfterValidator(zulu_time)]
# No flight is planned outside these, and beyond the year 9999 no calendar goes on.
Day = Annotated[date, Field(ge=date(YEAR_MIN, 1, 1), le=date(YEAR_MAX, 12, 31))]
Moment = Annotated[
    AwareDatetime,
    Field(ge=datetime(YEAR_MIN, 1, 1, tzinfo=UTC), le=datetime(YEAR_MAX, 12, 31, tzinfo=UTC)),
]


def _without(text: str, separators: str) -> str:
    return text.strip().translate({ord(separator): None for separator in separators})


def _is_digits(text: str, count: int) -> bool:
    return len(text) == count and text.isascii() and text.isdigit()
