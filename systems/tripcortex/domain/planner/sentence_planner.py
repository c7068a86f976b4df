"""The deterministic planner: parses an English sentence with fixed rules and never guesses.

    PlanRequest → ParsedRequest of the sentence → merged with each answer in turn → decide_outcome

It uses no model, no network and no state: the same words at the same time always give the same plan.
Instructions hidden in the employee's words have no effect, because words can only fill in the fields of a
trip.
"""

from __future__ import annotations

from tripcortex.domain.planner.decision import decide_outcome
from tripcortex.domain.planner.ports import PlanOutcome, PlanRequest, Question
from tripcortex.domain.planner.request_parser import parse_answer, parse_sentence


class SentencePlanner:
    """A `Planner` with fixed rules. Embedded installations use it."""

    model_id = "sentences"
    thinking_budget: str | None = None

    async def plan(self, request: PlanRequest) -> PlanOutcome:
        """Return a plan, a question or a refusal."""
        return plan_trip(request)


def plan_trip(request: PlanRequest) -> PlanOutcome:
    """Return the outcome of the request after its answers; answers after a plan or a refusal are ignored."""
    day_first = _is_day_first(request.employee.locale)
    reading = parse_sentence(request.sentence, day_first)
    outcome = decide_outcome(reading, request, 0)
    for count, answer in enumerate(request.answers, 1):
        if not isinstance(outcome, Question):
            break
        reading = parse_answer(reading, outcome, answer, day_first)
        outcome = decide_outcome(reading, request, count)
    return outcome


def _is_day_first(locale: str | None) -> bool | None:
    """Return whether 3/4 is in April for this locale, or None without a locale.

    The United States and a few others write the month first.
    """
    if not locale:
        return None
    return locale.replace("_", "-").upper() not in ("EN-US", "EN-PH", "US")
