"""Checks that need no policy: airports that exist, dates in order, and the employee's own budget."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal

from tripcortex.domain.policy_rules.distances import is_airport
from tripcortex.domain.policy_rules.money import format_usd
from tripcortex.domain.policy_rules.travel_policy import Reason
from tripcortex.model.entities import Breach, TripParameters


def check_feasibility(trip: TripParameters, today: date) -> Iterator[Breach]:
    """Yield a hard breach for unknown or identical airports, and for dates in the wrong order."""
    for airport in {trip.origin: None, trip.destination: None}:
        if not is_airport(airport):
            yield build_hard_breach(
                Reason.airport_unknown,
                f"Unknown airport {airport}.",
                "name an airport or its IATA code, such as ORD",
            )
    if trip.origin == trip.destination:
        yield build_hard_breach(
            Reason.nowhere_to_go, f"The trip starts and ends at {trip.origin}.", "name another destination"
        )
    if trip.departure_date < today:
        yield build_hard_breach(
            Reason.departure_past, f"{trip.departure_date} is in the past.", f"leave on {today} or later"
        )
    if trip.return_date is not None and trip.return_date < trip.departure_date:
        yield build_hard_breach(
            Reason.return_before_departure,
            f"The return on {trip.return_date} is before the departure on {trip.departure_date}.",
            f"return on {trip.departure_date} or later",
        )


def check_budget(price: Decimal, budget: Decimal | None, cap: Decimal | None) -> Iterator[Breach]:
    """Yield a hard breach above the employee's own budget.

    It needs no approver: the employee does not want to spend more. `cap` is the policy's maximum fare.
    """
    if budget is not None and price > budget:
        text = f"A fare of {format_usd(price)} is above your budget of {format_usd(budget)}."
        yield build_hard_breach(Reason.above_budget, text, _suggest_budget(price, budget, cap))


def build_hard_breach(reason: Reason, text: str, remedy: str) -> Breach:
    """Return a breach that no approver can lift."""
    return Breach(code=reason, severity="hard", text=text, remedy=remedy)


def _suggest_budget(price: Decimal, budget: Decimal, cap: Decimal | None) -> str:
    """Suggest a higher budget up to the policy's cap: beyond it a higher budget would not help."""
    if cap is None or price <= cap:
        return f"a budget of at least {format_usd(price)}"
    if budget < cap:
        return (
            f"other days or airports: nothing between your budget of {format_usd(budget)} and the policy's "
            f"cap of {format_usd(cap)} was found"
        )
    return f"other days or airports: nothing up to the policy's cap of {format_usd(cap)} was found"
