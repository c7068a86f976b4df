"""Tests that the sentence planner gives each request of the sentence sets its expected outcome."""

from __future__ import annotations

import pytest

from tests.cases import all_cases
from tests.systems.tripcortex.unit.planner.sentences import (
    FOUND,
    HOLD_OUT,
    SECOND_HOLD_OUT,
    SENTENCES,
    Asks,
    Expected,
    Plan,
    Refuses,
    Request,
)
from tests.systems.tripcortex.unit.planner.trip_sentences import TRIP_SENTENCES
from tripcortex.domain.planner import (
    PlanOutcome,
    PlanRequest,
    Question,
    Refusal,
    SentencePlanner,
    TravellerProfile,
    TripPlan,
)
from tripcortex.domain.planner.ports import PARTS, REFUSAL_CODES


def build_request(request: Request) -> PlanRequest:
    traveller = TravellerProfile("emp-1", request.zone, request.home, locale=request.locale)
    return PlanRequest(request.text, traveller, request.at, request.answers)


async def plan_request(request: Request) -> PlanOutcome:
    """Plan the request with the sentence planner."""
    return await SentencePlanner().plan(build_request(request))


def summarize_plan(outcome: TripPlan) -> Plan:
    """Return the plan in the form of the expected ones."""
    trip, wishes = outcome.parameters, outcome.preferences
    return Plan(
        trip.destination,
        trip.departure_date.isoformat(),
        trip.return_date.isoformat() if trip.return_date else None,
        trip.origin,
        trip.cabin_class,
        wishes.is_cabin_asked,
        tuple(wishes.destination_airports),
        tuple(wishes.origin_airports),
        tuple(wishes.vendors),
        outcome.avoided,
        wishes.nonstop,
        wishes.depart_part,
        wishes.budget_usd,
    )


async def check(request: Request, expected: Expected) -> None:
    """Plan the request and compare the outcome with the expected one."""
    outcome = await plan_request(request)
    if isinstance(expected, Plan):
        assert isinstance(outcome, TripPlan), outcome
        assert summarize_plan(outcome) == expected
    elif isinstance(expected, Asks):
        assert isinstance(outcome, Question), outcome
        assert outcome.missing == expected.about, outcome
        assert outcome.missing and set(outcome.missing) <= set(PARTS)
        assert set(expected.choices) <= set(outcome.choices), outcome
        assert outcome.text.count("?") >= 1
    else:
        assert isinstance(outcome, Refusal), outcome
        assert outcome.code == expected.code, outcome
        assert outcome.code in REFUSAL_CODES
        assert outcome.text.endswith((".", "”"))


@pytest.mark.proves("TC-64")
@all_cases(("said", "expected"), [*SENTENCES, *HOLD_OUT, *SECOND_HOLD_OUT, *FOUND, *TRIP_SENTENCES])
async def test_sentence_gives_the_expected_outcome(said: Request, expected: Expected) -> None:
    await check(said, expected)


def test_the_set_has_eighty_sentences_and_every_outcome() -> None:
    outcomes = [type(expected) for _, expected in SENTENCES]
    assert len(SENTENCES) >= 80
    assert all(outcomes.count(kind) >= 10 for kind in (Plan, Asks, Refuses))
