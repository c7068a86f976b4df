"""What a sentence of a policy says in numbers: spans of hours and days, amounts, cabins, kinds of route.

Only plain words are understood. What is not understood is no rule: the machine-readable policy holds without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tripcortex.model import Cabin
from tripcortex.rules.money import CURRENCIES, USD
from tripcortex.rules.policy import Route

_WORDS: Final = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
NUMBER: Final = rf"\b(\d+(?:\.\d+)?|{'|'.join(sorted(_WORDS, key=len, reverse=True))})"
HOURS: Final = r"[ -]?(?:hours?|hrs?|h)\b"
DAYS: Final = r"[ -]?(?:calendar |business |working )?(?:days?|weeks?)\b"

# The first that fits decides: "no more than" must not be taken for "more than". Of each: what it says of its numbers.
_SPANS: Final = (
    (r"{n}(?:{u})? ?(?:to|-|–|—|and) ?(?:under|less than|below) {n}{u}", "from below"),
    (r"between {n}(?:{u})? and {n}{u}", "from to"),
    (r"{n}(?:{u})? ?(?:to|-|–|—) ?{n}{u}", "from to"),
    (r"(?:no|not) (?:less|fewer|shorter) than {n}{u}", "from"),
    (r"(?:no|not) (?:more|longer) than {n}{u}", "to"),
    (r"not exceed(?:ing)? {n}{u}", "to"),
    (r"(?:at least|from|a minimum of|≥|>=) ?{n}{u}", "from"),
    (r"{n} ?\+{u}", "from"),
    (r"{n}{u} (?:or|and) (?:more|longer|over|above|earlier|beyond)", "from"),
    (r"(?:up to|at most|a maximum of|≤|<=) ?{n}{u}", "to"),
    (r"{n}{u} (?:or|and) (?:less|fewer|shorter|under|below)", "to"),
    (r"(?:over|more than|longer than|exceed(?:s|ing)?|above|beyond|greater than|>) ?{n}{u}", "above"),
    (r"(?:under|less than|shorter than|below|fewer than|within|<) ?{n}{u}", "below"),
)

_AMOUNT: Final = re.compile(
    r"(?<![\w.,])(?P<before>US\$|[A-Z]{1,2}\$|\$|€|£|¥|₹|[A-Z]{3}(?= ?\d))? ?"
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d{2})?|\d+(?:\.\d{2})?)(?![\d%])"
    r"(?: ?(?P<after>[A-Z]{3}|US dollars|dollars|euros?|pounds)\b)?"
)
_DOLLARS: Final = frozenset({"$", "US$", USD, "US dollars", "dollars"})
_SIGNS: Final = frozenset({"€", "£", "¥", "₹", "euro", "euros", "pounds"})

_CABINS: Final = (
    (re.compile(r"premium[- ]economy", re.IGNORECASE), Cabin.premium_economy),
    (
        re.compile(
            r"\b(?<!premium )(?<!premium-)economy\b|\bcoach(?=[- ](?:class|cabin|fares?|seats?))",
            re.IGNORECASE,
        ),
        Cabin.economy,
    ),
    (re.compile(r"\bbusiness(?=[- ]class|[- ]cabin| (?:or|and) first)", re.IGNORECASE), Cabin.business),
    (re.compile(r"\bfirst(?=[- ]class|[- ]cabin)", re.IGNORECASE), Cabin.first),
)
# In a cell a cabin may stand alone.
_CELL_CABINS: Final = (
    (re.compile(r": ?business ?(?:;|$)", re.IGNORECASE), Cabin.business),
    (re.compile(r": ?first ?(?:;|$)", re.IGNORECASE), Cabin.first),
)
_ROUTES: Final = (
    (re.compile(r"\bdomestic\b", re.IGNORECASE), Route.domestic),
    (re.compile(r"\bshort[- ]haul\b", re.IGNORECASE), Route.short_haul),
    (re.compile(r"\blong[- ]haul\b|\bintercontinental\b", re.IGNORECASE), Route.long_haul),
)
_HAULS: Final = frozenset({Route.short_haul, Route.long_haul})
_ABROAD: Final = re.compile(r"\binternational\b", re.IGNORECASE)


@dataclass(frozen=True)
class Span:
    """From one number to another; an end that is None is open."""

    low: Decimal | None = None
    high: Decimal | None = None
    low_included: bool = True
    high_included: bool = True

    def __contains__(self, value: Decimal | int) -> bool:
        if self.low is not None and (value < self.low or (value == self.low and not self.low_included)):
            return False
        return self.high is None or value < self.high or (value == self.high and self.high_included)

    @property
    def is_open(self) -> bool:
        return self.low is None and self.high is None

    @property
    def outside(self) -> Span | None:
        """All that is not in it; None where that is no span."""
        if (self.low is None) == (self.high is None):
            return None
        if self.high is None:
            return Span(high=self.low, high_included=not self.low_included)
        return Span(low=self.high, low_included=not self.high_included)


ANY: Final = Span()


@dataclass(frozen=True)
class Amount:
    """`currency` is None for a sign or word that is not the dollar's."""

    value: Decimal
    currency: str | None
    at: int


def span_of(text: str, unit: str) -> Span:
    """The first span of that unit in the text, or `ANY`. Weeks are counted in days."""
    for pattern, says in _SPANS:
        found = re.search(pattern.format(n=NUMBER, u=unit), text, re.IGNORECASE)
        if found:
            weeks = 7 if re.search(r"weeks?$|weeks? ", found[0], re.IGNORECASE) else 1
            return _span(says, [number_of(each) * weeks for each in found.groups()])
    return ANY


def _span(says: str, numbers: list[Decimal]) -> Span:
    first, last = numbers[0], numbers[-1]
    match says:
        case "from to":
            return Span(first, last)
        case "from below":
            return Span(first, last, high_included=False)
        case "from":
            return Span(low=first)
        case "to":
            return Span(high=first)
        case "above":
            return Span(low=first, low_included=False)
        case _:
            return Span(high=first, high_included=False)


def number_of(text: str) -> Decimal:
    return Decimal(_WORDS.index(text.lower())) if text.lower() in _WORDS else Decimal(text)


def amounts_of(text: str) -> list[Amount]:
    return list(_amounts(text))


def _amounts(text: str) -> Iterator[Amount]:
    for found in _AMOUNT.finditer(text):
        marks = [mark for mark in (found["before"], found["after"]) if mark]
        money = [
            mark for mark in marks if mark in _DOLLARS | _SIGNS or mark in CURRENCIES or mark.endswith("$")
        ]
        if money:
            # "$500 CAD": a mark that is not the dollar's decides.
            foreign = [mark for mark in money if mark not in _DOLLARS]
            yield Amount(
                Decimal(found["number"].replace(",", "")), None if foreign else USD, found.start("number")
            )


def cabins_of(text: str, *, is_row: bool = False) -> list[Cabin]:
    """Every cabin that the text names, the cheapest first. "Business" alone is a cabin only in a table."""
    patterns = (*_CABINS, *_CELL_CABINS) if is_row else _CABINS
    return sorted(
        {cabin for pattern, cabin in patterns if pattern.search(text)}, key=lambda cabin: cabin.rank
    )


def routes_of(text: str) -> frozenset[Route]:
    """The kinds of route that the text names. "International" alone is short and long haul."""
    named = {route for pattern, route in _ROUTES if pattern.search(text)}
    if _ABROAD.search(text) and not named & _HAULS:
        named |= _HAULS
    return frozenset(named)
