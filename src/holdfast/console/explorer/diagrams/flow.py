"""A flow as a diagram: its states from top to bottom, and a lane on the right to each state that is not the
next one.

All transitions to one state share its lane, so that a flow with many ways to fail stays readable.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final

from holdfast.console.explorer.diagrams.drawing import (
    Box,
    Drawing,
    Group,
    Line,
    Section,
    Text,
    arrow,
    dot,
    fit,
)
from holdfast.flows import Flow, State, Step, Wait
from holdfast.flows.diagram import format_deadline, format_duration

BOX_HEIGHT: Final = 63
GAP: Final = 22
PAD: Final = 12
LANE: Final = 15
MARGIN: Final = 8
MAX_BOX: Final = 460


@dataclass(frozen=True)
class _Lane:
    """The transitions to one state that come from elsewhere than the state above it."""

    target: int
    sources: tuple[int, ...]

    @property
    def span(self) -> tuple[int, int]:
        places = (self.target, *self.sources)
        return min(places), max(places)


def draw_flow(flow: Flow[Any], width: int) -> Drawing:
    """Return the diagram of a flow at this width."""
    states = _order(flow)
    places = {state.name: place for place, state in enumerate(states)}
    ways = {
        (places[state.name], places[target])
        for state in states
        for target in list_targets(flow, state)
        if target in places
    }
    lanes = _assign_lanes(_list_lanes(ways))
    count = max(lanes.values(), default=-1) + 1
    box_width = min(MAX_BOX, width - count * LANE - 2 * MARGIN)
    boxes = [_draw_state(flow, state, place, box_width) for place, state in enumerate(states)]
    lines = [_draw_next(boxes[start], boxes[end]) for start, end in sorted(ways) if end == start + 1]
    for lane, column in lanes.items():
        lines += _draw_lane(lane, boxes, box_width + MARGIN + column * LANE)
    used = round(box_width + (2 * MARGIN + count * LANE if count else 0))
    return Drawing(
        used, boxes[-1].y + BOX_HEIGHT + 1, f"The flow {flow.name}", _describe(flow), [Group(lines, boxes)]
    )


def list_targets(flow: Flow[Any], state: State) -> list[str]:
    """Return every state that may follow, also by cancellation."""
    cancelled = flow.cancellation
    is_cancellable = cancelled is not None and state.name in cancelled.from_states
    return list(dict.fromkeys((*state.to, *((cancelled.to,) if cancelled and is_cancellable else ()))))


def _order(flow: Flow[Any]) -> list[State]:
    """Return the states in the order in which a flow reaches them, end states last."""
    found, waiting = [flow.initial_state], deque([flow.initial_state])
    while waiting:
        for target in list_targets(flow, flow.states[waiting.popleft()]):
            if target not in found and target in flow.states:
                found.append(target)
                waiting.append(target)
    names = [*found, *(name for name in flow.states if name not in found)]
    return sorted((flow.states[name] for name in names), key=lambda state: state.is_end)


def _list_lanes(ways: set[tuple[int, int]]) -> list[_Lane]:
    """Return a lane for each state that others than the one above lead to."""
    sources: dict[int, list[int]] = {}
    for start, end in sorted(ways):
        if end != start + 1:
            sources.setdefault(end, []).append(start)
    return [_Lane(target, tuple(starts)) for target, starts in sources.items()]


def _assign_lanes(lanes: list[_Lane]) -> dict[_Lane, int]:
    """Return the column of each lane: the first that is free over its whole length, short lanes first."""
    columns: list[list[tuple[int, int]]] = []
    found = {}
    for lane in sorted(lanes, key=lambda each: (each.span[1] - each.span[0], each.span)):
        low, high = lane.span
        free = (place for place, taken in enumerate(columns) if all(high < a or low > b for a, b in taken))
        column = next(free, len(columns))
        if column == len(columns):
            columns.append([])
        columns[column].append((low, high))
        found[lane] = column
    return found


def _draw_state(flow: Flow[Any], state: State, place: int, width: float) -> Box:
    y = place * (BOX_HEIGHT + GAP) + 0.5
    kind = "failure" if state.is_failure else "end" if state.is_end else "wait"
    if isinstance(state.action, Step):
        kind = "step"
    room = width - 2 * PAD
    texts = [
        Text(PAD, y + 19, fit(state.name, room, "name"), "name"),
        Text(PAD, y + 37, fit(_describe_action(state), room, "quiet"), "quiet"),
    ]
    if targets := list_targets(flow, state):
        texts.append(Text(PAD, y + 54, fit(f"leads to {', '.join(targets)}", room, "quiet"), "quiet"))
    return Box(0.5, y, width - 1, BOX_HEIGHT, kind, [Section(y, BOX_HEIGHT, texts)])


def _describe_action(state: State) -> str:
    """Return what a state does."""
    if isinstance(state.action, Step):
        return f"step {state.action.name}, {format_duration(state.action.timeout_s)} at most"
    if isinstance(state.action, Wait):
        answers = ", ".join(state.action.answers)
        return f"waits for {answers or 'a timer'}, {format_deadline(state.action)}"
    return "ends unsuccessfully" if state.is_failure else "ends"


def _draw_next(upper: Box, lower: Box) -> Line:
    """Return the arrow to the state below."""
    x = upper.x + 24
    return Line(f"M{x:g} {upper.y + BOX_HEIGHT:g} V{lower.y - 2:g}", "next", arrow(x, lower.y - 1, "down"))


def _draw_lane(lane: _Lane, boxes: list[Box], x: float) -> list[Line]:
    """Return the lines of a lane: from each source to the lane, along it, and an arrow into its target."""
    target = boxes[lane.target]
    end = target.y + BOX_HEIGHT / 2 - 7
    right = target.x + target.width
    starts = [boxes[place].y + BOX_HEIGHT / 2 + 7 for place in lane.sources]
    low, high = min((end, *starts)), max((end, *starts))
    lines = [
        Line(f"M{x:g} {low:g} V{high:g} M{x:g} {end:g} H{right + 2:g}", "lane", arrow(right + 1, end, "left"))
    ]
    return [*lines, *(Line(f"M{right:g} {start:g} H{x:g}", "lane", dot(x, start)) for start in starts)]


def _describe(flow: Flow[Any]) -> str:
    """Return the flow in words."""
    texts = [f"It begins in {flow.initial_state}."]
    for state in flow.states.values():
        targets = list_targets(flow, state)
        leads = f" leads to {', '.join(targets)}" if targets else " is an end"
        texts.append(f"{state.name}{leads}.")
    return " ".join(texts)
