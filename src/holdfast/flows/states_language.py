"""`export`: a flow in Amazon States Language, for Step Functions to draw or run.

A step is a Task with its retries; if it may go several ways, a Choice behind it looks at the `state` of its
result. A wait is a task with a token and the deadline as its timeout; if `on_deadline` decides what follows,
it is a task of its own. A deadline that a step sets is read from the `deadline_s` of that step's result.
Cancellation is a call to the execution, not a state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import error_label
from holdfast.flows.declaration import TIMEOUT_S, Retry, State, Step, Wait

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow

# Maps the name of a step to the ARN that runs it.
Resource = Callable[[str], str]

WAIT_RESOURCE: Final = "arn:aws:states:::sqs:sendMessage.waitForTaskToken"
BACKOFF_RATE: Final = 2.0
# Whole seconds, set by the step that leads to a wait; the declared ones if its `Next` has none.
DEADLINE_PATH: Final = "$.deadline_s"


def build_placeholder_arn(step: str) -> str:
    """Return the ARN of a Lambda function with the step's name, in an example account."""
    return f"arn:aws:lambda:us-east-1:123456789012:function:{step}"


def export(flow: Flow[Any], resource: Resource) -> dict[str, Any]:
    """Return the state machine as a JSON-serialisable document.

    `resource` maps a step's name to the ARN that runs it.
    """
    states: dict[str, Any] = {}
    for state in flow.states.values():
        states |= _build_state(flow, state, resource)
    reached = _find_reachable(states, flow.initial_state)
    kept = {name: state for name, state in states.items() if name in reached}
    return {"Comment": f"The flow {flow.name}", "StartAt": flow.initial_state, "States": kept}


def _find_reachable(states: dict[str, Any], start: str) -> set[str]:
    """Return the states reachable from `start`.

    One that only cancellation leads to is left out: the service refuses it.
    """
    found, ahead = set[str](), [start]
    while ahead:
        if (name := ahead.pop()) not in found:
            found.add(name)
            leading = (states[name], *states[name].get("Choices", ()), *states[name].get("Catch", ()))
            ahead += [each[word] for each in leading for word in ("Next", "Default") if word in each]
    return found


def _build_state(flow: Flow[Any], state: State, resource: Resource) -> dict[str, Any]:
    """Return the states by name that one state of the flow becomes."""
    if isinstance(state.action, Step):
        return _build_step(flow, state, state.action, resource)
    if isinstance(state.action, Wait):
        return _build_wait(flow, state, state.action, resource)
    if state.is_failure:
        return {state.name: {"Type": "Fail", "Error": state.name, "Cause": f"The flow ended in {state.name}"}}
    return {state.name: {"Type": "Succeed"}}


