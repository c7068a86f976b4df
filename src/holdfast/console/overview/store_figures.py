"""Figures of the work in the stores, from the metrics of processes and from the stores themselves.

A process reports on what its components work on. What no process reports, because none runs or none is a
target, the console reads from the stores.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from holdfast.config.settings import MEMORY_CACHE, Settings
from holdfast.console.overview.samples import SQL_IDLE, ActionState, FlowState, OutboxState, QueueState
from holdfast.console.work.circuits import read_circuits
from holdfast.console.work.declared import list_breakers
from holdfast.core.errors import HoldfastError
from holdfast.core.readiness import Readiness
from holdfast.flows import Flow, Wait
from holdfast.model.system import System
from holdfast.reports.used_stores import find_used_stores
from holdfast.runtime.store_probes import build_store_probes
from holdfast.runtime.stores import Stores
from holdfast.runtime.telemetry.figures import (
    DELAYED_ACTIONS,
    DELAYED_ACTIONS_OVERDUE,
    FLOW_EXECUTIONS,
    FLOW_OVERDUE,
    OUTBOX_MESSAGES,
    OUTBOX_OLDEST_AGE,
    QUEUE_MESSAGES,
    QUEUE_OLDEST_AGE,
    SOURCE_UP,
    Figure,
    FigureReader,
    list_component_sources,
    list_queue_sources,
)

FigureKey = tuple[str, tuple[tuple[str, str], ...]]


class StoreFigures:
    """Reads the figures of one system from its stores, each source within the time limit."""

    def __init__(self, stores: Stores, settings: Settings) -> None:
        assert stores.system is not None
        self._stores, self._system, self._settings = stores, stores.system, settings
        limits: Any = {"timeout_s": settings.health_timeout_s}
        sources = {**list_queue_sources(stores), **list_component_sources(stores, self._system.components)}
        self._reader = FigureReader(sources, **limits, max_age_s=0.0)
        used = find_used_stores(self._system, [None])
        probes = build_store_probes(stores, used)
        if settings.cache == MEMORY_CACHE:
            probes.pop("cache", None)  # each process has its own
        self._has_sql = used.has_sql
        self._sql_sources = {each.figures_name for each in self._system.outboxes if _is_in_sql(each)}
        self._sql_probe = Readiness({"sql": probes.pop("sql")} if used.has_sql else {}, **limits)
        self._readiness = Readiness(probes, **limits)

    async def read(self, known: Iterable[str]) -> list[Figure]:
        """Return the figures of the sources that are not known already."""
        skipped = {*known, *(() if self._can_use_sql() else self._sql_sources)}
        return await self._reader.read(skipped=skipped)

    async def check_stores(self) -> dict[str, str]:
        """Return the reason of each store that is not ready, empty for those that are."""
        states = await self._readiness.check()
        if self._can_use_sql():
            states += await self._sql_probe.check()
        found = {each.store: each.reason for each in states}
        return found | {"sql": SQL_IDLE} if self._has_sql and not self._can_use_sql() else found

    async def list_open_breakers(self) -> list[str]:
        """Return the external services that are not called, of circuits with a table of their own."""
        found: set[str] = set()
        for breaker in list_breakers(self._system):
            try:
                async with asyncio.timeout(self._settings.health_timeout_s):
                    circuits = await read_circuits(self._stores, breaker)
            except (HoldfastError, TimeoutError):
                continue  # the table's store is shown as not ready
            found |= {each.service for each in circuits if each.state != "closed"}
        return sorted(found)

    def _can_use_sql(self) -> bool:
        """Return False if reading would start an embedded PostgreSQL that no process uses."""
        folder = self._settings.sql_directory if self._settings.has_embedded_sql else None
        if not self._has_sql or folder is None:
            return self._has_sql
        from holdfast.stores.sql.postgres.embedded import find_running_server

        return find_running_server(folder) is not None


def merge_figures(several: Iterable[Iterable[Figure]]) -> list[Figure]:
    """Return each figure once: several processes report on the same queue. The highest value counts."""
    found: dict[FigureKey, Figure] = {}
    for figure in (figure for figures in several for figure in figures):
        key = figure.name, tuple(sorted(figure.labels.items()))
        if key not in found or figure.value > found[key].value:
            found[key] = figure
    return list(found.values())


def list_known_sources(figures: Iterable[Figure]) -> set[str]:
    """Return the sources that a process could read."""
    return {each.labels.get("source", "") for each in figures if each.name == SOURCE_UP and each.value}


def list_unread_sources(figures: Iterable[Figure]) -> list[str]:
    """Return the sources that nobody could read."""
    figures = list(figures)
    named = {each.labels.get("source", "") for each in figures if each.name == SOURCE_UP}
    return sorted(named - list_known_sources(figures))


def describe_queues(system: System, environment: str, figures: Iterable[Figure]) -> dict[str, QueueState]:
    """Return the state of each queue, by its declared name."""
    names = {each.physical_name(environment): each.name for each in system.queues}
    counts, ages = _group(figures, QUEUE_MESSAGES, "queue"), _group(figures, QUEUE_OLDEST_AGE, "queue")
    return {
        names.get(queue, queue): QueueState(
            visible=int(_sum_state(rows, "visible")),
            in_flight=int(_sum_state(rows, "in_flight")),
            delayed=int(_sum_state(rows, "delayed")),
            dead=int(_sum_state(rows, "dead")) if _has_state(rows, "dead") else None,
            oldest_s=ages[queue][0].value if queue in ages else None,
        )
        for queue, rows in sorted(counts.items())
    }


def describe_outboxes(figures: Iterable[Figure]) -> dict[str, OutboxState]:
    """Return the state of each outbox, over all queues that it sends to."""
    counts, ages = _group(figures, OUTBOX_MESSAGES, "outbox"), _group(figures, OUTBOX_OLDEST_AGE, "outbox")
    return {
        outbox: OutboxState(
            pending=int(_sum_state(rows, "pending")),
            dead=int(_sum_state(rows, "dead")),
            oldest_s=max((each.value for each in ages.get(outbox, ())), default=0.0),
        )
        for outbox, rows in sorted(counts.items())
    }


def describe_actions(figures: Iterable[Figure]) -> dict[str, ActionState]:
    """Return the delayed actions of each declaration."""
    counts = _group(figures, DELAYED_ACTIONS, "actions")
    overdue = _group(figures, DELAYED_ACTIONS_OVERDUE, "actions")
    return {
        name: ActionState(
            waiting=int(_sum_state(rows, "waiting")),
            due=int(_sum_state(rows, "due")),
            overdue_s=max((each.value for each in overdue.get(name, ())), default=0.0),
        )
        for name, rows in sorted(counts.items())
    }


def describe_flows(system: System, figures: Iterable[Figure]) -> dict[str, FlowState]:
    """Return the executions of each flow; those in a wait that accepts answers wait for a person."""
    counts, overdue = _group(figures, FLOW_EXECUTIONS, "flow"), _group(figures, FLOW_OVERDUE, "flow")
    return {
        flow.name: _describe_flow(flow, counts.get(flow.name, []), overdue.get(flow.name, []))
        for flow in system.flows
        if flow.name in counts or flow.name in overdue
    }


def _describe_flow(flow: Flow[Any], rows: list[Figure], overdue: list[Figure]) -> FlowState:
    parked = [each for each in rows if each.labels.get("parked") == "true"]
    running = [each for each in rows if each.labels.get("parked") != "true"]
    asking = [each for each in running if _is_for_person(flow, each.labels.get("state", ""))]
    return FlowState(
        running=int(sum(each.value for each in running)),
        for_person=int(sum(each.value for each in asking)),
        parked=int(sum(each.value for each in parked)),
        overdue=int(sum(each.value for each in overdue)),
    )


def _is_for_person(flow: Flow[Any], state: str) -> bool:
    found = flow.find_state(state)
    return found is not None and isinstance(found.action, Wait) and bool(found.action.answers)


def _group(figures: Iterable[Figure], name: str, label: str) -> dict[str, list[Figure]]:
    """Return the figures of a name by the value of a label."""
    grouped: dict[str, list[Figure]] = {}
    for each in figures:
        if each.name == name:
            grouped.setdefault(each.labels.get(label, ""), []).append(each)
    return grouped


def _sum_state(rows: Iterable[Figure], state: str) -> float:
    return sum(each.value for each in rows if each.labels.get("state") == state)


def _has_state(rows: Iterable[Figure], state: str) -> bool:
    return any(each.labels.get("state") == state for each in rows)


def _is_in_sql(outbox: Any) -> bool:
    """Return whether an outbox is in SQL."""
    return any(each.build_example().store == "sql" for each in outbox.figure_patterns)
