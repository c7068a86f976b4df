"""Export to Amazon States Language: moto's grammar accepts it, and it has the flow's transitions."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from holdfast.flows import Answer, Flow, State, Wait
from tests.unit.flows.errands import ERRANDS, STATES, Shown, choose, expire, make_flow

ENDS = {"Succeed", "Fail"}
MAX_NAME_CHARS = 80

TIMER = make_flow(
    (*STATES[:4], State("booked", Wait(deadline_s=60, deadline_to="done"), shown_as=Shown.open), *STATES[5:])
)
NO_DEADLINE = make_flow(
    (*STATES[:2], replace(STATES[2], action=Wait({"choose": Answer(choose, to=("chosen",))})), *STATES[3:])
)
CHOOSING = {"choose": Answer(choose, to=("chosen",))}
LATE: dict[str, Any] = {"deadline_s": 1800, "on_deadline": expire, "deadline_to": ("chosen", "cancelled")}
SEVERAL = make_flow((*STATES[:2], replace(STATES[2], action=Wait(CHOOSING, **LATE)), *STATES[3:]))
GIVEN = make_flow(
    (*STATES[:2], replace(STATES[2], action=Wait(CHOOSING, **LATE, deadline_from_next=True)), *STATES[3:])
)
GIVEN_TIMER = make_flow(
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
def test_grammar_accepts_it_and_every_path_ends(flow: Flow[Any]) -> None:
    machine = flow.to_states_language()
    load_grammar().AmazonStateLanguageParser.parse(json.dumps(machine))
    states = machine["States"]
    assert machine["StartAt"] in states
    # The export omits states that only a cancellation reaches.
    assert set(flow.states) - set(states) == ({"cancelled"} if flow is NO_DEADLINE else set())
    assert all(len(name) <= MAX_NAME_CHARS for name in states)
    for name, state in states.items():
        following = set(list_next_states(state))
        assert following <= set(states), name
        assert bool(following) != (state["Type"] in ENDS), name
    assert find_reachable(states, machine["StartAt"]) == set(states)
    assert all(ENDS & {states[each]["Type"] for each in find_reachable(states, name)} for name in states)


@pytest.mark.parametrize("flow", [ERRANDS, TIMER, SEVERAL, GIVEN, GIVEN_TIMER])
def test_exports_exactly_the_flows_transitions(flow: Flow[Any]) -> None:
    states = flow.to_states_language()["States"]
    for name, state in flow.states.items():
        assert find_flow_targets(states, name, set(flow.states)) == set(state.to), name


@pytest.mark.parametrize("flow", [SEVERAL, GIVEN], ids=["several", "given"])
def test_a_task_chooses_the_state_after_a_deadline(flow: Flow[Any]) -> None:
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


def test_reads_an_overridden_deadline_from_the_previous_states_output() -> None:
    def list_timeouts(flow: Flow[Any]) -> dict[str, Any]:
        offered = flow.to_states_language()["States"]["offered"]
        return {word: value for word, value in offered.items() if "Seconds" in word}

    assert list_timeouts(SEVERAL) == {"TimeoutSeconds": 1800}
    assert list_timeouts(GIVEN) == {"TimeoutSecondsPath": "$.deadline_s"}
    assert list_timeouts(GIVEN_TIMER) == {"SecondsPath": "$.deadline_s"}


def test_grammar_rejects_invalid_states_language() -> None:
    machine = ERRANDS.to_states_language()
    machine["States"]["asked"]["Following"] = "planned"
    with pytest.raises(load_grammar().ASLParserException):
        load_grammar().AmazonStateLanguageParser.parse(json.dumps(machine))


def load_grammar() -> Any:
    """Import moto's grammar in the tests that need it: it imports most of moto."""
    return importlib.import_module("moto.stepfunctions.parser.asl.parse.asl_parser")


def list_next_states(state: dict[str, Any]) -> Iterator[str]:
    """Yield every state that a state names as next."""
    for each in (state, *state.get("Choices", ()), *state.get("Catch", ())):
        if "Next" in each:
            yield each["Next"]
    if "Default" in state:
        yield state["Default"]


def find_flow_targets(states: dict[str, Any], name: str, named: set[str]) -> set[str]:
    """Return the flow's own states that a state leads to, through tasks and choices between them."""
    found, ahead = set[str](), list(list_next_states(states[name]))
    while ahead:
        if (each := ahead.pop()) in named:
            found.add(each)
        else:
            ahead += list_next_states(states[each])
    return found


def find_reachable(states: dict[str, Any], start: str) -> set[str]:
    """Return all states that can be reached from `start`, itself included."""
    found, ahead = set[str](), [start]
    while ahead:
        if (name := ahead.pop()) not in found:
            found.add(name)
            ahead += list_next_states(states[name])
    return found
