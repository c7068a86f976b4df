"""Flows in a system's documentation: each as a diagram, and its states with what leaves them, when, and what if that fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from holdfast.errors import error_label
from holdfast.flows import Flow, Retry, State, Step, Wait
from holdfast.flows.diagram import deadline_text, time_text
from holdfast.model.system import System
from holdfast.reports.markdown import Row, fenced, markdown_table

COLUMNS: Final = ("state", "shown as", "does", "leads to", "time", "when it fails")


def flow_sections(system: System) -> Iterator[str]:
    if system.flows:
        yield "## Flows"
    for flow in system.flows:
        yield f"### The flow {flow.name}"
        yield f"Drives each {flow.entity.__name__} from `{flow.begins}` to an end. Its steps come by the queue {flow.steps.name}."
        yield fenced(flow.diagram())
        yield markdown_table(COLUMNS, (_row(flow, state) for state in flow.states.values()))


def _row(flow: Flow[Any], state: State) -> Row:
    shown = "" if state.shown is None else f"`{getattr(state.shown, 'value', state.shown)}`"
    return (f"`{state.name}`", shown, _does(state), _leads(flow, state), _time(state), _fails(state))


def _does(state: State) -> str:
    if isinstance(state.does, Step):
        return f"the step `{state.does.name}`"
    if isinstance(state.does, Wait):
        name = f"`{state.does.name}`: " if state.does.name else ""
        return f"{name}waits for {_coded(state.does.answers)}" if state.does.answers else f"{name}a timer"
    return "an end, and a failure" if state.failure else "an end"


def _leads(flow: Flow[Any], state: State) -> str:
    ways: list[str] = []
    if isinstance(state.does, Step):
        ways.append(_coded(state.to))
    elif isinstance(state.does, Wait):
        ways += [f"by `{name}` to {_coded(answer.to)}" for name, answer in state.does.answers.items()]
        if late := state.does.late_states:
            ways.append(f"at the deadline to {_coded(late)}")
    if flow.cancelling is not None and state.name in flow.cancelling.frm:
        ways.append(f"cancelled to `{flow.cancelling.to}`")
    return "; ".join(ways)


def _time(state: State) -> str:
    if isinstance(state.does, Step):
        return f"{time_text(state.does.limit_s)} at most"
    return deadline_text(state.does) if isinstance(state.does, Wait) else ""


def _fails(state: State) -> str:
    if not isinstance(state.does, Step):
        return ""
    last = "parked" if state.does.otherwise is None else "to one of its states"
    rules = [_retry(rule) for rule in state.does.retries]
    return "; ".join([*rules, f"otherwise {last}" if rules else last])


def _retry(rule: Retry) -> str:
    errors = _coded(error_label(each) for each in rule.classes)
    if rule.tries == 1:
        return f"{errors}: one try"
    return f"{errors}: {rule.tries:,} tries, {time_text(rule.pause_s)} to {time_text(rule.pause_s_max)} apart"


def _coded(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
