"""A flow as Amazon States Language: what Step Functions would be given to draw, or to do, the same.

A step is a Task with its retries; where it may go several ways, a Choice behind it looks at the `state` of what the task
gave. A wait is a task that is handed a token, with the deadline as its time-out; where `late` decides what follows that, it
is a task of its own. A deadline that is given with the transition is read from the `deadline_s` of what led there.
Cancellation is a call to the execution there, and no state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import error_label
from holdfast.flows.declaration import LIMIT_S, Retry, State, Step, Wait

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

# Given the name of a step, the ARN of what does it.
Resource = Callable[[str], str]

WAIT_RESOURCE: Final = "arn:aws:states:::sqs:sendMessage.waitForTaskToken"
BACKOFF_RATE: Final = 2.0
# Whole seconds, given by who leads to a wait: the declared ones where its `Next` has none.
DEADLINE_PATH: Final = "$.deadline_s"


def placeholder(step: str) -> str:
    """Of a function in Lambda that has the step's name."""
    return f"arn:aws:lambda:us-east-1:123456789012:function:{step}"


def exported(flow: Flow[Any], resource: Resource) -> dict[str, Any]:
    states: dict[str, Any] = {}
    for state in flow.states.values():
        states |= _of(flow, state, resource)
    reached = _reached(states, flow.begins)
    kept = {name: state for name, state in states.items() if name in reached}
    return {"Comment": f"The flow {flow.name}", "StartAt": flow.begins, "States": kept}


def _reached(states: dict[str, Any], start: str) -> set[str]:
    """A state that only a cancellation leads to has no place there: the service refuses what it cannot come to."""
    found, ahead = set[str](), [start]
    while ahead:
        if (name := ahead.pop()) not in found:
            found.add(name)
            leading = (states[name], *states[name].get("Choices", ()), *states[name].get("Catch", ()))
            ahead += [each[word] for each in leading for word in ("Next", "Default") if word in each]
    return found


def _of(flow: Flow[Any], state: State, resource: Resource) -> dict[str, Any]:
    if isinstance(state.does, Step):
        return _of_step(flow, state, state.does, resource)
    if isinstance(state.does, Wait):
        return _of_wait(flow, state, state.does, resource)
    if state.failure:
        return {state.name: {"Type": "Fail", "Error": state.name, "Cause": f"The flow ended in {state.name}"}}
    return {state.name: {"Type": "Succeed"}}


def _of_step(flow: Flow[Any], state: State, step: Step, resource: Resource) -> dict[str, Any]:
    task: dict[str, Any] = {"Type": "Task", "Comment": step.name, "Resource": resource(step.name)}
    task["TimeoutSeconds"] = max(1, round(step.limit_s))
    if step.retries:
        task["Retry"] = [_retry(rule) for rule in step.retries]
    task |= _leading(state.name, state.to)
    if step.otherwise is not None:
        task["Catch"] = [
            {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": _otherwise_to(flow, step)}
        ]
    return {state.name: task} | _choice(state.name, state.to)


def _otherwise_to(flow: Flow[Any], step: Step) -> str:
    """What `otherwise` decides a Catch cannot: the failure that the step may lead to, or else the last of its states."""
    return next((each for each in step.to if flow.state(each).failure), step.to[-1])


def _of_wait(flow: Flow[Any], state: State, wait: Wait, resource: Resource) -> dict[str, Any]:
    late = _late(state, wait, resource)
    if not wait.answers:
        timer = {"Type": "Wait"} | _deadline("Seconds", wait, 0) | {"Next": _late_entry(state, wait)}
        return {state.name: timer} | late
    told = {"flow": flow.name, "state": state.name, "token.$": "$$.Task.Token", "item.$": "$"}
    task: dict[str, Any] = {
        "Type": "Task",
        "Comment": f"Waits for {', '.join(wait.answers)}",
        "Resource": WAIT_RESOURCE,
        "Parameters": {"QueueUrl.$": "$$.Execution.Input.waitQueue", "MessageBody": told},
    }
    if wait.deadline_s is not None:
        task |= _deadline("TimeoutSeconds", wait, 1)
        task["Catch"] = [
            {"ErrorEquals": ["States.Timeout"], "ResultPath": "$.error", "Next": _late_entry(state, wait)}
        ]
    ways = tuple(dict.fromkeys(target for answer in wait.answers.values() for target in answer.to))
    return {state.name: task | _leading(state.name, ways)} | _choice(state.name, ways) | late


def _deadline(word: str, wait: Wait, least: int) -> dict[str, Any]:
    if wait.deadline_given:
        return {f"{word}Path": DEADLINE_PATH}
    return {word: max(least, round(wait.deadline_s or 0))}


def _late_entry(state: State, wait: Wait) -> str:
    """Where its deadline leads to: to who decides, where somebody does."""
    return wait.late_states[0] if wait.late is None else _late_name(state)


def _late(state: State, wait: Wait, resource: Resource) -> dict[str, Any]:
    """What `late` does, which may be more than to name a state: a task."""
    if wait.late is None:
        return {}
    name = _late_name(state)
    task = {
        "Type": "Task",
        "Comment": f"The deadline of {state.doing}",
        "Resource": resource(f"{state.doing}Late"),
        "TimeoutSeconds": round(LIMIT_S),
    }
    return {name: task | _leading(name, wait.late_states)} | _choice(name, wait.late_states)


def _retry(rule: Retry) -> dict[str, Any]:
    return {
        "ErrorEquals": [error_label(each) for each in rule.classes],
        "IntervalSeconds": max(1, round(rule.pause_s)),
        "BackoffRate": BACKOFF_RATE,
        "MaxAttempts": rule.tries - 1,
        "MaxDelaySeconds": max(2, round(rule.pause_s_max)),
        "JitterStrategy": "FULL",
    }


def _leading(name: str, ways: tuple[str, ...]) -> dict[str, Any]:
    return {"Next": ways[0] if len(ways) == 1 else _choice_name(name)}


def _choice(name: str, ways: tuple[str, ...]) -> dict[str, Any]:
    """Several ways: by the name of the next state in what the task gave. Another than those is a failure, as here."""
    if len(ways) == 1:
        return {}
    rules = [{"Variable": "$.state", "StringEquals": target, "Next": target} for target in ways]
    astray = f"{name} led astray"
    failure = {"Type": "Fail", "Error": "StepMistaken", "Cause": f"{name} led where it may not"}
    return {_choice_name(name): {"Type": "Choice", "Choices": rules, "Default": astray}, astray: failure}


def _choice_name(name: str) -> str:
    return f"after {name}"


def _late_name(state: State) -> str:
    return f"late in {state.name}"
