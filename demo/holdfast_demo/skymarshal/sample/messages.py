"""Teletype messages that are stored with sample rows, to give each row the design document's size.

The document's capacity units (82.4 for 412 bookings) imply items of 1,638 bytes. The message fills what a
row's other attributes leave of that.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from itertools import cycle
from typing import Any, Final

ITEM_BYTES: Final = 1638
MESSAGE_ATTRIBUTE: Final = "source_message"

_TRAILERS: Final[Mapping[str, tuple[str, ...]]] = {
    "PNL": (
        ".R/OSI YY CTCM 971{0}00{0}1{0} AUH",
        ".R/TKTL ISSUED WEB AUH {0}4JAN26 IATA 8649{0}12",
        ".R/RMK SEAT KEPT TOGETHER WITH PARTY {0}",
        ".R/SSR DOCS HK1/P/ARE/X{0}7{0}114/ARE/0{0}FEB79/F/{0}1DEC31",
        ".R/RMK FARE BASIS KLXAE{0} TAX PAID AED {0}45",
    ),
    "BSM": (
        ".V/1LAUH",
        ".S/Y/{0}2C/C/07{0}//N",
        ".K/AUTH LOAD AND TRANSPORT SEQ 0{0}3",
        ".J/R//AUH{0}2/30JAN/011{0}L",
        ".X/CLR//SCREENED LEVEL {0}",
        ".E/NO EXCEPTION REPORTED BELT {0}",
    ),
    "CRW": (
        "RMK LICENCE AND MEDICAL VALID CHECK {0}/26",
        "RMK PICK UP T-MINUS 1{0}5 CREW CENTRE GATE {0}",
        "RMK RECENCY OK SIM {0}4NOV25 LINE CHECK {0}9AUG25",
        "RMK HOTEL CONFIRMED ROOM BLOCK {0}",
    ),
    "FWB": (
        "OSI/KEEP AWAY FROM HEAT SECTION {0}",
        "SSR/DOCUMENTS IN POUCH {0} OF 9",
        "OCI//EY{0}/SECURITY STATUS SPX",
        "RTD/{0}/P2/K17{0}.0/CQ/S{0}/NG CONSOLIDATION AS PER LIST",
    ),
    "MXR": (
        "RMK TOOLS SIGNED OUT CRIB {0}",
        "RMK TASK CARD {0}4-{0}1-00 STEP {0} SIGNED",
        "RMK PARTS ON HAND BIN C{0}7 SHELF {0}",
        "RMK HANDOVER TO NEXT SHIFT READ AND UNDERSTOOD {0}",
    ),
}


def add_message(kind: str, head: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with a message added that brings the item to the design document's size.

    `kind` is the message type, a key of `_TRAILERS`; `head` is the start of the text.
    """
    used = sum(len(name) + _measure_value(value) for name, value in fields.items() if value is not None)
    remaining = ITEM_BYTES - used - len(MESSAGE_ATTRIBUTE)
    text = f"{kind}\n{head}{_build_trailer(kind)}"[:remaining]
    return fields | {MESSAGE_ATTRIBUTE: text if not text.endswith(" ") else text[:-1] + "."}


@lru_cache
def _build_trailer(kind: str) -> str:
    """Return 80 remark lines of a message type, each on a new line."""
    lines = cycle(_TRAILERS[kind])
    return "".join("\n" + next(lines).format(number % 9 + 1) for number in range(80))


def _measure_value(value: Any) -> int:
    """Return a value's size in bytes as DynamoDB counts it.

    All texts of the sample are ASCII, and a time is stored as `2026-01-30T02:00:00Z`.
    """
    if isinstance(value, str):
        return len(value)
    if isinstance(value, datetime):
        return 20
    if isinstance(value, int | Decimal):
        return _measure_number(value)
    if isinstance(value, list):
        return 3 + len(value) + sum(map(_measure_value, value))
    return _measure_scan(value.location, value.status)


def _measure_scan(location: str, status: str) -> int:
    """Return the size of a bag scan: a map of three entries, its time to the microsecond."""
    return 3 + 3 + len("at") + 27 + len("location") + len(location) + len("status") + len(status)


@lru_cache(maxsize=4096)
def _measure_number(number: int | Decimal) -> int:
    """Return the size of a number: two digits a byte, aligned to even powers of ten, plus one byte."""
    if not number:
        return 1
    _, digits, exponent = Decimal(number).normalize().as_tuple()
    count = len(digits)
    unaligned = count % 2 == 0 and (count - 1 + int(exponent)) % 2 == 0
    return 1 + (count + 1) // 2 + unaligned
