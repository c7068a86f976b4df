"""`draw`: a flow as a Mermaid state diagram."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.flows.declaration import State, Step, Wait

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow


def draw(flow: Flow[Any]) -> str:
    """Return a `stateDiagram-v2` with every transition and its trigger."""
    lines = ["stateDiagram-v2", f"    [*] --> {_to_mermaid_id(flow.initial_state)}"]
    for state in flow.states.values():
        lines += [f"    {line}" for line in _draw_state(flow, state)]
    return "\n".join(lines) + "\n"


def _draw_state(flow: Flow[Any], state: State) -> Iterator[str]:
    """Yield the lines of a state: its label, and an arrow per transition."""
    name = _to_mermaid_id(state.name)
    shown = (
        "" if state.shown_as is None or str(state.shown_as) == state.name else f" (shown as {state.shown_as})"
    )
    if shown or name != state.name:
        yield f"{name} : {state.name}{shown}"
    if state.is_end:
        yield f"{name} --> [*]"
    elif isinstance(state.action, Step):
        for target in state.to:
            yield f"{name} --> {_to_mermaid_id(target)} : {state.action.name}"
    elif isinstance(state.action, Wait):
        yield from _draw_wait(name, state.action)
    if flow.cancellation is not None and state.name in flow.cancellation.from_states:
        yield f"{name} --> {_to_mermaid_id(flow.cancellation.to)} : cancelled"


def _draw_wait(name: str, wait: Wait) -> Iterator[str]:
    """Yield an arrow per answer and deadline of a wait; `name` is its state as a Mermaid id."""
    for answer, following in wait.answers.items():
        for target in following.to:
            yield f"{name} --> {_to_mermaid_id(target)} : {answer}"
    for target in wait.deadline_states:
        yield f"{name} --> {_to_mermaid_id(target)} : {format_deadline(wait)}"
    if wait.deadline_s is None:
        yield f"note right of {name} : waits {format_deadline(wait)}"


def format_deadline(wait: Wait) -> str:
    """Return the deadline as `after 30 min`, with a note if steps may set another."""
    if wait.deadline_s is None:
        return "without a deadline"
    unless = ", unless the step set another" if wait.deadline_from_next else ""
    return f"after {format_duration(wait.deadline_s)}{unless}"


def format_duration(seconds: float) -> str:
    """Return `30 min`, `2 h`, `45 s`: in the largest unit that divides it."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def _to_mermaid_id(name: str) -> str:
    """Return a state name that Mermaid accepts: without hyphens and spaces."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)
