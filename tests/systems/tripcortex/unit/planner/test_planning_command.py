"""Tests of `holdfast tripcortex plan`: the intent, the plan or the question of a sentence, without stores."""

from __future__ import annotations

from datetime import datetime

import pytest

from holdfast.core.errors import InvalidRequest
from tests.cases import all_cases
from tripcortex.api.planning_command import plan

NOW = datetime(2026, 11, 16, 10)


async def test_shows_the_intent_and_every_part_of_the_plan() -> None:
    sentence = (
        "New York to Oslo on 4 May, back on 6 May in business with SAS, not Norwegian, nonstop, in the "
        "morning, max 900 euros, arriving by 11 pm, window seat"
    )
    shown = await plan(sentence, home="jfk", now=datetime(2027, 1, 4, 10))
    assert (shown["intent"], shown["question"]) == ("book", None)
    notes = shown["plan"].pop("notes")
    assert shown["plan"] == {
        "origin": "JFK",
        "destination": "OSL",
        "depart": "2027-05-04",
        "return": "2027-05-06",
        "cabin": "business",
        "max_price": 900.0,
        "carriers": ["SK"],
    }
    for part in (
        "LGA, EWR",
        "Nonstop",
        "the morning",
        "avoid: DY",
        "not apply your limit of 900 EUR",
        "window seat",
    ):
        assert any(part in each for each in notes), (part, notes)
    assert any("arrival by 11 pm" in each for each in notes)


async def test_leaves_open_what_is_not_said() -> None:
    shown = await plan("Oslo on 4 December, one way", home="BOS", now=NOW)
    assert {name for name, value in shown["plan"].items() if value is None} == {
        "return",
        "cabin",
        "max_price",
    }
    assert shown["plan"]["carriers"] == shown["plan"]["notes"] == []


@all_cases(
    ("sentence", "intent", "question"),
    [
        ("Is my flight on time?", "status", None),
        ("Are there flights to Oslo on Friday?", "other", "yes or no"),
        ("Oslo on 4 December", "book", "one way"),
        ("Two tickets to Oslo on 4 December", "book", "one traveller at a time"),
    ],
)
async def test_shows_a_question_or_nothing_without_a_plan(
    sentence: str, intent: str, question: str | None
) -> None:
    shown = await plan(sentence, home="BOS", now=NOW)
    assert (shown["intent"], shown["plan"]) == (intent, None)
    assert shown["question"] is None if question is None else question in shown["question"]


async def test_the_time_of_the_request_is_local() -> None:
    shown = await plan("Oslo tomorrow, one way", home="BOS", now=datetime(2026, 11, 16, 23, 59))
    assert shown["plan"]["depart"] == "2026-11-17"


async def test_rejects_an_unknown_home() -> None:
    with pytest.raises(InvalidRequest, match="IATA code"):
        await plan("Oslo tomorrow, one way", home="Boston", now=NOW)
