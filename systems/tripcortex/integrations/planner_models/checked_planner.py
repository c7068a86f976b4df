"""A planner that lets fixed rules check another planner, and asks where they disagree.

    PlanRequest → the model's plan ┐
                → the rules' plan  ┴→ equal: the plan; else: a question with both readings

A model reads more sentences than the rules, and sometimes reads what nobody wrote. So its plan counts only if
the rules read the same trip, or if the employee confirms it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tripcortex.domain.planner.ports import (
    PARTS,
    Planner,
    PlanOutcome,
    PlanRequest,
    Question,
    Refusal,
    TripPlan,
)
from tripcortex.domain.planner.sentence_planner import plan_trip
from tripcortex.domain.planner.text_normalization import is_no, normalize_text
from tripcortex.model.entities import TripParameters

SAY_IT: Final = "Say the whole trip in one sentence: from where, to where, on which days."


class CheckedPlanner:
    """A `Planner` whose plans the rules check. The audit names the checked planner's model."""

    def __init__(self, planner: Planner) -> None:
        self._planner = planner

    @property
    def model_id(self) -> str:
        return self._planner.model_id

    @property
    def thinking_budget(self) -> str | None:
        return self._planner.thinking_budget

    async def plan(self, request: PlanRequest) -> PlanOutcome:
        """Return the plan that both planners read or that the employee confirmed, else a question.

        Raise `ExternalServiceFailed` if the checked planner cannot answer now.
        """
        by_model = await self._planner.plan(request)
        by_rules = plan_trip(request)
        confirmed = _read_confirmation(request)
        if confirmed is not None:
            return _use_parameters(by_model, by_rules, confirmed)
        if request.answers and is_no(normalize_text(request.answers[-1])) and _differ(by_model, by_rules):
            return Question(SAY_IT, ("destination", "departure_date"))
        return _compare(by_model, by_rules)


def _read_confirmation(request: PlanRequest) -> TripPlan | None:
    """Return the plan of the last answer if it names a whole trip, as the choices of a question do."""
    if not request.answers:
        return None
    outcome = plan_trip(replace(request, sentence=request.answers[-1], answers=()))
    return outcome if isinstance(outcome, TripPlan) else None


def _use_parameters(by_model: PlanOutcome, by_rules: PlanOutcome, confirmed: TripPlan) -> TripPlan:
    """Return the confirmed trip with the preferences of the planner that read it, or with its own."""
    for each in (by_model, by_rules):
        if isinstance(each, TripPlan) and each.parameters == confirmed.parameters:
            return each
    base = next((each for each in (by_rules, by_model) if isinstance(each, TripPlan)), confirmed)
    return replace(base, parameters=confirmed.parameters)


def _compare(by_model: PlanOutcome, by_rules: PlanOutcome) -> PlanOutcome:
    """Return the model's plan if the rules agree, else a question."""
    if not _differ(by_model, by_rules) or isinstance(by_model, Question):
        return by_model
    readings = [each for each in (by_model, by_rules) if isinstance(each, TripPlan)]
    choices = tuple(_describe(each) for each in readings)
    missing = _list_differences(by_model, by_rules)
    if len(choices) > 1:
        return Question(
            f"I can read this in two ways. Which one is right: {' or: '.join(choices)}?", missing, choices
        )
    return Question(f"Is this the trip that you want: {choices[0]}?", missing, choices, yes=choices[0])


def _differ(by_model: PlanOutcome, by_rules: PlanOutcome) -> bool:
    """Return whether only one of them plans, or both plan different trips. Two refusals do not differ."""
    if isinstance(by_model, TripPlan) and isinstance(by_rules, TripPlan):
        return bool(_list_differences(by_model, by_rules))
    if isinstance(by_model, Refusal):
        return isinstance(by_rules, TripPlan)
    return True


def _list_differences(by_model: PlanOutcome, by_rules: PlanOutcome) -> tuple[str, ...]:
    """Return the parts in which two plans differ; without two plans, those that the rules ask about."""
    if isinstance(by_model, TripPlan) and isinstance(by_rules, TripPlan):
        one, other = _list_parts(by_model), _list_parts(by_rules)
        return tuple(name for name in PARTS if one.get(name) != other.get(name))
    return by_rules.missing if isinstance(by_rules, Question) else ("destination", "departure_date")


def _list_parts(plan: TripPlan) -> dict[str, object]:
    """Return the parts that have to agree: places, dates, and the cabin."""
    trip: TripParameters = plan.parameters
    return {
        "origin": trip.origin,
        "destination": trip.destination,
        "departure_date": trip.departure_date,
        "return_date": trip.return_date,
        "cabin_class": trip.cabin_class,
    }


def _describe(plan: TripPlan) -> str:
    """Return the trip as a sentence that the rules read as exactly this trip."""
    trip = plan.parameters
    back = f"returning {trip.return_date}" if trip.return_date else "one way"
    cabin = trip.cabin_class.value.replace("_", " ")
    return f"{trip.origin} to {trip.destination} on {trip.departure_date}, {back}, {cabin} class"
