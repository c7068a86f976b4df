"""The work of a system at a glance: what waits, what runs, what died, for the page /work and its live topic.

Each kind of work has a row type. Rows compare without ages, so that a tuple of rows is the fingerprint of the
page: it changes when a count or a state does, and not because time passes. Reads are bounded: `is_partial`
says that there is more than was counted.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, TypeAlias, TypeVar, cast

from holdfast.config.settings import Settings
from holdfast.console.system_pages import OpenQuestions
from holdfast.console.work.circuits import CircuitView, read_circuits
from holdfast.console.work.declared import build_url, list_actions, list_breakers, list_leases
from holdfast.console.work.executions import read_executions
from holdfast.console.work.lease_views import LeaseView, read_leases
from holdfast.console.work.messages import get_queues
from holdfast.core.errors import HoldfastError, NotFound
from holdfast.flows import Flow
from holdfast.guarantees import DelayedActions, OnceStatus, OutboxStatus
from holdfast.guarantees.delayed_actions.inspection import list_queued
from holdfast.guarantees.messaging.declaration import BaseOutbox
from holdfast.model.queues import Queue
from holdfast.operations.queues import Browse
from holdfast.reports.work.outboxes import may_have_messages
from holdfast.reports.work.queue_states import read_queue_state
from holdfast.runtime.stores import Stores

__all__ = [
    "ActionsRow",
    "FlowRow",
    "OutboxRow",
    "Problem",
    "QuestionsRow",
    "QueueRow",
    "WorkSummary",
    "list_problems",
    "read_summary",
]

MAX_GROUP_MESSAGES: Final = 200
MAX_ACTIONS: Final = 200
# The kinds of problems, the gravest first.
KINDS: Final = ("bad", "warn", "info")

R = TypeVar("R")


@dataclass(frozen=True)
class QueueRow:
    """A queue with its dead letters. `groups` is None for a standard queue, or if the engine cannot peek."""

    system: str
    name: str
    url: str
    is_fifo: bool
    exists: bool
    visible: int = 0
    in_flight: int = 0
    delayed: int = 0
    dead: int = 0
    groups: int | None = None
    has_more_groups: bool = False
    oldest_age_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class OutboxRow:
    """The unsent messages of an outbox."""

    system: str
    name: str
    url: str
    pending: int
    dead: int
    oldest_age_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class ActionsRow:
    """Delayed actions that wait, are due, run or failed. `late_s` is how long the first has been due."""

    system: str
    name: str
    url: str
    held: int
    due: int
    running: int
    failed: int
    next_due: datetime | None = None
    is_partial: bool = False
    late_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class FlowRow:
    """The executions of a flow: how many in each state, and what those that wait are waiting for."""

    system: str
    name: str
    url: str
    states: tuple[tuple[str, int], ...]
    waits: tuple[tuple[str, int], ...]
    running: int
    parked: int
    retrying: int
    is_partial: bool = False
    oldest_age_s: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class QuestionsRow:
    """The questions that the pages of a system ask people, and the page that lists them."""

    system: str
    url: str
    count: int


@dataclass(frozen=True)
class Problem:
    """Something that needs a person, in a sentence, with the page that shows it."""

    system: str
    text: str
    url: str
    kind: str = "bad"


@dataclass(frozen=True)
class WorkSummary:
    """All work of one system. `failures` are the parts that were not read, and why."""

    system: str
    title: str
    queues: tuple[QueueRow, ...] = ()
    outboxes: tuple[OutboxRow, ...] = ()
    actions: tuple[ActionsRow, ...] = ()
    flows: tuple[FlowRow, ...] = ()
    circuits: tuple[CircuitView, ...] = ()
    leases: tuple[LeaseView, ...] = ()
    questions: tuple[QuestionsRow, ...] = ()
    failures: tuple[Problem, ...] = ()


Read: TypeAlias = Callable[[], Awaitable[Sequence[Any]]]


async def read_summary(
    stores: Stores, settings: Settings, questions: OpenQuestions | None = None
) -> WorkSummary:
    """Read the work of the stores' system. What cannot be read becomes a failure, and the rest is shown."""
    system = stores.system
    assert system is not None
    reads: list[tuple[str, str, Read]] = [
        *(("queues", each.name, _bind(_read_queue, stores, each)) for each in system.queues),
        *(
            ("outboxes", each.name, _bind(_read_outbox, stores, each))
            for each in system.outboxes
            if may_have_messages(each, settings)
        ),
        *(("actions", each.name, _bind(_read_actions, stores, each)) for each in list_actions(system)),
        *(("flows", each.name, _bind(_read_flow, stores, each)) for each in system.flows),
        *(("circuits", each.name, _bind(read_circuits, stores, each)) for each in list_breakers(system)),
        *(("leases", each.name, _bind(read_leases, stores, each)) for each in list_leases(system)),
    ]
    if questions is not None:
        reads.append(("questions", "questions", _bind(_read_questions, stores, questions)))
    found: dict[str, list[Any]] = {}
    results = await asyncio.gather(*(_read(system.name, *each) for each in reads))
    for kind, rows in results:
        found.setdefault(kind, []).extend(rows)
    by_kind = {kind: tuple(rows) for kind, rows in found.items()}
    return WorkSummary(system.name, system.title or system.name, **cast(Any, by_kind))


