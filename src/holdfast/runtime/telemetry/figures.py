"""Figures: numbers that a source reads from a store when the metrics are requested, such as a backlog.

An outbox, a flow and delayed actions can report on their state. The process that runs a component which may
run the patterns for that reports, and reads as that component. Each source has a time limit, and its figures
are kept for some seconds, so that neither a store that hangs nor a storm of requests does harm. What cannot
be read is left out: an old number would look current.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from holdfast.core.concurrency import SharedCall
from holdfast.core.errors import AccessRefused, HoldfastError, format_message
from holdfast.runtime.system_provisioner import ACCESS_DENIED_CODES, QueueReport, get_queue_reports

if TYPE_CHECKING:
    from holdfast.model.components import Component
    from holdfast.model.patterns import Pattern
    from holdfast.model.queues import Queue
    from holdfast.model.system import System
    from holdfast.runtime.stores import Stores

QUEUE_MESSAGES: Final = "holdfast_queue_messages"
QUEUE_OLDEST_AGE: Final = "holdfast_queue_oldest_message_age_seconds"
OUTBOX_MESSAGES: Final = "holdfast_outbox_messages"
OUTBOX_OLDEST_AGE: Final = "holdfast_outbox_oldest_message_age_seconds"
DELAYED_ACTIONS: Final = "holdfast_delayed_actions"
DELAYED_ACTIONS_OVERDUE: Final = "holdfast_delayed_actions_overdue_seconds"
FLOW_EXECUTIONS: Final = "holdfast_flow_executions"
FLOW_OVERDUE: Final = "holdfast_flow_executions_overdue"
FLOW_MOST_OVERDUE: Final = "holdfast_flow_overdue_seconds"
SOURCE_UP: Final = "holdfast_figures_up"

FIGURES: Final[Mapping[str, str]] = {
    QUEUE_MESSAGES: "Messages of a queue: visible, in flight, delayed, or in its dead-letter queue",
    QUEUE_OLDEST_AGE: "Age of the oldest waiting message of a queue; 0 if there is none",
    OUTBOX_MESSAGES: "Messages of an outbox that are not sent: pending, or dead",
    OUTBOX_OLDEST_AGE: "Age of the oldest unsent message of an outbox; 0 if there is none",
    DELAYED_ACTIONS: "Delayed actions: waiting, or due",
    DELAYED_ACTIONS_OVERDUE: "How long the first due action waits to be executed; 0 if none is due",
    FLOW_EXECUTIONS: "Executions of a flow that have not ended, by state: running, or parked",
    FLOW_OVERDUE: "Running executions whose wait, pause or deadline is over",
    FLOW_MOST_OVERDUE: "How long the first of them is overdue; 0 if none is",
    SOURCE_UP: "1 if the figures of a source could be read for this answer, else 0",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. Its labels are declared names, never ids or data."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class FigureSource(Protocol):
    """A declaration that can report on its state."""

    @property
    def figures_name(self) -> str:
        """The source in the metrics, such as `outbox orders`."""
        ...

    @property
    def figure_patterns(self) -> Sequence[Pattern[..., Any]]:
        """The patterns that `read_figures` runs."""
        ...

    async def read_figures(self, stores: Stores) -> Iterable[Figure]:
        """Read the figures."""
        ...


Read: TypeAlias = Callable[[], Awaitable[Iterable[Figure]]]

log = logging.getLogger(__name__)


def list_component_sources(stores: Stores, components: Sequence[Component]) -> dict[str, Read]:
    """Return how to read each source of the system that one of these components may read, as this
    component.
    """
    found: dict[str, Read] = {}
    for source in _list_sources(stores.system):
        wanted = set(source.figure_patterns)
        for component in components:
            if wanted <= set(component.patterns):
                found[source.figures_name] = partial(
                    source.read_figures, stores.for_component(component.name)
                )
                break
    return found


def list_queue_sources(stores: Stores) -> dict[str, Read]:
    """Return how to read the messages of each queue of the system, and of its dead-letter queue."""

    def build_read(queue: Queue[Any]) -> Read:
        async def read() -> list[Figure]:
            reports = await get_queue_reports(stores, [queue])
            return [figure for each in reports for figure in _describe_queue(each)]

        return read

    queues = () if stores.system is None else stores.system.queues
    return {f"queue {each.name}": build_read(each) for each in queues}


def _describe_queue(report: QueueReport) -> list[Figure]:
    """Return the figures of a queue; dead letters only if it has a dead-letter queue."""
    waiting = report.waiting
    counts: dict[str, float] = {
        "visible": waiting.visible,
        "in_flight": waiting.in_flight,
        "delayed": waiting.delayed,
        **({} if report.dead is None else {"dead": report.dead}),
    }
    figures = count_states(QUEUE_MESSAGES, counts, queue=report.physical)
    # SQS does not say how old the oldest message is.
    if waiting.oldest_age_s is not None or not waiting.visible:
        figures.append(Figure(QUEUE_OLDEST_AGE, waiting.oldest_age_s or 0.0, {"queue": report.physical}))
    return figures


def _list_sources(system: System | None) -> list[FigureSource]:
    """Return the outboxes, the flows and the delayed actions of a system, each once."""
    if system is None:
        return []
    parts = [part for component in system.components for part in component.parts]
    named = [source for part in parts for source in getattr(part, "figure_sources", ())]
    return list(dict.fromkeys([*system.outboxes, *system.flows, *named]))


class FigureReader:
    """Reads all sources at the same time, each within the time limit and at most every `max_age_s`."""

    def __init__(self, sources: Mapping[str, Read], *, timeout_s: float, max_age_s: float) -> None:
        self._timeout_s, self._max_age_s = timeout_s, max_age_s
        self._calls: dict[str, SharedCall[Iterable[Figure]]] = {}
        self._failures: dict[str, str] = {}
        self.add_sources(sources)

    def add_sources(self, sources: Mapping[str, Read]) -> None:
        """Read these sources too, from now on."""
        for name, read in sources.items():
            self._calls[name] = SharedCall(read, timeout_s=self._timeout_s, max_age_s=self._max_age_s)

    async def read(self, *, skipped: Collection[str] = ()) -> list[Figure]:
        """Return the figures of every source that answers in time, except skipped ones, and which sources
        do.
        """
        names = [name for name in self._calls if name not in skipped]
        every = await asyncio.gather(*(self._read_source(name) for name in names))
        return [figure for figures in every for figure in figures]

    async def _read_source(self, name: str) -> list[Figure]:
        """Return the figures of a source; only its state if it failed, nothing if it may not be read."""
        failure = ""
        figures: list[Figure] = []
        is_denied = False
        try:
            figures = list(await self._calls[name].get())
        except TimeoutError:
            failure = f"no answer within {self._timeout_s:g} s"
        except AccessRefused as refused:
            failure, is_denied = format_message(refused), refused.code in ACCESS_DENIED_CODES
        except HoldfastError as error:
            failure = format_message(error)
        self._log_change(name, failure)
        if is_denied:
            return []
        return [*figures, Figure(SOURCE_UP, float(not failure), {"source": name})]

    def _log_change(self, name: str, failure: str) -> None:
        """Log that a source failed, or can be read again, once per change."""
        if failure != self._failures.get(name, ""):
            self._failures[name] = failure
            if failure:
                log.warning("The figures of %s are left out of the metrics: %s", name, failure)
            else:
                log.info("The figures of %s are in the metrics again.", name)


def group_by_name(figures: Iterable[Figure]) -> dict[str, list[Figure]]:
    """Return the figures by their names."""
    grouped: dict[str, list[Figure]] = {}
    for each in figures:
        grouped.setdefault(each.name, []).append(each)
    return grouped


def count_states(name: str, counts: Mapping[str, float], **labels: Any) -> list[Figure]:
    """Return a figure for each state, under the label `state`."""
    return [Figure(name, value, {**labels, "state": state}) for state, value in counts.items()]
