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
from tests.unit.flows.errands import ERRANDS, STATES, Shown, choose, expired, flow_of

ENDS = {"Succeed", "Fail"}
NAME_CHARS_MAX = 80

TIMER = flow_of(
    (*STATES[:4], State("booked", Wait(deadline_s=60, deadline_to="done"), shown_as=Shown.open), *STATES[5:])
)
NO_DEADLINE = flow_of(
    (*STATES[:2], replace(STATES[2], action=Wait({"choose": Answer(choose, to=("chosen",))})), *STATES[3:])
)
CHOOSING = {"choose": Answer(choose, to=("chosen",))}
LATE: dict[str, Any] = {"deadline_s": 1800, "on_deadline": expired, "deadline_to": ("chosen", "cancelled")}
SEVERAL = flow_of((*STATES[:2], replace(STATES[2], action=Wait(CHOOSING, **LATE)), *STATES[3:]))
GIVEN = flow_of(
    (*STATES[:2], replace(STATES[2], action=Wait(CHOOSING, **LATE, deadline_from_next=True)), *STATES[3:])
)
GIVEN_TIMER = flow_of(
    (*STATES[:2], replace(STATES[2], action=Wait(**LATE, deadline_from_next=True)), *STATES[3:]),
    token_secret=None,
)
FLOWS = {
    "errands": ERRANDS,
    "timer": TIMER,
    "no deadline": NO_DEADLINE,
    "several": SEVERAL,
    "given": GIVEN,
    "given timer": GIVEN_TIMER,
}


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS.keys())
def test_is_read_by_the_grammar_and_every_way_leads_to_an_end(flow: Flow[Any]) -> None:
    machine = flow.to_states_language()
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


@pytest.mark.parametrize("flow", [ERRANDS, TIMER, SEVERAL, GIVEN, GIVEN_TIMER])
def test_leads_where_the_flow_leads_and_nowhere_else(flow: Flow[Any]) -> None:
    states = flow.to_states_language()["States"]
    for name, state in flow.states.items():
        assert led_to(states, name, set(flow.states)) == set(state.to), name


@pytest.mark.parametrize("flow", [SEVERAL, GIVEN], ids=["several", "given"])
def test_what_follows_a_deadline_is_decided_by_a_task_and_chosen_by_what_it_gave(flow: Flow[Any]) -> None:
    states = flow.to_states_language()["States"]
    [caught] = states["offered"]["Catch"]
    assert caught["ErrorEquals"] == ["States.Timeout"]
    deciding = states[caught["Next"]]
    assert (deciding["Type"], caught["Next"] in flow.states) == ("Task", False)
    choice = states[deciding["Next"]]
    assert [(rule["StringEquals"], rule["Next"]) for rule in choice["Choices"]] == [
        ("chosen", "chosen"),
        ("cancelled", "cancelled"),
    ]
    assert states[choice["Default"]]["Type"] == "Fail"


def test_a_deadline_that_is_given_is_read_from_what_led_there() -> None:
    def told(flow: Flow[Any]) -> dict[str, Any]:
        offered = flow.to_states_language()["States"]["offered"]
        return {word: value for word, value in offered.items() if "Seconds" in word}

    assert told(SEVERAL) == {"TimeoutSeconds": 1800}
    assert told(GIVEN) == {"TimeoutSecondsPath": "$.deadline_s"}
    assert told(GIVEN_TIMER) == {"SecondsPath": "$.deadline_s"}


def test_the_grammar_would_refuse_what_is_no_states_language() -> None:
    machine = ERRANDS.to_states_language()
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


def led_to(states: dict[str, Any], name: str, named: set[str]) -> set[str]:
    """The flow's own states that one leads to, by tasks and choices between them."""
    found, ahead = set[str](), list(ways(states[name]))
    while ahead:
        if (each := ahead.pop()) in named:
            found.add(each)
        else:
            ahead += ways(states[each])
    return found


def reached(states: dict[str, Any], start: str) -> set[str]:
    found, ahead = set[str](), [start]
    while ahead:
        if (name := ahead.pop()) not in found:
            found.add(name)
            ahead += ways(states[name])
    return found
