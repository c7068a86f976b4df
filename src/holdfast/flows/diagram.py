"""A flow as a state diagram in Mermaid's language, drawn from its declaration."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from holdfast.flows.declaration import State, Step, Wait

if TYPE_CHECKING:
    from holdfast.flows.flow import Flow


def drawn(flow: Flow[Any]) -> str:
    """`stateDiagram-v2`, with each transition under what makes it."""
    lines = ["stateDiagram-v2", f"    [*] --> {_id(flow.begins)}"]
    for state in flow.states.values():
        lines += [f"    {line}" for line in _of(flow, state)]
    return "\n".join(lines) + "\n"


def _of(flow: Flow[Any], state: State) -> Iterator[str]:
    name = _id(state.name)
    shown = "" if state.shown is None or str(state.shown) == state.name else f" (shown as {state.shown})"
    if shown or name != state.name:
        yield f"{name} : {state.name}{shown}"
    if state.is_end:
        yield f"{name} --> [*]"
    elif isinstance(state.does, Step):
        for target in state.to:
            yield f"{name} --> {_id(target)} : {state.does.name}"
    elif isinstance(state.does, Wait):
        yield from _of_wait(name, state.does)
    if flow.cancelling is not None and state.name in flow.cancelling.frm:
        yield f"{name} --> {_id(flow.cancelling.to)} : cancelled"


def _of_wait(name: str, wait: Wait) -> Iterator[str]:
    for answer, following in wait.answers.items():
        for target in following.to:
            yield f"{name} --> {_id(target)} : {answer}"
    for target in wait.late_states:
        yield f"{name} --> {_id(target)} : {deadline_text(wait)}"
    if wait.deadline_s is None:
        yield f"note right of {name} : waits {deadline_text(wait)}"


def deadline_text(wait: Wait) -> str:
    """`after 30 min`, and whether that holds for each."""
    if wait.deadline_s is None:
        return "without a deadline"
    unless = ", unless it was given another" if wait.deadline_given else ""
    return f"after {time_text(wait.deadline_s)}{unless}"


def time_text(seconds: float) -> str:
    """`30 min`, `2 h`, `45 s`: in the largest unit that it is a whole number of."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"


def _id(name: str) -> str:
    """What Mermaid takes for the name of a state: a hyphen or a space it does not."""
    return "".join(letter if letter.isalnum() else "_" for letter in name)
