"""IATA delay codes: the meaning of each cause, and whether it frees the carrier from compensation.

A disruption names its cause by one of these; `passenger_rights` looks up whether it is extraordinary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

from skymarshal.domain.reference_data import Record, Source, load_document

# Carriers add a letter for finer causes (93A is a kind of 93), and some pad to three digits.
NUMERIC_CODE = re.compile(r"0?([0-9]{1,2})[A-Z]?")


class DelayCode(Record):
    """One IATA delay code: its digits, letters, group and meaning, and whether the cause is extraordinary."""

    code: str
    letters: str
    group: str
    meaning: str
    extraordinary: Literal["yes", "no", "depends"]

    @property
    def is_extraordinary(self) -> bool:
        """Whether the cause frees the carrier from compensation.

        False where it depends: the money is then counted.
        """
        return self.extraordinary == "yes"


class DelayCodeTable(Record):
    """The data file of delay codes, with its source."""

    source: Source
    extraordinary_note: str
    codes: tuple[DelayCode, ...]


@cache
def get_delay_codes() -> Mapping[str, DelayCode]:
    """Return every code, by its two digits."""
    return MappingProxyType(
        {entry.code: entry for entry in load_document("delay_codes.json", DelayCodeTable).codes}
    )


def parse_delay_code(text: str) -> DelayCode:
    """Parse a code written as 93, 093, 93A or RA. Raise ValueError if IATA does not have it."""
    code = text.strip().upper()
    if code in _get_codes_by_letters():
        return _get_codes_by_letters()[code]
    match = NUMERIC_CODE.fullmatch(code)
    number = match[1].zfill(2) if match else ""
    if number not in get_delay_codes():
        raise ValueError(
            f"Invalid delay code {text!r}: expected an IATA two-digit code, as in 93 (aircraft late from an "
            "earlier flight). Use 99 for a cause without a code of its own."
        )
    return get_delay_codes()[number]


@cache
def _get_codes_by_letters() -> Mapping[str, DelayCode]:
    """Return the codes that have letters, by these letters."""
    return MappingProxyType({entry.letters: entry for entry in get_delay_codes().values() if entry.letters})
