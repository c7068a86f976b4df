"""The executions of a flow, and the timeline of one item: past states, the current one, what it waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final

from holdfast.core.errors import ItemUnreadable
from holdfast.flows import Execution, Flow, FlowItem, Step, Wait, parse_history
from holdfast.flows.history import MAX_VISITS
from holdfast.runtime.stores import Stores

__all__ = [
    "MAX_EXECUTIONS",
    "Entry",
    "FoundExecutions",
    "Timeline",
    "Waiting",
    "build_timeline",
    "describe_wait",
    "read_executions",
    "read_item",
]

MAX_EXECUTIONS: Final = 2_000


@dataclass(frozen=True)
class FoundExecutions:
    """Executions of a flow, the longest in its state first. `is_partial` says that there are more."""

    flow: Flow[Any]
    executions: Sequence[Execution]
    is_partial: bool

    def is_wait(self, execution: Execution) -> bool:
        """Return whether the execution is in a wait, for a person or a time."""
        state = self.flow.find_state(execution.state)
        return state is not None and isinstance(state.action, Wait)


@dataclass(frozen=True)
class Waiting:
    """What an item waits for: the name of the wait, the answers that it accepts, and who is asked."""

    name: str
    answers: tuple[str, ...] = ()
    answered_by: str = ""
    deadline: datetime | None = None
    then: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """One state on a timeline. `until` is None for the state that the item is in."""

    state: str
    does: str
    kind: str
    since: datetime | None
    until: datetime | None
    duration_s: float | None
    failures: int = 0
    error: str | None = None


@dataclass(frozen=True)
class Timeline:
    """The states of an item, oldest first. `lacks_beginning` says that earlier ones are not known."""

    entries: tuple[Entry, ...]
    lacks_beginning: bool


async def read_executions(stores: Stores, flow: Flow[Any], limit: int = MAX_EXECUTIONS) -> FoundExecutions:
    """Read at most about `limit` executions that have not ended."""
    each_shard = max(1, limit // flow.shards)
    found: list[Execution] = []
    is_partial = False
    for shard in range(flow.shards):
        read: list[Execution] = []
        async for each in stores.each(flow.pattern_set.executions(shard).page(min(each_shard + 1, 1000))):
            read.append(each)
            if len(read) > each_shard:
                break
        found += islice(read, each_shard)
        is_partial = is_partial or len(read) > each_shard
    found.sort(key=lambda each: (each.since, each.key))
    return FoundExecutions(flow, found, is_partial)


async def read_item(stores: Stores, flow: Flow[Any], key: str) -> FlowItem | None:
    """Return the item of a key; None if it is gone or unreadable, which its execution says."""
    try:
        item: FlowItem | None = await stores.run(flow.pattern_set.item(key))
    except ItemUnreadable:
        return None
    return item


def describe_wait(flow: Flow[Any], item: FlowItem | None, state_name: str) -> Waiting | None:
    """Return what the item waits for; None if its state is not a wait, or unknown."""
    state = flow.find_state(state_name)
    if state is None or not isinstance(state.action, Wait):
        return None
    wait = state.action
    return Waiting(
        state.action_name or state.name,
        tuple(wait.answers),
        "" if item is None else wait.describe_answerer(item),
        None if item is None else item.flow_due,
        wait.deadline_states,
    )


def build_timeline(flow: Flow[Any], item: FlowItem, execution: Execution | None, now: datetime) -> Timeline:
    """Return the states that the item went through, and the one that it is in."""
    visits = parse_history(item.flow_history)
    entries = [
        Entry(
            each.state,
            _describe_action(flow, each.state),
            "warn" if each.failures else "good",
            each.since,
            each.until,
            each.duration_s,
            each.failures,
            each.error,
        )
        for each in visits
    ]
    is_complete = bool(visits) and len(visits) < MAX_VISITS and visits[0].state == flow.initial_state
    is_first = not visits and item.flow_state == flow.initial_state
    current = _build_current(flow, item, execution, now)
    return Timeline((*entries, current), not (is_complete or is_first))


def _build_current(flow: Flow[Any], item: FlowItem, execution: Execution | None, now: datetime) -> Entry:
    """Return the entry of the state that the item is in; an end state has no duration."""
    state = flow.find_state(item.flow_state)
    has_ended = state is not None and state.is_end
    lasts = None if has_ended or item.flow_since is None else (now - item.flow_since).total_seconds()
    if execution is not None and execution.is_parked:
        kind = "bad"
    elif has_ended and state is not None:
        kind = "bad" if state.is_failure else "good"
    else:
        kind = "warn" if execution is not None and execution.error else "waiting"
    return Entry(
        item.flow_state,
        _describe_action(flow, item.flow_state),
        kind,
        item.flow_since,
        None,
        lasts,
        0 if execution is None else execution.attempts,
        None if execution is None else execution.parked or execution.error,
    )


def _describe_action(flow: Flow[Any], state_name: str) -> str:
    """Return what happens in a state: the step, the wait, or its end."""
    state = flow.find_state(state_name)
    if state is None:
        return "a state that this code does not know"
    if state.is_end:
        return "the end, unsuccessful" if state.is_failure else "the end"
    return f"{'step' if isinstance(state.action, Step) else 'wait'} {state.action_name}"
