"""The operator command that shows what a sentence asks for and how it is planned, without any store.

`holdfast tripcortex plan "SENTENCE" [--home BOS] [--now 2026-11-16T10:00] --json`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from holdfast.core.errors import InvalidRequest
from holdfast.model.system import Command
from tripcortex.domain.intents import Classification, Intent, classify
from tripcortex.domain.planner import Planner, PlanOutcome, PlanRequest, TravellerProfile, TripPlan, gazetteer
from tripcortex.integrations.ai_models import open_planner
from tripcortex.settings import TripCortexSettings


async def plan(
    sentence: Annotated[str, "What the employee writes"],
    home: Annotated[str | None, "The employee's home airport, as an IATA code"] = None,
    now: Annotated[datetime | None, "The employee's local time; default: now, in UTC"] = None,
) -> Any:
    """Show the intent of a sentence, and its plan or the question that it leads to. Books nothing."""
    planner = open_planner(TripCortexSettings.load())
    return (await read_request(planner, sentence, home, now or datetime.now(UTC))).to_json()


@dataclass(frozen=True)
class Reading:
    """A sentence as it was read: its intent, and the planner's outcome if it asks for a booking."""

    classification: Classification
    outcome: PlanOutcome | None = None

    @property
    def intent(self) -> Intent:
        return self.classification.intent

    def to_json(self) -> dict[str, Any]:
        """Return the intent, the plan or null, and the question or null."""
        if isinstance(self.outcome, TripPlan):
            return {"intent": self.intent.value, "plan": format_plan(self.outcome), "question": None}
        question = self.classification.question if self.outcome is None else self.outcome.text
        return {"intent": self.intent.value, "plan": None, "question": question}


async def read_request(planner: Planner, sentence: str, home: str | None, now: datetime) -> Reading:
    """Classify a sentence, and plan it if it asks for a booking. The clock of `now` is the employee's.

    Raise `InvalidRequest` if `home` is not an airport.
    """
    employee = TravellerProfile("operator", home_airport=_validate_home(home))
    found = classify(sentence)
    if found.intent is not Intent.book:
        return Reading(found)
    return Reading(found, await planner.plan(PlanRequest(sentence, employee, now.replace(tzinfo=UTC))))


def format_plan(outcome: TripPlan) -> dict[str, Any]:
    """Return the plan as JSON; null for what the sentence leaves open."""
    trip, wishes = outcome.parameters, outcome.preferences
    return {
        "origin": trip.origin,
        "destination": trip.destination,
        "depart": trip.departure_date.isoformat(),
        "return": trip.return_date.isoformat() if trip.return_date else None,
        "cabin": trip.cabin_class.value if wishes.is_cabin_asked else None,
        "max_price": None if outcome.limit is None else float(outcome.limit.amount),
        "carriers": wishes.vendors,
        "notes": [*_format_wishes(outcome), *outcome.notes],
    }


def _format_wishes(outcome: TripPlan) -> Iterator[str]:
    """Yield a sentence for each wish that the search respects, and for the other airports of the cities."""
    wishes = outcome.preferences
    if wishes.origin_airports:
        yield f"Other airports to leave from: {', '.join(wishes.origin_airports)}."
    if wishes.destination_airports:
        yield f"Other airports of the destination: {', '.join(wishes.destination_airports)}."
    if wishes.nonstop:
        yield "Nonstop flights are preferred."
    if wishes.depart_part:
        yield f"A departure in the {wishes.depart_part} is preferred."
    if outcome.avoided:
        yield f"Airlines to avoid: {', '.join(outcome.avoided)}."
    if outcome.limit is not None:
        yield f"The highest price is {outcome.limit.amount} {outcome.limit.currency}.".replace(" .", ".")


def _validate_home(home: str | None) -> str | None:
    """Return the code in capitals, or None without one."""
    if home is None:
        return None
    if gazetteer.get_airport(home) is None:
        raise InvalidRequest(f"Invalid home {home!r:.20}: expected the IATA code of an airport, such as BOS.")
    return home.upper()


PLANNING_COMMANDS: Final = {"plan": Command(plan, needs_stores=False)}
