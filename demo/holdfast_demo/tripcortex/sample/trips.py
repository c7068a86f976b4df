"""Trips of the sample: request sentence, plan, judgement by the policy, and the flights to choose from.

Flights and fares come from the sandbox portal's timetable, and the real rules judge them: a late request
needs an approval, and a cabin that is too expensive is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from holdfast_demo.tripcortex.sandbox.portal_timetable import Timetable, TripRequest
from tripcortex.domain.policy_rules.booking_checks import judge_plan, rank_by_rules
from tripcortex.domain.policy_rules.judgement import Judgement
from tripcortex.domain.policy_rules.rules import Outcome, PolicyRule
from tripcortex.model.entities import (
    BookingPlan,
    Cabin,
    Citation,
    Confidence,
    FlightOption,
    Preferences,
    TripParameters,
)
from tripcortex.policies.retrieval import RetrievedChunk

# Days between request and departure. Below 14 a trip needs an approval.
LEAD_DAYS: Final = (16, 21, 24, 33, 45, 9)
NIGHTS: Final = 2
OFFER_LIFETIME_S: Final = 3_600


@dataclass(frozen=True)
class Route:
    """A route of the sample with its destination's city, the traveller's time zone and preferred vendor."""

    origin: str
    destination: str
    city: str
    time_zone: str
    vendor: str


ROUTES: Final = tuple(
    Route(*each.split("|"))
    for each in (
        "HYD|ORD|Chicago|Asia/Kolkata|United",
        "SFO|JFK|New York|America/Los_Angeles|Delta",
        "BOS|DEN|Denver|America/New_York|United",
        "SEA|ATL|Atlanta|America/Los_Angeles|Delta",
        "ORD|SFO|San Francisco|America/Chicago|United",
        "DFW|BOS|Boston|America/Chicago|American",
        "JFK|LHR|London|America/New_York|British Airways",
        "FRA|SFO|San Francisco|Europe/Berlin|Lufthansa",
        "LHR|MAD|Madrid|Europe/London|Iberia",
        "BLR|SIN|Singapore|Asia/Kolkata|Singapore Airlines",
        "MUC|CDG|Paris|Europe/Berlin|Lufthansa",
        "DEL|BOM|Mumbai|Asia/Kolkata|IndiGo",
    )
)


@dataclass(frozen=True)
class Trip:
    """One request with its plan, judgement and options. It has no options if the plan breaches the policy."""

    route: Route
    sentence: str
    plan: BookingPlan
    judgement: Judgement
    options: tuple[FlightOption, ...]

    def get_options_at(self, asked_at: datetime) -> list[FlightOption]:
        """Return the options with the offer ids and expiry that the portal would give at that time."""
        expiry = {"offer_expires_at": asked_at + timedelta(seconds=OFFER_LIFETIME_S)}
        since = int(asked_at.timestamp())
        return [
            each.model_copy(update=expiry | {"offer_id": f"{each.offer_id.rpartition('-')[0]}-{since}"})
            for each in self.options
        ]


@dataclass
class TripGenerator:
    """Generates trips and judges them by the policy's confirmed rules.

    Past trips of one route, month, cabin and lead time are the same, so the timetable is queried once for
    them.
    """

    rules: Sequence[PolicyRule]
    passages: Sequence[RetrievedChunk]
    confidence: Confidence
    _trips: dict[tuple[Route, datetime, Cabin, int], Trip] = field(default_factory=dict)

    @property
    def citations(self) -> list[Citation]:
        return [each.citation() for each in self.passages]

    def get_past_trip(self, route: Route, asked_at: datetime, *, cabin: Cabin = Cabin.economy) -> Trip:
        """Return the route's trip of the month of `asked_at`, built once per month."""
        month = asked_at.replace(day=1, hour=9, minute=0, second=0, microsecond=0)
        days = LEAD_DAYS[(ROUTES.index(route) + month.month) % len(LEAD_DAYS)]
        key = (route, month, cabin, days)
        if key not in self._trips:
            # Count from the end of the month, so that no request is later than its flight.
            self._trips[key] = self._build_trip(route, month + timedelta(days=31), cabin, days)
        return self._trips[key]

    def build_coming_trip(self, route: Route, now: datetime, *, days: int = LEAD_DAYS[1]) -> Trip:
        """Return a trip that departs `days` after now."""
        return self._build_trip(route, now, Cabin.economy, days)

    def _build_trip(self, route: Route, at: datetime, cabin: Cabin, days: int) -> Trip:
        """Build the trip requested at `at` for `days` later, of two nights, and judge its plan."""
        out = (at + timedelta(days=days)).date()
        back = out + timedelta(days=NIGHTS)
        parameters = TripParameters(
            origin=route.origin,
            destination=route.destination,
            departure_date=out,
            return_date=back,
            cabin_class=cabin,
        )
        preferences = Preferences(
            vendors=[],
            is_cabin_asked=cabin is not Cabin.economy,
            budget_usd=Decimal(2500) if days > 40 else None,
        )
        plan = BookingPlan(
            confidence=0.95, parameters=parameters, preferences=preferences, citations=self.citations
        )
        judgement = judge_plan(plan, self.rules, at.date())
        plan = plan.model_copy(
            update={"policy_constraints": judgement.constraints, "citations": list(judgement.citations)}
        )
        cabin_text = "" if cabin is Cabin.economy else f" in {cabin.value.replace('_', ' ')} class"
        days_text = f"on {out:%d %B} returning {back:%d %B}"
        sentence = f"Book me a flight to {route.city} {days_text}{cabin_text}, prefer {route.vendor}"
        return Trip(route, sentence, plan, judgement, self._build_options(plan, judgement, at))

    def _build_options(
        self, plan: BookingPlan, judgement: Judgement, at: datetime
    ) -> tuple[FlightOption, ...]:
        """Return the ranked flights of the timetable; none if the plan breaches the policy."""
        if judgement.verdict is Outcome.forbidden:
            return ()
        trip = plan.parameters
        offers = Timetable().list_offers(
            TripRequest(
                trip.origin, trip.destination, trip.departure_date, trip.return_date, trip.cabin_class
            ),
            at.timestamp(),
        )
        options = [offer.to_option(str(place)) for place, offer in enumerate(offers, 1)]
        found = rank_by_rules(options, plan, self.rules, today=at.date())
        return tuple(
            each.model_copy(update={"option_id": str(place)}) for place, each in enumerate(found.options, 1)
        )
