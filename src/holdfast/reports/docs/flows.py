"""Render the flows of a system: a diagram and a table of the states of each flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from holdfast.core.errors import error_label
from holdfast.flows import Flow, Retry, State, Step, Wait
from holdfast.flows.diagram import format_deadline, format_duration
from holdfast.model.system import System
from holdfast.reports.docs.markdown import Row, fence_diagram, format_table

COLUMNS: Final = ("state", "shown as", "action", "leads to", "time", "on failure")


def render_flows(system: System) -> Iterator[str]:
    """Yield the Markdown sections of all flows."""
    if system.flows:
        yield "## Flows"
    for flow in system.flows:
        yield f"### The flow {flow.name}"
        yield (
            f"Moves each {flow.entity.__name__} from `{flow.initial_state}` to an end state. "
            f"Its steps arrive on the queue {flow.step_queue.name}."
        )
        yield fence_diagram(flow.draw_diagram())
        yield format_table(COLUMNS, (build_state_row(flow, state) for state in flow.states.values()))


def build_state_row(flow: Flow[Any], state: State) -> Row:
    """Return the table row of a state, with the cells of `COLUMNS`."""
    shown = "" if state.shown_as is None else f"`{getattr(state.shown_as, 'value', state.shown_as)}`"
    return (
        f"`{state.name}`",
        shown,
        _format_action(state),
        _format_targets(flow, state),
        _format_time(state),
        _format_failure(state),
    )


def _format_action(state: State) -> str:
    """Describe what a state does: run a step, wait for answers or a timer, or end."""
    if isinstance(state.action, Step):
        return f"the step `{state.action.name}`"
    if isinstance(state.action, Wait):
        name = f"`{state.action.name}`: " if state.action.name else ""
        return (
            f"{name}waits for {_format_codes(state.action.answers)}"
            if state.action.answers
            else f"{name}a timer"
        )
    return "end state (failure)" if state.is_failure else "end state"


def _format_targets(flow: Flow[Any], state: State) -> str:
    """Describe where a state leads: by its step, by each answer, at the deadline, by cancelling."""
    ways: list[str] = []
    if isinstance(state.action, Step):
        ways.append(_format_codes(state.to))
    elif isinstance(state.action, Wait):
        ways += [
            f"by `{name}` to {_format_codes(answer.to)}" for name, answer in state.action.answers.items()
        ]
        if late := state.action.deadline_states:
            ways.append(f"at the deadline to {_format_codes(late)}")
    if flow.cancellation is not None and state.name in flow.cancellation.from_states:
        ways.append(f"cancelled to `{flow.cancellation.to}`")
    return "; ".join(ways)


def _format_time(state: State) -> str:
    """Return the timeout of a step or the deadline of a wait; empty for an end state."""
    if isinstance(state.action, Step):
        return f"{format_duration(state.action.timeout_s)} at most"
    return format_deadline(state.action) if isinstance(state.action, Wait) else ""


def _format_failure(state: State) -> str:
    """Describe the retries of a step and what follows them; empty for a state without a step."""
    if not isinstance(state.action, Step):
        return ""
    last = "parked" if state.action.on_failure is None else "to one of its states"
    rules = [_format_retry(rule) for rule in state.action.retries]
    return "; ".join([*rules, f"otherwise {last}" if rules else last])


def _format_retry(rule: Retry) -> str:
    errors = _format_codes(error_label(each) for each in rule.classes)
    if rule.max_attempts == 1:
        return f"{errors}: one attempt"
    return (
        f"{errors}: {rule.max_attempts:,} attempts, {format_duration(rule.retry_delay_s)} to "
        f"{format_duration(rule.max_retry_delay_s)} apart"
    )


def _format_codes(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
