"""What is exported is Amazon States Language: it is read by the grammar of moto's Step Functions, and every way in it leads to a
state that is there, and in the end to an end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from moto.stepfunctions.parser.asl.parse.asl_parser import AmazonStateLanguageParser, ASLParserException

from holdfast.flows import Answer, Flow, State, Wait
from tests.unit.flows.errands import ERRANDS, STATES, Shown, choose, flow_of

ENDS = {"Succeed", "Fail"}
NAME_CHARS_MAX = 80

TIMER = flow_of(
    (*STATES[:4], State("booked", Wait(deadline_s=60, late_to="done"), shown=Shown.open), *STATES[5:])
)
NO_DEADLINE = flow_of(
    (*STATES[:2], replace(STATES[2], does=Wait({"choose": Answer(choose, to=("chosen",))})), *STATES[3:])
)


@pytest.mark.parametrize("flow", [ERRANDS, TIMER, NO_DEADLINE], ids=["errands", "timer", "no deadline"])
def test_is_read_by_the_grammar_and_every_way_leads_to_an_end(flow: Flow[Any]) -> None:
    machine = flow.states_language()
    AmazonStateLanguageParser.parse(json.dumps(machine))
    states = machine["States"]
    assert machine["StartAt"] in states
    # Of its states all but what only a cancellation leads to.
    assert set(flow.states) - set(states) == ({"cancelled"} if flow is NO_DEADLINE else set())
    assert all(len(name) <= NAME_CHARS_MAX for name in states)
    for name, state in states.items():
        following = set(ways(state))
        assert following <= set(states), name
        assert bool(following) != (state["Type"] in ENDS), name
    assert reached(states, machine["StartAt"]) == set(states)
    assert all(ENDS & {states[each]["Type"] for each in reached(states, name)} for name in states)


def test_leads_where_the_flow_leads_and_nowhere_else() -> None:
    states = ERRANDS.states_language()["States"]
    for name, state in ERRANDS.states.items():
        led = {
            each
            for way in ways(states[name])
            for each in ([way] if way in ERRANDS.states else ways(states[way]))
        }
        assert led & set(ERRANDS.states) == set(state.to), name


def test_the_grammar_would_refuse_what_is_no_states_language() -> None:
    machine = ERRANDS.states_language()
    machine["States"]["asked"]["Following"] = "planned"
    with pytest.raises(ASLParserException):
        AmazonStateLanguageParser.parse(json.dumps(machine))


def ways(state: dict[str, Any]) -> Iterator[str]:
    """Every state that one names as following."""
    for each in (state, *state.get("Choices", ()), *state.get("Catch", ())):
        if "Next" in each:
            yield each["Next"]
    if "Default" in state:
        yield state["Default"]


def reached(states: dict[str, Any], start: str) -> set[str]:
    found, ahead = set[str](), [start]
    while ahead:
        if (name := ahead.pop()) not in found:
            found.add(name)
            ahead += ways(states[name])
    return found
