"""The sentence sets: each request gives the plan, the question or the refusal that was written down for it."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.tripcortex.planning.sentences import (
    FOUND,
    HOLD_OUT,
    SECOND_HOLD_OUT,
    SENTENCES,
    Asks,
    Expected,
    Plan,
    Refuses,
    Said,
)
from tripcortex.domain.planner import (
    PlanOutcome,
    PlanRequest,
    Question,
    Refusal,
    SentencePlanner,
    Traveller,
    TripPlan,
)


def asked(said: Said) -> PlanRequest:
    traveller = Traveller("emp-1", said.zone, said.home, locale=said.locale)
    return PlanRequest(said.text, traveller, said.at, said.answers)


def outcome_of(said: Said) -> PlanOutcome:
    return asyncio.run(SentencePlanner().plan(asked(said)))


def plan_in(outcome: TripPlan) -> Plan:
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


def check(said: Said, expected: Expected) -> None:
    outcome = outcome_of(said)
    if isinstance(expected, Plan):
        assert isinstance(outcome, TripPlan), outcome
        assert plan_in(outcome) == expected
    elif isinstance(expected, Asks):
        assert isinstance(outcome, Question), outcome
        assert outcome.missing == expected.about, outcome
        assert set(expected.choices) <= set(outcome.choices), outcome
        assert outcome.text.count("?") >= 1
    else:
        assert isinstance(outcome, Refusal), outcome
        assert outcome.code == expected.code, outcome
        assert outcome.text.endswith((".", "”"))


def name_of(value: object) -> str:
    return value.text[:60] if isinstance(value, Said) else ""


@pytest.mark.proves("TC-64")
@pytest.mark.parametrize(("said", "expected"), SENTENCES, ids=name_of)
def test_a_sentence_gives_what_was_written_down_for_it(said: Said, expected: Expected) -> None:
    check(said, expected)


@pytest.mark.proves("TC-64")
@pytest.mark.parametrize(("said", "expected"), [*HOLD_OUT, *SECOND_HOLD_OUT, *FOUND], ids=name_of)
def test_a_sentence_that_was_written_after_the_reader_is_read_as_well(said: Said, expected: Expected) -> None:
    check(said, expected)


def test_the_set_has_at_least_eighty_sentences_of_every_outcome() -> None:
    outcomes = [type(expected) for _, expected in SENTENCES]
    assert len(SENTENCES) >= 80
    assert all(outcomes.count(kind) >= 10 for kind in (Plan, Asks, Refuses))
