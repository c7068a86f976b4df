"""Policies as Markdown for the tests of their rules."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from tripcortex.documents import open_parser
from tripcortex.domain.policy_rules.judgement import Judgement, Trip, judge_trip
from tripcortex.domain.policy_rules.proposals import propose_rules
from tripcortex.domain.policy_rules.rules import PolicyRule

BOOKED: date = date(2027, 1, 4)

# A complete policy: tables, lists, definitions, exceptions and an approval chain.
POLICY = """# Northwind Freight travel policy

Version 4. All amounts are in US dollars.

## 1. When to book

- 14 or more days before departure: no approval required.
- 7 to 13 days before departure: approval of the line manager.
- Fewer than 7 days before departure: approval of the line manager and Finance.

## 2. Cabin

Economy class is the standard for all flights. Long-haul means flights of more than 8 hours.

- Premium economy is permitted on long-haul flights.
- Business class on long-haul flights requires the approval of the Vice President.
- Business class is not permitted on flights of 8 hours or less.
- First class is never permitted.

## 3. Fares

All caps are per one-way ticket. A return trip is evaluated as two one-way tickets.

| Route | Cap | If exceeded |
|---|---|---|
| US domestic | $300 | Line manager |
| US–Europe | $800 | Line manager + Finance |
| US–Asia | $1,000 | Line manager + Finance |
| Intra-Europe | $250 | Line manager |

## 4. Airlines and countries

Spirit and Frontier must not be booked. Travel to Russia, Belarus and North Korea is prohibited.
Travel to China requires the approval of Security.

## 5. Questions

Ask the travel desk.
"""


def read_policy(text: str = POLICY, file_name: str = "policy.md") -> tuple[PolicyRule, ...]:
    """Return the rules of a Markdown policy."""
    body = text.encode()
    return propose_rules(open_parser(file_name, body).parse(body, file_name))


def make_trip(origin: str, destination: str, **changes: Any) -> Trip:
    """Return a return trip in economy, booked thirty days ahead for $100, with the given changes."""
    values: dict[str, Any] = {
        "depart": BOOKED + timedelta(days=changes.pop("days", 30)),
        "return_date": BOOKED + timedelta(days=60),
        "booked_on": BOOKED,
        "price_usd": Decimal(changes.pop("price", 100)),
        "carrier": "UA",
    }
    return Trip.model_validate({"origin": origin, "destination": destination, **values, **changes})


def judge(text: str, origin: str, destination: str, **changes: Any) -> Judgement:
    """Judge a trip by the rules of a Markdown policy, all of them confirmed."""
    return judge_trip(read_policy(text), make_trip(origin, destination, **changes))
