"""Parses phrases of a policy text: spans of hours and days, amounts, cabins and kinds of route.

Only plain wording is parsed. Anything else is ignored, and the machine-readable policy applies without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tripcortex.domain.policy_rules.money import CURRENCIES, USD
from tripcortex.domain.policy_rules.travel_policy import Route
from tripcortex.model.entities import Cabin

_NUMBER_WORDS: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen"
).split()
NUMBER: Final = rf"\b(\d+(?:\.\d+)?|{'|'.join(sorted(_NUMBER_WORDS, key=len, reverse=True))})"
HOURS: Final = r"[ -]?(?:hours?|hrs?|h)\b"
DAYS: Final = r"[ -]?(?:calendar |business |working )?(?:days?|weeks?)\b"

# Each pattern with the meaning of its numbers. The first match wins: "no more than" is not "more than".
_SPAN_PATTERNS: Final = (
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

_AMOUNT_PATTERN: Final = re.compile(
    r"(?<![\w.,])(?P<before>US\$|[A-Z]{1,2}\$|\$|€|£|¥|₹|[A-Z]{3}(?= ?\d))? ?"
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d{2})?|\d+(?:\.\d{2})?)(?![\d%])"
    r"(?: ?(?P<after>[A-Z]{3}|US dollars|dollars|euros?|pounds)\b)?"
)
_USD_MARKS: Final = frozenset({"$", "US$", USD, "US dollars", "dollars"})
_FOREIGN_MARKS: Final = frozenset({"€", "£", "¥", "₹", "euro", "euros", "pounds"})

_CABIN_PATTERNS: Final = (
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
# In a table cell a cabin name may appear without "class" or "cabin".
_CELL_CABIN_PATTERNS: Final = (
    (re.compile(r": ?business ?(?:;|$)", re.IGNORECASE), Cabin.business),
    (re.compile(r": ?first ?(?:;|$)", re.IGNORECASE), Cabin.first),
)
_ROUTE_PATTERNS: Final = (
    (re.compile(r"\bdomestic\b", re.IGNORECASE), Route.domestic),
    (re.compile(r"\bshort[- ]haul\b", re.IGNORECASE), Route.short_haul),
    (re.compile(r"\blong[- ]haul\b|\bintercontinental\b", re.IGNORECASE), Route.long_haul),
)
_HAULS: Final = frozenset({Route.short_haul, Route.long_haul})
_INTERNATIONAL: Final = re.compile(r"\binternational\b", re.IGNORECASE)


@dataclass(frozen=True)
class Span:
    """A range of numbers; an end that is None is open."""

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
        """Return True if the span contains every number."""
        return self.low is None and self.high is None

    @property
    def complement(self) -> Span | None:
        """Return the numbers outside this span, or None if they do not form one span."""
        if (self.low is None) == (self.high is None):
            return None
        if self.high is None:
            return Span(high=self.low, high_included=not self.low_included)
        return Span(low=self.high, low_included=not self.high_included)


ANY: Final = Span()


@dataclass(frozen=True)
class Amount:
    """An amount in a text. `currency` is None unless it is US dollars; `at` is its position."""

    value: Decimal
    currency: str | None
    at: int


def parse_span(text: str, unit: str) -> Span:
    """Return the first span with that unit in the text, or `ANY`. `unit` is the pattern HOURS or DAYS.

    Weeks are converted to days.
    """
    for pattern, says in _SPAN_PATTERNS:
        found = re.search(pattern.format(n=NUMBER, u=unit), text, re.IGNORECASE)
        if found:
            weeks = 7 if re.search(r"weeks?$|weeks? ", found[0], re.IGNORECASE) else 1
            return _build_span(says, [parse_number(each) * weeks for each in found.groups()])
    return ANY


def _build_span(says: str, numbers: list[Decimal]) -> Span:
    """Return the span of the numbers; `says` is their meaning in `_SPAN_PATTERNS`, such as "from below"."""
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


def parse_number(text: str) -> Decimal:
    """Parse a number written in digits or as a word up to sixteen."""
    return Decimal(_NUMBER_WORDS.index(text.lower())) if text.lower() in _NUMBER_WORDS else Decimal(text)


def find_amounts(text: str) -> list[Amount]:
    """Return the amounts of money in the text, in their order."""
    return list(_iter_amounts(text))


def _iter_amounts(text: str) -> Iterator[Amount]:
    """Yield the numbers that have a currency mark before or after them."""
    for found in _AMOUNT_PATTERN.finditer(text):
        marks = [mark for mark in (found["before"], found["after"]) if mark]
        money = [
            mark
            for mark in marks
            if mark in _USD_MARKS | _FOREIGN_MARKS or mark in CURRENCIES or mark.endswith("$")
        ]
        if money:
            # "$500 CAD": a mark other than the dollar's takes precedence.
            foreign = [mark for mark in money if mark not in _USD_MARKS]
            yield Amount(
                Decimal(found["number"].replace(",", "")), None if foreign else USD, found.start("number")
            )


def find_cabins(text: str, *, is_row: bool = False) -> list[Cabin]:
    """Return the cabins that the text names, cheapest first. "Business" alone counts only in a table row."""
    patterns = (*_CABIN_PATTERNS, *_CELL_CABIN_PATTERNS) if is_row else _CABIN_PATTERNS
    return sorted(
        {cabin for pattern, cabin in patterns if pattern.search(text)}, key=lambda cabin: cabin.rank
    )


def find_routes(text: str) -> frozenset[Route]:
    """Return the kinds of route that the text names. "International" alone means short and long haul."""
    named = {route for pattern, route in _ROUTE_PATTERNS if pattern.search(text)}
    if _INTERNATIONAL.search(text) and not named & _HAULS:
        named |= _HAULS
    return frozenset(named)
