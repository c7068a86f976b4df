"""A flow that cannot work is refused when it is declared; and what is declared can be drawn and exported."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from holdfast.core.errors import DeclarationError
from holdfast.flows import Answer, Cancel, Retry, State, Step, Wait
from holdfast.flows.states_language import WAIT_RESOURCE
from holdfast.reports.design.design_check import check_design
from tests.unit.flows.errands import (
    ERRANDS,
    STATES,
    SYSTEM,
    Shown,
    cancelled,
    choose,
    expired,
    flow_of,
    step,
    step_in,
)


def changed(number: int, **more: Any) -> tuple[State, ...]:
    return (*STATES[:number], replace(STATES[number], **more), *STATES[number + 1 :])


def with_step(number: int, **more: Any) -> tuple[State, ...]:
    return changed(number, action=replace(step_in(STATES[number]), **more))


WAITS = {"choose": Answer(choose, to=("chosen",))}


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"initial_state": "nowhere"}, "The initial state 'nowhere' of the flow errand is not one of its"),
        ({"states": with_step(1, to=("offered", "heaven"))}, "names heaven"),
        ({"states": changed(2, name="planned")}, "two states named planned"),
        ({"states": with_step(1, name="Plan")}, "two steps named Plan"),
        (
            {"states": (*STATES, State("island", shown_as=Shown.new))},
            r"No state leads to island of the flow errand: lead to it, or remove it\.",
        ),
        (
            {"states": with_step(4, to=("chosen",))},
            r"No state leads to done of the flow errand: lead to it, or remove it\.",
        ),
        (
            {
                "states": (
                    State("asked", Step("Go", step("Go", "b"), to=("b",)), shown_as=Shown.new),
                    State("b", Step("Back", step("Back", "asked"), to=("asked",)), shown_as=Shown.new),
                ),
                "cancel": None,
            },
            "has no end",
        ),
        (
            {
                "states": (
                    State("asked", Step("Go", step("Go", "b"), to=("b", "done")), shown_as=Shown.new),
                    State("b", Step("Round", step("Round", "b"), to=("b",)), shown_as=Shown.new),
                    State("done", shown_as=Shown.done),
                ),
                "cancel": None,
            },
            r"The flow errand cannot reach an end from b: lead to one\.",
        ),
        (
            {"states": with_step(1, to=())},
            "The step of planned of the flow errand leads to no state: set `to`,",
        ),
        (
            {"states": with_step(1, timeout_s=0)},
            "Invalid timeout_s=0 of planned of the flow errand: expected longer",
        ),
        (
            {"states": with_step(1, retries=(Retry(ValueError, max_attempts=0),))},
            "Invalid Retry of planned of the flow errand: 0 attempts with pauses",
        ),
        ({"states": changed(2, action=Wait({}))}, "nothing would ever leave it"),
        (
            {"states": changed(2, action=Wait(WAITS, deadline_s=5))},
            "offered of the flow errand: set both deadline_s and deadline_to, or",
        ),
        (
            {"states": changed(2, action=Wait(WAITS, deadline_s=-5, deadline_to="cancelled"))},
            "Invalid deadline_s=-5 of offered of the flow errand: expected 0 or",
        ),
        (
            {"states": changed(2, action=Wait(WAITS, deadline_s=5, deadline_to=()))},
            "offered of the flow errand: set both deadline_s and deadline_to, or",
        ),
        (
            {"states": changed(2, action=Wait(WAITS, deadline_s=5, deadline_to=("cancelled", "failed")))},
            "offered of the flow errand leads to cancelled or failed at its",
        ),
        (
            {"states": changed(2, action=Wait(WAITS, on_deadline=expired, deadline_to=()))},
            "offered of the flow errand has on_deadline, but no deadline: set",
        ),
        (
            {"states": changed(2, action=Wait(WAITS, deadline_from_next=True))},
            "offered of the flow errand: deadline_from_next=True needs a default;",
        ),
        (
            {
                "states": changed(
                    2, action=Wait(WAITS, deadline_s=5, on_deadline=expired, deadline_to=("done", "heaven"))
                )
            },
            "names heaven",
        ),
        (
            {"states": changed(2, action=Wait({"choose": Answer(choose, to=())}))},
            "The answer choose of offered of the flow errand leads to no state:",
        ),
        (
            {"states": changed(1, shown_as=None)},
            r"The flow errand shows its states as Errand\.status, but planned has no",
        ),
        (
            {"states": changed(1, shown_as="a surprise")},
            "Invalid shown_as of the state planned of errand: Invalid status 'a",
        ),
        ({"shown_attribute": None}, r"The state asked of errand has shown_as=<Shown\.new: 'new'>, but the"),
        ({"cancel": Cancel(cancelled, from_states=("asked", "heaven"), to="cancelled")}, "names heaven"),
        ({"cancel": Cancel(cancelled, from_states=("done",), to="cancelled")}, "it has ended there"),
        ({"token_secret": None}, "needs a secret"),
        ({"shards": 0}, r"Invalid shards=0 of the flow errand: expected 1 to 999\."),
    ],
)
def test_refuses_a_flow_that_cannot_work(terms: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        flow_of(**terms)


def test_draws_itself_with_every_way_and_what_makes_it() -> None:
    drawn = ERRANDS.draw_diagram().splitlines()
    assert drawn[:2] == ["stateDiagram-v2", "    [*] --> asked"]
    ways = {line.strip() for line in drawn}
    assert {
        "asked --> planned : Plan",
        "asked --> failed : Plan",
        "offered --> chosen : choose",
        "offered --> cancelled : refuse",
        "offered --> cancelled : after 30 min",
        "planned --> cancelled : cancelled",
        "done --> [*]",
        "offered : offered (shown as asked)",
    } <= ways
    assert not any(line.startswith("chosen --> cancelled") for line in ways)


def test_says_in_the_diagram_that_a_wait_has_no_deadline() -> None:
    drawn = flow_of(changed(2, action=Wait(WAITS))).draw_diagram()
    assert "note right of offered : waits without a deadline" in drawn


def test_draws_each_way_of_a_deadline_and_that_another_may_be_given() -> None:
    wait = Wait(
        WAITS,
        deadline_s=5400,
        deadline_from_next=True,
        on_deadline=expired,
        deadline_to=("chosen", "cancelled"),
    )
    drawn = flow_of(changed(2, action=wait)).draw_diagram().splitlines()
    late = [line.strip() for line in drawn if "after 90 min" in line]
    assert late == [
        "offered --> chosen : after 90 min, unless the step set another",
        "offered --> cancelled : after 90 min, unless the step set another",
    ]


def test_exports_steps_with_retries_waits_with_tokens_and_ends_that_fail() -> None:
    states = ERRANDS.to_states_language(lambda name: f"arn:aws:lambda:eu-west-1:1:function:errand-{name}")[
        "States"
    ]
    assert states["asked"]["Resource"] == "arn:aws:lambda:eu-west-1:1:function:errand-Plan"
    assert states["asked"]["Retry"] == [
        {
            "ErrorEquals": ["PartyFailed"],
            "IntervalSeconds": 1,
            "BackoffRate": 2.0,
            "MaxAttempts": 2,
            "MaxDelaySeconds": 60,
            "JitterStrategy": "FULL",
        }
    ]
    assert states["asked"]["Catch"][0]["Next"] == "failed"
    assert states["offered"]["Resource"] == WAIT_RESOURCE and states["offered"]["TimeoutSeconds"] == 1800
    assert states["offered"]["Catch"][0] == {
        "ErrorEquals": ["States.Timeout"],
        "ResultPath": "$.error",
        "Next": "late in offered",
    }
    assert states["late in offered"]["Resource"].endswith(":errand-WaitIn_offeredLate")
    assert states["late in offered"]["Next"] == "cancelled"
    assert (states["done"]["Type"], states["failed"]["Type"]) == ("Succeed", "Fail")


def test_its_patterns_have_examples_that_fit_and_the_design_check_finds_no_error() -> None:
    for pattern in ERRANDS.patterns:
        assert pattern.build_example().pattern == pattern.id
    assert len({pattern.id for pattern in ERRANDS.patterns}) == len(ERRANDS.patterns)
    found = [each for each in asyncio.run(check_design(SYSTEM)) if each.severity != "info"]
    # An index of the item that nobody reads: it is there to be written.
    assert [each.subject for each in found] == ["Errands.by-status"]