def _build_step(flow: Flow[Any], state: State, step: Step, resource: Resource) -> dict[str, Any]:
    """Return the Task of a step, and the Choice after it if several states may follow."""
    task: dict[str, Any] = {"Type": "Task", "Comment": step.name, "Resource": resource(step.name)}
    task["TimeoutSeconds"] = max(1, round(step.timeout_s))
    if step.retries:
        task["Retry"] = [_build_retry(rule) for rule in step.retries]
    task |= _build_next(state.name, state.to)
    if step.on_failure is not None:
        task["Catch"] = [
            {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": _get_failure_state(flow, step)}
        ]
    return {state.name: task} | _build_choice(state.name, state.to)


def _get_failure_state(flow: Flow[Any], step: Step) -> str:
    """Return the state for a Catch: the failure state that the step may lead to, else the last of its
    states.
    """
    return next((each for each in step.to if flow.get_state(each).is_failure), step.to[-1])


def _build_wait(flow: Flow[Any], state: State, wait: Wait, resource: Resource) -> dict[str, Any]:
    """Return the task with a token, or the timer without answers, with what follows an answer and the
    deadline.
    """
    late = _build_deadline_task(state, wait, resource)
    if not wait.answers:
        timer = (
            {"Type": "Wait"}
            | _build_deadline("Seconds", wait, 0)
            | {"Next": _get_deadline_target(state, wait)}
        )
        return {state.name: timer} | late
    body = {"flow": flow.name, "state": state.name, "token.$": "$$.Task.Token", "item.$": "$"}
    task: dict[str, Any] = {
        "Type": "Task",
        "Comment": f"Waits for {', '.join(wait.answers)}",
        "Resource": WAIT_RESOURCE,
        "Parameters": {"QueueUrl.$": "$$.Execution.Input.waitQueue", "MessageBody": body},
    }
    if wait.deadline_s is not None:
        task |= _build_deadline("TimeoutSeconds", wait, 1)
        task["Catch"] = [
            {
                "ErrorEquals": ["States.Timeout"],
                "ResultPath": "$.error",
                "Next": _get_deadline_target(state, wait),
            }
        ]
    ways = tuple(dict.fromkeys(target for answer in wait.answers.values() for target in answer.to))
    return {state.name: task | _build_next(state.name, ways)} | _build_choice(state.name, ways) | late


def _build_deadline(word: str, wait: Wait, least: int) -> dict[str, Any]:
    """Return the deadline as the field `word` in seconds, at least `least`, or as a path to the step's
    result.
    """
    if wait.deadline_from_next:
        return {f"{word}Path": DEADLINE_PATH}
    return {word: max(least, round(wait.deadline_s or 0))}


def _get_deadline_target(state: State, wait: Wait) -> str:
    """Return the state that the deadline leads to: the task that decides, if there is one."""
    return wait.deadline_states[0] if wait.on_deadline is None else _deadline_task_name(state)


def _build_deadline_task(state: State, wait: Wait, resource: Resource) -> dict[str, Any]:
    """Return the task that runs `on_deadline`, if there is one."""
    if wait.on_deadline is None:
        return {}
    name = _deadline_task_name(state)
    task = {
        "Type": "Task",
        "Comment": f"The deadline of {state.action_name}",
        "Resource": resource(f"{state.action_name}Late"),
        "TimeoutSeconds": round(TIMEOUT_S),
    }
    return {name: task | _build_next(name, wait.deadline_states)} | _build_choice(name, wait.deadline_states)


def _build_retry(rule: Retry) -> dict[str, Any]:
    """Return the Retry of a rule, with Step Functions' limits of at least one second."""
    return {
        "ErrorEquals": [error_label(each) for each in rule.classes],
        "IntervalSeconds": max(1, round(rule.retry_delay_s)),
        "BackoffRate": BACKOFF_RATE,
        "MaxAttempts": rule.max_attempts - 1,
        "MaxDelaySeconds": max(2, round(rule.max_retry_delay_s)),
        "JitterStrategy": "FULL",
    }


def _build_next(name: str, ways: tuple[str, ...]) -> dict[str, Any]:
    """Return the Next of a task: its only target, or the Choice after it."""
    return {"Next": ways[0] if len(ways) == 1 else _choice_name(name)}


def _build_choice(name: str, ways: tuple[str, ...]) -> dict[str, Any]:
    """Return a Choice by the `state` of the task's result, and the Fail state for an undeclared one; empty
    for one target.
    """
    if len(ways) == 1:
        return {}
    rules = [{"Variable": "$.state", "StringEquals": target, "Next": target} for target in ways]
    astray = f"{name} led astray"
    failure = {"Type": "Fail", "Error": "StepMistaken", "Cause": f"{name} led where it may not"}
    return {_choice_name(name): {"Type": "Choice", "Choices": rules, "Default": astray}, astray: failure}


def _choice_name(name: str) -> str:
    """Return the name of the Choice after a task."""
    return f"after {name}"


def _deadline_task_name(state: State) -> str:
    """Return the name of the task that runs a wait's `on_deadline`."""
    return f"late in {state.name}"
