"""The deterministic planner: it reads an English sentence and gives a plan, a question or a refusal. It never guesses.

    Asked → Reading of the sentence → each answer laid over it, as the answer to the question that stood → decided

No model, no network, no state: the same words at the same time always give the same plan. Nobody's words can do more than
fill in a form, so there is nothing that an order hidden in them could reach.
"""

from __future__ import annotations

from tripcortex.planning.deciding import decided
from tripcortex.planning.ports import Asked, PlanOutcome, Question
from tripcortex.planning.reading import read_answer, read_sentence


class SentencePlanner:
    """Behind the port `Planner`; what the embedded engines use."""

    model_id = "sentences"
    thinking_budget: str | None = None

    async def plan(self, asked: Asked) -> PlanOutcome:
        return planned(asked)


def planned(asked: Asked) -> PlanOutcome:
    day_first = _day_first(asked.employee.locale)
    reading = read_sentence(asked.sentence, day_first)
    outcome = decided(reading, asked, 0)
    for count, answer in enumerate(asked.answers, 1):
        if not isinstance(outcome, Question):
            break
        reading = read_answer(reading, outcome, answer, day_first)
        outcome = decided(reading, asked, count)
    return outcome


def _day_first(locale: str | None) -> bool | None:
    """Whether 3/4 is in April. The United States and few others write the month first; of no locale, nothing is known."""
    if not locale:
        return None
    return locale.replace("_", "-").upper() not in ("EN-US", "EN-PH", "US")
