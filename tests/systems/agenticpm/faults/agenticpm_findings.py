"""The normalized results of a run of AgenticPM, so that `test_agenticpm_killed.py` can compare two runs.

Ids and times differ between runs and are left out. Everything else must be the same.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from agenticpm.model import artefacts, patterns, snapshots
from agenticpm.model.entities import Action, Event, EventType, Project, get_utc_day, table
from agenticpm.workers import escalations
from holdfast import Stores
from holdfast.core.clock import Clock
from holdfast.guarantees.idempotency.record import format_key
from holdfast.operations.tables import Scan
from tests.systems.agenticpm.faults.agenticpm_environment import START

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")
_NUMBER = re.compile(r"\b[RDB]\d{3,9}\b")


@dataclass(frozen=True)
class Findings:
    """The state of the stores at the end of a run.

    `references` are the events in the global feed, `by_day` those in the index of days.
    """

    events: list[Event]
    references: list[Event]
    by_day: list[Event]
    actions: list[Action]
    signals: Counter[Any]
    held: Counter[Any]
    questions: Counter[Any]
    artefacts: dict[str, Any]
    tickets: dict[str, Any]
    flags: list[str]

    def list_of_type(self, type: EventType) -> list[Event]:
        return [each for each in self.events if each.event_type == type]


async def collect_findings(stores: Stores, project: Project) -> Findings:
    """Read the events, actions, questions, artefacts and snapshot of a project from the stores."""
    own = list(await stores.all(patterns.project_events(project.id)))
    feed = list(await stores.all(patterns.recent_events()))
    of_none = [each for each in feed if each.project_id is None]
    actions = [
        each for scope in (project.id, None) for each in await stores.all(patterns.project_actions(scope))
    ]
    questions = await escalations.list_of_project(stores, project.id)
    snapshot = await snapshots.load_snapshot(stores, project, await _load_pointer(stores, project))
    assert snapshot is not None, "the checkpoint points to a missing snapshot"
    return Findings(
        events=[*own, *of_none],
        references=[each for each in feed if each.project_id is not None],
        by_day=await _list_by_day(stores, stores.clock),
        actions=actions,
        signals=Counter(
            _summarize_signal(each.detail or {}) for each in own if each.event_type == "signal_detected"
        ),
        held=Counter((each.action_type, _get_reason(each)) for each in actions),
        questions=Counter((_drop_numbers(each.title), str(each.status)) for each in questions),
        artefacts={
            str(each.type): normalize(await artefacts.load_content(stores, each))
            for each in await stores.all(patterns.artefacts(project.id))
        },
        tickets={key: (each.status, each.is_blocked) for key, each in snapshot.tickets.items()},
        flags=sorted(map(_drop_numbers, snapshot.flags)),
    )


async def scan_table(stores: Stores) -> list[Any]:
    """Return every stored item of the table."""
    found: list[Any] = []
    start = None
    while True:
        page = await stores.tables.run(
            Scan(table=table.physical_name("test"), start_key=start, consistent=True)
        )
        found += page.items or ()
        if (start := page.last_key) is None:
            return sorted(found, key=lambda each: (each["PK"], each["SK"]))


def get_reference(action: Action) -> str:
    """Return the reference of an action at the external services."""
    return format_key(action)


def normalize(content: Any) -> Any:
    """Drop ids and times, and sort lists so that their order does not depend on them."""
    if isinstance(content, Mapping):
        return {name: normalize(value) for name, value in content.items() if name != "id"}
    if isinstance(content, list | tuple):
        found = [normalize(each) for each in content]
        return sorted(found, key=lambda each: json.dumps(each, sort_keys=True, default=str))
    return _drop_numbers(_TIME.sub("(time)", content)) if isinstance(content, str) else content


async def _load_pointer(stores: Stores, project: Project) -> snapshots.SeenCheckpoint:
    return await snapshots.read_checkpoint(stores, project.id, project.source, snapshots.SNAPSHOT)


async def _list_by_day(stores: Stores, clock: Clock) -> list[Event]:
    """Return the full events of every day since the start, from the index."""
    days = int((clock.now() - START.timestamp()) / 86400) + 2
    return [
        event
        for number in range(days)
        for event in await stores.all(patterns.events_of_day(get_utc_day(START + timedelta(days=number))))
    ]


def _summarize_signal(detail: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the kind and subject of a signal, which identify it in both runs.

    A risk is identified by its summary without numbers, since its number may differ; a mail also by its id.
    """
    kind = str(detail["signal"])
    if kind.startswith(("risk_", "review_")):
        return kind, _drop_numbers(detail["summary"])
    mail = detail["evidence"][0]["ticket"] if kind == "mail_mention" else ""
    return kind, detail["subject"], mail


def _get_reason(action: Action) -> tuple[str, ...]:
    """Return the signal that caused an action, or its description without times."""
    because = (action.detail or {}).get("because")
    return (_TIME.sub("", action.description),) if because is None else _summarize_signal(because)


def _drop_numbers(text: str) -> str:
    """Replace numbers of risks, decisions and blockers."""
    return _NUMBER.sub("(number)", text)