def list_problems(summaries: Sequence[WorkSummary]) -> list[Problem]:
    """Return what needs a person, the gravest kind first."""
    found = [each for summary in summaries for each in _list_problems(summary)]
    return sorted(found, key=lambda each: KINDS.index(each.kind))


# --- each kind of work --------------------------------------------------------------------------------------


async def _read_queue(stores: Stores, queue: Queue[Any]) -> list[QueueRow]:
    system = _name(stores)
    url = build_url("queues", system, queue.name)
    state = await read_queue_state(stores, queue, dead=False)
    if not state.exists:
        return [QueueRow(system, queue.name, url, queue.fifo, exists=False)]
    dead = None if queue.max_receives is None else await read_queue_state(stores, queue, dead=True)
    groups, has_more = (
        await _count_groups(stores, queue, state.physical_name) if queue.fifo else (None, False)
    )
    return [
        QueueRow(
            system,
            queue.name,
            url,
            queue.fifo,
            True,
            state.visible or 0,
            state.in_flight or 0,
            state.delayed or 0,
            0 if dead is None else dead.backlog,
            groups,
            has_more,
            state.oldest_age_s,
        )
    ]


async def _count_groups(stores: Stores, queue: Queue[Any], physical: str) -> tuple[int | None, bool]:
    """Return the number of groups among the oldest messages, and whether there are more messages."""
    engine = get_queues(stores)
    if not engine.can_peek:
        return None, False
    messages = await engine.run(Browse(physical, MAX_GROUP_MESSAGES))
    return len({each.group for each in messages}), len(messages) == MAX_GROUP_MESSAGES


async def _read_outbox(stores: Stores, outbox: BaseOutbox) -> list[OutboxRow]:
    unsent = await outbox.list_unsent(stores)
    dead = sum(each.status is OutboxStatus.DEAD for each in unsent)
    oldest = min((each.created_at.timestamp() for each in unsent), default=None)
    age = None if oldest is None else max(0.0, stores.clock.now() - oldest)
    url = build_url("outbox", _name(stores), outbox.name)
    return [OutboxRow(_name(stores), outbox.name, url, len(unsent) - dead, dead, age)]


