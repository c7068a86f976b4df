"""Tests of the planner that the rules check: a model's plan counts if the rules or the employee agree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

import pytest

from tests.cases import all_cases
from tripcortex.domain.planner import PlanOutcome, PlanRequest, Question, Refusal, TravellerProfile, TripPlan
from tripcortex.domain.planner.sentence_planner import plan_trip
from tripcortex.integrations.planner_models.checked_planner import CheckedPlanner
from tripcortex.model.entities import Cabin, Preferences, TripParameters

NOW = datetime(2026, 3, 10, 14, tzinfo=UTC)
SENTENCE = "Boston to Denver on 8 April, returning 10 April"
TRIP = TripParameters(
    origin="BOS", destination="DEN", departure_date=date(2026, 4, 8), return_date=date(2026, 4, 10)
)


@dataclass
class FakePlanner:
    """Fake model that always returns the same outcome."""

    outcome: PlanOutcome
    model_id: str = "fake"
    thinking_budget: str | None = "low"

    async def plan(self, request: PlanRequest) -> PlanOutcome:
        return self.outcome


def make_plan(**changed: object) -> TripPlan:
    return TripPlan(TRIP.model_copy(update=changed), Preferences(vendors=["UA"]), 0.9)


async def plan(outcome: PlanOutcome, sentence: str = SENTENCE, *answers: str) -> PlanOutcome:
    employee = TravellerProfile("emp-1", home_airport="BOS")
    return await CheckedPlanner(FakePlanner(outcome)).plan(PlanRequest(sentence, employee, NOW, answers))


async def test_returns_the_models_plan_if_the_rules_read_the_same_trip() -> None:
    assert await plan(make_plan()) == make_plan()
    checked = CheckedPlanner(FakePlanner(make_plan()))
    assert (checked.model_id, checked.thinking_budget) == ("fake", "low")


@pytest.mark.proves("TC-91")
@all_cases(
    ("changed", "part"),
    [
        ({"origin": "JFK"}, "origin"),
        ({"destination": "DAL"}, "destination"),
        ({"departure_date": date(2026, 4, 7)}, "departure_date"),
        ({"return_date": None}, "return_date"),
        ({"cabin_class": Cabin.business}, "cabin_class"),
    ],
)
async def test_asks_which_reading_is_right_and_accepts_either(changed: dict[str, object], part: str) -> None:
    asked = await plan(make_plan(**changed))
    assert isinstance(asked, Question) and asked.missing == (part,) and asked.yes is None
    assert len(asked.choices) == 2
    by_model, by_rules = [await plan(make_plan(**changed), SENTENCE, each) for each in asked.choices]
    assert by_model == make_plan(**changed)
    assert isinstance(by_rules, TripPlan) and by_rules.parameters == TRIP


async def test_asks_to_confirm_what_the_rules_could_not_read() -> None:
    sentence = "Denver on 8 April, home two sleeps afterwards"
    asked = await plan(make_plan(), sentence)
    assert isinstance(asked, Question) and asked.yes is not None and asked.yes in asked.text
    assert await plan(make_plan(), sentence, asked.yes) == make_plan()
    denied = await plan(make_plan(), sentence, "no")
    assert isinstance(denied, Question) and "one sentence" in denied.text


async def test_asks_if_only_the_rules_plan() -> None:
    asked = await plan(Refusal("unsupported", "No."))
    assert isinstance(asked, Question) and asked.yes is not None
    assert isinstance(await plan(Refusal("unsupported", "No."), SENTENCE, asked.yes), TripPlan)


async def test_passes_on_questions_and_agreed_refusals_of_the_model() -> None:
    question = Question("When?", ("departure_date",))
    assert await plan(question) == question
    refusal = Refusal("unsupported", "No hotels.")
    assert await plan(refusal, "A hotel in Denver on 8 April") == refusal


async def test_every_reading_is_described_as_the_rules_read_it() -> None:
    for changed in ({}, {"return_date": None}, {"cabin_class": Cabin.premium_economy}, {"origin": "SEA"}):
        asked = await plan(make_plan(**changed), "Hello")
        assert isinstance(asked, Question) and asked.yes is not None
        employee = TravellerProfile("emp-1", home_airport="BOS")
        read = plan_trip(replace(PlanRequest("", employee, NOW), sentence=asked.yes))
        assert isinstance(read, TripPlan) and read.parameters == make_plan(**changed).parameters
