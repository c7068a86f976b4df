"""Declarations of flows: invalid ones are rejected; valid ones are drawn and exported."""

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
    cancel,
    choose,
    expire,
    get_step,
    make_flow,
    make_step,
)


def replace_state(number: int, **more: Any) -> tuple[State, ...]:
    """Return the errand's states with the state at this index changed."""
    return (*STATES[:number], replace(STATES[number], **more), *STATES[number + 1 :])


def replace_step(number: int, **more: Any) -> tuple[State, ...]:
    """Return the errand's states with the step at this index changed."""
    return replace_state(number, action=replace(get_step(STATES[number]), **more))


WAITS = {"choose": Answer(choose, to=("chosen",))}


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"initial_state": "nowhere"}, "The initial state 'nowhere' of the flow errand is not one of its"),
        ({"states": replace_step(1, to=("offered", "heaven"))}, "names heaven"),
        ({"states": replace_state(2, name="planned")}, "two states named planned"),
        ({"states": replace_step(1, name="Plan")}, "two steps named Plan"),
        (
            {"states": (*STATES, State("island", shown_as=Shown.new))},
            r"No state leads to island of the flow errand: lead to it, or remove it\.",
        ),
        (
            {"states": replace_step(4, to=("chosen",))},
            r"No state leads to done of the flow errand: lead to it, or remove it\.",
        ),
        (
            {
                "states": (
                    State("asked", Step("Go", make_step("Go", "b"), to=("b",)), shown_as=Shown.new),
                    State("b", Step("Back", make_step("Back", "asked"), to=("asked",)), shown_as=Shown.new),
                ),
                "cancel": None,
            },
            "has no end",
        ),
        (
            {
                "states": (
                    State("asked", Step("Go", make_step("Go", "b"), to=("b", "done")), shown_as=Shown.new),
                    State("b", Step("Round", make_step("Round", "b"), to=("b",)), shown_as=Shown.new),
                    State("done", shown_as=Shown.done),
                ),
                "cancel": None,
            },
            r"The flow errand cannot reach an end from b: lead to one\.",
        ),
        (
            {"states": replace_step(1, to=())},
            "The step of planned of the flow errand leads to no state: set `to`,",
        ),
        (
            {"states": replace_step(1, timeout_s=0)},
            "Invalid timeout_s=0 of planned of the flow errand: expected longer",
        ),
        (
            {"states": replace_step(1, retries=(Retry(ValueError, max_attempts=0),))},
            "Invalid Retry of planned of the flow errand: 0 attempts with delays",
        ),
        ({"states": replace_state(2, action=Wait({}))}, "nothing would ever leave it"),
        (
            {"states": replace_state(2, action=Wait(WAITS, deadline_s=5))},
            "offered of the flow errand: set both deadline_s and deadline_to, or",
        ),
        (
            {"states": replace_state(2, action=Wait(WAITS, deadline_s=-5, deadline_to="cancelled"))},
            "Invalid deadline_s=-5 of offered of the flow errand: expected 0 or",
        ),
        (
            {"states": replace_state(2, action=Wait(WAITS, deadline_s=5, deadline_to=()))},
            "offered of the flow errand: set both deadline_s and deadline_to, or",
        ),
        (
            {
                "states": replace_state(
                    2, action=Wait(WAITS, deadline_s=5, deadline_to=("cancelled", "failed"))
                )
            },
            "offered of the flow errand leads to cancelled or failed at its",
        ),
        (
            {"states": replace_state(2, action=Wait(WAITS, on_deadline=expire, deadline_to=()))},
            "offered of the flow errand has on_deadline, but no deadline: set",
        ),
        (
            {"states": replace_state(2, action=Wait(WAITS, deadline_from_next=True))},
            "offered of the flow errand: deadline_from_next=True needs a default;",
        ),
        (
            {
                "states": replace_state(
                    2, action=Wait(WAITS, deadline_s=5, on_deadline=expire, deadline_to=("done", "heaven"))
                )
            },
            "names heaven",
        ),
        (
            {"states": replace_state(2, action=Wait({"choose": Answer(choose, to=())}))},
            "The answer choose of offered of the flow errand leads to no state:",
        ),
        (
            {"states": replace_state(1, shown_as=None)},
            r"The flow errand shows its states as Errand\.status, but planned has no",
        ),
        (
            {"states": replace_state(1, shown_as="a surprise")},
            "Invalid shown_as of the state planned of errand: Invalid status 'a",
        ),
        ({"shown_attribute": None}, r"The state asked of errand has shown_as=<Shown\.new: 'new'>, but the"),
        ({"cancel": Cancel(cancel, from_states=("asked", "heaven"), to="cancelled")}, "names heaven"),
        ({"cancel": Cancel(cancel, from_states=("done",), to="cancelled")}, "it has ended there"),
        ({"token_secret": None}, "needs a secret"),
        ({"shards": 0}, r"Invalid shards=0 of the flow errand: expected 1 to 999\."),
    ],
)
def test_rejects_an_invalid_flow(terms: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        make_flow(**terms)


def test_draws_every_transition_with_its_cause() -> None:
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


def test_diagram_shows_a_wait_without_deadline() -> None:
    drawn = make_flow(replace_state(2, action=Wait(WAITS))).draw_diagram()
    assert "note right of offered : waits without a deadline" in drawn


def test_draws_each_target_of_a_deadline_and_an_override() -> None:
    wait = Wait(
        WAITS,
        deadline_s=5400,
        deadline_from_next=True,
        on_deadline=expire,
        deadline_to=("chosen", "cancelled"),
    )
    drawn = make_flow(replace_state(2, action=wait)).draw_diagram().splitlines()
    late = [line.strip() for line in drawn if "after 90 min" in line]
    assert late == [
        "offered --> chosen : after 90 min, unless the step set another",
        "offered --> cancelled : after 90 min, unless the step set another",
    ]


def test_exports_retries_tokens_and_failure_states() -> None:
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


def test_patterns_have_valid_examples_and_pass_the_design_check() -> None:
    """The only finding is an index of the item that no pattern reads."""
    for pattern in ERRANDS.patterns:
        assert pattern.build_example().pattern == pattern.id
    assert len({pattern.id for pattern in ERRANDS.patterns}) == len(ERRANDS.patterns)
    found = [each for each in asyncio.run(check_design(SYSTEM)) if each.severity != "info"]
    # An index of the item without readers: it exists to be written.
    assert [each.subject for each in found] == ["Errands.by-status"]
