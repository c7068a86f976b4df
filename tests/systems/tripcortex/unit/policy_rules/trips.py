"""Builders of plans, flights, passages and a policy, shared by the tests of the policy rules."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from tripcortex.domain.policy_rules import TravelPolicy
from tripcortex.model.entities import (
    BookingPlan,
    Cabin,
    FlightOption,
    Preferences,
    Segment,
    TripParameters,
)

TODAY = date(2026, 3, 10)
RULES: dict[str, Any] = {
    "version": "2026-03",
    "currency": "USD",
    "cabins": [
        {"max_duration_hours": 6, "cabin": "economy"},
        {"max_duration_hours": 10, "cabin": "premium_economy"},
        {"max_duration_hours": None, "cabin": "business"},
    ],
    "caps": [
        {"route": "domestic", "days_ahead_min": 14, "max_usd": 500},
        {"route": "domestic", "days_ahead_min": 0, "max_usd": "650.00"},
        {"route": "short_haul", "days_ahead_min": 0, "max_usd": 800},
        {"route": "long_haul", "days_ahead_min": 0, "max_usd": 3_200},
    ],
    "advance_purchase_days": {"hard": 1, "soft": 14},
    "preferred_carriers": {"carriers": ["UA", "Delta"], "within_percent": 10},
    "prohibited": {"carriers": ["ZZ"], "destinations": ["KP", "SVO"]},
    "approval": {
        "approver": ["line-manager", "travel-desk"],
        "soft_deadline_hours": 24,
        "hard_deadline_hours": 48,
        "at_deadline": "approve",
        "must_be_given": ["fare_above_cap"],
    },
    "hard_stops": ["cabin_above_policy"],
}
POLICY = TravelPolicy.parse(RULES, file_name="northwind.json", policy_id="p-1")
NAMES = {"UA": "United Airlines", "DL": "Delta Air Lines", "AA": "American Airlines", "ZZ": "Zed Air"}


def make_policy(**changes: Any) -> TravelPolicy:
    """Return the policy with some of its keys changed."""
    return TravelPolicy.parse(RULES | changes, file_name="northwind.json", policy_id="p-1")


def make_plan(
    origin: str = "SFO",
    destination: str = "ORD",
    days_ahead: int = 20,
    cabin: Cabin = Cabin.economy,
    **preferences: Any,
) -> BookingPlan:
    """Build a plan for a two-day trip; `preferences` are fields of `Preferences`."""
    return BookingPlan(
        confidence=0.9,
        parameters=TripParameters(
            origin=origin,
            destination=destination,
            departure_date=TODAY + timedelta(days=days_ahead),
            return_date=TODAY + timedelta(days=days_ahead + 2),
            cabin_class=cabin,
        ),
        preferences=Preferences(**preferences),
    )


def make_option(
    option_id: str = "o-1",
    price: str = "400",
    carrier: str = "UA",
    *,
    cabin: Cabin = Cabin.economy,
    flights: tuple[int, ...] = (250,),
    back: tuple[int, ...] = (),
    days_ahead: int = 20,
    hour: int = 9,
) -> FlightOption:
    """Make a flight option; `flights` and `back` are minutes in the air, one number per flight."""
    departs = datetime.combine(TODAY + timedelta(days=days_ahead), datetime.min.time(), UTC).replace(
        hour=hour
    )
    return FlightOption(
        option_id=option_id,
        offer_id=f"off-{option_id}",
        offer_expires_at=departs,
        carrier=carrier,
        carrier_name=NAMES[carrier],
        cabin=cabin,
        price_usd=Decimal(price),
        outbound=[_make_segment(carrier, departs, minutes) for minutes in flights],
        inbound=[_make_segment(carrier, departs + timedelta(days=2), minutes) for minutes in back],
        stops=len(flights) - 1,
        duration_minutes=sum(flights) + 90 * (len(flights) - 1),
    )


def _make_segment(carrier: str, departs: datetime, minutes: int) -> Segment:
    return Segment(
        carrier=carrier,
        flight_number=f"{carrier}100",
        origin="SFO",
        destination="ORD",
        departs_at=departs,
        arrives_at=departs + timedelta(minutes=minutes),
        duration_minutes=minutes,
    )