async def _read_actions(stores: Stores, actions: DelayedActions[Any]) -> list[ActionsRow]:
    page = await list_queued(actions, stores, limit=MAX_ACTIONS)
    now = stores.now()
    held = [each for each in page if each.status is OnceStatus.HELD]
    due = [each for each in held if each.held_until is not None and each.held_until <= now]
    ahead = [each.held_until for each in held if each.held_until is not None and each.held_until > now]
    late = max(((now - each.held_until).total_seconds() for each in due), default=None)
    counts = Counter(each.status for each in page)
    return [
        ActionsRow(
            _name(stores),
            actions.name,
            build_url("actions", _name(stores), actions.name),
            len(held) - len(due),
            len(due),
            counts[OnceStatus.PROCESSING],
            counts[OnceStatus.FAILED],
            min(ahead, default=None),
            page.cursor is not None,
            late,
        )
    ]


async def _read_flow(stores: Stores, flow: Flow[Any]) -> list[FlowRow]:
    found = await read_executions(stores, flow)
    active = [each for each in found.executions if not each.is_parked]
    waits = Counter(each.step or each.state for each in active if found.is_wait(each))
    oldest = min((each.since.timestamp() for each in found.executions), default=None)
    return [
        FlowRow(
            _name(stores),
            flow.name,
            build_url("flows", _name(stores), flow.name),
            _sort(Counter(each.state for each in active), list(flow.states)),
            tuple(sorted(waits.items())),
            len(active),
            len(found.executions) - len(active),
            sum(each.error is not None for each in active),
            found.is_partial,
            None if oldest is None else max(0.0, stores.clock.now() - oldest),
        )
    ]


async def _read_questions(stores: Stores, questions: OpenQuestions) -> list[QuestionsRow]:
    system = _name(stores)
    return [QuestionsRow(system, f"/apps/{system}{questions.path}", await questions.count())]


def _sort(counts: Counter[str], order: list[str]) -> tuple[tuple[str, int], ...]:
    """Return the counts in the order of the declared states, and those of unknown states last."""
    place = {name: number for number, name in enumerate(order)}
    return tuple(sorted(counts.items(), key=lambda each: (place.get(each[0], len(place)), each[0])))


# --- failures and problems ----------------------------------------------------------------------------------


async def _read(system: str, kind: str, name: str, read: Read) -> tuple[str, Sequence[Any]]:
    """Return the kind and its rows; a part whose table does not exist yet has none."""
    try:
        return kind, await read()
    except NotFound:
        return kind, ()
    except HoldfastError as error:
        text = f"{name} ({kind}) cannot be read: {error.message}"
        return "failures", (Problem(system, text, f"/work?system={system}"),)


def _list_problems(summary: WorkSummary) -> list[Problem]:
    name, found = summary.system, list(summary.failures)
    for queue in summary.queues:
        if queue.dead:
            text = f"{_count(queue.dead, 'dead letter')} in the queue {queue.name}"
            found.append(Problem(name, text, f"{queue.url}/dead"))
    for outbox in summary.outboxes:
        if outbox.dead:
            text = f"{_count(outbox.dead, 'message')} of the outbox {outbox.name} given up"
            found.append(Problem(name, text, outbox.url))
    for flow in summary.flows:
        if flow.parked:
            text = f"{_count(flow.parked, 'execution')} of the flow {flow.name} parked"
            found.append(Problem(name, text, f"{flow.url}?state=parked"))
    for actions in summary.actions:
        if actions.failed:
            text = f"{_count(actions.failed, actions.name)} failed, to be tried again"
            found.append(Problem(name, text, f"{actions.url}?state=failed", "warn"))
    for questions in summary.questions:
        if questions.count:
            text = f"{_count(questions.count, 'question')} to decide"
            found.append(Problem(name, text, questions.url, "info"))
    for circuit in summary.circuits:
        if circuit.state != "closed":
            found.append(Problem(name, f"The circuit of {circuit.service} is {circuit.state}", circuit.url))
    return found


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}" + ("" if number == 1 else "s")


def _name(stores: Stores) -> str:
    assert stores.system is not None
    return stores.system.name


def _bind(read: Callable[[Stores, R], Awaitable[Sequence[Any]]], stores: Stores, part: R) -> Read:
    """Return a function that reads this part."""
    return lambda: read(stores, part)
