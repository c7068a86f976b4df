"""Trips of the sample: what was asked for, the plan of it, what the policy says, and the flights to choose from.

The flights and fares are those of the sandbox portal's timetable, and the rules judge them as they judge any: so a trip that is
late needs an approval, and one in too dear a cabin ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from tripcortex.knowledge.retrieving import RetrievedChunk
from tripcortex.model import (
    BookingPlan,
    Cabin,
    Citation,
    Confidence,
    FlightOption,
    Preferences,
    TripParameters,
)
from tripcortex.rules.judging import PlanJudgement, judged
from tripcortex.rules.options import ranked
from tripcortex.rules.policy import TravelPolicy
from tripcortex.sandbox.portal_flights import Asked, Timetable

# How long before the flight employees ask, in days. Below 14 it needs an approval.
LEADS: Final = (16, 21, 24, 33, 45, 9)
NIGHTS: Final = 2
OFFER_S: Final = 3_600


@dataclass(frozen=True)
class Route:
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
    """One request as far as it was thought through. Without options it is against the policy, or not searched yet."""

    route: Route
    sentence: str
    plan: BookingPlan
    judgement: PlanJudgement
    options: tuple[FlightOption, ...]

    def options_at(self, asked_at: datetime) -> list[FlightOption]:
        """As the portal offers them at that time."""
        held = {"offer_expires_at": asked_at + timedelta(seconds=OFFER_S)}
        since = int(asked_at.timestamp())
        return [
            each.model_copy(update=held | {"offer_id": f"{each.offer_id.rpartition('-')[0]}-{since}"})
            for each in self.options
        ]


@dataclass
class Market:
    """Makes trips. Of one route and month all are the same: a portal is asked once for them."""

    policy: TravelPolicy
    passages: Sequence[RetrievedChunk]
    confidence: Confidence
    _known: dict[tuple[Route, datetime, Cabin, int], Trip] = field(default_factory=dict)

    @property
    def citations(self) -> list[Citation]:
        return [each.citation() for each in self.passages]

    def former(self, route: Route, asked_at: datetime, *, cabin: Cabin = Cabin.economy) -> Trip:
        """Of a month that is over, or begun."""
        month = asked_at.replace(day=1, hour=9, minute=0, second=0, microsecond=0)
        days = LEADS[(ROUTES.index(route) + month.month) % len(LEADS)]
        key = (route, month, cabin, days)
        if key not in self._known:
            # Counted from the end of the month, so that nobody asks after the flight.
            self._known[key] = self._made(route, month + timedelta(days=31), cabin, days)
        return self._known[key]

    def coming(self, route: Route, now: datetime, *, days: int = LEADS[1]) -> Trip:
        return self._made(route, now, Cabin.economy, days)

    def _made(self, route: Route, at: datetime, cabin: Cabin, days: int) -> Trip:
        out = (at + timedelta(days=days)).date()
        back = out + timedelta(days=NIGHTS)
        parameters = TripParameters(
            origin=route.origin,
            destination=route.destination,
            departure_date=out,
            return_date=back,
            cabin_class=cabin,
        )
        wished = Preferences(
            vendors=[],
            is_cabin_asked=cabin is not Cabin.economy,
            budget_usd=Decimal(2500) if days > 40 else None,
        )
        plan = BookingPlan(
            confidence=0.95, parameters=parameters, preferences=wished, citations=self.citations
        )
        judgement = judged(plan, self.policy, self.passages, at.date(), confidence=self.confidence)
        plan = plan.model_copy(
            update={"policy_constraints": judgement.constraints, "citations": list(judgement.citations)}
        )
        spoken = "" if cabin is Cabin.economy else f" in {cabin.value.replace('_', ' ')} class"
        sentence = f"Book me a flight to {route.city} on {out:%d %B} returning {back:%d %B}{spoken}, prefer {route.vendor}"
        return Trip(route, sentence, plan, judgement, self._options(plan, judgement, at))

    def _options(self, plan: BookingPlan, judgement: PlanJudgement, at: datetime) -> tuple[FlightOption, ...]:
        if not judgement.ok:
            return ()
        asked = plan.parameters
        offers = Timetable().offers(
            Asked(
                asked.origin, asked.destination, asked.departure_date, asked.return_date, asked.cabin_class
            ),
            at.timestamp(),
        )
        options = [offer.as_option(str(place)) for place, offer in enumerate(offers, 1)]
        found = ranked(
            options,
            plan,
            self.policy,
            self.passages,
            today=at.date(),
            confidence=self.confidence,
        )
        return tuple(
            each.model_copy(update={"option_id": str(place)}) for place, each in enumerate(found.shown, 1)
        )
