"""IATA delay codes: what a two-digit cause means, and whether it frees the carrier from compensation.

A disruption names its cause by one of these; passenger rights ask here whether it was extraordinary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Literal

from skymarshal.reference import Record, Source, document

# Carriers add a letter of their own for finer causes (93A is a kind of 93), and some pad to three digits.
WRITTEN = re.compile(r"0?([0-9]{1,2})[A-Z]?")


class DelayCode(Record):
    code: str
    letters: str
    group: str
    meaning: str
    extraordinary: Literal["yes", "no", "depends"]

    @property
    def frees_from_compensation(self) -> bool:
        """Only a clear yes: where it depends on the case, the money is counted."""
        return self.extraordinary == "yes"


class DelayCodes(Record):
    source: Source
    extraordinary_note: str
    codes: tuple[DelayCode, ...]


@cache
def delay_codes() -> Mapping[str, DelayCode]:
    """Every code, by its two digits."""
    return MappingProxyType({entry.code: entry for entry in document("delay_codes.json", DelayCodes).codes})


def delay_code(text: str) -> DelayCode:
    """The code written as 93, 093, 93A or RA; ValueError for one that IATA does not have."""
    written = text.strip().upper()
    if written in _codes_by_letters():
        return _codes_by_letters()[written]
    match = WRITTEN.fullmatch(written)
    number = match[1].zfill(2) if match else ""
    if number not in delay_codes():
        raise ValueError(
            f"The delay code {text!r} is not one of IATA's two-digit codes, as in 93 (aircraft late from an "
            "earlier flight); 99 stands for a cause that none of them names."
        )
    return delay_codes()[number]


@cache
def _codes_by_letters() -> Mapping[str, DelayCode]:
    return MappingProxyType({entry.letters: entry for entry in delay_codes().values() if entry.letters})
