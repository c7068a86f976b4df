"""A flow that cannot work is refused when it is declared; and what is declared can be drawn and exported."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from holdfast.errors import DeclarationError
from holdfast.flows import Answer, Cancel, Retry, State, Step, Wait
from holdfast.flows.states_language import WAIT_RESOURCE
from holdfast.reports.design_check import check_design
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
    return changed(number, does=replace(step_in(STATES[number]), **more))


WAITS = {"choose": Answer(choose, to=("chosen",))}


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"begins": "nowhere"}, "begins in 'nowhere'"),
        ({"states": with_step(1, to=("offered", "heaven"))}, "names heaven"),
        ({"states": changed(2, name="planned")}, "two states named planned"),
        ({"states": with_step(1, name="Plan")}, "two steps named Plan"),
        ({"states": (*STATES, State("island", shown=Shown.new))}, "Nothing leads to island"),
        ({"states": with_step(4, to=("chosen",))}, "Nothing leads to done"),
        (
            {
                "states": (
                    State("asked", Step("Go", step("Go", "b"), to=("b",)), shown=Shown.new),
                    State("b", Step("Back", step("Back", "asked"), to=("asked",)), shown=Shown.new),
                ),
                "cancel": None,
            },
            "has no end",
        ),
        (
            {
                "states": (
                    State("asked", Step("Go", step("Go", "b"), to=("b", "done")), shown=Shown.new),
                    State("b", Step("Round", step("Round", "b"), to=("b",)), shown=Shown.new),
                    State("done", shown=Shown.done),
                ),
                "cancel": None,
            },
            "From b the flow errand can come to no end",
        ),
        ({"states": with_step(1, to=())}, "leads nowhere"),
        ({"states": with_step(1, limit_s=0)}, "limit of 0"),
        ({"states": with_step(1, retries=(Retry(ValueError, tries=0),))}, "tried 0 times"),
        ({"states": changed(2, does=Wait({}))}, "nothing would ever leave it"),
        ({"states": changed(2, does=Wait(WAITS, deadline_s=5))}, "both, deadline_s and late_to"),
        ({"states": changed(2, does=Wait(WAITS, deadline_s=-5, late_to="cancelled"))}, "deadline of -5"),
        ({"states": changed(2, does=Wait(WAITS, deadline_s=5, late_to=()))}, "both, deadline_s and late_to"),
        (
            {"states": changed(2, does=Wait(WAITS, deadline_s=5, late_to=("cancelled", "failed")))},
            "leads to cancelled or failed at its deadline, and nothing decides",
        ),
        (
            {"states": changed(2, does=Wait(WAITS, late=expired, late_to=()))},
            "has no deadline: give it one",
        ),
        ({"states": changed(2, does=Wait(WAITS, deadline_given=True))}, "has none for who gives none"),
        (
            {"states": changed(2, does=Wait(WAITS, deadline_s=5, late=expired, late_to=("done", "heaven")))},
            "names heaven",
        ),
        ({"states": changed(2, does=Wait({"choose": Answer(choose, to=())}))}, "leads nowhere by the answer"),
        ({"states": changed(1, shown=None)}, "planned does not say as what"),
        ({"states": changed(1, shown="a surprise")}, "cannot be shown so"),
        ({"shows": None}, "does not say where"),
        ({"cancel": Cancel(cancelled, frm=("asked", "heaven"), to="cancelled")}, "names heaven"),
        ({"cancel": Cancel(cancelled, frm=("done",), to="cancelled")}, "it has ended there"),
        ({"token_secret": None}, "needs a secret"),
        ({"shards": 0}, "0 shards"),
    ],
)
def test_refuses_a_flow_that_cannot_work(terms: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        flow_of(**terms)


def test_draws_itself_with_every_way_and_what_makes_it() -> None:
    drawn = ERRANDS.diagram().splitlines()
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
    drawn = flow_of(changed(2, does=Wait(WAITS))).diagram()
    assert "note right of offered : waits without a deadline" in drawn


def test_draws_each_way_of_a_deadline_and_that_another_may_be_given() -> None:
    wait = Wait(WAITS, deadline_s=5400, deadline_given=True, late=expired, late_to=("chosen", "cancelled"))
    drawn = flow_of(changed(2, does=wait)).diagram().splitlines()
    late = [line.strip() for line in drawn if "after 90 min" in line]
    assert late == [
        "offered --> chosen : after 90 min, unless it was given another",
        "offered --> cancelled : after 90 min, unless it was given another",
    ]


def test_exports_steps_with_retries_waits_with_tokens_and_ends_that_fail() -> None:
    states = ERRANDS.states_language(lambda name: f"arn:aws:lambda:eu-west-1:1:function:errand-{name}")[
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
        assert pattern.example().pattern == pattern.id
    assert len({pattern.id for pattern in ERRANDS.patterns}) == len(ERRANDS.patterns)
    found = [each for each in asyncio.run(check_design(SYSTEM)) if each.severity != "info"]
    # An index of the item that nobody reads: it is there to be written.
    assert [each.subject for each in found] == ["Errands.by-status"]
